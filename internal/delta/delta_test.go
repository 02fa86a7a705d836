// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay"
	"assay/internal/rules/catalog"
)

// diff compares deltas, ignoring the order of buckets.
func diff(a, b *Delta) string {
	return cmp.Diff(a.Organizations, b.Organizations,
		cmpopts.SortSlices(func(x, y Verdicts) bool { return x.Bucket < y.Bucket }),
		cmpopts.SortSlices(func(x, y HourUsage) bool { return x.Bucket < y.Bucket }),
		cmp.Transformer("Set", func(s Set) string { return fmt.Sprint(s.Limit, s.Count(), s.values, s.full) }),
		cmp.Transformer("Series", func(s Series) string {
			var own Series // Count settles the series; do not modify the compared one
			own.Merge(&s)
			return fmt.Sprint(own.Count(), own.seen, own.settled)
		}),
		cmpopts.IgnoreUnexported(Service{}),
		cmpopts.EquateEmpty())
}

// deltas draws small deltas with many overlaps.
var deltas = rapid.Custom(func(t *rapid.T) *Delta {
	small := func(label string, n int) int { return rapid.IntRange(0, n).Draw(t, label) }
	rule := func() catalog.Rule { return catalog.Rule(small("rule", 2)) }
	d := new(Delta)
	for range small("services", 3) {
		o := d.Organization(fmt.Sprint("org", small("org", 1)))
		o.LogRecords[small("severity", int(assay.SeverityCount)-1)] += uint64(small("records", 3))
		s := o.Service(assay.ServiceKey{Name: fmt.Sprint("s", small("service", 1))})
		s.Seen(uint64(1 + small("seen", 9)))
		s.Counts(Bucket(small("bucket", 2)))[rule()].Add(Count{uint64(small("observed", 5)), uint64(small("failed", 2))})
		s.AddUsage(Bucket(small("bucket", 2)), Signal(small("signal", 2)), Usage{uint64(1 + small("items", 5)), uint64(small("bytes", 5))})
		s.AddExample(rule(), &Example{TimeUnixNano: uint64(small("time", 2)), TraceID: [16]byte{byte(small("trace", 2))}, ResourceAttributes: fmt.Sprint(small("resource", 2))})
		for range small("n items", 30) {
			s.AddItem(Item{Rule: rule(), List: SpanNames, Text: fmt.Sprint("item", small("text", 40))}, Bucket(small("bucket", 2)))
		}
		// The texts of a claim derive from its key and value.
		key, value := small("key", 2), small("value", 2)
		s.AddClaim(Claim{catalog.MET003, Hash128{1, uint64(key)}, uint64(value)}, ClaimFact{Bucket(small("bucket", 2)), fmt.Sprint("k", key), fmt.Sprint("v", value)})
		hour := int64(small("hour", 1))
		s.DistinctSet(DistinctKey{Rule: catalog.SPA003, Hour: hour}, Bucket(small("bucket", 2)), 5, "", "").Add(uint64(small("distinct", 6)))
		s.Series.Add(Mix(1, uint64(small("series", 6))), Bucket(small("bucket", 2)))
	}
	return d
})

func merged(ds ...*Delta) *Delta {
	sum := new(Delta)
	for _, d := range ds {
		sum.Merge(d)
	}
	return sum
}

func TestMergeCommutesAndAssociates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := deltas.Draw(t, "a"), deltas.Draw(t, "b"), deltas.Draw(t, "c")
		whole := merged(a, b, c)
		require.Empty(t, diff(whole, merged(c, b, a)), "commutes")
		require.Empty(t, diff(whole, merged(a, merged(b, c))), "associates")
		require.Empty(t, diff(whole, merged(new(Delta), whole)), "merging into an empty delta is the identity")
	})
}

// TestMergeLeavesItsSource: Merge does not modify its source, because a retried transaction merges again.
func TestMergeLeavesItsSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := deltas.Draw(t, "a"), deltas.Draw(t, "b")
		keptB := merged(b)
		merged(b, a, b).Merge(a)
		require.Empty(t, diff(keptB, merged(b)))
	})
}

// TestMergeIdempotentFacts: all facts except counts are idempotent.
func TestMergeIdempotentFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := deltas.Draw(t, "a")
		strip := func(d *Delta) *Delta {
			for _, o := range d.Organizations {
				o.LogRecords = assay.SeverityCounts{}
				for _, s := range o.Services {
					s.Verdicts, s.Usage = nil, nil
				}
			}
			return d
		}
		require.Empty(t, diff(strip(merged(a)), strip(merged(a, a))))
	})
}

