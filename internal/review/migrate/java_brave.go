// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"maps"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// The classes of Brave.
const (
	braveTracing    = "brave.Tracing"
	braveBuilder    = braveTracing + ".Builder"
	braveTracer     = "brave.Tracer"
	braveInScope    = braveTracer + ".SpanInScope"
	braveSpan       = "brave.Span"
	braveKind       = braveSpan + ".Kind"
	braveScoped     = "brave.ScopedSpan"
	braveCustomizer = "brave.SpanCustomizer"
	braveContext    = "brave.propagation.TraceContext"
	braveSampler    = "brave.sampler.Sampler"
)

func init() {
	maps.Copy(javaClasses, map[string]javaSource{
		braveTracing: {to: "OpenTelemetry"}, braveBuilder: {}, braveTracer: {to: "Tracer"}, braveInScope: {to: "Scope"},
		braveSpan: {to: "Span", super: braveCustomizer}, braveKind: {to: "SpanKind"}, braveScoped: {to: "Span", super: braveCustomizer},
		braveCustomizer: {to: "Span"}, braveContext: {to: "Context"}, braveSampler: {},
	})
	for _, kind := range []string{"CLIENT", "SERVER", "PRODUCER", "CONSUMER"} {
		javaConstants[braveKind+"."+kind] = strings.ToLower(kind)
	}
	javaConstants[braveSampler+".ALWAYS_SAMPLE"], javaConstants[braveSampler+".NEVER_SAMPLE"] = "always", "never"
	const nothing = "nothing: the setup has an OTLP exporter"
	tag := func(s *script, c *syntax.Node) (string, bool) { return s.javaTag(c, false) }
	maps.Copy(javaRows, map[string]javaRow{
		braveTracing + ".newBuilder/0":           {result: braveBuilder, doc: "the setup"},
		braveTracing + ".currentTracer/0":        {result: braveTracer, as: javaGlobalTracer, doc: "`GlobalOpenTelemetry.getTracer(scope)`"},
		braveTracing + ".tracer/0":               {result: braveTracer, to: "$r.getTracer($scope)"},
		braveTracing + ".close/0":                {result: "void", as: javaClose, doc: "nothing: the SDK is shut down with the JVM"},
		braveBuilder + ".localServiceName/1":     {result: braveBuilder, doc: "the service of the setup"},
		braveBuilder + ".sampler/1":              {result: braveBuilder, doc: "the sampler of the setup"},
		braveBuilder + ".addSpanHandler/1":       {result: braveBuilder, doc: nothing},
		braveBuilder + ".traceId128Bit/1":        {result: braveBuilder, doc: "nothing: OpenTelemetry has no shorter ids"},
		braveBuilder + ".supportsJoin/1":         {result: braveBuilder, doc: "nothing: a span of OpenTelemetry has one process"},
		braveBuilder + ".build/0":                {result: braveTracing, as: (*script).newSDK, doc: "`OpenTelemetrySetup.newSdk(service, sampler, argument)` of an added class"},
		braveSampler + ".create/1":               {result: braveSampler, doc: "the sampler of the setup"},
		braveTracer + ".nextSpan/0":              {result: braveSpan, doc: "`tracer.spanBuilder(name)` with what follows until `start()`"},
		braveTracer + ".newTrace/0":              {result: braveSpan, doc: "`tracer.spanBuilder(name).setNoParent()` with what follows until `start()`"},
		braveTracer + ".newChild/1":              {result: braveSpan, doc: "`tracer.spanBuilder(name).setParent(context)` with what follows until `start()`"},
		braveTracer + ".currentSpan/0":           {result: braveSpan, to: "@Span.current()"},
		braveTracer + ".currentSpanCustomizer/0": {result: braveCustomizer, to: "@Span.current()"},
		braveTracer + ".withSpanInScope/1":       {result: braveInScope, to: "$0.makeCurrent()"},
		braveTracer + ".startScopedSpan/1":       {result: braveScoped, as: braveScopedSpan, doc: "`tracer.spanBuilder(name).startSpan()`, with `span.makeCurrent()` as the resource of the `try` that follows"},
		braveInScope + ".close/0":                {result: "void", to: "$r.close()"},
		braveSpan + ".start/0":                   {result: braveSpan, as: braveStart, doc: "`builder.startSpan()`"},
		braveSpan + ".start/1":                   {result: braveSpan, as: braveStart, doc: "`builder.setStartTimestamp(a, TimeUnit.MICROSECONDS).startSpan()`"},
		braveSpan + ".kind/1":                    {result: braveSpan, doc: "`builder.setSpanKind(kind)`, before the start"},
		braveSpan + ".annotate/2":                {result: braveSpan, to: "$r.addEvent($1, $0, @TimeUnit.MICROSECONDS)"},
		braveSpan + ".remoteServiceName/1":       {result: braveSpan, to: "$r.setAttribute(\"" + attributeKey("peer.service") + "\", $0)"},
		braveSpan + ".context/0":                 {result: braveContext, to: "@Context.current().with($r)"},
		braveSpan + ".finish/0":                  {result: "void", to: "$r.end()"},
		braveSpan + ".finish/1":                  {result: "void", to: "$r.end($0, @TimeUnit.MICROSECONDS)"},
		braveSpan + ".error/1":                   {result: braveSpan, to: "$r.recordException($0).setStatus(@StatusCode.ERROR)"},
		braveScoped + ".error/1":                 {result: braveScoped, to: "$r.recordException($0).setStatus(@StatusCode.ERROR)"},
		braveScoped + ".name/1":                  {result: braveScoped, to: "$r.updateName($0)"},
		braveScoped + ".tag/2":                   {result: braveScoped, as: tag, doc: "as `SpanCustomizer.tag`"},
		braveScoped + ".annotate/1":              {result: braveScoped, to: "$r.addEvent($0)"},
		braveScoped + ".finish/0":                {result: "void", to: "$r.end()"},
		braveScoped + ".context/0":               {result: braveContext, to: "@Context.current().with($r)"},
		braveCustomizer + ".name/1":              {result: braveCustomizer, to: "$r.updateName($0)"},
		braveCustomizer + ".tag/2":               {result: braveCustomizer, as: tag, doc: "`span.setAttribute(key, value)`; `span.setStatus(StatusCode.ERROR, value)` for `error`"},
		braveCustomizer + ".annotate/1":          {result: braveCustomizer, to: "$r.addEvent($0)"},
		braveSpan + ".name/1":                    {result: braveSpan, to: "$r.updateName($0)"},
		braveSpan + ".tag/2":                     {result: braveSpan, as: tag, doc: "as `SpanCustomizer.tag`; `builder.setAttribute(key, value)` before the start"},
		braveSpan + ".annotate/1":                {result: braveSpan, to: "$r.addEvent($0)"},
		braveContext + ".traceIdString/0":        {result: "String", as: func(s *script, c *syntax.Node) (string, bool) { return s.javaID(c, "getTraceId") }, doc: "`span.getSpanContext().getTraceId()`"},
		braveContext + ".spanIdString/0":         {result: "String", as: func(s *script, c *syntax.Node) (string, bool) { return s.javaID(c, "getSpanId") }, doc: "`span.getSpanContext().getSpanId()`"},
	})
	// Classes that only setups use.
	for _, class := range []string{"brave.AsyncZipkinSpanHandler", "brave.ZipkinSpanHandler", "urlconnection.URLConnectionSender", "okhttp3.OkHttpSender"} {
		javaClasses["zipkin2.reporter."+class] = javaSource{}
		javaRows["zipkin2.reporter."+class+".create/1"] = javaRow{result: "zipkin2.reporter." + class, doc: nothing}
	}
}

