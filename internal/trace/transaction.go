// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"slices"
	"time"

	"assay/internal/delta"
)

// Transaction collects the changes of one store transaction to the open traces: closed traces and added spans. The
// changes are applied to the Assembler after the commit. With a journal, they are written to it in the same
// transaction, so the journal always shows which traces are open and which of their spans have arrived.
//
// An Assembler has one Transaction, which one goroutine reuses; only that goroutine changes the Assembler. The order
// of calls is Begin, then Close for each Piece. Then, for each attempt of the store transaction: Restart, Add, Adopt
// and Journals. Then Commit, or Begin if the store transaction failed.
type Transaction struct {
	a       *Assembler
	now     time.Time
	closing []*openTrace

	spans        []*bundle // added spans; the first used bundles are in use
	used         int
	swept        []sweptTo // sweeps that move traces to other journal entries
	moved        bundle    // their spans
	adopted      *Recovery // source of adopted traces; nil: none
	adoptedSpans bundle    // spans of adopted traces
	unsampled    uint64    // spans of traces that are not adopted, because they are not in the sample

	// Entries to write, in this order: notes, moved traces, adopted traces, added spans. The counts are where each
	// kind ends.
	encoder                 encoder
	notes, moves, adoptions int
	ends                    []int // ends of the entries of each bundle of spans
	written                 []samplingRecord
	journaled               bool
	forget                  []uint64 // entries to delete
	left                    []forgotten
	appended                []delta.JournalEntry
	foreign                 encoder // encodes entries of the journal adopted from
	journals                []delta.Journal
	clean                   bool // the store no longer uses the encoded entries
}

// samplingRecord is the sampling of an organization as written to the journal.
type samplingRecord struct {
	of *tenant
	sampling
}

// sweptTo is the first trace of an organization that its sweep has not visited.
type sweptTo struct {
	of *tenant
	to *openTrace
}

// bundledTexts is the size of resource texts above which added spans start another bundle. The entries of a bundle
// may repeat these texts.
const bundledTexts = 1 << 20

// Transaction returns the transaction of the Assembler. Call it only once.
func (a *Assembler) Transaction() *Transaction {
	a.journal.next = max(a.journal.next, 1)
	return &Transaction{a: a, clean: true, spans: []*bundle{new(bundle)}}
}

// Pending reports whether a transaction without closed traces would change anything: the sampling may change or is
// not in the journal yet, or entries are to be moved or forgotten.
func (a *Assembler) Pending() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sampled() || len(a.unrecorded()) > 0 || a.journal.forgets() ||
		slices.ContainsFunc(a.tenants, func(o *tenant) bool { return o.ledger.sweeping })
}

// Shedding reports whether transactions still have to drop traces that are no longer in the sample.
func (a *Assembler) Shedding() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sweeps > 0
}

// unrecorded returns the organizations whose sampling differs from the journal.
func (a *Assembler) unrecorded() (tenants []*tenant) {
	for _, o := range a.tenants {
		if o.sampling != o.recorded {
			tenants = append(tenants, o)
		}
	}
	return tenants
}

// Begin begins a transaction at now. It discards uncommitted changes of the previous one.
func (x *Transaction) Begin(now time.Time) {
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	for _, t := range x.closing {
		t.closing = false
	}
	clear(x.closing)
	x.now, x.closing = now, x.closing[:0]
	x.restart()
}

// Close closes the traces of a Piece and returns their verdicts, which the caller must not modify. Traces that have
// changed since their evaluation stay open.
func (x *Transaction) Close(p *Piece) *delta.Delta {
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	d := new(delta.Delta)
	known := make(map[uint64]*delta.Service, p.rows)
	for i := range p.traces {
		e := &p.traces[i]
		if !e.current() || e.trace.closing || x.a.unsampled(e.trace) {
			continue
		}
		p.merge(d, known, e)
		e.trace.closing = true
		x.closing = append(x.closing, e.trace)
	}
	return d
}

