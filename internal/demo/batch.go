// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// attributes holds attributes by name. Values are strings, integers and lists.
type attributes = map[string]any

// with returns base with the attributes of more added. A nil value removes an attribute.
func with(base, more attributes) attributes {
	out := make(attributes, len(base)+len(more))
	for k, v := range base {
		out[k] = v
	}
	for k, v := range more {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// source is a process that sends telemetry.
type source struct {
	resource attributes
	scope    string
}

// batch collects the telemetry that a service sends together.
type batch struct {
	traces  ptrace.Traces
	metrics pmetric.Metrics
	logs    plog.Logs

	spanLists   map[*source]ptrace.SpanSlice
	metricLists map[*source]pmetric.MetricSlice
	logLists    map[*source]plog.LogRecordSlice
}

func newBatch() *batch {
	return &batch{
		traces: ptrace.NewTraces(), metrics: pmetric.NewMetrics(), logs: plog.NewLogs(),
		spanLists:   map[*source]ptrace.SpanSlice{},
		metricLists: map[*source]pmetric.MetricSlice{},
		logLists:    map[*source]plog.LogRecordSlice{},
	}
}

// fill sets attributes. It fails only for types of values that this package does not use.
func fill(m pcommon.Map, a attributes) { _ = m.FromRaw(a) }

func (s *source) describe(r pcommon.Resource, scope pcommon.InstrumentationScope) {
	fill(r.Attributes(), s.resource)
	scope.SetName(s.scope)
	scope.SetVersion("1.0.0")
}

func (b *batch) spans(s *source) ptrace.SpanSlice {
	list, ok := b.spanLists[s]
	if !ok {
		rs := b.traces.ResourceSpans().AppendEmpty()
		ss := rs.ScopeSpans().AppendEmpty()
		s.describe(rs.Resource(), ss.Scope())
		list = ss.Spans()
		b.spanLists[s] = list
	}
	return list
}

func (b *batch) metric(s *source, name, unit, description string) pmetric.Metric {
	list, ok := b.metricLists[s]
	if !ok {
		rm := b.metrics.ResourceMetrics().AppendEmpty()
		sm := rm.ScopeMetrics().AppendEmpty()
		s.describe(rm.Resource(), sm.Scope())
		list = sm.Metrics()
		b.metricLists[s] = list
	}
	m := list.AppendEmpty()
	m.SetName(name)
	m.SetUnit(unit)
	m.SetDescription(description)
	return m
}

// span is one span. start is its offset from the start of the trace.
type span struct {
	id, parent pcommon.SpanID
	name       string
	kind       ptrace.SpanKind
	start      time.Duration
	duration   time.Duration
	attributes attributes
}

func (b *batch) span(s *source, trace pcommon.TraceID, begin time.Time, sp span) {
	out := b.spans(s).AppendEmpty()
	out.SetTraceID(trace)
	out.SetSpanID(sp.id)
	out.SetParentSpanID(sp.parent)
	out.SetName(sp.name)
	out.SetKind(sp.kind)
	start := begin.Add(sp.start)
	out.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	out.SetEndTimestamp(pcommon.NewTimestampFromTime(start.Add(sp.duration)))
	fill(out.Attributes(), sp.attributes)
}

// gauge adds a metric with one value.
func (b *batch) gauge(s *source, at time.Time, name, unit string, value float64, a attributes) {
	p := b.metric(s, name, unit, "").SetEmptyGauge().DataPoints().AppendEmpty()
	p.SetTimestamp(pcommon.NewTimestampFromTime(at))
	p.SetDoubleValue(value)
	fill(p.Attributes(), a)
}

// histogram adds a metric with one observation.
func (b *batch) histogram(s *source, at time.Time, name, unit string, bounds []float64, value float64, a attributes) {
	h := b.metric(s, name, unit, "").SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
	p := h.DataPoints().AppendEmpty()
	p.SetStartTimestamp(pcommon.NewTimestampFromTime(at.Add(-time.Second)))
	p.SetTimestamp(pcommon.NewTimestampFromTime(at))
	p.SetCount(1)
	p.SetSum(value)
	p.ExplicitBounds().FromRaw(bounds)
	counts := make([]uint64, len(bounds)+1)
	bucket := 0
	for bucket < len(bounds) && value > bounds[bucket] {
		bucket++
	}
	counts[bucket] = 1
	p.BucketCounts().FromRaw(counts)
	fill(p.Attributes(), a)
}

func (b *batch) log(s *source, at time.Time, severity plog.SeverityNumber, body string, a attributes) {
	list, ok := b.logLists[s]
	if !ok {
		rl := b.logs.ResourceLogs().AppendEmpty()
		sl := rl.ScopeLogs().AppendEmpty()
		s.describe(rl.Resource(), sl.Scope())
		list = sl.LogRecords()
		b.logLists[s] = list
	}
	out := list.AppendEmpty()
	out.SetTimestamp(pcommon.NewTimestampFromTime(at))
	out.SetObservedTimestamp(pcommon.NewTimestampFromTime(at))
	out.SetSeverityNumber(severity)
	if severity != plog.SeverityNumberUnspecified {
		out.SetSeverityText(severity.String())
	}
	out.Body().SetStr(body)
	fill(out.Attributes(), a)
}
