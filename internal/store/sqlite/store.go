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
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"assay"
	"assay/internal/fair"
	"assay/internal/store/inspect"
	"assay/internal/store/lane"
)

const (
	busyTimeout    = 4 * time.Second // how long another process may hold the write lock
	readers        = 10              // connections that read, each when it is needed; see lane.New
	writerCache    = 8 << 10         // page cache of the writing connection, KiB
	readerCache    = 2 << 10         // page cache of each reading connection, KiB
	walKept        = 32 << 20        // bytes of write-ahead log kept on disk for reuse
	migrateRetries = 20              // while another process creates the schema
)

// Config says which file to open, and how.
type Config struct {
	// Path of the database file, made when it is missing. Empty means a
	// temporary file that Close deletes and that is not synced to disk.
	Path string
	// Migrate applies missing migrations. Without it an older schema is an error.
	Migrate bool
	// Now returns the time for what is stamped without a time given. Default
	// time.Now.
	Now func() time.Time
}

// Store is a SQLite database. It is safe for concurrent use.
type Store struct {
	w, r   *sql.DB
	turn   *fair.Semaphore // of those that write
	reads  *lane.Lanes     // of those that read
	now    func() time.Time
	commit [statementCount]*sql.Stmt
	path   string
	temp   string   // directory to delete, "" for a file that stays
	known  int64    // newest version of the schema that this program knows
	lock   *os.File // nil: none is needed
	closed atomic.Bool
}

// Open opens the store and brings its schema up to date, as c says. A schema that this
// program cannot work with is an *inspect.SchemaError.
func Open(ctx context.Context, c Config) (*Store, error) {
	s := &Store{now: c.Now, path: c.Path, turn: fair.NewSemaphore(1, 1), reads: lane.New(readers)}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.open(ctx, c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, c Config) error {
	if c.Path == "" {
		dir, err := os.MkdirTemp("", "assay-")
		if err != nil {
			return fmt.Errorf("sqlite: make a temporary directory: %w", err)
		}
		s.temp, s.path = dir, filepath.Join(dir, "assay.db")
		c.Migrate = true
	}
	path, err := filepath.Abs(s.path)
	if err != nil {
		return fmt.Errorf("sqlite: find %s: %w", s.path, err)
	}
	s.path = path
	if err := createFile(path); err != nil {
		return err
	}

	synchronous := "FULL"
	if s.temp != "" {
		synchronous = "OFF"
	}
	if s.temp == "" {
		if s.lock, err = lock(path, false); err != nil {
			return err
		}
	}
	common := url.Values{
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_foreign_keys": {"on"},
		"_synchronous":  {synchronous},
		"_dqs":          {"0"},
	}
	w, r := clone(common), clone(common)
	w.Set("_journal_mode", "WAL")
	w.Set("_txlock", "immediate")
	w["_pragma"] = []string{fmt.Sprintf("cache_size(-%d)", writerCache), fmt.Sprintf("journal_size_limit(%d)", walKept)}
	r.Set("_query_only", "on")
	r["_pragma"] = []string{fmt.Sprintf("cache_size(-%d)", readerCache)}

	if s.w, err = openDB(path, w, 1); err != nil {
		return err
	}
	if err := s.migrate(ctx, c.Migrate); err != nil {
		return err
	}
	if s.r, err = openDB(path, r, readers); err != nil {
		return err
	}
	for i, q := range statements {
		if s.commit[i], err = s.w.PrepareContext(ctx, q); err != nil {
			return s.fail(ctx, fmt.Sprintf("prepare statement %d", i), err)
		}
	}
	return s.Ping(ctx)
}

// createFile makes the file, readable by its owner alone since it holds hashes
// of keys; SQLite gives its other files the same mode.
func createFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return assay.Errorf(assay.CodeUnavailable, "sqlite: make the data directory: %w", err)
	}
	f, err := openOwned(path)
	if err != nil {
		return assay.Errorf(assay.CodeUnavailable, "sqlite: open the file: %w", err)
	}
	return f.Close()
}

