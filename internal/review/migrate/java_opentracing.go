// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

// The classes of OpenTracing.
const (
	otTracer   = "io.opentracing.Tracer"
	otBuilder  = "io.opentracing.Tracer.SpanBuilder"
	otSpan     = "io.opentracing.Span"
	otContext  = "io.opentracing.SpanContext"
	otScope    = "io.opentracing.Scope"
	otScopes   = "io.opentracing.ScopeManager"
	otGlobal   = "io.opentracing.util.GlobalTracer"
	otTags     = "io.opentracing.tag.Tags"
	otTag      = "io.opentracing.tag.Tag"
	otFields   = "io.opentracing.log.Fields"
	otFormat   = "io.opentracing.propagation.Format"
	otCarriers = "io.opentracing.propagation.TextMap"
)

// javaClasses are the classes of the source libraries.
var javaClasses = map[string]javaSource{
	otTracer:                     {to: "Tracer"},
	otBuilder:                    {to: "SpanBuilder"},
	otSpan:                       {to: "Span"},
	otContext:                    {to: "Context"},
	otScope:                      {to: "Scope"},
	otScopes:                     {},
	otGlobal:                     {super: otTracer},
	otTags:                       {},
	otTag:                        {},
	otFields:                     {},
	"io.opentracing.References":  {},
	otFormat:                     {},
	otFormat + ".Builtin":        {},
	otCarriers + "Adapter":       {},
	otCarriers + "InjectAdapter": {}, otCarriers + "ExtractAdapter": {},
}

// javaConstants are the constants of the source libraries.
var javaConstants = map[string]string{
	otTags + ".SPAN_KIND_SERVER": "server", otTags + ".SPAN_KIND_CLIENT": "client", otTags + ".SPAN_KIND_PRODUCER": "producer", otTags + ".SPAN_KIND_CONSUMER": "consumer",
	otTags + ".HTTP_URL": "http.url", otTags + ".HTTP_STATUS": "http.status_code", otTags + ".HTTP_METHOD": "http.method",
	otTags + ".PEER_ADDRESS": "peer.address", otTags + ".PEER_HOST_IPV4": "peer.ipv4", otTags + ".PEER_HOST_IPV6": "peer.ipv6",
	otTags + ".PEER_SERVICE": "peer.service", otTags + ".PEER_HOSTNAME": "peer.hostname", otTags + ".PEER_PORT": "peer.port",
	otTags + ".SAMPLING_PRIORITY": "sampling.priority", otTags + ".SPAN_KIND": "span.kind", otTags + ".COMPONENT": "component", otTags + ".ERROR": "error",
	otTags + ".DB_TYPE": "db.type", otTags + ".DB_INSTANCE": "db.instance", otTags + ".DB_USER": "db.user", otTags + ".DB_STATEMENT": "db.statement",
	otTags + ".MESSAGE_BUS_DESTINATION": "message_bus.destination",
	otFields + ".ERROR_KIND":            "error.kind", otFields + ".ERROR_OBJECT": "error.object", otFields + ".EVENT": "event", otFields + ".MESSAGE": "message", otFields + ".STACK": "stack",
	"io.opentracing.References.CHILD_OF": "child_of", "io.opentracing.References.FOLLOWS_FROM": "follows_from",
	otFormat + ".Builtin.HTTP_HEADERS": "text", otFormat + ".Builtin.TEXT_MAP": "text",
	otFormat + ".Builtin.TEXT_MAP_INJECT": "text", otFormat + ".Builtin.TEXT_MAP_EXTRACT": "text",
}

// javaConstantType returns the type of a constant of a source library.
func javaConstantType(name string) string {
	class := name[:strings.LastIndexByte(name, '.')]
	switch {
	case class == otTags && !strings.Contains(name, ".SPAN_KIND_"):
		return otTag
	case class == otFormat+".Builtin":
		return otFormat
	case class == braveKind || class == braveSampler || class == censusKind || class == censusStatus:
		return class
	}
	return "String"
}

// javaRows are the methods of the source libraries by class, name and number of arguments.
var javaRows = map[string]javaRow{}

