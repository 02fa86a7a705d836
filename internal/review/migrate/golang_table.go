// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"go/ast"
	"strings"

	"assay/internal/review/syntax"
)

// goSources maps the packages that a migration replaces to short names. Both major versions of the Datadog tracer have
// the same names.
var goSources = map[string]string{
	"github.com/opentracing/opentracing-go":            "ot",
	"github.com/opentracing/opentracing-go/log":        "otlog",
	"github.com/opentracing/opentracing-go/ext":        "otext",
	"github.com/uber/jaeger-client-go":                 "jaeger",
	"github.com/uber/jaeger-client-go/config":          "jaegercfg",
	"github.com/uber/jaeger-client-go/log":             "jaegerlog",
	"github.com/uber/jaeger-lib/metrics":               "jaegermetrics",
	"go.opencensus.io/trace":                           "oc",
	"contrib.go.opencensus.io/exporter/ocagent":        "ocagent",
	"github.com/openzipkin/zipkin-go":                  "zipkin",
	"github.com/openzipkin/zipkin-go/model":            "zipkinmodel",
	"github.com/openzipkin/zipkin-go/propagation":      "zipkinprop",
	"github.com/openzipkin/zipkin-go/propagation/b3":   "b3",
	"github.com/openzipkin/zipkin-go/reporter":         "zipkinrep",
	"github.com/openzipkin/zipkin-go/reporter/http":    "zipkinhttp",
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace":          "dd",
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/tracer":   "dd",
	"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/ext":      "ddext",
	"github.com/DataDog/dd-trace-go/v2/ddtrace/tracer": "dd",
	"github.com/DataDog/dd-trace-go/v2/ddtrace/ext":    "ddext",
}

// goPrefixes are the path prefixes of all packages of the source libraries and of instrumentation based on them.
var goPrefixes = []string{
	"github.com/opentracing/", "github.com/opentracing-contrib/", "github.com/uber/jaeger-client-go", "github.com/uber/jaeger-lib",
	"go.opencensus.io", "contrib.go.opencensus.io/", "gopkg.in/DataDog/dd-trace-go.v1", "github.com/DataDog/dd-trace-go/",
	"github.com/openzipkin/zipkin-go", "github.com/openzipkin-contrib/", "github.com/grpc-ecosystem/grpc-opentracing",
}

// goMetrics are packages of OpenCensus for metrics, which work without its traces and stay.
var goMetrics = []string{"go.opencensus.io/stats", "go.opencensus.io/tag", "go.opencensus.io/metric", "contrib.go.opencensus.io/exporter/prometheus"}

// isGoMetrics reports whether a package is one of goMetrics or below one.
func isGoMetrics(p string) bool { return syntax.Below(p, goMetrics) }

// isGoSource reports whether a package belongs to a source library.
func isGoSource(p string) bool {
	if isGoMetrics(p) {
		return false
	}
	for _, prefix := range goPrefixes {
		if rest, ok := strings.CutPrefix(p, prefix); ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(prefix, "/")) {
			return true
		}
	}
	return false
}

// goTargets are the packages of migrated code by the name that it gives them.
var goTargets = map[string]string{
	"context":     "context",
	"fmt":         "fmt",
	"io":          "io",
	"otel":        "go.opentelemetry.io/otel",
	"trace":       "go.opentelemetry.io/otel/trace",
	"noop":        "go.opentelemetry.io/otel/trace/noop",
	"attribute":   "go.opentelemetry.io/otel/attribute",
	"codes":       "go.opentelemetry.io/otel/codes",
	"propagation": "go.opentelemetry.io/otel/propagation",
	"baggage":     "go.opentelemetry.io/otel/baggage",
	"sdktrace":    "go.opentelemetry.io/otel/sdk/trace",
}

// goSpanMethods are span methods with names that are rare in other types.
var goSpanMethods = map[string]bool{
	"SetTag": true, "SetOperationName": true, "SetBaggageItem": true, "BaggageItem": true, "LogFields": true, "LogKV": true,
	"FinishWithOptions": true, "AddAttributes": true, "Annotate": true, "Annotatef": true, "Finish": true,
}

