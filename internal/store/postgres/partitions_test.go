// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// TestPartitionsAhead: a lock that blocks the creation of partitions at midnight, such as
// that of an ANALYZE of the whole database, does not block commits to partitions created
// ahead.
func TestPartitionsAhead(t *testing.T) {
	s := open(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	org := organization(t, s, "a")
	now := time.Now().Truncate(24 * time.Hour).Add(23 * time.Hour)
	start := delta.BucketOf(uint64(now.UnixNano()), time.Hour) - 30*24*3600
	require.NoError(t, s.Expire(ctx, now, start, start))

	tx, err := s.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(ctx))) }()
	_, err = tx.Exec(ctx, `LOCK TABLE hours, distinct_sets, scores IN SHARE UPDATE EXCLUSIVE MODE`)
	require.NoError(t, err)
	svc := delta.ServiceID(org, assay.ServiceKey{Name: "a"})
	for _, at := range []time.Time{now, now.Add(time.Hour), now.Add(24 * time.Hour)} {
		hour := delta.BucketOf(uint64(at.UnixNano()), time.Hour)
		d := new(delta.Delta)
		f := d.Organization(org).Service(assay.ServiceKey{Name: "a"})
		f.Counts(hour)[catalog.RES001].Observed = 1
		f.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour), Key: 1}, hour, 9, "m", "a").Add(1)
		require.NoError(t, s.Commit(ctx, at, nil, func([]bool) *delta.Delta { return d }))
		score := &assay.Score{ID: svc, Value: 1, CalculatedAt: at, CreatedAt: at}
		require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Revision: 1, Score: score, NewRow: true}}))
	}

	// A replica that has not created the partitions finds them.
	other, err := Open(ctx, Config{URL: s.pool.Config().ConnString()})
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.makePartitionsAhead(ctx, now))
}
