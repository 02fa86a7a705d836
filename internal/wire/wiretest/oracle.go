// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"assay/internal/wire"
)

// DumpWire and DumpPdata dump a request in the same text format, one through the views of package wire, the other
// through a full unmarshal with pdata. The dumps are equal if both agree on every field that both expose. pdata has
// no accessor for entity references.

// DumpWire dumps a request through the views of package wire.
func DumpWire(signal wire.Signal, body []byte) (string, error) {
	if err := wire.Validate(signal, body); err != nil {
		return "", err
	}
	entries, err := wire.Request(body)
	if err != nil {
		return "", err
	}
	var d dump
	d.each(entries, func(m wire.Message) {
		var entry wire.ResourceEntry
		d.check(entry.Decode(m))
		d.entry(signal, &entry)
	})
	return d.String(), d.err
}

// DumpPdata dumps a request through pdata.
func DumpPdata(signal wire.Signal, body []byte) (string, error) {
	var d dump
	switch signal {
	case wire.Traces:
		request := ptraceotlp.NewExportRequest()
		if err := request.UnmarshalProto(body); err != nil {
			return "", err
		}
		d.traces(request.Traces())
	case wire.Metrics:
		request := pmetricotlp.NewExportRequest()
		if err := request.UnmarshalProto(body); err != nil {
			return "", err
		}
		d.metrics(request.Metrics())
	case wire.Logs:
		request := plogotlp.NewExportRequest()
		if err := request.UnmarshalProto(body); err != nil {
			return "", err
		}
		d.logs(request.Logs())
	default:
		panic("wiretest: not a signal")
	}
	return d.String(), nil
}

// HasGroup reports whether a request contains a group as an unknown field. It also returns true if the official
// protobuf library rejects the request.
func HasGroup(signal wire.Signal, body []byte) bool {
	m := official(signal)
	if err := proto.Unmarshal(body, m); err != nil {
		return true
	}
	found := errors.New("found")
	err := protorange.Range(m.ProtoReflect(), func(v protopath.Values) error {
		m, ok := v.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		for b := m.GetUnknown(); len(b) > 0; {
			_, wireType, n := protowire.ConsumeField(b)
			if wireType == protowire.StartGroupType {
				return found
			}
			b = b[n:]
		}
		return nil
	})
	return err != nil
}

// dump writes one line per message. Both dumps share the functions that format a line, so lines differ only in
// content. After an error a dump is not complete.
type dump struct {
	strings.Builder
	err error // of the first view that does not decode
}

func (d *dump) line(kind string, fields ...any) {
	d.WriteString(kind)
	for _, f := range fields {
		switch f := f.(type) {
		case []byte:
			fmt.Fprintf(d, " %q", f)
		case string:
			fmt.Fprintf(d, " %q", f)
		case float64: // as bits, because NaN does not equal itself
			fmt.Fprintf(d, " %x", math.Float64bits(f))
		default:
			fmt.Fprintf(d, " %v", f)
		}
	}
	d.WriteByte('\n')
}

// each calls f for each message of the list.
func (d *dump) each(list wire.Repeated, f func(wire.Message)) {
	for m, ok := list.Next(); ok && d.err == nil; m, ok = list.Next() {
		f(m)
	}
}

func (d *dump) check(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *dump) entry(signal wire.Signal, entry *wire.ResourceEntry) {
	var resource wire.Resource
	d.check(resource.Decode(entry.Resource))
	d.line("resource", entry.SchemaURL, resource.DroppedAttributesCount, entry.Scopes.Len())
	d.wireAttributes(resource.Attributes)
	d.each(entry.Scopes, func(m wire.Message) {
		var scoped wire.ScopeEntry
		d.check(scoped.Decode(m))
		var scope wire.Scope
		d.check(scope.Decode(scoped.Scope))
		d.line("scope", scoped.SchemaURL, scope.Name, scope.Version, scope.DroppedAttributesCount, scoped.Records.Len())
		d.wireAttributes(scope.Attributes)
		d.each(scoped.Records, func(m wire.Message) {
			switch signal {
			case wire.Traces:
				d.wireSpan(m)
			case wire.Metrics:
				d.wireMetric(m)
			default:
				d.wireLog(m)
			}
		})
	})
}

func (d *dump) wireAttributes(list wire.Repeated) {
	d.line("attributes", list.Len())
	d.each(list, func(m wire.Message) {
		var kv wire.KeyValue
		d.check(kv.Decode(m))
		d.line("key", kv.Key)
		d.wireValue(&kv.Value)
	})
}

