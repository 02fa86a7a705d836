// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// TestNumbers pins the numbers, which stores contain: the insight types in the order of their numbers.
func TestNumbers(t *testing.T) {
	pinned := []string{
		"missing_service_instance_id",
		"duplicate_service_instance_id",
		"missing_k8s_pod_uid",
		"misplaced_attributes",
		"missing_service_name",
		"invalid_service_criticality",
		"missing_deployment_environment",
		"sensitive_resource_data",
		"excessive_internal_spans",
		"orphan_spans",
		"unbounded_span_names",
		"client_root_spans",
		"excessive_short_spans",
		"sensitive_span_data",
		"unbounded_metric_attributes",
		"missing_metric_unit",
		"inconsistent_metric_unit",
		"inconsistent_histogram_buckets",
		"unit_in_metric_name",
		"metric_named_like_attribute",
		"discouraged_metric_resource_attributes",
		"sensitive_metric_data",
		"debug_logs_in_production",
		"missing_log_severity",
		"sensitive_log_data",
		"unsupported_runtime",
		"default_service_name",
		"deprecated_attributes",
		"quota_exceeded",
	}
	require.Len(t, numbers, len(pinned))
	require.LessOrEqual(t, len(pinned), MaxNumber)
	for i, name := range pinned {
		require.EqualValues(t, i+1, numbers[name], name)
		require.Equal(t, name, InsightType(int64(i+1)))
	}
	for _, r := range catalog.All() {
		n := RuleNumber(r)
		require.NotZero(t, n, "%s has no number; give it the next one", r.Info().Name)
		require.Equal(t, r.Info().Name, InsightType(int64(n)))
		got, ok := RuleByNumber(int64(n))
		require.True(t, ok)
		require.Equal(t, r, got)
	}
	// The schema's partial index contains this number.
	require.EqualValues(t, 2, RuleNumber(catalog.RES002))
	for _, n := range []int64{-1, 0, MaxNumber, MaxNumber + 1, math.MaxInt64} {
		_, ok := RuleByNumber(n)
		require.False(t, ok)
		require.Empty(t, InsightType(n))
	}
	require.Zero(t, RuleNumber(catalog.Count))
}

func TestRuleSet(t *testing.T) {
	var all []string
	for _, r := range catalog.All() {
		if r.ID() != "" {
			all = append(all, r.ID())
		}
	}
	slices.Sort(all)
	for _, ids := range [][]string{{}, {"RES-001"}, {"LOG-001", "SDK-001", "SPA-006"}, all} {
		shuffled := slices.Clone(ids)
		slices.Reverse(shuffled)
		set, err := RuleSet(shuffled)
		require.NoError(t, err)
		require.Equal(t, ids, RuleIDs(set))
	}
	for _, id := range []string{"", "res-001", "RES-999"} {
		_, err := RuleSet([]string{id})
		require.Error(t, err)
	}
	require.Equal(t, all, RuleIDs(-1), "bits of unknown rules are left out")
}

func TestTallyRoundTrip(t *testing.T) {
	draw := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Max(300), rapid.Uint64())
	rapid.Check(t, func(t *rapid.T) {
		var want, got Tally
		for r := range want.Counts {
			if rapid.Bool().Draw(t, "observed") {
				want.Counts[r] = delta.Count{Observed: draw.Draw(t, "n"), Failed: draw.Draw(t, "n")}
			}
		}
		for s := range want.Usage {
			want.Usage[s] = delta.Usage{Items: draw.Draw(t, "n"), Bytes: draw.Draw(t, "n")}
		}
		got.Counts[0].Observed = 1
		require.NoError(t, got.UnmarshalBinary(want.AppendBinary(nil)))
		require.Equal(t, want, got)
	})
	var empty Tally
	require.Empty(t, empty.AppendBinary(nil))
}

func TestTallySums(t *testing.T) {
	var a, b Tally
	a.Counts[catalog.SPA006] = delta.Count{Observed: 5, Failed: 1}
	a.Usage[delta.Logs] = delta.Usage{Items: 3, Bytes: 4}
	require.True(t, a.Evaluated())
	b = a
	b.Add(&a)
	require.Equal(t, delta.Count{Observed: 10, Failed: 2}, b.Counts[catalog.SPA006])
	require.Equal(t, delta.Usage{Items: 6, Bytes: 8}, b.Usage[delta.Logs])
	b.Sub(&a)
	require.Equal(t, a, b)
	a.Add(&a)
	b.Sub(&a)
	require.Equal(t, Tally{}, b, "never below zero")
	require.False(t, b.Evaluated())
}

func drawExamples(t *rapid.T) (ex Examples) {
	for r := range ex {
		if rapid.Bool().Draw(t, "has") {
			e := &delta.Example{
				TimeUnixNano:       rapid.Uint64().Draw(t, "time"),
				Signal:             delta.Signal(rapid.IntRange(0, 2).Draw(t, "signal")),
				ResourceAttributes: rapid.SampledFrom([]string{"", "{}", `{"a":"\x00"}`, "\xff"}).Draw(t, "resource"),
				SamplingRate:       rapid.Float64().Draw(t, "rate"),
			}
			copy(e.TraceID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "trace"))
			ex[r] = e
		}
	}
	return ex
}

func TestExamplesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawExamples(t)
		got := Examples{0: new(delta.Example)}
		require.NoError(t, DecodeExamples(AppendExamples(nil, &want), &got))
		require.Equal(t, want, got)
	})
}

