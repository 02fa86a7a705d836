// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// raw concatenates pieces of an encoded message.
func raw(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

// text, sub, varint and fixed encode one field.
func text(number protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), s)
}

func sub(number protowire.Number, pieces ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), raw(pieces...))
}

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

func fixed(number protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), v)
}

func message(pieces ...[]byte) wire.Message { return wire.Message{Bytes: raw(pieces...)} }

// list returns the contents of the remaining occurrences.
func list(r wire.Repeated) (all []string) {
	for m, ok := r.Next(); ok; m, ok = r.Next() {
		all = append(all, string(m.Bytes))
	}
	return all
}

func TestErrors(t *testing.T) {
	long := bytes.Repeat([]byte{0xff}, 11)
	for _, c := range []struct {
		name   string
		span   []byte // fields of a span that starts at byte 6 of the request
		offset int
		field  string
		reason string
	}{
		{"wrong wire type", raw(varint(6, 1), varint(5, 7)), 8, "Span.name", "wire type 0 does not match the field"},
		{"wrong wire type of a repeated field", fixed(9, 7), 6, "Span.attributes", "wire type 1 does not match the field"},
		{"length past the end", []byte{5<<3 | 2, 3, 'a', 'b'}, 7, "Span.name", "length is 3, 2 bytes left"},
		{"length past the end, later in a run", raw(sub(9), []byte{9<<3 | 2, 1}), 9, "Span.attributes", "length is 1, 0 bytes left"},
		{"huge length", raw([]byte{5<<3 | 2}, long[:9], []byte{1}), 7, "Span.name", "length is 18446744073709551615, 0 bytes left"},
		{"length cut off", []byte{5<<3 | 2, 0x80}, 7, "Span.name", "length is a truncated varint"},
		{"length over-long", raw([]byte{5<<3 | 2}, long), 7, "Span.name", "length is a varint longer than 10 bytes"},
		{"length missing", []byte{5<<3 | 2}, 7, "Span.name", "length is a truncated varint"},
		{"varint over-long", raw([]byte{6 << 3}, long), 7, "Span.kind", "value is a varint longer than 10 bytes"},
		{"varint missing", []byte{6 << 3}, 7, "Span.kind", "value is a truncated varint"},
		{"fixed64 cut off", []byte{7<<3 | 1, 1, 2, 3}, 7, "Span.start_time_unix_nano", "value needs 8 bytes, 3 left"},
		{"fixed32 cut off", []byte{0x85, 1, 1, 2}, 8, "Span.flags", "value needs 4 bytes, 2 left"},
		{"tag cut off", raw(varint(6, 1), []byte{0x80}), 8, "Span", "tag is a truncated varint"},
		{"tag over-long", long, 6, "Span", "tag is a varint longer than 10 bytes"},
		{"field 0", []byte{0, 0}, 6, "Span", "field number 0"},
		{"field 0 with a length", []byte{2, 0}, 6, "Span", "field number 0"},
		{"field number too large", []byte{0xff, 0xff, 0xff, 0xff, 0x7f, 0}, 6, "Span", "field number is out of range"},
		{"wire type 6", []byte{5<<3 | 6, 0}, 6, "Span.name", "invalid wire type 6"},
		{"wire type 7 of an unknown field", []byte{0xff, 6, 0}, 6, "Span.111", "invalid wire type 7"},
		{"end of no group", []byte{0xa4, 6}, 6, "Span.100", "end group without start group"},
		{"group not closed", []byte{0xa3, 6, 8, 1}, 6, "Span.100", "group is malformed, not closed, nested more than 64 deep, or larger than 64 KiB"},
		{"group closed by another", []byte{0xa3, 6, 0xac, 6}, 6, "Span.100", "group is malformed, not closed, nested more than 64 deep, or larger than 64 KiB"},
		{"groups too deep", raw(bytes.Repeat([]byte{0xa3, 6}, 65), bytes.Repeat([]byte{0xa4, 6}, 65)), 9, "Span.100", "group is malformed, not closed, nested more than 64 deep, or larger than 64 KiB"},
		{"group too large", raw([]byte{0xa3, 6}, bytes.Repeat([]byte{8, 1}, 32<<10), []byte{0xa4, 6}), 12, "Span.100", "group is malformed, not closed, nested more than 64 deep, or larger than 64 KiB"},
		{"group for a known field", []byte{5<<3 | 3, 5<<3 | 4}, 6, "Span.name", "wire type 3 does not match the field"},
		{"trace id too short", text(1, "123"), 6, "Span.trace_id", "trace id is not 16 bytes long"},
		{"span id too long", raw(varint(6, 1), text(2, "123456789")), 8, "Span.span_id", "span id is not 8 bytes long"},
		{"status", sub(15, varint(2, 1)), 8, "Status.message", "wire type 0 does not match the field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := wiretest.InRecord(c.span)
			want := &wire.Error{Offset: c.offset, Field: c.field, Reason: c.reason}
			require.Equal(t, want, wire.Validate(wire.Traces, body))
			_, err := walk(wire.Traces, body)
			require.Equal(t, want, err)
		})
	}
}

