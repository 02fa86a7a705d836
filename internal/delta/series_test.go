// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// seriesOf returns the series from to to, last seen in a bucket.
func seriesOf(from, to uint64, b Bucket) *Series {
	s := new(Series)
	for v := from; v < to; v++ {
		s.Add(Mix(v, 5), b)
	}
	return s
}

func TestSeriesCount(t *testing.T) {
	s := new(Series)
	require.True(t, s.Empty())
	for n := range uint64(maxSeries) {
		if n%512 == 0 {
			require.Equal(t, n, s.Count())
		}
		s.Add(Mix(n, 5), Bucket(n))
		s.Add(Mix(n/2, 5), 0)
	}
	require.EqualValues(t, maxSeries, s.Count())
	require.False(t, s.Empty())
	require.Zero(t, s.Oldest())
	s.Add(Mix(maxSeries, 5), 1)
	require.InEpsilon(t, maxSeries+1, s.Count(), 0.065)
}

// TestSeriesError measures the estimate: its standard error is 1/√4094.
func TestSeriesError(t *testing.T) {
	for _, n := range []uint64{5000, 50_000} {
		worst, square := 0.0, 0.0
		const rounds = 60
		for round := range uint64(rounds) {
			e := float64(seriesOf(round<<32, round<<32+n, 1).Count())/float64(n) - 1
			worst, square = max(worst, math.Abs(e)), square+e*e
		}
		t.Logf("%d series: worst error %.2f %%, standard error %.2f %%", n, 100*worst, 100*math.Sqrt(square/rounds))
		require.Less(t, worst, 0.065) // four times the standard error
		require.Less(t, math.Sqrt(square/rounds), 0.02)
	}
}

// TestSeriesSize: the size in memory and in the store is limited.
func TestSeriesSize(t *testing.T) {
	s := seriesOf(0, 100_000, 1)
	for range 10 * maxSeries {
		s.Add(s.seen[0].hash, 1)
		require.LessOrEqual(t, s.Held(), 2*(maxSeries+1))
	}
	require.LessOrEqual(t, cap(s.seen), 4*maxSeries)
	require.Less(t, len(s.AppendBinary(nil)), 9*(maxSeries+1)+20)
	s.Merge(seriesOf(0, 100_000, 2))
	require.Less(t, len(s.AppendBinary(nil)), 9*(maxSeries+1)+20, "seen again")

	for day := range uint64(30) { // new series every day
		s.Merge(seriesOf(day<<32, day<<32+10_000, Bucket(3+day)))
	}
	size := len(s.AppendBinary(nil))
	t.Logf("%d bytes", size)
	require.Less(t, size, 200_000)
	require.InEpsilon(t, 400_000, s.Count(), 0.065)
	s.Reset()
	require.True(t, s.Empty())
	require.Zero(t, cap(s.seen))
}

func TestSeriesExpire(t *testing.T) {
	s := seriesOf(0, 10, 1)
	s.Merge(seriesOf(5, 20, 3))
	require.EqualValues(t, 1, s.Oldest())
	s.Expire(1)
	require.EqualValues(t, 20, s.Count())
	s.Expire(2)
	require.EqualValues(t, 15, s.Count(), "series seen again are kept")
	require.EqualValues(t, 3, s.Oldest())
	s.Expire(4)
	require.True(t, s.Empty())
	require.Equal(t, Bucket(math.MaxInt64), s.Oldest())

	// A service that had many series has few again.
	s.Merge(seriesOf(0, 50_000, 1))
	s.Merge(seriesOf(0, 20_000, 2))
	s.Merge(seriesOf(30_000, 30_060, 3))
	require.InEpsilon(t, 50_000, s.Count(), 0.065)
	s.Expire(2)
	require.InEpsilon(t, 20_060, s.Count(), 0.065)
	s.Expire(3)
	require.EqualValues(t, 60, s.Count())
}