func openDB(path string, params url.Values, conns int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", fileURI(path, params))
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// fileURI names a file to SQLite.
func fileURI(path string, params url.Values) string {
	slashed := filepath.ToSlash(path)
	if abs, err := filepath.Abs(path); err == nil {
		slashed = filepath.ToSlash(abs)
	}
	if !strings.HasPrefix(slashed, "/") { // a drive of Windows
		slashed = "/" + slashed
	}
	name := url.URL{Scheme: "file", Path: slashed, RawQuery: params.Encode()}
	return name.String()
}

func clone(v url.Values) url.Values {
	c := make(url.Values, len(v))
	for k, vs := range v {
		c[k] = vs
	}
	return c
}

// migrate brings the schema up to date, or only checks it.
func (s *Store) migrate(ctx context.Context, apply bool) error {
	p, err := newProvider(s.w)
	if err != nil {
		return err
	}
	s.known = known(p)
	// Another process may be doing the same; whoever comes second finds the
	// tables made and looks again.
	for try := 1; ; try++ {
		err := s.migrateOnce(ctx, p, apply)
		if err == nil || try == migrateRetries || ctx.Err() != nil || !contended(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// busy tells whether somebody else has what is needed.
func busy(err error) bool {
	var driver *sqlite.Error
	return errors.As(err, &driver) && (driver.Code()&0xff == sqlite3.SQLITE_BUSY || driver.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// contended tells whether a migration failed in a way that another process doing
// the same explains: the lock is taken, or what it makes is there already.
func contended(err error) bool {
	var driver *sqlite.Error
	if !errors.As(err, &driver) {
		return false
	}
	switch driver.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA:
		return true
	default:
		return false
	}
}

func (s *Store) migrateOnce(ctx context.Context, p *goose.Provider, apply bool) error {
	schema, err := readSchema(ctx, s.w, s.known)
	if err != nil {
		return s.fail(ctx, "read the schema version", err)
	}
	err = schema.Check()
	var unfit *inspect.SchemaError
	if !apply || !errors.As(err, &unfit) || !unfit.Older() {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return s.fail(ctx, fmt.Sprintf("migrate the schema from version %d to %d", schema.Version, schema.Known), err)
	}
	return nil
}

// Close closes the store. Calls under way fail or end first. It may be called again.
func (s *Store) Close() error {
	s.closed.Store(true)
	var errs []error
	for _, st := range s.commit {
		if st != nil {
			errs = append(errs, st.Close())
		}
	}
	// The writer goes last: its closing folds the write-ahead log into the file.
	for _, db := range []*sql.DB{s.r, s.w} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		if err := s.lock.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.temp != "" {
		errs = append(errs, os.RemoveAll(s.temp))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// Ping tells whether the store can be read and written, which it does: CodeUnavailable
// when not.
func (s *Store) Ping(ctx context.Context) error {
	return s.update(ctx, lane.Lookups, "ping", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory (name, value) VALUES ('ping', ?) ON CONFLICT DO UPDATE SET value = excluded.value`, micros(s.now()))
		return err
	})
}

// update runs do in a transaction that holds the write lock from its start. Lanes take
// turns, and in each of them organizations.
func (s *Store) update(ctx context.Context, l lane.Lane, what string, do func(*sql.Tx) error) error {
	key := lane.Key(ctx, l)
	if err := s.turn.Acquire(ctx, key); err != nil {
		return s.fail(ctx, what, err)
	}
	defer s.turn.Release(key)
	return s.transact(ctx, s.w, nil, what, do)
}

// view runs do in a transaction of a lane that reads from one snapshot.
func (s *Store) view(ctx context.Context, l lane.Lane, what string, do func(*sql.Tx) error) error {
	leave, err := s.reads.Enter(ctx, l)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	defer leave()
	return s.transact(ctx, s.r, &sql.TxOptions{ReadOnly: true}, what, do)
}

// query runs do in a lane, for one statement that reads.
func (s *Store) query(ctx context.Context, l lane.Lane, what string, do func(*sql.DB) error) error {
	leave, err := s.reads.Enter(ctx, l)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	defer leave()
	if err := do(s.r); err != nil {
		return s.fail(ctx, what, err)
	}
	return nil
}

// row is a row that a query found.
type row interface{ Scan(...any) error }

// one reads the row that a query finds: missing() where there is none.
func one[T any](ctx context.Context, s *Store, l lane.Lane, what string, missing func() error, of func(row) (*T, error), query string, args ...any) (*T, error) {
	var found *T
	err := s.query(ctx, l, what, func(db *sql.DB) (err error) {
		found, err = of(db.QueryRowContext(ctx, query, args...))
		if errors.Is(err, sql.ErrNoRows) {
			err = missing()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (s *Store) transact(ctx context.Context, db *sql.DB, opts *sql.TxOptions, what string, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error is the one that tells
		return s.fail(ctx, what, err)
	}
	if err := tx.Commit(); err != nil {
		return s.fail(ctx, what, err)
	}
	return nil
}

// fail turns an error into one of the domain: errors of the domain stay, what
// may pass is CodeUnavailable. Messages of SQLite name tables and columns, no
// values.
func (s *Store) fail(ctx context.Context, what string, err error) error {
	var domain *assay.Error
	var driver *sqlite.Error
	switch {
	case errors.As(err, &domain):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("sqlite: %s: %w", what, context.Cause(ctx))
	case s.closed.Load():
		return assay.Errorf(assay.CodeUnavailable, "sqlite: %s: the store is closed: %w", what, err)
	case errors.As(err, &driver) && passing(driver.Code()):
		return assay.Errorf(assay.CodeUnavailable, "sqlite: %s: %w", what, err)
	default:
		return fmt.Errorf("sqlite: %s: %w", what, err)
	}
}

// passing tells whether an error may be gone when tried again later.
func passing(code int) bool {
	switch code & 0xff { // the rest says more of the same
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return true
	default:
		return false
	}
}

// taken tells whether err says that a unique value is taken.
func taken(err error) bool {
	var driver *sqlite.Error
	if !errors.As(err, &driver) {
		return false
	}
	code := driver.Code()
	return code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// micros is how a time is stored: microseconds since 1970, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timeOf is the inverse of micros.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// stored returns t as it will be read back.
func stored(t time.Time) time.Time { return timeOf(micros(t)) }

// blobOf returns the 16 bytes of a UUID, nil for anything else: such an id
// matches no row.
func blobOf(id string) []byte {
	if len(id) != 36 {
		return nil
	}
	u, err := uuid.Parse(id)
	if err != nil {
		return nil
	}
	return u[:]
}

// idOf is the inverse of blobOf.
func idOf(blob []byte) string {
	u, err := uuid.FromBytes(blob)
	if err != nil {
		return ""
	}
	return u.String()
}

// each runs scan for every row and closes rows.
func each(rows *sql.Rows, err error, scan func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
