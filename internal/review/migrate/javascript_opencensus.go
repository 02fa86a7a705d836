// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// jsSettings matches the classes of the setups of OpenCensus and Zipkin for Node.js.
var jsSettings = regexp.MustCompile(`^(\w+TraceExporter|OCAgentExporter|ConsoleExporter|NoopExporter|\w+Format|CLSContext|ExplicitContext|BatchRecorder|ConsoleRecorder|HttpLogger|CountingSampler|Sampler)$`)

// jsClass returns the library's class that an expression instantiates, or "".
func (s *script) jsClass(n *syntax.Node) string {
	if n.Kind != syntax.New || !s.ofLibrary(n.Callee()) {
		return ""
	}
	if c := n.Callee(); c.Kind == syntax.Name {
		i, _ := s.f.Imported(c.Text)
		if i.Path == "zipkin-context-cls" {
			return "CLSContext"
		}
		return i.Member
	}
	return n.Callee().Text
}

var jsDeclares = regexp.MustCompile(`(?:^|[;{}])[ \t]*(const|let|var)[ \t]+$`)

// declares returns the offset of the keyword of a declaration whose name begins at an offset, or -1.
func (s *script) declares(at int) int {
	line := lineStart(s.f.Source, at)
	from := max(line, at-64) // lines may be long
	m := jsDeclares.FindSubmatchIndex(s.f.Source[from:at])
	if m == nil || from > line && m[0] == 0 {
		return -1
	}
	return from + m[2]
}

// jsHoist finds the statements that make parts of the setup.
func (s *script) jsHoist(block *syntax.Node) {
	s.hoist(block)
	if !s.unit.census && !s.unit.zipkin {
		return
	}
	for _, n := range block.Children {
		switch {
		case n.Kind == syntax.Assign && len(n.Children) == 2 && n.Children[0].Kind == syntax.Name && jsSettings.MatchString(s.jsClass(n.Value())):
			name := n.Children[0].Text
			if s.settings[name] != nil || !s.alone(n) {
				s.blockAt(n, "%s is made in a way that no table knows.", name)
				continue
			}
			s.settings[name], s.gone[n] = n.Value(), true
			s.mark(n)
		case n.Kind == syntax.Call && s.unit.census:
			if receiver, name := n.Method(); name == "registerExporter" && receiver != nil && s.kind(receiver) == libraryValue && len(n.Args()) == 1 {
				s.exporter, s.gone[n] = n.Args()[0], true
				s.mark(n)
			}
		}
	}
}

func (s *script) jsCensus(n *syntax.Node) (string, bool) {
	switch n.Kind {
	case syntax.Call:
		return s.jsCensusCall(n)
	case syntax.Name: // const { tracer } = require('@opencensus/nodejs')
		i, ok := s.f.Imported(n.Text)
		if !ok || i.Member != "tracer" || !s.isSource(i.Path) || n == i.Node {
			return "", false
		}
		for p := n.Parent; p != nil; p = p.Parent {
			if p.Kind == syntax.Assign && i.Node.Within(p.Value()) {
				return "", false
			}
		}
		s.done[n] = true
		return s.jsTracer(), true
	case syntax.Assign:
		target := n.Children[0]
		if n.Text != "=" || len(n.Children) != 2 || target.Kind != syntax.Member || s.kind(target.Children[0]) != spanValue {
			return "", false
		}
		switch target.Text {
		case "name":
			return s.text(target.Children[0]) + ".updateName(" + s.text(n.Value()) + ")", true
		case "kind":
			s.blockAt(n, "The kind of a span is set when it starts; here it is set elsewhere.")
		}
	case syntax.Member:
		return s.jsCensusMember(n)
	}
	return "", false
}

func (s *script) jsTracer() string {
	return s.use("trace") + ".getTracer(" + s.quote(s.scope()) + ")"
}

