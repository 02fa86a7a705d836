// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// TestFencedByLastEntry: a process whose last entries were deleted, because they are of another organization than the needed
// ones, finds out that its journal was taken over.
func TestFencedByLastEntry(t *testing.T) {
	d, r := new(disk), resource("a")
	old := start(t, d, "old", Config{})
	old.add(t0, span(1, 1, 0, r))
	for i := range 3 {
		old.transact(t0, succeeds, func(x *Transaction) { x.Add("other", []Span{span(100+i, 1, 0, r)}) })
	}
	at := t0.Add(30 * time.Second)
	old.add(at, span(1, 2, 1, r))
	old.sweep(at, succeeds)
	old.expire(at.Add(time.Second)) // closes the traces of the other organization
	for range 10 {
		old.transact(at, succeeds, func(*Transaction) {})
	}
	require.False(t, old.a.Pending())
	next := start(t, d, "new", Config{})
	next.adopt(at, "old")

	later := at.Add(time.Minute)
	old.x.Begin(later)
	verdicts, _ := closing(old.x, Due{Now: later})
	require.ErrorIs(t, d.commit(verdicts, old.x.Journals("old", "holder")), delta.ErrJournalConflict)
	next.transact(later, succeeds, next.closeAll)
	require.Equal(t, delta.Count{Observed: 1}, counts(&d.verdicts, "a", catalog.SPA001))
}

// claim reads a journal and marks it, as engine does before it adopts.
func (p *process) claim(now time.Time, name string) *Recovery {
	p.tb.Helper()
	r := p.recover(name)
	p.transact(now, succeeds, func(x *Transaction) { x.Adopt(r) })
	mark := r.Last()
	r = p.recover(name)
	require.True(p.tb, r.Continue(mark))
	return r
}

// TestClaim: a process that is suspended between reading a journal and marking it does not adopt what others have done with
// it meanwhile.
func TestClaim(t *testing.T) {
	late := t0.Add(time.Minute)
	for name, meanwhile := range map[string]func(p, other *process){
		"another process adopts it": func(_, other *process) { other.adopt(t0, "old") },
		"another process adopts the rest": func(p, other *process) {
			r := other.recover("old")
			for range 2 {
				other.transact(t0, succeeds, func(x *Transaction) { x.Adopt(r) })
			}
		},
		"the owner continues": func(p, _ *process) { p.add(t0, span(9, 1, 0, resource("a"))) },
		"the owner closes all": func(p, _ *process) {
			p.transact(late, succeeds, p.closeAll)
			for p.a.Pending() {
				p.transact(late, succeeds, func(*Transaction) {})
			}
		},
		"the owner closes one": func(p, _ *process) {
			p.add(t0.Add(40*time.Second), span(1, 2, 1, resource("a")))
			p.sweep(t0.Add(40*time.Second), succeeds)
			p.transact(t0.Add(45*time.Second), succeeds, p.closeDue)
			for p.a.Pending() {
				p.transact(t0.Add(45*time.Second), succeeds, func(*Transaction) {})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := new(disk), resource("a")
			old, other, p := start(t, d, "old", Config{}), start(t, d, "other", Config{}), start(t, d, "p", Config{})
			for i := range 3 {
				old.add(t0, span(i+1, 1, 0, r))
			}
			suspended := p.recover("old")
			meanwhile(old, other)
			p.x.Begin(t0)
			p.x.Adopt(suspended)
			if err := d.commit(nil, p.x.Journals("p", "holder")); err != nil {
				require.ErrorIs(t, err, delta.ErrJournalConflict)
				return
			}
			p.x.Commit()
			again := p.recover("old")
			if !again.Continue(suspended.Last()) {
				return
			}
			for !again.Ended() { // of what is left
				p.transact(t0, succeeds, func(x *Transaction) { x.Adopt(again) })
			}
			for _, q := range []*process{old, other} {
				q.x.Begin(late)
				verdicts, _ := closing(q.x, Due{Now: late, All: true})
				journals := q.x.Journals(q.name, "holder")
				if err := d.commit(verdicts, journals); err == nil {
					q.x.Commit()
				}
			}
			p.transact(late, succeeds, p.closeAll)
			require.EqualValues(t, 3, counts(&d.verdicts, "a", catalog.SPA001).Observed)
		})
	}
}

