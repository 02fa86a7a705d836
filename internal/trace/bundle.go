// SPDX-License-Identifier: Apache-2.0

package trace

import "encoding/binary"

// bundle groups the spans of one transaction or one journal entry by trace. Each trace is looked up among the open
// traces once, and each name in their tables once.
type bundle struct {
	resources []*Resource
	names     []spanName // the first is the empty name
	groups    []group
	items     []item
	states    []state // from a journal entry
	texts     int     // size of the texts of resources, and of names

	groupOf    map[uint64]int32 // by hash: 1 + the index of the last group
	resourceOf map[*Resource]uint32
	nameOf     map[uint64]uint32
}

type spanName struct {
	hash uint64
	text string
}

// group holds the spans of one trace.
type group struct {
	key         key
	hash        uint64 // of key
	sameHash    int32  // 1 + the index of the group before with the same hash
	first, last int32  // indexes of its items
	n           int    // spans
	time        uint64 // newest event time
	sampledOut  bool   // sampled out; the group has no items

	// For a trace that was open before or in another process.
	moved     bool
	continued bool  // continued from another entry
	opened    int64 // Unix nanoseconds
	level     uint
	partial   bool

	trace *openTrace // the trace that received the spans
}

// item is one span: a record with the name and resource numbers of the bundle.
type item struct {
	id, parent uint64
	name       uint32
	resource   uint32
	next       int32 // next item of the group; 0: none
	flags      uint16
}

// maxReusedMaps is the size up to which the maps of a bundle are reused.
const maxReusedMaps = 1 << 16

func (b *bundle) reset() {
	if len(b.groupOf) > maxReusedMaps || b.groupOf == nil {
		b.groupOf = make(map[uint64]int32)
	}
	if len(b.resourceOf) > maxReusedMaps || b.resourceOf == nil {
		b.resourceOf = make(map[*Resource]uint32)
	}
	if len(b.nameOf) > maxReusedMaps || b.nameOf == nil {
		b.nameOf = make(map[uint64]uint32)
	}
	clear(b.groupOf)
	clear(b.resourceOf)
	clear(b.nameOf)
	clear(b.resources)
	clear(b.names)
	clear(b.groups)
	b.resources, b.groups, b.items, b.states = b.resources[:0], b.groups[:0], b.items[:0], b.states[:0]
	b.texts = 0
	b.names = append(b.names[:0], spanName{})
}

// add adds the spans of one organization that the current sampling keeps, up to the first one with another resource
// when the texts have reached a size. It returns the rest.
func (b *bundle) add(a *Assembler, org uint32, spans []Span, texts int) []Span {
	var (
		g        int32 = -1
		resource *Resource
		r, n     uint32
		hash     uint64
	)
	for i := range spans {
		s := &spans[i]
		if s.TraceID == ([16]byte{}) {
			continue
		}
		if s.Resource != resource && b.texts >= texts {
			if _, ok := b.resourceOf[s.Resource]; !ok {
				return spans[i:]
			}
		}
		if g < 0 || b.groups[g].key.id != s.TraceID {
			k := key{org: org, id: s.TraceID}
			i, isNew := b.group(k, k.hash())
			if g = i; isNew {
				b.groups[g].sampledOut = !a.keeps(a.tenants[org], s.TraceID)
			}
		}
		to := &b.groups[g]
		if to.sampledOut {
			to.n++
			continue
		}
		if s.Resource != resource {
			resource, r = s.Resource, b.resource(s.Resource)
		}
		if s.NameHash != hash || n == 0 {
			hash, n = s.NameHash, b.name(s.NameHash, s.Name)
		}
		it := item{id: binary.LittleEndian.Uint64(s.SpanID[:]), parent: binary.LittleEndian.Uint64(s.ParentID[:]), name: n, resource: r}
		if s.Internal {
			it.flags |= flagInternal
		}
		if s.Short {
			it.flags |= flagShort
		}
		to.time = max(to.time, s.Time)
		b.push(g, it)
	}
	return nil
}

// addTrace adds an open trace with all its spans, sampled at a level.
func (b *bundle) addTrace(to *Assembler, t *openTrace, level uint) {
	k := key{org: to.org(t.of.id), id: t.key.id}
	g, _ := b.group(k, k.hash())
	into := &b.groups[g]
	into.moved, into.opened, into.level, into.partial, into.time = true, t.first, level, t.partial, t.time
	for i := range t.records {
		r := &t.records[i]
		text := t.names.text(r.name)
		b.push(g, item{
			id: r.id, parent: r.parent, flags: r.flags, resource: b.resource(t.resources[r.resource]),
			name: b.name(nameHash(text), text),
		})
	}
}

// group returns the group of a trace, creating it if necessary.
func (b *bundle) group(k key, hash uint64) (g int32, isNew bool) {
	last := b.groupOf[hash]
	for g = last; g > 0; g = b.groups[g-1].sameHash {
		if b.groups[g-1].key == k {
			return g - 1, false
		}
	}
	b.groups = append(b.groups, group{key: k, hash: hash, sameHash: last})
	b.groupOf[hash] = int32(len(b.groups))
	return int32(len(b.groups) - 1), true
}

func (b *bundle) resource(r *Resource) uint32 {
	i, ok := b.resourceOf[r]
	if !ok {
		i = uint32(len(b.resources))
		b.resources = append(b.resources, r)
		b.resourceOf[r] = i
		b.texts += r.Texts()
	}
	return i
}

func (b *bundle) name(hash uint64, text string) uint32 {
	if text == "" {
		return 0
	}
	i, ok := b.nameOf[hash]
	if !ok || b.names[i].text != text {
		i = uint32(len(b.names))
		b.names = append(b.names, spanName{hash, text})
		b.texts += len(text)
		b.nameOf[hash] = i
	}
	return i
}

func (b *bundle) push(g int32, it item) {
	to, i := &b.groups[g], int32(len(b.items))
	if to.n == 0 {
		to.first = i
	} else {
		b.items[to.last].next = i
	}
	to.last = i
	to.n++
	b.items = append(b.items, it)
}
