// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"assay"
)

// Progress receives the number of bytes copied and the total. The copying goroutine calls
// it a few times a second at most.
type Progress func(done, total int64)

// copyStep is the number of pages between two checks of the context: 16 MiB. Tests set a
// smaller value.
var copyStep int32 = 4096

// copyDatabase copies one snapshot of a database to a new file in the directory of to.
// When it returns, the copy is complete, checked and synced to disk. The caller renames
// or removes the file.
func copyDatabase(ctx context.Context, from *sql.DB, to string, progress Progress) (_ *partial, err error) {
	p, err := newPartial(to)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	if err := copyPages(ctx, from, p.path, progress); err != nil {
		return nil, fmt.Errorf("sqlite: copy to %s: %w", p.path, err)
	}
	if err := seal(ctx, p.path); err != nil {
		return nil, fmt.Errorf("sqlite: check the copy %s: %w", p.path, err)
	}
	if err := syncFile(p.path); err != nil {
		return nil, err
	}
	return p, nil
}

// copyPages copies page by page, in a read transaction that holds one snapshot. Without
// the transaction, the copy would restart whenever another process commits. It does not
// block writers, but SQLite cannot reuse the write-ahead log until the transaction ends.
func copyPages(ctx context.Context, from *sql.DB, to string, progress Progress) error {
	conn, err := from.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `BEGIN`); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`) //nolint:errcheck // it has written nothing
	var tables int
	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	return conn.Raw(func(driver any) error {
		source, ok := driver.(interface {
			NewBackup(uri string) (*sqlite.Backup, error)
		})
		if !ok {
			return fmt.Errorf("the driver's %T cannot copy", driver)
		}
		// Use no journal and no sync: the caller removes an incomplete file.
		b, err := source.NewBackup(fileURI(to, url.Values{"_pragma": {"journal_mode(OFF)", "synchronous(OFF)"}}))
		if err != nil {
			return err
		}
		return errors.Join(step(ctx, b, progress), b.Finish())
	})
}

func step(ctx context.Context, b *sqlite.Backup, progress Progress) error {
	const page = 4096 // bytes: SQLite's default, which the store does not change
	for {
		more, err := b.Step(copyStep)
		if err != nil {
			return err
		}
		if progress != nil {
			progress(int64(b.PageCount()-b.Remaining())*page, int64(b.PageCount())*page)
		}
		if !more {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
}

// seal makes a copy independent of other files and checks each of its pages. It does not
// compare indexes with tables, which would take fifteen times as long.
func seal(ctx context.Context, path string) error {
	db, err := openDB(path, url.Values{"_synchronous": {"OFF"}}, 1)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := leaveWAL(ctx, db); err != nil {
		return err
	}
	var problem string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&problem); err != nil {
		return err
	}
	if problem != "ok" {
		return fmt.Errorf("the database is damaged: %s", problem)
	}
	return db.Close()
}

// leaveWAL merges the write-ahead log into the file and disables it. While another
// process has the database open, it fails with SQLITE_BUSY.
func leaveWAL(ctx context.Context, db *sql.DB) error {
	var mode string
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode = DELETE`).Scan(&mode); err != nil {
		return err
	}
	if mode != "delete" {
		return fmt.Errorf("the journal mode stays %s", mode)
	}
	return nil
}

// damaged reports whether an error means that the file is damaged or not a database.
func damaged(err error) bool {
	code := codeOf(err) & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// partial is an incomplete file in the directory of its final path, readable by its owner
// only.
type partial struct{ path, to string }

func newPartial(to string) (*partial, error) {
	f, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*.partial")
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	return &partial{f.Name(), to}, nil
}

// remove removes the file and the files that SQLite may have left next to it.
func (p *partial) remove() error {
	return removeAll(p.path, p.path+"-journal", p.path+"-wal", p.path+"-shm")
}

// rename moves the file to its final path. If a file exists there, rename replaces it or
// fails.
func (p *partial) rename(replace bool) error {
	if !replace {
		// A link never replaces a file, but not every file system supports links.
		switch err := os.Link(p.path, p.to); {
		case err == nil:
			return errors.Join(os.Remove(p.path), syncDir(p.to))
		case errors.Is(err, os.ErrExist):
			return errExists(p.to)
		}
		if _, err := os.Lstat(p.to); err == nil {
			return errExists(p.to)
		}
	}
	if err := os.Rename(p.path, p.to); err != nil {
		return err
	}
	return syncDir(p.to)
}

func errExists(path string) error {
	return &assay.Error{Code: assay.CodeConflict, Message: path + " exists already", Err: os.ErrExist}
}

// removeAll removes the files that exist.
func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// syncFile syncs a file to disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir syncs a directory to disk, if the platform can open directories.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrInvalid) {
		err = nil // not supported by Windows and by file systems that sync implicitly
	}
	return errors.Join(err, d.Close())
}