func init() { // the rows refer to functions that refer to the rows
	maps.Copy(javaRows, map[string]javaRow{
		otGlobal + ".get/0":                 {result: otTracer, as: javaGlobalTracer, doc: "`GlobalOpenTelemetry.getTracer(scope)`"},
		otTracer + ".buildSpan/1":           {result: otBuilder, to: "$r.spanBuilder($0)"},
		otTracer + ".activateSpan/1":        {result: otScope, to: "$0.makeCurrent()"},
		otTracer + ".activeSpan/0":          {result: otSpan, to: "@Span.current()"},
		otTracer + ".scopeManager/0":        {result: otScopes},
		otTracer + ".inject/3":              {result: "void", as: javaInject, doc: "`GlobalOpenTelemetry.getPropagators().getTextMapPropagator().inject(context, map, Map::put)`, for a text map"},
		otTracer + ".extract/2":             {result: otContext, as: javaExtract, doc: "`GlobalOpenTelemetry.getPropagators().getTextMapPropagator().extract(Context.current(), map, getter)`, for a text map"},
		otScopes + ".activate/1":            {result: otScope, to: "$0.makeCurrent()"},
		otScopes + ".activeSpan/0":          {result: otSpan, to: "@Span.current()"},
		otScopes + ".active/0":              {result: otScope},
		otBuilder + ".asChildOf/1":          {result: otBuilder, as: javaParent, doc: "`builder.setParent(Context.current().with(span))`; `builder.setParent(context)` for a span context"},
		otBuilder + ".addReference/2":       {result: otBuilder, as: javaReference, doc: "`builder.setParent(context)`, for the only reference"},
		otBuilder + ".ignoreActiveSpan/0":   {result: otBuilder, as: javaRoot, doc: "`builder.setNoParent()`; nothing if the span has a parent"},
		otBuilder + ".withTag/2":            {result: otBuilder, as: func(s *script, c *syntax.Node) (string, bool) { return s.javaTag(c, true) }, doc: "`builder.setAttribute(key, value)`, or by key: `builder.setSpanKind(kind)`"},
		otBuilder + ".withStartTimestamp/1": {result: otBuilder, to: "$r.setStartTimestamp($0, @TimeUnit.MICROSECONDS)"},
		otBuilder + ".start/0":              {result: otSpan, as: javaStart, doc: "`builder.startSpan()`"},
		otBuilder + ".startManual/0":        {result: otSpan, as: javaStart, doc: "`builder.startSpan()`"},
		otBuilder + ".startActive/1":        {result: otScope, as: javaStartActive, doc: "`builder.startSpan()` before a `try` with `span.makeCurrent()`, and `span.end()` in its `finally`"},
		otSpan + ".context/0":               {result: otContext, to: "@Context.current().with($r)"},
		otSpan + ".setTag/2":                {result: otSpan, as: func(s *script, c *syntax.Node) (string, bool) { return s.javaTag(c, false) }, doc: "`span.setAttribute(key, value)`, or by key: `span.setStatus(StatusCode.ERROR)`, the kind of the span"},
		otSpan + ".log/1":                   {result: otSpan, as: javaLog, doc: "`span.addEvent(event, attributes)`; `span.recordException(err)` for an `error.object`"},
		otSpan + ".log/2":                   {result: otSpan, as: javaLog, doc: "`span.addEvent(event, attributes, time, TimeUnit.MICROSECONDS)`"},
		otSpan + ".setOperationName/1":      {result: otSpan, to: "$r.updateName($0)"},
		otSpan + ".setBaggageItem/2":        {result: otSpan},
		otSpan + ".getBaggageItem/1":        {result: "String"},
		otSpan + ".finish/0":                {result: "void", to: "$r.end()"},
		otSpan + ".finish/1":                {result: "void", to: "$r.end($0, @TimeUnit.MICROSECONDS)"},
		otContext + ".toTraceId/0":          {result: "String", as: func(s *script, c *syntax.Node) (string, bool) { return s.javaID(c, "getTraceId") }, doc: "`span.getSpanContext().getTraceId()`"},
		otContext + ".toSpanId/0":           {result: "String", as: func(s *script, c *syntax.Node) (string, bool) { return s.javaID(c, "getSpanId") }, doc: "`span.getSpanContext().getSpanId()`"},
		otScope + ".close/0":                {result: "void", to: "$r.close()"},
		otScope + ".span/0":                 {result: otSpan, as: javaScopeSpan, doc: "the variable of the span"},
		otTag + ".getKey/0":                 {result: "String", as: javaKeyOf, doc: "the key of the attribute"},
		otTag + ".set/2":                    {result: "void", as: func(s *script, c *syntax.Node) (string, bool) { return s.javaTag(c, false) }, doc: "as `span.setTag`"},
	})
}

