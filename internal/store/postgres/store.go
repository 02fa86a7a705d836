// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"assay"
	"assay/internal/store/lane"
)

// Defaults of Config, and limits that none of its fields sets.
const (
	defaultConns     = 10
	defaultStatement = 5 * time.Second
	connectTimeout   = 3 * time.Second // unless the URL has connect_timeout
	lockTimeout      = 4 * time.Second // how long a statement waits for another's lock
	idleTimeout      = 5 * time.Second // how long a transaction may be open without a statement
	sendTimeout      = 5 * time.Second // how long the server waits for a client that does not take its answer
	rollbackTimeout  = time.Second
	cancelDelay      = time.Second // how long the server may take to cancel a statement whose context has ended
)

// Config says which database to open, and how.
type Config struct {
	// URL of the database, such as postgres://user:password@host:5432/assay. It may
	// name several hosts; unless it says otherwise with target_session_attrs, the one
	// that takes writes is used. Parameters are those of libpq and of package pgxpool.
	URL string
	// Migrate applies missing migrations. Without it an older schema is an error.
	Migrate bool
	// Now returns the time by which the store stamps and judges. Default the clock of
	// the server, which all replicas share.
	Now func() time.Time
	// MaxConns bounds the connections. Of three or more, some are only for commits, leases
	// and scoring, and some for what taking telemetry in asks, three each when there are
	// nine or more; see lane.New. Default 10, or pool_max_conns of the URL.
	MaxConns int
	// StatementTimeout bounds each statement of a call whose context has no deadline, and
	// four times as much its transactions. Default 5 s.
	StatementTimeout time.Duration
	// Logger is told what is repeated, and why. Default none.
	Logger *slog.Logger
}

// Store is a PostgreSQL database. It is safe for concurrent use.
type Store struct {
	pool      *pgxpool.Pool
	clock     func() time.Time // nil: the server's
	statement time.Duration
	// whileSending bounds, as another SET LOCAL, how long the server holds on to a
	// transaction whose client it cannot reach. "" where the server cannot.
	whileSending string
	lanes        *lane.Lanes
	logger       *slog.Logger
	closed       atomic.Bool
	// generation of the connections: the next one when those of the last are
	// given up.
	generation atomic.Uint64
	partitions partitions
	forgotten  atomic.Int64 // up to when commits have forgotten requests
	known      int64        // newest version of the schema that this program knows
}

// Open opens the store and brings its schema up to date, as c says. A schema that this
// program cannot work with is an *inspect.SchemaError. A server that cannot be reached is
// assay.CodeUnavailable.
func Open(ctx context.Context, c Config) (*Store, error) {
	config, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{clock: c.Now, statement: c.StatementTimeout, logger: c.Logger}
	if s.statement <= 0 {
		s.statement = defaultStatement
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxConns > 0 {
		config.MaxConns = int32(min(c.MaxConns, 1<<15))
	}
	config.AfterConnect = s.connected
	// What is done with a connection that died is repeated on another one, so none is
	// asked first whether it lives.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	s.lanes = lane.New(int(config.MaxConns))
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, s.fail(ctx, "open", err)
	}
	if err := s.open(ctx, c.Migrate); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// parseURL returns the configuration of the pool. Its errors do not show the URL,
// of which a password may be any part.
func parseURL(raw string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return nil, assay.Errorf(assay.CodeInvalid, "postgres: the address of the database is not a URL such as postgres://user:password@host:5432/database")
	}
	config, err := pgxpool.ParseConfig(raw)
	if err != nil || ambiguous(raw) {
		return nil, assay.Errorf(assay.CodeInvalid, "postgres: the URL of the database cannot be used; characters of a password that mean something in a URL must be escaped, "+
			"and parameters, the files they name and the environment's PG variables must be right")
	}
	_, query, _ := strings.Cut(raw, "?")
	parameters, _ := url.ParseQuery(query) // which has been parsed already
	if !parameters.Has("pool_max_conns") {
		config.MaxConns = defaultConns
	}
	cc := config.ConnConfig
	if !parameters.Has("connect_timeout") {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DialFunc = (&net.Dialer{Timeout: cc.ConnectTimeout}).DialContext // also for what cancels a statement
	if !parameters.Has("target_session_attrs") {
		cc.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "assay"
	}
	cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelDelay}
	}
	return config, nil
}

// ambiguous tells whether an @ stands where a URL has none, after an unescaped / or ?
// of a password: parts of that would be taken for a host or a database, which errors
// show.
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

// Close closes the store. Calls under way end first.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.pool.Close()
	return nil
}

// Ping tells whether the store can be read and written: CodeUnavailable when not.
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

// now is the time by which the store stamps and judges.
func (s *Store) now(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	if s.clock != nil {
		return stored(s.clock()), nil
	}
	var us int64
	if err := tx.QueryRow(ctx, `SELECT `+serverMicros).Scan(&us); err != nil {
		return time.Time{}, err
	}
	return timeOf(us), nil
}

