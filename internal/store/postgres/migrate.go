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
	migrationLock  = 0x6173736179 // key of the advisory lock; says "assay"
	migrateRetries = 30
	migratePause   = time.Second
)

// migrate brings the schema up to date, or only checks it.
func (s *Store) migrate(ctx context.Context, apply bool) error {
	dir, err := fs.Sub(migrations.Postgres, "postgres")
	if err != nil {
		return fmt.Errorf("postgres: read migrations: %w", err)
	}
	// Beside the pool, which may have a single connection.
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
	var unfit *inspect.SchemaError
	if !apply || !errors.As(err, &unfit) || !unfit.Older() {
		return err
	}
	return s.migrateAlone(ctx, p)
}

// checkServer returns how far the schema is of a server that will do.
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
	if strings.Contains(version, "linux") { // others only log that they cannot
		s.whileSending = `; set local tcp_user_timeout = ` + milliseconds(sendTimeout)
	}
	return schema, nil
}

// readSchema returns how far the schema is.
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

// Schema returns how far the schema is. Another process may have migrated it since it was
// opened.
func (s *Store) Schema(ctx context.Context) (schema inspect.Schema, err error) {
	err = s.view(ctx, lookups, "read the schema version", func(tx pgx.Tx) error {
		schema, err = s.readSchema(ctx, tx)
		return err
	})
	return schema, err
}

// migrateAlone migrates while no other process does. The lock belongs to a
// transaction, which a pooler leaves to one connection, unlike a session.
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

// lockMigrations waits until no other process migrates, for as long as ctx allows, and
// says so.
func (s *Store) lockMigrations(ctx context.Context, tx pgx.Tx) error {
	var locked bool
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(migrationLock)).Scan(&locked); err != nil || locked {
		return err
	}
	s.logger.InfoContext(ctx, "postgres: another process migrates the schema; waiting for its end")
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock))
	return err
}

// up applies migrations, each of which waits for the locks it needs for a short time
// only, so that the replicas at work do not wait behind it for long.
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