// Restart discards the effects of Add, Adopt and Journals.
func (x *Transaction) Restart() {
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	x.restart()
}

func (x *Transaction) restart() {
	for _, b := range x.spans {
		b.reset()
	}
	if len(x.spans) > maxBundles {
		x.spans = slices.Delete(x.spans, 1, len(x.spans))
	}
	x.used, x.ends = 0, x.ends[:0]
	clear(x.written)
	x.written = x.written[:0]
	x.moved.reset()
	x.adoptedSpans.reset()
	x.unsampled = 0
	x.adopted, x.journaled = nil, false
	clear(x.swept)
	x.swept, x.forget, x.left = x.swept[:0], x.forget[:0], x.left[:0]
	x.notes, x.moves, x.adoptions = 0, 0, 0
	x.encoder.reset(x.clean)
	x.foreign.reset(x.clean)
	x.clean = true
	clear(x.appended)
	clear(x.journals)
	x.appended, x.journals = x.appended[:0], x.journals[:0]
}

// Add adds spans of one organization with the arrival time of the transaction. Spans without a trace id are ignored.
// Add does not retain spans.
func (x *Transaction) Add(organizationID string, spans []Span) {
	if len(spans) == 0 {
		return
	}
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	if x.used == 0 {
		x.used = 1
	}
	org := x.a.org(organizationID)
	for spans = x.spans[x.used-1].add(x.a, org, spans, bundledTexts); len(spans) > 0; x.used++ {
		if x.used == len(x.spans) {
			x.spans = append(x.spans, new(bundle))
			x.spans[x.used].reset()
		}
		spans = x.spans[x.used].add(x.a, org, spans, bundledTexts)
	}
}

// maxBundles is the number of bundles retained for later transactions.
const maxBundles = 8

// adoptedBytes is the approximate size of the traces adopted in one transaction, including texts of resources. At
// least one trace is adopted.
const adoptedBytes = 4 << 20

// adoptedOrg is the size charged for each organization, which has entries of its own in both journals.
const adoptedOrg = 4 << 10

// Adopt moves some traces from the journal of another process, which r has read completely. The first time, it only marks the
// journal as taken (see Recovery.Claimed). When no trace is left, it deletes entries of the journal and completes it. A transaction can adopt from one Recovery.
func (x *Transaction) Adopt(r *Recovery) {
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	x.adopted = r
	r.chunk = r.chunk[:0]
	if !r.Claimed() {
		return
	}
	bytes := 0
	for t := r.a.following(nil); t != nil && bytes+x.adoptedSpans.texts < adoptedBytes; t = r.a.following(t) {
		if n := len(r.chunk); n == 0 || r.chunk[n-1].of != t.of {
			bytes += adoptedOrg
		}
		r.chunk = append(r.chunk, t)
		bytes += traceBytes/4 + len(t.records)*recordBytes
		x.adoptTrace(t)
	}
	x.adoptResources()
}

// adoptTrace adds the spans of an adopted trace.
func (x *Transaction) adoptTrace(t *openTrace) {
	if to := x.a.tenants[x.a.org(t.of.id)]; x.a.keeps(to, t.key.id) {
		x.adoptedSpans.addTrace(x.a, t, max(t.level, t.of.level))
	} else {
		x.unsampled += uint64(len(t.records))
	}
}

// adoptResources replaces the resources of the adopted traces by copies. Each Assembler counts the references to its
// own resources.
func (x *Transaction) adoptResources() {
	for i, of := range x.adoptedSpans.resources {
		x.adoptedSpans.resources[i] = &Resource{Service: of.Service, Hash: of.Hash, ParentsOnly: of.ParentsOnly, Attributes: of.Attributes}
	}
}

