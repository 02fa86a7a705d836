// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/storetest"
)

// TestExpirePassesOver: the expiry reports undecodable rows and deletes all others.
func TestExpirePassesOver(t *testing.T) {
	s := open(t, Config{})
	ctx, now := t.Context(), time.Now()
	o := &assay.Organization{Name: "a", Tier: assay.TierFree}
	require.NoError(t, s.CreateOrganization(ctx, o))
	hour := delta.BucketOf(uint64(now.UnixNano()), time.Hour)
	old := hour - 24*3600
	d := new(delta.Delta)
	names := []string{"broken", "whole", "total"}
	for _, name := range names {
		f := d.Organization(o.ID).Service(assay.ServiceKey{Name: name})
		for _, at := range []delta.Bucket{old, hour} {
			f.Counts(at)[catalog.RES001].Observed = 1
		}
		f.AddItem(delta.Item{Rule: catalog.RES001, Text: "x"}, old)
		f.Series.Add(1, old)
		f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: 1}, Value: 1}, delta.ClaimFact{Last: old})
	}
	require.NoError(t, s.Commit(ctx, now, nil, func([]bool) *delta.Delta { return d }))
	broken := `svc = (SELECT svc FROM services WHERE name = 'broken')`
	for _, query := range []string{
		`UPDATE hours SET tally = x'ff' WHERE bucket < (SELECT max(bucket) FROM hours) AND ` + broken,
		`UPDATE items SET facts = x'ff' WHERE ` + broken,
		`UPDATE series SET facts = x'ff' WHERE ` + broken,
		`UPDATE services SET tally = x'ff' WHERE name = 'total'`,
	} {
		res, err := s.w.ExecContext(ctx, query)
		require.NoError(t, err)
		n, err := res.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	err := s.Expire(ctx, now, hour, hour)
	for _, what := range []string{"delete old counts: counts of service ", "delete old items: service ", "delete old series: service "} {
		require.ErrorContains(t, err, "sqlite: "+what)
	}
	count := func(table string) (n int) {
		t.Helper()
		require.NoError(t, s.r.QueryRowContext(ctx, `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	require.Equal(t, len(names), count("hours"), "those in the window")
	require.Equal(t, 1, count("items"), "the one that cannot be read")
	require.Equal(t, 1, count("series"))
	require.Zero(t, count("claims"))
	facts, err := s.Facts(ctx, o.ID, []string{delta.ServiceID(o.ID, assay.ServiceKey{Name: "whole"})}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, facts[0].Totals[catalog.RES001].Observed)

	// The counts are deleted. The rows that stay are reported again.
	err = s.Expire(ctx, now, hour, hour)
	require.ErrorContains(t, err, "delete old items")
	require.NotContains(t, err.Error(), "counts")
}

func TestExpireChunks(t *testing.T) {
	s := open(t, Config{})
	storetest.TestExpireChunks(t, s, engine{s}, &dialect)
}