// TestSuspendedSuccessor: a process that is suspended while it adopts a journal does not continue after another one has
// adopted the rest.
func TestSuspendedSuccessor(t *testing.T) {
	d, r := new(disk), resource("a")
	old := start(t, d, "old", Config{})
	for i := range 3 {
		old.add(t0, span(i+1, 1, 0, r))
	}
	one, two := start(t, d, "one", Config{}), start(t, d, "two", Config{})
	suspended := one.claim(t0, "old")
	one.transact(t0, succeeds, func(x *Transaction) { adoptSome(x, suspended, 1) })
	two.adopt(t0, "old")
	one.x.Begin(t0)
	one.x.Adopt(suspended)
	require.ErrorIs(t, d.commit(nil, one.x.Journals("one", "holder")), delta.ErrJournalConflict)
	later := t0.Add(time.Minute)
	one.transact(later, succeeds, one.closeAll)
	two.transact(later, succeeds, two.closeAll)
	require.Equal(t, delta.Count{Observed: 3}, counts(&d.verdicts, "a", catalog.SPA001))
	over := two.recover("old")
	_, ok := over.AllMoved()
	require.True(t, ok)
	two.transact(later, succeeds, func(x *Transaction) { x.Adopt(over) })
	require.Empty(t, d.journals["old"])
}

// TestPartialInJournal: a trace that may lack its beginning, because another process has sampled it, is not evaluated as a whole
// by a third process, whatever the transaction that records this does with it.
func TestPartialInJournal(t *testing.T) {
	for name, c := range map[string]struct {
		sampled bool // p has sampled traces before
		during  bool // the trace begins in the transaction
		sweeps  bool // the trace moves in the transaction
	}{
		"before":         {},
		"moves":          {sweeps: true},
		"during":         {during: true},
		"sampled before": {during: true, sampled: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := new(disk), resource("a")
			old := start(t, d, "old", Config{})
			old.a.initial.level = 1
			for i := range 20 {
				old.add(t0, span(100+i, 1, 0, r))
			}
			p := start(t, d, "p", Config{})
			if c.sampled {
				p.a.initial.lowered = t0.Add(-time.Hour).UnixNano()
			}
			now := t0.Add(time.Second)
			late := span(1, 3, 2, resource("late")) // its beginning was sampled out in old
			if !c.during {
				p.add(now, late)
			}
			if c.sweeps {
				p.beginSweep()
			}
			recovery := p.claim(now.Add(time.Second), "old") // later than the trace
			for first := true; !recovery.Ended(); first = false {
				p.transact(now.Add(time.Second), succeeds, func(x *Transaction) {
					x.Adopt(recovery)
					if first && c.during {
						x.Add(org, []Span{late})
					}
				})
			}
			for p.a.Pending() && p.a.journal.forgets() {
				p.transact(now, succeeds, func(*Transaction) {})
			}
			q := start(t, d, "q", Config{})
			q.adopt(now.Add(time.Second), "p")
			q.transact(now.Add(time.Minute), succeeds, q.closeAll)
			require.Equal(t, delta.Count{Observed: 1}, counts(&d.verdicts, "late", catalog.SPA001))
			require.Zero(t, counts(&d.verdicts, "late", catalog.SPA002))
		})
	}
}

