// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	_ "embed"
	"slices"
	"sort"
	"strings"

	"assay/internal/review/syntax"
)

// zipkinStarts maps the annotations that begin a span to its kind. zipkinStops are the annotations that end a span.
var (
	zipkinStarts = map[string]string{"ClientSend": "client", "ServerRecv": "server", "ProducerStart": "producer", "ConsumerStart": "consumer", "LocalOperationStart": "internal"}
	zipkinStops  = []string{"ClientRecv", "ServerSend", "ProducerStop", "ConsumerStop", "LocalOperationStop"}
)

// zipkinPrepare detects zipkin-js and OpenCensus in a project.
func zipkinPrepare(u *scriptUnit) bool {
	for _, s := range u.files {
		for _, i := range s.f.Imports {
			u.zipkin = u.zipkin || i.Path == "zipkin" || strings.HasPrefix(i.Path, "zipkin-")
		}
	}
	return censusPrepare(u)
}

// zipkinCall returns the arguments of a call, and reports whether it calls one of the methods on a tracer.
func (s *script) zipkinCall(n *syntax.Node, methods ...string) ([]*syntax.Node, bool) {
	receiver, name := n.Called()
	return n.Args(), receiver != nil && slices.Contains(methods, name) && s.kind(receiver) == tracerValue
}

// zipkinActive returns the source of the active span, to be followed by a member.
func (s *script) zipkinActive() string { return s.use("trace") + ".getActiveSpan()?" }

// jsZipkin rewrites the nodes of zipkin-js. A node that no table knows is marked.
func (s *script) jsZipkin(n *syntax.Node) (string, bool) {
	fail := func() (string, bool) {
		return s.fail(n, "%s is in no table, or used in a way that no table knows.", s.brief(n))
	}
	switch n.Kind {
	case syntax.New:
		if s.jsClass(n) == "Tracer" {
			return s.zipkinSetup(n)
		}
		return "", false
	case syntax.Member:
		of := n.Children[0]
		switch {
		case n.Parent != nil && n.Parent.Kind == syntax.Call && n.Parent.Callee() == n:
		case of.Kind == syntax.Member && of.Text == "id" && s.kind(of.Children[0]) == tracerValue && (n.Text == "traceId" || n.Text == "spanId"):
			s.mark(n)
			return s.zipkinActive() + ".spanContext()." + n.Text, true
		case s.kind(of) == tracerValue && slices.Contains([]string{"id", "localEndpoint", "recorder", "sampler"}, n.Text):
			return fail()
		case s.kind(of) == spanValue && slices.Contains([]string{"traceId", "spanId", "parentId", "sampled", "flags", "parentSpanId"}, n.Text):
			return fail()
		}
		return "", false
	case syntax.Call:
	default:
		return "", false
	}
	receiver, name := n.Method()
	if receiver == nil || s.kind(receiver) != tracerValue {
		if receiver != nil && s.kind(receiver) == unknownValue && slices.Contains([]string{"createChildId", "createRootId", "recordBinary", "recordAnnotation", "recordRpc", "recordServiceName", "recordMessage", "letId", "setId"}, name) {
			return fail()
		}
		return "", false
	}
	args, statement := n.Args(), n.Parent.Kind == syntax.Block
	done := func(text string, ok bool) (string, bool) {
		if ok {
			s.mark(receiver)
		}
		return text, ok
	}
	switch {
	case name == "local" && len(args) == 2:
		return s.helper("local") + "(" + s.text(receiver) + ", " + s.list(args) + ")", true
	case name == "scoped" && len(args) == 1:
		if text, ok := s.zipkinScoped(n, args[0]); ok {
			return text, true
		}
	case name == "letId" && len(args) == 2:
		if _, create := s.zipkinCall(args[0], "createChildId", "createRootId"); create {
			if text, ok := s.zipkinStart(args[0], s.zipkinBody(args[1]), func() string { return s.text(args[1]) }); ok {
				return text, true
			}
		} else if s.kind(args[0]) == spanValue {
			return done(s.zipkinWith(args[0], s.text(args[1])), true)
		}
	case name == "createChildId" || name == "createRootId":
		if body := s.zipkinUse(n); body != nil {
			if text, ok := s.zipkinStart(n, body, nil); ok {
				return text, true
			}
		}
	case name == "recordBinary" && len(args) == 2 && statement:
		return done(s.zipkinTag(args[0], args[1]))
	case name == "setTags" && len(args) == 1 && args[0].Kind == syntax.Object && statement:
		attributes, ok := s.jsAttributes(args[0], nil)
		return done(s.zipkinActive()+".setAttributes("+attributes+")", ok)
	case name == "recordMessage" && len(args) == 1 && statement:
		return done(s.zipkinActive()+".addEvent("+s.text(args[0])+")", true)
	case name == "recordRpc" && len(args) == 1 && statement:
		return done(s.zipkinActive()+".updateName("+s.text(args[0])+")", true)
	case name == "recordServiceName" && len(args) == 1 && statement && s.oneService(args[0]):
		s.mark(n)
		return "", true
	case name == "recordAnnotation" && len(args) == 1 && statement:
		if text, ok := s.zipkinAnnotation(args[0]); ok {
			s.mark(n.Callee())
			s.mark(args[0].Callee())
			return text, true
		}
	case !slices.Contains([]string{
		"local", "scoped", "letId", "setId", "createChildId", "createRootId", "join", "recordBinary", "setTags", "recordMessage", "recordRpc", "recordServiceName",
		"recordAnnotation", "recordClientAddr", "recordServerAddr", "recordLocalAddr", "writeIdToConsole",
	}, name):
		return "", false
	}
	return fail()
}

