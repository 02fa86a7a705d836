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
	"assay/internal/store/query"
	"assay/internal/store/storetest"
)

func TestExpirePassesOver(t *testing.T) {
	s := open(t, Config{})
	storetest.TestExpirePassesOver(t, s, engine{s}, "postgres: ")
}

func TestEngine(t *testing.T) {
	s := open(t, Config{})
	storetest.TestEngine(t, engine{s})
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
		require.Equal(t, want, unavailable(t.Context(), err), state)
	}
	require.False(t, unavailable(t.Context(), nil))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, unavailable(ended, nil))
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

func TestPatchChunks(t *testing.T) {
	s := open(t, Config{})
	storetest.TestPatchChunks(t, s, engine{s}, &dialect)
}
