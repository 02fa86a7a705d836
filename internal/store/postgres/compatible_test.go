// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"io/fs"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"assay/internal/store/inspect"
	"assay/internal/store/migrations"
)

// TestCompatibleSince requires that every migration records the oldest compatible
// version.
func TestCompatibleSince(t *testing.T) {
	want := map[int64]int64{1: 1, 2: 1, 3: 3, 4: 3, 5: 3, 6: 3, 7: 3, 8: 3, 9: 3, 10: 3, 11: 3, 12: 3}
	url, err := server.NewDatabase(t.Context())
	require.NoError(t, err)
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	dir, err := fs.Sub(migrations.Postgres, "postgres")
	require.NoError(t, err)
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSlog(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	for _, m := range p.ListSources() {
		_, err := p.UpTo(t.Context(), m.Version)
		require.NoError(t, err)
		var since int64
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT value FROM memory WHERE name = $1`, inspect.CompatibleSince).Scan(&since))
		require.Equal(t, want[m.Version], since,
			"after migration %d: can programs that know only the version before work on the store? (package migrations says how to tell them)", m.Version)
	}

	// A newer version has migrated the store and recorded whether this version is compatible.
	sources := p.ListSources()
	known := sources[len(sources)-1].Version
	_, err = db.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)`)
	require.NoError(t, err)
	for _, since := range []int64{1, known, known + 1} {
		_, err = db.ExecContext(t.Context(), `UPDATE memory SET value = $1 WHERE name = $2`, since, inspect.CompatibleSince)
		require.NoError(t, err)
		for _, migrate := range []bool{false, true} {
			s, err := Open(t.Context(), Config{URL: url, Migrate: migrate})
			if since <= known {
				require.NoError(t, err)
				schema, err := s.Schema(t.Context())
				require.NoError(t, err)
				require.Equal(t, inspect.Schema{Version: 99, Known: known, CompatibleSince: since}, schema)
				require.NoError(t, s.Close())
				continue
			}
			var unfit *inspect.SchemaError
			require.ErrorAs(t, err, &unfit)
			require.False(t, unfit.Older())
		}
	}
}