// goRow is the replacement of a symbol.
type goRow struct {
	to    string // the template of the new expression, see goRewriter.fill; the functions below have precedence
	value bool   // a type, constant or variable, not a function
	plain bool   // the new value has a type outside of the library, such as context.Context
	// call returns a call whose results are new, for a call whose results are old: names, separated by commas. An error
	// that new lacks is always nil.
	call     func(*goRewriter, *ast.CallExpr) (string, bool)
	old, new string
	// stmt returns the lines for a call that is a statement.
	stmt func(*goRewriter, *ast.CallExpr) ([]string, bool)
	// assign returns the lines for an assignment, and the number of statements that they replace: the assignment and
	// statements after it that belong to it.
	assign  func(*goRewriter, *ast.AssignStmt, *ast.CallExpr, []ast.Stmt) ([]string, int)
	expr    func(*goRewriter, *ast.CallExpr) (string, bool)
	literal func(*goRewriter, *ast.CompositeLit) (string, bool)
	doc     string // the target in the documentation, if it is not to
}

// starts reports whether the row is for a call that starts a span.
func (r *goRow) starts() bool { return strings.HasPrefix(r.old, "span") }

// isStatement reports whether the row has a replacement for a call that is a statement.
func (r *goRow) isStatement() bool { return r.stmt != nil || r.old == "err" }

// losesError reports whether the new call returns no error, in contrast to the old one.
func (r *goRow) losesError() bool {
	return strings.HasSuffix(r.old, "err") && !strings.HasSuffix(r.new, "err")
}

// goPointers maps types to the replacement of pointers to them.
var goPointers = map[string]string{
	"oc.Span":          "@trace.Span",
	"dd.Span":          "@trace.Span",
	"dd.SpanContext":   "@context.Context",
	"zipkin.Tracer":    "@trace.Tracer",
	"ocagent.Exporter": "*@sdktrace.TracerProvider",
}

// goRows maps symbols to their replacements. init fills it, because the rows refer to functions that read it.
var goRows map[string]goRow

