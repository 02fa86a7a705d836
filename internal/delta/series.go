// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// maxSeries is the number of series up to which the count is exact. Above, the standard error is 1/√4094, or 1.6 %.
const maxSeries = 4096

// Series counts the distinct metric series of a service, given as stable 64-bit hashes, in any range of buckets. It
// records when each was last seen and can expire series that leave the window. Colliding series count as one. Up to
// 4,096 series the count is exact. Above, it is estimated from the 4,097 smallest hashes: k hashes below a limit
// represent k·2^64/limit series (Bar-Yossef et al. 2002).
//
// To allow expiry, a series is kept unless 4,097 others have a smaller hash and were not seen before it (the
// k-skyband of Papadias et al. 2005). This depends only on the set of added series and not on their order: merging is
// commutative and associative, and expiry gives the same state as never adding the expired series. A service with a
// constant set of series keeps at most 4,097 of them. A service with new series at each of T times keeps about
// 4,097·(1 + ln T), and at most 4,097·T.
//
// The hashes end in keyedMark. Hashes stored by older versions were not keyed and do not end in it. They are dropped
// when the first keyed one is added, so that no series counts twice.
type Series struct {
	seen    []sighting // settled ones, then new ones in order of arrival
	settled int        // number of settled ones: sorted, distinct and needed
	unkeyed bool       // may contain hashes of older versions

	// Beyond bound, only series seen later are needed. Zero: unknown.
	bound sighting
}

// keyedMark is in the low bits of a keyed hash, which affect neither order nor estimate. A hash of an older version
// has it by chance with probability 2^-16.
const (
	keyedMark = 0x5a17
	markBits  = 0xffff
)

// sighting is the newest bucket in which a series was seen.
type sighting struct {
	hash uint64
	last Bucket
}

func (x sighting) keyed() bool { return x.hash&markBits == keyedMark }

func compareSightings(a, b sighting) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(b.last, a.last)) // newest first
}

// Add adds a series seen in a bucket. Only the upper 48 bits of the hash are used.
func (s *Series) Add(hash uint64, b Bucket) { s.add(hash&^markBits|keyedMark, b) }

func (s *Series) add(hash uint64, b Bucket) {
	if s.bound.hash != 0 && hash > s.bound.hash && b <= s.bound.last {
		return
	}
	s.seen = append(s.seen, sighting{hash, b})
	if len(s.seen) >= 2*max(maxSeries, s.settled) {
		s.settle()
	}
}

// Merge merges o into s. It does not modify o.
func (s *Series) Merge(o *Series) {
	s.unkeyed = s.unkeyed || o.unkeyed
	for _, x := range o.seen {
		s.add(x.hash, x.last)
	}
}

// settle sorts the sightings and drops the unneeded ones.
func (s *Series) settle() {
	news := s.seen[s.settled:]
	if len(news) == 0 {
		return
	}
	slices.SortFunc(news, compareSightings)
	if s.settled > 0 { // merge them from the end
		news = slices.Clone(news)
		old := s.seen[:s.settled]
		for i := len(s.seen) - 1; len(news) > 0; i-- {
			if n := len(old) - 1; n >= 0 && compareSightings(old[n], news[len(news)-1]) > 0 {
				s.seen[i], old = old[n], old[:n]
			} else {
				s.seen[i], news = news[len(news)-1], news[:len(news)-1]
			}
		}
	}
	s.seen = slices.CompactFunc(s.seen, func(a, b sighting) bool { return a.hash == b.hash })
	if s.unkeyed && slices.ContainsFunc(s.seen, sighting.keyed) {
		s.seen = slices.DeleteFunc(s.seen, func(x sighting) bool { return !x.keyed() })
		s.unkeyed = false
	}
	if len(s.seen) > maxSeries+1 {
		s.prune()
	}
	s.settled = len(s.seen)
}

// prune drops the series that are preceded by maxSeries+1 others with a smaller hash that were not seen before them.
func (s *Series) prune() {
	times, positions := s.times()
	before := make([]int, len(times)) // number of kept series with a smaller hash, by time
	kept := s.seen[:0]
	for _, x := range s.seen {
		if before[len(before)-1] > maxSeries {
			if !s.unkeyed { // the ones that it represents may be dropped
				s.bound = sighting{kept[len(kept)-1].hash, times[len(times)-1]}
			}
			break
		}
		at := positions[x.last]
		if before[at] > maxSeries {
			continue
		}
		kept = append(kept, x)
		for i := range before[:at+1] {
			before[i]++
		}
	}
	s.seen = kept
}

