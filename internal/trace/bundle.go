// SPDX-License-Identifier: Apache-2.0

package trace

import "encoding/binary"

// bundle is spans grouped by their traces: those of one transaction, or of one entry
// of a journal. Each trace is looked up among the open ones once, and each name in
// their tables.
type bundle struct {
	resources []*Resource
	names     []spanName // the first one is no name
	groups    []group
	items     []item
	states    []state // of a journal's entry
	texts     int     // bytes of the texts of resources

	groupOf    map[key]int32
	resourceOf map[*Resource]uint32
	nameOf     map[uint64]uint32
}

type spanName struct {
	hash uint64
	text string
}

// group is the spans of one trace.
type group struct {
	key         key
	first, last int32  // of its items
	n           int    // spans
	time        uint64 // newest event time
	left        bool   // out, by the sampling in force; it has no items

	// Of a trace that was open elsewhere, or before.
	moved   bool
	goesOn  bool  // from another entry
	opened  int64 // Unix nanoseconds
	level   uint
	partial bool

	trace *openTrace // which the spans went to
}

// item is one span: a record whose name and resource are those of the bundle.
type item struct {
	id, parent uint64
	name       uint32
	resource   uint32
	next       int32 // item of the group; 0: none, which the first one of all never is
	flags      uint16
}

// keptMaps is the size up to which the maps of a bundle are used again.
const keptMaps = 1 << 16

func (b *bundle) reset() {
	if len(b.groupOf) > keptMaps || b.groupOf == nil {
		b.groupOf = make(map[key]int32)
	}
	if len(b.resourceOf) > keptMaps || b.resourceOf == nil {
		b.resourceOf = make(map[*Resource]uint32)
	}
	if len(b.nameOf) > keptMaps || b.nameOf == nil {
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

// add adds spans of one organization, as far as the sampling in force keeps them.
func (b *bundle) add(a *Assembler, org uint32, spans []Span) {
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
		if g < 0 || b.groups[g].key.id != s.TraceID {
			var isNew bool
			if g, isNew = b.group(key{org: org, id: s.TraceID}); isNew {
				b.groups[g].left = !a.keeps(a.tenants[org], s.TraceID)
			}
		}
		to := &b.groups[g]
		if to.left {
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
}

// addTrace adds an open trace with all its spans.
func (b *bundle) addTrace(to *Assembler, t *openTrace) {
	g, _ := b.group(key{org: to.org(t.of.id), id: t.key.id})
	into := &b.groups[g]
	into.moved, into.opened, into.level, into.partial, into.time = true, t.first.UnixNano(), t.level, t.partial, t.time
	for i := range t.records {
		r := &t.records[i]
		text := t.names.text(r.name)
		b.push(g, item{
			id: r.id, parent: r.parent, flags: r.flags, resource: b.resource(t.resources[r.resource]),
			name: b.name(nameHash(text), text),
		})
	}
}

// group returns the group of a trace, made when it is new.
func (b *bundle) group(k key) (g int32, isNew bool) {
	g, ok := b.groupOf[k]
	if !ok {
		g = int32(len(b.groups))
		b.groups = append(b.groups, group{key: k})
		b.groupOf[k] = g
	}
	return g, !ok
}

func (b *bundle) resource(r *Resource) uint32 {
	i, ok := b.resourceOf[r]
	if !ok {
		i = uint32(len(b.resources))
		b.resources = append(b.resources, r)
		b.resourceOf[r] = i
		b.texts += r.size() - resourceBytes
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
