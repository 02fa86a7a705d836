// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"testing"

	"github.com/VictoriaMetrics/easyproto"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// batch is the size of a typical export batch: 1,000 records with ten attributes each.
var batch = wiretest.Size{Resources: 1, Scopes: 2, Records: 500, Attributes: 10}

// totals is the result of a walk. Benchmarks compare it, to verify that they measured the full work.
type totals struct {
	records, attributes, bytes int
}

func (t *totals) attrs(list wire.Repeated) error {
	var kv wire.KeyValue
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		if err := kv.Decode(m); err != nil {
			return err
		}
		t.attributes++
		t.bytes += len(kv.Key) + len(kv.Value.Bytes)
	}
	return nil
}

// walk decodes all records of a request and all their attributes.
func walk(signal wire.Signal, body []byte) (t totals, err error) {
	entries, err := wire.Request(body)
	if err != nil {
		return t, err
	}
	var (
		entry    wire.ResourceEntry
		resource wire.Resource
		scoped   wire.ScopeEntry
	)
	for m, ok := entries.Next(); ok; m, ok = entries.Next() {
		if err := entry.Decode(m); err != nil {
			return t, err
		}
		if err := resource.Decode(entry.Resource); err != nil {
			return t, err
		}
		if err := t.attrs(resource.Attributes); err != nil {
			return t, err
		}
		for m, ok := entry.Scopes.Next(); ok; m, ok = entry.Scopes.Next() {
			if err := scoped.Decode(m); err != nil {
				return t, err
			}
			for m, ok := scoped.Records.Next(); ok; m, ok = scoped.Records.Next() {
				if err := t.record(signal, m); err != nil {
					return t, err
				}
			}
		}
	}
	return t, nil
}

func (t *totals) record(signal wire.Signal, m wire.Message) error {
	switch signal {
	case wire.Traces:
		return t.span(m)
	case wire.Metrics:
		return t.metric(m)
	default:
		return t.log(m)
	}
}

func (t *totals) span(m wire.Message) error {
	var span wire.Span
	if err := span.Decode(m); err != nil {
		return err
	}
	t.records++
	t.bytes += len(span.Name)
	for m, ok := span.Events.Next(); ok; m, ok = span.Events.Next() {
		var event wire.SpanEvent
		if err := event.Decode(m); err != nil {
			return err
		}
		if err := t.attrs(event.Attributes); err != nil {
			return err
		}
	}
	for m, ok := span.Links.Next(); ok; m, ok = span.Links.Next() {
		var link wire.SpanLink
		if err := link.Decode(m); err != nil {
			return err
		}
		if err := t.attrs(link.Attributes); err != nil {
			return err
		}
	}
	return t.attrs(span.Attributes)
}

func (t *totals) metric(m wire.Message) error {
	var metric wire.Metric
	if err := metric.Decode(m); err != nil {
		return err
	}
	for m, ok := metric.DataPoints.Next(); ok; m, ok = metric.DataPoints.Next() {
		var point wire.DataPoint
		if err := point.Decode(metric.Type, m); err != nil {
			return err
		}
		t.records++
		if err := t.attrs(point.Attributes); err != nil {
			return err
		}
	}
	return nil
}

func (t *totals) log(m wire.Message) error {
	var (
		record wire.LogRecord
		body   wire.Value
	)
	if err := record.Decode(m); err != nil {
		return err
	}
	if err := body.Decode(record.Body); err != nil {
		return err
	}
	t.records++
	t.bytes += len(body.Bytes)
	return t.attrs(record.Attributes)
}

func BenchmarkWalkTraces(b *testing.B) {
	benchmark(b, wire.Traces, wiretest.MarshalTraces(wiretest.Traces(batch)), func(body []byte) (int, error) {
		request := ptraceotlp.NewExportRequest()
		err := request.UnmarshalProto(body)
		return request.Traces().SpanCount(), err
	})
}

func BenchmarkWalkMetrics(b *testing.B) {
	benchmark(b, wire.Metrics, wiretest.MarshalMetrics(wiretest.Metrics(batch)), func(body []byte) (int, error) {
		request := pmetricotlp.NewExportRequest()
		err := request.UnmarshalProto(body)
		return request.Metrics().DataPointCount(), err
	})
}

func BenchmarkWalkLogs(b *testing.B) {
	benchmark(b, wire.Logs, wiretest.MarshalLogs(wiretest.Logs(batch)), func(body []byte) (int, error) {
		request := plogotlp.NewExportRequest()
		err := request.UnmarshalProto(body)
		return request.Logs().LogRecordCount(), err
	})
}

