// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay"
	"assay/internal/delta"
)

// A journal entry consists of:
//
//	version     1 byte
//	arrival     8 bytes, Unix nanoseconds
//	flags       1 byte
//	seed        8 bytes, seed of the sampling hash
//	orgs        count, then for each organization: id, sampling level, flags for the optional values that follow,
//	            time of the last decrease of the level, and time since which open traces may lack their beginning,
//	            both relative to arrival
//	closed      count, then organization and 16 bytes of trace id for each trace that closes before the spans of
//	            the entry
//	resources   count, then for each: whether it is evaluated, five texts
//	names       count, then each; numbered from 1
//	traces      to the end: organization, whether it continues from earlier in the same transaction and whether
//	            it was moved, 16 bytes of id, event time relative to arrival, [first arrival relative to arrival,
//	            level and whether partial,] number of spans, then for each span: flags, [resource], [name],
//	            [8 bytes of id], [8 bytes of parent, or its index among the spans]
//
// Version 1 has the level, the time of the last decrease and the time of partial traces once for all organizations,
// after the seed. It has 8 bytes of hash before the texts of a resource, which are ignored: two resources are equal
// if their organization and all their texts are.
//
// Numbers are varints, signed if relative. Texts have a length prefix. Values equal to the values of the span before are
// omitted.
const (
	entryVersion    = 2
	entryVersionOld = 1
	headerBytes     = 18
)

// Flags of an entry.
const (
	flagReplaces = 1 << iota // its traces replace traces of earlier entries
	flagTaken                // taken over by another process, which moves the traces to its own journal
	flagLowered              // version 1
	flagSince                // version 1
	knownFlags   = 1<<iota - 1
)

// Flags stored with the sampling level of an organization.
const (
	stateLowered = 1 << iota
	stateSince
	stateBits = iota
)

// Flags of a span in an entry, above the flags of a record.
const (
	spanNoID           = 1 << 2
	spanParent         = 3 << 3 // how the parent is encoded
	spanParentNone     = 0 << 3
	spanParentIndex    = 1 << 3 // index among the spans
	spanParentID       = 2 << 3 // id
	spanParentSame     = 3 << 3 // the same id as the last parent id
	spanSameResource   = 1 << 5
	spanSameName       = 1 << 6
	spanReserved       = 1 << 7
	spanRecordFlags    = flagInternal | flagShort
	entryBytesAimed    = 1 << 20 // start another entry above this size, unless it would mostly repeat names and resources
	entryBytesMost     = 8 << 20 // start another entry above this size in any case
	maxEntryNames      = 1 << 12 // distinct names of an entry: start another entry, or omit names if the entries would mostly repeat names and resources
	maxPieceSpans      = 1 << 14 // consecutive spans of one trace
	searchedPieceSpans = 24      // search for parents linearly up to this number
)

// Flags of a trace in an entry.
const (
	traceMoved = 1 << iota
	traceContinued
)

// header describes the process that wrote an entry.
type header struct {
	version byte
	arrival int64 // Unix nanoseconds
	flags   byte
	seed    uint64

	// partialSince holds the time since which open traces of an organization may lack their beginning (Unix nanoseconds),
	// by organization. Traces opened within one idle period from now are included.
	partialSince map[uint32]int64
	old          state // for all organizations; version 1
}

func (h *header) append(b []byte) []byte {
	b = append(b, entryVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.arrival))
	b = append(b, h.flags)
	return binary.LittleEndian.AppendUint64(b, h.seed)
}

// state is the sampling of an organization in an entry.
type state struct {
	org uint32
	sampling
	since int64 // open traces may lack their beginning since, Unix nanoseconds; 0: none do
}

func (s *state) append(b []byte, arrival int64) []byte {
	head := uint64(s.level) << stateBits
	if s.lowered != 0 {
		head |= stateLowered
	}
	if s.since != 0 {
		head |= stateSince
	}
	b = binary.AppendUvarint(b, head)
	if s.lowered != 0 {
		b = binary.AppendVarint(b, s.lowered-arrival)
	}
	if s.since != 0 {
		b = binary.AppendVarint(b, s.since-arrival)
	}
	return b
}

// state decodes the encoding of state.append.
func (d *decoder) state(org uint32, arrival int64) state {
	head := d.uvarint()
	s := state{org: org, sampling: sampling{level: uint(head >> stateBits)}}
	if head>>stateBits > maxLevel {
		d.bad = true
		return state{org: org}
	}
	if head&stateLowered != 0 {
		s.lowered = arrival + d.varint()
	}
	if head&stateSince != 0 {
		s.since = arrival + d.varint()
	}
	return s
}