// zipkinWith returns the source of a call of a function with a span as the active one.
func (s *script) zipkinWith(span *syntax.Node, f string) string {
	context := s.use("context")
	return context + ".with(" + s.use("trace") + ".setSpan(" + context + ".active(), " + s.text(span) + "), " + f + ")"
}

// zipkinTag rewrites a tag of the active span. The tag error becomes a status.
func (s *script) zipkinTag(key, value *syntax.Node) (string, bool) {
	if k, ok := s.tagOf(key); ok && k == "error" {
		message := ", message: String(" + s.text(value) + ")"
		switch {
		case value.Kind == syntax.Bool && value.Text == "true":
			message = ""
		case value.Kind == syntax.String || value.Kind == syntax.Template || value.Kind == syntax.Member && value.Text == "message":
			message = ", message: " + s.text(value)
		}
		return s.zipkinActive() + ".setStatus({ code: " + s.use("SpanStatusCode") + ".ERROR" + message + " })", true
	}
	return s.zipkinActive() + ".setAttribute(" + s.key(key) + ", " + s.text(value) + ")", true
}

// zipkinAnnotation rewrites an annotation of the active span, unless it begins the span.
func (s *script) zipkinAnnotation(n *syntax.Node) (string, bool) {
	class := s.jsClass(n)
	if slices.Contains(zipkinStops, class) {
		return s.zipkinActive() + ".end()", true
	}
	if n.Kind != syntax.New {
		return "", false
	}
	switch args := n.Args(); {
	case class == "Message" && len(args) == 1:
		return s.zipkinActive() + ".addEvent(" + s.text(args[0]) + ")", true
	case class == "Rpc" && len(args) == 1:
		return s.zipkinActive() + ".updateName(" + s.text(args[0]) + ")", true
	case class == "BinaryAnnotation" && len(args) == 2:
		return s.zipkinTag(args[0], args[1])
	case class == "ServerAddr" && len(args) == 1 && args[0].Kind == syntax.Object:
		var out []string
		for _, p := range args[0].Children {
			key := ""
			if p.Kind == syntax.Pair {
				key = map[string]string{"serviceName": "service.peer.name", "port": "server.port"}[p.Children[0].Text]
			}
			if key == "" {
				return "", false
			}
			out = append(out, s.quote(key)+": "+s.text(p.Value()))
		}
		return s.zipkinActive() + ".setAttributes({ " + strings.Join(out, ", ") + " })", true
	}
	return "", false
}

// zipkinBody returns the statements of a function without parameters, or nil.
func (s *script) zipkinBody(f *syntax.Node) []*syntax.Node {
	if f.Kind != syntax.Func || len(f.Children) != 1 || f.Children[0].Kind != syntax.Block {
		return nil
	}
	return f.Children[0].Children
}

// maxNear is the number of statements after a new id that zipkinUse searches, so that the work stays linear.
const maxNear = 32