func (s *script) jsCensusMember(n *syntax.Node) (string, bool) {
	if n.Parent != nil && n.Parent.Kind == syntax.Call && n.Parent.Callee() == n {
		return "", false
	}
	of := n.Children[0]
	target := n.Parent != nil && n.Parent.Kind == syntax.Assign && n.Parent.Children[0] == n
	fail := func() (string, bool) {
		return s.fail(n, "%s is in no table, or used in a way that no table knows.", s.brief(n))
	}
	switch k := s.kind(of); {
	case n.Text == "tracer" && k == libraryValue && !target:
		s.mark(n)
		return s.jsTracer(), true
	case n.Text == "tracer" && of.Kind == syntax.Call && s.isStart(of):
		return s.jsCensusSetup(of)
	case k == tracerValue && n.Text == "currentRootSpan" && !target:
		s.mark(n)
		return s.use("trace") + ".getActiveSpan()", true
	case k == tracerValue && slices.Contains([]string{"currentRootSpan", "sampler", "propagation", "active", "activeTraceParams", "eventListeners", "logger"}, n.Text):
		return fail()
	case k == spanValue && !target && n.Text == "id":
		return s.text(of) + ".spanContext().spanId", true
	case k == spanValue && !target && n.Text == "traceId":
		return s.text(of) + ".spanContext().traceId", true
	case k == spanValue && slices.Contains([]string{
		"tracer", "remoteParent", "parentSpanId", "name", "kind", "logger", "status", "attributes", "annotations", "messageEvents", "links", "spans", "numberOfChildren",
		"traceState", "started", "ended", "startTime", "endTime", "duration", "spanContext", "activeTraceParams",
	}, n.Text):
		return fail()
	}
	return "", false
}

// isStart reports whether a call is tracing.start(...) or tracing.registerExporter(exporter).start(...).
func (s *script) isStart(c *syntax.Node) bool {
	receiver, name := c.Method()
	if name != "start" || receiver == nil {
		return false
	}
	if of, name := receiver.Called(); name == "registerExporter" && of != nil {
		receiver = of
	}
	return s.kind(receiver) == libraryValue
}

func (s *script) jsCensusCall(c *syntax.Node) (string, bool) {
	receiver, name := c.Method()
	if receiver == nil {
		return "", false
	}
	args := c.Args()
	unknown := func() (string, bool) {
		return s.failCall(c, "%s is in no table, or used in a way that no table knows.", s.brief(c.Callee()))
	}
	switch k := s.kind(receiver); {
	case s.isStart(c):
		if c.Parent.Kind != syntax.Block {
			return unknown()
		}
		return s.jsCensusSetup(c)
	case k == libraryValue:
		return unknown()
	case k == tracerValue:
		switch name {
		case "startRootSpan":
			return s.jsRootSpan(c)
		case "startChildSpan":
			return s.jsChildSpan(c, s.receiverText(c), "")
		case "wrap", "wrapEmitter":
			if len(args) != 1 {
				return unknown()
			}
			s.mark(receiver)
			context := s.use("context")
			return context + ".bind(" + context + ".active(), " + s.text(args[0]) + ")", true
		case "start", "stop", "clearCurrentTrace", "setCurrentRootSpan", "registerSpanEventListener", "unregisterSpanEventListener", "onStartSpan", "onEndSpan":
			return unknown()
		}
	case k == spanValue:
		switch name {
		case "startChildSpan":
			return s.jsChildSpan(c, s.jsTracer(), s.text(receiver))
		case "addAttribute":
			if len(args) != 2 {
				return unknown()
			}
			return s.receiverText(c) + ".setAttribute(" + s.key(args[0]) + ", " + s.text(args[1]) + ")", true
		case "addAnnotation":
			return s.receiverText(c) + ".addEvent(" + s.list(args) + ")", true
		case "truncate":
			return s.receiverText(c) + ".end()", true
		case "setStatus":
			return s.jsCensusStatus(c)
		case "addLink", "addMessageEvent", "start", "isRootSpan", "allDescendants":
			return unknown()
		}
	case k == unknownValue && slices.Contains([]string{"startRootSpan", "startChildSpan", "addAttribute", "addAnnotation"}, name):
		return s.failCall(c, "%s may be a method of a span or tracer: what it is called on is not known.", s.brief(c.Callee()))
	}
	return "", false
}