// numbering assigns numbers to the objects that an entry refers to, in the order of first use.
type numbering struct {
	of   []uint32 // by outer number; the number in the entry, from 1
	used []uint32 // the outer numbers, in order
}

// number returns the number of n and whether it is new.
func (x *numbering) number(n uint32) (uint32, bool) {
	for int(n) >= len(x.of) {
		x.of = append(x.of, 0)
	}
	if x.of[n] != 0 {
		return x.of[n] - 1, false
	}
	x.used = append(x.used, n)
	x.of[n] = uint32(len(x.used))
	return uint32(len(x.used) - 1), true
}

func (x *numbering) reset() {
	for _, n := range x.used {
		x.of[n] = 0
	}
	x.used = x.used[:0]
}

// encoder encodes bundles and closed traces as entries. It reuses its memory.
type encoder struct {
	entries []encoded

	head                   header
	orgs, resources, names numbering
	closed                 []byte
	closings               int
	orgTable               []byte
	resourceTable          []byte
	nameTable              []byte
	traces                 []byte
	from                   int    // first group in the entry
	of                     uint32 // organization of the entry
	spans                  int
	sealed                 int // bytes of the entries of the bundle

	places []uint64 // ids of the spans in a piece
	table  []int32  // their indexes, from 1, by hash
}

// encoded is an entry with the range of groups of its bundle. The first and last group may be partial.
type encoded struct {
	data     []byte
	note     bool
	org      uint32 // whose it is
	from, to int
	spans    int
}

// maxReusedEntries is the number of entries whose memory is reused.
const maxReusedEntries = 8

// reset discards all entries. If reuse is set, their memory is reused.
func (e *encoder) reset(reuse bool) {
	if !reuse || cap(e.entries) > 4*maxReusedEntries {
		e.entries = nil
	}
	if len(e.entries) > maxReusedEntries {
		clear(e.entries[maxReusedEntries:])
	}
	e.entries = e.entries[:0]
	e.clear(0)
}

// clear begins another entry.
func (e *encoder) clear(from int) {
	e.orgs.reset()
	e.resources.reset()
	e.names.reset()
	e.closed, e.orgTable, e.resourceTable = e.closed[:0], e.orgTable[:0], e.resourceTable[:0]
	e.nameTable, e.traces = e.nameTable[:0], e.traces[:0]
	e.closings, e.spans, e.from, e.places = 0, 0, from, e.places[:0]
}

func (e *encoder) size() int {
	return len(e.closed) + len(e.orgTable) + len(e.resourceTable) + len(e.nameTable) + len(e.traces)
}

// full reports whether the current entry is large enough.
func (e *encoder) full() bool {
	own := len(e.closed) + len(e.traces) + len(e.places)*recordBytes/2
	size := own + len(e.orgTable) + len(e.resourceTable) + len(e.nameTable)
	mostly := own >= size/3 // and not repeated names and resources
	return size >= entryBytesAimed && mostly || size >= entryBytesMost ||
		len(e.names.used) >= maxEntryNames && (mostly || e.sealed < entryBytesMost)
}

// seal completes the current entry, which holds the groups before to.
func (e *encoder) seal(to int, note bool) {
	n := len(e.entries)
	e.entries = slices.Grow(e.entries, 1)[:n+1]
	x := &e.entries[n]
	b := e.head.append(slices.Grow(x.data[:0], headerBytes+64+e.size()))
	b = append(binary.AppendUvarint(b, uint64(len(e.orgs.used))), e.orgTable...)
	b = append(binary.AppendUvarint(b, uint64(e.closings)), e.closed...)
	b = append(binary.AppendUvarint(b, uint64(len(e.resources.used))), e.resourceTable...)
	b = append(binary.AppendUvarint(b, uint64(len(e.names.used))), e.nameTable...)
	b = append(b, e.traces...)
	*x = encoded{data: b, note: note, org: e.of, from: e.from, to: to, spans: e.spans}
	e.sealed += len(b)
	e.clear(to)
}

// org returns the number of an organization in the entry.
func (e *encoder) org(a *Assembler, org uint32) uint64 {
	n, isNew := e.orgs.number(org)
	if isNew {
		o := a.tenants[org]
		s := state{sampling: o.sampling}
		if since, ok := e.head.partialSince[org]; ok {
			s.lowered, s.since = e.head.arrival, since
		}
		e.orgTable = s.append(appendText(e.orgTable, o.id), e.head.arrival)
	}
	return uint64(n)
}