func (d *dump) wireValue(v *wire.Value) {
	switch v.Kind {
	case wire.KindString, wire.KindBytes:
		d.line(v.Kind.String(), v.Bytes)
	case wire.KindBool:
		d.line("bool", v.Bool)
	case wire.KindInt:
		d.line("int", v.Int)
	case wire.KindDouble:
		d.line("double", v.Double)
	case wire.KindArray:
		d.line("array", v.Items.Len())
		d.each(v.Items, func(m wire.Message) {
			var item wire.Value
			d.check(item.Decode(m))
			d.wireValue(&item)
		})
	case wire.KindKeyValues:
		d.line("keyvalues")
		d.wireAttributes(v.Items)
	default:
		d.line(v.Kind.String())
	}
}

func (d *dump) wireSpan(m wire.Message) {
	var span wire.Span
	d.check(span.Decode(m))
	d.line("span", span.TraceID, span.SpanID, span.ParentSpanID, span.TraceState, span.Name, span.Kind, span.Flags,
		span.StartTimeUnixNano, span.EndTimeUnixNano, span.DroppedAttributesCount, span.DroppedEventsCount,
		span.DroppedLinksCount, span.StatusCode, span.StatusMessage)
	d.wireAttributes(span.Attributes)
	d.each(span.Events, func(m wire.Message) {
		var event wire.SpanEvent
		d.check(event.Decode(m))
		d.line("event", event.TimeUnixNano, event.Name, event.DroppedAttributesCount)
		d.wireAttributes(event.Attributes)
	})
	d.each(span.Links, func(m wire.Message) {
		var link wire.SpanLink
		d.check(link.Decode(m))
		d.line("link", link.TraceID, link.SpanID, link.TraceState, link.Flags, link.DroppedAttributesCount)
		d.wireAttributes(link.Attributes)
	})
}

func (d *dump) wireMetric(m wire.Message) {
	var metric wire.Metric
	d.check(metric.Decode(m))
	d.line("metric", metric.Name, metric.Description, metric.Unit, metric.Type, metric.AggregationTemporality,
		metric.IsMonotonic, metric.DataPoints.Len())
	d.wireAttributes(metric.Metadata)
	d.each(metric.DataPoints, func(m wire.Message) {
		var p wire.DataPoint
		d.check(p.Decode(metric.Type, m))
		d.line("point", p.StartTimeUnixNano, p.TimeUnixNano, p.Flags, p.NumberKind, p.Int, p.Double)
		d.line("distribution", p.Count, p.Sum, p.HasMin, p.Min, p.HasMax, p.Max, p.Scale, p.ZeroCount, p.ZeroThreshold)
		if metric.Type != wire.MetricSummary {
			d.line("has sum", p.HasSum)
		}
		for v, ok := p.ExplicitBounds.Next(); ok; v, ok = p.ExplicitBounds.Next() {
			d.line("bound", v)
		}
		d.counts(p.BucketCounts)
		for _, m := range []wire.Message{p.Positive, p.Negative} {
			var b wire.Buckets
			d.check(b.Decode(m))
			d.line("buckets", b.Offset)
			d.counts(b.Counts)
		}
		d.each(p.Quantiles, func(m wire.Message) {
			var q wire.Quantile
			d.check(q.Decode(m))
			d.line("quantile", q.Quantile, q.Value)
		})
		d.each(p.Exemplars, d.wireExemplar)
		d.wireAttributes(p.Attributes)
	})
}

func (d *dump) counts(c wire.Counts) {
	d.line("counts", c.Len())
	for v, ok := c.Next(); ok; v, ok = c.Next() {
		d.line("count", v)
	}
}

func (d *dump) wireExemplar(m wire.Message) {
	var e wire.Exemplar
	d.check(e.Decode(m))
	d.line("exemplar", e.TimeUnixNano, e.TraceID, e.SpanID, e.NumberKind, e.Int, e.Double)
	d.wireAttributes(e.FilteredAttributes)
}

func (d *dump) wireLog(m wire.Message) {
	var (
		record wire.LogRecord
		value  wire.Value
	)
	d.check(record.Decode(m))
	d.line("log", record.TimeUnixNano, record.ObservedTimeUnixNano, record.SeverityNumber, record.SeverityText,
		record.TraceID, record.SpanID, record.Flags, record.EventName, record.DroppedAttributesCount)
	d.check(value.Decode(record.Body))
	d.wireValue(&value)
	d.wireAttributes(record.Attributes)
}

func (d *dump) traces(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		d.line("resource", rs.SchemaUrl(), rs.Resource().DroppedAttributesCount(), rs.ScopeSpans().Len())
		d.attributes(rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			d.scope(ss.SchemaUrl(), ss.Scope(), ss.Spans().Len())
			for _, span := range ss.Spans().All() {
				d.span(span)
			}
		}
	}
}

