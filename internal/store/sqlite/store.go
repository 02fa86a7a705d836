// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"assay"
	"assay/internal/fair"
	"assay/internal/store/connpool"
	"assay/internal/store/inspect"
	"assay/internal/store/query"
)

const (
	busyTimeout    = 4 * time.Second // how long a transaction waits for another process's write lock
	readers        = 10              // reading connections, opened on demand; see connpool.New
	writerCache    = 8 << 10         // page cache of the writing connection, KiB
	readerCache    = 2 << 10         // page cache of each reading connection, KiB
	walKept        = 32 << 20        // bytes of write-ahead log kept on disk for reuse
	migrateRetries = 20              // while another process creates the schema
)

// Config configures a Store.
type Config struct {
	// Path of the database file, created if it is missing. Empty means a temporary file that
	// Close deletes and that is not synced to disk.
	Path string
	// Migrate applies missing migrations. Without it, an older schema is an error.
	Migrate bool
	// Now returns the time for rows that the caller gives no time for. Default time.Now.
	Now func() time.Time
	// MaxClaims limits the stored claims of an organization. Default query.MaxClaims.
	MaxClaims int
	// BusyTimeout limits how long a transaction waits for another process's write lock. Default 4 s.
	// SQLite polls for the lock, so a process that writes all the time can keep another one waiting.
	BusyTimeout time.Duration
	// CPU limits the pages of an organization, with its other work that uses a CPU. nil means no limit.
	CPU *fair.Semaphore
}

// Store is a SQLite database. It is safe for concurrent use.
type Store struct {
	*query.Queries
	w, r   *sql.DB
	turn   *fair.Semaphore                     // serializes writers, by pool
	pools  [connpool.Pages + 1]*fair.Semaphore // serialize the writers of a pool, by organization
	reads  *connpool.Pools                     // limits readers
	now    func() time.Time
	commit [statementCount]*sql.Stmt
	// maxClaims is Config.MaxClaims.
	maxClaims int64
	path      string
	temp      string   // directory that Close deletes; "" for a persistent file
	known     int64    // newest version of the schema that this program knows
	lock      *os.File // nil: no lock is needed
	closed    atomic.Bool
}

