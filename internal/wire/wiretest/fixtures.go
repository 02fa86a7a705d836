// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"assay/internal/wire"
)

// Request is a sample request.
type Request struct {
	Name   string // unique among Fixtures
	Signal wire.Signal
	Body   []byte
}

// Size is the size of a sample request. In a metrics request Records are metrics with one or two data points each.
// Attributes are per record; a resource has ten, a scope one.
type Size struct{ Resources, Scopes, Records, Attributes int }

// Fixtures returns well-formed requests of each signal: empty requests, requests that set every field that pdata can
// set, and batches, each in both field orders.
func Fixtures() []Request {
	var all []Request
	for _, f := range []struct {
		name string
		size Size
	}{
		{"empty", Size{}},
		{"one", Size{1, 1, 1, 3}},
		{"batch", Size{2, 2, 12, 10}},
	} {
		for _, r := range []Request{
			{f.name, wire.Traces, MarshalTraces(Traces(f.size))},
			{f.name, wire.Metrics, MarshalMetrics(Metrics(f.size))},
			{f.name, wire.Logs, MarshalLogs(Logs(f.size))},
		} {
			all = append(all,
				Request{fmt.Sprintf("%s %s descending", r.Signal, r.Name), r.Signal, r.Body},
				Request{fmt.Sprintf("%s %s ascending", r.Signal, r.Name), r.Signal, Ascending(r.Signal, r.Body)})
		}
	}
	return all
}

// MarshalTraces returns an export request as pdata encodes it, with fields in descending order.
func MarshalTraces(td ptrace.Traces) []byte {
	return must(ptraceotlp.NewExportRequestFromTraces(td).MarshalProto())
}

// MarshalMetrics returns an export request as pdata encodes it, with fields in descending order.
func MarshalMetrics(md pmetric.Metrics) []byte {
	return must(pmetricotlp.NewExportRequestFromMetrics(md).MarshalProto())
}

// MarshalLogs returns an export request as pdata encodes it, with fields in descending order.
func MarshalLogs(ld plog.Logs) []byte {
	return must(plogotlp.NewExportRequestFromLogs(ld).MarshalProto())
}

// Ascending re-encodes a request in ascending field order, as the official protobuf libraries in SDKs do.
func Ascending(signal wire.Signal, body []byte) []byte {
	m := NewOfficial(signal)
	if err := proto.Unmarshal(body, m); err != nil {
		panic(err)
	}
	return must(proto.MarshalOptions{Deterministic: true}.Marshal(m))
}

