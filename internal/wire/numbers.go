// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"
)

// Doubles iterates over a repeated double field, packed or not. A copy iterates independently. The zero value is
// empty.
type Doubles struct{ w words }

// Len returns the number of remaining values.
func (d Doubles) Len() int { return d.w.count }

// Next returns the next value, or false at the end.
func (d *Doubles) Next() (float64, bool) {
	v, ok := d.w.next()
	return math.Float64frombits(v), ok
}

// Counts iterates over a repeated field of unsigned integers, packed or not. A copy iterates independently. The zero
// value is empty.
type Counts struct{ w words }

// Len returns the number of remaining values.
func (c Counts) Len() int { return c.w.count }

// Next returns the next value, or false at the end.
func (c *Counts) Next() (uint64, bool) { return c.w.next() }

// numbers records the occurrences of one repeated numeric field during a walk.
type numbers struct {
	run   run
	count int // of values, not of occurrences
}

// add records the occurrence at b[i:end]. The payload of a packed occurrence starts at b[v]. wire is the type of a
// single value. add returns false if the packed payload is not a whole number of values.
func (n *numbers) add(b []byte, i int, tag, v uint64, end int, wire uint8) bool {
	count, ok := 1, true
	if tag&7 == typeLen {
		count, ok = countPacked(b[v:end], wire)
	}
	n.run = n.run.add(i, end)
	n.count += count
	return ok
}

// words returns the view of the recorded occurrences as field number of m.
func (n *numbers) words(m Message, number, wire uint8) words {
	return words{rest: m.Bytes[n.run.first:n.run.last], count: n.count, number: number, wire: wire}
}

// words iterates over a repeated numeric field whose occurrences are single values, packed values, or both. The
// framing has been checked.
type words struct {
	packed []byte // rest of the current packed occurrence
	rest   []byte // from the tag of the next occurrence to the end of the last one
	count  int    // remaining values
	number uint8
	wire   uint8 // type of a single value: typeFixed64 or typeVarint
}

// countPacked returns the number of values in the packed field p, and whether p is a whole number of values.
func countPacked(p []byte, wire uint8) (int, bool) {
	if wire == typeFixed64 {
		return len(p) / 8, len(p)%8 == 0
	}
	n := 0
	for i := 0; i < len(p); n++ {
		if _, i = uvarint(p, i); i < 0 {
			return 0, false
		}
	}
	return n, true
}

func (w *words) next() (uint64, bool) {
	for len(w.packed) == 0 {
		if len(w.rest) == 0 {
			return 0, false
		}
		tag, v, end := field(w.rest, 0)
		if tag == 0 { // the request was modified after Decode
			*w = words{}
			return 0, false
		}
		at := w.rest
		w.rest = w.rest[end:]
		switch tag {
		case uint64(w.number)<<3 | uint64(w.wire):
			w.count--
			return v, true
		case uint64(w.number)<<3 | typeLen:
			w.packed = at[v:end]
		}
	}
	w.count--
	if w.wire == typeFixed64 && len(w.packed) >= 8 {
		v := binary.LittleEndian.Uint64(w.packed)
		w.packed = w.packed[8:]
		return v, true
	}
	v, i := uvarint(w.packed, 0)
	if i < 0 {
		*w = words{}
		return 0, false
	}
	w.packed = w.packed[i:]
	return v, true
}