// note adds entries with the closed traces and the changed sampling of organizations, which it sorts. An entry is of one
// organization.
func (e *encoder) note(a *Assembler, h header, changed []*tenant, closing []*openTrace) {
	e.head = h
	byOrg := func(t *openTrace, org uint32) int { return cmp.Compare(t.key.org, org) }
	slices.SortStableFunc(closing, func(x, y *openTrace) int { return byOrg(x, y.key.org) })
	for _, o := range changed {
		if _, closes := slices.BinarySearchFunc(closing, o.number, byOrg); !closes {
			e.of = o.number
			e.org(a, o.number)
			e.seal(0, true)
		}
	}
	for _, t := range closing {
		if e.closings > 0 && (e.full() || t.key.org != e.of) {
			e.seal(0, true)
		}
		e.of = t.key.org
		e.closed = binary.AppendUvarint(e.closed, e.org(a, t.key.org))
		e.closed = append(e.closed, t.key.id[:]...)
		e.closings++
	}
	if e.closings > 0 {
		e.seal(0, true)
	}
}

// mark adds an entry that closes nothing.
func (e *encoder) mark(h header) {
	e.head = h
	e.seal(0, true)
}

// bundle adds entries for all spans of a bundle, in the order of organizations. An entry holds spans of one
// organization, so that no other one keeps it in the journal.
func (e *encoder) bundle(a *Assembler, h header, b *bundle) {
	e.head, e.sealed = h, 0
	e.clear(0)
	slices.SortStableFunc(b.groups, func(x, y group) int { return cmp.Compare(x.key.org, y.key.org) })
	for g := range b.groups {
		x := &b.groups[g]
		if x.sampledOut {
			continue
		}
		if x.key.org != e.of {
			if e.spans > 0 {
				e.seal(g, false)
			}
			e.of, e.sealed = x.key.org, 0
		}
		for it, left := x.first, x.n; left > 0; {
			if e.full() {
				e.seal(g, false)
			}
			var n int
			it, n = e.piece(a, b, x, it, left)
			left -= n
			if left > 0 && e.full() {
				e.seal(g+1, false)
				e.from = g
			}
		}
	}
	if e.spans > 0 {
		e.seal(len(b.groups), false)
	}
}

// piece adds as many spans of a group as fit. It returns the next span and the number of spans added.
func (e *encoder) piece(a *Assembler, b *bundle, g *group, first int32, left int) (next int32, n int) {
	e.places = e.places[:0]
	resource, name := uint32(math.MaxUint32), uint32(0)
	for it := first; n < min(left, maxPieceSpans) && (n == 0 || !e.full()); n++ {
		x := &b.items[it]
		if x.resource != resource {
			resource = x.resource
			e.resource(b, resource)
		}
		if x.name != name {
			name = x.name
			e.name(b, name)
		}
		e.places = append(e.places, x.id)
		it = x.next
	}
	e.index()

	head := e.org(a, g.key.org) << 2
	if first != g.first {
		head |= traceContinued
	}
	if g.moved {
		head |= traceMoved
	}
	out := binary.AppendUvarint(e.traces, head)
	out = append(out, g.key.id[:]...)
	out = binary.AppendVarint(out, int64(g.time-uint64(e.head.arrival)))
	if g.moved {
		out = binary.AppendVarint(out, g.opened-e.head.arrival)
		level := uint64(g.level) << 1
		if g.partial {
			level |= 1
		}
		out = binary.AppendUvarint(out, level)
	}
	out = binary.AppendUvarint(out, uint64(n))
	var named uint32
	var away uint64
	resource, name = math.MaxUint32, 0
	it := first
	for range n {
		x := &b.items[it]
		it = x.next
		flags, at := byte(x.flags), 0
		if x.id == 0 {
			flags |= spanNoID
		}
		if x.parent != 0 {
			switch at = e.place(x.parent); {
			case at > 0:
				flags |= spanParentIndex
			case x.parent == away:
				flags |= spanParentSame
			default:
				flags |= spanParentID
			}
		}
		was := named
		if x.name != name {
			name, named = x.name, e.name(b, x.name)
		}
		if named == was {
			flags |= spanSameName
		}
		if x.resource == resource {
			flags |= spanSameResource
		}
		out = append(out, flags)
		if x.resource != resource {
			resource = x.resource
			out = binary.AppendUvarint(out, uint64(e.resource(b, resource)))
		}
		if named != was {
			out = binary.AppendUvarint(out, uint64(named))
		}
		if x.id != 0 {
			out = binary.LittleEndian.AppendUint64(out, x.id)
		}
		switch flags & spanParent {
		case spanParentIndex:
			out = binary.AppendUvarint(out, uint64(at-1))
		case spanParentID:
			out = binary.LittleEndian.AppendUint64(out, x.parent)
			away = x.parent
		}
	}
	e.traces, e.places = out, e.places[:0]
	e.spans += n
	return it, n
}