// javaKnown returns the value of a literal, or of a constant of the file or a source library.
func (s *script) javaKnown(n *syntax.Node) (string, bool) {
	if v, ok := s.f.Known(n); ok {
		return v, true
	}
	if receiver, name := n.Called(); receiver != nil && name == "getKey" && len(n.Args()) == 0 {
		n = receiver
	}
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return "", false
	}
	name, ok := s.javaStatic(n)
	if !ok {
		return "", false
	}
	v, ok := javaConstants[name]
	return v, ok
}

// javaKey returns the source of the key of an attribute.
func (s *script) javaKey(n *syntax.Node) string {
	k, known := s.javaKnown(n)
	if known && (attributeKey(k) != k || n.Kind != syntax.String && s.typeOf(n) == otTag) {
		s.mark(n)
		return strconv.Quote(attributeKey(k))
	}
	return s.text(n)
}

func javaKeyOf(s *script, c *syntax.Node) (string, bool) {
	k, ok := s.javaKnown(c)
	if !ok {
		return s.fail(c, "The key of %s is not known.", s.brief(c.Callee().Children[0]))
	}
	s.mark(c)
	return strconv.Quote(attributeKey(k)), true
}

// javaTagged returns the span, the key and the value of span.setTag(key, value), tag.set(span, value) and
// builder.withTag(key, value).
func (s *script) javaTagged(c *syntax.Node) (span, key, value *syntax.Node) {
	receiver, name := c.Method()
	if name == "set" {
		return c.Args()[0], receiver, c.Args()[1]
	}
	return receiver, c.Args()[0], c.Args()[1]
}

// javaTag rewrites a call that sets a tag.
func (s *script) javaTag(c *syntax.Node, builder bool) (string, bool) {
	span, key, value := s.javaTagged(c)
	k, known := s.javaKnown(key)
	if !known && s.typeOf(key) == otTag {
		return s.fail(c, "The tag %s is not known.", s.brief(key))
	}
	var text string
	if span == c.Callee().Children[0] {
		text = s.receiverText(c)
	} else {
		text = s.text(span)
	}
	v, constant := s.javaKnown(value)
	switch {
	case known && k == "span.kind":
		if builder && constant && spanKinds[v] != "" {
			s.mark(key)
			s.mark(value)
			return text + ".setSpanKind(" + s.javaUse("SpanKind") + "." + strings.ToUpper(v) + ")", true
		}
		if builder || !constant {
			return s.fail(c, "The kind of the span is not known.")
		}
		s.note(c, lateKind)
		s.mark(key)
		s.mark(value)
		return text + ".setAttribute(" + strconv.Quote(k) + ", " + strconv.Quote(v) + ")", true
	case known && k == "resource.name" && !builder:
		s.mark(key)
		return text + ".updateName(" + s.text(value) + ")", true
	case known && k == "resource.name":
		return s.fail(c, "The resource is the name of the span in OpenTelemetry, but its builder has the operation.")
	case known && k == "span.type" && builder && constant && datadogTypes[v] != "":
		s.mark(key)
		s.mark(value)
		return text + ".setSpanKind(" + s.javaUse("SpanKind") + "." + strings.ToUpper(datadogTypes[v]) + ")", true
	case known && leftTags[k] != "":
		return s.fail(c, "The tag %s has no counterpart: %s.", k, leftTags[k])
	case known && k == "error" && strings.HasPrefix(s.typeOf(span), "brave."):
		s.mark(key)
		return text + ".setStatus(" + s.javaUse("StatusCode") + ".ERROR, " + s.text(value) + ")", true
	case known && k == "error":
		s.mark(key)
		if code := s.f.Code(value); !builder && (code == "true" || code == "Boolean.TRUE" || v == "true") {
			return text + ".setStatus(" + s.javaUse("StatusCode") + ".ERROR)", true
		}
		return s.fail(c, "The tag error has a value or a place that no table knows.")
	case value.Kind == syntax.Null:
		return s.fail(c, "The tag has no value.")
	case known && k == "peer.ipv4" && s.typeOf(value) != "String":
		return s.fail(c, "The address is not known to be a string.")
	}
	switch t := s.typeOf(value); t {
	case "Number", "BigDecimal", "BigInteger", "AtomicInteger", "AtomicLong":
		return s.fail(c, "The value %s is a %s, which no attribute is.", s.brief(value), t)
	}
	return text + ".setAttribute(" + s.javaKey(key) + ", " + s.text(value) + ")", true
}

