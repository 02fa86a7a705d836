// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"time"

	"assay/internal/delta"
)

// tenant is what an Assembler holds for one organization: its open traces, the names
// of their spans, and the sampling that keeps it within its share of the memory.
type tenant struct {
	id       string
	number   uint32
	arrived  list       // by newest arrival
	started  list       // by first arrival
	begun    *openTrace // the last trace that was inserted into started
	names    *names     // for the traces opened from now on
	recorded sampling   // what the journal says
	unjudged *Resource  // of spans that count as parents only

	bytes     int // of the budget, names included
	nameBytes int // of all tables of names in use

	sampling
	calm  time.Time // since when there has been room for one level less; zero: there is none
	floor uint      // of the level, while a journal is read
}

// sampling is which share of the traces of an organization is kept: one in 2^level.
// When the level goes down, at lowered (Unix nanoseconds; 0: never), traces dropped
// until then are still running. For one idle period what arrives of them looks like
// traces without their beginning.
type sampling struct {
	level   uint
	lowered int64
}

// suspects reports whether a trace that begins now may be the rest of one that was
// dropped.
func (s *sampling) suspects(now time.Time, idle time.Duration) bool {
	return s.lowered != 0 && now.UnixNano()-s.lowered < int64(idle)
}

// maxLevel keeps one trace in a million.
const maxLevel = 20

// tenant returns the number of an organization, which gets one when it is new.
// Numbers are never given up: there are as many as organizations that sent spans.
func (a *Assembler) org(id string) uint32 {
	n, ok := a.orgs[id]
	if !ok {
		n = uint32(len(a.tenants))
		o := &tenant{id: id, number: n, sampling: a.initial, names: newNames(), unjudged: &Resource{Unjudged: true}}
		o.arrived.of = func(t *openTrace) *links { return &t.arrived }
		o.started.of = func(t *openTrace) *links { return &t.started }
		a.orgs[id] = n
		a.tenants = append(a.tenants, o)
	}
	return n
}

// charge adds to what an organization takes of the budget.
func (a *Assembler) charge(o *tenant, bytes int) {
	o.bytes += bytes
	a.bytes += bytes
}

// keeps reports whether the sampling in force keeps a trace. Trace ids are meant to
// be random, but their bits are mixed all the same.
func (a *Assembler) keeps(o *tenant, id [16]byte) bool {
	h := delta.Mix(binary.LittleEndian.Uint64(id[:8])+a.cfg.Seed, binary.LittleEndian.Uint64(id[8:]))
	return h>>1&(1<<o.level-1) == 0
}

// shed frees memory until what is left fits into the budget. The organization that
// holds most gives way: one below its share of the budget never does.
func (a *Assembler) shed(now time.Time) {
	for _, o := range a.tenants {
		a.account(o)
	}
	for a.shares.Total() > a.shares.Capacity() {
		a.relieveLargest(now)
	}
	a.free = nil
}

// relieveLargest frees memory of the organization that holds most.
func (a *Assembler) relieveLargest(now time.Time) {
	if id, held := a.shares.Largest(); held > 0 {
		o := a.tenants[a.orgs[id]]
		a.relieve(o, now)
		a.account(o)
	}
}

// account brings the account of an organization up to date. That is only needed when
// memory is short.
func (a *Assembler) account(o *tenant) {
	a.shares.Add(o.id, int64(o.bytes)-a.shares.Held(o.id))
}

// relieve frees memory of an organization. Names go first where they are most of it:
// evidence lacks them then. Otherwise half of the traces go. Traces that are too large
// at the highest level are dropped, too; what still arrives of them looks like traces
// without their beginning.
func (a *Assembler) relieve(o *tenant, now time.Time) {
	o.calm = time.Time{}
	switch {
	case o.nameBytes > o.bytes/2:
		a.forgetNames(o)
	case o.level < maxLevel:
		a.raise(o)
	default:
		for t := o.started.front; t != nil; t = o.started.front {
			a.drop(t)
		}
		o.lowered = now.UnixNano()
	}
}

// raise raises the sampling of an organization by one level.
func (a *Assembler) raise(o *tenant) {
	o.level++
	for t := o.started.front; t != nil; {
		next := t.started.next
		if !a.keeps(o, t.key.id) {
			a.drop(t)
		}
		t = next
	}
}

func (a *Assembler) drop(t *openTrace) {
	a.dropped += uint64(len(t.records))
	a.remove(t)
}

// calmIdles is for how many idle periods there has to be room for twice as many traces
// before the sampling is lowered.
const calmIdles = 2

// relax lowers the sampling of organizations by one level when there has been room for
// that for a while, in the budget or in their share of it.
func (a *Assembler) relax(now time.Time) {
	holders := 0
	for _, o := range a.tenants {
		if o.bytes > 0 {
			holders++
		}
	}
	for _, o := range a.tenants {
		switch {
		case o.level == 0 || a.bytes+o.bytes > a.cfg.Memory/2 && 2*o.bytes > a.cfg.Memory/max(2, holders)/2:
			o.calm = time.Time{}
		case o.calm.IsZero():
			o.calm = now
		case now.Sub(o.calm) >= calmIdles*a.cfg.Idle:
			o.level--
			o.lowered, o.calm = now.UnixNano(), now
		}
	}
}

// sampled reports whether traces of any organization are sampled.
func (a *Assembler) sampled() bool {
	for _, o := range a.tenants {
		if o.level > 0 {
			return true
		}
	}
	return false
}

// doubt notes that traces of an organization opened since some time (Unix nanoseconds)
// and for one idle period from now may lack their beginning.
func (a *Assembler) doubt(o *tenant, now time.Time, since int64) {
	o.lowered = now.UnixNano()
	for t := o.started.back; t != nil && t.first.UnixNano() >= since; t = t.started.prev {
		t.partial = true
	}
}

// intern returns the number of a name in a table of an organization.
func (a *Assembler) intern(o *tenant, n *names, name spanName) uint32 {
	before := n.bytes
	i := n.intern(name.hash, name.text)
	o.nameBytes += n.bytes - before
	a.charge(o, n.bytes-before)
	if n == o.names && n.full() {
		o.names = newNames()
	}
	return i
}

// forgetNames forgets the names of an organization's spans. Traces that are open keep
// their tables, which get no names any more.
func (a *Assembler) forgetNames(o *tenant) {
	for t := o.started.front; t != nil; t = t.started.next {
		if n := t.names; n.bytes > 0 {
			o.nameBytes -= n.bytes
			a.charge(o, -n.bytes)
			n.forget()
		}
	}
	o.names = newNames()
}
