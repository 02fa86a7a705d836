// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"assay"
	"assay/internal/store/inspect"
	"assay/internal/store/migrations"
)

const (
	minVersion     = 13_00_00     // of the server, as in server_version_num
	migrationLock  = 0x6173736179 // key of the advisory lock: "assay" in ASCII
	migrateRetries = 30
	migratePause   = time.Second
)

// migrate migrates the schema, or only checks it.
func (s *Store) migrate(ctx context.Context, apply bool) error {
	dir, err := fs.Sub(migrations.Postgres, "postgres")
	if err != nil {
		return fmt.Errorf("postgres: read migrations: %w", err)
	}
	// Use a connection outside the pool, which may have only one.
	db := stdlib.OpenDB(*s.pool.Config().ConnConfig)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir,
		goose.WithSlog(slog.New(slog.DiscardHandler)), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("postgres: read migrations: %w", err)
	}
	sources := p.ListSources()
	s.known = sources[len(sources)-1].Version

	schema, err := s.checkServer(ctx)
	if err != nil {
		return err
	}
	err = schema.Check()
	if unfit, ok := errors.AsType[*inspect.SchemaError](err); !apply || !ok || !unfit.Older() {
		return err
	}
	return s.migrateAlone(ctx, p)
}

// checkServer checks that the server is supported and returns the schema version.
func (s *Store) checkServer(ctx context.Context) (schema inspect.Schema, err error) {
	var server int
	var encoding, version string
	err = s.view(ctx, lookups, "read the schema version", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'), version()`).Scan(&server, &encoding, &version); err != nil {
			return err
		}
		schema, err = s.readSchema(ctx, tx)
		return err
	})
	switch {
	case err != nil:
		return schema, err
	case server < minVersion:
		return schema, assay.Errorf(assay.CodeInvalid, "postgres: the server has version %d.%d, this program needs %d", server/10000, server%10000, minVersion/10000)
	case encoding != "UTF8":
		return schema, assay.Errorf(assay.CodeInvalid, "postgres: the database has the encoding %s; make one with UTF8", encoding)
	}
	if strings.Contains(version, "linux") { // other platforms log an error for each setting
		s.whileSending = `; set local tcp_user_timeout = ` + milliseconds(sendTimeout)
	}
	return schema, nil
}

// readSchema returns the schema version. to_regclass also finds tables that another process
// has created since the snapshot of tx: they are empty, so the version is 0 as without them.
func (s *Store) readSchema(ctx context.Context, tx pgx.Tx) (inspect.Schema, error) {
	schema := inspect.Schema{Known: s.known}
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL AND to_regclass('memory') IS NOT NULL`).Scan(&exists); err != nil || !exists {
		return schema, err
	}
	err := tx.QueryRow(ctx, `SELECT (SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied), coalesce((SELECT value FROM memory WHERE name = $1), 0)`,
		inspect.CompatibleSince).Scan(&schema.Version, &schema.CompatibleSince)
	return schema, err
}

// Schema returns the schema version. Another process may have migrated the store since it
// was opened.
func (s *Store) Schema(ctx context.Context) (schema inspect.Schema, err error) {
	err = s.view(ctx, lookups, "read the schema version", func(tx pgx.Tx) error {
		schema, err = s.readSchema(ctx, tx)
		return err
	})
	return schema, err
}

// migrateAlone migrates while it holds the migration lock. The lock belongs to a
// transaction: a pooler keeps a transaction, unlike a session, on one connection.
func (s *Store) migrateAlone(ctx context.Context, p *goose.Provider) error {
	const begin = `begin; set local statement_timeout = 0; set local lock_timeout = 0; set local idle_in_transaction_session_timeout = 0`
	return s.repeat(ctx, "migrate the schema", func(conn *pgx.Conn) (bool, error) {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
		if err != nil {
			return true, err
		}
		defer rollback(ctx, conn) // it has changed nothing
		if err := s.lockMigrations(ctx, tx); err != nil {
			return true, err
		}
		schema, err := s.readSchema(ctx, tx)
		if err != nil || schema.Version >= schema.Known {
			return true, errors.Join(err, schema.Check())
		}
		s.logger.InfoContext(ctx, "postgres: migrating the schema", "from", schema.Version, "to", schema.Known)
		return true, up(ctx, p)
	})
}

// lockMigrations waits until no other process migrates or ctx ends. It logs that it
// waits.
func (s *Store) lockMigrations(ctx context.Context, tx pgx.Tx) error {
	var locked bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(migrationLock)).Scan(&locked); err != nil || locked {
		return err
	}
	s.logger.InfoContext(ctx, "postgres: another process migrates the schema; waiting for its end")
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock))
	return err
}

// up applies migrations. Each migration waits for its locks only briefly, so that running
// replicas do not queue behind it for long.
func up(ctx context.Context, p *goose.Provider) error {
	for try := 1; ; try++ {
		_, err := p.Up(ctx)
		if stateOf(err) != lockNotAvailable || try == migrateRetries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(migratePause):
		}
	}
}
