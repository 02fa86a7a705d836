// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"maps"
	"strings"

	"assay/internal/review/syntax"
)

// The classes of OpenCensus.
const (
	censusTracing   = "io.opencensus.trace.Tracing"
	censusTracer    = "io.opencensus.trace.Tracer"
	censusBuilder   = "io.opencensus.trace.SpanBuilder"
	censusSpan      = "io.opencensus.trace.Span"
	censusKind      = censusSpan + ".Kind"
	censusContext   = "io.opencensus.trace.SpanContext"
	censusTraceID   = "io.opencensus.trace.TraceId"
	censusSpanID    = "io.opencensus.trace.SpanId"
	censusScope     = "io.opencensus.common.Scope"
	censusAttribute = "io.opencensus.trace.AttributeValue"
	censusStatus    = "io.opencensus.trace.Status"
)

func init() {
	maps.Copy(javaClasses, map[string]javaSource{
		censusTracing: {}, censusTracer: {to: "Tracer"}, censusBuilder: {to: "SpanBuilder"}, censusSpan: {to: "Span"}, censusKind: {to: "SpanKind"},
		censusContext: {to: "SpanContext"}, censusTraceID: {}, censusSpanID: {}, censusScope: {to: "Scope"}, censusAttribute: {}, censusStatus: {},
	})
	javaConstants[censusKind+".CLIENT"], javaConstants[censusKind+".SERVER"] = "client", "server"
	javaConstants[censusStatus+".OK"] = "ok"
	for _, status := range []string{
		"CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "UNAUTHENTICATED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	} {
		javaConstants[censusStatus+"."+status] = "error"
	}
	maps.Copy(javaRows, map[string]javaRow{
		censusTracing + ".getTracer/0":                    {result: censusTracer, as: javaGlobalTracer, doc: "`GlobalOpenTelemetry.getTracer(scope)`"},
		censusTracer + ".spanBuilder/1":                   {result: censusBuilder, to: "$r.spanBuilder($0)"},
		censusTracer + ".spanBuilderWithExplicitParent/2": {result: censusBuilder, as: censusParent, doc: "`tracer.spanBuilder(name).setParent(Context.current().with(span))`; `setNoParent()` for null"},
		censusTracer + ".spanBuilderWithRemoteParent/2":   {result: censusBuilder, to: "$r.spanBuilder($0).setParent(@Context.current().with(@Span.wrap($1)))"},
		censusTracer + ".getCurrentSpan/0":                {result: censusSpan, to: "@Span.current()"},
		censusTracer + ".withSpan/1":                      {result: censusScope, to: "$0.makeCurrent()"},
		censusBuilder + ".setSpanKind/1":                  {result: censusBuilder, as: censusSetKind, doc: "`builder.setSpanKind(kind)`"},
		censusBuilder + ".startSpan/0":                    {result: censusSpan, to: "$r.startSpan()"},
		censusBuilder + ".startScopedSpan/0":              {result: censusScope, as: javaStartActive, doc: "`builder.startSpan()` before a `try` with `span.makeCurrent()`, and `span.end()` in its `finally`"},
		censusSpan + ".putAttribute/2":                    {result: "void", as: censusPutAttribute, doc: "`span.setAttribute(key, value)`"},
		censusSpan + ".addAnnotation/1":                   {result: "void", as: censusAnnotate, doc: "`span.addEvent(text)`"},
		censusSpan + ".addAnnotation/2":                   {result: "void", as: censusAnnotate, doc: "`span.addEvent(text, attributes)`"},
		censusSpan + ".setStatus/1":                       {result: "void", as: censusSetStatus, doc: "`span.setStatus(StatusCode.ERROR, description)`; `StatusCode.OK` for OK"},
		censusSpan + ".getContext/0":                      {result: censusContext, to: "$r.getSpanContext()"},
		censusSpan + ".end/0":                             {result: "void", to: "$r.end()"},
		censusContext + ".getTraceId/0":                   {result: censusTraceID, to: "$r.getTraceId()"},
		censusContext + ".getSpanId/0":                    {result: censusSpanID, to: "$r.getSpanId()"},
		censusContext + ".isValid/0":                      {result: "boolean", to: "$r.isValid()"},
		censusTraceID + ".toLowerBase16/0":                {result: "String", to: "$r"},
		censusSpanID + ".toLowerBase16/0":                 {result: "String", to: "$r"},
		censusScope + ".close/0":                          {result: "void", to: "$r.close()"},
		censusAttribute + ".stringAttributeValue/1":       {result: censusAttribute, doc: "the value"},
		censusAttribute + ".longAttributeValue/1":         {result: censusAttribute, doc: "the value"},
		censusAttribute + ".doubleAttributeValue/1":       {result: censusAttribute, doc: "the value"},
		censusAttribute + ".booleanAttributeValue/1":      {result: censusAttribute, doc: "the value"},
		censusStatus + ".withDescription/1":               {result: censusStatus, doc: "the description of the status"},
	})
}