func benchmark(b *testing.B, signal wire.Signal, descending []byte, unmarshal func([]byte) (int, error)) {
	for _, order := range []struct {
		name string
		body []byte
	}{
		{"ascending", wiretest.Ascending(signal, descending)},
		{"descending", descending},
	} {
		b.Run("wire/"+order.name, func(b *testing.B) {
			b.SetBytes(int64(len(order.body)))
			b.ReportAllocs()
			for b.Loop() {
				if t, err := walk(signal, order.body); err != nil || t.records < 1000 {
					b.Fatal(t, err)
				}
			}
		})
		b.Run("validate/"+order.name, func(b *testing.B) {
			b.SetBytes(int64(len(order.body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := wire.Validate(signal, order.body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("pdata/"+order.name, func(b *testing.B) {
			b.SetBytes(int64(len(order.body)))
			b.ReportAllocs()
			for b.Loop() {
				if n, err := unmarshal(order.body); err != nil || n < 1000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkEasyprotoTraces walks the batch of BenchmarkWalkTraces with a library's field reader. It reads the same
// fields of the same messages, without offsets and with fewer checks.
func BenchmarkEasyprotoTraces(b *testing.B) {
	descending := wiretest.MarshalTraces(wiretest.Traces(batch))
	for _, order := range []struct {
		name string
		body []byte
	}{
		{"ascending", wiretest.Ascending(wire.Traces, descending)},
		{"descending", descending},
	} {
		want, err := walk(wire.Traces, order.body)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(order.name, func(b *testing.B) {
			b.SetBytes(int64(len(order.body)))
			b.ReportAllocs()
			for b.Loop() {
				var t easyTotals
				if err := t.levels(order.body, 0); err != nil || t.totals != want {
					b.Fatal(t, want, err)
				}
			}
		})
	}
}

// easyTotals is totals for easyproto.
type easyTotals struct {
	totals
	numbers uint64 // so that the compiler does not drop the scalars
}

// levels descends from the request (level 0) over the entries to the spans (level 3).
func (t *easyTotals) levels(b []byte, level int) (err error) {
	if level == 3 {
		return t.span(b)
	}
	var fc easyproto.FieldContext
	for len(b) > 0 {
		if b, err = fc.NextField(b); err != nil {
			return err
		}
		data, ok := fc.MessageData()
		if !ok {
			return fmt.Errorf("field %d is no message", fc.FieldNum)
		}
		switch {
		case level == 1 && fc.FieldNum == 1:
			err = t.resource(data)
		case level == 0 && fc.FieldNum == 1, level > 0 && fc.FieldNum == 2:
			err = t.levels(data, level+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *easyTotals) resource(b []byte) (err error) {
	var fc easyproto.FieldContext
	for len(b) > 0 {
		if b, err = fc.NextField(b); err != nil {
			return err
		}
		if fc.FieldNum == 1 {
			data, _ := fc.MessageData()
			if err := t.attribute(data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *easyTotals) span(b []byte) (err error) {
	var fc easyproto.FieldContext
	t.records++
	for len(b) > 0 {
		if b, err = fc.NextField(b); err != nil {
			return err
		}
		switch fc.FieldNum {
		case 1, 2, 3, 4:
			data, _ := fc.Bytes()
			t.numbers += uint64(len(data))
		case 5:
			data, _ := fc.Bytes()
			t.bytes += len(data)
		case 6, 10, 12, 14:
			v, _ := fc.Uint32()
			t.numbers += uint64(v)
		case 7, 8:
			v, _ := fc.Fixed64()
			t.numbers += v
		case 9:
			data, _ := fc.MessageData()
			err = t.attribute(data)
		case 11:
			data, _ := fc.MessageData()
			err = t.child(data, 3)
		case 13:
			data, _ := fc.MessageData()
			err = t.child(data, 4)
		case 15:
			data, _ := fc.MessageData()
			err = t.child(data, 0)
		case 16:
			v, _ := fc.Fixed32()
			t.numbers += uint64(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// child reads an event, link or status whose attributes have the given field number.
func (t *easyTotals) child(b []byte, attributes uint32) (err error) {
	var fc easyproto.FieldContext
	for len(b) > 0 {
		if b, err = fc.NextField(b); err != nil {
			return err
		}
		if fc.FieldNum == attributes {
			data, _ := fc.MessageData()
			if err := t.attribute(data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *easyTotals) attribute(b []byte) (err error) {
	var fc easyproto.FieldContext
	t.attributes++
	for len(b) > 0 {
		if b, err = fc.NextField(b); err != nil {
			return err
		}
		data, _ := fc.MessageData()
		if fc.FieldNum == 1 {
			t.bytes += len(data)
		} else if err := t.value(data); err != nil {
			return err
		}
	}
	return nil
}

func (t *easyTotals) value(b []byte) (err error) {
	var fc easyproto.FieldContext
	for len(b) > 0 {
		if b, err = fc.NextField(b); err != nil {
			return err
		}
		switch fc.FieldNum {
		case 1, 7:
			data, _ := fc.Bytes()
			t.bytes += len(data)
		case 2:
			v, _ := fc.Bool()
			if v {
				t.numbers++
			}
		case 3:
			v, _ := fc.Int64()
			t.numbers += uint64(v)
		case 4:
			v, _ := fc.Double()
			t.numbers += uint64(v)
		}
	}
	return nil
}