func TestErrorString(t *testing.T) {
	err := wire.Validate(wire.Logs, []byte{0})
	require.EqualError(t, err, "byte 0: ExportServiceRequest: field number 0")
}

func TestKnownFieldsRequireTheirWireType(t *testing.T) {
	// For each message type, encode each known field with each wire type. Exactly the declared types pass.
	payload := map[protowire.Type][]byte{
		protowire.VarintType: {1}, protowire.Fixed64Type: make([]byte, 8), protowire.BytesType: {0}, protowire.Fixed32Type: make([]byte, 4),
	}
	point := func(metric wire.MetricType) func(wire.Message) error {
		return func(m wire.Message) error { return new(wire.DataPoint).Decode(metric, m) }
	}
	for _, c := range []struct {
		name   string
		decode func(wire.Message) error
		types  string // wire types by field number from 1: v, 8, 4, l, . for unknown, p for packable fixed64, q for packable varint
	}{
		{"ResourceEntry", new(wire.ResourceEntry).Decode, "lll."},
		{"Resource", new(wire.Resource).Decode, "lvl."},
		{"EntityRef", new(wire.EntityRef).Decode, "llll."},
		{"ScopeEntry", new(wire.ScopeEntry).Decode, "lll."},
		{"Scope", new(wire.Scope).Decode, "lllv."},
		{"KeyValue", new(wire.KeyValue).Decode, "llv."},
		{"AnyValue", new(wire.Value).Decode, "lvv8lllv."},
		{"Span", new(wire.Span).Decode, "lllllv88lvlvlvl4."},
		{"SpanEvent", new(wire.SpanEvent).Decode, "8llv."},
		{"SpanLink", new(wire.SpanLink).Decode, "llllv4."},
		{"LogRecord", new(wire.LogRecord).Decode, "8vl.llv4ll8l."},
		{"Metric", new(wire.Metric).Decode, "lll.l.l.llll."},
		{"gauge point", point(wire.MetricGauge), ".888l8lv."},
		{"sum point", point(wire.MetricSum), ".888l8lv."},
		{"histogram point", point(wire.MetricHistogram), ".8888ppllv88."},
		{"exponential histogram point", point(wire.MetricExponentialHistogram), "l8888v8llvl888."},
		{"summary point", point(wire.MetricSummary), ".8888llv."},
		{"Buckets", new(wire.Buckets).Decode, "vq."},
		{"Quantile", new(wire.Quantile).Decode, "88."},
		{"Exemplar", new(wire.Exemplar).Decode, ".88ll8l."},
	} {
		for i, want := range c.types {
			number := protowire.Number(i + 1)
			for wireType, value := range payload {
				ok := false
				switch want {
				case 'v':
					ok = wireType == protowire.VarintType
				case '8':
					ok = wireType == protowire.Fixed64Type
				case '4':
					ok = wireType == protowire.Fixed32Type
				case 'l':
					ok = wireType == protowire.BytesType
				case 'p':
					ok = wireType == protowire.BytesType || wireType == protowire.Fixed64Type
				case 'q':
					ok = wireType == protowire.BytesType || wireType == protowire.VarintType
				case '.':
					ok = true
				}
				err := c.decode(message(protowire.AppendTag(nil, number, wireType), value))
				require.Equal(t, ok, err == nil, "%s field %d wire type %d: %v", c.name, number, wireType, err)
			}
		}
	}
}

