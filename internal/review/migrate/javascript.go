// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/syntax"
)

func javaScriptTable() *scriptTable {
	return &scriptTable{
		languages: []syntax.Language{syntax.JavaScript, syntax.TypeScript},
		manifests: []string{"package.json"},
		libraries: []string{
			"opentracing", "jaeger-client", "dd-trace", "@opencensus/nodejs", "@opencensus/nodejs-base", "@opencensus/core", "@opencensus/exporter-zipkin",
			"@opencensus/exporter-jaeger", "@opencensus/exporter-ocagent", "@opencensus/propagation-b3", "@opencensus/propagation-tracecontext",
			"zipkin", "zipkin-context-cls", "zipkin-transport-http",
		},
		prefixes: []string{"zipkin", "@opencensus", "express-opentracing"},
		methods:  append(slices.Clone(scriptMethods), ".startRootSpan(", ".startChildSpan(", ".addAttribute(", ".addAnnotation(", ".currentRootSpan", ".setStatus(", ".recordBinary(", ".recordAnnotation(", ".recordRpc(", ".letId(", ".scoped(", ".local("),
		kinds:    append(slices.Clone(scriptCalls), syntax.Assign),
		prepare:  zipkinPrepare,
		hoist:    (*script).jsHoist,
		call:     javaScriptCall,
		imports:  javaScriptImports,
		manifest: javaScriptManifest,
	}
}

// spanContextOf returns the source of the context for a span or span context.
func (s *script) spanContextOf(n *syntax.Node) (string, bool) {
	present := false
	if receiver, name := n.Called(); name == "context" && s.kind(receiver) == spanValue {
		present = !strings.Contains(string(s.f.Source[receiver.End:n.End]), "?.")
		n = receiver
	}
	switch s.kind(n) {
	case spanValue:
		return s.withSpan(func() string { return s.use("ROOT_CONTEXT") }, n, present)
	case contextValue:
		return s.text(n), true
	}
	if of := s.contextOf(n); of != nil && s.kind(of) == unknownValue {
		return s.withSpan(func() string { return s.use("ROOT_CONTEXT") }, of, true)
	}
	return s.blockAt(n, "It is not known whether %s is a span or a context.", s.brief(n))
}

// withSpan returns the source of a context with a span. In TypeScript, the source tests a span that may be undefined,
// and is the parent context without one, as in JavaScript. present reports whether the code shows that there is a span.
// The context of the active span is the active context.
func (s *script) withSpan(parent func() string, n *syntax.Node, present bool) (string, bool) {
	if n.Kind == syntax.Operator && len(n.Children) == 2 && (n.Text == "??" || n.Text == "||") {
		if other := s.f.Code(n.Children[1]); other == "undefined" || other == "null" {
			n = n.Children[0]
		}
	}
	if s.activeSpan(n) {
		s.mark(n)
		return s.use("context") + ".active()", true
	}
	set := func() string { return fmt.Sprintf("%s.setSpan(%s, %s)", s.use("trace"), parent(), s.text(n)) }
	switch {
	case present || s.f.Language != syntax.TypeScript || s.present(n):
		return set(), true
	case n.Kind == syntax.Name || n.Kind == syntax.Member:
		return s.text(n) + " ? " + set() + " : " + parent(), true
	}
	return s.blockAt(n, "%s may be undefined. Assign it to a variable.", s.brief(n))
}

// activeSpan reports whether an expression is tracer.scope().active() of dd-trace.
func (s *script) activeSpan(n *syntax.Node) bool {
	scope, name := n.Called()
	if name != "active" || scope == nil || len(n.Args()) > 0 {
		return false
	}
	tracer, name := scope.Called()
	return name == "scope" && s.kind(tracer) == tracerValue
}

// present reports whether a span cannot be undefined in TypeScript: an expression or constant that starts it, or a
// parameter of type Span.
func (s *script) present(n *syntax.Node) bool {
	if d := s.f.Definition(n); n.Kind == syntax.Name && d != nil {
		if d.Kind == syntax.Param {
			return (d.Type == "Span" || strings.HasSuffix(d.Type, ".Span")) && !strings.Contains(s.f.Code(d), n.Text+"?")
		}
		if before := bytes.TrimRight(s.f.Source[:d.Start], " \t\r\n"); d.Kind != syntax.Assign || !bytes.HasSuffix(before, []byte("const")) {
			return false
		}
		n = d.Value()
	}
	_, name := n.Called()
	return name == "startSpan" || name == "setTag" || name == "addTags"
}

