// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	_ "embed"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

// The classes of the Jaeger client.
const (
	jaegerConfiguration = "io.jaegertracing.Configuration"
	jaegerSampler       = jaegerConfiguration + ".SamplerConfiguration"
	jaegerReporter      = jaegerConfiguration + ".ReporterConfiguration"
	jaegerSender        = jaegerConfiguration + ".SenderConfiguration"
	jaegerTracer        = "io.jaegertracing.internal.JaegerTracer"
	jaegerSamplers      = "io.jaegertracing.internal.samplers."
)

func init() {
	maps.Copy(javaClasses, map[string]javaSource{
		jaegerConfiguration: {}, jaegerSampler: {}, jaegerReporter: {}, jaegerSender: {},
		jaegerTracer:                    {to: "Tracer", super: otTracer},
		jaegerSamplers + "ConstSampler": {}, jaegerSamplers + "ProbabilisticSampler": {},
	})
	javaConstants[jaegerSamplers+"ConstSampler.TYPE"] = "const"
	javaConstants[jaegerSamplers+"ProbabilisticSampler.TYPE"] = "probabilistic"
	const setup, nothing = "`OpenTelemetrySetup.newSdk(service, sampler, argument).getTracer(scope)` of an added class: `AutoConfiguredOpenTelemetrySdk`, OTLP exporter, W3C propagation", "nothing: the SDK reads `OTEL_*` variables"
	maps.Copy(javaRows, map[string]javaRow{
		jaegerConfiguration + ".fromEnv/0":           {result: jaegerConfiguration, doc: "the service of the setup"},
		jaegerConfiguration + ".fromEnv/1":           {result: jaegerConfiguration, doc: "the service of the setup"},
		jaegerConfiguration + ".withServiceName/1":   {result: jaegerConfiguration, doc: "the service of the setup"},
		jaegerConfiguration + ".withSampler/1":       {result: jaegerConfiguration, doc: "the sampler of the setup"},
		jaegerConfiguration + ".withReporter/1":      {result: jaegerConfiguration, doc: nothing},
		jaegerConfiguration + ".withTraceId128Bit/1": {result: jaegerConfiguration, doc: "nothing: OpenTelemetry has no shorter ids"},
		jaegerConfiguration + ".getTracer/0":         {result: jaegerTracer, as: javaNewTracer, doc: setup},
		jaegerSampler + ".fromEnv/0":                 {result: jaegerSampler, doc: nothing},
		jaegerSampler + ".withType/1":                {result: jaegerSampler, doc: "the sampler of the setup, for `const` and `probabilistic`"},
		jaegerSampler + ".withParam/1":               {result: jaegerSampler, doc: "the argument of the sampler"},
		jaegerReporter + ".fromEnv/0":                {result: jaegerReporter, doc: nothing},
		jaegerReporter + ".withLogSpans/1":           {result: jaegerReporter, doc: nothing},
		jaegerReporter + ".withFlushInterval/1":      {result: jaegerReporter, doc: nothing},
		jaegerReporter + ".withMaxQueueSize/1":       {result: jaegerReporter, doc: nothing},
		jaegerReporter + ".withSender/1":             {result: jaegerReporter, doc: nothing},
		jaegerSender + ".fromEnv/0":                  {result: jaegerSender, doc: nothing},
		jaegerSender + ".withAgentHost/1":            {result: jaegerSender, doc: nothing},
		jaegerSender + ".withAgentPort/1":            {result: jaegerSender, doc: nothing},
		jaegerSender + ".withEndpoint/1":             {result: jaegerSender, doc: nothing},
		otGlobal + ".register/1":                     {result: "void", as: javaRegister, doc: "nothing: the setup registers the SDK"},
		otGlobal + ".registerIfAbsent/1":             {result: "boolean", as: javaRegister, doc: "nothing: the setup registers the SDK"},
		otTracer + ".close/0":                        {result: "void", as: javaClose, doc: "nothing: the SDK is shut down with the JVM"},
	})
}

// javaSetup holds the settings of a configuration of the Jaeger client or of Brave.
type javaSetup struct {
	service  *syntax.Node // nil if it comes from the environment
	sampler  string       // the type, "" if it comes from the environment
	param    *syntax.Node
	constant string         // parameter of the sampler const, "" if param holds it
	locals   []*syntax.Node // declarations of variables for parts, and calls that close them
}

// javaSetups reads the configurations of the Jaeger client and of Brave in a file, and removes the variables for their
// parts.
func (s *script) javaSetups() {
	for c := range s.f.Root.All(syntax.Call) {
		if len(c.Args()) != 0 {
			continue
		}
		receiver, name := c.Method()
		if receiver == nil || name != "getTracer" && name != "build" {
			continue
		}
		if t := s.typeOf(receiver); t != jaegerConfiguration && t != braveBuilder {
			continue
		}
		setup := &javaSetup{}
		if !setup.read(s, receiver, 0) {
			s.fail(c, "The configuration of the tracer has parts that no table knows.")
			continue
		}
		s.java.setups[c] = setup
		s.unit.java.setups++
		for _, d := range setup.locals {
			s.gone[d] = true
			s.mark(d)
			e := s.statementEdit(d)
			s.java.removed = append(s.java.removed, [2]int{e.start, e.end})
		}
	}
}

