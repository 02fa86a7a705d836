// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/axiomhq/hyperloglog"
)

// exactValues is the number of values up to which a Set is exact. Above, it is a sketch. exactValues exceeds the
// limit of SPA-003, so the count of that rule is exact.
const exactValues = 1024

// setPrecision is the precision of the sketches, the second byte of their encoding.
const setPrecision = 16

// maxSetBytes limits an encoded set: a dense sketch of 2^16 registers with its header.
const maxSetBytes = 1 << 17

// Set counts distinct values, given as stable 64-bit hashes, up to its limit. Colliding values count as one. At the
// limit the set is permanently full and drops its values. Up to 1,024 values the count is exact. Above, the set is a
// HyperLogLog sketch of precision 16 (Flajolet et al. 2007, with the sparse representation of Heule et al. 2013). A
// test measures its error at the limit of MET-001.
type Set struct {
	Limit uint64 // the count at which the set is full; 0 means never

	full   bool
	values []uint64 // sorted, while exact
	sketch *hyperloglog.Sketch
}

// Full reports whether the set has reached its limit.
func (s *Set) Full() bool {
	s.settle()
	return s.full
}

// Count returns the number of distinct values, or the limit if the set is full.
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
		// Both sketches have the same precision, the only one in use.
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

// UnmarshalBinary replaces the values by decoded ones and keeps the limit. On errors the set is empty.
func (s *Set) UnmarshalBinary(b []byte) error {
	*s = Set{Limit: s.Limit}
	if len(b) == 0 || len(b) > maxSetBytes {
		return fmt.Errorf("distinct set: invalid encoding of %d bytes", len(b))
	}
	switch body := b[1:]; b[0] {
	case setFull:
		s.full = true
	case setSketch:
		sketch := hyperloglog.New16()
		if err := sketch.UnmarshalBinary(body); err != nil {
			return fmt.Errorf("distinct set: decode sketch: %w", err)
		}
		if p := body[1]; p != setPrecision { // sketches of different precisions do not merge
			return fmt.Errorf("distinct set: unsupported sketch precision %d", p)
		}
		s.sketch = sketch
	case setExact:
		if len(body)%8 != 0 || len(body) > 8*exactValues {
			return fmt.Errorf("distinct set: invalid length of %d bytes for exact values", len(body))
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
		return fmt.Errorf("distinct set: unknown encoding %d", b[0])
	}
	return nil
}