// zipkinUse returns the statements of the first function that runs with a new id, or nil.
func (s *script) zipkinUse(create *syntax.Node) []*syntax.Node {
	a := create.Parent
	if a.Kind != syntax.Assign || len(a.Children) != 2 || a.Children[0].Kind != syntax.Name || a.Parent.Kind != syntax.Block {
		return nil
	}
	block := a.Parent.Children
	i := sort.Search(len(block), func(i int) bool { return block[i].Start > a.Start })
	for _, n := range block[i:min(len(block), i+maxNear)] {
		for n.Kind == syntax.Return && len(n.Children) == 1 || n.Kind == syntax.Await || n.Kind == syntax.Assign {
			n = n.Children[len(n.Children)-1]
		}
		if args, ok := s.zipkinCall(n, "letId"); ok && len(args) == 2 && args[0].Text == a.Children[0].Text {
			return s.zipkinBody(args[1])
		}
	}
	return nil
}

// zipkinScoped rewrites tracer.scoped(f) whose f begins with tracer.setId(id).
func (s *script) zipkinScoped(c, f *syntax.Node) (string, bool) {
	body := s.zipkinBody(f)
	if len(body) == 0 {
		return "", false
	}
	var create, declared *syntax.Node
	if a := body[0]; a.Kind == syntax.Assign && len(a.Children) == 2 && a.Children[0].Kind == syntax.Name && len(body) > 1 && s.declares(a.Start) >= 0 {
		if _, ok := s.zipkinCall(a.Value(), "createChildId", "createRootId"); ok {
			create, declared, body = a.Value(), a, body[1:]
		}
	}
	args, ok := s.zipkinCall(body[0], "setId")
	if !ok || len(args) != 1 {
		return "", false
	}
	set := body[0]
	switch _, inline := s.zipkinCall(args[0], "createChildId", "createRootId"); {
	case declared != nil:
		if args[0].Kind != syntax.Name || args[0].Text != declared.Children[0].Text {
			return "", false
		}
	case inline:
		create = args[0]
	case s.kind(args[0]) == spanValue:
		s.gone[set] = true
		s.mark(set)
		receiver, _ := c.Method()
		s.mark(receiver)
		return s.zipkinWith(args[0], s.text(f)), true
	default:
		return "", false
	}
	s.gone[set] = true
	s.mark(set)
	if declared == nil {
		return s.zipkinStart(create, body[1:], func() string { return s.text(f) })
	}
	s.gone[declared] = true
	s.mark(declared)
	head := string(s.f.Source[f.Start:f.Children[0].Start])
	if strings.Count(head, "()") != 1 {
		return "", false
	}
	return s.zipkinStart(create, body[1:], func() string {
		return strings.Replace(head, "()", "("+declared.Children[0].Text+")", 1) + s.text(f.Children[0])
	})
}

