// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"maps"
	"slices"
	"time"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

const (
	kindInternal = tracepb.Span_SPAN_KIND_INTERNAL
	kindServer   = tracepb.Span_SPAN_KIND_SERVER
	kindClient   = tracepb.Span_SPAN_KIND_CLIENT

	severityUnspecified = logspb.SeverityNumber_SEVERITY_NUMBER_UNSPECIFIED
	severityDebug       = logspb.SeverityNumber_SEVERITY_NUMBER_DEBUG
	severityInfo        = logspb.SeverityNumber_SEVERITY_NUMBER_INFO
	severityWarn        = logspb.SeverityNumber_SEVERITY_NUMBER_WARN
)

var severityTexts = map[logspb.SeverityNumber]string{severityDebug: "Debug", severityInfo: "Info", severityWarn: "Warn"}

// attributes holds attributes by name. Values are strings, integers and lists of strings.
type attributes map[string]any

// with returns base with the attributes of more added. A nil value removes an attribute.
func with(base, more attributes) attributes {
	out := make(attributes, len(base)+len(more))
	maps.Copy(out, base)
	for k, v := range more {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// encode returns the attributes sorted by name.
func (a attributes) encode() []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, 0, len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		value := &commonpb.AnyValue{}
		switch v := a[name].(type) {
		case string:
			value = text(v)
		case int:
			value.Value = &commonpb.AnyValue_IntValue{IntValue: int64(v)}
		case []string:
			list := &commonpb.ArrayValue{}
			for _, element := range v {
				list.Values = append(list.Values, text(element))
			}
			value.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: list}
		}
		out = append(out, &commonpb.KeyValue{Key: name, Value: value})
	}
	return out
}

func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

func nanos(t time.Time) uint64 { return uint64(t.UnixNano()) }

// source is a process that sends telemetry.
type source struct {
	resource attributes
	scope    string
}

func (s *source) describe() (*resourcepb.Resource, *commonpb.InstrumentationScope) {
	return &resourcepb.Resource{Attributes: s.resource.encode()}, &commonpb.InstrumentationScope{Name: s.scope, Version: "1.0.0"}
}

// batch collects the telemetry that a service sends together.
type batch struct {
	Telemetry
	spans   map[*source]*tracepb.ScopeSpans
	metrics map[*source]*metricspb.ScopeMetrics
	logs    map[*source]*logspb.ScopeLogs
}

func newBatch() *batch {
	return &batch{
		Telemetry: Telemetry{&coltracepb.ExportTraceServiceRequest{}, &colmetricspb.ExportMetricsServiceRequest{}, &collogspb.ExportLogsServiceRequest{}},
		spans:     map[*source]*tracepb.ScopeSpans{},
		metrics:   map[*source]*metricspb.ScopeMetrics{},
		logs:      map[*source]*logspb.ScopeLogs{},
	}
}

// span is one span. start is its offset from the start of the trace.
type span struct {
	id, parent []byte
	name       string
	kind       tracepb.Span_SpanKind
	start      time.Duration
	duration   time.Duration
	attributes attributes
}

func (b *batch) span(s *source, trace []byte, begin time.Time, sp span) {
	scope := b.spans[s]
	if scope == nil {
		resource, is := s.describe()
		scope = &tracepb.ScopeSpans{Scope: is}
		b.spans[s] = scope
		b.Traces.ResourceSpans = append(b.Traces.ResourceSpans, &tracepb.ResourceSpans{Resource: resource, ScopeSpans: []*tracepb.ScopeSpans{scope}})
	}
	start := begin.Add(sp.start)
	scope.Spans = append(scope.Spans, &tracepb.Span{
		TraceId: trace, SpanId: sp.id, ParentSpanId: sp.parent, Name: sp.name, Kind: sp.kind,
		StartTimeUnixNano: nanos(start), EndTimeUnixNano: nanos(start.Add(sp.duration)), Attributes: sp.attributes.encode(),
	})
}

func (b *batch) metric(s *source, m *metricspb.Metric) {
	scope := b.metrics[s]
	if scope == nil {
		resource, is := s.describe()
		scope = &metricspb.ScopeMetrics{Scope: is}
		b.metrics[s] = scope
		b.Metrics.ResourceMetrics = append(b.Metrics.ResourceMetrics, &metricspb.ResourceMetrics{Resource: resource, ScopeMetrics: []*metricspb.ScopeMetrics{scope}})
	}
	scope.Metrics = append(scope.Metrics, m)
}

// gauge adds a metric with one value.
func (b *batch) gauge(s *source, at time.Time, name, unit string, value float64, a attributes) {
	b.gaugeOf(s, name, unit, point(at, value, a))
}

// gaugeOf adds a metric with several values.
func (b *batch) gaugeOf(s *source, name, unit string, points ...*metricspb.NumberDataPoint) {
	b.metric(s, &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points}}})
}

func point(at time.Time, value float64, a attributes) *metricspb.NumberDataPoint {
	return &metricspb.NumberDataPoint{TimeUnixNano: nanos(at), Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value}, Attributes: a.encode()}
}

// histogram adds a metric with one observation.
func (b *batch) histogram(s *source, at time.Time, name, unit string, bounds []float64, value float64, a attributes) {
	counts := make([]uint64, len(bounds)+1)
	bucket := 0
	for bucket < len(bounds) && value > bounds[bucket] {
		bucket++
	}
	counts[bucket] = 1
	b.metric(s, &metricspb.Metric{Name: name, Unit: unit, Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
		AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
		DataPoints: []*metricspb.HistogramDataPoint{{
			StartTimeUnixNano: nanos(at.Add(-time.Second)), TimeUnixNano: nanos(at),
			Count: 1, Sum: &value, ExplicitBounds: bounds, BucketCounts: counts, Attributes: a.encode(),
		}},
	}}})
}

func (b *batch) log(s *source, at time.Time, severity logspb.SeverityNumber, body string, a attributes) {
	scope := b.logs[s]
	if scope == nil {
		resource, is := s.describe()
		scope = &logspb.ScopeLogs{Scope: is}
		b.logs[s] = scope
		b.Logs.ResourceLogs = append(b.Logs.ResourceLogs, &logspb.ResourceLogs{Resource: resource, ScopeLogs: []*logspb.ScopeLogs{scope}})
	}
	scope.LogRecords = append(scope.LogRecords, &logspb.LogRecord{
		TimeUnixNano: nanos(at), ObservedTimeUnixNano: nanos(at),
		SeverityNumber: severity, SeverityText: severityTexts[severity], Body: text(body), Attributes: a.encode(),
	})
}