func javaScriptCall(s *script, c *syntax.Node) (string, bool) {
	if s.unit.zipkin {
		covered := s.done[c]
		if text, ok := s.jsZipkin(c); ok || s.done[c] != covered {
			return text, ok
		}
	}
	if s.unit.census {
		return s.jsCensus(c)
	}
	if c.Kind != syntax.Call {
		return "", false
	}
	receiver, name := c.Method()
	args := c.Args()
	if receiver == nil {
		i, ok := s.f.Imported(name)
		if ok && s.isSource(i.Path) {
			return s.libraryCall(c, i.Member, args)
		}
		return "", false
	}
	statement := c.Parent != nil && c.Parent.Kind == syntax.Block
	code := func() string { return s.receiverText(c) }
	switch k := s.kind(receiver); {
	case k == libraryValue:
		s.done[receiver] = true
		return s.libraryCall(c, name, args)
	case name == "startSpan" && k != tracerValue, (name == "setTag" || name == "addTags" || name == "setOperationName") && k == unknownValue:
		if receiver.Kind == syntax.Name {
			if _, imported := s.f.Imported(receiver.Text); imported {
				return "", false
			}
		}
		return s.failCall(c, "%s may be a method of a span or tracer: what it is called on is not known.", s.brief(c.Callee()))
	case k == unknownValue && (name == "finish" || name == "log" || name == "context") && s.ofUnit(receiver):
		return s.failCall(c, "%s may be a method of a span: what it is called on is not known.", s.brief(c.Callee()))
	case k == tracerValue:
		switch name {
		case "startSpan":
			s.markTracer(receiver)
			return s.jsStart(c, code(), args)
		case "trace", "wrap":
			s.markTracer(receiver)
			return s.ddLocal(c, name, args)
		case "inject":
			if len(args) != 3 || !s.textFormat(args[1]) {
				return s.failCall(c, "The format of inject is in no table.")
			}
			s.mark(receiver) // the propagators are global
			from, ok := s.spanContextOf(args[0])
			return fmt.Sprintf("%s.inject(%s, %s)", s.use("propagation"), from, s.text(args[2])), ok
		case "extract":
			if len(args) != 2 || !s.textFormat(args[0]) {
				return s.failCall(c, "The format of extract is in no table.")
			}
			s.mark(receiver)
			return fmt.Sprintf("%s.extract(%s, %s)", s.use("propagation"), s.use("ROOT_CONTEXT"), s.text(args[1])), true
		case "init":
			return s.ddInit(c, receiver)
		case "close":
			return "", false // the added module has it
		case "scope":
			if c.Parent.Kind == syntax.Member { // followed by a method of the scope
				return "", false
			}
			return s.failCall(c, "%s is in no table.", s.brief(c.Callee()))
		case "use", "setUrl", "dogstatsd", "setUser", "appsec", "profilerStarted":
			return s.failCall(c, "%s is in no table.", s.brief(c.Callee()))
		}
	case k == spanValue:
		switch name {
		case "finish":
			return code() + ".end(" + s.list(args) + ")", true
		case "setOperationName":
			return code() + ".updateName(" + s.list(args) + ")", true
		case "context":
			text, ok := s.spanContextOf(c)
			if strings.Contains(text, " ? ") {
				text = "(" + text + ")"
			}
			return text, ok
		case "setTag":
			if len(args) != 2 {
				return s.failCall(c, "setTag has other arguments than a key and a value.")
			}
			return s.jsTag(c, code(), args[0], args[1], statement)
		case "addTags":
			if len(args) != 1 || args[0].Kind != syntax.Object {
				return s.failCall(c, "The tags of addTags are not known.")
			}
			attributes, ok := s.jsAttributes(args[0], nil)
			if !ok {
				return "", false
			}
			return code() + ".setAttributes(" + attributes + ")", true
		case "log":
			return s.jsLog(c, code(), args)
		case "getBaggageItem":
			return s.jsBaggage(c, receiver)
		case "setBaggageItem", "tracer", "logEvent", "addReference", "addLink":
			return s.failCall(c, "%s is in no table.", s.brief(c.Callee()))
		}
	case k == contextValue && (name == "toTraceId" || name == "toSpanId" || name == "toTraceparent"):
		if of, context := receiver.Called(); context == "context" && s.kind(of) == spanValue && len(args) == 0 && name != "toTraceparent" && !s.unit.rooted {
			return s.receiverText(receiver) + ".spanContext()." + map[string]string{"toTraceId": "traceId", "toSpanId": "spanId"}[name], true
		}
		return s.failCall(c, "%s is in no table.", s.brief(c.Callee()))
	case k == unknownValue && receiver.Kind == syntax.Call:
		inner, scope := receiver.Method()
		if scope != "scope" || s.kind(inner) != tracerValue {
			return "", false
		}
		switch {
		case name == "active" && len(args) == 0:
			s.mark(receiver)
			return s.use("trace") + ".getActiveSpan()", true
		case name == "activate" && len(args) == 2:
			s.mark(receiver)
			with, ok := s.withSpan(func() string { return s.use("context") + ".active()" }, args[0], false)
			return fmt.Sprintf("%s.with(%s, %s)", s.use("context"), with, s.text(args[1])), ok
		case name == "bind" && (len(args) == 1 || len(args) == 2):
			s.mark(receiver)
			context, ok := s.use("context"), true
			active := context + ".active()"
			if len(args) == 2 {
				active, ok = s.withSpan(func() string { return context + ".active()" }, args[1], false)
			}
			return context + ".bind(" + active + ", " + s.text(args[0]) + ")", ok
		}
		return s.failCall(c, "%s is in no table.", s.brief(c.Callee()))
	}
	return "", false
}

func (s *script) list(args []*syntax.Node) string {
	out := lists.Map(args, s.text)
	return strings.Join(out, ", ")
}

// textFormat reports whether a format of propagation is a text format.
func (s *script) textFormat(n *syntax.Node) bool {
	v, ok := s.tagOf(n)
	s.mark(n)
	return ok && (v == "http_headers" || v == "text_map")
}