func init() { //nolint:gochecknoinits // breaks the cycle of initialization
	start := goRow{call: startSpan, old: "span", new: "_, span", doc: "`otel.Tracer(scope).Start(parent, name, options)`"}
	fromContext := goRow{call: startFromContext, old: "span, ctx", new: "ctx, span", doc: "`otel.Tracer(scope).Start(ctx, name, options)`, results swapped"}
	setTag := goRow{stmt: setTag, doc: "`span.SetAttributes`, or by key: `span.SetStatus`, `span.SetName`, the kind of the span"}
	setExt := goRow{stmt: setExtTag, doc: "as `span.SetTag`"}
	setKind := goRow{stmt: setLateKind, doc: "`trace.WithSpanKind` of the start, if both are in one block"}
	inject := goRow{call: inject, old: "err", doc: "`otel.GetTextMapPropagator().Inject(ctx, carrier)`"}
	extract := goRow{call: extract, old: "ctx, err", new: "ctx", doc: "`otel.GetTextMapPropagator().Extract(context.Background(), carrier)`"}
	goRows = map[string]goRow{
		// OpenTracing
		"ot.Span":                           {to: "@trace.Span", value: true},
		"ot.Tracer":                         {to: "@trace.Tracer", value: true},
		"ot.SpanContext":                    {to: "@context.Context", value: true},
		"ot.GlobalTracer":                   {to: "@otel.Tracer($scope)"},
		"ot.SetGlobalTracer":                {stmt: setGlobalTracer, doc: "nothing: the setup of the tracer does it"},
		"ot.StartSpan":                      start,
		"ot.Tracer.StartSpan":               start,
		"ot.StartSpanFromContext":           fromContext,
		"ot.StartSpanFromContextWithTracer": fromContext,
		"ot.SpanFromContext":                {to: "@trace.SpanFromContext($0)"},
		"ot.ContextWithSpan":                {to: "@trace.ContextWithSpan($0, $1)"},
		"ot.Span.Context":                   {to: "@trace.ContextWithSpan(@context.Background(), $x)", plain: true},
		"ot.Span.Finish":                    {to: "$x.End()"},
		"ot.Span.FinishWithOptions":         {stmt: finishWithOptions, doc: "`span.End(trace.WithTimestamp(t))`"},
		"ot.Span.SetOperationName":          {stmt: setOperationName, doc: "`span.SetName(name)`"},
		"ot.Span.SetTag":                    setTag,
		"ot.Span.BaggageItem":               {expr: baggageItem, doc: "`baggage.FromContext(parent).Member(key).Value()`, if the parent of the span is an extracted context"},
		"ot.Span.LogFields":                 {stmt: logFields, doc: "`span.AddEvent(event, trace.WithAttributes(fields))`; `span.RecordError(err)` for an error"},
		"ot.Span.LogKV":                     {stmt: logKV, doc: "`span.AddEvent(event, trace.WithAttributes(fields))`"},
		"ot.Span.LogEvent":                  {to: "$x.AddEvent($0)"},
		"ot.Span.Tracer":                    {to: "$x.TracerProvider().Tracer($scope)"},
		"ot.Tracer.Inject":                  inject,
		"ot.Tracer.Extract":                 extract,
		"ot.TextMapCarrier":                 {to: "@propagation.MapCarrier", value: true},
		"ot.TextMapCarrier.Set":             {to: "$x.Set($0, $1)", doc: "`carrier.Set(key, value)`"},
		"ot.TextMapCarrier.ForeachKey":      {expr: forEachKey, doc: "`forEachKey(carrier, handler)`, a new function"},
		"ot.HTTPHeadersCarrier":             {to: "@propagation.HeaderCarrier", value: true},
		"ot.HTTPHeadersCarrier.Set":         {to: "$x.Set($0, $1)", doc: "`carrier.Set(key, value)`"},
		"ot.Tag.Set":                        setKind,
		"ot.NoopTracer":                     {literal: noopTracer, doc: "`noop.NewTracerProvider().Tracer(scope)`"},
		"otext.spanKindTagName.Set":         setKind,
		"otext.StringTagName.Set":           setExt,
		"otext.Uint16TagName.Set":           setExt,
		"otext.Uint32TagName.Set":           setExt,
		"otext.BoolTagName.Set":             setExt,
		"otext.LogError":                    {stmt: logError, doc: "`span.RecordError(err)` and `span.SetStatus(codes.Error, err.Error())`"},
		// Jaeger client
		"jaegercfg.Configuration.NewTracer":        {call: jaegerNewTracer, old: "tracer, closer, err", new: "tracer, closer, err", doc: "`newTracer(service, options)`, a new function: SDK, OTLP exporter, W3C propagation"},
		"jaegercfg.Configuration.InitGlobalTracer": {call: jaegerInitGlobal, old: "closer, err", new: "_, closer, err", doc: "`newTracer(service, options)`"},
		"jaegercfg.FromEnv":                        {assign: jaegerFromEnv, doc: "nothing: the SDK reads `OTEL_*` variables"},
		"jaegercfg.Configuration.FromEnv":          {assign: jaegerFromEnv, doc: "as `FromEnv`"},
		// OpenCensus
		"oc.Span":                      {to: "@trace.Span", value: true},
		"oc.SpanContext":               {to: "@trace.SpanContext", value: true},
		"oc.TraceID":                   {to: "@trace.TraceID", value: true},
		"oc.SpanID":                    {to: "@trace.SpanID", value: true},
		"oc.SpanContext.TraceID":       {to: "$x.TraceID()", value: true},
		"oc.SpanContext.SpanID":        {to: "$x.SpanID()", value: true},
		"oc.SpanContext.IsSampled":     {to: "$x.IsSampled()"},
		"oc.TraceID.String":            {to: "$x.String()"},
		"oc.SpanID.String":             {to: "$x.String()"},
		"oc.Attribute":                 {to: "@attribute.KeyValue", value: true},
		"oc.StartOption":               {to: "@trace.SpanStartOption", value: true},
		"oc.StartSpan":                 {expr: ocStartSpan, doc: "`otel.Tracer(scope).Start(ctx, name, options)`"},
		"oc.StartSpanWithRemoteParent": {expr: ocStartRemote, doc: "`otel.Tracer(scope).Start(trace.ContextWithRemoteSpanContext(ctx, parent), name, options)`"},
		"oc.WithSpanKind":              {expr: ocSpanKind, doc: "`trace.WithSpanKind(kind)`"},
		"oc.FromContext":               {to: "@trace.SpanFromContext($0)"},
		"oc.NewContext":                {to: "@trace.ContextWithSpan($0, $1)"},
		"oc.StringAttribute":           {expr: ocAttribute("String"), doc: "`attribute.String(key, value)`"},
		"oc.Int64Attribute":            {expr: ocAttribute("Int64"), doc: "`attribute.Int64(key, value)`"},
		"oc.Float64Attribute":          {expr: ocAttribute("Float64"), doc: "`attribute.Float64(key, value)`"},
		"oc.BoolAttribute":             {expr: ocAttribute("Bool"), doc: "`attribute.Bool(key, value)`"},
		"oc.Span.AddAttributes":        {to: "$x.SetAttributes($*)"},
		"oc.Span.Annotate":             {expr: ocAnnotate, doc: "`span.AddEvent(message, trace.WithAttributes(attributes))`"},
		"oc.Span.Annotatef":            {expr: ocAnnotate, doc: "`span.AddEvent(fmt.Sprintf(format, args), trace.WithAttributes(attributes))`"},
		"oc.Span.End":                  {to: "$x.End()"},
		"oc.Span.IsRecordingEvents":    {to: "$x.IsRecording()"},
		"oc.Span.SetName":              {to: "$x.SetName($0)"},
		"oc.Span.SetStatus":            {expr: ocSetStatus, doc: "`span.SetStatus(codes.Error, message)`; `codes.Ok` for OK"},
		"oc.Span.SpanContext":          {to: "$x.SpanContext()"},
		"oc.RegisterExporter":          {stmt: ocRegister, doc: "nothing: the setup of the tracer does it"},
		"oc.ApplyConfig":               {stmt: ocApplyConfig, doc: "the sampler of the setup in the same function"},
		"ocagent.NewExporter":          {expr: ocagentNew, doc: "`newTracerProvider(service, options)`, a new function: SDK, OTLP exporter, W3C propagation"},
		"ocagent.Exporter":             {to: "@sdktrace.TracerProvider", value: true},
		"ocagent.Exporter.Stop":        {to: "$x.Shutdown(@context.Background())"},
		"ocagent.Exporter.Flush":       {to: "$x.ForceFlush(@context.Background())"},
		// Zipkin client
		"zipkin.Span":                        {to: "@trace.Span", value: true},
		"zipkin.Tracer":                      {to: "@trace.Tracer", value: true},
		"zipkinmodel.SpanContext":            {to: "@context.Context", value: true},
		"zipkinhttp.NewReporter":             {assign: zipkinReporter, doc: "nothing: the setup of the tracer has an OTLP exporter"},
		"zipkinrep.Reporter.Close":           {stmt: zipkinClose, doc: "`stopTracing()`"},
		"zipkin.NewEndpoint":                 {assign: zipkinEndpoint, doc: "the service of the setup"},
		"zipkin.NewTracer":                   {call: zipkinNewTracer, old: "tracer, err", new: "tracer, err", doc: "`newServiceTracer(service)`, a new function: SDK, OTLP exporter, W3C propagation"},
		"zipkin.Tracer.StartSpan":            start,
		"zipkin.Tracer.StartSpanFromContext": fromContext,
		"zipkin.Tracer.Extract":              {expr: zipkinExtract, plain: true, doc: "`otel.GetTextMapPropagator().Extract(context.Background(), carrier)`"},
		"b3.InjectHTTP()":                    {call: zipkinInject, old: "err", doc: "`otel.GetTextMapPropagator().Inject(ctx, carrier)`"},
		"zipkin.SpanFromContext":             {to: "@trace.SpanFromContext($0)"},
		"zipkin.SpanOrNoopFromContext":       {to: "@trace.SpanFromContext($0)"},
		"zipkin.NewContext":                  {to: "@trace.ContextWithSpan($0, $1)"},
		"zipkin.Span.Context":                {to: "@trace.ContextWithSpan(@context.Background(), $x)", plain: true},
		"zipkin.Span.SetName":                {to: "$x.SetName($0)"},
		"zipkin.Span.Annotate":               {to: "$x.AddEvent($1, @trace.WithTimestamp($0))"},
		"zipkin.Span.Tag":                    setTag,
		"zipkin.Span.Finish":                 {to: "$x.End()"},
		"zipkin.Tag.Set":                     setExt,
		// Datadog tracer
		"dd.Span":                   {to: "@trace.Span", value: true},
		"dd.SpanContext":            {to: "@context.Context", value: true},
		"dd.Start":                  {expr: ddStart, doc: "`startTracing(attributes, options)`, a new function: SDK, OTLP exporter, W3C propagation"},
		"dd.Stop":                   {to: "stopTracing()", stmt: ddCall("stopTracing")},
		"dd.Flush":                  {to: "flushTraces()", stmt: ddCall("flushTraces")},
		"dd.StartSpan":              start,
		"dd.StartSpanFromContext":   fromContext,
		"dd.Span.StartChild":        start,
		"dd.SpanFromContext":        {assign: ddSpanFromContext, doc: "`trace.SpanFromContext(ctx)`, and whether its context is valid"},
		"dd.ContextWithSpan":        {to: "@trace.ContextWithSpan($0, $1)"},
		"dd.Span.Context":           {to: "@trace.ContextWithSpan(@context.Background(), $x)", plain: true},
		"dd.SpanContext.TraceID":    {expr: ddID, doc: "`span.SpanContext().TraceID()`: as text in version 2, as a number by the function `traceNumber` in version 1"},
		"dd.SpanContext.SpanID":     {expr: ddID, doc: "`span.SpanContext().SpanID()`, as a number by the function `spanNumber`"},
		"dd.Span.SetTag":            setTag,
		"dd.Span.SetOperationName":  {to: "$x.SetName($0)"},
		"dd.Span.Finish":            {stmt: ddFinish, doc: "`span.End()`, after `span.RecordError(err)` and `span.SetStatus` for `WithError(err)`"},
		"dd.TextMapCarrier":         {to: "@propagation.MapCarrier", value: true},
		"dd.TextMapCarrier.Set":     {to: "$x.Set($0, $1)", doc: "`carrier.Set(key, value)`"},
		"dd.HTTPHeadersCarrier":     {to: "@propagation.HeaderCarrier", value: true},
		"dd.HTTPHeadersCarrier.Set": {to: "$x.Set($0, $1)", doc: "`carrier.Set(key, value)`"},
		"dd.Inject":                 inject,
		"dd.Extract":                extract,
	}
}

