// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"slices"
	"time"

	"assay/internal/delta"
)

// Transaction is what one transaction of the store does to the open traces: some
// close, spans are added. It is made known to the Assembler when the transaction has
// committed, and with a journal written to that in the transaction, so that the
// journal always says which traces are open and what of them arrived.
//
// There is one for an Assembler, used again and again by one goroutine, which is the
// only one that changes the Assembler: Begin, Close for each Piece; then, as often as
// the transaction is repeated, Restart, Add, Adopt and Journals; then Commit, or Begin
// again when the transaction failed.
type Transaction struct {
	a       *Assembler
	now     time.Time
	closing []*openTrace

	spans   []*bundle // that arrived; the first used of them have some
	used    int
	moving  []*openTrace // to other entries of the journal
	sweepTo *openTrace   // the first one that was not looked at
	moved   bundle       // their spans
	adopted *Recovery    // nil: none
	inherit bundle       // spans of traces that move from it

	// What is written: notes, entries of moved traces, of inherited ones and of spans,
	// and where the kinds end.
	encoder             encoder
	notes, moves, gifts int
	ends                []int // of the entries of each bundle of spans
	told                []told
	journaled           bool
	forgotten           int // numbers of the ledger that are forgotten
	appended            []delta.JournalEntry
	foreign             encoder // of the journal adopted from
	journals            []delta.Journal
	clean               bool // the store does not use what was written
}

// told is the sampling of an organization as a transaction tells the journal.
type told struct {
	of *tenant
	sampling
}

// bundledTexts is past how many bytes of texts of resources spans that arrive begin
// another bundle. The entries of a bundle may repeat them.
const bundledTexts = 1 << 20

// Transaction returns the transaction of the assembler, which must have one only.
func (a *Assembler) Transaction() *Transaction {
	a.ledger.next = max(a.ledger.next, 1)
	return &Transaction{a: a, clean: true, spans: []*bundle{new(bundle)}}
}

// Pending reports whether a transaction would change anything though no traces close:
// the sampling may change, or has and is not in the journal; entries are to be moved or
// forgotten.
func (a *Assembler) Pending() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sampled() || len(a.unrecorded()) > 0 || a.ledger.sweeping || len(a.ledger.forget) > 0
}

// unrecorded returns the organizations whose sampling is not what the journal says.
func (a *Assembler) unrecorded() (tenants []*tenant) {
	for _, o := range a.tenants {
		if o.sampling != o.recorded {
			tenants = append(tenants, o)
		}
	}
	return tenants
}

// Begin begins another transaction at now. What the one before has not committed is
// forgotten.
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

// Close closes the traces of a Piece and returns the verdicts on them, which must not be
// changed. Traces that changed after their evaluation, or are gone, stay as they are.
func (x *Transaction) Close(p *Piece) *delta.Delta {
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	d := new(delta.Delta)
	known := make(map[uint64]*delta.Service, p.rows)
	for i := range p.traces {
		e := &p.traces[i]
		if !e.current() || e.trace.closing {
			continue
		}
		p.merge(d, known, e)
		e.trace.closing = true
		x.closing = append(x.closing, e.trace)
	}
	return d
}

// Restart forgets what Add, Adopt and Journals did.
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
	clear(x.told)
	x.told = x.told[:0]
	x.moved.reset()
	x.inherit.reset()
	clear(x.moving)
	x.moving, x.sweepTo, x.adopted, x.journaled = x.moving[:0], nil, nil, false
	x.notes, x.moves, x.gifts, x.forgotten = 0, 0, 0, 0
	x.encoder.reset(x.clean)
	x.foreign.reset(x.clean)
	x.clean = true
	clear(x.appended)
	clear(x.journals)
	x.appended, x.journals = x.appended[:0], x.journals[:0]
}

// Add adds spans of one organization that arrived now. Spans without a trace id
// belong to no trace and are left out. The spans are not used any more when Add
// returns.
func (x *Transaction) Add(organizationID string, spans []Span) {
	if len(spans) == 0 {
		return
	}
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	b := x.spans[max(x.used-1, 0)]
	if x.used == 0 || b.texts >= bundledTexts {
		if x.used == len(x.spans) {
			x.spans = append(x.spans, new(bundle))
			x.spans[x.used].reset()
		}
		b = x.spans[x.used]
		x.used++
	}
	b.add(x.a, x.a.org(organizationID), spans)
}

// maxBundles is how many bundles are kept for later transactions.
const maxBundles = 8

// adoptedBytes is about how much of a journal moves in one transaction, texts of resources
// included. At least one trace does.
const adoptedBytes = 4 << 20

// Adopt moves some traces from the journal of another process, of which r is all
// there is, or the journal's end when none is left. One Recovery can be adopted from
// in a transaction.
func (x *Transaction) Adopt(r *Recovery) {
	x.a.mu.Lock()
	defer x.a.mu.Unlock()
	x.adopted = r
	r.chunk = r.chunk[:0]
	bytes := 0
	for t := r.a.following(nil); t != nil && bytes+x.inherit.texts < adoptedBytes; t = r.a.following(t) {
		r.chunk = append(r.chunk, t)
		bytes += traceBytes/4 + len(t.records)*recordBytes
		x.inheritTrace(t)
	}
	x.inheritResources()
}