func TestMetricDataFields(t *testing.T) {
	// Check which of the five data messages have a temporality and a monotonicity.
	for number, c := range map[protowire.Number]struct {
		metric                 wire.MetricType
		temporality, monotonic bool
	}{
		5:  {wire.MetricGauge, false, false},
		7:  {wire.MetricSum, true, true},
		9:  {wire.MetricHistogram, true, false},
		10: {wire.MetricExponentialHistogram, true, false},
		11: {wire.MetricSummary, false, false},
	} {
		var metric wire.Metric
		require.NoError(t, metric.Decode(message(sub(number, sub(1), varint(2, 2), varint(3, 1)))))
		require.Equal(t, c.metric, metric.Type)
		require.Equal(t, c.temporality, metric.AggregationTemporality == 2, c.metric)
		require.Equal(t, c.monotonic, metric.IsMonotonic, c.metric)
		require.Equal(t, 1, metric.DataPoints.Len())
		require.Equal(t, c.temporality, metric.Decode(message(sub(number, text(2, "")))) != nil, c.metric)
		require.Equal(t, c.monotonic, metric.Decode(message(sub(number, text(3, "")))) != nil, c.metric)
	}
}

func TestRepeatedFieldsKeepOrderAndCount(t *testing.T) {
	a, b, c := text(9, "a"), text(9, strings.Repeat("b", 200)), text(9, strings.Repeat("c", 20000))
	want := []string{"a", strings.Repeat("b", 200), strings.Repeat("c", 20000)}
	for name, body := range map[string][]byte{
		"in one piece":             raw(a, b, c),
		"fields in between":        raw(a, varint(6, 1), b, text(5, "name"), c, varint(12, 3)),
		"unknown fields":           raw(text(99, "x"), a, []byte{0xa3, 6, 8, 1, 0xa4, 6}, b, fixed(77, 1), c),
		"tags longer than needed":  raw([]byte{0xca, 0x00, 1, 'a'}, b, []byte{0xca, 0x80, 0x00}, c[1:]),
		"length longer than needs": raw([]byte{9<<3 | 2, 0x81, 0x80, 0x00, 'a'}, b, c),
	} {
		t.Run(name, func(t *testing.T) {
			var span wire.Span
			require.NoError(t, span.Decode(wire.Message{Bytes: body, Offset: 1000}))
			require.Equal(t, 3, span.Attributes.Len())
			rest := span.Attributes // a copy iterates independently
			require.Equal(t, want, list(rest))
			require.Equal(t, 3, span.Attributes.Len())
			for i, content := range want {
				m, ok := span.Attributes.Next()
				require.True(t, ok)
				require.Equal(t, 2-i, span.Attributes.Len())
				require.Equal(t, content, string(m.Bytes))
				require.Equal(t, len(m.Bytes), cap(m.Bytes))
				require.Equal(t, content, string(body[m.Offset-1000:m.Offset-1000+len(m.Bytes)]))
			}
			for range 2 {
				m, ok := span.Attributes.Next()
				require.False(t, ok)
				require.Equal(t, wire.Message{}, m)
			}
			require.Zero(t, span.Events.Len())
		})
	}
}

func TestZeroRepeatedIsEmpty(t *testing.T) {
	var r wire.Repeated
	_, ok := r.Next()
	require.False(t, ok)
	require.Zero(t, r.Len())
	var d wire.Doubles
	_, ok = d.Next()
	require.False(t, ok)
	require.Zero(t, d.Len())
}

func TestDecodeOverwritesReceiver(t *testing.T) {
	full := wiretest.Size{Resources: 1, Scopes: 1, Records: 5, Attributes: 3}
	records := func(body []byte) []wire.Message {
		entries, err := wire.Request(body)
		require.NoError(t, err)
		m, _ := entries.Next()
		var entry wire.ResourceEntry
		require.NoError(t, entry.Decode(m))
		m, _ = entry.Scopes.Next()
		var scoped wire.ScopeEntry
		require.NoError(t, scoped.Decode(m))
		var all []wire.Message
		for m, ok := scoped.Records.Next(); ok; m, ok = scoped.Records.Next() {
			all = append(all, m)
		}
		return all
	}
	var span wire.Span
	require.NoError(t, span.Decode(records(wiretest.MarshalTraces(wiretest.Traces(full)))[0]))
	require.NotZero(t, span)
	require.NoError(t, span.Decode(wire.Message{}))
	require.Equal(t, wire.Span{}, span)

	var record wire.LogRecord
	require.NoError(t, record.Decode(records(wiretest.MarshalLogs(wiretest.Logs(full)))[0]))
	require.NoError(t, record.Decode(wire.Message{}))
	require.Equal(t, wire.LogRecord{}, record)

	for _, m := range records(wiretest.MarshalMetrics(wiretest.Metrics(full))) {
		var metric wire.Metric
		require.NoError(t, metric.Decode(m))
		data, _ := metric.DataPoints.Next()
		var point, none wire.DataPoint
		require.NoError(t, point.Decode(metric.Type, data))
		require.NotZero(t, point)
		require.NoError(t, point.Decode(metric.Type, wire.Message{}))
		require.NoError(t, none.Decode(metric.Type, wire.Message{}))
		require.Equal(t, none, point)
		require.NoError(t, metric.Decode(wire.Message{}))
		require.Equal(t, wire.Metric{}, metric)
	}

	var kv wire.KeyValue
	for _, value := range [][]byte{text(1, "s"), varint(2, 1), varint(3, 1), fixed(4, 1), sub(5, sub(1)), sub(6, sub(1)), text(7, "b")} {
		for _, next := range [][]byte{nil, text(1, "s"), varint(2, 1), varint(3, 1), fixed(4, 1), sub(5, sub(1)), sub(6, sub(1)), text(7, "b")} {
			require.NoError(t, kv.Decode(message(text(1, "key"), sub(2, value))))
			require.NotZero(t, kv.Value.Kind)
			require.NoError(t, kv.Decode(message(text(1, "k"), sub(2, next))))
			var fresh wire.KeyValue
			require.NoError(t, fresh.Decode(message(text(1, "k"), sub(2, next))))
			require.Equal(t, fresh, kv)
		}
	}
}