func TestLogRecords(t *testing.T) {
	d := new(Delta)
	d.Organization("silent").Service(assay.ServiceKey{Name: "a"}).Seen(1)
	require.Nil(t, d.LogRecords())
	d.Organization("a").LogRecords[assay.SeverityInfo] = 2
	d.Organization("b").LogRecords[assay.SeverityUnspecified] = 1
	d.Merge(merged(d))
	require.Equal(t, map[string]assay.SeverityCounts{
		"a": {assay.SeverityInfo: 4}, "b": {assay.SeverityUnspecified: 2},
	}, d.LogRecords())
}

func TestCountsAndUsage(t *testing.T) {
	var s Service
	for _, b := range []Bucket{3600, 0, 3600} {
		s.Counts(b)[catalog.RES001].Add(Count{2, 1})
		s.AddUsage(b, Logs, Usage{Items: 3, Bytes: 4})
	}
	require.Len(t, s.Verdicts, 2)
	require.Len(t, s.Usage, 2)
	require.Equal(t, Count{4, 2}, s.Counts(3600)[catalog.RES001])
	require.Equal(t, Usage{6, 8}, s.Usage[0].Usage[Logs])
}

// TestManyBuckets: a bucket is found among many without a scan, also after Reset and after merging in any order.
func TestManyBuckets(t *testing.T) {
	const n = 720
	var s Service
	for range 2 {
		s.Reset()
		for i := range 10 * n {
			s.Counts(Bucket(i * 7 % n))[catalog.RES001].Add(Count{1, 0})
		}
		require.Len(t, s.Verdicts, n)
		require.LessOrEqual(t, s.Steps(), uint64(12*n))
	}
	var sum Service
	for range 3 {
		sum.Merge(&s)
	}
	require.Len(t, sum.Verdicts, n)
	for i := range n {
		require.EqualValues(t, 30, sum.Counts(Bucket(i))[catalog.RES001].Observed)
	}
	require.LessOrEqual(t, sum.Steps(), uint64(5*n))
}

func TestBucketOf(t *testing.T) {
	hour := uint64(time.Hour)
	for _, c := range []struct {
		at   uint64
		step time.Duration
		want Bucket
	}{
		{0, time.Hour, 0},
		{hour - 1, time.Hour, 0},
		{hour, time.Hour, 3600},
		{hour + 1, time.Hour, 3600},
		{90 * 1e9, time.Minute, 60},
		{1, 0, 0},
		{math.MaxUint64, time.Hour, 18446742000},
	} {
		require.Equal(t, c.want, BucketOf(c.at, c.step), "%d by %s", c.at, c.step)
	}
	require.Equal(t, time.Date(1970, 1, 1, 1, 0, 0, 0, time.UTC), Bucket(3600).Time())
}

func TestExampleOrder(t *testing.T) {
	// From oldest to newest.
	list := []*Example{
		{TimeUnixNano: 1, TraceID: [16]byte{9}, Signal: Logs, ResourceAttributes: "z", SamplingRate: 1},
		{TimeUnixNano: 2},
		{TimeUnixNano: 2, SamplingRate: 0.5},
		{TimeUnixNano: 2, ResourceAttributes: "a"},
		{TimeUnixNano: 2, Signal: Logs},
		{TimeUnixNano: 2, TraceID: [16]byte{1}},
		{TimeUnixNano: 3},
	}
	for i, a := range list {
		for j, b := range list {
			require.Equal(t, i > j, a.Newer(b), "%d against %d", i, j)
		}
		var s Service
		s.AddExample(catalog.RES001, list[len(list)-1])
		s.AddExample(catalog.RES001, a)
		require.Same(t, list[len(list)-1], s.Examples[catalog.RES001])
	}
}

func TestItemBound(t *testing.T) {
	var s Service
	var texts []string
	for i := range 3 * MaxItems {
		texts = append(texts, fmt.Sprintf("%02d", i*7%60))
		s.AddItem(Item{catalog.SPA003, SpanNames, texts[i]}, 0)
		s.AddItem(Item{catalog.SPA001, SpanNames, "other rule"}, 0)
		s.AddItem(Item{catalog.SPA003, Findings, "other list"}, 0)
	}
	require.Len(t, s.Items, MaxItems+2)
	slices.Sort(texts)
	for _, text := range texts[:MaxItems] {
		require.Contains(t, s.Items, Item{catalog.SPA003, SpanNames, text}, "the smallest items are kept")
	}
	before := s.Steps()
	for i := range 1000 {
		s.AddItem(Item{catalog.SPA003, SpanNames, fmt.Sprintf("z%d", i)}, 0)
	}
	require.EqualValues(t, 1000, s.Steps()-before, "no item is compared with all others")
	stored := Service{Items: maps.Clone(s.Items)} // as a store returns it
	stored.AddItem(Item{catalog.SPA003, SpanNames, "000"}, 0)
	require.Len(t, stored.Items, MaxItems+2)
	require.NotContains(t, stored.Items, Item{catalog.SPA003, SpanNames, texts[MaxItems-1]}, "the largest item is dropped")
	it := Item{catalog.SPA003, SpanNames, texts[0]}
	s.AddItem(it, 7200)
	s.AddItem(it, 3600)
	require.EqualValues(t, 7200, s.Items[it], "the newest bucket is kept")
}

