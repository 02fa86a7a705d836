// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"assay"
	"assay/internal/fair"
	"assay/internal/lists"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// Defaults of Config, and fixed limits.
const (
	defaultConns     = 10
	defaultStatement = 5 * time.Second
	connectTimeout   = 3 * time.Second // unless the URL has connect_timeout
	defaultLock      = 4 * time.Second // how long a statement waits for a lock
	idleTimeout      = 5 * time.Second // how long a transaction may be open without a statement
	sendTimeout      = 5 * time.Second // how long the server waits for a client that does not read its answer
	rollbackTimeout  = time.Second
	cancelDelay      = time.Second // how long the server may take to cancel a statement after its context has ended
)

// Config configures a Store.
type Config struct {
	// URL of the database, such as postgres://user:password@host:5432/assay. It may name
	// several hosts; the store uses the one that accepts writes, unless target_session_attrs
	// sets another one. It accepts the parameters of libpq and of package pgxpool.
	URL string
	// Migrate applies missing migrations. Without it, an older schema is an error.
	Migrate bool
	// Now returns the time of the store. Default: the clock of the server, which all
	// replicas share.
	Now func() time.Time
	// MaxConns limits the connections. With three or more, some are reserved for commits
	// and leases, and some for the lookups of ingestion; with six or more, also for scoring;
	// with nine or more, three each. See connpool.New. Default 10, or pool_max_conns of the URL.
	MaxConns int
	// StatementTimeout limits each statement of a call whose context has no deadline. Its
	// transactions are limited to four times as much. Default 5 s.
	StatementTimeout time.Duration
	// MaxClaims limits the stored claims of an organization. Default query.MaxClaims.
	MaxClaims int
	// CPU limits the decoding of the pages of an organization, with its other work that uses a CPU, if there are
	// at least six connections. nil means no limit.
	CPU *fair.Semaphore
	// Logger logs retries and their causes. Default none.
	Logger *slog.Logger
}

// Store is a PostgreSQL database. It is safe for concurrent use.
type Store struct {
	*query.Queries
	pool      *pgxpool.Pool
	clock     func() time.Time // nil: the server's clock
	statement time.Duration
	lock      time.Duration // how long a statement waits for a lock
	maxClaims int64         // Config.MaxClaims
	// whileSending limits, as another SET LOCAL, how long the server keeps a transaction of
	// an unreachable client. "" if the server does not support it.
	whileSending string
	pools        *connpool.Pools
	cpu          *fair.Semaphore // Config.CPU
	logger       *slog.Logger
	closed       atomic.Bool
	// Generation of the connections. It is incremented when the connections of the current
	// one are closed.
	generation atomic.Uint64
	partitions partitions
	forgotten  atomic.Int64 // commits have deleted requests up to this time
	known      int64        // newest version of the schema that this program knows
}

// Open opens the store and applies or checks the migrations, according to c. If this
// program does not support the schema, the error is an *inspect.SchemaError. If the
// server is unreachable, the error is assay.CodeUnavailable.
func Open(ctx context.Context, c Config) (*Store, error) {
	config, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{clock: c.Now, statement: c.StatementTimeout, lock: defaultLock, maxClaims: int64(c.MaxClaims), cpu: c.CPU, logger: c.Logger}
	s.Queries = query.New(engine{s}, &dialect)
	if s.statement <= 0 {
		s.statement = defaultStatement
	}
	if s.maxClaims <= 0 {
		s.maxClaims = query.MaxClaims
	}
	s.logger = cmp.Or(s.logger, slog.New(slog.DiscardHandler))
	if c.MaxConns > 0 {
		config.MaxConns = int32(min(c.MaxConns, 1<<15))
	}
	config.AfterConnect = s.connected
	// Do not ping: the store retries on another connection after a dead one.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	s.pools = connpool.New(int(config.MaxConns), nil)
	if !s.pools.ScoringApart() {
		s.cpu = nil // scoring holds a slot while it waits for the pool that a page would hold while it waits for a slot
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, s.fail(ctx, "open", err)
	}
	if err := s.open(ctx, c.Migrate); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// parseURL returns the configuration of the pool. Its errors never contain the URL, since
// any part of it may belong to a password.
func parseURL(raw string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return nil, assay.Errorf(assay.CodeInvalid, "postgres: the address of the database is not a URL such as postgres://user:password@host:5432/database")
	}
	config, err := pgxpool.ParseConfig(raw)
	if err != nil || ambiguous(raw) {
		return nil, assay.Errorf(assay.CodeInvalid, "postgres: invalid URL of the database; escape reserved characters in the password, such as @ as %%40, "+
			"and check the parameters, the files they name and the PG variables of the environment")
	}
	_, query, _ := strings.Cut(raw, "?")
	parameters, _ := url.ParseQuery(query) // has been parsed already
	if !parameters.Has("pool_max_conns") {
		config.MaxConns = defaultConns
	}
	cc := config.ConnConfig
	if !parameters.Has("connect_timeout") {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DialFunc = (&net.Dialer{Timeout: cc.ConnectTimeout}).DialContext // also cancels statements
	if !parameters.Has("target_session_attrs") {
		cc.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	cc.RuntimeParams["application_name"] = cmp.Or(cc.RuntimeParams["application_name"], "assay")
	cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelDelay}
	}
	return config, nil
}