func TestDecodeFastPathAgreesWithSlowPath(t *testing.T) {
	// An unknown field at the end forces the slow path of Decode.
	unknown := varint(100, 1)
	for name, value := range map[string][]byte{
		"string": text(1, "v"), "empty string": text(1, ""), "longest": text(1, strings.Repeat("v", 125)), "long": text(1, strings.Repeat("v", 126)),
		"bool": varint(2, 1), "false": varint(2, 0), "bool as a large number": varint(2, 300), "int": varint(3, 1), "zero": varint(3, 0),
		"two bytes": varint(3, 200), "negative": varint(3, 1<<64-1), "double": fixed(4, 1), "array": sub(5, sub(1)), "list": sub(6, sub(1)),
		"bytes": text(7, "b"), "none": nil, "two members": raw(text(1, "v"), varint(3, 1)), "reference": varint(8, 1),
		"unknown": text(20, "x"), "string with a rest": raw(text(1, "v"), text(30, "xy")),
	} {
		for _, key := range []string{"", "k", strings.Repeat("k", 127), strings.Repeat("k", 128)} {
			for order, fields := range map[string][]byte{
				"key first": raw(text(1, key), sub(2, value)), "value first": raw(sub(2, value), text(1, key)),
			} {
				var short, long wire.KeyValue
				require.NoError(t, short.Decode(message(fields)))
				require.NoError(t, long.Decode(message(fields, unknown)))
				short.Value.Items, long.Value.Items = wire.Repeated{}, wire.Repeated{} // they alias different slices
				require.Equal(t, len(long.Key), cap(long.Key))
				require.Equal(t, len(short.Key), cap(short.Key))
				require.Equal(t, len(short.Value.Bytes), cap(short.Value.Bytes))
				require.Equal(t, key, string(short.Key), name+order)
				if len(short.Key) == 0 {
					short.Key, long.Key = nil, nil
				}
				require.Equal(t, long, short, "%s, %s", name, order)
			}
		}
	}
}

func TestLastScalarWins(t *testing.T) {
	var span wire.Span
	require.NoError(t, span.Decode(message(text(5, "first"), varint(6, 1), text(2, "12345678"), text(5, "second"), varint(6, 3), text(2, ""))))
	require.Equal(t, "second", string(span.Name))
	require.EqualValues(t, 3, span.Kind)
	require.Nil(t, span.SpanID)
}

func TestSingularMessagesAreMerged(t *testing.T) {
	var entry wire.ResourceEntry
	require.NoError(t, entry.Decode(wire.Message{Offset: 10, Bytes: raw(
		sub(1, sub(1, text(1, "a")), varint(2, 1)), sub(2), sub(1), sub(1, varint(2, 5), sub(1, text(1, "b")), sub(1, text(1, "c"))),
	)}))
	require.Equal(t, 12, entry.Resource.Offset)
	var resource wire.Resource
	require.NoError(t, resource.Decode(entry.Resource))
	require.Equal(t, 3, resource.Attributes.Len())
	require.EqualValues(t, 5, resource.DroppedAttributesCount)
	require.True(t, entry.HasResource)
	require.Equal(t, 1, entry.Scopes.Len())

	var span wire.Span
	require.NoError(t, span.Decode(message(sub(15, text(2, "why"), varint(3, 1)), sub(15, varint(3, 2)))))
	require.Equal(t, "why", string(span.StatusMessage))
	require.EqualValues(t, 2, span.StatusCode)

	var kv wire.KeyValue
	require.NoError(t, kv.Decode(message(sub(2, text(1, "s")), text(1, "k"), sub(2))))
	require.Equal(t, wire.KindString, kv.Value.Kind, "an empty occurrence changes nothing")

	var point wire.DataPoint
	require.NoError(t, point.Decode(wire.MetricExponentialHistogram, message(
		sub(8, varint(1, 3), varint(2, 7)), sub(8, sub(2, []byte{1, 2, 0xac, 2})), sub(8, varint(2, 9)))))
	var buckets wire.Buckets
	require.NoError(t, buckets.Decode(point.Positive))
	require.EqualValues(t, -2, buckets.Offset)
	require.Equal(t, 5, buckets.Counts.Len())
	for i, want := range []uint64{7, 1, 2, 300, 9} {
		got, ok := buckets.Counts.Next()
		require.True(t, ok)
		require.Equal(t, want, got)
		require.Equal(t, 4-i, buckets.Counts.Len())
	}
}