func (d *dump) scope(schemaURL string, scope pcommon.InstrumentationScope, records int) {
	d.line("scope", schemaURL, scope.Name(), scope.Version(), scope.DroppedAttributesCount(), records)
	d.attributes(scope.Attributes())
}

func (d *dump) attributes(a pcommon.Map) {
	d.line("attributes", a.Len())
	for k, v := range a.All() {
		d.line("key", k)
		d.value(v)
	}
}

func (d *dump) value(v pcommon.Value) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		d.line("string", v.Str())
	case pcommon.ValueTypeBytes:
		d.line("bytes", v.Bytes().AsRaw())
	case pcommon.ValueTypeBool:
		d.line("bool", v.Bool())
	case pcommon.ValueTypeInt:
		d.line("int", v.Int())
	case pcommon.ValueTypeDouble:
		d.line("double", v.Double())
	case pcommon.ValueTypeSlice:
		d.line("array", v.Slice().Len())
		for _, item := range v.Slice().All() {
			d.value(item)
		}
	case pcommon.ValueTypeMap:
		d.line("keyvalues")
		d.attributes(v.Map())
	default:
		d.line("empty")
	}
}

func (d *dump) span(span ptrace.Span) {
	d.line("span", trace(span.TraceID()), spanid(span.SpanID()), spanid(span.ParentSpanID()), span.TraceState().AsRaw(),
		span.Name(), int32(span.Kind()), span.Flags(), uint64(span.StartTimestamp()), uint64(span.EndTimestamp()),
		span.DroppedAttributesCount(), span.DroppedEventsCount(), span.DroppedLinksCount(), int32(span.Status().Code()),
		span.Status().Message())
	d.attributes(span.Attributes())
	for _, event := range span.Events().All() {
		d.line("event", uint64(event.Timestamp()), event.Name(), event.DroppedAttributesCount())
		d.attributes(event.Attributes())
	}
	for _, link := range span.Links().All() {
		d.line("link", trace(link.TraceID()), spanid(link.SpanID()), link.TraceState().AsRaw(), link.Flags(),
			link.DroppedAttributesCount())
		d.attributes(link.Attributes())
	}
}

func (d *dump) metrics(md pmetric.Metrics) {
	for _, rm := range md.ResourceMetrics().All() {
		d.line("resource", rm.SchemaUrl(), rm.Resource().DroppedAttributesCount(), rm.ScopeMetrics().Len())
		d.attributes(rm.Resource().Attributes())
		for _, sm := range rm.ScopeMetrics().All() {
			d.scope(sm.SchemaUrl(), sm.Scope(), sm.Metrics().Len())
			for _, metric := range sm.Metrics().All() {
				d.metric(metric)
			}
		}
	}
}

func (d *dump) metric(metric pmetric.Metric) {
	head := func(t wire.MetricType, temporality pmetric.AggregationTemporality, monotonic bool, points int) {
		d.line("metric", metric.Name(), metric.Description(), metric.Unit(), t, int32(temporality), monotonic, points)
		d.attributes(metric.Metadata())
	}
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		points := metric.Gauge().DataPoints()
		head(wire.MetricGauge, 0, false, points.Len())
		for _, p := range points.All() {
			d.number(p)
		}
	case pmetric.MetricTypeSum:
		sum := metric.Sum()
		head(wire.MetricSum, sum.AggregationTemporality(), sum.IsMonotonic(), sum.DataPoints().Len())
		for _, p := range sum.DataPoints().All() {
			d.number(p)
		}
	case pmetric.MetricTypeHistogram:
		points := metric.Histogram().DataPoints()
		head(wire.MetricHistogram, metric.Histogram().AggregationTemporality(), false, points.Len())
		for _, p := range points.All() {
			d.line("point", uint64(p.StartTimestamp()), uint64(p.Timestamp()), uint32(p.Flags()), wire.KindEmpty, 0, 0.0)
			d.line("distribution", p.Count(), p.Sum(), p.HasMin(), p.Min(), p.HasMax(), p.Max(), 0, 0, 0.0)
			d.line("has sum", p.HasSum())
			for _, v := range p.ExplicitBounds().All() {
				d.line("bound", v)
			}
			d.bucketCounts(p.BucketCounts())
			d.noBuckets()
			d.exemplars(p.Exemplars())
			d.attributes(p.Attributes())
		}
	case pmetric.MetricTypeExponentialHistogram:
		points := metric.ExponentialHistogram().DataPoints()
		head(wire.MetricExponentialHistogram, metric.ExponentialHistogram().AggregationTemporality(), false, points.Len())
		for _, p := range points.All() {
			d.line("point", uint64(p.StartTimestamp()), uint64(p.Timestamp()), uint32(p.Flags()), wire.KindEmpty, 0, 0.0)
			d.line("distribution", p.Count(), p.Sum(), p.HasMin(), p.Min(), p.HasMax(), p.Max(), p.Scale(), p.ZeroCount(),
				p.ZeroThreshold())
			d.line("has sum", p.HasSum())
			d.line("counts", 0)
			for _, b := range []pmetric.ExponentialHistogramDataPointBuckets{p.Positive(), p.Negative()} {
				d.line("buckets", b.Offset())
				d.bucketCounts(b.BucketCounts())
			}
			d.exemplars(p.Exemplars())
			d.attributes(p.Attributes())
		}
	case pmetric.MetricTypeSummary:
		points := metric.Summary().DataPoints()
		head(wire.MetricSummary, 0, false, points.Len())
		for _, p := range points.All() {
			d.line("point", uint64(p.StartTimestamp()), uint64(p.Timestamp()), uint32(p.Flags()), wire.KindEmpty, 0, 0.0)
			d.line("distribution", p.Count(), p.Sum(), false, 0.0, false, 0.0, 0, 0, 0.0)
			d.line("counts", 0)
			d.noBuckets()
			for _, q := range p.QuantileValues().All() {
				d.line("quantile", q.Quantile(), q.Value())
			}
			d.attributes(p.Attributes())
		}
	default:
		head(wire.MetricEmpty, 0, false, 0)
	}
}