// inheritTrace takes the spans of a trace that moves.
func (x *Transaction) inheritTrace(t *openTrace) {
	if to := x.a.tenants[x.a.org(t.of.id)]; x.a.keeps(to, t.key.id) {
		x.inherit.addTrace(x.a, t)
	}
}

// inheritResources has the traces that move refer to copies of their resources.
func (x *Transaction) inheritResources() {
	for i, of := range x.inherit.resources {
		x.inherit.resources[i] = x.adopted.heir(of)
	}
}

// Journals returns what to write to the journals in the transaction: to the journal
// of the Assembler, whose name is given, and of the process that is adopted from.
func (x *Transaction) Journals(name, holder string) []delta.Journal {
	a := x.a
	a.mu.Lock()
	defer a.mu.Unlock()
	x.journaled = true
	h := a.header(x.now)
	changed := a.unrecorded()
	if x.adopted != nil {
		h.doubts = x.adopted.incomplete(a)
	}
	for org := range h.doubts {
		if o := a.tenants[org]; !slices.Contains(changed, o) {
			changed = append(changed, o)
		}
	}
	if len(x.closing) > 0 || len(changed) > 0 {
		x.encoder.note(a, h, changed, x.closing)
	}
	for _, o := range changed {
		x.told = append(x.told, told{o, o.sampling})
	}
	h.doubts = nil
	x.notes = len(x.encoder.entries)
	x.sweep()
	if len(x.moved.groups) > 0 {
		replaces := h
		replaces.flags |= flagReplaces
		x.encoder.bundle(a, replaces, &x.moved)
	}
	x.moves = len(x.encoder.entries)
	x.encoder.bundle(a, h, &x.inherit)
	x.gifts = len(x.encoder.entries)
	for _, b := range x.spans[:x.used] {
		x.encoder.bundle(a, h, b)
		x.ends = append(x.ends, len(x.encoder.entries))
	}
	x.appended = appendEntries(x.appended, a.ledger.next, x.encoder.entries)
	x.forgotten = len(a.ledger.forget)
	if len(x.appended) > 0 || x.forgotten > 0 {
		x.journals = append(x.journals, delta.Journal{Name: name, Holder: holder, Append: x.appended, Forget: a.ledger.forget[:x.forgotten]})
	}
	if x.adopted != nil {
		x.journals = append(x.journals, x.adopted.journal(&x.foreign, x.now, holder))
	}
	x.clean = false // until Commit the store may use what it was given
	return x.journals
}

func appendEntries(to []delta.JournalEntry, next uint64, entries []encoded) []delta.JournalEntry {
	for i := range entries {
		to = append(to, delta.JournalEntry{Seq: next + uint64(i), Data: entries[i].data})
	}
	return to
}

// header returns the header of entries.
func (a *Assembler) header(now time.Time) header {
	return header{arrival: now.UnixNano(), seed: a.cfg.Seed}
}

// sweptBytes is about how much of a crowded journal moves in one transaction.
const sweptBytes = 1 << 20

// sweep chooses traces to move to another entry when the journal is crowded.
func (x *Transaction) sweep() {
	a, l := x.a, &x.a.ledger
	if !l.sweeping {
		if !l.crowded(a.spans, a.bytes) {
			return
		}
		l.sweeping, l.upTo, l.cursor = true, l.next-1, a.following(nil)
	}
	bytes, t := 0, l.cursor
	for ; t != nil && bytes+x.moved.texts < sweptBytes; t = a.following(t) {
		if !t.closing && len(t.entries) > 0 && t.entries[0] <= l.upTo {
			x.moving = append(x.moving, t)
			x.moved.addTrace(a, t)
		}
		bytes += traceBytes/4 + len(t.records)*recordBytes
	}
	x.sweepTo = t
}

// Journaled tells whether Journals appended anything to the Assembler's own journal.
func (x *Transaction) Journaled() bool { return len(x.appended) > 0 }

// Adopts tells whether traces, or the end of a journal, are adopted.
func (x *Transaction) Adopts() bool { return x.adopted != nil }

