// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"assay/internal/delta"
)

// tenant is the state of one organization: its open traces, the names of their spans, and the sampling that keeps it
// within its share of the memory.
type tenant struct {
	id          string
	number      uint32
	arrived     list                 // by newest arrival
	started     list                 // by first arrival
	begun       *openTrace           // the last trace that was inserted into started
	names       *names               // table for newly opened traces
	tables      []*names             // tables in use, including names, except empty ones
	recorded    sampling             // sampling in the journal
	parentsOnly *Resource            // resource of spans that count only as parents
	resources   map[uint64]*Resource // held by open traces, by the hash of their content

	bytes     int // charged bytes, including names
	nameBytes int // of all name tables in use
	texts     int // of resources, each counted for each trace
	spans     int // number of spans in memory
	ledger    ledger

	sampling
	sweeping  bool       // some open traces may not be in the sample
	swept     *openTrace // the next of them to check; nil: none
	discarded int64      // while sweeping, no trace that began until then (Unix nanoseconds) is in the sample
	rests     bool       // discarded since the sampling was recorded: the journal may contain discarded spans
	roomSince time.Time  // time since which the level could be lowered; zero: it could not
	floor     uint       // minimum level while a journal is read
}

// sampling is the fraction of an organization's traces that is kept: one in 2^level. lowered is the time of the last
// decrease of the level (Unix nanoseconds; 0: never). Traces dropped before that time may still receive spans. For
// one idle period, such spans look like traces without their beginning.
type sampling struct {
	level   uint
	lowered int64
}

// mayBePartial reports whether a trace that begins now may be the rest of a dropped trace.
func (s *sampling) mayBePartial(now time.Time, idle time.Duration) bool {
	return s.lowered != 0 && now.UnixNano()-s.lowered < int64(idle)
}

// maxLevel keeps one trace in a million.
const maxLevel = 20

// org returns the number of an organization, assigning one if necessary. Numbers are never released: there is one for
// each organization that has sent spans.
func (a *Assembler) org(id string) uint32 {
	n, ok := a.orgs[id]
	if !ok {
		n = uint32(len(a.tenants))
		o := &tenant{id: id, number: n, sampling: a.initial, parentsOnly: &Resource{ParentsOnly: true}, resources: make(map[uint64]*Resource)}
		o.arrived.of = func(t *openTrace) *links { return &t.arrived }
		o.started.of = func(t *openTrace) *links { return &t.started }
		o.addTable()
		a.orgs[id] = n
		a.tenants = append(a.tenants, o)
	}
	return n
}

// charge adds to the budget use of an organization.
func (a *Assembler) charge(o *tenant, bytes int) {
	o.bytes += bytes
	a.bytes += bytes
}

// keeps reports whether the current sampling keeps a trace. The bits of the id are mixed, because ids are not
// guaranteed to be random.
func (a *Assembler) keeps(o *tenant, id [16]byte) bool {
	h := delta.Mix(binary.LittleEndian.Uint64(id[:8])+a.cfg.Seed, binary.LittleEndian.Uint64(id[8:]))
	return h>>1&(1<<o.level-1) == 0
}

// shedTraces is the number of traces that a commit checks when memory is short, in addition to twice the number that it
// opened. Half of the checked traces are dropped, so memory shrinks in each commit.
const shedTraces = 1 << 12

// shedSome frees memory after a commit, in a number of steps that does not depend on the number of open traces. Memory
// may exceed the budget by an eighth until enough commits have done so.
func (a *Assembler) shedSome(now time.Time) {
	steps := shedTraces + 2*a.opened
	if a.bytes > a.cfg.Memory+a.cfg.Memory/8 {
		steps = math.MaxInt
	}
	a.shed(now, steps)
}

// shed frees memory until the rest fits into the budget, checking at most so many traces. Only organizations above
// their share of the budget lose traces.
func (a *Assembler) shed(now time.Time, steps int) {
	for _, o := range a.tenants {
		a.sweep(o, &steps)
		a.account(o)
	}
	for steps > 0 && a.shares.Total() > a.shares.Capacity() {
		a.relieveLargest(now, &steps)
	}
	for steps > 0 && a.texts/textsPerByte > a.cfg.Memory {
		o := a.heaviest(func(o *tenant) int { return o.texts })
		a.thin(o, now, &steps)
		a.account(o)
	}
	a.free = nil
}

// textsPerByte limits the size of the resource texts of all traces, each resource counted for each trace, relative to
// the memory. Traces share the memory of these texts, but journal entries repeat them when the traces move.
const textsPerByte = 8

// full reports whether the traces take more than the memory or the limit of resource texts.
func (a *Assembler) full() bool {
	return a.bytes > a.cfg.Memory || a.texts/textsPerByte > a.cfg.Memory
}

// journalPerByte limits the size of the journal, relative to the memory. A span takes less in the journal than in memory,
// but each request repeats names and resources there, until a sweep moves its traces.
const journalPerByte = 4

// heaviest returns the organization with the largest weight.
func (a *Assembler) heaviest(weight func(*tenant) int) *tenant {
	return slices.MaxFunc(a.tenants, func(x, y *tenant) int { return cmp.Compare(weight(x), weight(y)) })
}