// Journals returns the changes to the journals in this transaction: to the Assembler's own journal with the given
// name, and to the journal of the process that is adopted from.
func (x *Transaction) Journals(name, holder string) []delta.Journal {
	a := x.a
	a.mu.Lock()
	defer a.mu.Unlock()
	x.journaled = true
	h := a.header(x.now)
	if x.adopted != nil {
		h.partialSince = x.adopted.incomplete(a) // which may add organizations
	}
	changed := a.unrecorded()
	for _, o := range changed {
		if o.rests {
			if h.partialSince == nil {
				h.partialSince = make(map[uint32]int64)
			}
			h.partialSince[o.number] = 1
		}
	}
	for org := range h.partialSince {
		if o := a.tenants[org]; o.sampling == o.recorded {
			changed = append(changed, o)
		}
	}
	if len(x.closing) > 0 || len(changed) > 0 {
		x.encoder.note(a, h, changed, x.closing)
	}
	for _, o := range changed {
		x.written = append(x.written, samplingRecord{o, o.sampling})
	}
	x.notes = len(x.encoder.entries)
	x.sweep()
	for i := range x.moved.groups {
		g := &x.moved.groups[i]
		since, some := h.partialSince[g.key.org]
		g.partial = g.partial || some && g.opened >= since
	}
	if len(x.moved.groups) > 0 {
		replaces := h
		replaces.flags |= flagReplaces
		x.encoder.bundle(a, replaces, &x.moved)
	}
	x.moves = len(x.encoder.entries)
	x.encoder.bundle(a, h, &x.adoptedSpans)
	x.adoptions = len(x.encoder.entries)
	for _, b := range x.spans[:x.used] {
		x.encoder.bundle(a, h, b)
		x.ends = append(x.ends, len(x.encoder.entries))
	}
	x.appended = appendEntries(x.appended, a.journal.next, x.encoder.entries)
	written := 0
	for i := range x.appended {
		written += len(x.appended[i].Data)
	}
	for _, e := range a.journal.forget[:forgettable(a.journal.forget, written, len(x.appended))] {
		if len(x.appended) == 0 && a.journal.last(e) {
			x.left = append(x.left, e)
		} else {
			x.forget = append(x.forget, e.seq)
		}
	}
	if len(x.appended) > 0 || len(x.forget) > 0 {
		x.journals = append(x.journals, delta.Journal{Name: name, Holder: holder, Next: a.journal.next, Append: x.appended, Forget: x.forget})
	}
	if x.adopted != nil {
		x.journals = append(x.journals, x.adopted.journal(&x.foreign, x.now, holder))
	}
	x.clean = false // the store may use the entries until Commit
	return x.journals
}

func appendEntries(to []delta.JournalEntry, next uint64, entries []encoded) []delta.JournalEntry {
	for i := range entries {
		to = append(to, delta.JournalEntry{Seq: next + uint64(i), Data: entries[i].data})
	}
	return to
}

// header returns the header for new entries.
func (a *Assembler) header(now time.Time) header {
	return header{arrival: now.UnixNano(), seed: a.cfg.Seed}
}

// sweptBytes is the approximate size of the traces that one transaction moves in a sweep.
const sweptBytes = 1 << 20

// sweep selects traces to move to other entries, of organizations in turn whose entries are oversized.
func (x *Transaction) sweep() {
	a, bytes, sharing := x.a, 0, 0
	for _, o := range a.tenants {
		if o.ledger.bytes > 0 {
			sharing++
		}
	}
	for i := 0; i < len(a.tenants) && bytes+x.moved.texts < sweptBytes; i++ {
		o := a.tenants[(a.sweeper+i)%len(a.tenants)]
		l := &o.ledger
		if !l.sweeping {
			if !l.oversized(o.spans, o.bytes, max(sharing, 1)) {
				continue
			}
			l.beginSweep(o.started.front)
		}
		t := l.cursor
		for ; t != nil && bytes+x.moved.texts < sweptBytes; t = t.started.next {
			if !t.closing && len(t.entries) > 0 && t.entries[0] <= l.upTo {
				x.moved.addTrace(a, t, t.level)
			}
			bytes += traceBytes/4 + len(t.records)*recordBytes
		}
		x.swept = append(x.swept, sweptTo{o, t})
	}
}