// libraryCall rewrites a call of a function of opentracing.
func (s *script) libraryCall(c *syntax.Node, name string, args []*syntax.Node) (string, bool) {
	switch name {
	case "globalTracer":
		s.mark(c)
		return s.use("trace") + ".getTracer(" + s.quote(s.scope()) + ")", true
	case "initGlobalTracer":
		if len(args) == 1 && s.kind(args[0]) == tracerValue && args[0].Kind == syntax.Name && c.Parent.Kind == syntax.Block {
			s.mark(c.Callee())
			return "", true
		}
	case "initTracer", "initTracerFromEnv":
		return s.initTracer(c, name)
	case "childOf", "followsFrom":
		return "", false // jsReference rewrites it
	}
	return s.failCall(c, "%s is in no table, or used in a way that no table knows.", s.brief(c.Callee()))
}

// scope returns the name of the instrumentation scope: the file name without its extension.
func (s *script) scope() string {
	name := path.Base(s.f.Path)
	return strings.TrimSuffix(name, path.Ext(name))
}

// markTracer marks the name of the Datadog tracer as covered. A variable with a tracer of OpenTelemetry gets the name.
func (s *script) markTracer(receiver *syntax.Node) {
	if i, ok := s.f.Imported(receiver.Text); ok && receiver.Kind == syntax.Name && isDatadog(i) {
		s.done[receiver], s.tracers[receiver] = true, true
	}
}

// isDatadog reports whether an import is the tracer of Datadog.
func isDatadog(i syntax.Import) bool {
	return i.Path == "dd-trace" && (i.Member == "" || i.Member == "default" || i.Member == "tracer") || i.Path == "ddtrace" && i.Member == "tracer"
}

// ddLocal rewrites tracer.trace(name, options, f) and tracer.wrap(name, options, f) of dd-trace.
func (s *script) ddLocal(c *syntax.Node, method string, args []*syntax.Node) (string, bool) {
	if len(args) < 2 || len(args) > 3 || len(args) == 2 && args[1].Kind == syntax.Object {
		return s.failCall(c, "The arguments of %s are in no table.", method)
	}
	receiver, _ := c.Method()
	name, options, parent, ok := s.jsSpan(c, method, args[:len(args)-1])
	if !ok {
		return "", false
	}
	if parent != "" {
		parent = ", " + parent
	}
	function := map[string]string{"trace": "local", "wrap": "wrap"}[method]
	return s.helper(function) + "(" + s.text(receiver) + ", " + name + ", " + s.text(args[len(args)-1]) + ", " + cmp.Or(options, "{}") + parent + ")", true
}

// helper returns the name in the file for a function of an added module, which it imports.
func (s *script) helper(name string) string {
	if s.helpers[name] == "" {
		s.helpers[name] = s.fresh(name)
	}
	return s.helpers[name]
}

// jsStart rewrites tracer.startSpan(name, options).
func (s *script) jsStart(c *syntax.Node, tracer string, args []*syntax.Node) (string, bool) {
	if len(args) == 2 && args[1].Kind == syntax.Conditional && isCondition(args[1].Children[0]) {
		choice := args[1].Children
		yes, ok := s.jsStart(c, tracer, []*syntax.Node{args[0], choice[1]})
		if !ok {
			return "", false
		}
		no, ok := s.jsStart(c, tracer, []*syntax.Node{args[0], choice[2]})
		text := s.text(choice[0]) + " ? " + yes + " : " + no
		if c.Parent.Kind != syntax.Assign {
			text = "(" + text + ")"
		}
		return text, ok
	}
	name, options, parent, ok := s.jsSpan(c, "startSpan", args)
	if !ok {
		return "", false
	}
	if parent != "" {
		parent = ", " + parent
		options = cmp.Or(options, "{}")
	}
	if options != "" {
		options = ", " + options
	}
	return tracer + ".startSpan(" + name + options + parent + ")", true
}

// jsReference returns the context of childOf(context), followsFrom(context) or new Reference(type, context), or nil.
func (s *script) jsReference(ref *syntax.Node) *syntax.Node {
	args := ref.Args()
	if s.jsClass(ref) == "Reference" && len(args) == 2 {
		kind := args[0].Text
		if i, ok := s.f.Imported(kind); ok && args[0].Kind == syntax.Name {
			kind = i.Member
		}
		if !s.ofLibrary(args[0]) || kind != "REFERENCE_CHILD_OF" && kind != "REFERENCE_FOLLOWS_FROM" {
			return nil
		}
		s.mark(args[0])
		args = args[1:]
	} else if _, f := ref.Method(); ref.Kind != syntax.Call || f != "childOf" && f != "followsFrom" || len(args) != 1 {
		return nil
	}
	s.mark(ref.Callee())
	return args[0]
}

// isCondition reports whether an expression can stand before "?" without parentheses.
func isCondition(n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Name, syntax.Member, syntax.Call:
		return true
	case syntax.Operator:
		return slices.Contains([]string{"!", "==", "===", "!=", "!==", "&&", "||"}, n.Text)
	}
	return false
}