// Open opens the store and applies or checks the migrations, according to c. If this
// program does not support the schema, the error is an *inspect.SchemaError.
func Open(ctx context.Context, c Config) (*Store, error) {
	s := &Store{now: c.Now, path: c.Path, turn: fair.NewSemaphore(1, 1), reads: connpool.New(readers, c.CPU)}
	for l := range s.pools {
		s.pools[l] = fair.NewSemaphore(1, 1)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.maxClaims = int64(c.MaxClaims); s.maxClaims <= 0 {
		s.maxClaims = query.MaxClaims
	}
	s.Queries = query.New(engine{s}, &dialect)
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
		"_busy_timeout": {fmt.Sprint(cmp.Or(c.BusyTimeout, busyTimeout).Milliseconds())},
		"_foreign_keys": {"on"},
		"_synchronous":  {synchronous},
		"_dqs":          {"0"},
	}
	w, r := maps.Clone(common), maps.Clone(common)
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

// createFile creates the file, readable by its owner only since it holds hashes of keys.
// SQLite gives its other files the same mode.
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
	db, err := sql.Open("sqlite", fileURI(path, params)) // assay-ignore: uninstrumented-server
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// fileURI returns the SQLite URI of a file.
func fileURI(path string, params url.Values) string {
	slashed := filepath.ToSlash(path)
	if abs, err := filepath.Abs(path); err == nil {
		slashed = filepath.ToSlash(abs)
	}
	if !strings.HasPrefix(slashed, "/") { // a Windows drive
		slashed = "/" + slashed
	}
	name := url.URL{Scheme: "file", Path: slashed, RawQuery: params.Encode()}
	return name.String()
}

// migrate migrates the schema, or only checks it.
func (s *Store) migrate(ctx context.Context, apply bool) error {
	p, err := newProvider(s.w)
	if err != nil {
		return err
	}
	s.known = known(p)
	// Another process may run the same migrations. The later one fails because the tables
	// exist, and checks again.
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

// codeOf returns the result code of an error of the driver, 0 for any other error.
func codeOf(err error) int {
	if driver, ok := errors.AsType[*sqlite.Error](err); ok {
		return driver.Code()
	}
	return sqlite3.SQLITE_OK
}

// busy reports whether another connection holds a lock that the statement needs.
func busy(err error) bool {
	code := codeOf(err) & 0xff
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// contended reports whether a migration may have failed because another process ran it:
// the lock is taken, or the object exists already.
func contended(err error) bool {
	switch codeOf(err) & 0xff {
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
	if unfit, ok := errors.AsType[*inspect.SchemaError](err); !apply || !ok || !unfit.Older() {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return s.fail(ctx, fmt.Sprintf("migrate the schema from version %d to %d", schema.Version, schema.Known), err)
	}
	return nil
}

// Close closes the store. Calls in progress fail or end first. It may be called more than
// once.
func (s *Store) Close() error {
	s.closed.Store(true)
	var errs []error
	for _, st := range s.commit {
		if st != nil {
			errs = append(errs, st.Close())
		}
	}
	// Close the writer last: it merges the write-ahead log into the file.
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

// Ping checks that the store is readable and writable by writing to it. The error is
// CodeUnavailable if it is not.
func (s *Store) Ping(ctx context.Context) error {
	return s.update(ctx, connpool.Lookups, "ping", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory (name, value) VALUES ('ping', ?) ON CONFLICT DO UPDATE SET value = excluded.value`, micros(s.now()))
		return err
	})
}

// update runs do in a transaction that holds the write lock from its start. Pools take
// turns, and the organizations within a pool.
func (s *Store) update(ctx context.Context, pool connpool.Pool, what string, do func(*sql.Tx) error) error {
	// Two turns, so that a commit waits for one organization that is scored, and not for each.
	organization, own := assay.OrganizationOf(ctx), strconv.Itoa(int(pool))
	if err := s.pools[pool].Acquire(ctx, organization); err != nil {
		return s.fail(ctx, what, err)
	}
	defer s.pools[pool].Release(organization)
	if err := s.turn.Acquire(ctx, own); err != nil {
		return s.fail(ctx, what, err)
	}
	defer s.turn.Release(own)
	return s.transact(ctx, s.w, nil, what, do)
}

// view runs do in a transaction of a pool that reads from one snapshot.
func (s *Store) view(ctx context.Context, pool connpool.Pool, what string, do func(*sql.Tx) error) error {
	leave, err := s.reads.Enter(ctx, pool)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	defer leave()
	return s.transact(ctx, s.r, &sql.TxOptions{ReadOnly: true}, what, do)
}

// query runs do for a single read statement in a pool.
func (s *Store) query(ctx context.Context, pool connpool.Pool, what string, do func(*sql.DB) error) error {
	leave, err := s.reads.Enter(ctx, pool)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	defer leave()
	if err := do(s.r); err != nil {
		return s.fail(ctx, what, err)
	}
	return nil
}

func (s *Store) transact(ctx context.Context, db *sql.DB, opts *sql.TxOptions, what string, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error is the cause
		return s.fail(ctx, what, err)
	}
	if err := tx.Commit(); err != nil {
		return s.fail(ctx, what, err)
	}
	return nil
}

// fail converts an error: it keeps errors of the domain and returns CodeUnavailable for
// errors that may pass. SQLite's messages name tables and columns, but no values.
func (s *Store) fail(ctx context.Context, what string, err error) error {
	switch {
	case errors.As(err, new(*assay.Error)):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("sqlite: %s: %w", what, context.Cause(ctx))
	case s.closed.Load():
		return assay.Errorf(assay.CodeUnavailable, "sqlite: %s: the store is closed: %w", what, err)
	case passing(codeOf(err)):
		return assay.Errorf(assay.CodeUnavailable, "sqlite: %s: %w", what, err)
	default:
		return fmt.Errorf("sqlite: %s: %w", what, err)
	}
}

// passing reports whether a retry may succeed after an error.
func passing(code int) bool {
	switch code & 0xff { // the primary result code
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return true
	default:
		return false
	}
}

// taken reports whether err is a violation of a unique constraint.
func taken(err error) bool {
	code := codeOf(err)
	return code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// micros returns a time in its stored form.
func micros(t time.Time) int64 { return query.Micros(t) }

// stored returns t as a read returns it.
func stored(t time.Time) time.Time { return query.Stored(t) }

func errNoOrganization() error { return assay.Errorf(assay.CodeNotFound, "no such organization") }

// blobOf returns the 16 bytes of a UUID. Any other id is nil, which matches no row.
func blobOf(id string) []byte {
	u, ok := query.ID(id).UUID()
	if !ok {
		return nil
	}
	return u[:]
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
