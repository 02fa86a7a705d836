// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

func entry(seq uint64, data string) delta.JournalEntry {
	return delta.JournalEntry{Seq: seq, Data: []byte(data)}
}

// known is a journal whose writer knows all entries.
const known = math.MaxUint64

// write commits a delta of journals only. One without Next is written by a process that knows all entries.
func (s *suite) write(st Store, journals ...delta.Journal) error {
	s.t.Helper()
	for i := range journals {
		journals[i].Next = cmp.Or(journals[i].Next, known)
	}
	return st.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return &delta.Delta{Journals: journals} })
}

func (s *suite) journal(name string, want ...delta.JournalEntry) {
	s.t.Helper()
	got := must(s.ReadJournal(s.ctx(), name, 0, 1000))(s.t)
	sameEntries(s.t, want, got)
}

// sameEntries compares without printing megabytes of data.
func sameEntries(t testing.TB, want, got []delta.JournalEntry) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Seq, got[i].Seq, "entry %d", i)
		require.True(t, bytes.Equal(want[i].Data, got[i].Data), "data of entry %d", i)
	}
}

func (s *suite) journals(want ...string) {
	s.t.Helper()
	got := must(s.Journals(s.ctx()))(s.t)
	require.ElementsMatch(s.t, want, got)
	require.True(s.t, slices.IsSorted(got))
}

func (s *suite) TestJournal(t *testing.T) {
	s.journals()
	s.journal("a")
	s.acquire(s, "A", leaseTTL, delta.JournalLease("a"), delta.JournalLease("b"), delta.JournalLease(""))

	// Entries are in the order of their numbers, regardless of their arrival.
	large := entry(1<<33, string(bytes.Repeat([]byte{0, 0xff, 'x'}, 1<<19)))
	require.NoError(t, s.write(s, delta.Journal{Name: "a", Holder: "A", Append: []delta.JournalEntry{entry(10, "ten"), entry(9, "\x00nine\xff")}}))
	require.NoError(t, s.write(s,
		delta.Journal{Name: "b", Holder: "A", Append: []delta.JournalEntry{entry(9, "other")}},
		delta.Journal{Name: "a", Holder: "A", Append: []delta.JournalEntry{large, entry(1, ""), entry(math.MaxInt64, "last")}}))
	require.NoError(t, s.write(s, delta.Journal{Name: "", Holder: "A", Append: []delta.JournalEntry{{Seq: 5}}}))
	all := []delta.JournalEntry{entry(1, ""), entry(9, "\x00nine\xff"), entry(10, "ten"), large, entry(math.MaxInt64, "last")}
	s.journal("a", all...)
	s.journal("b", entry(9, "other"))
	s.journal("", entry(5, ""))
	s.journals("", "a", "b")
	require.EqualValues(t, 7, s.rows()["journals"])

	// Pages.
	for _, c := range []struct {
		after uint64
		limit int
		want  []delta.JournalEntry
	}{
		{0, 2, all[:2]},
		{1, 1, all[1:2]},
		{8, 10, all[1:]},
		{10, 2, all[3:]},
		{math.MaxInt64, 10, nil},
		{math.MaxUint64, 10, nil},
		{0, 0, nil},
	} {
		got := must(s.handle().ReadJournal(s.ctx(), "a", c.after, c.limit))(t)
		sameEntries(t, c.want, got)
	}

	// Existing entries stay unchanged, even those that the same transaction would delete.
	// The transaction stores nothing.
	for _, seq := range []uint64{1, 10} {
		require.ErrorIs(t, s.write(s,
			delta.Journal{Name: "b", Holder: "A", Append: []delta.JournalEntry{entry(10, "x")}, Forget: []uint64{9}},
			delta.Journal{Name: "a", Holder: "A", Append: []delta.JournalEntry{entry(2, "x"), entry(seq, "x")}, Forget: []uint64{seq}},
		), delta.ErrJournalConflict)
	}
	s.journal("a", all...)
	s.journal("b", entry(9, "other"))

	// Deletion comes after appending. Deleting a missing entry is not an error.
	require.NoError(t, s.write(s, delta.Journal{
		Name: "a", Holder: "A", Append: []delta.JournalEntry{entry(11, "x")}, Forget: []uint64{9, 11, 12, 1 << 33, math.MaxUint64, math.MaxInt64},
	}))
	s.journal("a", all[0], all[2])
	s.journal("b", entry(9, "other"))
	require.NoError(t, s.write(s, delta.Journal{Name: "b", Holder: "A", Forget: []uint64{9}}, delta.Journal{Name: "", Holder: "A"}))
	s.journals("", "a")
	require.Error(t, s.write(s, delta.Journal{Name: "a", Holder: "A", Append: []delta.JournalEntry{entry(math.MaxInt64+1, "x")}}))

	// A process that does not know an entry changes nothing, even if it appends to another journal or only deletes.
	for _, next := range []uint64{0, 1, 9, 10} {
		require.ErrorIs(t, s.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta {
			return &delta.Delta{Journals: []delta.Journal{
				{Name: "b", Holder: "A", Next: 1, Append: []delta.JournalEntry{entry(1, "x")}},
				{Name: "a", Holder: "A", Next: next, Forget: []uint64{1}},
			}}
		}), delta.ErrJournalConflict, "next is %d", next)
	}
	require.NoError(t, s.write(s, delta.Journal{Name: "a", Holder: "A", Next: 11, Forget: []uint64{2}}))
	s.journal("a", all[0], all[2])
	s.journals("", "a")

	// The journal survives its handles.
	require.NoError(t, s.Store.Close())
	s.Store = s.handle()
	s.journal("a", all[0], all[2])
}

