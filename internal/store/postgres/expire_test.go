// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/query"
	"assay/internal/store/storetest"
)

// TestExpirePassesOver: the expiry reports undecodable rows and deletes all others.
func TestExpirePassesOver(t *testing.T) {
	s := open(t, Config{})
	ctx, now := t.Context(), time.Now()
	org := organization(t, s, "a")
	hour := delta.BucketOf(uint64(now.UnixNano()), time.Hour)
	old := hour - 24*3600
	d := new(delta.Delta)
	names := []string{"broken", "whole", "total"}
	for _, name := range names {
		f := d.Organization(org).Service(assay.ServiceKey{Name: name})
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
		`UPDATE hours SET tally = '\xff' WHERE bucket < (SELECT max(bucket) FROM hours) AND ` + broken,
		`UPDATE items SET facts = '\xff' WHERE ` + broken,
		`UPDATE series SET facts = '\xff' WHERE ` + broken,
		`UPDATE services SET tally = '\xff' WHERE name = 'total'`,
	} {
		tag, err := s.pool.Exec(ctx, query)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	err := s.Expire(ctx, now, hour, hour)
	for _, what := range []string{"delete old counts: counts of service ", "delete old items: service ", "delete old series: service "} {
		require.ErrorContains(t, err, "postgres: "+what)
	}
	count := func(table string) (n int) {
		t.Helper()
		require.NoError(t, s.pool.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	require.Equal(t, len(names), count("hours"), "those in the window")
	require.Equal(t, 1, count("items"), "the one that cannot be read")
	require.Equal(t, 1, count("series"))
	require.Zero(t, count("claims"))
	facts, err := s.Facts(ctx, org, []string{delta.ServiceID(org, assay.ServiceKey{Name: "whole"})}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, facts[0].Totals[catalog.RES001].Observed)

	// The counts are deleted. The rows that stay are reported again.
	err = s.Expire(ctx, now, hour, hour)
	require.ErrorContains(t, err, "delete old items")
	require.NotContains(t, err.Error(), "counts")
}

// TestExpireStopsWithoutServer: the expiry stops when the server is unavailable.
func TestExpireStopsWithoutServer(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: migrated(t)})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	err = s.Expire(t.Context(), time.Now(), 0, 0)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	require.Len(t, joined.Unwrap(), 1)
}

// TestExpireStepTimeout checks that a step of the expiry that timed out does not prevent the others.
func TestExpireStepTimeout(t *testing.T) {
	s := open(t, Config{})
	for state, want := range map[string]bool{
		queryCanceled: false, lockNotAvailable: false, deadlockDetected: false, serializationFailure: false, "22P02": false,
		readOnlyTransaction: true, "57P01": true, "53100": true, "08006": true,
	} {
		err := errors.Join(errors.New("a row"), s.fail(t.Context(), "forget", &pgconn.PgError{Code: state}))
		require.Equal(t, want, away(t.Context(), err), state)
	}
	require.False(t, away(t.Context(), nil))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, away(ended, nil))
}

// TestInstancesPlan: the index finds a chunk of claims, and no other rows are read,
// regardless of the number of contested claims.
func TestInstancesPlan(t *testing.T) {
	s := open(t, Config{})
	ctx := t.Context()
	_, err := s.pool.Exec(ctx, `INSERT INTO claims (svc, rule, key, value, last, org, written_at, key_text, value_text)
		SELECT n % 100, 2, n / 2, n, 0, 1, n / 1000, '', '' FROM generate_series(1, 20000) AS n`)
	require.NoError(t, err)
	_, err = s.pool.Exec(ctx, `ANALYZE claims`)
	require.NoError(t, err)
	recorder := new(storetest.Recorder)
	require.NoError(t, query.New(recorder, &dialect).Expire(ctx, time.Now(), 1, 1))
	find := recorder.Statements[slices.IndexFunc(recorder.Statements, func(st query.Statement) bool { return strings.Contains(st.SQL, "written_at") })].SQL
	plan := ""
	require.NoError(t, s.transact(ctx, scoring, "explain", beginCommit, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `EXPLAIN `+find, 5, 1, 1, 1, 1<<40, 100)
		return each(rows, err, func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			plan += line + "\n"
			return err
		})
	}))
	require.Contains(t, plan, "Index Scan using claims_instances on claims")
	require.Contains(t, plan, "Incremental Sort")
}

func TestExpireChunks(t *testing.T) {
	s := open(t, Config{})
	storetest.TestExpireChunks(t, s, engine{s}, &dialect)
}
