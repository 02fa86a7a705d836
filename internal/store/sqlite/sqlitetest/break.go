// SPDX-License-Identifier: Apache-2.0

package sqlitetest

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"assay/internal/store/inspect"
)

// Hide takes tables away from the store in a file, which may be in use: whatever
// reads them fails from then on, in a way that no second try mends. The function
// that it returns puts them back.
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

// Upgrade makes the store in a file one that a newer program has migrated to a version,
// for programs that know a version or a newer one. Nothing else of it changes.
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
		return fmt.Errorf("sqlitetest: write who is compatible: %w", err)
	}
	return nil
}
