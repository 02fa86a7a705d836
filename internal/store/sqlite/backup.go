// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"assay"
	"assay/internal/store/inspect"
)

// BackupConfig configures Backup.
type BackupConfig struct {
	Path     string   // of the store; other processes may have it open
	To       string   // the file to create, in an existing directory
	Replace  bool     // replace an existing file; without it, an existing file is assay.CodeConflict
	Progress Progress // may be nil
}

// Backup copies a store of any schema version to a single file. When Backup returns, the
// file is consistent, checked, synced to disk and readable by its owner only; before
// that, the file does not exist. The backup contains keys, as the store does. Backup does
// not block writers.
func Backup(ctx context.Context, c BackupConfig) (inspect.Schema, error) {
	var none inspect.Schema
	if err := checkTarget(c.Path, c.To, c.Replace); err != nil {
		return none, err
	}
	if _, err := os.Stat(c.Path); err != nil {
		return none, err
	}
	held, err := lock(c.Path, false)
	if err != nil {
		return none, err
	}
	defer held.Close()
	db, err := openDB(c.Path, url.Values{"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())}, "_query_only": {"on"}}, 1)
	if err != nil {
		return none, err
	}
	defer db.Close()
	schema, err := inspectFile(ctx, db, c.Path)
	if err != nil {
		return none, err
	}
	copied, err := copyDatabase(ctx, db, c.To, c.Progress)
	if err != nil {
		return none, err
	}
	if err := copied.rename(c.Replace); err != nil {
		return none, errors.Join(err, copied.remove())
	}
	return schema, nil
}

// checkTarget reports early an error that would otherwise occur at the end.
func checkTarget(from, to string, replace bool) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal", lockSuffix} {
		if filepath.Base(to) == filepath.Base(from)+suffix && sameFile(filepath.Dir(to), filepath.Dir(from)) {
			return assay.Errorf(assay.CodeInvalid, "%s is a part of the store to copy", to)
		}
	}
	info, err := os.Stat(to)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return assay.Errorf(assay.CodeInvalid, "%s is not a file", to)
	}
	if sameFile(from, to) {
		return assay.Errorf(assay.CodeInvalid, "%s is the file to copy", to)
	}
	if !replace {
		return errExists(to)
	}
	return nil
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// RestoreConfig configures Restore.
type RestoreConfig struct {
	From     string   // a file that Backup created, or any complete copy of a store
	Path     string   // of the store; Restore creates its directory if it is missing
	Replace  bool     // replace an existing store; without it, an existing store is assay.CodeConflict
	Progress Progress // may be nil
}

// Restore replaces a store with a copy of a backup, atomically: after a failure, either
// the former store or the backup is in place. It does not migrate the schema. Root cannot
// restore to a directory of another user: the error is assay.CodeInvalid. If the file is not an assay store, the
// error is assay.CodeInvalid. If this program does not support its schema, the error is
// an *inspect.SchemaError. If any process has the store open, the error is
// assay.CodeConflict. Restore can replace a damaged store.
func Restore(ctx context.Context, c RestoreConfig) (inspect.Schema, error) {
	var none inspect.Schema
	if err := checkTarget(c.From, c.Path, c.Replace); err != nil {
		return none, err
	}
	if _, err := os.Stat(c.From); err != nil {
		return none, err
	}
	db, err := openDB(c.From, url.Values{"mode": {"ro"}, "_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())}}, 1)
	if err != nil {
		return none, err
	}
	defer db.Close()
	schema, err := inspectFile(ctx, db, c.From)
	if err != nil {
		return none, err
	}
	if err := schema.Check(); err != nil && schema.Version > schema.Known {
		return none, fmt.Errorf("%s: %w", c.From, err)
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
		return none, err
	}
	switch other, err := foreign(filepath.Dir(c.Path)); {
	case err != nil:
		return none, err
	case other:
		return none, assay.Errorf(assay.CodeInvalid, "%s belongs to another user, who could redirect what root writes there; restore as that user", filepath.Dir(c.Path))
	}
	held, err := lock(c.Path, true)
	if err != nil {
		return none, err
	}
	defer held.Close()
	if err := retire(ctx, c.Path); err != nil {
		return none, err
	}
	copied, err := copyDatabase(ctx, db, c.Path, c.Progress)
	if err != nil {
		return none, err
	}
	if err := replace(ctx, copied, c.Replace); err != nil {
		return none, errors.Join(err, copied.remove())
	}
	return schema, nil
}

// replace moves a copy to the path of a store.
func replace(ctx context.Context, copied *partial, there bool) error {
	// Retire it again: a program that ignores the lock may have opened the store.
	if err := retire(ctx, copied.to); err != nil {
		return err
	}
	return copied.rename(there)
}

// retire merges the write-ahead log of a store into its file, so that a rename can
// replace the store: SQLite would apply a remaining log to the new file. If the file is
// damaged or missing, retire does not merge.
func retire(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err == nil {
		db, err := openDB(path, url.Values{"_busy_timeout": {"100"}, "_synchronous": {"FULL"}}, 1)
		if err != nil {
			return err
		}
		err = errors.Join(leaveWAL(ctx, db), db.Close())
		if busy(err) {
			return assay.Errorf(assay.CodeConflict, "sqlite: %s is in use; stop the servers first", path)
		}
		if err != nil && !damaged(err) {
			return fmt.Errorf("sqlite: put %s away: %w", path, err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return removeAll(path+"-wal", path+"-shm", path+"-journal")
}