// Commit makes the Assembler know what has been committed.
func (x *Transaction) Commit() {
	a := x.a
	a.mu.Lock()
	defer a.mu.Unlock()
	x.clean = true
	l := &a.ledger
	l.forget = append(l.forget[:0], l.forget[x.forgotten:]...)
	if x.journaled {
		for _, o := range x.told {
			o.of.recorded = o.sampling
		}
	} else { // there is none
		for _, o := range a.tenants {
			o.recorded = o.sampling
		}
	}
	if x.journaled && l.sweeping {
		l.cursor = x.sweepTo
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
			a.doubt(o, x.now, since)
			o.recorded.lowered = o.lowered
		}
		a.apply(x.now, &x.inherit)
	}
	for i := range x.encoder.entries[x.moves:x.gifts] {
		a.record(&x.encoder.entries[x.moves+i], x.inherit.groups)
	}
	entry := x.gifts
	for i, b := range x.spans[:x.used] {
		a.apply(x.now, b)
		for ; x.journaled && entry < x.ends[i]; entry++ {
			a.record(&x.encoder.entries[entry], b.groups)
		}
	}
	if x.adopted != nil {
		x.adopted.commit(len(x.foreign.entries))
	}
	if a.bytes > a.cfg.Memory {
		a.shed(x.now)
	} else if l.swept > 2*a.cfg.Memory { // names and resources are many and large
		a.shed(x.now) // brings the accounts up to date
		a.relieveLargest(x.now)
		l.swept = 0
	}
	a.relax(x.now)
	l.trim()
	x.restart()
}

// commitMoved refers the moved traces to their new entries.
func (x *Transaction) commitMoved() {
	a, l := x.a, &x.a.ledger
	for i, t := range x.moving {
		x.moved.groups[i].trace = t
		a.unrefer(t)
	}
	for i := range x.encoder.entries[x.notes:x.moves] {
		a.record(&x.encoder.entries[x.notes+i], x.moved.groups)
	}
	if x.journaled && l.sweeping && l.cursor == nil {
		l.sweeping, l.swept = false, l.bytes
	}
}

// record notes a committed entry and which traces have spans in it.
func (a *Assembler) record(x *encoded, groups []group) {
	l := &a.ledger
	seq := l.next
	l.add(len(x.data), x.spans, x.note)
	if x.note {
		return
	}
	for i := x.from; i < x.to; i++ {
		if t := groups[i].trace; t != nil {
			a.refer(t, seq)
		}
	}
	if l.at(seq).refs == 0 {
		l.drop(seq)
	}
}

// refer notes that a trace has spans in an entry.
func (a *Assembler) refer(t *openTrace, seq uint64) {
	if n := len(t.entries); n > 0 && t.entries[n-1] == seq {
		return
	}
	before := cap(t.entries)
	t.entries = append(t.entries, seq)
	a.charge(t.of, (cap(t.entries)-before)*entryBytes)
	a.ledger.at(seq).refs++
}

// unrefer notes that a trace has its spans elsewhere.
func (a *Assembler) unrefer(t *openTrace) {
	for _, seq := range t.entries {
		a.ledger.release(seq)
	}
	t.entries = t.entries[:0]
}

// Next returns the number of the next entry of the journal.
func (a *Assembler) Next() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledger.next
}

// Replay does what the next entry of the Assembler's own journal says, which was
// committed though the transaction seemed to fail. taken means that it is of another
// process, which has begun to move the traces away.
func (a *Assembler) Replay(now time.Time, e delta.JournalEntry) (taken bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, rest, err := decodeHeader(e.Data)
	if err != nil {
		return false, err
	}
	if h.flags&flagTaken != 0 || e.Seq != a.ledger.next {
		return true, nil
	}
	note, err := a.replay(h, rest, nil, false)
	if err != nil {
		return false, err
	}
	b, l := &a.scratch, &a.ledger
	if h.flags&flagReplaces == 0 {
		a.apply(time.Unix(0, h.arrival), b)
	} else { // it says what is here already
		for i := range b.groups {
			if g := &b.groups[i]; a.traces[g.key] != nil {
				g.trace = a.traces[g.key]
				if !g.goesOn {
					a.unrefer(g.trace)
				}
			}
		}
	}
	a.record(&encoded{data: e.Data, note: note, to: len(b.groups), spans: len(b.items)}, b.groups)
	if a.bytes > a.cfg.Memory {
		a.shed(now)
	}
	l.trim()
	return false, nil
}

// replay does what an entry says but for its spans, which it leaves in the scratch
// bundle. lower says that the sampling may go down, to the floor of an organization. It
// reports whether the entry is a note.
func (a *Assembler) replay(h header, rest []byte, resources known, lower bool) (note bool, err error) {
	b := &a.scratch
	closed, err := b.decode(a, h, rest, resources)
	if err != nil {
		return false, err
	}
	for _, s := range b.states {
		o := a.tenants[s.org]
		for s.level > o.level {
			a.raise(o)
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
		if t := a.traces[k]; t != nil {
			a.remove(t)
		}
	}
	for _, s := range b.states {
		if s.since != 0 {
			a.doubt(a.tenants[s.org], time.Unix(0, s.lowered), s.since)
		}
	}
	for i := range b.groups {
		g := &b.groups[i]
		g.left = !a.keeps(a.tenants[g.key.org], g.key.id)
	}
	return len(b.groups) == 0, nil
}

// Abandon forgets all traces and the journal: another process has them. Spans that
// still arrive of them look like traces that lost their beginning.
func (a *Assembler) Abandon(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.traces {
		a.remove(t)
	}
	a.initial.lowered = now.UnixNano()
	for _, o := range a.tenants {
		o.lowered = now.UnixNano()
	}
	a.ledger = ledger{next: 1}
}