// read reads a configuration or a part of one. It returns false if the tables do not have all of it.
func (j *javaSetup) read(s *script, n *syntax.Node, depth int) bool {
	if depth > 100 {
		return false
	}
	switch n.Kind {
	case syntax.Name:
		in, d := s.javaDefinition(n)
		f := n.Enclosing(syntax.Func)
		if in != s || d == nil || d.Kind != syntax.Assign || !isDeclaration(d) || f == nil || !d.Within(f) {
			return false
		}
		uses := 0
		for other := range f.All() {
			if s.work++; other.Kind != syntax.Name || other.Text != n.Text {
				continue
			}
			if c := other.Parent.Parent; other.Parent.Kind == syntax.Member && (other.Parent.Text == "close" || other.Parent.Text == "flush") && c.Kind == syntax.Call && c.Callee() == other.Parent && c.Parent.Kind == syntax.Block && c.Enclosing(syntax.Try, syntax.Func) == f {
				j.locals = append(j.locals, c)
				continue
			}
			uses++
		}
		j.locals = append(j.locals, d)
		return uses == 2 && j.read(s, d.Value(), depth+1)
	case syntax.New:
		args := n.Args()
		switch t := s.typeOf(n); {
		case t == jaegerConfiguration && len(args) == 1:
			j.service = args[0]
			return true
		case t == jaegerSampler && len(args) == 2:
			return j.sample(s, args[0], args[1])
		}
		return len(args) == 0
	case syntax.Call:
		receiver, name := n.Method()
		args := n.Args()
		if receiver == nil {
			return false
		}
		t := strings.TrimPrefix(s.typeOf(receiver), "class ")
		row := javaRowOf(t, name, len(args))
		if row == nil || row.as != nil {
			return false
		}
		static := strings.HasPrefix(s.typeOf(receiver), "class ")
		if !static && !j.read(s, receiver, depth+1) {
			return false
		}
		switch name {
		case "fromEnv", "withServiceName", "localServiceName":
			if len(args) == 1 {
				j.service = args[0]
			}
		case "withType":
			return j.sample(s, args[0], j.param)
		case "withParam":
			j.param = args[0]
		case "withSampler", "withReporter", "withSender", "addSpanHandler":
			return j.read(s, args[0], depth+1)
		case "sampler":
			switch v, _ := s.javaKnown(args[0]); v {
			case "always":
				j.sampler, j.constant = "const", "1"
			case "never":
				j.sampler, j.constant = "const", "0"
			default:
				return j.read(s, args[0], depth+1)
			}
		case "create":
			if t == braveSampler {
				j.sampler, j.param = "probabilistic", args[0]
			} else if isLibrary(s, s.typeOf(args[0])) {
				return j.read(s, args[0], depth+1)
			}
		}
		return true
	}
	return false
}

// sample sets the sampler. It returns false if its name is unknown.
func (j *javaSetup) sample(s *script, name, param *syntax.Node) bool {
	var ok bool
	j.sampler, ok = s.javaKnown(name)
	j.param = param
	return ok
}

// isDeclaration reports whether an assignment declares a local variable.
func isDeclaration(d *syntax.Node) bool {
	return d.Parent != nil && d.Parent.Kind == syntax.Block && d.Type != ""
}

func javaNewTracer(s *script, c *syntax.Node) (string, bool) {
	sdk, ok := s.newSDK(c)
	return sdk + ".getTracer(" + s.javaScope() + ")", ok
}

