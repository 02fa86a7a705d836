// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// errShort reports an encoded value that is truncated or contains an invalid reference.
var errShort = errors.New("value is truncated or malformed")

// Tally holds the counts of a service: of one bucket, or of all buckets kept.
type Tally struct {
	Counts [catalog.Count]delta.Count
	Usage  [delta.SignalCount]delta.Usage
}

// Add adds o to t.
func (t *Tally) Add(o *Tally) {
	for r := range t.Counts {
		t.Counts[r].Add(o.Counts[r])
	}
	for s := range t.Usage {
		t.Usage[s].Items += o.Usage[s].Items
		t.Usage[s].Bytes += o.Usage[s].Bytes
	}
}

// Sub subtracts o from t. It stops at zero, so that a damaged bucket cannot turn a total
// into a huge number.
func (t *Tally) Sub(o *Tally) {
	sub := func(a *uint64, b uint64) { *a -= min(*a, b) }
	for r := range t.Counts {
		sub(&t.Counts[r].Observed, o.Counts[r].Observed)
		sub(&t.Counts[r].Failed, o.Counts[r].Failed)
	}
	for s := range t.Usage {
		sub(&t.Usage[s].Items, o.Usage[s].Items)
		sub(&t.Usage[s].Bytes, o.Usage[s].Bytes)
	}
}

// Evaluated reports whether any rule was observed.
func (t *Tally) Evaluated() bool { return t.Counts != [catalog.Count]delta.Count{} }

// AppendBinary appends the encoded tally to b: items and bytes of each signal, then
// (number, observed, failed) of each rule that was observed, all as unsigned varints. An
// empty tally encodes to no bytes.
func (t *Tally) AppendBinary(b []byte) []byte {
	if *t == (Tally{}) {
		return b
	}
	for s := range t.Usage {
		b = binary.AppendUvarint(b, t.Usage[s].Items)
		b = binary.AppendUvarint(b, t.Usage[s].Bytes)
	}
	for r, c := range t.Counts {
		if c != (delta.Count{}) {
			b = append(b, numberOf[r])
			b = binary.AppendUvarint(b, c.Observed)
			b = binary.AppendUvarint(b, c.Failed)
		}
	}
	return b
}

// UnmarshalBinary sets t to an encoded tally. It drops counts of rules that the catalog
// no longer has.
func (t *Tally) UnmarshalBinary(b []byte) error {
	*t = Tally{}
	if len(b) == 0 {
		return nil
	}
	d := decoder{b: b}
	for s := range t.Usage {
		t.Usage[s] = delta.Usage{Items: d.uvarint(), Bytes: d.uvarint()}
	}
	for len(d.b) > 0 && !d.bad {
		r, known := RuleByNumber(int64(d.byte()))
		c := delta.Count{Observed: d.uvarint(), Failed: d.uvarint()}
		if known {
			t.Counts[r] = c
		}
	}
	if d.bad {
		return fmt.Errorf("decode tally: %w", errShort)
	}
	return nil
}

// Examples are the newest failing observations of a service, by rule.
type Examples = [catalog.Count]*delta.Example

// AppendExamples appends encoded examples to b. Most examples share their resource
// attributes, the largest part, so each distinct value is written once: first their
// number, then each value with its length. Each example follows with the rule's number,
// the signal, the trace id, the bits of the sampling rate, the event time and the
// position of its resource attributes.
func AppendExamples(b []byte, ex *Examples) []byte {
	var texts []string
	for _, e := range ex {
		if e != nil && !slices.Contains(texts, e.ResourceAttributes) {
			texts = append(texts, e.ResourceAttributes)
		}
	}
	if len(texts) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, s := range texts {
		b = appendString(b, s)
	}
	for r, e := range ex {
		if e == nil {
			continue
		}
		b = append(b, numberOf[r], byte(e.Signal))
		b = append(b, e.TraceID[:]...)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.SamplingRate))
		b = binary.AppendUvarint(b, e.TimeUnixNano)
		b = binary.AppendUvarint(b, uint64(slices.Index(texts, e.ResourceAttributes)))
	}
	return b
}

// DecodeExamples sets ex to encoded examples.
func DecodeExamples(b []byte, ex *Examples) error {
	*ex = Examples{}
	if len(b) == 0 {
		return nil
	}
	d := decoder{b: b}
	n := d.uvarint()
	if n > MaxNumber { // a newer version has more rules than this catalog
		return fmt.Errorf("decode examples: %w", errShort)
	}
	texts := make([]string, n)
	for i := range texts {
		texts[i] = d.string()
	}
	for len(d.b) > 0 && !d.bad {
		r, known := RuleByNumber(int64(d.byte()))
		e := &delta.Example{Signal: delta.Signal(d.byte())}
		copy(e.TraceID[:], d.bytes(uint64(len(e.TraceID))))
		if bits := d.bytes(8); bits != nil {
			e.SamplingRate = math.Float64frombits(binary.LittleEndian.Uint64(bits))
		}
		e.TimeUnixNano = d.uvarint()
		if i := d.uvarint(); i < n {
			e.ResourceAttributes = texts[i]
		} else {
			d.bad = true
		}
		if known {
			ex[r] = e
		}
	}
	if d.bad {
		*ex = Examples{}
		return fmt.Errorf("decode examples: %w", errShort)
	}
	return nil
}

// AppendItems appends encoded evidence items to b, sorted. Each has the rule's number,
// the list, the bucket and the text.
func AppendItems(b []byte, items map[delta.Item]delta.Bucket) []byte {
	sorted := make([]delta.Item, 0, len(items))
	for it := range items {
		sorted = append(sorted, it)
	}
	slices.SortFunc(sorted, func(x, y delta.Item) int {
		return cmp.Or(cmp.Compare(numberOf[x.Rule], numberOf[y.Rule]), cmp.Compare(x.List, y.List), cmp.Compare(x.Text, y.Text))
	})
	for _, it := range sorted {
		b = append(b, numberOf[it.Rule], byte(it.List))
		b = binary.AppendVarint(b, int64(items[it]))
		b = appendString(b, it.Text)
	}
	return b
}

// DecodeItems returns encoded evidence items, nil if there are none.
func DecodeItems(b []byte) (map[delta.Item]delta.Bucket, error) {
	var items map[delta.Item]delta.Bucket
	d := decoder{b: b}
	for len(d.b) > 0 {
		r, known := RuleByNumber(int64(d.byte()))
		it := delta.Item{Rule: r, List: delta.List(d.byte())}
		bucket := delta.Bucket(d.varint())
		it.Text = d.string()
		if d.bad {
			return nil, fmt.Errorf("decode items: %w", errShort)
		}
		if known {
			if items == nil {
				items = make(map[delta.Item]delta.Bucket)
			}
			items[it] = bucket
		}
	}
	return items, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// decoder consumes b from the front. After a truncated value it is bad and returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.bytes(d.uvarint())) }