// TestPieces: a singular message may arrive in several pieces, unless they are large together.
func TestPieces(t *testing.T) {
	const large = 256 << 10
	key := sub(1, text(1, "key"))
	exponential := func(number protowire.Number) func(...[]byte) []byte {
		return func(pieces ...[]byte) []byte {
			var point [][]byte
			for _, p := range pieces {
				point = append(point, sub(number, p))
			}
			return sub(1, sub(2, sub(2, sub(10, sub(1, point...)))))
		}
	}
	for name, c := range map[string]struct {
		signal wire.Signal
		in     func(pieces ...[]byte) []byte
	}{
		"resource": {wire.Traces, func(pieces ...[]byte) []byte {
			var entry [][]byte
			for _, p := range pieces {
				entry = append(entry, sub(1, p))
			}
			return sub(1, entry...)
		}},
		"scope": {wire.Metrics, func(pieces ...[]byte) []byte {
			var scoped [][]byte
			for _, p := range pieces {
				scoped = append(scoped, sub(1, p))
			}
			return sub(1, sub(2, scoped...))
		}},
		"body": {wire.Logs, func(pieces ...[]byte) []byte {
			var record [][]byte
			for _, p := range pieces {
				record = append(record, sub(5, p))
			}
			return sub(1, sub(2, sub(2, record...)))
		}},
		"positive": {wire.Metrics, exponential(8)},
		"negative": {wire.Metrics, exponential(9)},
	} {
		t.Run(name, func(t *testing.T) {
			unknown := func(n int) []byte { return text(200, strings.Repeat("x", n-5)) } // with a tag of 2 bytes and a length of 3
			for _, x := range []struct {
				pieces [][]byte
				ok     bool
			}{
				{[][]byte{unknown(2 * large)}, true},
				{[][]byte{unknown(large / 2), unknown(large/2 - 1)}, true},
				{[][]byte{unknown(large / 2), unknown(large / 2)}, false},
				{[][]byte{{}, unknown(large)}, false},
				{[][]byte{unknown(large), {}}, false},
				{bytes.SplitAfter(bytes.Repeat([]byte("\xc2\x0c\x00"), large/3+1), []byte("\x00")), false},
				{bytes.SplitAfter(bytes.Repeat([]byte("\xc2\x0c\x00"), large/3-1), []byte("\x00")), true},
			} {
				body := c.in(x.pieces...)
				_, err := walk(c.signal, body)
				require.Equal(t, x.ok, err == nil, "%d pieces: %v", len(x.pieces), err)
				require.Equal(t, err, wire.Validate(c.signal, body))
				require.Equal(t, err, wire.ValidateLarge(c.signal, body, func(uint64) error { return nil }))
			}
		})
	}
	got, err := walk(wire.Traces, sub(1, bytes.Repeat(sub(1, key), 1<<10)))
	require.NoError(t, err)
	require.Equal(t, 1<<10, got.attributes)
}