func (d *dump) number(p pmetric.NumberDataPoint) {
	kind, i, f := wire.KindEmpty, int64(0), 0.0
	switch p.ValueType() {
	case pmetric.NumberDataPointValueTypeInt:
		kind, i = wire.KindInt, p.IntValue()
	case pmetric.NumberDataPointValueTypeDouble:
		kind, f = wire.KindDouble, p.DoubleValue()
	}
	d.line("point", uint64(p.StartTimestamp()), uint64(p.Timestamp()), uint32(p.Flags()), kind, i, f)
	d.line("distribution", 0, 0.0, false, 0.0, false, 0.0, 0, 0, 0.0)
	d.line("has sum", false)
	d.line("counts", 0)
	d.noBuckets()
	d.exemplars(p.Exemplars())
	d.attributes(p.Attributes())
}

func (d *dump) noBuckets() {
	for range 2 {
		d.line("buckets", 0)
		d.line("counts", 0)
	}
}

func (d *dump) bucketCounts(counts pcommon.UInt64Slice) {
	d.line("counts", counts.Len())
	for _, v := range counts.All() {
		d.line("count", v)
	}
}

func (d *dump) exemplars(list pmetric.ExemplarSlice) {
	for _, e := range list.All() {
		kind, i, f := wire.KindEmpty, int64(0), 0.0
		switch e.ValueType() {
		case pmetric.ExemplarValueTypeInt:
			kind, i = wire.KindInt, e.IntValue()
		case pmetric.ExemplarValueTypeDouble:
			kind, f = wire.KindDouble, e.DoubleValue()
		}
		d.line("exemplar", uint64(e.Timestamp()), trace(e.TraceID()), spanid(e.SpanID()), kind, i, f)
		d.attributes(e.FilteredAttributes())
	}
}

func (d *dump) logs(ld plog.Logs) {
	for _, rl := range ld.ResourceLogs().All() {
		d.line("resource", rl.SchemaUrl(), rl.Resource().DroppedAttributesCount(), rl.ScopeLogs().Len())
		d.attributes(rl.Resource().Attributes())
		for _, sl := range rl.ScopeLogs().All() {
			d.scope(sl.SchemaUrl(), sl.Scope(), sl.LogRecords().Len())
			for _, record := range sl.LogRecords().All() {
				d.line("log", uint64(record.Timestamp()), uint64(record.ObservedTimestamp()), int32(record.SeverityNumber()),
					record.SeverityText(), trace(record.TraceID()), spanid(record.SpanID()), uint32(record.Flags()),
					record.EventName(), record.DroppedAttributesCount())
				d.value(record.Body())
				d.attributes(record.Attributes())
			}
		}
	}
}

// trace and spanid return an id as the views do: nil if it is all zeros.
func trace(id pcommon.TraceID) []byte {
	if id.IsEmpty() {
		return nil
	}
	return id[:]
}

func spanid(id pcommon.SpanID) []byte {
	if id.IsEmpty() {
		return nil
	}
	return id[:]
}
