// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
)

// stored is the stored state of one service.
type stored struct {
	hours                   map[delta.Bucket][]byte
	examples, items, series []byte
	sets                    map[delta.DistinctKey]*Set
	first, last             int64
}

// add merges facts as a commit does.
func (s *stored) add(t require.TestingT, f *delta.Service) {
	buckets, found := Tallies(f), make(map[delta.Item]delta.Bucket)
	for k, fact := range f.Distinct {
		set, err := s.sets[k].Add(k, fact, buckets, found)
		require.NoError(t, err)
		if set != nil {
			s.sets[k] = set
		}
	}
	buckets.DropEmpty()
	for b, tally := range buckets {
		sum, err := Tally(s.hours[b], tally)
		require.NoError(t, err)
		s.hours[b] = sum
	}
	if facts, err := Examples(s.examples, &f.Examples); facts != nil {
		s.examples = facts
	} else {
		require.NoError(t, err)
	}
	items := maps.Clone(f.Items)
	if facts, oldest, err := Items(s.items, AddItems(f.Items, found)); facts != nil {
		s.items = facts
		decoded, err := codec.DecodeItems(facts)
		require.NoError(t, err)
		require.Equal(t, Oldest(decoded), oldest)
	} else {
		require.NoError(t, err)
	}
	require.Equal(t, items, f.Items, "facts stay as they are")
	if !f.Series.Empty() {
		_, facts, err := Series(s.series, &f.Series)
		require.NoError(t, err)
		if facts != nil {
			s.series = facts
		}
	}
	Seen(&s.first, &s.last, f)
}

// TestAnyGrouping merges facts one by one and all at once. The stored values are equal.
func TestAnyGrouping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := func(label string, n int) int { return rapid.IntRange(0, n).Draw(t, label) }
		one, all := &stored{hours: make(map[delta.Bucket][]byte), sets: make(map[delta.DistinctKey]*Set)}, new(delta.Service)
		for range small("facts", 20) {
			f, b := new(delta.Service), delta.Bucket(small("bucket", 2))
			f.Seen(1000 * uint64(1+small("seen", 9)))
			f.Counts(b)[catalog.RES001].Add(delta.Count{Observed: uint64(small("observed", 3))})
			f.AddUsage(b, delta.Logs, delta.Usage{Items: 1})
			f.AddExample(catalog.RES001, &delta.Example{TimeUnixNano: uint64(small("time", 9))})
			f.AddItem(delta.Item{Rule: catalog.RES001, Text: fmt.Sprint(small("text", 30))}, b)
			f.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Key: uint64(small("set", 1))}, 2, 5, "metric", "key").Add(uint64(small("value", 7)))
			f.Series.Add(delta.Mix(1, uint64(small("series", 9))), b)
			one.add(t, f)
			all.Merge(f)
		}
		once := &stored{hours: make(map[delta.Bucket][]byte), sets: make(map[delta.DistinctKey]*Set)}
		once.add(t, all)
		require.Equal(t, once, one)
		before := maps.Clone(one.sets)
		again := &delta.Service{Examples: all.Examples, Items: all.Items, Distinct: all.Distinct, Series: all.Series}
		one.add(t, again)
		require.Equal(t, before, one.sets)
		require.Equal(t, once, one, "nothing new changes nothing")
	})
}

func TestExpireItems(t *testing.T) {
	facts, oldest, err := Items(nil, map[delta.Item]delta.Bucket{{Text: "a"}: 1, {Text: "b"}: 3, {Text: "c"}: 2})
	require.NoError(t, err)
	require.EqualValues(t, 1, oldest)
	facts, oldest, err = ExpireItems(facts, 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, oldest)
	items, err := codec.DecodeItems(facts)
	require.NoError(t, err)
	require.Equal(t, map[delta.Item]delta.Bucket{{Text: "b"}: 3, {Text: "c"}: 2}, items)
	facts, _, err = ExpireItems(facts, 4)
	require.NoError(t, err)
	require.Empty(t, facts)
}