// jsSpan returns the name, the options and the parent of a span for the arguments of startSpan, trace or wrap.
func (s *script) jsSpan(c *syntax.Node, method string, args []*syntax.Node) (name, object, parent string, ok bool) {
	fail := func(n *syntax.Node, format string, a ...any) (string, string, string, bool) {
		s.fail(n, format, a...)
		return "", "", "", false
	}
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && s.object(args[1]).Kind != syntax.Object {
		return fail(c, "The options of %s are no object literal.", method)
	}
	name = s.text(args[0])
	var start jsStarting
	if kind := s.hoists[c]; kind != "" {
		start.kind = spanKinds[kind]
	}
	var options []string
	if len(args) == 2 {
		for _, p := range s.object(args[1]).Children {
			if p.Kind != syntax.Pair || p.Children[0].Kind != syntax.String {
				return fail(p, "%s is no option of %s that a table knows.", s.brief(p), method)
			}
			value := s.object(p.Value())
			switch key := p.Children[0].Text; {
			case key == "childOf" && method != "wrap":
				text, ok := s.spanContextOf(value)
				if !ok || parent != "" {
					return "", "", "", false
				}
				parent = text
			case key == "references" && method == "startSpan":
				if value.Kind != syntax.List || len(value.Children) != 1 || value.Children[0].Kind != syntax.Call && value.Children[0].Kind != syntax.New || parent != "" {
					return fail(p, "A span has one parent in OpenTelemetry; the references are not known, or several.")
				}
				to := s.jsReference(value.Children[0])
				if to == nil {
					return fail(p, "The reference is in no table.")
				}
				text, ok := s.spanContextOf(to)
				if !ok {
					return "", "", "", false
				}
				parent = text
			case key == "tags":
				if value.Kind != syntax.Object {
					return fail(p, "The tags of %s are no object literal.", method)
				}
				attributes, ok := s.jsAttributes(value, &start)
				if !ok {
					return "", "", "", false
				}
				if attributes != "{}" {
					options = append(options, "attributes: "+attributes)
				}
			case key == "startTime" && method == "startSpan":
				options = append(options, "startTime: "+s.text(value))
			case key == "resource" && method != "startSpan":
				start.name = s.text(value)
			case key == "type" && method != "startSpan":
				kind, ok := s.tagOf(value)
				if !ok {
					return fail(p, "The type of the span is not known.")
				}
				start.setType(kind)
				s.mark(value)
			case key == "service" && (method != "startSpan" || s.unit.rooted):
				if !s.ddService(value) {
					return fail(p, anotherService)
				}
			default:
				return fail(p, "The option %s of %s is in no table.", key, method)
			}
		}
	}
	var more []string
	if start.name != "" {
		more = append(more, "'operation.name': "+name)
		name = start.name
	}
	if start.other != "" {
		more = append(more, "'span.type': "+s.quote(start.other))
	}
	if len(more) > 0 {
		added := false
		for i, o := range options {
			if rest, ok := strings.CutPrefix(o, "attributes: {"); ok {
				options[i], added = "attributes: { "+strings.Join(more, ", ")+","+rest, true
			}
		}
		if !added {
			options = append(options, "attributes: { "+strings.Join(more, ", ")+" }")
		}
	}
	if parent == "" && s.unit.rooted && method == "startSpan" {
		options = append(options, "root: true")
	}
	if kind := cmp.Or(start.kind, start.typed); kind != "" {
		options = append([]string{"kind: " + s.use("SpanKind") + "." + strings.ToUpper(kind)}, options...)
	}
	if len(options) > 0 {
		object = "{ " + strings.Join(options, ", ") + " }"
	}
	return name, object, parent, true
}

// jsStarting holds settings from the options and tags of a start that are not attributes.
type jsStarting struct {
	kind, name string
	typed      string // the kind for Datadog's span type
	other      string // Datadog's span type without a kind
}

// setType sets the kind for Datadog's span type.
func (j *jsStarting) setType(name string) {
	if j.typed = datadogTypes[name]; j.typed == "" {
		j.other = name
	}
}

const anotherService = "The span has another service than others; in OpenTelemetry a process has one service."

// oneService reports whether all spans of the unit so far have the same service.
func (s *script) oneService(service *syntax.Node) bool {
	same, ok := s.f.Known(service)
	if !ok {
		same = s.f.Code(service)
	}
	s.unit.service = cmp.Or(s.unit.service, same)
	return s.unit.service == same
}

// ddService removes the service of a Datadog span. It reports whether all spans so far have the same service.
func (s *script) ddService(service *syntax.Node) bool {
	s.mark(service)
	s.note(service, "The service of the span is removed: a span has the service of its process. Set OTEL_SERVICE_NAME to it.")
	return s.oneService(service)
}

