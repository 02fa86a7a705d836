// SPDX-License-Identifier: Apache-2.0

package connpool

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/fair"
)

// TestSizes checks the limits of the pools.
func TestSizes(t *testing.T) {
	for conns, want := range map[int][3]int{ // lookups, loads, pages
		1: {1, 0, 1}, 2: {1, 0, 1}, 3: {1, 0, 1}, 4: {1, 0, 2}, 5: {1, 0, 3}, 6: {2, 1, 2}, 10: {3, 2, 4}, 40: {3, 2, 34},
	} {
		lookups, loads, pages := sizes(conns)
		require.Equal(t, want, [3]int{lookups, loads, pages}, "%d connections", conns)
		if conns >= 3 {
			require.LessOrEqual(t, lookups+pages, conns-1, "%d connections", conns)
		}
		if loads > 0 { // scoring has the same, in addition to lookups and pages
			require.LessOrEqual(t, lookups+pages+loads, conns-1, "%d connections", conns)
		}
	}
}

// fill enters a pool until it is full and returns the number of transactions.
func fill(t *testing.T, ps *Pools, pool Pool, organizationID string) (n int) {
	t.Helper()
	ended, cancel := context.WithCancel(assay.WithOrganization(t.Context(), organizationID))
	cancel()
	for ; n < 100; n++ {
		if _, err := ps.Enter(ended, pool); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			return n
		}
	}
	require.Fail(t, "the pool has no bound")
	return n
}

// TestPagesOfOneOrganization: one organization gets at most half of the pages, as do all
// requests without an organization.
func TestPagesOfOneOrganization(t *testing.T) {
	for conns, want := range map[int][2]int{ // of the first organization, of all others
		4: {1, 1}, 5: {2, 1}, 6: {1, 1}, 10: {2, 2}, 40: {17, 17},
	} {
		for _, first := range []string{"a", ""} {
			ps := New(conns, nil)
			require.Equal(t, want[0], fill(t, ps, Pages, first), "%d connections", conns)
			require.Equal(t, want[1], fill(t, ps, Pages, "b"), "%d connections", conns)
		}
	}
}

// TestPoolsLeaveRoom: a pool does not use the room of another one. Loads leave room for a
// lookup, and scoring for OwnWork.
func TestPoolsLeaveRoom(t *testing.T) {
	for _, conns := range []int{1, 2, 3, 4, 5, 6, 8, 10, 40} {
		ps := New(conns, nil)
		fill(t, ps, Loads, "")
		fill(t, ps, Scoring, "")
		fill(t, ps, Pages, "a")
		fill(t, ps, Pages, "b")
		require.Positive(t, fill(t, ps, Lookups, ""), "%d connections", conns)
		leave, err := ps.Enter(t.Context(), OwnWork)
		require.NoError(t, err)
		leave()
	}
}

// TestLeave: leave frees every place, including one of a load that no longer waits.
func TestLeave(t *testing.T) {
	ps := New(10, nil)
	for _, l := range []Pool{Lookups, Loads, Scoring, Pages} {
		leave, err := ps.Enter(t.Context(), l)
		require.NoError(t, err)
		leave()
	}
	lookups := fill(t, ps, Lookups, "")
	require.Zero(t, fill(t, ps, Loads, ""))
	for range lookups {
		ps.pools[Lookups].Release(Key(assay.WithOrganization(t.Context(), ""), Lookups))
	}
	require.Equal(t, 2, fill(t, ps, Loads, ""))
	require.Equal(t, 1, fill(t, ps, Lookups, ""))
}

// TestPagesHoldCPU: a page of an organization in a database of this process holds a slot of the CPUs while it is read.
func TestPagesHoldCPU(t *testing.T) {
	cpu := fair.NewSemaphore(1, 1)
	ps := New(10, cpu)
	ctx := assay.WithOrganization(t.Context(), "a")
	require.NoError(t, cpu.Acquire(ctx, "a"))
	for _, l := range []Pool{OwnWork, Lookups, Loads, Scoring} {
		leave, err := ps.Enter(ctx, l)
		require.NoError(t, err)
		leave()
	}
	require.Zero(t, fill(t, ps, Pages, "a"))
	require.Equal(t, 2, fill(t, ps, Pages, ""), "work of the server")
	cpu.Release("a")
	leave, err := ps.Enter(ctx, Pages)
	require.NoError(t, err)
	require.Zero(t, fill(t, ps, Pages, "a"))
	leave()
	require.Equal(t, 1, fill(t, ps, Pages, "a"))
}
