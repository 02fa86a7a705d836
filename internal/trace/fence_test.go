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

// TestSuspendedSuccessor: a process that is suspended while it adopts a journal does not continue after another one has
// adopted the rest.
func TestSuspendedSuccessor(t *testing.T) {
	d, r := new(disk), resource("a")
	old := start(t, d, "old", Config{})
	for i := range 3 {
		old.add(t0, span(i+1, 1, 0, r))
	}
	one, two := start(t, d, "one", Config{}), start(t, d, "two", Config{})
	suspended := one.recover("old")
	one.transact(t0, succeeds, func(x *Transaction) { // as if the other traces did not fit into the transaction
		x.Adopt(suspended)
		suspended.chunk = suspended.chunk[:1]
		x.adoptedSpans.reset()
		x.adoptTrace(suspended.chunk[0])
		x.adoptResources()
	})
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
			recovery := p.recover("old")
			for first := true; !recovery.Ended(); first = false {
				p.transact(now, succeeds, func(x *Transaction) {
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
