// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/store/connpool"
)

// TestPagesLeaveRoomRace reads more pages of one organization than there are connections, none of which ends, and
// scores as many organizations. Pages of other organizations and all other transactions proceed.
func TestPagesLeaveRoomRace(t *testing.T) {
	const callers = 40
	s := open(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	org, other := organization(t, s, "a"), organization(t, s, "b")
	require.NoError(t, s.CreateAPIKey(ctx, &assay.APIKey{ID: "aaaaaa", OrganizationID: org, Name: "a", Scopes: assay.Scopes()}, assay.APIKeyLimits{}))

	visiting, leave := context.WithCancel(assay.WithOrganization(ctx, org))
	var visitors sync.WaitGroup
	for n := range callers {
		l := connpool.Pages
		if n%2 == 0 {
			l = connpool.Scoring
		}
		visitors.Go(func() {
			_ = s.view(visiting, l, "wait", func(*sql.Tx) error { <-visiting.Done(); return nil })
		})
	}
	full := func(l connpool.Pool) bool {
		ended, cancel := context.WithCancel(visiting)
		cancel()
		leave, err := s.reads.Enter(ended, l)
		if err == nil {
			leave()
		}
		return err != nil
	}
	require.Eventually(t, func() bool { return full(connpool.Pages) && full(connpool.Scoring) }, time.Minute, time.Millisecond)

	otherTenant := assay.WithOrganization(ctx, other)
	for name, call := range map[string]func() error{
		"commit":  func() error { return s.Commit(ctx, time.Now(), nil, observation(org, 1)) },
		"acquire": func() error { return third(s.AcquireLeases(ctx, "A", []string{"a"}, time.Minute)) },
		"names":   func() error { return second(s.LeaseNames(ctx, "")) },
		"ids":     func() error { return second(s.OrganizationIDs(ctx)) },
		"key":     func() error { return second(s.FindAPIKey(ctx, "aaaaaa")) },
		"touch":   func() error { return s.TouchAPIKey(ctx, "aaaaaa", time.Now()) },
		"journal": func() error { return second(s.ReadJournal(ctx, "a", 0, 1)) },
		"quota":   func() error { return second(s.KnownServices(ctx, org)) },
		"ping":    func() error { return s.Ping(ctx) },
		"page":    func() error { return third(s.FindServices(otherTenant, other, assay.Page{Limit: 10})) },
		"session": func() error {
			err := second(s.FindSession(ctx, [32]byte{}, time.Now()))
			if assay.ErrorCode(err) == assay.CodeNotFound {
				return nil
			}
			return err
		},
	} {
		require.NoError(t, call(), name)
	}
	leave()
	visitors.Wait()
}

// TestWritersTakeTurnsRace checks that organizations that write continuously let a commit proceed after one of
// their transactions.
func TestWritersTakeTurnsRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 40
		s, err := Open(t.Context(), Config{})
		require.NoError(t, err)
		defer s.Close()
		org := organization(t, s, "a")
		end := make(chan struct{})
		var visitors sync.WaitGroup
		for n := range callers {
			visiting := assay.WithOrganization(t.Context(), fmt.Sprint(n%4))
			visitors.Go(func() {
				_ = s.update(visiting, connpool.Pages, "wait", func(*sql.Tx) error { <-end; return nil })
			})
		}
		synctest.Wait()
		committed := make(chan error, 1)
		go func() { committed <- s.Commit(t.Context(), time.Now(), nil, observation(org, 1)) }()
		synctest.Wait()
		for range 2 { // the running transaction, and one that has waited for longer
			end <- struct{}{}
			synctest.Wait()
		}
		require.Len(t, committed, 1)
		require.NoError(t, <-committed)
		close(end)
		visitors.Wait()
	})
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }
