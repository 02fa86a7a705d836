// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"

	"assay"
	"assay/internal/store/connpool"
	"assay/internal/store/inspect"
	"assay/internal/store/migrations"
)

// newProvider returns the provider of this program's migrations.
func newProvider(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(migrations.SQLite, "sqlite")
	if err != nil {
		return nil, fmt.Errorf("sqlite: read migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir,
		goose.WithSlog(slog.New(slog.DiscardHandler)), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("sqlite: read migrations: %w", err)
	}
	return p, nil
}

// known returns the newest schema version of a provider.
func known(p *goose.Provider) int64 {
	sources := p.ListSources()
	return sources[len(sources)-1].Version
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// readSchema returns the schema version of a file.
func readSchema(ctx context.Context, q querier, known int64) (inspect.Schema, error) {
	s := inspect.Schema{Known: known}
	var tables int
	// A new or incomplete file may have only one of the two tables.
	err := q.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('goose_db_version', 'memory')`).Scan(&tables)
	if err != nil || tables < 2 {
		return s, err
	}
	if err := q.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&s.Version); err != nil {
		return s, err
	}
	err = q.QueryRowContext(ctx, `SELECT value FROM memory WHERE name = ?`, inspect.CompatibleSince).Scan(&s.CompatibleSince)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return s, err
}

// Schema returns the schema version. Another process may have migrated the store since it
// was opened.
func (s *Store) Schema(ctx context.Context) (schema inspect.Schema, err error) {
	err = s.view(ctx, connpool.Lookups, "read the schema version", func(tx *sql.Tx) error {
		schema, err = readSchema(ctx, tx, s.known)
		return err
	})
	return schema, err
}

// inspectFile returns the schema version of an arbitrary database. If it is not an assay
// store, the error is assay.CodeInvalid.
func inspectFile(ctx context.Context, db *sql.DB, path string) (inspect.Schema, error) {
	p, err := newProvider(db)
	if err != nil {
		return inspect.Schema{}, err
	}
	schema, err := readSchema(ctx, db, known(p))
	if err == nil && schema.Version > 0 {
		var ours int
		err = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('organizations', 'api_keys', 'services', 'hours')`).Scan(&ours)
		if err == nil && ours == 4 {
			return schema, nil
		}
	}
	if err != nil && !damaged(err) {
		return inspect.Schema{}, fmt.Errorf("sqlite: read %s: %w", path, err)
	}
	return inspect.Schema{}, &assay.Error{Code: assay.CodeInvalid, Message: path + " is not a store of assay", Err: err}
}