// Journaled reports whether Journals has appended entries to the Assembler's own journal.
func (x *Transaction) Journaled() bool { return len(x.appended) > 0 }

// Adopts reports whether the transaction adopts traces or completes a journal.
func (x *Transaction) Adopts() bool { return x.adopted != nil }

// Commit applies the committed changes to the Assembler.
func (x *Transaction) Commit() {
	a := x.a
	a.mu.Lock()
	defer a.mu.Unlock()
	x.clean, a.opened = true, 0
	done := len(x.forget) + len(x.left)
	a.journal.forget = append(a.journal.forget[:copy(a.journal.forget, a.journal.forget[done:])], x.left...)
	if x.journaled {
		for _, o := range x.written {
			o.of.recorded, o.of.rests = o.sampling, false
		}
	} else { // no journal
		for _, o := range a.tenants {
			o.recorded, o.rests = o.sampling, false
		}
	}
	for _, s := range x.swept {
		s.of.ledger.cursor = s.to
		a.sweeper = int(s.of.number) + 1
	}
	for _, t := range x.closing {
		a.remove(t)
	}
	clear(x.closing)
	x.closing = x.closing[:0]
	for i := range x.encoder.entries[:x.notes] {
		a.record(&x.encoder.entries[i], nil)
	}
	x.commitMoved()
	if x.adopted != nil {
		for org, since := range x.adopted.incomplete(a) {
			o := a.tenants[org]
			a.markPartial(o, x.now, since)
			o.recorded.lowered = o.lowered
		}
		a.apply(x.now, &x.adoptedSpans)
		a.dropped += x.unsampled
	}
	for i := range x.encoder.entries[x.moves:x.adoptions] {
		a.record(&x.encoder.entries[x.moves+i], x.adoptedSpans.groups)
	}
	entry := x.adoptions
	for i, b := range x.spans[:x.used] {
		a.apply(x.now, b)
		for ; x.journaled && entry < x.ends[i]; entry++ {
			a.record(&x.encoder.entries[entry], b.groups)
		}
	}
	if x.adopted != nil {
		a.dropped += x.adopted.commit(x.foreign.entries)
	}
	if a.full() || a.sweeps > 0 {
		a.shedSome(x.now)
	}
	if a.journal.bytes > journalPerByte*a.cfg.Memory {
		if o := a.heaviest(func(o *tenant) int { return o.ledger.bytes }); !o.sweeping {
			a.discard(o, x.now)
		}
	}
	a.relax(x.now)
	for _, o := range a.tenants {
		a.trim(o, x.now)
	}
	x.restart()
}

// commitMoved points the moved traces to their new entries.
func (x *Transaction) commitMoved() {
	a := x.a
	for i := range x.moved.groups {
		g := &x.moved.groups[i]
		g.trace = a.traces.get(g.key, g.hash)
		a.unref(g.trace)
	}
	for i := range x.encoder.entries[x.notes:x.moves] {
		e := &x.encoder.entries[x.notes+i]
		a.record(e, x.moved.groups)
		a.tenants[e.org].ledger.moved += len(e.data)
	}
	for _, s := range x.swept {
		s.of.ledger.endSweep(s.of.spans)
	}
}

// trim removes unneeded entries of an organization.
func (a *Assembler) trim(o *tenant, now time.Time) {
	a.journal.trim(o, o.level > 0 || o.mayBePartial(now, a.cfg.Idle))
}

// record records a committed entry and which traces have spans in it.
func (a *Assembler) record(x *encoded, groups []group) {
	o := a.tenants[x.org]
	at := a.journal.add(o, len(x.data), x.spans, x.note)
	if x.note {
		return
	}
	for i := x.from; i < x.to; i++ {
		if t := groups[i].trace; t != nil {
			a.ref(t, at)
		}
	}
	if e := o.ledger.at(at); e.refs == 0 {
		a.journal.drop(o, e)
	}
}