// newSDK returns the call of an added class that sets up the SDK with the settings of a tracer. It adds the class to
// the unit.
func (s *script) newSDK(c *syntax.Node) (string, bool) {
	setup := s.java.setups[c]
	if setup == nil {
		return s.fail(c, "The configuration of the tracer has parts that no table knows.")
	}
	const class = "OpenTelemetrySetup"
	name := path.Join(path.Dir(s.f.Path), class+".java")
	module, _ := nearest(name, s.unit.manifests(javaManifests...))
	for other := range s.unit.created {
		if at, _ := nearest(other, s.unit.manifests(javaManifests...)); path.Base(other) == class+".java" && other != name && at == module {
			return s.fail(c, "Packages of one program set up a tracer each: OpenTelemetry has one setup.")
		}
	}
	sampler, argument := "null", "null"
	switch value := setup.constant; setup.sampler {
	case "const":
		if value == "" && setup.param != nil {
			value = strings.TrimRight(s.f.Code(setup.param), ".0fdFD")
		}
		switch {
		case value == "1":
			sampler = strconv.Quote("parentbased_always_on")
		case setup.constant == "0" || setup.param != nil && setup.param.Kind == syntax.Number && value == "":
			sampler = strconv.Quote("parentbased_always_off")
		default:
			return s.fail(c, "The parameter of the sampler is not known.")
		}
	case "probabilistic":
		if setup.param == nil {
			return s.fail(c, "The parameter of the sampler is not known.")
		}
		sampler, argument = strconv.Quote("parentbased_traceidratio"), "String.valueOf("+s.text(setup.param)+")"
		if setup.param.Kind == syntax.Number {
			argument = strconv.Quote(strings.TrimRight(setup.param.Text, "fdFD"))
		}
	case "":
		if s.typeOf(c) == braveTracing {
			break // always on, as in OpenTelemetry
		}
		s.note(c, "The sampler comes from OTEL_TRACES_SAMPLER instead of JAEGER_SAMPLER_TYPE, and is always on without it.")
	default:
		return s.fail(c, "The sampler %q is in no table.", setup.sampler)
	}
	service := "null"
	if setup.service != nil {
		service = s.text(setup.service)
	} else {
		s.note(c, "The service comes from OTEL_SERVICE_NAME.")
	}
	s.note(c, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the old collector is configured. "+propagationNote)
	s.mark(c)
	s.setup = true
	return class + ".newSdk(" + service + ", " + sampler + ", " + argument + ")", s.addClass(c, class, javaSetupClass)
}

// addClass adds a class to the package of the file, for a call. It returns false if the class exists.
func (s *script) addClass(c *syntax.Node, class, text string) bool {
	if s.unit.java.classes[class] != nil || s.java.idents[class] {
		s.fail(c, "The migration adds the class %s, but it exists.", class)
		return false
	}
	if s.f.Package != "" {
		text = "package " + s.f.Package + ";\n\n" + text
	}
	s.unit.created[path.Join(path.Dir(s.f.Path), class+".java")] = []byte(text)
	return true
}

// javaSetupClass is the class that sets up the SDK, without its package.
//
//go:embed helpers/OpenTelemetrySetup.java
var javaSetupClass string

// javaRegister removes the registration of the tracer of the Jaeger client.
func javaRegister(s *script, c *syntax.Node) (string, bool) {
	a := c.Args()[0]
	if a.Kind == syntax.Func && len(a.Children) == 1 { // a supplier
		a = a.Body()
	}
	tracer := slices.Contains([]string{otTracer, jaegerTracer}, s.typeOf(a))
	if s.unit.java.setups == 0 || !tracer || c.Parent.Kind != syntax.Block {
		return s.fail(c, "The tracer is not made by the configuration of the Jaeger client, or registered in a way that no table knows.")
	}
	s.mark(c.Callee())
	if a.Kind == syntax.Call {
		return s.text(a), true
	}
	s.mark(a)
	return "", true
}

// javaClose removes the statement that closes a tracer.
func javaClose(s *script, c *syntax.Node) (string, bool) {
	if s.unit.java.setups == 0 || c.Parent.Kind != syntax.Block {
		return s.fail(c, "%s is in no table.", s.brief(c.Callee()))
	}
	s.mark(c)
	return "", true
}

// javaGlobalTracer rewrites GlobalTracer.get(). GlobalOpenTelemetry cannot be set after its first use.
func javaGlobalTracer(s *script, c *syntax.Node) (string, bool) {
	if d := c.Parent; s.unit.java.setups > 0 && d.Kind == syntax.Assign && d.Parent.Kind == syntax.Class {
		before := s.f.Source[:d.Start]
		if at := bytes.LastIndexAny(before, ";{}"); bytes.Contains(before[at+1:], []byte("static ")) {
			if len(s.java.setups) > 0 {
				return s.fail(c, "The field is set before the tracer is registered. GlobalOpenTelemetry keeps what it has when it is read first.")
			}
			s.note(c, "The class has to be initialized after the SDK is registered: GlobalOpenTelemetry keeps what it has when it is read first.")
		}
	}
	return s.expand("@GlobalOpenTelemetry.getTracer($scope)", c), true
}

// javaResource rewrites try (Tracer tracer = ...) { ... } to a block without the resource: the SDK is shut down with
// the JVM.
func (s *script) javaResource(n *syntax.Node) (string, bool) {
	body := n.Body()
	for i, r := range n.Children[:len(n.Children)-1] {
		t := s.typeOf(r)
		if r.Kind == syntax.Assign {
			t = s.declaredType(s, r)
		}
		if t != otTracer && t != jaegerTracer && t != braveTracing {
			continue
		}
		if i > 0 || len(n.Children) != 2 || r.Kind != syntax.Assign || s.unit.java.setups == 0 || s.f.Source[body.Start] != '{' {
			return s.fail(r, "The tracer is a resource of a try statement in a way that no table knows.")
		}
		open := "{"
		if p := n.Parent; p.Kind == syntax.Block && p.Parent != nil && p.Parent.Kind == syntax.Try && p.Parent.Start == n.Start {
			open = "try {"
		}
		inner := s.indent(n.Start) + "    "
		if len(body.Children) > 0 && s.indent(body.Children[0].Start) != s.indent(n.Start) {
			inner = s.indent(body.Children[0].Start)
		}
		return open + "\n" + inner + s.javaUse(javaClasses[t].to) + " " + r.Children[0].Text + " = " + s.text(r.Value()) + ";" + s.text(body)[1:], true
	}
	return "", false
}
