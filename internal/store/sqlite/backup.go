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

// BackupConfig says what Backup copies.
type BackupConfig struct {
	Path     string   // of the store; any process may have it open
	To       string   // the file to make, in a directory that exists
	Replace  bool     // a file that is there already; otherwise it is assay.CodeConflict
	Progress Progress // may be nil
}

// Backup copies a store, of whatever version its schema is, to one file that is consistent,
// checked, on disk and readable by its owner alone when Backup returns; before that there is
// no such file. It holds keys as the store does. Writers are not held up.
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

// checkTarget says early what would fail at the end.
func checkTarget(from, to string, replace bool) error {
	info, err := os.Stat(to)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return assay.Errorf(assay.CodeInvalid, "%s is not a file", to)
	}
	if source, err := os.Stat(from); err == nil && os.SameFile(source, info) {
		return assay.Errorf(assay.CodeInvalid, "%s is the file that is copied", to)
	}
	if !replace {
		return errExists(to)
	}
	return nil
}

// RestoreConfig says what Restore puts where.
type RestoreConfig struct {
	From     string   // a file that Backup made, or any whole copy of a store
	Path     string   // of the store; its directory is made if need be
	Replace  bool     // a store that is there already; otherwise it is assay.CodeConflict
	Progress Progress // may be nil
}

// Restore puts a copy of a backup in the place of a store, at once: whatever happens, there
// is the former store or the backup. The schema is as old as it was, so the store may have to be
// migrated. The store belongs to whom the directory belongs to. A file that is not a store of assay is assay.CodeInvalid, one with a schema that this
// program cannot work with an *inspect.SchemaError, a store that any process has open
// assay.CodeConflict; a store that is damaged can be replaced.
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

// replace puts a copy in the place of a store.
func replace(ctx context.Context, copied *partial, there bool) error {
	if err := giveTo(copied.path, filepath.Dir(copied.to)); err != nil {
		return err
	}
	// Again: somebody may have looked at the store with a program that knows no lock.
	if err := retire(ctx, copied.to); err != nil {
		return err
	}
	return copied.rename(there)
}

// retire makes the file of a store all there is of it, so that it can be replaced by
// renaming: a write-ahead log that stays would be taken for one of the new file. Where the file
// is damaged or missing, there is nothing to fold the log into.
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