// times returns the distinct times of the sightings in order, and the index of each.
func (s *Series) times() ([]Bucket, map[Bucket]int) {
	positions := make(map[Bucket]int)
	var times []Bucket
	for i, x := range s.seen {
		if i > 0 && x.last == s.seen[i-1].last {
			continue
		}
		if _, ok := positions[x.last]; !ok {
			positions[x.last] = 0
			times = append(times, x.last)
		}
	}
	slices.Sort(times)
	for i, b := range times {
		positions[b] = i
	}
	return times, positions
}

// Count returns the number of distinct series, at most 2^53.
func (s *Series) Count() uint64 {
	s.settle()
	if len(s.seen) <= maxSeries {
		return uint64(len(s.seen))
	}
	return uint64(min(math.Round(maxSeries*0x1p64/float64(s.seen[maxSeries].hash)), 1<<53))
}

// Empty reports whether s has no series.
func (s *Series) Empty() bool { return len(s.seen) == 0 }

// Held returns the number of sightings in memory.
func (s *Series) Held() int { return len(s.seen) }

// Expire drops the series last seen before a bucket.
func (s *Series) Expire(start Bucket) {
	s.settle()
	s.seen = slices.DeleteFunc(s.seen, func(x sighting) bool { return x.last < start })
	s.settled, s.bound = len(s.seen), sighting{}
}

// Oldest returns the oldest last-seen bucket, or the maximum value if s is empty.
func (s *Series) Oldest() Bucket {
	oldest := Bucket(math.MaxInt64)
	for _, x := range s.seen {
		oldest = min(oldest, x.last)
	}
	return oldest
}

// Reset empties s. It retains the memory unless it is large.
func (s *Series) Reset() {
	const keep = 256
	*s = Series{seen: s.seen[:0]}
	if cap(s.seen) > keep {
		s.seen = nil
	}
}

// seriesForm is the first byte of an encoded Series.
const seriesForm = 1

// AppendBinary appends the encoding of s to b: the number of distinct times, the times, and for each series in the
// order of hashes the hash and the index of its time.
func (s *Series) AppendBinary(b []byte) []byte {
	s.settle()
	times, positions := s.times()
	b = slices.Grow(b, 1+binary.MaxVarintLen64*(1+len(times))+(8+2)*len(s.seen))
	b = append(b, seriesForm)
	b = binary.AppendUvarint(b, uint64(len(times)))
	for _, t := range times {
		b = binary.AppendUvarint(b, uint64(t))
	}
	for _, x := range s.seen {
		b = binary.LittleEndian.AppendUint64(b, x.hash)
		b = binary.AppendUvarint(b, uint64(positions[x.last]))
	}
	return b
}

// UnmarshalBinary replaces s by a decoded Series. On errors s is empty.
func (s *Series) UnmarshalBinary(b []byte) error {
	seen, err := decodeSightings(b)
	if err != nil {
		*s = Series{}
		return fmt.Errorf("series: %w", err)
	}
	unkeyed := slices.ContainsFunc(seen, func(x sighting) bool { return !x.keyed() })
	*s = Series{seen: seen, settled: len(seen), unkeyed: unkeyed}
	return nil
}

func decodeSightings(b []byte) ([]sighting, error) {
	if len(b) == 0 || b[0] != seriesForm {
		return nil, fmt.Errorf("unknown encoding")
	}
	b = b[1:]
	bad := false
	number := func(limit uint64) uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n >= limit {
			bad = true
			return 0
		}
		b = b[size:]
		return n
	}
	times := make([]Bucket, number(uint64(len(b))+1))
	for i := range times {
		times[i] = Bucket(number(math.MaxInt64))
	}
	if bad {
		return nil, fmt.Errorf("invalid timestamps")
	}
	seen := make([]sighting, 0, len(b)/9)
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, fmt.Errorf("truncated")
		}
		hash := binary.LittleEndian.Uint64(b)
		b = b[8:]
		at := number(uint64(len(times)))
		if bad {
			return nil, fmt.Errorf("series without timestamp")
		}
		if n := len(seen); n > 0 && seen[n-1].hash >= hash {
			return nil, fmt.Errorf("hashes out of order")
		}
		seen = append(seen, sighting{hash, times[at]})
	}
	return seen, nil
}