// index prepares index lookups for the spans of a piece.
func (e *encoder) index() {
	if len(e.places) <= searchedPieceSpans {
		return
	}
	size := 1
	for size < 2*len(e.places) {
		size *= 2
	}
	e.table = slices.Grow(e.table[:0], size)[:size]
	clear(e.table)
	for i, id := range e.places {
		if s := e.slot(id); e.table[s] == 0 {
			e.table[s] = int32(i + 1)
		}
	}
}

// slot returns the position of an id in the table, or the free position for it.
func (e *encoder) slot(id uint64) int {
	mask := len(e.table) - 1
	i := int(delta.Mix(id, e.head.seed)) & mask
	for e.table[i] != 0 && e.places[e.table[i]-1] != id {
		i = (i + 1) & mask
	}
	return i
}

// place returns the index of a span in the piece by its id, counted from 1. 0 means not found.
func (e *encoder) place(id uint64) int {
	if len(e.places) <= searchedPieceSpans {
		return slices.Index(e.places, id) + 1
	}
	return int(e.table[e.slot(id)])
}

// resource returns the number of a resource in the entry.
func (e *encoder) resource(b *bundle, r uint32) uint32 {
	n, isNew := e.resources.number(r)
	if isNew {
		x := b.resources[r]
		evaluated := byte(1)
		if x.ParentsOnly {
			evaluated = 0
		}
		e.resourceTable = append(e.resourceTable, evaluated)
		for _, text := range [...]string{x.Service.Namespace, x.Service.Name, x.Service.Environment, x.Service.Version, x.Attributes} {
			e.resourceTable = appendText(e.resourceTable, text)
		}
	}
	return n
}