func TestLastMemberOfAOneofWins(t *testing.T) {
	var v wire.Value
	require.NoError(t, v.Decode(message(text(1, "s"), varint(3, 5))))
	require.Equal(t, wire.Value{Kind: wire.KindInt, Int: 5}, v)
	require.NoError(t, v.Decode(message(sub(5, sub(1), sub(1)), sub(5, sub(1)))))
	require.Equal(t, wire.KindArray, v.Kind)
	require.Equal(t, 1, v.Items.Len(), "the later array replaces the earlier one")
	require.NoError(t, v.Decode(message(sub(5, sub(1)), sub(6))))
	require.Equal(t, wire.Value{Kind: wire.KindKeyValues}, v)
	require.NoError(t, v.Decode(message(text(1, "s"), varint(8, 5))))
	require.Equal(t, wire.Value{}, v)

	var metric wire.Metric
	require.NoError(t, metric.Decode(message(sub(7, sub(1), varint(2, 2)), sub(5, sub(1), sub(1)))))
	require.Equal(t, wire.MetricGauge, metric.Type)
	require.Equal(t, 2, metric.DataPoints.Len())
	require.Zero(t, metric.AggregationTemporality)

	var point wire.DataPoint
	require.NoError(t, point.Decode(wire.MetricSum, message(fixed(6, 7), fixed(4, 0))))
	require.Equal(t, wire.KindDouble, point.NumberKind)
	require.Zero(t, point.Int)
	var exemplar wire.Exemplar
	require.NoError(t, exemplar.Decode(message(fixed(3, 7), fixed(6, 9))))
	require.Equal(t, wire.KindInt, exemplar.NumberKind)
	require.EqualValues(t, 9, exemplar.Int)
}

func TestPackedAndUnpackedNumbersMix(t *testing.T) {
	packed := sub(7, protowire.AppendFixed64(protowire.AppendFixed64(nil, 1), 2))
	var point wire.DataPoint
	require.NoError(t, point.Decode(wire.MetricHistogram, message(fixed(7, 9), packed, fixed(6, 4), fixed(6, 5), sub(7), fixed(4, 1), packed)))
	require.Equal(t, 5, point.ExplicitBounds.Len())
	var bounds []uint64
	for v, ok := point.ExplicitBounds.Next(); ok; v, ok = point.ExplicitBounds.Next() {
		bounds = append(bounds, math.Float64bits(v))
	}
	require.Equal(t, []uint64{9, 1, 2, 1, 2}, bounds)
	require.Zero(t, point.ExplicitBounds.Len())
	require.Equal(t, 2, point.BucketCounts.Len())

	require.EqualError(t, point.Decode(wire.MetricHistogram, message(text(7, "1234567"))),
		"byte 0: HistogramDataPoint.explicit_bounds: packed field does not hold a whole number of values")
	require.EqualError(t, new(wire.Buckets).Decode(message(text(2, "\x01\x80"))),
		"byte 0: ExponentialHistogramDataPoint.Buckets.bucket_counts: packed field does not hold a whole number of values")
}

func TestNegativeEnumsTakeTenBytes(t *testing.T) {
	var span wire.Span
	require.NoError(t, span.Decode(message(varint(6, 1<<64-1))))
	require.EqualValues(t, -1, span.Kind)
	var record wire.LogRecord
	require.NoError(t, record.Decode(message(varint(2, 1<<64-5))))
	require.EqualValues(t, -5, record.SeverityNumber)
}

func TestZeroIDsAreAbsent(t *testing.T) {
	var span wire.Span
	require.NoError(t, span.Decode(message(text(1, strings.Repeat("\x00", 16)), text(2, "\x00\x00\x00\x00\x00\x00\x00\x01"), text(4, strings.Repeat("\x00", 8)))))
	require.Nil(t, span.TraceID)
	require.Len(t, span.SpanID, 8)
	require.Nil(t, span.ParentSpanID)
}

func TestEntityRefs(t *testing.T) {
	var resource wire.Resource
	require.NoError(t, resource.Decode(message(sub(3, text(1, "url"), text(2, "service"), text(3, "service.name"), text(4, "a"), text(3, "service.namespace"), text(4, "b")))))
	m, ok := resource.EntityRefs.Next()
	require.True(t, ok)
	var ref wire.EntityRef
	require.NoError(t, ref.Decode(m))
	require.Equal(t, "url service", string(ref.SchemaURL)+" "+string(ref.Type))
	require.Equal(t, []string{"service.name", "service.namespace"}, list(ref.IDKeys))
	require.Equal(t, []string{"a", "b"}, list(ref.DescriptionKeys))
}

func TestNestingIsLimited(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		for _, c := range []struct {
			depth int
			ok    bool
		}{{0, true}, {1, true}, {wire.MaxDepth, true}, {wire.MaxDepth + 1, false}, {10000, false}, {1000000, false}} {
			if c.depth > 10000 && testing.Short() {
				continue
			}
			kv := wiretest.Nested(c.depth, mixed)
			err := wire.ValidateKeyValue(wire.Message{Bytes: kv, Offset: 7}, nil)
			require.Equal(t, c.ok, err == nil, "%d: %v", c.depth, err)
			for _, signal := range wiretest.Signals {
				require.Equal(t, c.ok, wire.Validate(signal, wiretest.InResource(kv)) == nil)
			}
			var attribute wire.KeyValue
			require.NoError(t, attribute.Decode(wire.Message{Bytes: kv}), "Decode looks one level deep")
			if c.ok {
				continue
			}
			var wireErr *wire.Error
			require.ErrorAs(t, err, &wireErr)
			require.Equal(t, "value is nested more than 64 deep", wireErr.Reason)
			require.Greater(t, wireErr.Offset, 7)
		}
	}
}

