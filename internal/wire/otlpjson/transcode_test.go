// SPDX-License-Identifier: Apache-2.0

package otlpjson_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
	"assay/internal/wire/wiretest"
)

// toJSON returns a request as JSON encoded by pdata.
func toJSON(t testing.TB, r wiretest.Request) []byte {
	t.Helper()
	pdata := wiretest.NewPdata(r.Signal)
	require.NoError(t, pdata.UnmarshalProto(r.Body))
	text, err := pdata.MarshalJSON()
	require.NoError(t, err)
	return text
}

// snake converts the keys of a JSON document to snake_case.
func snake(t testing.TB, text []byte) []byte {
	t.Helper()
	var convert func(v any) any
	convert = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := make(map[string]any, len(v))
			for key, value := range v {
				var b strings.Builder
				for _, r := range key {
					if r >= 'A' && r <= 'Z' {
						b.WriteByte('_')
						r += 'a' - 'A'
					}
					b.WriteRune(r)
				}
				out[b.String()] = convert(value)
			}
			return out
		case []any:
			for i := range v {
				v[i] = convert(v[i])
			}
		}
		return v
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v))
	out, err := json.Marshal(convert(v))
	require.NoError(t, err)
	return out
}

func TestTranscodePreservesContent(t *testing.T) {
	for _, r := range append(wiretest.Fixtures(), wiretest.Real()...) {
		t.Run(r.Name, func(t *testing.T) {
			want, err := wiretest.DumpPdata(r.Signal, r.Body)
			require.NoError(t, err)
			text := toJSON(t, r)
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, text, " ", "\t"))
			for form, text := range map[string][]byte{
				"as pdata writes it": text, "indented": indented.Bytes(), "snake_case": snake(t, text),
				"upper-case hex": upperHex(text),
			} {
				dst := []byte("before")
				out, err := otlpjson.Transcode(t.Context(), r.Signal, dst, text, 0)
				require.NoError(t, err, form)
				require.True(t, bytes.HasPrefix(out, dst))
				got, err := wiretest.DumpWire(r.Signal, out[len(dst):])
				require.NoError(t, err, form)
				require.Empty(t, cmp.Diff(want, got), form)
			}
			signals, err := otlpjson.Detect(text)
			require.NoError(t, err)
			if len(r.Body) == 0 {
				require.Empty(t, signals)
				return
			}
			require.Equal(t, []wire.Signal{r.Signal}, signals)
		})
	}
}

// upperHex converts the values of ids to upper case.
func upperHex(text []byte) []byte {
	out := bytes.Clone(text)
	for _, key := range []string{`"traceId":"`, `"spanId":"`, `"parentSpanId":"`} {
		for i := 0; ; {
			at := bytes.Index(out[i:], []byte(key))
			if at < 0 {
				break
			}
			i += at + len(key)
			end := i + bytes.IndexByte(out[i:], '"')
			copy(out[i:end], bytes.ToUpper(out[i:end]))
		}
	}
	return out
}

