// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/delta"
	"assay/internal/wire"
)

// A site is a place in an encoded request that can be rewritten in place.
type site struct {
	off, n int
	kind   siteKind
	value  uint64 // sites of the same value get the same content
}

type siteKind uint8

const (
	siteTraceID siteKind = iota
	siteSpanID
	siteTime   // fixed64, Unix nanoseconds
	siteNumber // fixed64 of a data point: value, sum
	siteDigits // up to eight digits at the end of a text
	siteHex    // the end of a UUID
	siteVarint // an integer attribute of more than one byte
	siteKey    // not a site: a KeyValue, which may contain sites
	siteBody   // not a site: an AnyValue
)

// message describes the sites in a message of OTLP.
type message map[protowire.Number]field

type field struct {
	kind siteKind
	sub  message // of a message; kind is not used
}

func sub(m message) field     { return field{sub: m} }
func leaf(k siteKind) field   { return field{kind: k} }
func entry(r message) message { return message{1: sub(message{2: sub(message{2: sub(r)})})} }

// schemas are the requests of the three signals.
var schemas = func() map[wire.Signal]message {
	attribute, id, span, at, number := leaf(siteKey), leaf(siteTraceID), leaf(siteSpanID), leaf(siteTime), leaf(siteNumber)
	exemplar := sub(message{2: at, 4: span, 5: id, 7: attribute})
	points := sub(message{1: sub(message{2: at, 3: at, 4: number, 5: exemplar, 7: attribute})})
	return map[wire.Signal]message{
		wire.Traces: entry(message{
			1: id, 2: span, 4: span, 7: at, 8: at, 9: attribute,
			11: sub(message{1: at, 3: attribute}),
			13: sub(message{1: id, 2: span, 4: attribute}),
		}),
		wire.Metrics: entry(message{
			5: points, 7: points,
			9:  sub(message{1: sub(message{2: at, 3: at, 5: number, 8: exemplar, 9: attribute})}),
			10: sub(message{1: sub(message{1: attribute, 2: at, 3: at, 5: number, 11: exemplar})}),
			11: sub(message{1: sub(message{2: at, 3: at, 5: number, 7: attribute})}),
		}),
		wire.Logs: entry(message{1: at, 5: leaf(siteBody), 6: attribute, 9: id, 10: span, 11: at}),
	}
}()

// finder collects the sites of one request.
type finder struct {
	body []byte
	shape
	sites []site

	share *share
	trace uint64 // of the current record; a unique number if it has none
	next  uint64 // number
}

// share counts the attribute values of records and log bodies, and the values that are
// new in every pass.
type share struct {
	values, bodies       int
	newValues, newBodies map[uint64]bool
}

func newShare() share {
	return share{newValues: make(map[uint64]bool), newBodies: make(map[uint64]bool)}
}

// find returns the sites of a request. number identifies the first request of the
// workload.
func (s shape) find(signal wire.Signal, body []byte, number int, share *share) ([]site, error) {
	f := &finder{shape: s, body: body, share: share, next: uint64(number) << 32}
	err := f.message(schemas[signal], 0, len(body))
	return f.sites, err
}

func (f *finder) message(m message, at, end int) error {
	if err := f.context(m, at, end); err != nil {
		return err
	}
	return f.each(at, end, func(n protowire.Number, t protowire.Type, from, to int) error {
		d, ok := m[n]
		switch {
		case !ok:
		case d.sub != nil:
			return f.message(d.sub, from, to)
		case d.kind == siteKey:
			return f.attribute(from, to)
		case d.kind == siteBody:
			f.share.bodies++
			f.next++ // no two bodies are equal
			return f.value(from, to, f.next, f.share.newBodies)
		case to > from && (t == protowire.Fixed64Type || t == protowire.BytesType):
			f.sites = append(f.sites, site{off: from, n: to - from, kind: d.kind})
		}
		return nil
	})
}

// context finds the trace to which a record belongs.
func (f *finder) context(m message, at, end int) error {
	for n, d := range m {
		if d.kind != siteTraceID || d.sub != nil {
			continue
		}
		f.next++
		f.trace = f.next
		return f.each(at, end, func(found protowire.Number, _ protowire.Type, from, to int) error {
			if found == n && to > from {
				f.trace = hashOf(f.body[from:to])
			}
			return nil
		})
	}
	return nil
}