func TestValidateValue(t *testing.T) {
	require.NoError(t, wire.ValidateValue(message(sub(5, sub(1, text(1, "a")), sub(1, sub(6, sub(1, text(1, "k")))))), nil))
	bad := wire.Message{Offset: 100, Bytes: sub(5, sub(1, text(1, "a")), sub(1, sub(6, sub(1, varint(1, 1)))))}
	require.EqualError(t, wire.ValidateValue(bad, nil), "byte 113: KeyValue.key: wire type 0 does not match the field")
}

// TestFieldsOfValues: fields are counted in small values, too, and the error of a caller ends the validation.
func TestFieldsOfValues(t *testing.T) {
	for _, fields := range []uint64{100, 1000, 100_000} {
		value := append(text(1, "a"), bytes.Repeat([]byte{0x78, 1}, int(fields))...)
		attribute := append(text(1, "k"), bytes.Repeat([]byte{0x78, 1}, int(fields))...)
		for name, validate := range map[string]func(func(uint64) error) error{
			"value":     func(spend func(uint64) error) error { return wire.ValidateValue(message(value), spend) },
			"attribute": func(spend func(uint64) error) error { return wire.ValidateKeyValue(message(attribute), spend) },
		} {
			steps := uint64(0)
			require.NoError(t, validate(func(n uint64) error {
				steps += n
				return nil
			}), name)
			require.InDelta(t, fields, steps, 2, name)
			require.ErrorIs(t, validate(func(uint64) error { return io.EOF }), io.EOF, name)
		}
	}
}

func TestValidateNeedsASignal(t *testing.T) {
	require.EqualError(t, wire.Validate(0, nil), "byte 0: Signal(0): not a signal")
}

func TestValidateChecksAllFields(t *testing.T) {
	bad := raw([]byte{0}) // field 0
	attribute := sub(2, bad)
	for signal, paths := range map[wire.Signal]map[string][]byte{
		wire.Traces: {
			"attribute value": sub(9, attribute), "event": sub(11, bad), "event attribute": sub(11, sub(3, attribute)), "link": sub(13, bad),
			"link attribute": sub(13, sub(4, attribute)), "link id": sub(13, text(1, "x")), "link span id": sub(13, text(2, "x")), "status": sub(15, bad),
		},
		wire.Logs: {"body": sub(5, bad), "attribute": sub(6, attribute), "body item": sub(5, sub(5, sub(1, bad)))},
		wire.Metrics: {
			"metadata": sub(12, attribute), "gauge": sub(5, bad), "gauge point": sub(5, sub(1, bad)), "attribute": sub(5, sub(1, sub(7, attribute))),
			"exemplar": sub(7, sub(1, sub(5, bad))), "exemplar attribute": sub(7, sub(1, sub(5, sub(7, attribute)))), "exemplar id": sub(7, sub(1, sub(5, text(4, "x")))),
			"replaced data": raw(sub(7, sub(1, bad)), sub(5)), "histogram point": sub(9, sub(1, bad)), "bounds": sub(9, sub(1, text(7, "x"))), "counts": sub(9, sub(1, text(6, "x"))),
			"histogram exemplar": sub(9, sub(1, sub(8, bad))), "exponential point": sub(10, sub(1, bad)), "buckets": sub(10, sub(1, sub(9, bad))),
			"bucket counts": sub(10, sub(1, sub(8, text(2, "\xff")))), "summary point": sub(11, sub(1, bad)), "quantile": sub(11, sub(1, sub(6, bad))),
		},
	} {
		for name, fields := range paths {
			require.Error(t, wire.Validate(signal, wiretest.InRecord(fields)), "%s: %s", signal, name)
		}
		for name, body := range map[string][]byte{
			"entity": sub(1, sub(1, sub(3, bad))), "resource attribute": sub(1, sub(1, sub(1, attribute))), "scope": sub(1, sub(2, sub(1, bad))),
			"scope attribute": sub(1, sub(2, sub(1, sub(3, attribute)))), "entry": sub(1, bad), "scope entry": sub(1, sub(2, bad)),
		} {
			require.Error(t, wire.Validate(signal, body), "%s: %s", signal, name)
		}
	}
}