// jsAttributes returns the attributes for an object of tags. It stores tags that only a start may have, such as
// span.kind, in start, which is nil for other calls.
func (s *script) jsAttributes(o *syntax.Node, start *jsStarting) (string, bool) {
	var out []string
	multiline := strings.Contains(s.f.Code(o), "\n")
	for _, p := range o.Children {
		if p.Kind == syntax.Spread || p.Kind != syntax.Pair {
			return s.blockAt(p, "%s has tags that are not known.", s.brief(p))
		}
		k, known := s.tagOf(p.Children[0])
		value := p.Value()
		switch {
		case known && (k == "span.kind" || k == "resource.name" || k == "span.type") && start != nil:
			v, ok := s.tagOf(value)
			switch {
			case k == "resource.name":
				start.name = s.text(value)
			case k == "span.type" && ok:
				start.setType(v)
			case k == "span.kind" && spanKinds[v] != "":
				start.kind = spanKinds[v]
			default:
				return s.blockAt(p, "The %s of the span is in no table.", k)
			}
			s.mark(p)
			continue
		case known && (k == "error" || k == "span.kind" || k == "resource.name" || leftTags[k] != ""):
			return s.blockAt(p, "The tag %s is in no table here.", k)
		case s.f.Code(p) == s.f.Code(value): // { rows }
			out = append(out, s.f.Code(p))
			continue
		}
		key := s.f.Code(p.Children[0])
		if known && (p.Children[0].Kind != syntax.String || attributeKey(k) != k) {
			key = s.quote(attributeKey(k))
			s.mark(p.Children[0])
		} else if p.Children[0].Kind != syntax.String {
			key = "[" + s.text(p.Children[0]) + "]"
		}
		out = append(out, key+": "+s.text(value))
	}
	switch {
	case len(out) == 0:
		return "{}", true
	case multiline && len(out) > 2:
		indent := s.indent(o.Start)
		return "{\n" + indent + "    " + strings.Join(out, ",\n"+indent+"    ") + ",\n" + indent + "  }", true
	}
	return "{ " + strings.Join(out, ", ") + " }", true
}

// indent returns the white space at the start of the line of an offset.
func (s *script) indent(at int) string { return lineIndent(s.f.Source, at) }

// jsTag rewrites span.setTag(key, value).
func (s *script) jsTag(c *syntax.Node, span string, key, value *syntax.Node, statement bool) (string, bool) {
	k, known := s.tagOf(key)
	fail := func(format string, a ...any) (string, bool) {
		s.mark(key)
		return s.failCall(c, format, a...)
	}
	switch {
	case known && k == "span.kind":
		s.note(c, lateKind)
		s.mark(key)
		text := s.text(value)
		if kind, ok := s.tagOf(value); ok && value.Kind != syntax.String {
			s.mark(value)
			text = s.quote(kind)
		}
		return span + ".setAttribute(" + s.quote(k) + ", " + text + ")", true
	case known && leftTags[k] != "":
		return fail("The tag %s has no counterpart: %s.", k, leftTags[k])
	case known && (k == "resource.name" || k == "span.name"):
		s.mark(key)
		return span + ".updateName(" + s.text(value) + ")", true
	case known && k == "error":
		s.mark(key)
		if value.Kind == syntax.Bool && value.Text == "true" {
			return span + ".setStatus({ code: " + s.use("SpanStatusCode") + ".ERROR })", true
		}
		if s.isCaught(value) && statement && !s.isBranch(c) {
			e := s.exception(value)
			of := e
			if s.f.Language == syntax.TypeScript {
				of = "(" + e + ")"
			}
			separator := "\n" + s.indent(c.Start)
			if c.End < len(s.f.Source) && s.f.Source[c.End] == ';' {
				separator = ";" + separator
			}
			return fmt.Sprintf("%s.recordException(%s)%s%s.setStatus({ code: %s.ERROR, message: %s.message })", span, e, separator, span, s.use("SpanStatusCode"), of), true
		}
		return fail("The tag error has the value %s, which no table knows.", s.brief(value))
	}
	return span + ".setAttribute(" + s.key(key) + ", " + s.text(value) + ")", true
}

// exception returns the source of an exception. A caught value has the type unknown in strict TypeScript.
func (s *script) exception(n *syntax.Node) string {
	if s.f.Language == syntax.TypeScript && s.isCaught(n) {
		return s.text(n) + " as Error"
	}
	return s.text(n)
}

// isCaught reports whether an expression is the name of a caught error.
func (s *script) isCaught(n *syntax.Node) bool {
	if n.Kind != syntax.Name {
		return false
	}
	d := s.f.Definition(n)
	return d != nil && d.Kind == syntax.Param && d.Parent != nil && d.Parent.Kind == syntax.Catch
}

// jsLog rewrites span.log({ event, ... }).
func (s *script) jsLog(c *syntax.Node, span string, args []*syntax.Node) (string, bool) {
	if len(args) == 0 || len(args) > 2 || args[0].Kind != syntax.Object {
		return s.blockAt(c, "The fields of log are no object literal.")
	}
	event, exception, attributes, ok := s.fields(args[0])
	time := ""
	if len(args) == 2 {
		time = ", " + s.text(args[1])
	}
	if exception != "" {
		return span + ".recordException(" + exception + time + ")", ok
	}
	if attributes != "" {
		attributes = ", { " + attributes + " }"
	}
	return span + ".addEvent(" + event + attributes + time + ")", ok
}

// fields returns the event, the exception and the attributes of the fields that a span logs.
func (s *script) fields(o *syntax.Node) (event, exception, attributes string, ok bool) {
	event = s.quote("log")
	var out []string
	for _, p := range o.Children {
		if p.Kind != syntax.Pair {
			s.blockAt(p, "%s has fields that are not known.", s.brief(p))
			return "", "", "", false
		}
		key, value := p.Children[0], p.Value()
		switch k, _ := s.tagOf(key); {
		case k == "event":
			event = s.text(value)
		case k == "error.object":
			exception = s.exception(value)
		case s.f.Code(p) == s.f.Code(value): // { rows }
			out = append(out, s.f.Code(p))
		case key.Kind == syntax.String || s.f.Language == syntax.Python:
			out = append(out, s.key(key)+": "+s.text(value))
		default:
			out = append(out, "["+s.text(key)+"]: "+s.text(value))
		}
	}
	return event, exception, strings.Join(out, ", "), true
}