// each visits the fields in body[at:end] with the bounds of their values.
func (f *finder) each(at, end int, visit func(n protowire.Number, t protowire.Type, from, to int) error) error {
	for at < end {
		n, t, size := protowire.ConsumeTag(f.body[at:end])
		if size < 0 {
			return fmt.Errorf("byte %d: %w", at, protowire.ParseError(size))
		}
		at += size
		from := at
		size = protowire.ConsumeFieldValue(n, t, f.body[at:end])
		if size < 0 {
			return fmt.Errorf("byte %d: %w", at, protowire.ParseError(size))
		}
		at += size
		if t == protowire.BytesType {
			_, prefix := protowire.ConsumeVarint(f.body[from:end])
			from += prefix
		}
		if err := visit(n, t, from, at); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) attribute(at, end int) error {
	key := ""
	from, to := 0, 0
	err := f.each(at, end, func(n protowire.Number, _ protowire.Type, a, b int) error {
		switch n {
		case 1:
			key = string(f.body[a:b])
		case 2:
			from, to = a, b
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.share.values++
	if !f.varies(key) {
		return nil
	}
	if f.unique {
		f.next++
		f.trace = f.next
	}
	return f.value(from, to, delta.Mix(f.trace, hashOf([]byte(key), f.body[from:to])), f.share.newValues)
}

// hashOf returns the same hash in every run, like the workload.
func hashOf(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, b := range parts {
		_, _ = h.Write(b) // never fails
	}
	return h.Sum64()
}

// value adds a site for a string with enough digits or for an integer, and records which
// values have one.
func (f *finder) value(at, end int, hash uint64, noted map[uint64]bool) error {
	return f.each(at, end, func(n protowire.Number, t protowire.Type, from, to int) error {
		var s site
		switch {
		case n == 1 && t == protowire.BytesType:
			s = textSite(f.body, from, to)
		case n == 3 && t == protowire.VarintType && to-from > 1:
			s = site{off: from, n: to - from, kind: siteVarint}
		}
		if s.n > 0 {
			s.value = hash
			f.sites = append(f.sites, s)
			noted[hash] = true
		}
		return nil
	})
}

// uuidSize is the length of a UUID in text.
const uuidSize = 36

// textSite returns the site in a text: its last digits. It needs at least freshDigits of
// them, so that the new text is unique.
func textSite(body []byte, from, to int) site {
	if to-from == uuidSize && body[from+8] == '-' && body[from+23] == '-' {
		return site{off: to - 12, n: 12, kind: siteHex}
	}
	digits := 0
	for i := to - 1; i >= from; i-- {
		if body[i] >= '0' && body[i] <= '9' {
			if digits++; digits == freshDigits {
				return site{off: i, n: to - i, kind: siteDigits}
			}
		}
	}
	return site{}
}

// freshDigits is the number of digits of a text that are rewritten.
const freshDigits = 8

// variation determines the new content of the sites of a group of requests. Their spans
// remain one trace, and equal values stay equal.
type variation struct {
	seed  uint64
	shift uint64 // nanoseconds that all times move forward
}

func (v *variation) apply(body []byte, sites []site) {
	for i := range sites {
		s := &sites[i]
		b := body[s.off : s.off+s.n]
		switch s.kind {
		case siteTraceID, siteSpanID:
			if id := binary.LittleEndian.Uint64(b); id != 0 { // a missing id stays missing
				binary.LittleEndian.PutUint64(b, id^delta.Mix(v.seed, uint64(s.kind)))
			}
			continue
		case siteTime:
			if t := binary.LittleEndian.Uint64(b); t != 0 {
				binary.LittleEndian.PutUint64(b, t+v.shift)
			}
			continue
		case siteNumber:
			binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+v.seed&(1<<20-1))
			continue
		}
		x := delta.Mix(v.seed, s.value)
		switch s.kind {
		case siteDigits:
			for i, c := range b {
				if c >= '0' && c <= '9' {
					b[i] = '0' + byte(x%10)
					x /= 10
				}
			}
		case siteHex:
			for i := range b {
				b[i] = "0123456789abcdef"[x&15]
				x >>= 4
			}
		case siteVarint:
			for i := range b[:len(b)-1] { // keep the last byte, which determines the size of the number
				b[i] = 0x80 | byte(x)
				x >>= 7
			}
		}
	}
}