// braveStart rewrites tracer.nextSpan().name(name).start(). In Brave, a span is also its builder.
func braveStart(s *script, c *syntax.Node) (string, bool) {
	calls := chain(c)
	root := len(calls) - 1
	if root < 0 {
		return s.fail(c, "The start is apart from the call that makes the span: no table knows that form.")
	}
	of, method := calls[root].Method()
	if s.typeOf(of) != braveTracer { // tracing.tracer().nextSpan()
		root = slices.IndexFunc(calls, func(call *syntax.Node) bool {
			receiver, _ := call.Method()
			return s.typeOf(receiver) == braveTracer
		})
		if root < 0 {
			return s.fail(c, "The start is apart from the call that makes the span: no table knows that form.")
		}
		_, method = calls[root].Method()
	}
	name, options := "", ""
	switch method {
	case "newTrace":
		options = s.gap(calls[root]) + ".setNoParent()"
	case "newChild":
		context, ok := s.javaContext(calls[root].Args()[0])
		if !ok {
			return "", false
		}
		options = s.gap(calls[root]) + ".setParent(" + context + ")"
	case "nextSpan":
	default:
		return s.fail(c, "%s is in no table.", s.brief(calls[root].Callee()))
	}
	for _, call := range slices.Backward(calls[:root]) {
		_, method := call.Method()
		args := call.Args()
		switch {
		case method == "name" && len(args) == 1:
			name = s.text(args[0])
		case method == "kind" && len(args) == 1:
			kind, ok := s.javaKnown(args[0])
			if !ok {
				return s.fail(call, "The kind of the span is not known.")
			}
			s.mark(args[0])
			options += s.gap(call) + ".setSpanKind(" + s.javaUse("SpanKind") + "." + strings.ToUpper(kind) + ")"
		case method == "tag" && len(args) == 2:
			if k, known := s.javaKnown(args[0]); known && (k == "error" || leftTags[k] != "") {
				return s.fail(call, "The tag %s is in no table here.", k)
			}
			options += s.gap(call) + ".setAttribute(" + s.javaKey(args[0]) + ", " + s.text(args[1]) + ")"
		case method == "remoteServiceName" && len(args) == 1:
			options += s.gap(call) + ".setAttribute(\"" + attributeKey("peer.service") + "\", " + s.text(args[0]) + ")"
		default:
			return s.fail(call, "%s is in no table.", s.brief(call.Callee()))
		}
	}
	if name == "" {
		return s.fail(c, "The name of the span is not known when it starts.")
	}
	if args := c.Args(); len(args) == 1 {
		options += s.gap(c) + ".setStartTimestamp(" + s.text(args[0]) + ", " + s.javaUse("TimeUnit") + ".MICROSECONDS)"
	}
	return s.receiverText(calls[root]) + ".spanBuilder(" + name + ")" + options + s.gap(c) + ".startSpan()", true
}