// TestExamplesShareAttributes limits the size of examples: their attributes have up to 4
// KiB.
func TestExamplesShareAttributes(t *testing.T) {
	var ex Examples
	for r := range ex {
		ex[r] = &delta.Example{ResourceAttributes: string(bytes.Repeat([]byte{'x'}, 4096))}
	}
	require.Less(t, len(AppendExamples(nil, &ex)), 2*4096)
}

func TestItemsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.Custom(func(t *rapid.T) delta.Item {
			return delta.Item{
				Rule: catalog.Rule(rapid.IntRange(0, catalog.Count-1).Draw(t, "rule")),
				List: delta.List(rapid.IntRange(0, int(delta.ListCount)-1).Draw(t, "list")),
				Text: rapid.String().Draw(t, "text"),
			}
		}), rapid.Map(rapid.Int64(), func(n int64) delta.Bucket { return delta.Bucket(n) })).Draw(t, "items")
		b := AppendItems(nil, want)
		got, err := DecodeItems(b)
		require.NoError(t, err)
		require.Equal(t, len(want), len(got))
		for it, bucket := range want {
			require.Equal(t, bucket, got[it])
		}
		require.Equal(t, b, AppendItems(nil, got), "one form for one set")
	})
}

func TestDecodeErrors(t *testing.T) {
	var tally Tally
	tally.Counts[0] = delta.Count{Observed: 1000, Failed: 1000}
	ex := Examples{3: {TimeUnixNano: 1 << 40, ResourceAttributes: "{}"}}
	items := map[delta.Item]delta.Bucket{{Rule: 1, Text: "text"}: 1 << 40}
	for name, c := range map[string]struct {
		b      []byte
		decode func([]byte) error
	}{
		"tally":    {tally.AppendBinary(nil), new(Tally).UnmarshalBinary},
		"examples": {AppendExamples(nil, &ex), func(b []byte) error { return DecodeExamples(b, new(Examples)) }},
		"items":    {AppendItems(nil, items), func(b []byte) error { _, err := DecodeItems(b); return err }},
	} {
		require.NoError(t, c.decode(c.b), name)
		for n := 1; n < len(c.b); n++ {
			if name == "tally" && n == 2*int(delta.SignalCount) {
				continue // usage alone is complete
			}
			if name == "examples" && n == 4 {
				continue // attributes alone are complete
			}
			require.Error(t, c.decode(c.b[:n]), "%s cut to %d bytes", name, n)
		}
	}
	newer := binary.AppendUvarint(nil, catalog.Count+1)
	require.NoError(t, DecodeExamples(append(newer, make([]byte, catalog.Count+1)...), new(Examples)), "of a newer version with more rules")
	require.Error(t, DecodeExamples([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 1}, new(Examples)), "a huge number of attributes")
}

// A damaged file may contain any bytes. Values that decoders accept have one encoding.
func FuzzTally(f *testing.F) {
	var t0 Tally
	t0.Counts[2] = delta.Count{Observed: 5, Failed: 3}
	f.Add(t0.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second Tally
		if first.UnmarshalBinary(b) == nil {
			require.NoError(t, second.UnmarshalBinary(first.AppendBinary(nil)))
			require.Equal(t, first, second)
		}
	})
}

func FuzzExamples(f *testing.F) {
	f.Add(AppendExamples(nil, &Examples{1: {TimeUnixNano: 7, ResourceAttributes: "{}"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second Examples
		if DecodeExamples(b, &first) == nil {
			form := AppendExamples(nil, &first)
			require.NoError(t, DecodeExamples(form, &second))
			require.Equal(t, form, AppendExamples(nil, &second))
		}
	})
}

func FuzzItems(f *testing.F) {
	f.Add(AppendItems(nil, map[delta.Item]delta.Bucket{{Rule: 1, Text: "x"}: 5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if first, err := DecodeItems(b); err == nil {
			second, err := DecodeItems(AppendItems(nil, first))
			require.NoError(t, err)
			require.Equal(t, first, second)
		}
	})
}

// TestAttributes compares the plain decoder with encoding/json on encoded attributes.
func TestAttributes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return strings.ToValidUTF8(s, "\ufffd") }),
			rapid.Map(rapid.StringMatching(`["\\\\\x00-\x1f\x{2028}a😀/,}:{]*`), func(s string) any { return s }),
			rapid.Int64().AsAny(), rapid.Uint64Min(1<<63).AsAny(), rapid.Bool().AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny(),
		)).Draw(t, "attributes")
		for k, v := range want {
			if valid := strings.ToValidUTF8(k, "\ufffd"); valid != k {
				delete(want, k)
				want[valid] = v
			}
		}
		b, err := EncodeAttributes(want)
		require.NoError(t, err)
		got, ok := decodePlain(string(b))
		require.True(t, ok, "%s", b)
		require.Equal(t, want, got)
		got, err = DecodeAttributes(append([]byte(" "), b...))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	for text, want := range map[string]map[string]any{
		`{}`: {}, `{"a": 1}`: {"a": int64(1)}, `{"a":null}`: {"a": nil}, `{"a":[1]}`: {"a": []any{json.Number("1")}},
		`{"a":"\ud83d\ude00\/"}`: {"a": "😀/"}, "{\"a\":\"\xff\"}": {"a": "\ufffd"}, `{"a":1,"a":2.0}`: {"a": 2.0},
	} {
		got, err := DecodeAttributes([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":"`, `{"a":"\`, `{"a":"\"`, `{"a":x}`, `{"a":1e999}`, `{"a":1 "b":2}`, `[]`, `{a:1}`} {
		_, err := DecodeAttributes([]byte(text))
		require.Error(t, err, text)
	}
}