// ambiguous reports whether an @ follows an unescaped / or ? of a password. The parser
// would take parts of the password for a host or a database, which errors contain.
func ambiguous(raw string) bool {
	_, rest, _ := strings.Cut(raw, "://")
	path, query, _ := strings.Cut(rest, "?")
	_, path, hasPath := strings.Cut(path, "/")
	return strings.Contains(path, "@") || !hasPath && strings.Contains(query, "@")
}

func (s *Store) open(ctx context.Context, migrate bool) error {
	if err := s.migrate(ctx, migrate); err != nil {
		return err
	}
	return s.Ping(ctx)
}

// Close closes the store. Calls in progress end first.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.pool.Close()
	return nil
}

// Ping checks that the store is readable and writable. The error is CodeUnavailable if it
// is not.
func (s *Store) Ping(ctx context.Context) error {
	return s.update(ctx, lookups, "ping", func(tx pgx.Tx) error {
		var readOnly bool
		if err := tx.QueryRow(ctx, `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean FROM
			(SELECT count(*) FROM memory) AS read`).Scan(&readOnly); err != nil {
			return err
		}
		if readOnly {
			return &pgconn.PgError{Severity: "ERROR", Code: readOnlyTransaction, Message: "the server is read-only"}
		}
		return nil
	})
}

// now returns the time of the store.
func (s *Store) now(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	if s.clock != nil {
		return query.Stored(s.clock()), nil
	}
	var us int64
	if err := tx.QueryRow(ctx, `SELECT `+serverMicros).Scan(&us); err != nil {
		return time.Time{}, err
	}
	return query.TimeOf(us), nil
}

// injectedNow returns the injected time for a statement that falls back to the server's
// clock, nil for none.
func (s *Store) injectedNow() *int64 {
	if s.clock == nil {
		return nil
	}
	us := micros(s.clock())
	return &us
}

