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

// Progress is told how much of a copy is done, in bytes. It is called a few times a
// second at most, by the goroutine that copies.
type Progress func(done, total int64)

// copyStep is how many pages are copied before the context is looked at: 16 MiB. Tests
// make it smaller.
var copyStep int32 = 4096

// copyDatabase copies a database, as it is at one moment, to a new file beside to, which
// is whole, checked and on disk when it returns. The caller renames the file or removes it.
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

// copyPages copies page by page. The transaction that reads holds on to one state of
// the database: without it the copy would begin anew whenever another process commits.
// Writers are not held up, but the write-ahead log cannot be reused before it ends.
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
		// The file is nobody's before it is renamed: what is half written is thrown away.
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

// seal makes a copy one file that needs no other beside it, and checks every page of it.
// Whether each index has what its table has is left out: it takes fifteen times as long.
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

// leaveWAL folds the write-ahead log into the file and has none any more. That fails with
// SQLITE_BUSY while somebody else has the database open.
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

// damaged tells whether an error says that a file is no database or a broken one.
func damaged(err error) bool {
	var driver *sqlite.Error
	if !errors.As(err, &driver) {
		return false
	}
	code := driver.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// partial is a file that is being written beside the one that it shall be, readable by its
// owner alone.
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

// remove removes the file, and what SQLite may have left beside it.
func (p *partial) remove() error {
	return removeAll(p.path, p.path+"-journal", p.path+"-wal", p.path+"-shm")
}

// rename gives the file its name. A file of that name is replaced or an error.
func (p *partial) rename(replace bool) error {
	if !replace {
		// A link never replaces, but not every file system has links.
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

// removeAll removes the files that there are.
func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// syncFile writes a file to disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir writes to disk that a file has its name, where directories can be opened.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrInvalid) {
		err = nil // Windows, and file systems that do it by themselves
	}
	return errors.Join(err, d.Close())
}
