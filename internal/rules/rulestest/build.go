// SPDX-License-Identifier: Apache-2.0

package rulestest

import (
	"encoding/binary"
	"fmt"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"assay/internal/wire"
)

// T0 is the default time of records.
var T0 = time.Date(2026, time.October, 15, 12, 30, 0, 0, time.UTC)

// After returns the time d after T0. Where this package is imported as ".", goimports takes T0 in T0.Add for a package,
// which it looks for in all modules of the machine.
func After(d time.Duration) time.Time { return T0.Add(d) }

// Nano returns t in the format of OTLP.
func Nano(t time.Time) uint64 { return uint64(t.UnixNano()) }

// Request is an encoded request.
type Request struct {
	Signal wire.Signal
	Body   []byte
}

// Attr is one attribute. Unlike in a map, keys may repeat.
type Attr = *commonpb.KeyValue

// Attrs returns attributes from alternating keys and values. A value may be nil, a string, bool, int,
// float64, []byte, []any or []Attr.
func Attrs(pairs ...any) []Attr {
	var list []Attr
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, &commonpb.KeyValue{Key: pairs[i].(string), Value: Value(pairs[i+1])})
	}
	return list
}

// Value returns an attribute value.
func Value(v any) *commonpb.AnyValue {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case int:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(v)}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case []byte:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v}}
	case []any:
		list := &commonpb.ArrayValue{}
		for _, item := range v {
			list.Values = append(list.Values, Value(item))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	case []Attr:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: v}}}
	default:
		panic(fmt.Sprintf("rulestest: a %T is no attribute value", v))
	}
}

// Service returns the attributes of a resource on which no rule fails, and more.
func Service(name string, more ...any) []Attr {
	return append(Attrs("service.name", name, "service.instance.id", "i-1", "deployment.environment.name", "test"), Attrs(more...)...)
}

// TraceID returns the n-th trace id.
func TraceID(n int) []byte {
	return binary.BigEndian.AppendUint64([]byte("\xaa\xbb\xcc\xdd\xee\xff\x00\x11"), uint64(n))
}

// SpanID returns the n-th span id, or nil for 0.
func SpanID(n int) []byte {
	if n == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(n))
}

// Span returns a SERVER span of 10 ms that ends at T0; parent 0 makes it a root.
func Span(trace, id, parent int, set ...func(*tracepb.Span)) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: TraceID(trace), SpanId: SpanID(id), ParentSpanId: SpanID(parent),
		Name: "GET /cart", Kind: tracepb.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: Nano(T0) - 10_000_000, EndTimeUnixNano: Nano(T0),
	}
	for _, f := range set {
		f(s)
	}
	return s
}

// Spans returns the spans of one resource.
func Spans(resource []Attr, spans ...*tracepb.Span) *tracepb.ResourceSpans {
	return ScopeSpans(resource, &commonpb.InstrumentationScope{Name: "lib"}, spans...)
}

// ScopeSpans is Spans with a scope.
func ScopeSpans(resource []Attr, scope *commonpb.InstrumentationScope, spans ...*tracepb.Span) *tracepb.ResourceSpans {
	return &tracepb.ResourceSpans{
		Resource:   &resourcepb.Resource{Attributes: resource},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: scope, Spans: spans}},
	}
}

// Traces returns a request.
func Traces(entries ...*tracepb.ResourceSpans) Request {
	return Request{wire.Traces, Marshal(&tracepb.TracesData{ResourceSpans: entries})}
}

// Point returns a data point.
func Point(at time.Time, attributes ...any) *metricspb.NumberDataPoint {
	return &metricspb.NumberDataPoint{
		TimeUnixNano: Nano(at), Attributes: Attrs(attributes...), Value: &metricspb.NumberDataPoint_AsInt{AsInt: 1},
	}
}

// Gauge returns a gauge; without points it gets one at T0.
func Gauge(name, unit string, points ...*metricspb.NumberDataPoint) *metricspb.Metric {
	if points == nil {
		points = append(points, Point(T0))
	}
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points}}}
}

// Sum returns a monotonic sum with a point at T0.
func Sum(name, unit string, attributes ...any) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{
		IsMonotonic: true, AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
		DataPoints: []*metricspb.NumberDataPoint{Point(T0, attributes...)},
	}}}
}

// Histogram returns an explicit-bucket histogram with one point.
func Histogram(name, unit string, at time.Time, bounds []float64, attributes ...any) *metricspb.Metric {
	var counts []uint64
	if len(bounds) > 0 {
		counts = make([]uint64, len(bounds)+1)
	}
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
		AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
		DataPoints: []*metricspb.HistogramDataPoint{{
			TimeUnixNano: Nano(at), Attributes: Attrs(attributes...), ExplicitBounds: bounds, BucketCounts: counts,
		}},
	}}}
}

// ExponentialHistogram returns an exponential histogram with one point at T0.
func ExponentialHistogram(name, unit string, attributes ...any) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{
		AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
		DataPoints: []*metricspb.ExponentialHistogramDataPoint{{
			TimeUnixNano: Nano(T0), Attributes: Attrs(attributes...),
			Positive: &metricspb.ExponentialHistogramDataPoint_Buckets{BucketCounts: []uint64{1, 2}},
		}},
	}}}
}

// Summary returns a summary with one point at T0.
func Summary(name, unit string, attributes ...any) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Summary{Summary: &metricspb.Summary{
		DataPoints: []*metricspb.SummaryDataPoint{{TimeUnixNano: Nano(T0), Attributes: Attrs(attributes...)}},
	}}}
}

// Metrics returns the metrics of one resource.
func Metrics(resource []Attr, metrics ...*metricspb.Metric) *metricspb.ResourceMetrics {
	return &metricspb.ResourceMetrics{
		Resource:     &resourcepb.Resource{Attributes: resource},
		ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: &commonpb.InstrumentationScope{Name: "lib"}, Metrics: metrics}},
	}
}

// MetricsRequest returns a request.
func MetricsRequest(entries ...*metricspb.ResourceMetrics) Request {
	return Request{wire.Metrics, Marshal(&metricspb.MetricsData{ResourceMetrics: entries})}
}

// Log returns an INFO record at T0.
func Log(body any, set ...func(*logspb.LogRecord)) *logspb.LogRecord {
	r := &logspb.LogRecord{TimeUnixNano: Nano(T0), SeverityNumber: logspb.SeverityNumber_SEVERITY_NUMBER_INFO, Body: Value(body)}
	for _, f := range set {
		f(r)
	}
	return r
}

// Logs returns the log records of one resource.
func Logs(resource []Attr, records ...*logspb.LogRecord) *logspb.ResourceLogs {
	return &logspb.ResourceLogs{
		Resource:  &resourcepb.Resource{Attributes: resource},
		ScopeLogs: []*logspb.ScopeLogs{{Scope: &commonpb.InstrumentationScope{Name: "lib"}, LogRecords: records}},
	}
}

// LogsRequest returns a request.
func LogsRequest(entries ...*logspb.ResourceLogs) Request {
	return Request{wire.Logs, Marshal(&logspb.LogsData{ResourceLogs: entries})}
}

// Marshal encodes a valid message.
func Marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("rulestest: %v", err))
	}
	return b
}