func TestDivergencesFromPdata(t *testing.T) {
	// Cases in which the views deliberately differ from pdata.
	group := []byte{0xa3, 6, 8, 1, 0xa4, 6}
	histogram := func(fields ...[]byte) []byte { return wiretest.InRecord(sub(9, sub(1, fields...))) }
	for _, c := range []struct {
		name           string
		signal         wire.Signal
		body           []byte
		wireOK, pdatas bool
		why            string
	}{
		{"group with a field", wire.Traces, wiretest.InRecord(group), true, false, "protobuf parsers skip unknown groups; pdata reads the rest of the group as fields of the message"},
		{"empty group at the end", wire.Traces, wiretest.InRecord([]byte{0xa3, 6, 0xa4, 6}), true, false, "the same"},
		{"group not closed", wire.Traces, wiretest.InRecord(group[:4]), false, true, "malformed protobuf; pdata does not look for the end"},
		{"group closed by another number", wire.Traces, raw(wiretest.InRecord([]byte{0xa3, 6, 0xac, 6, 6 << 3, 1})), false, true, "malformed protobuf; pdata does not compare the numbers"},
		{"field number over 2^29-1", wire.Traces, wiretest.InRecord([]byte{0x80, 0x80, 0x80, 0x80, 0x10, 0}), false, true, "malformed protobuf; pdata takes any that is positive in 32 bits"},
		{"65 nested arrays", wire.Traces, wiretest.InResource(wiretest.Nested(wire.MaxDepth+1, false)), false, true, "pdata has no limit"},
		{"field 1000", wire.Traces, sub(1, text(1000, "\x00")), true, false, "pdata still reads the scopes of OTLP before 0.15; OTLP has reserved the number, so it is unknown here"},
		{"bounds in two packed pieces", wire.Metrics, histogram(text(7, "12345678"), text(7, "12345678")), true, true, "protobuf concatenates packed pieces; pdata keeps the last one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := wiretest.DumpWire(c.signal, c.body)
			want, pdataErr := wiretest.DumpPdata(c.signal, c.body)
			require.Equal(t, c.wireOK, err == nil, "wire: %v; %s", err, c.why)
			require.Equal(t, c.pdatas, pdataErr == nil, "pdata: %v; %s", pdataErr, c.why)
			require.NotEqual(t, want, got, c.why)
		})
	}
}

func TestWalksAllocateNothing(t *testing.T) {
	for _, r := range requests() {
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if _, err := walk(r.Signal, r.Body); err != nil {
				panic(err)
			}
			if err := wire.Validate(r.Signal, r.Body); err != nil {
				panic(err)
			}
		}), r.Name)
	}
}

func TestNames(t *testing.T) {
	var all []string
	for s := range wire.Logs + 2 {
		all = append(all, s.String())
	}
	for k := range wire.KindBytes + 2 {
		all = append(all, k.String())
	}
	for m := range wire.MetricSummary + 2 {
		all = append(all, m.String())
	}
	require.Equal(t, "Signal(0) traces metrics logs Signal(4) empty string bool int double array keyvalues bytes ValueKind(8) "+
		"empty gauge sum histogram exponentialhistogram summary MetricType(6)", fmt.Sprint(strings.Join(all, " ")))
}

// TestManyFields: a message of more fields than decoding should pass over in one go is rejected, and validation ends
// with its context.
func TestManyFields(t *testing.T) {
	for _, h := range wiretest.Shapes() {
		if h.Gap == nil || h.Resources != wiretest.One {
			continue
		}
		body := h.Request(9 << 20)
		steps, most := uint64(0), uint64(0)
		err := wire.ValidateLarge(h.Signal, body, func(n uint64) error {
			steps, most = steps+n, max(most, n)
			return nil
		})
		require.ErrorContains(t, err, "message has too many fields", h.Name)
		require.Equal(t, err, wire.Validate(h.Signal, body))
		require.Greater(t, steps, uint64(1<<20)*9/10, h.Name)
		require.Less(t, most, uint64(1<<16), h.Name)
		require.ErrorIs(t, wire.ValidateContext(&wiretest.EndingContext{Context: t.Context(), Checks: 3}, h.Signal, body), context.Canceled)
	}
	_, err := wire.Request(bytes.Repeat([]byte{0x78, 1}, 4<<20+1))
	require.ErrorContains(t, err, "message has too many fields")
}