// serverMicros is the current time of the server's clock in its stored form.
const serverMicros = `floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// Transaction modes. Reads use one snapshot. Each statement of a write sees earlier
// commits, so a statement that waited for a row's lock sees the changes of the previous
// holder.
const (
	beginView   = `begin isolation level repeatable read, read only`
	beginUpdate = `begin isolation level read committed`
)

// view runs do in a transaction that reads from one snapshot. do may run again.
func (s *Store) view(ctx context.Context, pool connpool.Pool, what string, do func(pgx.Tx) error) error {
	return s.transact(ctx, pool, what, beginView, do)
}

// update runs do in a transaction that reads and writes. After a rollback, do may run
// again.
func (s *Store) update(ctx context.Context, pool connpool.Pool, what string, do func(pgx.Tx) error) error {
	return s.transact(ctx, pool, what, beginUpdate, do)
}

// read runs the queries that the steps add to batches, from one snapshot and with one
// round trip a step. Callbacks (pgx.QueuedQuery) receive the results before the next step
// runs. Steps and callbacks may run again.
func (s *Store) read(ctx context.Context, pool connpool.Pool, what string, steps ...func(*pgx.Batch)) error {
	leave, err := s.pools.Enter(ctx, pool)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	defer leave()
	return s.repeat(ctx, what, func(conn *pgx.Conn) (bool, error) {
		defer s.bound(ctx, conn)()
		for i, queue := range steps {
			b := new(pgx.Batch)
			if i == 0 {
				b.Queue(beginView)
				b.Queue(`SELECT set_config('statement_timeout', $1::text, true), set_config('jit', 'off', true)`, s.statementTimeout(ctx))
			}
			queue(b)
			if i == len(steps)-1 {
				b.Queue(`commit`)
			}
			if err := conn.SendBatch(ctx, b).Close(); err != nil {
				if conn.PgConn().TxStatus() != 'I' {
					rollback(ctx, conn)
				}
				return true, err
			}
		}
		return true, nil
	})
}

// transact runs do in a transaction of a pool.
func (s *Store) transact(ctx context.Context, pool connpool.Pool, what, begin string, do func(pgx.Tx) error) error {
	leave, err := s.pools.Enter(ctx, pool)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	defer leave()
	return s.repeat(ctx, what, func(conn *pgx.Conn) (bool, error) {
		defer s.bound(ctx, conn)()
		// Send several statements without parameters in one round trip.
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin +
			`; set local statement_timeout = ` + s.statementTimeout(ctx) +
			`; set local lock_timeout = ` + milliseconds(s.lock) +
			`; set local idle_in_transaction_session_timeout = ` + milliseconds(idleTimeout) + s.whileSending})
		if err != nil {
			return true, err
		}
		err = do(tx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			rollback(ctx, conn)
			return true, err
		}
		return false, tx.Commit(ctx)
	})
}

// maxStatements limits a transaction whose context has no deadline to this multiple of
// the statement timeout.
const maxStatements = 4

// bound closes the connection of a transaction that lasts too long, unless its context
// has a deadline: the server limits statements, but may be unreachable. The caller calls
// stop at the end of the transaction.
func (s *Store) bound(ctx context.Context, conn *pgx.Conn) (stop func()) {
	if _, ok := ctx.Deadline(); ok {
		return func() {}
	}
	end := time.AfterFunc(maxStatements*s.statement, func() { _ = conn.PgConn().Conn().Close() })
	return func() { end.Stop() }
}

// rollback rolls a transaction back. If this fails, it closes the connection.
func rollback(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, `rollback`); err != nil {
		_ = conn.Close(ctx) // the pool opens another one
	}
}

// statementTimeout returns the timeout of a statement: the time left of ctx, or the
// default if ctx has no deadline.
func (s *Store) statementTimeout(ctx context.Context) string {
	timeout := s.statement
	if deadline, ok := ctx.Deadline(); ok {
		// Let the context end first, so that the error names it.
		timeout = time.Until(deadline) + time.Second
	}
	return milliseconds(timeout)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(min(max(d.Milliseconds(), 1), 1<<30), 10)
}

// micros returns a time in its stored form.
func micros(t time.Time) int64 { return query.Micros(t) }

// uuidOf returns an id in its stored form. NULL, for an id that is not a UUID, matches no
// row.
func uuidOf(id string) pgtype.UUID {
	u, ok := query.ID(id).UUID()
	return pgtype.UUID{Bytes: u, Valid: ok}
}

// uuidsOf returns ids in their stored form.
func uuidsOf(ids []string) []pgtype.UUID {
	return lists.Map(ids, uuidOf)
}

// bytesOf returns the stored form of a text from telemetry.
func bytesOf(s string) []byte { return []byte(s) }

func errNoOrganization() error { return assay.Errorf(assay.CodeNotFound, "no such organization") }

// each runs scan for every row and closes rows.
func each(rows pgx.Rows, err error, scan func(pgx.Rows) error) error {
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

// eachRow is each for the rows of a queued query.
func eachRow(scan func(pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error { return each(rows, nil, scan) }
}

// taken reports whether err is a violation of a unique constraint.
func taken(err error) bool { return stateOf(err) == uniqueViolation }

// stateOf returns the SQLSTATE of a server error, "" for any other error.
func stateOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