// gap returns the white space before the dot of a call, which may begin a line.
func (s *script) gap(c *syntax.Node) string {
	receiver, name := c.Method()
	between := string(s.f.Source[receiver.End : c.Callee().End-len(name)])
	if at := strings.IndexByte(between, '.'); at >= 0 && strings.TrimSpace(between[:at]) == "" {
		return between[:at]
	}
	return ""
}

// braveScopedSpan rewrites ScopedSpan span = tracer.startScopedSpan(name), and the try statement after it.
func braveScopedSpan(s *script, c *syntax.Node) (string, bool) {
	unknown := func() (string, bool) {
		return s.fail(c, "startScopedSpan is in the table with a try statement that follows it and finishes the span in finally.")
	}
	d := c.Parent
	if d == nil || !isDeclaration(d) || d.Value() != c {
		return unknown()
	}
	at := slices.Index(d.Parent.Children, d)
	if at+1 == len(d.Parent.Children) {
		return unknown()
	}
	try := d.Parent.Children[at+1]
	if try.Kind != syntax.Try || try.Children[len(try.Children)-1].Kind != syntax.Finally || try.Body().Start <= try.Start {
		return unknown()
	}
	finishes := 0
	for n := range d.Enclosing(syntax.Func, syntax.Class).All() {
		if s.work++; n.Kind != syntax.Call || len(n.Args()) > 0 {
			continue
		}
		receiver, name := n.Method()
		if receiver == nil || name != "finish" || receiver.Kind != syntax.Name {
			continue
		}
		if _, of := s.javaDefinition(receiver); of == d {
			if !n.Within(try.Children[len(try.Children)-1]) {
				return unknown()
			}
			finishes++
		}
	}
	if finishes != 1 {
		return unknown()
	}
	if s.java.scopes[d] == "" {
		s.java.scopes[d] = s.newLocal(d, "scope")
		s.java.insert(edit{try.Start + len("try"), try.Start + len("try"), " (" + s.javaUse("Scope") + " " + s.java.scopes[d] + " = " + d.Children[0].Text + ".makeCurrent())"})
	}
	return s.receiverText(c) + ".spanBuilder(" + s.text(c.Args()[0]) + ").startSpan()", true
}