// zipkinStart returns the source of the start of a span for tracer.createChildId(parent) or tracer.createRootId(). The
// name and kind of the span come from statements, which follow the call. run returns the source of the function that
// runs in the span, and is nil if there is none.
func (s *script) zipkinStart(create *syntax.Node, statements []*syntax.Node, run func() string) (string, bool) {
	receiver, id := create.Method()
	name, kind, renamed := "", "", false
	var gone []*syntax.Node
	for _, n := range statements {
		args, ok := s.zipkinCall(n, "recordServiceName", "recordRpc", "recordAnnotation")
		if !ok || len(args) != 1 {
			for c := range n.All() { // names that are set later stay
				s.work++
				renamed = renamed || c.Kind == syntax.Member && (c.Text == "recordRpc" || c.Text == "Rpc" || c.Text == "LocalOperationStart")
			}
			continue
		}
		switch _, record := n.Method(); record {
		case "recordServiceName":
			if !s.oneService(args[0]) {
				return s.blockAt(n, anotherService)
			}
			gone = append(gone, n)
		case "recordRpc":
			if name == "" && !renamed && s.isOutside(args[0], statements) {
				name = s.text(args[0])
				gone = append(gone, n)
			}
		case "recordAnnotation":
			class := s.jsClass(args[0])
			if renamed = renamed || class == "Rpc"; zipkinStarts[class] == "" || kind != "" {
				continue
			}
			kind = zipkinStarts[class]
			if class == "LocalOperationStart" {
				if len(args[0].Args()) != 1 || renamed || !s.isOutside(args[0].Args()[0], statements) {
					return "", false
				}
				name = s.text(args[0].Args()[0])
			}
			gone = append(gone, n)
		}
	}
	if kind == "" {
		return s.blockAt(create, "The kind of the span is not known where it starts.")
	}
	for _, n := range gone {
		s.gone[n] = true
		s.mark(n)
	}
	name = cmp.Or(name, s.quote("unknown")) // recordRpc follows
	var options []string
	if kind != "internal" {
		options = append(options, "kind: "+s.use("SpanKind")+"."+strings.ToUpper(kind))
	}
	if id == "createRootId" {
		options = append(options, "root: true")
	}
	args := []string{name}
	parents := create.Args()
	switch {
	case len(options) > 0:
		args = append(args, "{ "+strings.Join(options, ", ")+" }")
	case len(parents) > 0:
		args = append(args, "{}")
	}
	if len(parents) > 1 || len(parents) == 1 && (id == "createRootId" || s.kind(parents[0]) != spanValue) {
		return s.blockAt(create, "The parent of the span is not known.")
	} else if len(parents) == 1 {
		args = append(args, s.use("trace")+".setSpan("+s.use("context")+".active(), "+s.text(parents[0])+")")
	}
	method := ".startSpan("
	if run != nil {
		method = ".startActiveSpan("
		args = append(args, run())
	}
	return s.text(receiver) + method + strings.Join(args, ", ") + ")", true
}

// isOutside reports whether an expression has no calls, and no names that the statements define.
func (s *script) isOutside(n *syntax.Node, statements []*syntax.Node) bool {
	for c := range n.All() {
		if c.Kind == syntax.Call || c.Kind == syntax.Await {
			return false
		}
		if d := s.f.Definition(c); d != nil && slices.ContainsFunc(statements, d.Within) {
			return false
		}
	}
	return true
}

// zipkinSetup rewrites new Tracer({...}) to a call of the added module.
func (s *script) zipkinSetup(c *syntax.Node) (string, bool) {
	fail := func(n *syntax.Node) (string, bool) {
		s.blockAt(n, "%s is in no table as a part of the setup.", s.brief(n))
		s.mark(c)
		return "", false
	}
	args := c.Args()
	if len(args) != 1 || args[0].Kind != syntax.Object {
		return fail(c)
	}
	service, sampler := "", "type: "+s.quote("const")+", param: 1"
	for _, p := range args[0].Children {
		if p.Kind != syntax.Pair || p.Children[0].Kind != syntax.String {
			return fail(p)
		}
		value := p.Value()
		switch p.Children[0].Text {
		case "localServiceName":
			if !s.oneService(value) {
				return s.blockAt(p, "The tracer has another service than spans; in OpenTelemetry a process has one service.")
			}
			service = "serviceName: " + s.text(value) + ", "
		case "ctxImpl", "recorder":
			if !jsSettings.MatchString(s.jsSetting(value)) {
				return fail(p)
			}
		case "sampler":
			made := s.partOf(value)
			switch class := s.jsSetting(value); {
			case class == "CountingSampler" && made.Arg(0) != nil:
				sampler = "type: " + s.quote("probabilistic") + ", param: " + s.text(made.Arg(0))
			case class == "Sampler" && made.Arg(0) != nil && (made.Arg(0).Text == "alwaysSample" || made.Arg(0).Text == "neverSample"):
				sampler = "type: " + s.quote("const") + ", param: " + map[string]string{"alwaysSample": "1", "neverSample": "0"}[made.Arg(0).Text]
			default:
				return fail(p)
			}
		case "traceId128Bit", "supportsJoin", "log":
		default:
			return fail(p)
		}
	}
	note := "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of Zipkin is configured. "
	if service == "" {
		note += "Set OTEL_SERVICE_NAME to the name of the service. "
	}
	s.note(c, note+propagationNote)
	s.mark(c.Callee())
	return s.helper("initTracer") + "({ " + service + "sampler: { " + sampler + " } })", true
}

// jsLocal is the module for tracer.local of zipkin-js, and for tracer.trace and tracer.wrap of dd-trace.
//
//go:embed helpers/opentelemetry-local.js
var jsLocal string
