// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
)

// TestPagesLeaveRoom has more pages read and written than there are connections, all of
// which wait for somebody's locks, and everything else go on meanwhile.
func TestPagesLeaveRoom(t *testing.T) {
	const callers = 40
	address := migrated(t)
	s, err := Open(t.Context(), Config{URL: address, MaxConns: 6})
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	org := organization(t, s, "a")
	require.NoError(t, s.CreateAPIKey(ctx, &assay.APIKey{ID: "aaaaaa", OrganizationID: org, Name: "a", Scopes: assay.Scopes()}))

	other, err := pgx.Connect(ctx, address)
	require.NoError(t, err)
	defer other.Close(context.WithoutCancel(ctx))
	tx, err := other.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('sessions', org)) FROM organizations; LOCK TABLE insight_counts IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)

	visiting, leave := context.WithCancel(ctx)
	var visitors sync.WaitGroup
	for n := range callers {
		visitors.Go(func() {
			for visiting.Err() == nil {
				if n%2 == 0 {
					_, _ = s.FindInsightTypeCounts(visiting, org)
				} else {
					now := time.Now()
					_ = s.CreateSession(visiting, &assay.Session{
						Hash: [32]byte{byte(n)}, OrganizationID: org, Subject: fmt.Sprint(n), CreatedAt: now, UsedAt: now, IdleAt: now.Add(time.Hour), ExpiresAt: now.Add(time.Hour),
					})
				}
			}
		})
	}
	require.Eventually(t, func() bool { return len(s.lanes[pages]) == cap(s.lanes[pages]) }, time.Minute, time.Millisecond)

	for name, call := range map[string]func(context.Context) error{
		"commit": func(ctx context.Context) error { return s.Commit(ctx, time.Now(), nil, observation(org, 1)) },
		"acquire": func(ctx context.Context) error {
			_, _, err := s.AcquireLeases(ctx, "A", []string{"a"}, time.Minute)
			return err
		},
		"names":   func(ctx context.Context) error { return second(s.LeaseNames(ctx, "")) },
		"ids":     func(ctx context.Context) error { return second(s.OrganizationIDs(ctx)) },
		"key":     func(ctx context.Context) error { return second(s.FindAPIKey(ctx, "aaaaaa")) },
		"touch":   func(ctx context.Context) error { return s.TouchAPIKey(ctx, "aaaaaa", time.Now()) },
		"journal": func(ctx context.Context) error { return second(s.ReadJournal(ctx, "a", 0, 1)) },
		"quota":   func(ctx context.Context) error { return second(s.KnownServices(ctx, org)) },
		"facts":   func(ctx context.Context) error { return second(s.Facts(ctx, org, nil, delta.Bucket(0))) },
		"ping":    s.Ping,
	} {
		// Shorter than a page waits for a lock, so that it cannot be the end of one that helps.
		ctx, cancel := context.WithTimeout(ctx, lockTimeout/2)
		require.NoError(t, call(ctx), name)
		cancel()
	}
	leave()
	require.NoError(t, tx.Rollback(ctx))
	visitors.Wait()
	for _, l := range []lane{lookups, loads, pages} {
		require.Empty(t, s.lanes[l], "every slot is given back")
	}
}

// TestLoadsLeaveRoom: long lookups never take the last connection of the others.
func TestLoadsLeaveRoom(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, conns := range []int{1, 2, 3, 4, 5, 6, 8, defaultConns, 40} {
		ls := newLanes(conns)
		for range cap(ls[loads]) {
			_, err := ls.enter(t.Context(), loads)
			require.NoError(t, err)
		}
		leave, err := ls.enter(t.Context(), lookups)
		require.NoError(t, err, "%d connections", conns)
		_, err = ls.enter(ended, loads)
		require.ErrorIs(t, err, context.Canceled)
		leave()
		_, err = ls.enter(t.Context(), lookups)
		require.NoError(t, err)
	}
}

// TestLanes shares connections out.
func TestLanes(t *testing.T) {
	for conns, want := range map[int][3]int{ // lookups, loads, pages
		1: {1, 1, 1}, 2: {1, 1, 1}, 3: {1, 1, 1}, 4: {1, 2, 2}, 5: {1, 3, 3}, 6: {2, 1, 2}, 10: {3, 2, 4}, 40: {3, 2, 34},
	} {
		ls := newLanes(conns)
		require.Equal(t, want, [3]int{cap(ls[lookups]), cap(ls[loads]), cap(ls[pages])}, "%d connections", conns)
		if conns >= 3 {
			require.LessOrEqual(t, cap(ls[lookups])+cap(ls[pages]), conns-1, "%d connections", conns)
		}
	}
}