func censusParent(s *script, c *syntax.Node) (string, bool) {
	text := s.receiverText(c) + ".spanBuilder(" + s.text(c.Args()[0]) + ")"
	if c.Args()[1].Kind == syntax.Null {
		return text + ".setNoParent()", true
	}
	context, ok := s.javaContext(c.Args()[1])
	return text + ".setParent(" + context + ")", ok
}

func censusSetKind(s *script, c *syntax.Node) (string, bool) {
	kind, ok := s.javaKnown(c.Args()[0])
	if !ok {
		return s.fail(c, "The kind of the span is not known.")
	}
	s.mark(c.Args()[0])
	return s.receiverText(c) + ".setSpanKind(" + s.javaUse("SpanKind") + "." + strings.ToUpper(kind) + ")", true
}

// censusValue returns the source of the value of an AttributeValue.
func (s *script) censusValue(n *syntax.Node) (string, bool) {
	if n.Kind == syntax.Call && len(n.Args()) == 1 {
		receiver, name := n.Method()
		static := receiver != nil && s.typeOf(receiver) == "class "+censusAttribute
		if i, ok := s.f.Imported(name); receiver == nil && ok && i.Path == censusAttribute {
			static = true
		}
		if static && javaRowOf(censusAttribute, name, 1) != nil {
			s.mark(n.Callee())
			return s.text(n.Args()[0]), true
		}
	}
	return s.fail(n, "The value %s is no literal AttributeValue.", s.brief(n))
}

func censusPutAttribute(s *script, c *syntax.Node) (string, bool) {
	value, ok := s.censusValue(c.Args()[1])
	if !ok {
		return "", false
	}
	return s.receiverText(c) + ".setAttribute(" + s.javaKey(c.Args()[0]) + ", " + value + ")", true
}

func censusAnnotate(s *script, c *syntax.Node) (string, bool) {
	args := c.Args()
	if s.typeOf(args[0]) != "String" {
		return s.fail(c, "The annotation is not known to be a string.")
	}
	attributes := ""
	if len(args) == 2 {
		pairs, ok := javaPairs(args[1])
		if !ok {
			return s.fail(c, "The attributes of the annotation are no literal map.")
		}
		s.mark(args[1].Callee())
		for i := 0; i < len(pairs); i += 2 {
			value, ok := s.censusValue(pairs[i+1])
			if !ok {
				return "", false
			}
			attributes += ".put(" + s.javaKey(pairs[i]) + ", " + value + ")"
		}
		attributes = ", " + s.javaUse("Attributes") + ".builder()" + attributes + ".build()"
	}
	return s.receiverText(c) + ".addEvent(" + s.text(args[0]) + attributes + ")", true
}

func censusSetStatus(s *script, c *syntax.Node) (string, bool) {
	status, description := c.Args()[0], ""
	if status.Kind == syntax.Call {
		receiver, name := status.Method()
		if name != "withDescription" || len(status.Args()) != 1 {
			return s.fail(c, "The status is not known.")
		}
		status, description = receiver, ", "+s.text(status.Args()[0])
	}
	code, ok := s.javaKnown(status)
	if !ok {
		return s.fail(c, "The status is not known.")
	}
	s.mark(status)
	return s.receiverText(c) + ".setStatus(" + s.javaUse("StatusCode") + "." + strings.ToUpper(code) + description + ")", true
}