// span transcodes the fields of one span and decodes it.
func span(t *testing.T, fields string) (wire.Span, error) {
	t.Helper()
	body, err := otlpjson.Transcode(t.Context(), wire.Traces, nil, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{`+fields+`}]}]}]}`), 0)
	if err != nil {
		return wire.Span{}, err
	}
	require.NoError(t, wire.Validate(wire.Traces, body))
	var (
		entry  wire.ResourceEntry
		scoped wire.ScopeEntry
		s      wire.Span
	)
	entries, err := wire.Request(body)
	require.NoError(t, err)
	m, ok := entries.Next()
	require.True(t, ok)
	require.NoError(t, entry.Decode(m))
	m, ok = entry.Scopes.Next()
	require.True(t, ok)
	require.NoError(t, scoped.Decode(m))
	m, ok = scoped.Records.Next()
	require.True(t, ok)
	require.NoError(t, s.Decode(m))
	return s, nil
}

// value transcodes one attribute value and decodes it.
func value(t *testing.T, text string) (wire.Value, error) {
	t.Helper()
	s, err := span(t, `"attributes":[{"key":"k","value":`+text+`}]`)
	if err != nil {
		return wire.Value{}, err
	}
	m, ok := s.Attributes.Next()
	require.True(t, ok)
	var kv wire.KeyValue
	require.NoError(t, kv.Decode(m))
	require.Equal(t, "k", string(kv.Key))
	return kv.Value, nil
}

func TestLeniency(t *testing.T) {
	for _, c := range []struct {
		fields string
		want   wire.Span
	}{
		{`"kind":3`, wire.Span{Kind: 3}},
		{`"kind":"SPAN_KIND_CLIENT"`, wire.Span{Kind: 3}},
		{`"kind":"3"`, wire.Span{Kind: 3}},
		{`"kind":-1`, wire.Span{Kind: -1}},
		{`"kind":99`, wire.Span{Kind: 99}},
		{`"kind":null`, wire.Span{}},
		{`"start_time_unix_nano":"1790000000000000001"`, wire.Span{StartTimeUnixNano: 1790000000000000001}},
		{`"startTimeUnixNano":1790000000000000001`, wire.Span{StartTimeUnixNano: 1790000000000000001}},
		{`"startTimeUnixNano":18446744073709551615`, wire.Span{StartTimeUnixNano: 1<<64 - 1}},
		{`"startTimeUnixNano":1.790000000000000001e18`, wire.Span{StartTimeUnixNano: 1790000000000000001}},
		{`"startTimeUnixNano":1500E-2`, wire.Span{StartTimeUnixNano: 15}},
		{`"startTimeUnixNano":7.000`, wire.Span{StartTimeUnixNano: 7}},
		{`"startTimeUnixNano":0e-5`, wire.Span{}},
		{`"startTimeUnixNano":-0`, wire.Span{}},
		{`"endTimeUnixNano":1e3`, wire.Span{EndTimeUnixNano: 1000}},
		{`"flags":257,"droppedAttributesCount":"4294967295"`, wire.Span{Flags: 257, DroppedAttributesCount: 1<<32 - 1}},
		{`"traceId":"","spanId":null,"parentSpanId":"00000000000000aB"`, wire.Span{ParentSpanID: []byte{7: 0xab}}},
		{`"traceId":"0102030405060708090A0b0c0D0e0f10"`, wire.Span{TraceID: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}},
		{`"name":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83d"`, wire.Span{Name: []byte("a\"\\/\b\f\n\r\té😀\ufffd")}},
		{`"name":"\ud83d\u0041\udc00x"`, wire.Span{Name: []byte("\ufffdA\ufffdx")}},
		{"\"name\":\"\xff\u00e9\"", wire.Span{Name: []byte("\xffé")}},
		{`"n\u0061me":"x"`, wire.Span{Name: []byte("x")}},
		{`"name":"a","name":"b"`, wire.Span{Name: []byte("b")}},
		{`"status":{"code":"STATUS_CODE_ERROR"},"status":{"message":"m"}`, wire.Span{StatusCode: 2, StatusMessage: []byte("m")}},
		{`"status":null,"attributes":null,"events":[]`, wire.Span{}},
		{`"unknown":{"a":[1,-2.5e+3,{"b":null},[],{}],"c":"\u0020","d":true,"e":false},"name":"x"`, wire.Span{Name: []byte("x")}},
		{" \t\r\n\"name\" : \"x\" , \"kind\" : 1 ", wire.Span{Name: []byte("x"), Kind: 1}},
	} {
		got, err := span(t, c.fields)
		require.NoError(t, err, c.fields)
		got.Attributes, got.Events, got.Links = wire.Repeated{}, wire.Repeated{}, wire.Repeated{}
		require.Equal(t, c.want, got, c.fields)
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{`{"stringValue":""}`, "string \"\" 0 0 false 0"},
		{`{"string_value":"x"}`, "string \"x\" 0 0 false 0"},
		{`{"boolValue":false}`, "bool \"\" 0 0 false 0"},
		{`{"boolValue":true}`, "bool \"\" 0 0 true 0"},
		{`{"intValue":"-9223372036854775808"}`, "int \"\" -9223372036854775808 0 false 0"},
		{`{"intValue":9223372036854775807}`, "int \"\" 9223372036854775807 0 false 0"},
		{`{"intValue":0}`, "int \"\" 0 0 false 0"},
		{`{"doubleValue":0}`, "double \"\" 0 0 false 0"},
		{`{"doubleValue":-1.5e-3}`, "double \"\" 0 -0.0015 false 0"},
		{`{"doubleValue":"2.5"}`, "double \"\" 0 2.5 false 0"},
		{`{"doubleValue":"NaN"}`, "double \"\" 0 NaN false 0"},
		{`{"doubleValue":"-Infinity"}`, "double \"\" 0 -Inf false 0"},
		{`{"bytesValue":"/+8="}`, "bytes \"\\xff\\xef\" 0 0 false 0"},
		{`{"bytesValue":"_-8"}`, "bytes \"\\xff\\xef\" 0 0 false 0"},
		{`{"bytesValue":"\u002f+8"}`, "bytes \"\\xff\\xef\" 0 0 false 0"},
		{`{"bytesValue":""}`, "bytes \"\" 0 0 false 0"},
		{`{"arrayValue":{"values":[{"intValue":1},{},null]}}`, "array \"\" 0 0 false 3"},
		{`{"arrayValue":{}}`, "array \"\" 0 0 false 0"},
		{`{"kvlistValue":{"values":[{"key":"a"}]}}`, "keyvalues \"\" 0 0 false 1"},
		{`{"stringValue":null}`, "empty \"\" 0 0 false 0"},
		{`{"stringValue":"a","intValue":2}`, "int \"\" 2 0 false 0"},
		{`{}`, "empty \"\" 0 0 false 0"},
		{`null`, "empty \"\" 0 0 false 0"},
	} {
		v, err := value(t, c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, fmt.Sprintf("%s %q %d %v %t %d", v.Kind, v.Bytes, v.Int, v.Double, v.Bool, v.Items.Len()), c.text)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, `byte 0: ExportTraceServiceRequest: end of input, want '{'`},
		{`null`, `byte 0: ExportTraceServiceRequest: byte 0x6e, want '{'`},
		{`[]`, `byte 0: ExportTraceServiceRequest: byte 0x5b, want '{'`},
		{` {`, `byte 2: ExportTraceServiceRequest: end of input, want a string`},
		{`{"a"}`, `byte 4: ExportTraceServiceRequest: byte 0x7d, want ':'`},
		{`{"a":1,}`, `byte 7: ExportTraceServiceRequest: byte 0x7d, want a value after ','`},
		{`{"a":1 "b":2}`, `byte 7: ExportTraceServiceRequest: byte 0x22, want ',' or '}'`},
		{`{} {}`, `byte 3: ExportTraceServiceRequest: byte 0x7b, want the end of the input`},
		{"{}\x00", `byte 2: ExportTraceServiceRequest: byte 0x00, want the end of the input`},
		{`{"a":01}`, `byte 6: ExportTraceServiceRequest: byte 0x31, want ',' or '}'`},
		{`{"a":-}`, `byte 6: ExportTraceServiceRequest: byte 0x7d, want a number`},
		{`{"a":1.}`, `byte 7: ExportTraceServiceRequest: byte 0x7d, want a digit`},
		{`{"a":1e}`, `byte 7: ExportTraceServiceRequest: byte 0x7d, want a digit`},
		{`{"a":nul}`, `byte 5: ExportTraceServiceRequest: byte 0x6e, want null`},
		{`{"a":[1}`, `byte 7: ExportTraceServiceRequest: byte 0x7d, want ',' or ']'`},
		{`{"a":"\x"}`, `byte 6: ExportTraceServiceRequest: invalid escape in a string`},
		{`{"a":"\u12g4"}`, `byte 6: ExportTraceServiceRequest: \u without four hex digits`},
		{"{\"a\":\"\n\"}", `byte 6: ExportTraceServiceRequest: control character 0x0a in a string`},
		{`{"a":"b`, `byte 7: ExportTraceServiceRequest: end of input in a string`},
		{`{"a":"\`, `byte 7: ExportTraceServiceRequest: end of input in a string`},
		{`{"resourceSpans":{}}`, `byte 17: ExportTraceServiceRequest.resourceSpans: byte 0x7b, want '['`},
		{`{"resourceSpans":[1]}`, `byte 18: ExportTraceServiceRequest.resourceSpans: byte 0x31, want '{'`},
		{`{"resource_spans":[{"resource":5}]}`, `byte 31: ResourceSpans.resource: byte 0x35, want '{'`},
		{`{"resourceSpans":[{"schemaUrl":5}]}`, `byte 31: ResourceSpans.schemaUrl: byte 0x35, want a string`},
	} {
		_, err := otlpjson.Transcode(t.Context(), wire.Traces, nil, []byte(c.text), 0)
		require.EqualError(t, err, c.want, c.text)
	}
	// 44 bytes stand before the fields of the span.
	for _, c := range []struct{ fields, want string }{
		{`"traceId":"12"`, `byte 54: Span.traceId: trace id is not 32 hex digits`},
		{`"traceId":"0102030405060708090a0b0c0d0e0fxx"`, `byte 54: Span.traceId: trace id is not 32 hex digits`},
		{`"spanId":"12"`, `byte 53: Span.spanId: span id is not 16 hex digits`},
		{`"kind": "SPAN_KIND_NONE"`, `byte 52: Span.kind: not a value of the enum`},
		{`"kind":2147483648`, `byte 51: Span.kind: integer out of range`},
		{`"flags":4294967296`, `byte 52: Span.flags: integer out of range`},
		{`"flags":-1`, `byte 52: Span.flags: integer out of range`},
		{`"flags":1.5`, `byte 52: Span.flags: not an integer, or out of range`},
		{`"flags":true`, `byte 52: Span.flags: byte 0x74, want a number`},
		{`"startTimeUnixNano":18446744073709551616`, `byte 64: Span.startTimeUnixNano: not an integer, or out of range`},
		{`"startTimeUnixNano":1e999999999999`, `byte 64: Span.startTimeUnixNano: not an integer, or out of range`},
		{`"startTimeUnixNano":"x"`, `byte 64: Span.startTimeUnixNano: not an integer, or out of range`},
		{`"startTimeUnixNano":""`, `byte 64: Span.startTimeUnixNano: not an integer, or out of range`},
		{`"attributes":[{"value":{"doubleValue":"x"}}]`, `byte 82: AnyValue.doubleValue: not a number, or out of range`},
		{`"attributes":[{"value":{"doubleValue":1e999}}]`, `byte 82: AnyValue.doubleValue: not a number, or out of range`},
		{`"attributes":[{"value":{"boolValue":"true"}}]`, `byte 80: AnyValue.boolValue: byte 0x22, want true or false`},
		{`"attributes":[{"value":{"bytesValue":"a"}}]`, `byte 81: AnyValue.bytesValue: not base64`},
		{`"attributes":[{"value":{"intValue":9223372036854775808}}]`, `byte 79: AnyValue.intValue: integer out of range`},
		{`"attributes":[{"value":{"intValue":-9223372036854775809}}]`, `byte 79: AnyValue.intValue: integer out of range`},
	} {
		_, err := span(t, c.fields)
		require.EqualError(t, err, c.want, c.fields)
	}
}

func TestErrorLeavesDst(t *testing.T) {
	dst := make([]byte, 3, 100)
	out, err := otlpjson.Transcode(t.Context(), wire.Logs, dst, []byte(`{"resourceLogs":[{"schemaUrl":"x"}]`), 0)
	require.Error(t, err)
	require.Equal(t, dst, out)
	_, err = otlpjson.Transcode(t.Context(), 0, nil, []byte(`{}`), 0)
	require.EqualError(t, err, "byte 0: Signal(0): not a signal")
}

// TestDocuments: hostile documents are transcoded or rejected like any other.
func TestDocuments(t *testing.T) {
	for _, d := range wiretest.Documents() {
		doc := d.Request(16 << 10)
		body, err := otlpjson.Transcode(t.Context(), d.Signal, nil, doc, 0)
		require.NoError(t, err, d.Name)
		require.NoError(t, wire.Validate(d.Signal, body), d.Name)
		want, err := wiretest.DumpPdata(d.Signal, body)
		require.NoError(t, err, d.Name)
		require.NotEmpty(t, want)
	}
}

// TestSlowNumbers: a document with too many slow numbers is rejected.
func TestSlowNumbers(t *testing.T) {
	for _, d := range wiretest.Documents() {
		if d.Name == "long subnormal numbers" {
			_, err := otlpjson.Transcode(t.Context(), d.Signal, nil, d.Request(1<<20), 0)
			require.ErrorContains(t, err, "too many long numbers")
		}
	}
}

// remarshal returns the request re-encoded with the official types.
func remarshal(t *testing.T, signal wire.Signal, body []byte) []byte {
	t.Helper()
	m := wiretest.NewOfficial(signal)
	require.NoError(t, proto.Unmarshal(body, m))
	out, err := proto.Marshal(m)
	require.NoError(t, err)
	return out
}

// TestLengthsAreCanonical: lengths are encoded in the minimum number of bytes at any depth, so the output equals the
// official encoding.
func TestLengthsAreCanonical(t *testing.T) {
	for _, signal := range wiretest.Signals {
		for _, size := range []int{100, 10_000, 1_000_000} {
			h := wiretest.Hostile{Signal: signal, Resources: wiretest.Few, Scopes: wiretest.Few, Records: wiretest.Root, RecordShare: 4, Content: wiretest.Nested64}
			body := h.Request(size)
			out, err := otlpjson.Transcode(t.Context(), signal, []byte("dst"), toJSON(t, wiretest.Request{Signal: signal, Body: body}), 0)
			require.NoError(t, err)
			require.Equal(t, "dst", string(out[:3]))
			want, err := wiretest.DumpPdata(signal, body)
			require.NoError(t, err)
			got, err := wiretest.DumpPdata(signal, out[3:])
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Len(t, out[3:], len(remarshal(t, signal, out[3:])), "%s of %d", signal, size)
		}
	}
}

func TestLimit(t *testing.T) {
	for _, item := range []string{`0`, `0.5`} {
		doc := wiretest.Document{Open: `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"histogram":{"dataPoints":[{"explicitBounds":[`, Item: item, Close: `]}]}}]}]}]}`}.Request(64 << 10)
		whole, err := otlpjson.Transcode(t.Context(), wire.Metrics, nil, doc, 0)
		require.NoError(t, err)
		dst := make([]byte, 5)
		out, err := otlpjson.Transcode(t.Context(), wire.Metrics, dst, doc, len(whole))
		require.NoError(t, err)
		require.Len(t, out, len(dst)+len(whole))
		for _, limit := range []int{1, 1000, len(whole) - 1} {
			out, err = otlpjson.Transcode(t.Context(), wire.Metrics, dst, doc, limit)
			require.ErrorIs(t, err, otlpjson.ErrTooLarge)
			require.Len(t, out, len(dst))
		}
	}
}

// TestTranscodeStops: Transcode stops within a few thousand values after its context ends.
func TestTranscodeStops(t *testing.T) {
	for _, d := range wiretest.Documents() {
		doc := d.Request(4 << 20)
		ctx := &wiretest.EndingContext{Context: t.Context(), Checks: math.MaxInt}
		_, err := otlpjson.Transcode(ctx, d.Signal, nil, doc, 0)
		if checks := math.MaxInt - ctx.Checks; err == nil && checks > 3 {
			_, err := otlpjson.Transcode(&wiretest.EndingContext{Context: t.Context(), Checks: 2}, d.Signal, nil, doc, 0)
			require.ErrorIs(t, err, context.Canceled, d.Name)
		}
	}
}

func TestPackedNumbers(t *testing.T) {
	body, err := otlpjson.Transcode(t.Context(), wire.Metrics, nil, []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
		{"histogram":{"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA","dataPoints":[{"bucketCounts":["1",2],"explicitBounds":[0.5,"Infinity"]}]}},
		{"exponentialHistogram":{"dataPoints":[{"scale":-3,"positive":{"offset":-2,"bucketCounts":["300",1]}}]}},
		{"sum":{"isMonotonic":true,"dataPoints":[{"asInt":"-7"}]}}]}]}]}`), 0)
	require.NoError(t, err)
	dump, err := wiretest.DumpPdata(wire.Metrics, body)
	require.NoError(t, err)
	for _, line := range []string{
		"metric \"\" \"\" \"\" histogram 1 false 1\n", "bound 3fe0000000000000\nbound 7ff0000000000000\ncounts 2\ncount 1\ncount 2\n",
		"buckets -2\ncounts 2\ncount 300\ncount 1\n", "sum 0 true 1\n", "point 0 0 0 int -7 0\n",
	} {
		require.Contains(t, dump, line)
	}
	for _, numbers := range []string{`[null]`, `[true]`, `[-1]`, `{}`, `1`} {
		_, err := otlpjson.Transcode(t.Context(), wire.Metrics, nil, []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"histogram":{"dataPoints":[{"bucketCounts":`+numbers+`}]}}]}]}]}`), 0)
		require.Error(t, err, numbers)
	}
}

func TestNestingIsLimited(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`{"arrayValue":{"values":[`, depth) + `{"intValue":1}` + strings.Repeat(`]}}`, depth)
	}
	_, err := value(t, nested(wire.MaxDepth))
	require.NoError(t, err)
	for _, depth := range []int{wire.MaxDepth + 1, 10000, 1000000} {
		_, err = value(t, nested(depth))
		var wireErr *wire.Error
		require.ErrorAs(t, err, &wireErr)
		require.Equal(t, "value is nested more than 64 deep", wireErr.Reason)
	}
	// The depth counts per value, not per request.
	_, err = span(t, `"attributes":[`+strings.Repeat(`{"value":`+nested(40)+`},`, 3)+`{}]`)
	require.NoError(t, err)

	unknown := func(depth int) error {
		_, err := span(t, `"x":`+strings.Repeat(`[{"y":`, depth/2)+`1`+strings.Repeat(`}]`, depth/2))
		return err
	}
	require.NoError(t, unknown(10000))
	require.ErrorContains(t, unknown(10002), "value is nested more than 10000 deep")
	require.Error(t, unknown(1000000))
}

func TestEnumNamesAreTheOfficialOnes(t *testing.T) {
	for name, v := range tracepb.Span_SpanKind_value {
		s, err := span(t, fmt.Sprintf(`"kind":%q`, name))
		require.NoError(t, err)
		require.Equal(t, v, s.Kind)
	}
	for name, v := range tracepb.Status_StatusCode_value {
		s, err := span(t, fmt.Sprintf(`"status":{"code":%q}`, name))
		require.NoError(t, err)
		require.Equal(t, v, s.StatusCode)
	}
	for name, v := range metricspb.AggregationTemporality_value {
		body, err := otlpjson.Transcode(t.Context(), wire.Metrics, nil, fmt.Appendf(nil, `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"sum":{"aggregationTemporality":%q}}]}]}]}`, name), 0)
		require.NoError(t, err)
		dump, err := wiretest.DumpWire(wire.Metrics, body)
		require.NoError(t, err)
		require.Contains(t, dump, fmt.Sprintf("sum %d false", v))
	}
	for name, v := range logspb.SeverityNumber_value {
		body, err := otlpjson.Transcode(t.Context(), wire.Logs, nil, fmt.Appendf(nil, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":%q}]}]}]}`, name), 0)
		require.NoError(t, err)
		dump, err := wiretest.DumpWire(wire.Logs, body)
		require.NoError(t, err)
		require.Contains(t, dump, fmt.Sprintf("log 0 0 %d ", v))
	}
}