// chain returns the calls before a call in its chain, nearest first.
func chain(c *syntax.Node) []*syntax.Node {
	var calls []*syntax.Node
	for {
		receiver, _ := c.Method()
		if receiver == nil || receiver.Kind != syntax.Call {
			return calls
		}
		calls = append(calls, receiver)
		c = receiver
	}
}

// hasParent reports whether one of the calls on a builder sets a parent.
func hasParent(calls []*syntax.Node) bool {
	return slices.ContainsFunc(calls, func(c *syntax.Node) bool {
		_, name := c.Method()
		return name == "asChildOf" || name == "addReference"
	})
}

// onlyParent reports whether a call is the only one that sets a parent of its builder. Otherwise it blocks the unit.
func (s *script) onlyParent(c *syntax.Node) bool {
	calls := chain(c)
	if hasParent(calls) {
		s.fail(c, "A span has one parent, but its builder gets several.")
		return false
	}
	root := c
	if len(calls) > 0 {
		root = calls[len(calls)-1]
	}
	builder, _ := root.Method()
	f := c.Enclosing(syntax.Func)
	if builder == nil || builder.Kind != syntax.Name || f == nil || s.typeOf(builder) != otBuilder {
		return true
	}
	for n := range f.All() {
		if s.work++; n != c && n.Kind == syntax.Call && !c.Within(n) {
			if receiver, name := n.Method(); (name == "asChildOf" || name == "addReference") && receiver.Kind == syntax.Name && receiver.Text == builder.Text {
				s.fail(c, "A span has one parent, but its builder gets several.")
				return false
			}
		}
	}
	if p := c.Enclosing(syntax.Loop); p != nil && p.Within(f) {
		if _, d := s.javaDefinition(builder); d != nil && !d.Within(p) {
			s.fail(c, "A span has one parent, but its builder gets several.")
			return false
		}
	}
	return true
}

// javaContext returns the source of the context for a span or span context.
func (s *script) javaContext(n *syntax.Node) (string, bool) {
	switch s.typeOf(n) {
	case otSpan, braveSpan, braveScoped, censusSpan:
		return s.javaUse("Context") + ".current().with(" + s.text(n) + ")", true
	case otContext, braveContext:
		return s.text(n), true
	}
	return s.fail(n, "It is not known whether %s is a span or a context.", s.brief(n))
}

func javaParent(s *script, c *syntax.Node) (string, bool) {
	if !s.onlyParent(c) {
		return "", false
	}
	context, ok := s.javaContext(c.Args()[0])
	return s.receiverText(c) + ".setParent(" + context + ")", ok
}

func javaReference(s *script, c *syntax.Node) (string, bool) {
	if _, ok := s.javaKnown(c.Args()[0]); !ok {
		return s.fail(c, "The type of the reference is in no table.")
	}
	s.mark(c.Args()[0])
	if !s.onlyParent(c) {
		return "", false
	}
	context, ok := s.javaContext(c.Args()[1])
	return s.receiverText(c) + ".setParent(" + context + ")", ok
}

// javaRoot rewrites ignoreActiveSpan(), which has no effect with a parent. A later setParent overrides setNoParent.
func javaRoot(s *script, c *syntax.Node) (string, bool) {
	if hasParent(chain(c)) {
		return s.receiverText(c), true
	}
	if receiver, _ := c.Method(); receiver.Kind == syntax.Name {
		return s.fail(c, "ignoreActiveSpan of a variable is in no table: it is not known whether the span has a parent.")
	}
	return s.receiverText(c) + ".setNoParent()", true
}