func TestFilter(t *testing.T) {
	var none *Filter
	none.Add(1)
	require.False(t, none.Has(1))

	f := NewFilter(4)
	for _, h := range []uint64{1, 2, math.MaxUint64, 1 << 40} {
		require.False(t, f.Has(h))
		f.Add(h)
		require.True(t, f.Has(h))
	}
	// A slot holds the last two hashes that share it, also when one is added again.
	f = NewFilter(4)
	f.Add(0x100)
	f.Add(0x200)
	require.True(t, f.Has(0x100))
	f.Add(0x200)
	require.True(t, f.Has(0x100))
	f.Add(0x300)
	require.False(t, f.Has(0x100))
	require.True(t, f.Has(0x200))
}

func TestFilterSkipsRepeatedFacts(t *testing.T) {
	f := NewFilter(8)
	commit := func(d *Delta) {
		for _, h := range d.Remember {
			f.Add(h)
		}
	}
	it := Item{catalog.SPA003, SpanNames, "x"}
	e := Example{TimeUnixNano: 5, TraceID: [16]byte{1}}
	add := func(b Bucket, e Example) *Service {
		d := new(Delta)
		s := d.Organization("o").Service(assay.ServiceKey{Name: "s"})
		d.AddItem(f, s, 7, it, b)
		d.AddExample(f, s, 7, catalog.SPA003, e)
		commit(d)
		return s
	}
	first := add(0, e)
	require.Len(t, first.Items, 1)
	require.Equal(t, e, *first.Examples[catalog.SPA003])
	again := add(0, e)
	require.Empty(t, again.Items)
	require.Nil(t, again.Examples[catalog.SPA003])
	require.Len(t, add(3600, e).Items, 1, "a distinct fact in another bucket")
	later := Example{TimeUnixNano: e.TimeUnixNano + exampleSlot}
	require.NotNil(t, add(0, later).Examples[catalog.SPA003], "a newer example passes after exampleSlot")

	d := new(Delta)
	d.AddItem(nil, d.Organization("o").Service(assay.ServiceKey{}), 7, it, 0)
	require.Empty(t, d.Remember, "nothing to remember without a filter")
}

// TestEvidenceRows: evidence of any size is added to stored evidence, which may be large.
func TestEvidenceRows(t *testing.T) {
	s := new(Service)
	s.Counts(0)[catalog.SPA003].Observed++
	require.Zero(t, s.EvidenceRows())
	s.AddItem(Item{catalog.SPA003, SpanNames, "x"}, 0)
	require.Equal(t, EvidenceRows, s.EvidenceRows())
	s = new(Service)
	s.AddExample(catalog.SPA003, &Example{})
	require.Equal(t, EvidenceRows, s.EvidenceRows())
	s.AddExample(catalog.SPA002, &Example{ResourceAttributes: strings.Repeat("x", 2*evidenceBytes)})
	require.Equal(t, EvidenceRows+2, s.EvidenceRows())
}

func TestIDs(t *testing.T) {
	const org = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	k := assay.ServiceKey{Namespace: "a", Name: "b", Environment: "c", Version: "d"}
	id := ServiceID(org, k)
	require.Equal(t, id, ServiceID(org, k))
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
	seen := map[string]bool{id: true}
	for _, other := range []string{
		ServiceID("6ba7b811-9dad-11d1-80b4-00c04fd430c8", k), ServiceID("no uuid", k),
		ServiceID(org, assay.ServiceKey{Namespace: "b", Name: "a", Environment: "c", Version: "d"}),
		ServiceID(org, assay.ServiceKey{Name: "ab", Environment: "c", Version: "d"}),
		InsightID(id, "x"), InsightID(id, "y"),
	} {
		require.False(t, seen[other])
		seen[other] = true
	}
}

// TestItemsOfAStore: items that were not added by AddItem are limited, too.
func TestItemsOfAStore(t *testing.T) {
	s := Service{Items: make(map[Item]Bucket)}
	for i := range MaxItems {
		s.Items[Item{Text: string(rune('b' + i))}] = 1
	}
	s.AddItem(Item{Text: "a"}, 2)
	s.AddItem(Item{Text: "z"}, 2)
	require.Len(t, s.Items, MaxItems)
	require.Contains(t, s.Items, Item{Text: "a"})
	require.NotContains(t, s.Items, Item{Text: "u"})
	require.NotContains(t, s.Items, Item{Text: "z"})
}
