// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/axiomhq/hyperloglog"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fill adds n distinct values.
func fill(s *Set, r *rand.Rand, n int) {
	for range n {
		s.Add(r.Uint64())
	}
}

func TestSetExactUpTo1024(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Set
	for n := range uint64(exactValues) {
		require.Equal(t, n, s.Count())
		v := r.Uint64()
		s.Add(v)
		s.Add(v)
	}
	require.EqualValues(t, exactValues, s.Count())
	require.Nil(t, s.sketch)
	fill(&s, r, 1)
	require.NotNil(t, s.sketch)
}

// TestSetError measures the sketch at the limits of the rules.
func TestSetError(t *testing.T) {
	for _, n := range []int{1000, 10_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			worst, square := 0.0, 0.0
			const seeds = 200
			for seed := range uint64(seeds) {
				var s Set
				fill(&s, rand.New(rand.NewPCG(seed, 42)), n)
				e := math.Abs(float64(s.Count())-float64(n)) / float64(n)
				worst, square = max(worst, e), square+e*e
			}
			t.Logf("%d values: worst error %.3f %%, standard error %.3f %%", n, 100*worst, 100*math.Sqrt(square/seeds))
			require.Less(t, worst, 0.02)
			if n <= exactValues {
				require.Zero(t, worst)
			}
		})
	}
}

// TestSetErrorWhenMerged measures sketches that were merged from parts and decoded.
func TestSetErrorWhenMerged(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		var all Set
		for range 10 {
			var part Set
			fill(&part, r, 1000)
			all.Merge(&part)
			b, err := all.MarshalBinary()
			require.NoError(t, err)
			require.Less(t, len(b), maxSetBytes)
			require.NoError(t, all.UnmarshalBinary(b))
		}
		require.InEpsilon(t, 10_000, all.Count(), 0.02)
	}
}

func TestSetLimit(t *testing.T) {
	s := Set{Limit: 1001}
	for v := range uint64(1000) {
		s.Add(v)
	}
	require.False(t, s.Full())
	s.Add(1000)
	require.True(t, s.Full())
	require.EqualValues(t, 1001, s.Count())
	s.Add(5000)
	require.EqualValues(t, 1001, s.Count(), "a full set does not change")
	require.Nil(t, s.values)

	b, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Len(t, b, 1)
	again := Set{Limit: 1001}
	require.NoError(t, again.UnmarshalBinary(b))
	require.True(t, again.Full())

	empty := Set{Limit: 1001}
	empty.Merge(&s)
	require.True(t, empty.Full(), "merging a full set fills the set")
	large := Set{Limit: 1001}
	fill(&large, rand.New(rand.NewPCG(1, 1)), 5000)
	require.True(t, large.Full(), "above the exact size, too")
	s.Merge(&large)
	require.True(t, s.Full())
}

// values draws values from a small range, so that sets overlap.
var values = rapid.SliceOfN(rapid.Uint64Range(0, 3000), 0, 700)

func setOf(limit uint64, values []uint64) *Set {
	s := &Set{Limit: limit}
	for _, v := range values {
		s.Add(Mix(v, 1))
	}
	return s
}

func encoded(t require.TestingT, s *Set) []byte {
	b, err := s.MarshalBinary()
	require.NoError(t, err)
	return b
}

func TestSetMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 900
		x, y, z := values.Draw(t, "x"), values.Draw(t, "y"), values.Draw(t, "z")
		distinct := make(map[uint64]bool)
		for _, list := range [][]uint64{x, y, z} {
			for _, v := range list {
				distinct[v] = true
			}
		}
		merge := func(sets ...*Set) *Set {
			for _, s := range sets[1:] {
				sets[0].Merge(s)
			}
			return sets[0]
		}
		a := merge(setOf(limit, x), setOf(limit, y), setOf(limit, z))
		b := merge(setOf(limit, z), merge(setOf(limit, y), setOf(limit, x)))
		if n := len(distinct); n < limit {
			require.EqualValues(t, n, a.Count())
			require.False(t, a.Full())
		} else {
			require.True(t, a.Full())
		}
		require.Equal(t, encoded(t, a), encoded(t, b), "merging is commutative")
		before := encoded(t, a)
		a.Merge(setOf(limit, y))
		require.Equal(t, before, encoded(t, a), "merging is idempotent")
	})
}

func TestSetCodec(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024, 1025, 5000, 200_000} {
		s := &Set{}
		fill(s, rand.New(rand.NewPCG(3, 4)), n)
		b := encoded(t, s)
		require.LessOrEqual(t, len(b), maxSetBytes)
		var again Set
		require.NoError(t, again.UnmarshalBinary(b))
		require.Equal(t, s.Count(), again.Count(), "%d values", n)
		fill(s, rand.New(rand.NewPCG(5, 6)), 300)
		fill(&again, rand.New(rand.NewPCG(5, 6)), 300)
		require.Equal(t, s.Count(), again.Count(), "%d values and 300 more", n)
	}
}

func TestSetRefusesDamage(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty": nil, "unknown encoding": {9}, "half a value": {setExact, 1, 2, 3},
		"values out of order": append([]byte{setExact, 2, 0, 0, 0, 0, 0, 0, 0}, 1, 0, 0, 0, 0, 0, 0, 0),
		"duplicate value":     append([]byte{setExact, 1, 0, 0, 0, 0, 0, 0, 0}, 1, 0, 0, 0, 0, 0, 0, 0),
		"too many values":     make([]byte, 1+8*(exactValues+1)), "too long": make([]byte, maxSetBytes+1),
		"empty sketch": {setSketch}, "unsupported precision": otherPrecision(t), "truncated sketch": {setSketch, 2, 16, 0, 1, 0, 0, 0, 9},
	} {
		if name == "too many values" {
			b[0] = setExact
		}
		s := Set{Limit: 7}
		require.Error(t, s.UnmarshalBinary(b), name)
		require.Zero(t, s.Count(), name)
		s.Add(1)
		require.EqualValues(t, 1, s.Count(), name)
	}
}

// otherPrecision returns a valid sketch of an unsupported precision.
func otherPrecision(t *testing.T) []byte {
	b, err := hyperloglog.New14().MarshalBinary()
	require.NoError(t, err)
	return append([]byte{setSketch}, b...)
}

func FuzzSetUnmarshal(f *testing.F) {
	for _, n := range []int{0, 3, 1100} {
		s := &Set{}
		fill(s, rand.New(rand.NewPCG(3, 4)), n)
		f.Add(encoded(f, s))
	}
	f.Add([]byte{setFull})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := Set{Limit: 10_000}
		if s.UnmarshalBinary(b) != nil {
			return
		}
		// An accepted set works like any other.
		other := &Set{Limit: 10_000}
		fill(other, rand.New(rand.NewPCG(1, 9)), exactValues+1)
		other.Merge(&s)
		s.Add(42)
		s.Merge(other)
		s.Count()
		s.Full()
		again := Set{Limit: 10_000}
		require.NoError(t, again.UnmarshalBinary(encoded(t, &s)))
	})
}