func javaStart(s *script, c *syntax.Node) (string, bool) {
	return s.javaStartText(c), true
}

// javaStartText returns the call that starts the span of a builder, with the kind that a later statement sets.
func (s *script) javaStartText(c *syntax.Node) string {
	builder := s.receiverText(c)
	if kind := s.hoists[c]; kind != "" {
		line := builder[len(strings.TrimRight(builder, " \t\r\n")):]
		builder += ".setSpanKind(" + s.javaUse("SpanKind") + "." + strings.ToUpper(kind) + ")" + line
	}
	return builder + ".startSpan()"
}

func (s *script) javaID(c *syntax.Node, method string) (string, bool) {
	receiver, _ := c.Method()
	if span, name := receiver.Called(); name == "context" && (s.typeOf(span) == otSpan || s.typeOf(span) == braveSpan || s.typeOf(span) == braveScoped) {
		return s.text(span) + ".getSpanContext()." + method + "()", true
	}
	return s.javaUse("Span") + ".fromContext(" + s.receiverText(c) + ").getSpanContext()." + method + "()", true
}

// javaCarrier returns the source of the map in new TextMapAdapter(map). The format must be a text format.
func (s *script) javaCarrier(format, carrier *syntax.Node, adapters ...string) (string, bool) {
	if v, _ := s.javaKnown(format); v != "text" {
		return s.fail(format, "The format %s is in no table.", s.brief(format))
	}
	s.mark(format)
	if carrier.Kind != syntax.New || len(carrier.Args()) != 1 || !slices.Contains(adapters, strings.TrimPrefix(s.typeOf(carrier), otCarriers)) {
		return s.fail(carrier, "The carrier %s is in no table.", s.brief(carrier))
	}
	s.mark(carrier.Callee())
	return s.text(carrier.Args()[0]), true
}

func javaInject(s *script, c *syntax.Node) (string, bool) {
	s.mark(c.Callee()) // with the tracer, as the propagators are global
	context, ok := s.javaContext(c.Args()[0])
	if !ok {
		return "", false
	}
	carrier, ok := s.javaCarrier(c.Args()[1], c.Args()[2], "Adapter", "InjectAdapter")
	if !ok {
		return "", false
	}
	s.note(c, propagationNote)
	return s.javaUse("GlobalOpenTelemetry") + ".getPropagators().getTextMapPropagator().inject(" + context + ", " + carrier + ", " + s.javaUse("Map") + "::put)", true
}

func javaExtract(s *script, c *syntax.Node) (string, bool) {
	s.mark(c.Callee())
	carrier, ok := s.javaCarrier(c.Args()[0], c.Args()[1], "Adapter", "ExtractAdapter")
	if !ok {
		return "", false
	}
	const getter = "MapTextMapGetter"
	return s.javaUse("GlobalOpenTelemetry") + ".getPropagators().getTextMapPropagator().extract(" + s.javaUse("Context") + ".current(), " + carrier + ", " + getter + ".INSTANCE)", s.addClass(c, getter, javaGetter)
}

const javaGetter = `import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.Map;

/** Reads the propagated context from a map. The names of headers have no case. */
enum MapTextMapGetter implements TextMapGetter<Map<String, String>> {
    INSTANCE;

    @Override
    public Iterable<String> keys(Map<String, String> carrier) {
        return carrier.keySet();
    }

    @Override
    public String get(Map<String, String> carrier, String key) {
        for (Map.Entry<String, String> entry : carrier.entrySet()) {
            if (key.equalsIgnoreCase(entry.getKey())) {
                return entry.getValue();
            }
        }
        return null;
    }
}
`