// goStartOptions maps the options of a start to their replacements.
var goStartOptions = map[string]struct {
	kind string // see goRewriter.option
	doc  string
}{
	"ot.ChildOf":              {"parent", "the context of `Start`"},
	"ot.FollowsFrom":          {"parent", "the context of `Start`, as it is the only reference"},
	"ot.Tags":                 {"tags", "`trace.WithAttributes`, by key"},
	"ot.Tag":                  {"tag", "`trace.WithAttributes`, by key"},
	"ot.StartTime":            {"time", "`trace.WithTimestamp(t)`"},
	"otext.RPCServerOption":   {"server", "the context of `Start` and `trace.SpanKindServer`"},
	"otext.SpanKindRPCClient": {"client", "`trace.SpanKindClient`"},
	"otext.SpanKindRPCServer": {"kind server", "`trace.SpanKindServer`"},
	"otext.SpanKindProducer":  {"kind producer", "`trace.SpanKindProducer`"},
	"otext.SpanKindConsumer":  {"kind consumer", "`trace.SpanKindConsumer`"},
	"zipkin.Parent":           {"parent", "the context of `Start`"},
	"zipkin.Kind":             {"of kind", "`trace.WithSpanKind(kind)`"},
	"zipkin.Tags":             {"map of tags", "`trace.WithAttributes`, by key, for a literal"},
	"zipkin.StartTime":        {"time", "`trace.WithTimestamp(t)`"},
	"dd.ChildOf":              {"parent", "the context of `Start`"},
	"dd.Tag":                  {"tag call", "`trace.WithAttributes`, by key"},
	"dd.StartTime":            {"time", "`trace.WithTimestamp(t)`"},
	"dd.ResourceName":         {"resource", "the name of the span; the operation becomes the attribute `operation.name`"},
	"dd.SpanType":             {"type", "`trace.WithSpanKind` for web, http, sql, redis, cassandra, memcached, mongodb and elasticsearch; otherwise the attribute `span.type`"},
	"dd.Measured":             {"none", "nothing"},
	"dd.AnalyticsRate":        {"removed", "nothing, with a step"},
	"dd.ServiceName":          {"service", "nothing, if the tracer has that service"},
}

// spanKinds maps the span kinds of the source libraries to the names of OpenTelemetry's kinds.
var spanKinds = map[string]string{"client": "Client", "server": "Server", "producer": "Producer", "consumer": "Consumer", "internal": "Internal"}

// datadogTypes maps Datadog's span types to the names of OpenTelemetry's kinds.
var datadogTypes = map[string]string{
	"web": "Server", "http": "Client", "sql": "Client", "redis": "Client", "cassandra": "Client", "memcached": "Client",
	"mongodb": "Client", "elasticsearch": "Client",
}