// jsCensusStatus rewrites span.setStatus(code, message).
func (s *script) jsCensusStatus(c *syntax.Node) (string, bool) {
	args := c.Args()
	if len(args) == 0 || len(args) > 2 || args[0].Kind != syntax.Number && (args[0].Kind != syntax.Member || !s.ofLibrary(args[0]) || args[0].Children[0].Text != "CanonicalCode") {
		return s.failCall(c, "The status is not known.")
	}
	s.mark(args[0])
	if args[0].Text == "OK" || args[0].Text == "0" {
		return s.receiverText(c) + ".setStatus({ code: " + s.use("SpanStatusCode") + ".OK })", true
	}
	message := ""
	if len(args) == 2 {
		message = ", message: " + s.text(args[1])
	}
	return s.receiverText(c) + ".setStatus({ code: " + s.use("SpanStatusCode") + ".ERROR" + message + " })", true
}

// jsSpanOptions returns the name, the kind and the parent in the options of a span.
func (s *script) jsSpanOptions(c *syntax.Node, options *syntax.Node) (name, kind, parent string, ok bool) {
	fail := func(n *syntax.Node) (string, string, string, bool) {
		s.blockAt(n, "%s is no option of a span that a table knows.", s.brief(n))
		s.mark(c.Callee())
		return "", "", "", false
	}
	name = s.quote("span")
	if options == nil {
		return name, "", "", true
	}
	if options.Kind == syntax.Name { // const options = { name: 'a' }
		if d := s.f.Definition(options); d != nil && d.Kind == syntax.Assign && len(d.Children) == 2 {
			if o := d.Value(); o.Kind == syntax.Object && len(o.Children) == 1 && o.Children[0].Kind == syntax.Pair && o.Children[0].Children[0].Text == "name" {
				return options.Text + ".name", "", "", true
			}
		}
	}
	if options.Kind != syntax.Object {
		return fail(options)
	}
	for _, p := range options.Children {
		if p.Kind != syntax.Pair || p.Children[0].Kind != syntax.String {
			return fail(p)
		}
		switch value := p.Value(); p.Children[0].Text {
		case "name":
			name = s.text(value)
		case "kind":
			k, known := s.tagOf(value)
			if !known || spanKinds[k] == "" {
				return fail(p)
			}
			s.mark(value)
			if k != "internal" {
				kind = "kind: " + s.use("SpanKind") + "." + strings.ToUpper(k)
			}
		case "childOf":
			if s.kind(value) != spanValue {
				return fail(p)
			}
			parent = s.text(value)
		default:
			return fail(p)
		}
	}
	return name, kind, parent, true
}

// jsRootSpan rewrites tracer.startRootSpan(options, f).
func (s *script) jsRootSpan(c *syntax.Node) (string, bool) {
	args := c.Args()
	if len(args) != 2 {
		return s.blockAt(c, "The arguments of startRootSpan are in no table.")
	}
	name, kind, parent, ok := s.jsSpanOptions(c, args[0])
	if !ok || parent != "" {
		return s.blockAt(c, "The options of startRootSpan are in no table.")
	}
	if kind != "" {
		kind += ", "
	}
	return s.receiverText(c) + ".startActiveSpan(" + name + ", { " + kind + "root: true }, " + s.text(args[1]) + ")", true
}

