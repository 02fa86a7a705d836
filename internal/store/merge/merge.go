// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
)

// Buckets are the tallies to add to the stored ones.
type Buckets map[delta.Bucket]*codec.Tally

// Tallies sums verdicts and usage by bucket.
func Tallies(f *delta.Service) Buckets {
	b := make(Buckets, len(f.Verdicts))
	for i := range f.Verdicts {
		b.At(f.Verdicts[i].Bucket).Add(&codec.Tally{Counts: f.Verdicts[i].Counts})
	}
	for i := range f.Usage {
		b.At(f.Usage[i].Bucket).Add(&codec.Tally{Usage: f.Usage[i].Usage})
	}
	return b
}

// At returns the tally of a bucket and adds an empty one if there is none.
func (b Buckets) At(bucket delta.Bucket) *codec.Tally {
	t := b[bucket]
	if t == nil {
		t = new(codec.Tally)
		b[bucket] = t
	}
	return t
}

// DropEmpty deletes the buckets without counts.
func (b Buckets) DropEmpty() {
	maps.DeleteFunc(b, func(_ delta.Bucket, t *codec.Tally) bool { return *t == (codec.Tally{}) })
}

// Tally adds a tally to an encoded, stored one and returns the sum. An empty stored value
// is an empty tally.
func Tally(stored []byte, add *codec.Tally) ([]byte, error) {
	var sum codec.Tally
	if err := sum.UnmarshalBinary(stored); err != nil {
		return nil, err
	}
	sum.Add(add)
	return sum.AppendBinary([]byte{}), nil
}

// Examples merges examples with stored ones and returns the value to store, nil if
// nothing changes.
func Examples(stored []byte, add *codec.Examples) ([]byte, error) {
	var kept delta.Service
	if err := codec.DecodeExamples(stored, &kept.Examples); err != nil {
		return nil, err
	}
	news := false
	for r, e := range add {
		if e != nil && (kept.Examples[r] == nil || e.Newer(kept.Examples[r])) {
			kept.Examples[r], news = e, true
		}
	}
	if !news {
		return nil, nil
	}
	return codec.AppendExamples(nil, &kept.Examples), nil
}

// Items merges evidence items with stored ones and returns the value to store and its
// oldest bucket, nil if nothing changes.
func Items(stored []byte, add map[delta.Item]delta.Bucket) ([]byte, delta.Bucket, error) {
	var kept delta.Service
	var err error
	if kept.Items, err = codec.DecodeItems(stored); err != nil {
		return nil, 0, err
	}
	news := false
	for it, b := range add {
		if old, ok := kept.Items[it]; !ok || old < b {
			kept.AddItem(it, b)
			news = true
		}
	}
	if !news { // the usual case, which saves half of the work
		return nil, 0, nil
	}
	return changed(stored, codec.AppendItems(nil, kept.Items)), Oldest(kept.Items), nil
}

// ExpireItems removes the items before a bucket from stored ones and returns the value to
// store, nil for none, and its oldest bucket.
func ExpireItems(stored []byte, start delta.Bucket) ([]byte, delta.Bucket, error) {
	items, err := codec.DecodeItems(stored)
	if err != nil {
		return nil, 0, err
	}
	maps.DeleteFunc(items, func(_ delta.Item, b delta.Bucket) bool { return b < start })
	return codec.AppendItems(nil, items), Oldest(items), nil
}

// Oldest returns the smallest bucket of items, or the largest possible bucket if there
// are none.
func Oldest(items map[delta.Item]delta.Bucket) delta.Bucket {
	o := delta.Bucket(math.MaxInt64)
	for _, b := range items {
		o = min(o, b)
	}
	return o
}

// AddItems merges found with items and returns the result. It changes found, not items.
func AddItems(items, found map[delta.Item]delta.Bucket) map[delta.Item]delta.Bucket {
	if len(found) == 0 {
		return items
	}
	for it, b := range items {
		found[it] = max(found[it], b)
	}
	return found
}

// Series merges metric series with stored ones and returns all of them and the value to
// store, nil if nothing changes.
func Series(stored []byte, add *delta.Series) (*delta.Series, []byte, error) {
	kept := new(delta.Series)
	if stored != nil {
		if err := kept.UnmarshalBinary(stored); err != nil {
			return nil, nil, err
		}
	}
	kept.Merge(add)
	return kept, changed(stored, kept.AppendBinary(nil)), nil
}

// changed returns merged, or nil if it equals the stored value.
func changed(stored, merged []byte) []byte {
	if bytes.Equal(stored, merged) {
		return nil
	}
	return merged
}

// Set is a stored distinct set.
type Set struct {
	Last    delta.Bucket // newest bucket
	Members []byte
	Full    bool
}

// CompareSets orders the keys of the distinct sets of a service in the order of their
// table.
func CompareSets(a, b delta.DistinctKey) int {
	return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(codec.RuleNumber(a.Rule), codec.RuleNumber(b.Rule)), cmp.Compare(int64(a.Key), int64(b.Key)))
}

// Add merges a fact of key k with a stored set, nil for none, and returns the set to
// store, nil if nothing changes. It counts an observation in buckets if the set is new or
// was seen in a newer bucket, with a failure if the set is full. It also counts if the
// set becomes full. It adds findings to found.
func (s *Set) Add(k delta.DistinctKey, fact *delta.DistinctFact, buckets Buckets, found map[delta.Item]delta.Bucket) (*Set, error) {
	set, wasFull, moved, at := &fact.Values, false, true, fact.Last
	if s != nil {
		set = &delta.Set{Limit: fact.Values.Limit}
		if err := set.UnmarshalBinary(s.Members); err != nil {
			return nil, fmt.Errorf("distinct set of rule %s: %w", k.Rule.ID(), err)
		}
		wasFull = set.Full()
		set.Merge(&fact.Values)
		moved, at = fact.Last > s.Last, max(fact.Last, s.Last)
	}
	members, err := set.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("distinct set of rule %s: %w", k.Rule.ID(), err)
	}
	if !moved && bytes.Equal(members, s.Members) {
		return nil, nil
	}
	full := set.Full()
	failed := full && (moved || !wasFull)
	if moved {
		buckets.At(at).Counts[k.Rule].Observed++
	}
	if failed {
		buckets.At(at).Counts[k.Rule].Failed++
	}
	if failed && k.Rule.Info().Signal == assay.SignalMetric {
		for list, text := range map[delta.List]string{delta.MetricNames: fact.Metric, delta.AttributeKeys: fact.Attr} {
			if text != "" {
				it := delta.Item{Rule: k.Rule, List: list, Text: text}
				found[it] = max(found[it], at)
			}
		}
	}
	return &Set{Last: at, Members: members, Full: full}, nil
}

// Seen extends the span between a first and a last stored event time by the event times
// of a service. It reports whether the span changed.
func Seen(first, last *int64, f *delta.Service) bool {
	if f.FirstSeen == 0 {
		return false
	}
	widened := false
	if from := micros(f.FirstSeen); *first == 0 || from < *first {
		*first, widened = from, true
	}
	if to := micros(f.LastSeen); to > *last {
		*last, widened = to, true
	}
	return widened
}

// micros converts an event time to its stored form, microseconds.
func micros(ns uint64) int64 { return int64(min(ns, math.MaxInt64) / 1000) }
