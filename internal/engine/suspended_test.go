// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/lease"
	"assay/internal/rules/catalog"
	. "assay/internal/rules/rulestest"
)

// suspend adds 8 traces to an owner and returns its journal. When the successor has read so many pages of it, the successor
// is suspended for longer than its lease while something else happens.
func suspend(t *testing.T, old, successor *server, pages int, meanwhile func()) (journal string) {
	t.Helper()
	for _, s := range []*server{old, successor} {
		require.NoError(t, s.TakeOver(t.Context()))
	}
	for i := range 8 {
		old.ingest(Traces(Spans(Service("a"), Span(i+1, 1, 0))))
	}
	journal = onlyName(old.p.world, old.p.name)
	successor.p.reading = func() {
		if pages--; pages == -1 {
			old.p.advance(expiry)
			meanwhile()
			old.p.advance(expiry)
			successor.p.renew(delta.JournalLease(journal))
		}
	}
	return journal
}

// TestAdoptedMeanwhile: a successor that is suspended while it reads a journal does not delete the entry that stops the
// owner, which another successor has left there.
func TestAdoptedMeanwhile(t *testing.T) {
	w := newWorld(T0)
	old, one, two := w.start(t, "old", nil), w.start(t, "one", nil), w.start(t, "two", nil)
	require.NoError(t, two.TakeOver(t.Context()))
	journal := suspend(t, old, one, 1, func() {
		require.NoError(t, two.TakeOver(t.Context()))
		require.Equal(t, 8, two.Traces().Traces)
	})
	w.advance(expiry)
	require.NoError(t, one.TakeOver(t.Context()))
	require.Zero(t, one.Traces().Traces)
	two.closeAll()
	old.p.renew(delta.JournalLease(journal))
	w.advance(30 * time.Second)
	require.NoError(t, old.CloseTraces(t.Context()))
	require.NoError(t, old.CloseTraces(t.Context()))
	require.Zero(t, old.Traces().Traces)
	require.EqualValues(t, 8, w.totals("a", catalog.SPA001).Observed)
}

// TestAdoptedMeanwhileFromSQLite is TestAdoptedMeanwhile with the leases and journals of a store.
func TestAdoptedMeanwhileFromSQLite(t *testing.T) {
	f := newFixture(t)
	start := func(name string) (*engine.Engine, *faultyStore, *lease.Coordinator) {
		store := &faultyStore{Store: f.store.Store}
		elapsed := func() time.Duration { return f.clock().Sub(T0) }
		leases := lease.New(lease.Config{Store: store, Name: name, Now: f.clock, Elapsed: elapsed})
		e := f.engine(func(c *engine.Config) {
			c.Store, c.Journal = store, &engine.JournalConfig{Name: name, Store: store, Leases: leases, RestartGrace: -1}
		})
		require.NoError(t, leases.Renew(t.Context()))
		require.NoError(t, e.TakeOver(t.Context()))
		return e, store, leases
	}
	old, _, oldLeases := start("old")
	one, oneStore, oneLeases := start("one")
	two, _, twoLeases := start("two")
	for i := range 8 {
		f.ingest(old, Traces(Spans(Service("a"), Span(i+1, 1, 0))))
	}
	f.advance(11 * time.Second)
	pages := 0
	oneStore.reading = func() {
		if pages++; pages == 2 {
			f.advance(11 * time.Second)
			require.NoError(t, two.TakeOver(t.Context()))
			require.Equal(t, 8, two.Traces().Traces)
			require.NoError(t, oneLeases.Renew(t.Context()))
		}
	}
	require.NoError(t, one.TakeOver(t.Context()))
	for _, s := range []struct {
		*engine.Engine
		leases *lease.Coordinator
	}{{two, twoLeases}, {old, oldLeases}} {
		f.advance(30 * time.Second)
		require.NoError(t, s.leases.Renew(t.Context()))
		require.NoError(t, s.CloseTraces(t.Context()))
		require.NoError(t, s.CloseTraces(t.Context()))
		require.Zero(t, s.Traces().Traces)
	}
	require.EqualValues(t, 8, f.totals("a", catalog.SPA001).Observed)
}

// TestDeletesAreFenced: an owner that resumes while its successor reads the journal does not delete the entry that closes
// traces which the successor has already read.
func TestDeletesAreFenced(t *testing.T) {
	w := newWorld(T0)
	old, one := w.start(t, "old", map[int]end{10: refused}), w.start(t, "one", nil)
	const marked = 2 // pages that it reads before it marks the journal
	journal := suspend(t, old, one, marked+1, func() {
		old.p.renew(delta.JournalLease(onlyName(w, "old")))
		require.NoError(t, old.CloseTraces(t.Context()))
	})
	w.advance(30 * time.Second)
	old.p.renew(delta.JournalLease(journal))
	require.Error(t, old.CloseTraces(t.Context()), "the transaction that deletes")
	require.EqualValues(t, 8, w.totals("a", catalog.SPA001).Observed)
	w.advance(expiry)
	require.NoError(t, one.TakeOver(t.Context()))
	require.Zero(t, one.Traces().Traces)
	require.EqualValues(t, 8, w.totals("a", catalog.SPA001).Observed)
}

// TestOwnerContinues: a successor that has marked a journal without open traces looks at it again if its owner goes on.
func TestOwnerContinues(t *testing.T) {
	w := newWorld(T0)
	old, one := w.start(t, "old", nil), w.start(t, "one", nil)
	journal := suspend(t, old, one, 1, func() {
		w.advance(expiry)
		old.p.renew(delta.JournalLease(onlyName(w, "old")))
		require.NoError(t, old.CloseTraces(t.Context()))
		require.Empty(t, w.entries())
	})
	w.advance(expiry)
	require.NoError(t, one.TakeOver(t.Context()))
	w.advance(expiry)
	old.p.renew(delta.JournalLease(journal))
	old.ingest(Traces(Spans(Service("a"), Span(100, 1, 0))))
	require.Len(t, w.entries(), 1, "the owner continues the journal")
	require.NoError(t, one.TakeOver(t.Context()))
	require.Zero(t, one.Traces().Traces)
	old.p.kill()
	w.advance(expiry)
	require.NoError(t, one.TakeOver(t.Context()))
	require.Equal(t, 1, one.Traces().Traces)
}

// TestFailedAdoptions: an adoption that fails again and again leaves one mark.
func TestFailedAdoptions(t *testing.T) {
	w := newWorld(T0)
	old := w.start(t, "old", nil)
	old.ingest(Traces(Spans(Service("a"), Span(1, 1, 0))))
	journal := onlyName(w, "old")
	old.p.kill()
	const attempts = 5
	ends := make(map[int]end)
	for i := range attempts {
		ends[2*i+2] = refused // after the mark
	}
	one := w.start(t, "one", ends)
	for range attempts {
		w.advance(expiry)
		require.Error(t, one.TakeOver(t.Context()))
		require.Equal(t, 2, w.entries()[journal])
	}
	w.advance(expiry)
	require.NoError(t, one.TakeOver(t.Context()))
	require.Equal(t, 1, one.Traces().Traces)
	require.Equal(t, 1, w.entries()[journal])
}