// NewOfficial returns an empty request of the official protobuf types. TracesData, MetricsData and LogsData have the
// layout of the requests without their dependencies.
func NewOfficial(signal wire.Signal) proto.Message {
	switch signal {
	case wire.Traces:
		return &tracepb.TracesData{}
	case wire.Metrics:
		return &metricspb.MetricsData{}
	case wire.Logs:
		return &logspb.LogsData{}
	default:
		panic("wiretest: not a signal")
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// start is the timestamp of the first sample record.
const start = pcommon.Timestamp(1_790_000_000_000_000_000)

// Traces returns spans with every field set.
func Traces(size Size) ptrace.Traces {
	td := ptrace.NewTraces()
	for r := range size.Resources {
		rs := td.ResourceSpans().AppendEmpty()
		rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.44.0")
		fillResource(rs.Resource(), r)
		for s := range size.Scopes {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.SetSchemaUrl("https://opentelemetry.io/schemas/1.43.0")
			fillScope(ss.Scope(), s)
			for i := range size.Records {
				fillSpan(ss.Spans().AppendEmpty(), i, size.Attributes)
			}
		}
	}
	return td
}

func fillSpan(span ptrace.Span, i, attributes int) {
	span.SetTraceID(traceID(i / 4))
	span.SetSpanID(spanID(i))
	if i%4 != 0 {
		span.SetParentSpanID(spanID(i - 1))
	}
	span.TraceState().FromRaw("vendor=1")
	span.SetFlags(0x101)
	span.SetName(fmt.Sprintf("GET /items/{id}/%d", i%7))
	span.SetKind(ptrace.SpanKind(1 + i%5))
	span.SetStartTimestamp(start + pcommon.Timestamp(i))
	span.SetEndTimestamp(start + pcommon.Timestamp(i)*3)
	fillAttributes(span.Attributes(), attributes)
	span.SetDroppedAttributesCount(uint32(i))
	if i%3 == 0 {
		event := span.Events().AppendEmpty()
		event.SetName("exception")
		event.SetTimestamp(start)
		event.SetDroppedAttributesCount(300)
		event.Attributes().PutStr("exception.type", "java.lang.IllegalStateException")
		span.SetDroppedEventsCount(1)
		link := span.Links().AppendEmpty()
		link.SetTraceID(traceID(99))
		link.SetSpanID(spanID(99))
		link.TraceState().FromRaw("vendor=2")
		link.SetFlags(1)
		link.SetDroppedAttributesCount(2)
		link.Attributes().PutBool("remote", true)
		span.SetDroppedLinksCount(2)
		span.Status().SetCode(ptrace.StatusCodeError)
		span.Status().SetMessage("no such item")
	}
}

// Metrics returns metrics of all types with every field set.
func Metrics(size Size) pmetric.Metrics {
	md := pmetric.NewMetrics()
	for r := range size.Resources {
		rm := md.ResourceMetrics().AppendEmpty()
		rm.SetSchemaUrl("https://opentelemetry.io/schemas/1.44.0")
		fillResource(rm.Resource(), r)
		for s := range size.Scopes {
			sm := rm.ScopeMetrics().AppendEmpty()
			sm.SetSchemaUrl("https://opentelemetry.io/schemas/1.43.0")
			fillScope(sm.Scope(), s)
			for i := range size.Records {
				fillMetric(sm.Metrics().AppendEmpty(), i, size.Attributes)
			}
		}
	}
	return md
}

func fillMetric(metric pmetric.Metric, i, attributes int) {
	metric.SetName(fmt.Sprintf("http.server.request.duration.%d", i))
	metric.SetDescription("Duration of HTTP server requests.")
	metric.SetUnit("s")
	metric.Metadata().PutStr("prometheus.type", "unknown")
	switch i % 5 {
	case 0:
		point := metric.SetEmptySum().DataPoints().AppendEmpty()
		metric.Sum().SetIsMonotonic(true)
		metric.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		point.SetIntValue(-int64(i))
		fillNumber(point, attributes)
		fillNumber(metric.Sum().DataPoints().AppendEmpty(), attributes)
	case 1:
		point := metric.SetEmptyHistogram().DataPoints().AppendEmpty()
		metric.Histogram().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		point.SetStartTimestamp(start)
		point.SetTimestamp(start + 1)
		point.SetCount(6)
		point.SetSum(0.75)
		point.SetMin(0.1)
		point.SetMax(0.3)
		point.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		point.BucketCounts().FromRaw([]uint64{1, 2, 3})
		point.ExplicitBounds().FromRaw([]float64{0.1, 0.25})
		fillAttributes(point.Attributes(), attributes)
		fillExemplar(point.Exemplars().AppendEmpty())
	case 2:
		point := metric.SetEmptyExponentialHistogram().DataPoints().AppendEmpty()
		metric.ExponentialHistogram().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
		point.SetStartTimestamp(start)
		point.SetTimestamp(start + 1)
		point.SetCount(6)
		point.SetSum(0.75)
		point.SetMin(-0.1)
		point.SetMax(0.3)
		point.SetScale(-4)
		point.SetZeroCount(3)
		point.SetZeroThreshold(1e-9)
		point.Positive().SetOffset(-100)
		point.Positive().BucketCounts().FromRaw([]uint64{1, 200, math.MaxUint64})
		point.Negative().SetOffset(7)
		point.Negative().BucketCounts().FromRaw([]uint64{1})
		fillAttributes(point.Attributes(), attributes)
		fillExemplar(point.Exemplars().AppendEmpty())
	case 3:
		point := metric.SetEmptySummary().DataPoints().AppendEmpty()
		point.SetStartTimestamp(start)
		point.SetTimestamp(start + 1)
		point.SetCount(6)
		point.SetSum(0.75)
		for _, q := range []float64{0.5, 0.99} {
			quantile := point.QuantileValues().AppendEmpty()
			quantile.SetQuantile(q)
			quantile.SetValue(q / 2)
		}
		fillAttributes(point.Attributes(), attributes)
	case 4:
		point := metric.SetEmptyGauge().DataPoints().AppendEmpty()
		point.SetDoubleValue(math.Inf(1))
		fillNumber(point, attributes)
	}
}

func fillNumber(point pmetric.NumberDataPoint, attributes int) {
	point.SetStartTimestamp(start)
	point.SetTimestamp(start + 1)
	point.SetFlags(1)
	fillAttributes(point.Attributes(), attributes)
	fillExemplar(point.Exemplars().AppendEmpty())
}

func fillExemplar(exemplar pmetric.Exemplar) {
	exemplar.SetTimestamp(start)
	exemplar.SetTraceID(traceID(1))
	exemplar.SetSpanID(spanID(1))
	exemplar.SetDoubleValue(0.2)
	exemplar.FilteredAttributes().PutStr("user.id", "17")
}

// Logs returns log records with every field set.
func Logs(size Size) plog.Logs {
	ld := plog.NewLogs()
	for r := range size.Resources {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.SetSchemaUrl("https://opentelemetry.io/schemas/1.44.0")
		fillResource(rl.Resource(), r)
		for s := range size.Scopes {
			sl := rl.ScopeLogs().AppendEmpty()
			sl.SetSchemaUrl("https://opentelemetry.io/schemas/1.43.0")
			fillScope(sl.Scope(), s)
			for i := range size.Records {
				record := sl.LogRecords().AppendEmpty()
				record.SetTimestamp(start + pcommon.Timestamp(i))
				record.SetObservedTimestamp(start + pcommon.Timestamp(i) + 1)
				record.SetSeverityNumber(plog.SeverityNumber(1 + i%24))
				record.SetSeverityText("INFO")
				record.SetTraceID(traceID(i))
				record.SetSpanID(spanID(i))
				record.SetFlags(1)
				record.SetEventName("item.served")
				record.SetDroppedAttributesCount(uint32(i))
				record.Body().SetStr(fmt.Sprintf("served item %d to a customer in %d ms", i, i*3))
				fillAttributes(record.Attributes(), size.Attributes)
			}
		}
	}
	return ld
}

func fillResource(resource pcommon.Resource, i int) {
	a := resource.Attributes()
	a.PutStr("service.name", fmt.Sprintf("checkout-%d", i))
	a.PutStr("service.namespace", "shop")
	a.PutStr("service.version", "1.4.2")
	a.PutStr("service.instance.id", "627cc493-f310-47de-96bd-71410b7dec09")
	a.PutStr("deployment.environment.name", "production")
	a.PutStr("telemetry.sdk.name", "opentelemetry")
	a.PutStr("telemetry.sdk.language", "go")
	a.PutStr("telemetry.sdk.version", "1.44.0")
	a.PutInt("process.pid", 4711)
	a.PutEmptySlice("process.command_args").AppendEmpty().SetStr("/bin/checkout")
	resource.SetDroppedAttributesCount(3)
}

func fillScope(scope pcommon.InstrumentationScope, i int) {
	scope.SetName(fmt.Sprintf("example.org/instrumentation/%d", i))
	scope.SetVersion("0.61.0")
	scope.Attributes().PutStr("library", "net/http")
	scope.SetDroppedAttributesCount(1)
}

// fillAttributes adds n attributes in a typical mix of types. From the eleventh on they include nested and empty
// values.
func fillAttributes(a pcommon.Map, n int) {
	for i := range n {
		key := keys[i%len(keys)]
		if i >= len(keys) {
			key = fmt.Sprintf("%s.%d", key, i)
		}
		switch i {
		case 1, 6:
			a.PutInt(key, int64(200+i*1000))
		case 4:
			a.PutBool(key, true)
		case 5:
			a.PutDouble(key, 0.25)
		case 10:
			list := a.PutEmptySlice(key)
			list.AppendEmpty().SetStr("a")
			list.AppendEmpty().SetEmptyMap().PutStr("deep", "value")
			list.AppendEmpty()
		case 11:
			a.PutEmptyMap(key).PutEmptyBytes("bytes").FromRaw([]byte{0, 1, 2})
		case 12:
			a.PutEmpty(key)
		case 13:
			a.PutInt(key, -1)
		default:
			a.PutStr(key, "value-of-some-ordinary-length-"+key)
		}
	}
}

var keys = []string{
	"http.request.method", "http.response.status_code", "url.scheme", "url.path", "network.peer.local",
	"app.ratio", "server.port", "http.route", "user_agent.original", "client.address",
}

func traceID(i int) (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[:8], 0x0102030405060708)
	binary.BigEndian.PutUint64(id[8:], uint64(i)+1)
	return id
}

func spanID(i int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(i)+0x1111111111111111)
	return id
}