// jsChildSpan rewrites tracer.startChildSpan(options) and parent.startChildSpan(options).
func (s *script) jsChildSpan(c *syntax.Node, tracer, parent string) (string, bool) {
	args := c.Args()
	if len(args) > 1 {
		return s.blockAt(c, "The arguments of startChildSpan are in no table.")
	}
	name, kind, of, ok := s.jsSpanOptions(c, c.Arg(0))
	if !ok {
		return "", false
	}
	if parent == "" {
		parent = of
	} else if of != "" {
		return s.blockAt(c, "The parent of the span is not known.")
	}
	switch {
	case parent != "":
		options := "{}"
		if kind != "" {
			options = "{ " + kind + " }"
		}
		return fmt.Sprintf("%s.startSpan(%s, %s, %s.setSpan(%s.active(), %s))", tracer, name, options, s.use("trace"), s.use("context"), parent), true
	case kind != "":
		return tracer + ".startSpan(" + name + ", { " + kind + " })", true
	}
	return tracer + ".startSpan(" + name + ")", true
}

// jsCensusSetup rewrites tracing.start(config) to a call of the added module.
func (s *script) jsCensusSetup(c *syntax.Node) (string, bool) {
	receiver, _ := c.Method()
	args := c.Args()
	fail := func(n *syntax.Node) (string, bool) {
		s.mark(c.Callee())
		return s.blockAt(n, "%s is in no table as a part of the setup.", s.brief(n))
	}
	exporter, rate, note := s.exporter, "0.0001", "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the old exporter is configured. "
	if receiver.Kind == syntax.Call {
		if len(receiver.Args()) != 1 {
			return fail(receiver)
		}
		exporter = receiver.Args()[0]
	}
	if len(args) > 1 || len(args) == 1 && args[0].Kind != syntax.Object {
		return fail(args[0])
	}
	if len(args) == 1 {
		for _, p := range args[0].Children {
			if p.Kind != syntax.Pair || p.Children[0].Kind != syntax.String {
				return fail(p)
			}
			switch value := p.Value(); p.Children[0].Text {
			case "exporter":
				exporter = value
			case "samplingRate":
				if value.Kind != syntax.Number || strings.Trim(value.Text, "0.") != "" { // 0 is the default
					rate = s.text(value)
				}
			case "propagation":
				if class := s.jsSetting(value); !jsSettings.MatchString(class) {
					return fail(p)
				}
			case "logLevel", "logger", "plugins", "bufferSize", "bufferTimeout", "maximumLabelValueSize", "traceParams":
				s.note(p, "The setting "+p.Children[0].Text+" is removed; OTEL_* variables configure the SDK.")
			default:
				return fail(p)
			}
		}
	}
	service := ""
	if exporter != nil {
		class := s.jsSetting(exporter)
		if !strings.HasSuffix(class, "Exporter") {
			return fail(exporter)
		}
		if options := s.partOf(exporter).Arg(0); options != nil {
			service = s.jsService(options)
		}
	}
	if service == "" {
		note += "Set OTEL_SERVICE_NAME to the name of the service. "
	} else {
		service = "serviceName: " + service + ", "
	}
	s.note(c, note+"OpenCensus instruments libraries by itself. Add their instrumentation, such as @opentelemetry/auto-instrumentations-node, to the added module. "+propagationNote)
	s.mark(c.Callee())
	return s.helper("initTracer") + "({ " + service + "sampler: { type: " + s.quote("probabilistic") + ", param: " + rate + " } })", true
}

// jsService returns the source of the service in the options of an exporter, or "".
func (s *script) jsService(options *syntax.Node) string {
	o, of := options, ""
	if options.Kind == syntax.Name {
		d := s.f.Definition(options)
		if d == nil || d.Kind != syntax.Assign || len(d.Children) != 2 {
			return ""
		}
		o, of = d.Value(), options.Text+".serviceName"
	}
	for _, p := range o.Children {
		if o.Kind == syntax.Object && p.Kind == syntax.Pair && p.Children[0].Text == "serviceName" {
			if of != "" {
				return of
			}
			return s.text(p.Value())
		}
	}
	return ""
}

// jsSetting returns the class of an exporter or propagation: an expression that makes one, or a variable that holds
// one.
func (s *script) jsSetting(n *syntax.Node) string {
	made := s.partOf(n)
	class := s.jsClass(made)
	if class != "" {
		s.mark(n)
		s.mark(made)
	}
	return class
}
