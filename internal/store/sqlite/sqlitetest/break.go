// SPDX-License-Identifier: Apache-2.0

package sqlitetest

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"assay/internal/store/inspect"
)

// Hide renames tables of the store in a file, which may be in use. Until the returned
// function restores them, statements that use them fail, also when retried.
func Hide(ctx context.Context, path string, tables ...string) (restore func(context.Context) error, err error) {
	rename := func(ctx context.Context, from, to string) error {
		db, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=10000&_legacy_alter_table=1")
		if err != nil {
			return fmt.Errorf("sqlitetest: open %s: %w", path, err)
		}
		defer db.Close()
		for _, t := range tables {
			if _, err := db.ExecContext(ctx, fmt.Sprintf(`ALTER TABLE %q RENAME TO %q`, from+t, to+t)); err != nil {
				return fmt.Errorf("sqlitetest: rename %s: %w", t, err)
			}
		}
		return nil
	}
	const away = "away_"
	if err := rename(ctx, "", away); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return rename(ctx, away, "") }, nil
}

// Upgrade changes the schema version of the store in a file to that of a newer program.
// Nothing else changes.
func Upgrade(ctx context.Context, path string, version, compatibleSince int64) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=10000")
	if err != nil {
		return fmt.Errorf("sqlitetest: open %s: %w", path, err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`, version); err != nil {
		return fmt.Errorf("sqlitetest: write the schema version: %w", err)
	}
	if _, err := db.ExecContext(ctx, `UPDATE memory SET value = ? WHERE name = ?`, compatibleSince, inspect.CompatibleSince); err != nil {
		return fmt.Errorf("sqlitetest: write the compatible version: %w", err)
	}
	return nil
}
