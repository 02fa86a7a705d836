// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/fair"
)

// TestDecodingTakesTurns: a page is decoded while its organization holds a slot of the CPUs. Other transactions wait for
// none.
func TestDecodingTakesTurns(t *testing.T) {
	cpu := fair.NewSemaphore(2, 1)
	s := open(t, Config{CPU: cpu})
	id, other := organization(t, s, "a"), organization(t, s, "b")
	fillLists(t, s, id, 100, 1)
	fillLists(t, s, other, 100, 1)
	page := func(ctx context.Context, id string) error {
		found, total, err := s.FindInsights(assay.WithOrganization(ctx, id), assay.InsightFilter{OrganizationID: id, Page: assay.Page{Limit: 100}})
		if err == nil {
			require.Len(t, found, 100)
			require.Equal(t, 100, total)
		}
		return err
	}
	require.NoError(t, cpu.Acquire(t.Context(), id))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, page(ctx, id), context.DeadlineExceeded)
	require.NoError(t, page(t.Context(), other))
	require.NoError(t, s.Ping(assay.WithOrganization(t.Context(), id)))
	require.NoError(t, second(s.KnownServices(assay.WithOrganization(t.Context(), id), id)))
	cpu.Release(id)
	for range 3 {
		require.NoError(t, page(t.Context(), id))
	}
}

// TestFewConnectionsTakeNoTurns: with fewer than six connections, scoring, which holds a slot of the CPUs while it waits for
// a connection, and pages share the connections. A page would wait for the slot with the connection.
func TestFewConnectionsTakeNoTurns(t *testing.T) {
	for conns, turns := range map[int]bool{1: false, 3: false, 5: false, 6: true, 10: true} {
		s := open(t, Config{CPU: fair.NewSemaphore(1, 1), MaxConns: conns})
		require.Equal(t, turns, s.cpu != nil, "%d connections", conns)
	}
}

// TestDecodingOfLargeResults: rows that take several turns are all decoded, each once.
func TestDecodingOfLargeResults(t *testing.T) {
	s := open(t, Config{CPU: fair.NewCPU(2, time.Now)})
	id := organization(t, s, "a")
	const services = 3 * turnBytes / 100
	fillLists(t, s, id, services, 1)
	found, total, err := s.FindServices(t.Context(), id, assay.Page{Limit: services})
	require.NoError(t, err)
	require.Equal(t, services, total)
	ids := make(map[string]bool)
	for _, f := range found {
		ids[f.ID] = true
	}
	require.Len(t, found, services)
	require.Len(t, ids, services)
}