func TestEntityRefs(t *testing.T) {
	body, err := otlpjson.Transcode(t.Context(), wire.Logs, nil, []byte(`{"resourceLogs":[{"resource":{"entityRefs":[{"type":"host","idKeys":["host.id",null],"description_keys":["host.name"]}]}}]}`), 0)
	require.NoError(t, err)
	require.Equal(t, "\n\x20\n\x1e\x1a\x1c\x12\x04host\x1a\x07host.id\x1a\x00\"\x09host.name", string(body))
}

func TestDetect(t *testing.T) {
	for text, want := range map[string][]wire.Signal{
		`{"resourceSpans":[]}`: {wire.Traces}, `{"resource_spans":`: {wire.Traces}, ` { "x" : [{"resourceLogs":1}], "resourceMetrics": null}`: {wire.Metrics},
		`{"resource_metrics":0}`: {wire.Metrics}, `{"resource\u004cogs":0}`: {wire.Logs}, "{\n\t\"resource_logs\":[]}": {wire.Logs},
		`{"resourceLogs":[],"resourceSpans":[]}`: {wire.Logs, wire.Traces}, `{"resourceLogs":[],"resource_logs":[]}`: {wire.Logs},
		`{"resourceLogs":null,"x":1,"resourceMetrics":[1`: {wire.Logs, wire.Metrics}, `{"resourceLogs":[}]`: {wire.Logs}, "{\n}": nil,
	} {
		got, err := otlpjson.Detect([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		``: "byte 0: request: end of input, want '{'", `{"a":0}`: "byte 7: request: found none of resourceSpans, resourceMetrics and resourceLogs",
		`[1]`: "byte 0: request: byte 0x5b, want '{'", `{"a":[}`: "byte 6: request: byte 0x7d, want a number", "\x0a\x00": "byte 1: request: byte 0x00, want '{'",
		`{"a" 1}`: "byte 5: request: byte 0x31, want ':'", `{a`: "byte 1: request: byte 0x61, want a string", `{"a":1;`: "byte 6: request: byte 0x3b, want ',' or '}'",
	} {
		_, err := otlpjson.Detect([]byte(text))
		require.EqualError(t, err, want, text)
	}
}

func BenchmarkTranscode(b *testing.B) {
	size := wiretest.Size{Resources: 1, Scopes: 2, Records: 500, Attributes: 10}
	text := toJSON(b, wiretest.Request{Signal: wire.Traces, Body: wiretest.MarshalTraces(wiretest.Traces(size))})
	b.Run("otlpjson", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			var err error
			if out, err = otlpjson.Transcode(b.Context(), wire.Traces, out[:0], text, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pdata", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			r := wiretest.NewPdata(wire.Traces)
			if err := r.UnmarshalJSON(text); err != nil {
				b.Fatal(err)
			}
			if _, err := r.MarshalProto(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestDivergencesFromPdata(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ok, pdata  bool
	}{
		{"data after the request", `{"resourceSpans":[]} x`, false, true},
		{"empty key, at which pdata stops", `{"":0,"resourceSpans":[5]}`, false, true},
		{"null", `null`, false, true},
		{"values nested 65 deep", `{"resourceSpans":[{"resource":{"attributes":[{"value":` + strings.Repeat(`{"arrayValue":{"values":[`, 65) + strings.Repeat(`]}}`, 65) + `}]}}]}`, false, true},
		{"null for a number", `{"resourceSpans":[{"resource":{"droppedAttributesCount":null}}]}`, true, false},
		{"integer with an exponent", `{"resourceSpans":[{"resource":{"droppedAttributesCount":1e3}}]}`, true, false},
		{"URL base64", `{"resourceSpans":[{"resource":{"attributes":[{"value":{"bytesValue":"_-8"}}]}}]}`, true, false},
		{"enum as a numeric string", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"kind":"3"}]}]}]}`, true, false},
	} {
		_, err := otlpjson.Transcode(t.Context(), wire.Traces, nil, []byte(c.text), 0)
		require.Equal(t, c.ok, err == nil, "%s: %v", c.name, err)
		err = wiretest.NewPdata(wire.Traces).UnmarshalJSON([]byte(c.text))
		require.Equal(t, c.pdata, err == nil, "%s: pdata: %v", c.name, err)
	}
}
