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
	"assay/internal/store/connpool"
)

// TestPagesLeaveRoom reads and writes more pages of one organization than there are connections, all of which
// wait for locks. Pages of other organizations and all other transactions proceed.
func TestPagesLeaveRoom(t *testing.T) {
	const callers = 40
	address := migrated(t)
	s, err := Open(t.Context(), Config{URL: address, MaxConns: 10, StatementTimeout: time.Hour})
	require.NoError(t, err)
	defer s.Close()
	s.lock = time.Hour // a page that waits for a lock waits until the end of the test
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	org := organization(t, s, "a")
	otherTenant := organization(t, s, "b")
	require.NoError(t, s.CreateAPIKey(ctx, &assay.APIKey{ID: "aaaaaa", OrganizationID: org, Name: "a", Scopes: assay.Scopes()}, assay.APIKeyLimits{}))

	other, err := pgx.Connect(ctx, address)
	require.NoError(t, err)
	defer other.Close(context.WithoutCancel(ctx))
	tx, err := other.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('sessions', org)) FROM organizations; LOCK TABLE insight_counts IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)

	visiting, leave := context.WithCancel(assay.WithOrganization(ctx, org))
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
	// free returns the number of free slots of a pool.
	free := func(ctx context.Context, l connpool.Pool) (n int) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		for ; n < 100; n++ {
			leave, err := s.pools.Enter(ctx, l)
			if err != nil {
				break
			}
			defer leave()
		}
		return n
	}
	require.Eventually(t, func() bool { return free(visiting, pages) == 0 }, time.Minute, time.Millisecond)

	scorers, stop := context.WithCancel(ctx)
	for range 2 { // all connections available to scoring
		visitors.Go(func() {
			_ = s.view(scorers, scoring, "score", func(pgx.Tx) error { <-scorers.Done(); return scorers.Err() })
		})
	}
	require.Eventually(t, func() bool { return free(ctx, scoring) == 0 }, time.Minute, time.Millisecond)

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
		"ping":    s.Ping,
		"page": func(ctx context.Context) error {
			_, _, err := s.FindServices(ctx, otherTenant, assay.Page{Limit: 10})
			return err
		},
		"session": func(ctx context.Context) error {
			_, err := s.FindSession(ctx, [32]byte{}, time.Now())
			if assay.ErrorCode(err) == assay.CodeNotFound {
				return nil
			}
			return err
		},
	} {
		require.NoError(t, call(assay.WithOrganization(ctx, otherTenant)), name)
	}
	leave()
	stop()
	require.NoError(t, tx.Rollback(ctx))
	visitors.Wait()
	for l, want := range map[connpool.Pool]int{lookups: 3, loads: 2, scoring: 2, pages: 2} {
		require.Equal(t, want, free(ctx, l), "every place is given back")
	}
}