// javaLog rewrites span.log(event) and span.log(fields), with or without a time.
func javaLog(s *script, c *syntax.Node) (string, bool) {
	args := c.Args()
	time := ""
	if len(args) == 2 {
		time = ", " + s.text(args[0]) + ", " + s.javaUse("TimeUnit") + ".MICROSECONDS"
	}
	content := args[len(args)-1]
	if s.typeOf(content) == "String" {
		return s.receiverText(c) + ".addEvent(" + s.text(content) + time + ")", true
	}
	fields, ok := javaPairs(content)
	if !ok {
		return s.fail(c, "The fields of log are no literal map.")
	}
	s.mark(content.Callee())
	event, exception := strconv.Quote("log"), ""
	for i := 0; i < len(fields); i += 2 {
		if k, _ := s.javaKnown(fields[i]); k == "error.object" {
			if !s.isThrowable(fields[i+1]) {
				return s.fail(fields[i+1], "It is not known whether %s is an exception.", s.brief(fields[i+1]))
			}
			exception = s.text(fields[i+1])
		}
	}
	attributes := ""
	for i := 0; i < len(fields); i += 2 {
		value := fields[i+1]
		k, known := s.javaKnown(fields[i])
		t := s.typeOf(value)
		switch {
		case known && k == "error.object":
			s.mark(fields[i])
			continue
		case known && (k == "event" || k == "message" || k == "stack" || k == "error.kind") && exception != "":
			s.mark(fields[i]) // the event of an exception has them
			s.mark(value)
			continue
		case known && k == "event":
			s.mark(fields[i])
			if event = s.text(value); t != "String" {
				event = "String.valueOf(" + event + ")"
			}
			continue
		}
		switch t {
		case "String", "boolean", "Boolean", "int", "Integer", "long", "Long", "double", "Double", "float", "Float", "short", "Short":
		default:
			return s.fail(value, "The type of the field %s is not known: it may be no attribute.", s.brief(fields[i]))
		}
		attributes += ".put(" + s.javaKey(fields[i]) + ", " + s.text(value) + ")"
	}
	if attributes != "" {
		attributes = ", " + s.javaUse("Attributes") + ".builder()" + attributes + ".build()"
	}
	switch {
	case exception != "" && time != "":
		return s.fail(c, "An exception with a time is in no table.")
	case exception != "":
		return s.receiverText(c) + ".recordException(" + exception + attributes + ")", true
	}
	return s.receiverText(c) + ".addEvent(" + event + attributes + time + ")", true
}

// isThrowable reports whether a value is an exception.
func (s *script) isThrowable(n *syntax.Node) bool {
	if n.Kind == syntax.Name {
		if _, d := s.javaDefinition(n); d != nil && d.Parent.Kind == syntax.Catch {
			return true
		}
	}
	t := s.typeOf(n)
	return t == "Throwable" || strings.HasSuffix(t, "Exception") || strings.HasSuffix(t, "Error")
}

// javaPairs returns the keys and values of Map.of(k, v), ImmutableMap.of(k, v) and Collections.singletonMap(k, v).
func javaPairs(n *syntax.Node) ([]*syntax.Node, bool) {
	receiver, name := n.Called()
	if receiver == nil || receiver.Kind != syntax.Name || len(n.Args())%2 != 0 {
		return nil, false
	}
	switch receiver.Text + "." + name {
	case "Map.of", "ImmutableMap.of", "Collections.singletonMap":
		return n.Args(), true
	}
	return nil, false
}

// javaNull rewrites comparisons of spans with null. OpenTelemetry returns an invalid span or context instead of null.
func (s *script) javaNull(n *syntax.Node) (string, bool) {
	if n.Text != "==" && n.Text != "!=" || len(n.Children) != 2 {
		return "", false
	}
	x := n.Children[0]
	if x.Kind == syntax.Null {
		x = n.Children[1]
	} else if n.Children[1].Kind != syntax.Null {
		return "", false
	}
	t := s.typeOf(x)
	if t != otSpan && t != otContext && t != braveSpan {
		return "", false
	}
	from := x
	if x.Kind == syntax.Name {
		if _, d := s.javaDefinition(x); d != nil && d.Kind == syntax.Assign {
			from = d.Value()
		}
	}
	if from.Kind != syntax.Call {
		return "", false
	}
	text := s.text(x)
	switch _, name := from.Method(); name {
	case "activeSpan", "currentSpan":
	case "extract":
		text = s.javaUse("Span") + ".fromContext(" + text + ")"
	default:
		return "", false
	}
	if text += ".getSpanContext().isValid()"; n.Text == "==" {
		text = "!" + text
	}
	return text, true
}