// TestJournalLost rejects a transaction with another holder's journal.
func (s *suite) TestJournalLost(t *testing.T) {
	org := s.organization()
	request := delta.Request{OrganizationID: org, Hash: [16]byte{1}}
	commit := func(journals ...delta.Journal) error {
		return s.Commit(s.ctx(), s.clock.now(), []delta.Request{request}, func(fresh []bool) *delta.Delta {
			require.Equal(t, []bool{true}, fresh)
			d := one(org, named("a"), func(f *delta.Service) { f.Counts(0)[catalog.RES001].Observed = 1 })
			d.Organization(org).LogRecords[0] = 1
			d.Journals = journals
			return d
		})
	}
	mine := delta.Journal{Name: "a", Holder: "A", Append: []delta.JournalEntry{entry(1, "x")}}
	other := delta.Journal{Name: "b", Holder: "A", Append: []delta.JournalEntry{entry(1, "x")}}
	lost := func(journals ...delta.Journal) {
		t.Helper()
		require.ErrorIs(t, commit(journals...), delta.ErrJournalLost)
		s.journals()
		rows := s.rows()
		require.Zero(t, rows["services"]+rows["requests"]+rows["log_volume"]+rows["hours"])
	}
	lost(mine) // held by no replica
	s.acquire(s, "B", leaseTTL, delta.JournalLease("a"))
	lost(mine)
	lost(delta.Journal{Name: "a", Holder: "A"}) // even to write nothing
	lost(delta.Journal{Name: "a"})
	s.clock.advance(leaseTTL)
	lost(mine) // B's, though expired
	require.Equal(t, []string{delta.JournalLease("a")}, s.acquire(s, "A", leaseTTL, delta.JournalLease("a")))
	s.acquire(s, "B", leaseTTL, delta.JournalLease("b"))
	lost(mine, other)
	lost(other, mine)

	// A journal stays with its holder until another replica takes it, even after expiry.
	s.clock.advance(100 * leaseTTL)
	s.leaseNames("")
	require.NoError(t, commit(mine))
	s.journal("a", entry(1, "x"))
	require.EqualValues(t, 1, s.rows()["services"])
	require.NoError(t, s.ReleaseLeases(s.ctx(), "A"))
	require.ErrorIs(t, s.write(s, delta.Journal{Name: "a", Holder: "A", Forget: []uint64{1}}), delta.ErrJournalLost)
	s.journal("a", entry(1, "x"))
}

// TestJournalTakenOver moves the entries of a dead replica's journal to the successor's
// journal, in one transaction.
func (s *suite) TestJournalTakenOver(t *testing.T) {
	b := s.handle()
	s.acquire(s, "A", leaseTTL, delta.JournalLease("a"))
	entries := []delta.JournalEntry{entry(1, "one"), entry(2, "two"), entry(3, "three")}
	require.NoError(t, s.write(s, delta.Journal{Name: "a", Holder: "A", Append: entries}))
	require.Equal(t, []string{delta.JournalLease("b")}, s.acquire(b, "B", leaseTTL, delta.JournalLease("a"), delta.JournalLease("b")))
	s.clock.advance(leaseTTL)
	require.Len(t, s.acquire(b, "B", leaseTTL, delta.JournalLease("a"), delta.JournalLease("b")), 2)
	require.Equal(t, entries, must(b.ReadJournal(s.ctx(), "a", 0, 10))(t))

	appended := []delta.JournalEntry{entry(7, "one"), entry(8, "two"), entry(9, "three")}
	require.NoError(t, s.write(b,
		delta.Journal{Name: "b", Holder: "B", Append: appended},
		delta.Journal{Name: "a", Holder: "B", Forget: []uint64{1, 2, 3}}))
	s.journal("b", appended...)
	s.journals("b")

	// The former holder was only slow.
	require.ErrorIs(t, s.write(s, delta.Journal{Name: "a", Holder: "A", Append: []delta.JournalEntry{entry(4, "four")}}), delta.ErrJournalLost)
	s.journals("b")
}

// TestJournalRace: one holder writes while another takes over. The new holder reads all
// entries of the former one.
func (s *suite) TestJournalRace(t *testing.T) {
	const rounds = 30
	b := s.handle()
	lease := delta.JournalLease("a")
	for range rounds {
		var read []delta.JournalEntry
		written := s.takeOver(b, lease, func() error {
			return s.write(s, delta.Journal{Name: "a", Holder: "A", Append: []delta.JournalEntry{entry(1, "x")}})
		}, func() (err error) {
			read, err = b.ReadJournal(s.ctx(), "a", 0, 10)
			return err
		})
		if written == nil {
			require.Equal(t, []delta.JournalEntry{entry(1, "x")}, read)
		} else {
			require.ErrorIs(t, written, delta.ErrJournalLost)
			require.Empty(t, read)
		}
		require.NoError(t, s.write(b, delta.Journal{Name: "a", Holder: "B", Forget: []uint64{1}}))
		require.NoError(t, b.ReleaseLeases(s.ctx(), "B"))
	}
}