func TestClaimCounts(t *testing.T) {
	var c ClaimCounts
	c.Keys(1, 2)
	c.Keys(2, 1)
	c.Keys(3, 0)
	key := func(n uint64) delta.Hash128 { return delta.Hash128{High: n, Low: 7} } // one lower half for all
	c.Claim(key(10), 1, 1, "m", "ms")
	c.Claim(key(10), 2, 2, "m", "")
	c.Claim(key(10), 2, 4, "m", "") // of a service that made its claim later
	c.Claim(key(11), 1, 1, "n", "s")
	c.Claim(key(11), 1, 2, "n", "s")
	require.Equal(t, map[int64]*delta.ClaimCount{
		1: {Claims: 2, Contested: 1, Keys: []string{"m"}, Values: []string{"", "ms"}},
		2: {Claims: 1, Contested: 1, Keys: []string{"m"}, Values: []string{"", "ms"}},
		4: {Claims: 1, Contested: 1, Keys: []string{"m"}, Values: []string{"", "ms"}},
	}, c.BySvc())

	c = ClaimCounts{}
	c.Keys(1, 40)
	for n := range uint64(40) {
		c.Claim(key(n), 1, 1, fmt.Sprintf("%02d", n), "a")
		c.Claim(key(n), 2, 1, fmt.Sprintf("%02d", n), "b")
	}
	many := c.BySvc()[1]
	require.EqualValues(t, 40, many.Contested)
	require.Len(t, many.Keys, delta.MaxItems)
	require.Equal(t, "00", many.Keys[0])
}

// TestDamaged passes undecodable values and expects errors, not losses.
func TestDamaged(t *testing.T) {
	bad := []byte{0xff}
	_, err := Tally(bad, new(codec.Tally))
	require.Error(t, err)
	_, err = Examples(bad, new(codec.Examples))
	require.Error(t, err)
	_, _, err = Items(bad, nil)
	require.Error(t, err)
	_, _, err = ExpireItems(bad, 0)
	require.Error(t, err)
	_, _, err = Series(bad, new(delta.Series))
	require.Error(t, err)
	_, err = (&Set{Members: bad}).Add(delta.DistinctKey{}, new(delta.DistinctFact), make(Buckets), nil)
	require.Error(t, err)
}

// TestClaimTextsAreBounded: the texts of contested keys are limited for an organization. The
// counts stay exact.
func TestClaimTextsAreBounded(t *testing.T) {
	const services, keys, size = 2500, 20, 250
	var c ClaimCounts
	for svc := range int64(services) {
		c.Keys(svc, keys)
	}
	n := uint64(0)
	for svc := range int64(services) {
		for range keys {
			n++
			text := fmt.Sprintf("%0*d", size, n)
			c.Claim(delta.Hash128{Low: n}, 1, svc, text, "a")
			c.Claim(delta.Hash128{Low: n}, 2, svc, text, "b")
		}
	}
	texts := make(map[string]bool)
	shown := 0
	for _, count := range c.BySvc() {
		require.EqualValues(t, keys, count.Contested)
		require.LessOrEqual(t, cap(count.Keys), 2*delta.MaxItems)
		for _, text := range count.Keys {
			texts[text] = true
		}
		if len(count.Keys) > 0 {
			shown++
		}
	}
	require.LessOrEqual(t, len(texts)*size, maxClaimTexts+size+2)
	require.Greater(t, shown, services/2, "evidence of those within the limit")
	require.Less(t, shown, services)
}

// TestOneKeyOfManyServices: services that claim 20 values each for the same key are counted one by one. A service that
// looked at the values of all others would make this test take minutes.
func TestOneKeyOfManyServices(t *testing.T) {
	const services = 10_000
	var c ClaimCounts
	n := 0
	for svc := range int64(services) {
		for range maxClaimed {
			n++
			c.Claim(delta.Hash128{Low: 1}, int64(n), svc, "m", fmt.Sprintf("%06d", n))
		}
	}
	counts := c.BySvc()
	require.Len(t, counts, services)
	for _, count := range counts {
		require.EqualValues(t, 1, count.Contested)
		require.Equal(t, []string{"m"}, count.Keys)
		require.Len(t, count.Values, delta.MaxItems)
		require.Equal(t, "000001", count.Values[0])
		require.Equal(t, "000020", count.Values[delta.MaxItems-1])
	}
}

// maxClaimed is the number of values that the stores keep of a service for a key.
const maxClaimed = 20