// TestSeriesMerge: merging is commutative, associative and idempotent.
func TestSeriesMerge(t *testing.T) {
	part := rapid.Custom(func(t *rapid.T) [3]uint64 {
		from := rapid.Uint64Range(0, 6000).Draw(t, "from")
		return [3]uint64{from, from + rapid.Uint64Range(0, 6000).Draw(t, "n"), rapid.Uint64Range(1, 3).Draw(t, "bucket")}
	})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(part, 1, 4).Draw(t, "parts")
		of := func(p [3]uint64) *Series { return seriesOf(p[0], p[1], Bucket(p[2])) }
		distinct := make(map[uint64]bool)
		forwards, backwards := new(Series), new(Series)
		for i, p := range parts {
			forwards.Merge(of(p))
			last := of(parts[len(parts)-1-i])
			before := last.AppendBinary(nil)
			sum := new(Series)
			sum.Merge(last)
			sum.Merge(backwards)
			require.Equal(t, before, last.AppendBinary(nil), "Merge does not modify its source")
			backwards = sum
			for v := p[0]; v < p[1]; v++ {
				distinct[v] = true
			}
		}
		require.Equal(t, forwards.AppendBinary(nil), backwards.AppendBinary(nil))
		forwards.Merge(of(parts[0]))
		require.Equal(t, forwards.AppendBinary(nil), backwards.AppendBinary(nil), "merging is idempotent")
		if n := len(distinct); n <= maxSeries {
			require.EqualValues(t, n, forwards.Count())
		} else {
			require.InEpsilon(t, n, forwards.Count(), 0.1)
		}
		var again Series
		require.NoError(t, again.UnmarshalBinary(forwards.AppendBinary(nil)))
		require.Equal(t, forwards.AppendBinary(nil), again.AppendBinary(nil))

		// Expiry gives the same state as never adding the expired series.
		start := rapid.Uint64Range(1, 4).Draw(t, "start")
		forwards.Expire(Bucket(start))
		left := new(Series)
		for _, p := range parts {
			if p[2] >= start {
				left.Merge(of(p))
			}
		}
		require.Equal(t, left.AppendBinary(nil), forwards.AppendBinary(nil))
	})
}

// encodedSeries encodes a Series by hand.
func encodedSeries(times []uint64, seen ...[2]uint64) []byte {
	b := binary.AppendUvarint([]byte{seriesForm}, uint64(len(times)))
	for _, t := range times {
		b = binary.AppendUvarint(b, t)
	}
	for _, x := range seen {
		b = binary.AppendUvarint(binary.LittleEndian.AppendUint64(b, x[0]), x[1])
	}
	return b
}

func TestSeriesRefusesDamage(t *testing.T) {
	good := encodedSeries([]uint64{3600, 7200}, [2]uint64{1, 1}, [2]uint64{2, 0})
	var s Series
	require.NoError(t, s.UnmarshalBinary(good))
	require.EqualValues(t, 2, s.Count())
	require.EqualValues(t, 3600, s.Oldest())
	require.Equal(t, good, s.AppendBinary(nil))
	damaged := map[string][]byte{
		"nothing":            nil,
		"unknown encoding":   append([]byte{9}, good[1:]...),
		"many times":         binary.AppendUvarint([]byte{seriesForm}, 1<<60),
		"index without time": encodedSeries([]uint64{1}, [2]uint64{1, 1}),
		"huge time":          encodedSeries([]uint64{1 << 63}, [2]uint64{1, 0}),
		"out of order":       encodedSeries([]uint64{1}, [2]uint64{2, 0}, [2]uint64{1, 0}),
		"duplicate series":   encodedSeries([]uint64{1}, [2]uint64{2, 0}, [2]uint64{2, 0}),
	}
	for n := 1; n < len(good); n++ {
		if n != len(good)-9 && n != len(good)-18 { // removing whole series is valid
			damaged[fmt.Sprint(n, " bytes")] = good[:n]
		}
	}
	for name, b := range damaged {
		s := seriesOf(0, 3, 1)
		require.Error(t, s.UnmarshalBinary(b), name)
		require.True(t, s.Empty(), name)
	}
}

func FuzzSeriesUnmarshal(f *testing.F) {
	for _, n := range []uint64{0, 3, 5000} {
		f.Add(seriesOf(0, n, 3600).AppendBinary(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again Series
		if s.UnmarshalBinary(b) != nil {
			return
		}
		form := s.AppendBinary(nil)
		require.NoError(t, again.UnmarshalBinary(form))
		require.Equal(t, form, again.AppendBinary(nil))
		// An accepted Series works like any other.
		s.Merge(seriesOf(0, maxSeries+10, 7200))
		s.Count()
		s.Expire(7200)
		require.NoError(t, again.UnmarshalBinary(s.AppendBinary(nil)))
	})
}
