// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/axiomhq/hyperloglog"
)

// exactValues is how many distinct values a Set holds exactly before it becomes
// a sketch. It is above SPA-003's limit, so that rule's count is exact.
const exactValues = 1024

// setPrecision is the precision of the sketches: the second byte of their encoding.
const setPrecision = 16

// maxSetBytes bounds an encoded set: a dense sketch of 2^16 registers and its frame.
const maxSetBytes = 1 << 17

// Set counts distinct values, given as stable 64-bit hashes (two that collide count
// as one), up to its limit: at
// the limit it is full for good and forgets its values. Up to 1,024 values the
// count is exact; above, a HyperLogLog sketch of precision 16 (Flajolet et al.
// 2007; the sparse form of Heule et al. 2013) stands for them. Its error at
// MET-001's limit is measured by a test.
type Set struct {
	Limit uint64 // the count at which the set is full; 0 means never

	full   bool
	values []uint64 // sorted, while exact
	sketch *hyperloglog.Sketch
}

// Full tells whether the set reached its limit.
func (s *Set) Full() bool {
	s.settle()
	return s.full
}

// Count returns the number of distinct values; the limit once the set is full.
func (s *Set) Count() uint64 {
	switch {
	case s.full:
		return s.Limit
	case s.sketch != nil:
		return s.sketch.Estimate()
	default:
		return uint64(len(s.values))
	}
}

// Add adds a value.
func (s *Set) Add(hash uint64) {
	switch {
	case s.full:
	case s.sketch != nil:
		s.sketch.InsertHash(hash)
	default:
		i, found := slices.BinarySearch(s.values, hash)
		if found {
			return
		}
		s.values = slices.Insert(s.values, i, hash)
		if len(s.values) > exactValues {
			s.toSketch()
		}
	}
}

// Merge adds all values of o.
func (s *Set) Merge(o *Set) {
	switch {
	case s.full:
	case o.full:
		s.fill()
	case o.sketch != nil:
		s.toSketch()
		// Both sides have the one precision that exists here.
		_ = s.sketch.Merge(o.sketch)
	default:
		for _, h := range o.values {
			s.Add(h)
		}
	}
}

func (s *Set) settle() {
	if s.Limit > 0 && !s.full && s.Count() >= s.Limit {
		s.fill()
	}
}

func (s *Set) fill() { s.full, s.values, s.sketch = true, nil, nil }

func (s *Set) toSketch() {
	if s.sketch != nil {
		return
	}
	s.sketch = hyperloglog.New16()
	for _, h := range s.values {
		s.sketch.InsertHash(h)
	}
	s.values = nil
}

// The first byte of an encoded set.
const (
	setExact  = 1
	setSketch = 2
	setFull   = 3
)

// MarshalBinary encodes the set without its limit.
func (s *Set) MarshalBinary() ([]byte, error) {
	s.settle()
	switch {
	case s.full:
		return []byte{setFull}, nil
	case s.sketch != nil:
		b, err := s.sketch.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("distinct set: encode sketch: %w", err)
		}
		return append([]byte{setSketch}, b...), nil
	default:
		b := make([]byte, 1, 1+8*len(s.values))
		b[0] = setExact
		for _, h := range s.values {
			b = binary.LittleEndian.AppendUint64(b, h)
		}
		return b, nil
	}
}

// UnmarshalBinary replaces the values by encoded ones and keeps the limit. After
// an error the set is empty.
func (s *Set) UnmarshalBinary(b []byte) error {
	*s = Set{Limit: s.Limit}
	if len(b) == 0 || len(b) > maxSetBytes {
		return fmt.Errorf("distinct set: %d encoded bytes", len(b))
	}
	switch body := b[1:]; b[0] {
	case setFull:
		s.full = true
	case setSketch:
		sketch := hyperloglog.New16()
		if err := sketch.UnmarshalBinary(body); err != nil {
			return fmt.Errorf("distinct set: decode sketch: %w", err)
		}
		if p := body[1]; p != setPrecision { // sketches of two precisions do not merge
			return fmt.Errorf("distinct set: a sketch of precision %d", p)
		}
		s.sketch = sketch
	case setExact:
		if len(body)%8 != 0 || len(body) > 8*exactValues {
			return fmt.Errorf("distinct set: %d bytes of exact values", len(body))
		}
		values := make([]uint64, 0, len(body)/8)
		for ; len(body) > 0; body = body[8:] {
			v := binary.LittleEndian.Uint64(body)
			if n := len(values); n > 0 && values[n-1] >= v {
				return fmt.Errorf("distinct set: exact values out of order")
			}
			values = append(values, v)
		}
		s.values = values
	default:
		return fmt.Errorf("distinct set: unknown form %d", b[0])
	}
	return nil
}