// ref records that a trace has spans in an entry at a position.
func (a *Assembler) ref(t *openTrace, at uint64) {
	if n := len(t.entries); n > 0 && t.entries[n-1] == at {
		return
	}
	before := cap(t.entries)
	t.entries = append(t.entries, at)
	a.charge(t.of, (cap(t.entries)-before)*entryBytes)
	t.of.ledger.at(at).refs++
}

// unref releases the entries of a trace.
func (a *Assembler) unref(t *openTrace) {
	for _, at := range t.entries {
		a.journal.release(t.of, at)
	}
	t.entries = t.entries[:0]
}

// Next returns the number of the next journal entry.
func (a *Assembler) Next() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.journal.next
}

// Replay applies the next entry of the Assembler's own journal, which was committed although the transaction seemed
// to have failed. taken reports that another process wrote the entry and has begun to move the traces.
func (a *Assembler) Replay(now time.Time, e delta.JournalEntry) (taken bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, rest, err := decodeHeader(e.Data)
	if err != nil {
		return false, err
	}
	if h.flags&flagTaken != 0 || e.Seq != a.journal.next {
		return true, nil
	}
	note, err := a.replay(h, rest, false)
	if err != nil {
		return false, err
	}
	b := &a.scratch
	if h.flags&flagReplaces == 0 {
		a.apply(time.Unix(0, h.arrival), b)
	} else { // the entry matches the current state
		for i := range b.groups {
			g := &b.groups[i]
			if g.trace = a.traces.get(g.key, g.hash); g.trace != nil {
				if !g.continued {
					a.unref(g.trace)
				}
			}
		}
	}
	entry := encoded{data: e.Data, note: note, to: len(b.groups), spans: len(b.items)}
	switch {
	case !note:
		entry.org = b.groups[0].key.org
	case len(b.states) > 0:
		entry.org = b.states[0].org
	default:
		return false, errEntry
	}
	a.record(&entry, b.groups)
	for i := range b.states {
		a.tenants[b.states[i].org].rests = false
	}
	if a.full() {
		a.shed(now, math.MaxInt)
	}
	a.trim(a.tenants[entry.org], now)
	return false, nil
}

// replay applies an entry except for its spans, which it leaves in the scratch bundle. If lower is set, the sampling
// level may decrease to the organization's floor. replay reports whether the entry is a note.
func (a *Assembler) replay(h header, rest []byte, lower bool) (note bool, err error) {
	b := &a.scratch
	closed, err := b.decode(a, h, rest)
	if err != nil {
		return false, err
	}
	steps := math.MaxInt
	for _, s := range b.states {
		o := a.tenants[s.org]
		for s.level > o.level {
			a.raise(o)
		}
		a.sweep(o, &steps)
		if s.level >= o.floor {
			o.floor = 0 // the writer has dropped entries that the reader has
		}
		if lower {
			o.level = max(s.level, o.floor)
		}
		if s.lowered != 0 {
			o.lowered = s.lowered
		}
		o.recorded = sampling{s.level, s.lowered}
	}
	for _, k := range closed {
		if t := a.traces.get(k, k.hash()); t != nil {
			a.remove(t)
		}
	}
	for _, s := range b.states {
		if s.since != 0 {
			a.markPartial(a.tenants[s.org], time.Unix(0, s.lowered), s.since)
		}
	}
	for i := range b.groups {
		g := &b.groups[i]
		g.sampledOut = !a.keeps(a.tenants[g.key.org], g.key.id)
	}
	return len(b.groups) == 0, nil
}

// Abandon drops all traces and the journal, because another process has taken them over. Spans that still arrive for
// them look like traces without their beginning.
func (a *Assembler) Abandon(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.initial.lowered = now.UnixNano()
	for _, o := range a.tenants {
		for o.started.front != nil {
			a.remove(o.started.front)
		}
		o.lowered, o.ledger = now.UnixNano(), ledger{}
	}
	a.journal = journal{next: 1}
}
