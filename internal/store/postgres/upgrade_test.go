// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/migrations"
	"assay/internal/store/storetest"
)

// TestUpgradeOfHashes migrates a database with unkeyed hashes.
func TestUpgradeOfHashes(t *testing.T) {
	url, err := server.NewDatabase(t.Context())
	require.NoError(t, err)
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	dir, err := fs.Sub(migrations.Postgres, "postgres")
	require.NoError(t, err)
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir)
	require.NoError(t, err)
	_, err = p.UpTo(t.Context(), 3)
	require.NoError(t, err)
	id := func(name string) string {
		return delta.ServiceID(storetest.OldOrganization, assay.ServiceKey{Name: name})
	}
	tally := new(codec.Tally)
	tally.Usage[delta.Metrics] = delta.Usage{Items: 3, Bytes: 300}
	last := int64(storetest.OldBucket)
	day := setsTable.of(last)
	number := func(r catalog.Rule) int64 { return int64(codec.RuleNumber(r)) }
	const oldClaims = `INSERT INTO claims (svc, rule, key, value, last, org, key_text, value_text, written_at) VALUES
			(1, $1, 77, 10, $3, 1, 'metric 77', 'unit 10', 0), (2, $1, 77, 11, $3, 1, 'metric 77', 'unit 11', 0),
			(1, $2, 1, 20000, $3, 1, '', '', 0), (1, $2, 1, 20001, $3, 1, '', '', 0)`
	for _, q := range []struct {
		insert string
		args   []any
	}{
		{`INSERT INTO organizations (id, name, tier, created_at) VALUES ($1, 'acme', 'free', 1)`, []any{storetest.OldOrganization}},
		{`INSERT INTO services (id, org, namespace, name, environment, version, first_seen_at, last_seen_at, created_at, updated_at, revision, tally)
			VALUES ($1, 1, '', 'a', '', '', 1, 1, 1, 1, 1, $2), ($3, 1, '', 'b', '', '', 1, 1, 1, 1, 1, '')`, []any{id("a"), tally.AppendBinary(nil), id("b")}},
		{oldClaims, []any{number(catalog.MET003), number(catalog.LOG001), last}},
		{fmt.Sprintf(`CREATE TABLE %s PARTITION OF distinct_sets FOR VALUES FROM (%d) TO (%d)`, day.name(), day.from(), day.next().from()), nil},
		{
			`INSERT INTO distinct_sets (hour, svc, rule, key, last, is_full, written_at, members) VALUES ($3, 1, $1, 0, $3, false, 1, $4), ($3, 1, $2, 0, $3, false, 1, $4)`,
			[]any{number(catalog.SPA003), number(catalog.MET001), last, storetest.OldSet()},
		},
		{`INSERT INTO series (svc, oldest, n, facts) VALUES (1, $1, 3, $2)`, []any{last, storetest.OldSeries()}},
	} {
		_, err := db.ExecContext(t.Context(), q.insert, q.args...)
		require.NoError(t, err, q.insert)
	}
	s, err := Open(t.Context(), Config{URL: url, Migrate: true})
	require.NoError(t, err)
	defer s.Close()
	// A replica of the previous version continues.
	_, err = db.ExecContext(t.Context(), `INSERT INTO claims (svc, rule, key, value, last, org, key_text, value_text, written_at) VALUES (1, $1, 2, 20000, $2, 1, '', '', 0)`,
		number(catalog.LOG001), last)
	require.NoError(t, err)
	storetest.TestUpgraded(t, s)
}
