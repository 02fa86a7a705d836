// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"assay/internal/wire"
)

// DumpWire dumps a request through the views of package wire as text, one line for each message.
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

// DumpPdata dumps a request as pdata reads it, which is what DumpWire reads from the encoding of pdata: it has each
// field once and nothing else. A request that pdata reads and the views do not becomes the error of the views.
func DumpPdata(signal wire.Signal, body []byte) (string, error) {
	request := NewPdata(signal)
	if err := request.UnmarshalProto(body); err != nil {
		return "", err
	}
	text, err := DumpWire(signal, must(request.MarshalProto()))
	if err != nil {
		text = err.Error()
	}
	return text, nil
}

// Pdata is an export request of pdata.
type Pdata interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
	MarshalProto() ([]byte, error)
	MarshalJSON() ([]byte, error)
}

// NewPdata returns an empty export request of pdata.
func NewPdata(signal wire.Signal) Pdata {
	switch signal {
	case wire.Traces:
		return ptraceotlp.NewExportRequest()
	case wire.Metrics:
		return pmetricotlp.NewExportRequest()
	case wire.Logs:
		return plogotlp.NewExportRequest()
	default:
		panic("wiretest: not a signal")
	}
}

// HasGroup reports whether a request contains a group as an unknown field. It also returns true if the official
// protobuf library rejects the request.
func HasGroup(signal wire.Signal, body []byte) bool {
	m := NewOfficial(signal)
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

// dump writes one line per message. After an error it is not complete.
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
	d.attributes(resource.Attributes)
	d.each(entry.Scopes, func(m wire.Message) {
		var scoped wire.ScopeEntry
		d.check(scoped.Decode(m))
		var scope wire.Scope
		d.check(scope.Decode(scoped.Scope))
		d.line("scope", scoped.SchemaURL, scope.Name, scope.Version, scope.DroppedAttributesCount, scoped.Records.Len())
		d.attributes(scope.Attributes)
		d.each(scoped.Records, func(m wire.Message) {
			switch signal {
			case wire.Traces:
				d.span(m)
			case wire.Metrics:
				d.metric(m)
			default:
				d.log(m)
			}
		})
	})
}

func (d *dump) attributes(list wire.Repeated) {
	d.line("attributes", list.Len())
	d.each(list, func(m wire.Message) {
		var kv wire.KeyValue
		d.check(kv.Decode(m))
		d.line("key", kv.Key)
		d.value(&kv.Value)
	})
}

func (d *dump) value(v *wire.Value) {
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
			d.value(&item)
		})
	case wire.KindKeyValues:
		d.line("keyvalues")
		d.attributes(v.Items)
	default:
		d.line(v.Kind.String())
	}
}

func (d *dump) span(m wire.Message) {
	var span wire.Span
	d.check(span.Decode(m))
	d.line("span", span.TraceID, span.SpanID, span.ParentSpanID, span.TraceState, span.Name, span.Kind, span.Flags,
		span.StartTimeUnixNano, span.EndTimeUnixNano, span.DroppedAttributesCount, span.DroppedEventsCount,
		span.DroppedLinksCount, span.StatusCode, span.StatusMessage)
	d.attributes(span.Attributes)
	d.each(span.Events, func(m wire.Message) {
		var event wire.SpanEvent
		d.check(event.Decode(m))
		d.line("event", event.TimeUnixNano, event.Name, event.DroppedAttributesCount)
		d.attributes(event.Attributes)
	})
	d.each(span.Links, func(m wire.Message) {
		var link wire.SpanLink
		d.check(link.Decode(m))
		d.line("link", link.TraceID, link.SpanID, link.TraceState, link.Flags, link.DroppedAttributesCount)
		d.attributes(link.Attributes)
	})
}

func (d *dump) metric(m wire.Message) {
	var metric wire.Metric
	d.check(metric.Decode(m))
	d.line("metric", metric.Name, metric.Description, metric.Unit, metric.Type, metric.AggregationTemporality,
		metric.IsMonotonic, metric.DataPoints.Len())
	d.attributes(metric.Metadata)
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
		d.each(p.Exemplars, d.exemplar)
		d.attributes(p.Attributes)
	})
}

func (d *dump) counts(c wire.Counts) {
	d.line("counts", c.Len())
	for v, ok := c.Next(); ok; v, ok = c.Next() {
		d.line("count", v)
	}
}

func (d *dump) exemplar(m wire.Message) {
	var e wire.Exemplar
	d.check(e.Decode(m))
	d.line("exemplar", e.TimeUnixNano, e.TraceID, e.SpanID, e.NumberKind, e.Int, e.Double)
	d.attributes(e.FilteredAttributes)
}

func (d *dump) log(m wire.Message) {
	var (
		record wire.LogRecord
		value  wire.Value
	)
	d.check(record.Decode(m))
	d.line("log", record.TimeUnixNano, record.ObservedTimeUnixNano, record.SeverityNumber, record.SeverityText,
		record.TraceID, record.SpanID, record.Flags, record.EventName, record.DroppedAttributesCount)
	d.check(value.Decode(record.Body))
	d.value(&value)
	d.attributes(record.Attributes)
}