// TestAdoptedBefore: deleting the rest of a journal whose traces were adopted before marks no trace as partial.
func TestAdoptedBefore(t *testing.T) {
	d, r := new(disk), resource("a")
	old := start(t, d, "old", Config{})
	old.a.initial.level = 1
	for i := range 40 {
		old.add(t0, span(100+i, 1, 0, r))
	}
	p := start(t, d, "p", Config{})
	moved := p.claim(t0, "old")
	p.transact(t0, succeeds, func(x *Transaction) { x.Adopt(moved) })
	for seq := range d.journals["old"] { // as if p had been killed while it deleted them
		if seq < moved.Last() {
			delete(d.journals["old"], seq)
		}
	}
	day := t0.Add(24 * time.Hour)
	q := start(t, d, "q", Config{})
	q.add(day, span(1, 1, 0, r), span(1, 2, 9, r))
	q.adopt(day, "old")
	require.Empty(t, d.journals["old"])
	q.add(day, span(2, 1, 0, r), span(2, 2, 9, r))
	q.transact(day.Add(time.Minute), succeeds, q.closeAll)
	require.Equal(t, delta.Count{Observed: 2, Failed: 2}, counts(&d.verdicts, "a", catalog.SPA002))
}

// TestNotesEnd: the notes of organizations whose sampling has changed do not stay, nor does a damaged one stop a process.
func TestNotesEnd(t *testing.T) {
	d := new(disk)
	p := start(t, d, "a", Config{})
	p.add(t0, span(1, 1, 0, resource("a")))
	p.a.Abandon(t0)
	p.name = "b"
	p.transact(t0, succeeds, func(*Transaction) {})
	require.Len(t, d.journals["b"], 1)
	later := t0.Add(time.Hour)
	for range 3 {
		p.transact(later, succeeds, func(*Transaction) {})
	}
	require.Empty(t, d.journals["b"])
	require.False(t, p.a.Pending())

	var e encoder
	e.mark(p.a.header(later))
	_, err := p.a.Replay(later, delta.JournalEntry{Seq: p.a.Next(), Data: e.entries[0].data})
	require.ErrorIs(t, err, errEntry)
}

// TestStateInJournal: that the traces of an organization may lack their beginning stays in the journal when the entry after it
// is dropped, also for an organization that is new to a process that once lost its journal.
func TestStateInJournal(t *testing.T) {
	r := resource("a")
	t.Run("dropped", func(t *testing.T) {
		d := new(disk)
		p := start(t, d, "p", Config{})
		o := p.a.tenants[p.a.org(org)]
		id := 1
		for o.level = 1; !p.a.keeps(o, traceID(id)); {
			id++
		}
		o.level = 0
		p.add(t0, span(id, 1, 0, r))
		p.a.discard(o, t0) // as Commit does when the journal is too large
		p.add(t0.Add(time.Second), span(id, 2, 1, r))
		p.transact(t0.Add(time.Second), succeeds, func(*Transaction) {})
		q := start(t, d, "q", Config{})
		q.adopt(t0.Add(2*time.Second), "p")
		q.add(t0.Add(3*time.Second), span(id, 3, 2, r))
		q.transact(t0.Add(time.Minute), succeeds, q.closeAll)
		require.Zero(t, counts(&d.verdicts, "a", catalog.SPA002))
	})
	t.Run("new organization", func(t *testing.T) {
		d := new(disk)
		old := start(t, d, "old", Config{})
		old.a.initial.level = maxLevel
		old.add(t0, span(100, 1, 0, r))
		old.transact(t0, succeeds, func(*Transaction) {})
		p := start(t, d, "none", Config{})
		p.a.Abandon(t0.Add(-time.Hour))
		p.name = "p"
		now := t0.Add(time.Second)
		p.adopt(now, "old")
		q := start(t, d, "q", Config{})
		q.adopt(now.Add(time.Second), "p")
		q.add(now.Add(time.Second), span(100, 3, 2, r))
		q.transact(now.Add(time.Minute), succeeds, q.closeAll)
		require.Zero(t, counts(&d.verdicts, "a", catalog.SPA002))
	})
	t.Run("replayed", func(t *testing.T) {
		p := start(t, new(disk), "p", Config{})
		p.add(t0, span(1, 1, 0, r))
		p.a.discard(p.a.tenants[0], t0)
		p.transact(t0, unknown, func(*Transaction) {})
		p.transact(t0, succeeds, func(*Transaction) {})
		require.False(t, p.a.tenants[0].rests)
	})
}