// name returns the number of a name in the entry. 0 is the empty name.
func (e *encoder) name(b *bundle, name uint32) uint32 {
	if name == 0 || len(e.names.used) >= maxEntryNames && (int(name) >= len(e.names.of) || e.names.of[name] == 0) {
		return 0
	}
	n, isNew := e.names.number(name)
	if isNew {
		e.nameTable = appendText(e.nameTable, b.names[name].text)
	}
	return n + 1
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// errEntry reports a truncated or malformed entry.
var errEntry = errors.New("malformed trace journal entry")

// errVersion reports an entry of an unknown version.
var errVersion = errors.New("unknown version of a trace journal entry")

// decoder decodes an entry. After an error all reads return zero.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count reads a number of elements that take at least the given number of bytes each.
func (d *decoder) count(bytes int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/bytes) {
		d.bad, d.rest = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) text() string { return string(d.take(d.count(1))) }

// index reads a number below n.
func (d *decoder) index(n int) uint32 {
	v := d.uvarint()
	if v >= uint64(n) {
		d.bad, d.rest = true, nil
		return 0
	}
	return uint32(v)
}

// decodeHeader decodes an entry up to the tables.
func decodeHeader(data []byte) (h header, rest []byte, err error) {
	d := decoder{rest: data}
	if h.version = d.byte(); h.version != entryVersion && h.version != entryVersionOld && !d.bad {
		return h, nil, fmt.Errorf("%w: %d", errVersion, h.version)
	}
	h.arrival, h.flags, h.seed = int64(d.fixed()), d.byte(), d.fixed()
	allowed := byte(flagReplaces | flagTaken)
	if h.version == entryVersionOld {
		allowed |= flagLowered | flagSince
		level := d.uvarint()
		h.old.level = uint(min(level, maxLevel))
		d.bad = d.bad || level > maxLevel
		if h.flags&flagLowered != 0 {
			h.old.lowered = h.arrival + d.varint()
		}
		if h.flags&flagSince != 0 {
			h.old.since = h.arrival + d.varint()
		}
	}
	if d.bad || h.flags&^allowed != 0 {
		return h, nil, errEntry
	}
	h.flags &^= flagLowered | flagSince
	return h, d.rest, nil
}

// decode decodes the rest of an entry after the header: the closed traces and a bundle.
func (b *bundle) decode(a *Assembler, h header, rest []byte) (closed []key, err error) {
	b.reset()
	d := decoder{rest: rest}
	if h.version == entryVersionOld {
		a.initial = h.old.sampling
		for _, o := range a.tenants {
			b.states = append(b.states, state{o.number, h.old.sampling, h.old.since})
		}
	}
	orgs := make([]uint32, d.count(1))
	for i := range orgs {
		orgs[i] = a.org(d.text())
		if h.version != entryVersionOld {
			b.states = append(b.states, d.state(orgs[i], h.arrival))
		}
	}
	closed = make([]key, d.count(17))
	for i := range closed {
		org := d.index(len(orgs))
		if id := d.take(16); !d.bad {
			closed[i] = key{org: orgs[org], id: [16]byte(id)}
		}
	}
	encodings := make([][]byte, d.count(6))
	for i := range encodings {
		encodings[i] = d.resource(h.version)
	}
	n := d.count(1)
	for range n {
		text := d.text()
		b.names = append(b.names, spanName{nameHash(text), text})
	}
	of := decodedResources{a: a, b: b, encodings: encodings, numbers: make(map[[2]uint32]uint32)}
	for len(d.rest) > 0 && !d.bad {
		b.decodeTrace(&d, h, orgs, &of)
	}
	if d.bad {
		return nil, errEntry
	}
	return closed, nil
}

// resource reads a resource and returns its encoding without the hash.
func (d *decoder) resource(version byte) []byte {
	evaluated := d.take(1)
	if version == entryVersionOld {
		d.fixed()
	}
	texts := d.rest
	for range 5 {
		d.take(d.count(1))
	}
	if d.bad {
		return nil
	}
	return append(slices.Clone(evaluated), texts[:len(texts)-len(d.rest)]...)
}

// decodedResources provides the resources of an entry for each organization whose traces refer to them.
type decodedResources struct {
	a         *Assembler
	b         *bundle
	encodings [][]byte
	numbers   map[[2]uint32]uint32 // numbers in the bundle, by organization and number in the entry
}

// number returns the number of a resource in the bundle.
func (x *decodedResources) number(org, i uint32) uint32 {
	at := [2]uint32{org, i}
	n, ok := x.numbers[at]
	if !ok {
		n = uint32(len(x.b.resources))
		x.b.resources = append(x.b.resources, x.resource(org, x.encodings[i]))
		x.numbers[at] = n
	}
	return n
}

func (x *decodedResources) resource(org uint32, encoding []byte) *Resource {
	d := decoder{rest: encoding}
	r := &Resource{ParentsOnly: d.byte() == 0}
	r.Service = assay.ServiceKey{Namespace: d.text(), Name: d.text(), Environment: d.text(), Version: d.text()}
	r.Attributes = d.text()
	r.Hash = delta.ServiceHash(x.a.tenants[org].id, r.Service)
	return r
}

func (b *bundle) decodeTrace(d *decoder, h header, orgs []uint32, resources *decodedResources) {
	head := d.uvarint()
	id := d.take(16)
	if d.bad || head>>2 >= uint64(len(orgs)) {
		d.bad = true
		return
	}
	k := key{org: orgs[head>>2], id: [16]byte(id)}
	index, isNew := b.group(k, k.hash())
	g := &b.groups[index]
	g.continued = head&traceContinued != 0 && (isNew || g.continued)
	g.time = max(g.time, uint64(d.varint())+uint64(h.arrival))
	if head&traceMoved != 0 {
		g.moved, g.opened = true, h.arrival+d.varint()
		level := d.uvarint()
		if level>>1 > maxLevel {
			d.bad = true
			return
		}
		g.level, g.partial = uint(level>>1), level&1 != 0
	}
	first, n := len(b.items), d.count(1)
	var resource, name uint32
	var away uint64
	for i := range n {
		flags := d.byte()
		if flags&spanReserved != 0 || i == 0 && flags&spanSameResource != 0 {
			d.bad = true
		}
		if flags&spanSameResource == 0 {
			if i := d.index(len(resources.encodings)); !d.bad {
				resource = resources.number(orgs[head>>2], i)
			}
		}
		if flags&spanSameName == 0 {
			name = d.index(len(b.names))
		}
		it := item{flags: uint16(flags & spanRecordFlags), resource: resource, name: name}
		if flags&spanNoID == 0 {
			it.id = d.fixed()
		}
		switch flags & spanParent {
		case spanParentIndex: // the parent may not be read yet
			it.parent = uint64(d.index(n))
		case spanParentID:
			away = d.fixed()
			it.parent = away
		case spanParentSame:
			it.parent = away
		}
		if flags&spanParent == spanParentIndex {
			it.flags |= parentIndex
		}
		if d.bad {
			return
		}
		b.push(index, it)
	}
	for i := first; i < len(b.items); i++ {
		if it := &b.items[i]; it.flags&parentIndex != 0 {
			it.flags &^= parentIndex
			it.parent = b.items[first+int(it.parent)].id
		}
	}
}

// parentIndex marks items whose parent is still an index.
const parentIndex = 1 << 15