// relieveLargest frees memory of the organization that holds most.
func (a *Assembler) relieveLargest(now time.Time, steps *int) {
	if id, held := a.shares.Largest(); held > 0 {
		o := a.tenants[a.orgs[id]]
		a.relieve(o, now, steps)
		a.account(o)
	}
}

// account updates the account of an organization. This is only needed when memory is short.
func (a *Assembler) account(o *tenant) {
	a.shares.Add(o.id, int64(o.bytes)-a.shares.Held(o.id))
}

// relieve frees memory of an organization. If most of its memory is names, it drops the names, and later evidence
// lacks them. Otherwise it drops half of the traces. At the highest level it also drops traces that are too large;
// spans that still arrive for them look like traces without their beginning.
func (a *Assembler) relieve(o *tenant, now time.Time, steps *int) {
	if o.nameBytes > o.bytes/2 {
		o.roomSince = time.Time{}
		a.forgetNames(o)
		return
	}
	a.thin(o, now, steps)
}

// thin drops half of the traces of an organization, or all of them at the highest level.
func (a *Assembler) thin(o *tenant, now time.Time, steps *int) {
	if o.level < maxLevel {
		a.raise(o)
	} else {
		a.discard(o, now)
	}
	a.sweep(o, steps)
}

// discard drops all open traces of an organization, some in each commit, and half of its later ones. An entry of the
// journal is needed until its last trace is dropped, so sampling alone would not make the journal smaller.
func (a *Assembler) discard(o *tenant, now time.Time) {
	a.raise(o)
	o.discarded, o.lowered, o.rests = now.UnixNano(), now.UnixNano(), true
}

// raise increments the sampling level of an organization, up to maxLevel. sweep drops the traces that are no longer in
// the sample.
func (a *Assembler) raise(o *tenant) {
	o.level, o.roomSince = min(o.level+1, maxLevel), time.Time{}
	if !o.sweeping {
		o.sweeping = true
		a.sweeps++
	}
	o.swept = o.started.front
}

// sweep drops open traces of an organization that are not in the sample, checking at most so many traces. Newer traces
// are in the sample.
func (a *Assembler) sweep(o *tenant, steps *int) {
	if !o.sweeping {
		return
	}
	for ; o.swept != nil && *steps > 0; *steps-- {
		t := o.swept
		o.swept = t.started.next
		if a.unsampled(t) {
			a.drop(t)
		}
	}
	if o.swept == nil {
		o.sweeping, o.discarded = false, 0
		a.sweeps--
	}
}

// unsampled reports whether a trace is to be dropped because it is not in the sample of its organization.
func (a *Assembler) unsampled(t *openTrace) bool {
	return t.of.sweeping && (t.first <= t.of.discarded || !a.keeps(t.of, t.key.id))
}

func (a *Assembler) drop(t *openTrace) {
	a.dropped += uint64(len(t.records))
	a.remove(t)
}

// relaxIdles is the number of idle periods with room for twice as many traces before the sampling level is lowered.
const relaxIdles = 2

// relax decrements the sampling level of organizations that have had room for that for a while, in the budget or in
// their share of it.
func (a *Assembler) relax(now time.Time) {
	holders := 0
	for _, o := range a.tenants {
		if o.bytes > 0 {
			holders++
		}
	}
	for _, o := range a.tenants {
		switch {
		case o.level == 0 || o.sweeping || !a.roomFor(o, holders):
			o.roomSince = time.Time{}
		case o.roomSince.IsZero():
			o.roomSince = now
		case now.Sub(o.roomSince) >= relaxIdles*a.cfg.Idle:
			o.level--
			o.lowered, o.roomSince = now.UnixNano(), now
		}
	}
}

// roomFor reports whether there is room for twice as many traces of an organization, with a margin.
func (a *Assembler) roomFor(o *tenant, holders int) bool {
	fits := func(all, own, limit int) bool { return all+own <= limit/2 || 2*own <= limit/max(2, holders)/2 }
	return fits(a.bytes, o.bytes, a.cfg.Memory) && fits(a.texts, o.texts, textsPerByte*a.cfg.Memory) &&
		fits(a.journal.bytes, o.ledger.bytes, journalPerByte*a.cfg.Memory)
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

// markPartial records that traces of an organization opened since a time (Unix nanoseconds), and for one idle period from
// now, may lack their beginning.
func (a *Assembler) markPartial(o *tenant, now time.Time, since int64) {
	o.lowered = now.UnixNano()
	for t := o.started.back; t != nil && t.first >= since; t = t.started.prev {
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
		o.addTable()
	}
	return i
}

// addTable replaces the table for newly opened traces.
func (o *tenant) addTable() {
	o.names = newNames()
	o.tables = append(o.tables, o.names)
}

// dropTable drops a table that no open trace uses.
func (o *tenant) dropTable(n *names) {
	o.tables = slices.DeleteFunc(o.tables, func(x *names) bool { return x == n })
	if n == o.names {
		o.addTable()
	}
}

// forgetNames drops the span names of an organization. Open traces keep their tables, which accept no new names.
func (a *Assembler) forgetNames(o *tenant) {
	for _, n := range o.tables {
		o.nameBytes -= n.bytes
		a.charge(o, -n.bytes)
		n.forget()
	}
	o.tables = o.tables[:0] // the forgotten ones are empty
	o.addTable()
}