// injectedNow is now for a statement that takes the server's time where it is NULL.
func (s *Store) injectedNow() *int64 {
	if s.clock == nil {
		return nil
	}
	us := micros(s.clock())
	return &us
}

// serverMicros is the present by the server's clock, as times are stored.
const serverMicros = `floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// How transactions begin. Reads are from one snapshot. Writes see what others have
// committed when each of their statements begins, so that after waiting for a row's
// lock they see what whoever held it wrote.
const (
	beginView   = `begin isolation level repeatable read, read only`
	beginUpdate = `begin isolation level read committed`
)

// view runs do in a transaction that reads from one snapshot. do may run again.
func (s *Store) view(ctx context.Context, l lane.Lane, what string, do func(pgx.Tx) error) error {
	return s.transact(ctx, l, what, beginView, do)
}

// update runs do in a transaction that reads and writes. do may run again, after
// everything it did has been undone.
func (s *Store) update(ctx context.Context, l lane.Lane, what string, do func(pgx.Tx) error) error {
	return s.transact(ctx, l, what, beginUpdate, do)
}

// read runs the queries that the steps put into batches, from one snapshot and each
// step in one round trip. Their callbacks (pgx.QueuedQuery) get the results, before
// the next step is asked for its queries; steps and callbacks may run again.
func (s *Store) read(ctx context.Context, l lane.Lane, what string, steps ...func(*pgx.Batch)) error {
	leave, err := s.lanes.Enter(ctx, l)
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
				b.Queue(`SELECT set_config('statement_timeout', $1::text, true)`, s.statementTimeout(ctx))
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

// transact runs do in a transaction of a lane.
func (s *Store) transact(ctx context.Context, l lane.Lane, what, begin string, do func(pgx.Tx) error) error {
	leave, err := s.lanes.Enter(ctx, l)
	if err != nil {
		return s.fail(ctx, what, err)
	}
	defer leave()
	return s.repeat(ctx, what, func(conn *pgx.Conn) (bool, error) {
		defer s.bound(ctx, conn)()
		// Several statements without parameters are one round trip.
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin +
			`; set local statement_timeout = ` + s.statementTimeout(ctx) +
			`; set local lock_timeout = ` + milliseconds(lockTimeout) +
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

// maxStatements is how many statements of full length a transaction may last whose context
// has no deadline.
const maxStatements = 4

// bound ends a connection on which a transaction lasts too long, unless its context
// sees to that: the server bounds statements, but may be out of reach. The function it
// returns is to be called at the transaction's end.
func (s *Store) bound(ctx context.Context, conn *pgx.Conn) (stop func()) {
	if _, ok := ctx.Deadline(); ok {
		return func() {}
	}
	end := time.AfterFunc(maxStatements*s.statement, func() { _ = conn.PgConn().Conn().Close() })
	return func() { end.Stop() }
}

// rollback ends a transaction; its connection is closed when that fails.
func rollback(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, `rollback`); err != nil {
		_ = conn.Close(ctx) // the pool makes another one
	}
}

// statementTimeout is how long a statement may take: as long as ctx, and what is
// usual where that has no deadline.
func (s *Store) statementTimeout(ctx context.Context) string {
	timeout := s.statement
	if deadline, ok := ctx.Deadline(); ok {
		// When the context ends first, the error says so.
		timeout = time.Until(deadline) + time.Second
	}
	return milliseconds(timeout)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(min(max(d.Milliseconds(), 1), 1<<30), 10)
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

// uuidOf returns an id as it is stored, NULL for anything that is not a UUID: such
// an id matches no row.
func uuidOf(id string) pgtype.UUID {
	if len(id) != 36 {
		return pgtype.UUID{}
	}
	u, err := uuid.Parse(id)
	return pgtype.UUID{Bytes: u, Valid: err == nil}
}

// uuidsOf returns ids as they are stored.
func uuidsOf(ids []string) []pgtype.UUID {
	us := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		us[i] = uuidOf(id)
	}
	return us
}

// idOf is the inverse of uuidOf.
func idOf(u pgtype.UUID) string {
	if !u.Valid {
		return ""
	}
	return uuid.UUID(u.Bytes).String()
}

// bytesOf is how a text that comes from telemetry is stored.
func bytesOf(s string) []byte { return []byte(s) }

// changedOne returns missing() for a statement that met no row.
func changedOne(tag pgconn.CommandTag, err error, missing func() error) error {
	if err == nil && tag.RowsAffected() == 0 {
		err = missing()
	}
	return err
}

// orgOf returns the row of an organization.
func orgOf(ctx context.Context, tx pgx.Tx, id string) (int64, error) {
	var org int64
	err := tx.QueryRow(ctx, `SELECT org FROM organizations WHERE id = $1`, uuidOf(id)).Scan(&org)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNoOrganization()
	}
	return org, err
}

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

// taken tells whether err says that a unique value is taken.
func taken(err error) bool { return stateOf(err) == uniqueViolation }

// stateOf returns the SQLSTATE of an error of the server, "" for any other.
func stateOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