const propagationNote = "Requests carry traceparent instead of the old headers. Configure the old propagation beside it until all peers are migrated."

// initTracer rewrites initTracer(config, options) of jaeger-client to a call of the added module.
func (s *script) initTracer(c *syntax.Node, function string) (string, bool) {
	args := c.Args()
	if len(args) == 0 {
		return s.blockAt(c, "The configuration of the tracer is not known.")
	}
	s.mark(c.Callee())
	s.note(c, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the Jaeger agent or collector is configured. "+propagationNote)
	if function == "initTracerFromEnv" {
		s.note(args[0], "JAEGER_* variables are not read any more. Replace them by OTEL_* variables, which apply where this configuration has no value.")
	}
	if len(args) > 1 {
		s.note(args[1], "The options of the tracer are removed: the logger has no counterpart, and tags belong to OTEL_RESOURCE_ATTRIBUTES.")
	}
	return s.helper("initTracer") + "(" + s.text(args[0]) + ")", true
}

// ddInit rewrites require('dd-trace').init(options).
func (s *script) ddInit(c, receiver *syntax.Node) (string, bool) {
	args := c.Args()
	config := "{}"
	if len(args) == 1 && args[0].Kind == syntax.Object {
		var out []string
		for _, p := range args[0].Children {
			key := ""
			if p.Kind == syntax.Pair {
				key, _ = s.tagOf(p.Children[0])
			}
			switch key {
			case "service", "env", "version":
				if key == "service" && s.unit.service == "" {
					s.oneService(p.Value())
				}
				name := map[string]string{"service": "serviceName", "env": "environment", "version": "version"}[key]
				out = append(out, name+": "+s.text(p.Value()))
			case "sampleRate":
				out = append(out, "sampler: { type: "+s.quote("probabilistic")+", param: "+s.text(p.Value())+" }")
			case "logInjection", "runtimeMetrics", "profiling", "startupLogs", "debug", "hostname", "port", "url":
				s.note(p, fmt.Sprintf("The setting %s is removed; OTEL_* variables configure the SDK.", key))
			default:
				return s.blockAt(p, "The setting %s of the Datadog tracer is in no table.", s.brief(p))
			}
		}
		if len(out) > 0 {
			config = "{ " + strings.Join(out, ", ") + " }"
		}
	} else if len(args) > 0 {
		return s.blockAt(c, "The settings of the Datadog tracer are no object literal.")
	}
	s.mark(receiver)
	s.note(c, ddSetupNote)
	return s.helper("initTracer") + "(" + config + ")", true
}

const ddSetupNote = "The Datadog tracer instruments libraries by itself. Add their instrumentation, such as @opentelemetry/auto-instrumentations-node, to the added module, and replace the DD_* variables by OTEL_* variables. " + propagationNote

var (
	jsRequire = `(?m)^[ \t]*(?:const|let|var)\s+(?:\{(?:[^{}]|\{[^{}]*\})*\}|[\w$]+)\s*=\s*require\(\s*['"](?:%s)['"]\s*\)(?:\.[\w$]+)?[ \t]*;?[ \t]*$`
	jsImport  = `(?m)^[ \t]*import\s+(?:type\s+)?[\w$*{}\s,]+\s+from\s+['"](?:%s)['"][ \t]*;?[ \t]*$`
	jsLibrary = `opentracing(?:/[\w/]+)?|jaeger-client|dd-trace(?:/[\w/]+)?|@opencensus/(?:nodejs|nodejs-base|core|exporter-(?:zipkin|jaeger|ocagent)|propagation-(?:b3|tracecontext))|zipkin|zipkin-context-cls|zipkin-transport-http`
	requires  = regexp.MustCompile(fmt.Sprintf(jsRequire, jsLibrary))
	importsES = regexp.MustCompile(fmt.Sprintf(jsImport, jsLibrary))
	ddInits   = regexp.MustCompile(`(?m)^[ \t]*(?:require\(\s*['"]dd-trace/init['"]\s*\)|import\s+['"]dd-trace/init['"])[ \t]*;?[ \t]*$`)
	jsTags    = regexp.MustCompile(`(?m)^[ \t]*(?:const|let|var)\s+\{[^{}]*\}\s*=\s*[\w$]+[ \t]*;?[ \t]*$`)
)

// javaScriptImports replaces the imports of source libraries.
func javaScriptImports(s *script) ([]edit, bool) {
	source := s.f.Source
	var places [][]int
	for _, p := range requires.FindAllIndex(source, -1) {
		if !bytes.HasPrefix(bytes.TrimLeft(source[p[1]:], " \t\r\n"), []byte{'.'}) { // .init() on the next line
			places = append(places, p)
		}
	}
	es := importsES.FindAllIndex(source, -1)
	places = append(places, es...)
	inits := ddInits.FindAllIndex(source, -1)
	places = append(places, inits...)
	slices.SortFunc(places, func(a, b []int) int { return a[0] - b[0] })
	inPlace := func(offset int) bool {
		return slices.ContainsFunc(places, func(p []int) bool { return p[0] <= offset && offset <= p[1] })
	}
	// Remove statements that take names from a library, such as const { Tags } = opentracing.
	tags := jsTags.FindAllIndex(source, -1)
	for n := range s.f.Root.All(syntax.Assign) {
		if n.Value().Kind != syntax.Name {
			continue
		}
		at := sort.Search(len(tags), func(i int) bool { return tags[i][1] >= n.End })
		if at < len(tags) && tags[at][0] <= n.Start && s.ofLibrary(n.Value()) {
			places = append(places, tags[at])
			s.mark(n)
		}
	}
	first := len(source)
	initialized := false // const tracer = require('dd-trace').init(...)
	for _, i := range s.f.Imports {
		if !s.isSource(i.Path) || i.Node == nil || inPlace(i.Node.Start) {
			continue
		}
		if s.done[i.Node] {
			initialized = true
			first = min(first, i.Node.Start)
			continue
		}
		s.blockAt(i.Node, "The import of %s has a form that no table knows.", i.Path)
	}
	for n := range s.f.Root.All(syntax.Name) { // the definitions of the imports themselves
		if inPlace(n.Start) {
			s.done[n] = true
			// A name that is not an import may hold a part of the setup: { jsonEncoder: { JSON_V2 } }.
			if _, ok := s.f.Imported(n.Text); !ok && n.Text != "require" {
				s.settings[n.Text] = n
			}
		}
	}
	var statements []string // after the imports
	for _, i := range s.f.Imports {
		if isDatadog(i) && i.Name != "" && inPlace(i.Node.Start) && s.tracerStays(i.Name, inPlace) {
			statements = append(statements, "const "+i.Name+" = "+s.jsTracer())
		}
	}
	if len(inits) > 0 {
		statements = append(statements, s.helper("initTracer")+"({})")
		s.note(&syntax.Node{Start: inits[0][0]}, ddSetupNote)
	}
	if !s.left() || s.unit.blocked {
		return nil, false
	}
	if s.f.Language == syntax.TypeScript { // types have no nodes
		covered := make([]bool, len(source))
		for n := range s.done {
			if n.Kind == syntax.Name {
				covered[n.Start] = true
			}
		}
		cover := func(start, end int) {
			for i := start; i < end; i++ {
				covered[i] = true
			}
		}
		for n := range s.f.Root.All(syntax.String) {
			cover(n.Start, n.End)
		}
		for _, c := range s.f.Comments {
			cover(c.Start, c.End)
		}
		for _, i := range s.f.Imports {
			if s.isSource(i.Path) && i.Name != "" {
				word := regexp.MustCompile(`\b` + regexp.QuoteMeta(i.Name) + `\b`)
				for _, m := range word.FindAllIndex(source, -1) {
					if inPlace(m[0]) || covered[m[0]] || m[0] > 0 && source[m[0]-1] == '.' {
						continue
					}
					if i.Member == "Span" || i.Member == "Tracer" {
						s.used[i.Name] = i.Member
						continue
					}
					s.blockAt(&syntax.Node{Start: m[0]}, "%s is in no table as a type.", i.Name)
					return nil, false
				}
			}
		}
	}
	if len(places) == 0 && len(s.used) == 0 && len(s.helpers) == 0 && !initialized {
		return nil, true
	}
	var lines []string
	var names []string
	esm := len(es) > 0 || regexp.MustCompile(`(?m)^(import|export)\s`).Match(source)
	for _, local := range slices.Sorted(maps.Keys(s.used)) {
		name := s.used[local]
		if local != name {
			if esm {
				name += " as " + local
			} else {
				name += ": " + local
			}
		}
		names = append(names, name)
	}
	end := ""
	if len(places) > 0 && strings.HasSuffix(strings.TrimSpace(string(source[places[0][0]:places[0][1]])), ";") || len(places) == 0 && strings.Contains(string(source), ";\n") {
		end = ";"
	}
	line := func(from string, names ...string) {
		if esm {
			lines = append(lines, "import { "+strings.Join(names, ", ")+" } from "+s.quote(from)+end)
		} else {
			lines = append(lines, "const { "+strings.Join(names, ", ")+" } = require("+s.quote(from)+")"+end)
		}
	}
	if len(names) > 0 {
		line("@opentelemetry/api", names...)
		s.unit.packages["@opentelemetry/api"] = true
	}
	for _, module := range jsModules {
		var names []string
		for _, name := range module.functions {
			switch local := s.helpers[name]; local {
			case "":
			case name:
				names = append(names, name)
			default:
				names = append(names, name+map[bool]string{true: " as ", false: ": "}[esm]+local)
			}
		}
		if len(names) == 0 {
			continue
		}
		ext, from := path.Ext(s.f.Path), "./"+module.name
		if s.f.Language == syntax.JavaScript && (esm || ext != ".js") {
			from += ext
		}
		line(from, names...)
		s.addModule(module, ext, esm)
	}
	for i := range statements {
		statements[i] += end
	}
	if !esm && len(places) > 0 {
		lines, statements = append(lines, statements...), nil
	}
	var edits []edit
	if len(places) > 0 && (esm || places[0][0] < first) {
		edits, lines = replaceLines(source, places, lines), nil
	} else {
		edits = replaceLines(source, places, nil)
	}
	if len(lines) > 0 {
		at := s.top()
		edits = append(edits, edit{at, at, strings.Join(lines, "\n") + "\n"})
	}
	if len(statements) > 0 {
		at := s.afterImports(places)
		edits = append(edits, edit{at, at, "\n\n" + strings.Join(statements, "\n")})
	}
	return edits, true
}

// tracerStays marks uses of the Datadog tracer as a value as covered. It reports whether code uses the tracer.
func (s *script) tracerStays(name string, inPlace func(int) bool) bool {
	stays := false
	for n := range s.f.Root.All(syntax.Name) {
		if n.Text != name || inPlace(n.Start) || n.Parent == nil {
			continue
		}
		assigned := n.Parent.Kind == syntax.Assign && n.Parent.Value() != n
		if !s.done[n] && !assigned && n.Parent.Kind != syntax.Member {
			s.done[n], s.tracers[n] = true, true
		}
		stays = stays || s.tracers[n]
	}
	return stays
}

// afterImports returns the offset after the first removed import and the imports that directly follow it.
func (s *script) afterImports(places [][]int) int {
	at := places[0][1]
	next := len(s.f.Source)
	for _, n := range s.f.Root.Children {
		if n.Start >= at {
			next = n.Start
			break
		}
	}
	last := at
	for _, i := range s.f.Imports {
		n := i.Node
		if n != nil && n.Parent != nil && n.Parent.Text == "import" { // of Python
			n = n.Parent
		}
		if n == nil || n.Start < at || n.End > next || slices.ContainsFunc(places, func(p []int) bool { return p[0] <= i.Node.Start && i.Node.Start < p[1] }) {
			continue
		}
		line, _, _ := bytes.Cut(s.f.Source[n.End:next], []byte{'\n'})
		last = max(last, n.End+len(line))
	}
	return last
}

// jsModule is a module that a migration adds.
type jsModule struct {
	name, text string
	functions  []string
	packages   []string
}

var jsModules = []jsModule{
	{"opentelemetry", javaScriptSetup, []string{"initTracer"}, []string{"@opentelemetry/exporter-trace-otlp-http", "@opentelemetry/resources", "@opentelemetry/sdk-trace-node"}},
	{"opentelemetry-local", jsLocal, []string{"local", "wrap"}, nil},
}

// top returns the offset of the first statement after directives and comments.
func (s *script) top() int {
	for _, n := range s.f.Root.Children {
		if n.Kind == syntax.String {
			continue
		}
		return lineStart(s.f.Source, n.Start)
	}
	return 0
}

// addModule adds a module to the directory of the file.
func (s *script) addModule(module jsModule, ext string, esm bool) {
	s.unit.packages["@opentelemetry/api"] = true
	for _, p := range module.packages {
		s.unit.packages[p] = true
	}
	text := module.text
	if !esm {
		text = regexp.MustCompile(`(?m)^import (\{[^}]*\}) from ('[^']*')$`).ReplaceAllString(text, "const $1 = require($2)")
		text = strings.ReplaceAll(text, "export function ", "function ") + "\nmodule.exports = { " + strings.Join(module.functions, ", ") + " }\n"
		text = "'use strict'\n\n" + text
	}
	if s.f.Language == syntax.TypeScript {
		text = strings.NewReplacer(
			"initTracer(config)", "initTracer(config: Record<string, any>)",
			"sampler(config)", "sampler(config: any)",
			"close(done)", "close(done?: (err?: unknown) => void)",
			"const attributes = {}", "const attributes: Record<string, string> = {}",
			"local(tracer, name, f, options, parent = context.active())", "local<T>(tracer: any, name: string, f: (span: any, done: any) => T, options?: any, parent = context.active()): T",
			"wrap(tracer, name, f, options)", "wrap<F extends (...args: any[]) => any>(tracer: any, name: string, f: F, options: any): F",
			"Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(f))", "Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(f)) as any",
			"function (...args)", "function (this: any, ...args: any[])", "function (...results)", "function (this: any, ...results: any[])",
			"const end = (err) =>", "const end = (err?: any) =>", "(span, done) =>", "(span: any, done: any) =>",
			"(span) =>", "(span: any) =>", "(err) =>", "(err: any) =>", "(output) =>", "(output: any) =>", "result = options ? f(span) : f()", "result = options ? f(span, undefined) : (f as any)()", "let result\n", "let result: any\n",
		).Replace(text)
	}
	s.unit.created[path.Join(path.Dir(s.f.Path), module.name+ext)] = []byte(text)
}

// javaScriptSetup is the module that sets up the SDK.
//
//go:embed helpers/opentelemetry.js
var javaScriptSetup string

// javaScriptManifest replaces the dependencies of package.json.
func javaScriptManifest(u *scriptUnit) {
	name := path.Join(u.dir, "package.json")
	u.jsonManifest(name)
	if u.rooted && !u.commands("dd-trace") && !slices.ContainsFunc(u.files, func(s *script) bool { return s.helpers["initTracer"] != "" }) {
		u.open(name, 0, "No file initializes the tracer. Replace dd-trace/init in the command of the process by a module that sets up the SDK.")
	}
}
