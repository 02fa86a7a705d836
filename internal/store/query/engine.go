// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/connpool"
)

// Engine runs statements on a database. It is safe for concurrent use. Its errors are
// errors of the domain, or name the operation.
type Engine interface {
	// View runs the statements of one or more steps in a transaction that reads from one
	// snapshot. A step adds its statements to the batch. The engine runs them and delivers
	// their rows before it calls the next step. It may repeat all steps after a failure, so
	// a step resets the variables that collect its rows.
	View(ctx context.Context, pool connpool.Pool, operation string, steps ...func(*Batch)) error
	// Update runs do in a transaction that reads and writes. do may be repeated after a
	// rollback. Once a statement has a lock, it sees what other transactions had committed
	// before.
	Update(ctx context.Context, pool connpool.Pool, operation string, do func(Tx) error) error
	// Chunk is Update for a short transaction of many, such as those of the expiry. Its
	// statements find rows by key.
	Chunk(ctx context.Context, pool connpool.Pool, operation string, do func(Tx) error) error
	// ExpireHistory returns the steps of the expiry that depend on the engine's storage of
	// the history: counts, distinct sets and scores.
	ExpireHistory(ctx context.Context, now time.Time, start delta.Bucket) []func() error
	// Unavailable reports whether ctx has ended, or an error of the expiry concerns more
	// than the requested rows.
	Unavailable(ctx context.Context, err error) bool
	// Fail converts an error of an operation for the caller: errors of the domain and the
	// cause of the end of ctx stay, an unreachable or overloaded database is
	// assay.CodeUnavailable, and other errors name the operation. Messages of the database
	// that quote stored values are left out.
	Fail(ctx context.Context, operation string, err error) error
	// Taken reports whether err is a violation of a unique constraint.
	Taken(err error) bool
	// Storable reports whether a text column can hold s, which may be invalid UTF-8. Otherwise
	// no row matches s.
	Storable(s string) bool
}

// Tx is a transaction that reads and writes. One goroutine may use it.
type Tx interface {
	// Send runs the statements of a batch in their order. It returns the first error.
	Send(ctx context.Context, b *Batch) error
	// Now returns the time of the store's clock.
	Now(ctx context.Context) (time.Time, error)
	// CheckFence returns delta.ErrLeaseLost unless the lease of the fence is held. The lease
	// cannot change hands before the transaction ends.
	CheckFence(ctx context.Context, f delta.Fence) error
}

// Row is a row of a result. Destinations are pointers to basic types, to ID, Text or Time,
// or to types of package pgtype, which both drivers support.
type Row interface{ Scan(dest ...any) error }

// Statement is a statement of a batch.
type Statement struct {
	SQL  string
	Args []any
	// Each is called for each row. nil: the statement returns none.
	Each func(Row) error
	// Changed receives the number of rows that a statement without Each matched, also if their
	// values are the same as before. An insert with a conflict clause counts the rows that it
	// inserts or updates. Changed may be nil.
	Changed *int64
}

// Batch is a list of statements that an engine may send in one round trip.
type Batch struct{ Statements []Statement }

// Query adds a statement that returns rows.
func (b *Batch) Query(each func(Row) error, sql string, args ...any) {
	b.Statements = append(b.Statements, Statement{SQL: sql, Args: args, Each: each})
}

// Exec adds a statement that returns no rows.
func (b *Batch) Exec(sql string, args ...any) {
	b.Statements = append(b.Statements, Statement{SQL: sql, Args: args})
}

// Queries is the part of a store that is the same in every database. It is safe for
// concurrent use.
type Queries struct {
	engine Engine
	sql    *Dialect
}

// New returns the queries of a database.
func New(e Engine, d *Dialect) *Queries { return &Queries{engine: e, sql: d} }

// one returns the row that a statement finds, and missing() when there is none.
func one[T any](ctx context.Context, q *Queries, pool connpool.Pool, operation string, missing func() error, scan func(Row) (T, error), sql string, args ...any) (T, error) {
	var found T
	var exists bool
	err := q.engine.View(ctx, pool, operation, func(b *Batch) {
		exists = false
		b.Query(into(&found, func(r Row) (T, error) {
			exists = true
			return scan(r)
		}), sql, args...)
	})
	if err == nil && !exists {
		err = missing()
	}
	return result(found, err)
}

// list returns the rows that a statement finds.
func list[T any](ctx context.Context, q *Queries, pool connpool.Pool, operation string, scan func(Row) (T, error), sql string, args ...any) ([]T, error) {
	var found []T
	err := q.engine.View(ctx, pool, operation, func(b *Batch) {
		found = nil
		b.Query(collect(&found, scan), sql, args...)
	})
	return result(found, err)
}

// result returns v, or the zero value with an error.
func result[T any](v T, err error) (T, error) {
	if err != nil {
		v = *new(T)
	}
	return v, err
}

// pair is result for two values.
func pair[T, U any](v T, w U, err error) (T, U, error) {
	v, _ = result(v, err)
	w, _ = result(w, err)
	return v, w, err
}

// collect appends each row to a list.
func collect[T any](to *[]T, scan func(Row) (T, error)) func(Row) error {
	return func(r Row) error {
		v, err := scan(r)
		if err == nil {
			*to = append(*to, v)
		}
		return err
	}
}

// into sets a variable to the row.
func into[T any](to *T, scan func(Row) (T, error)) func(Row) error {
	return func(r Row) (err error) {
		*to, err = scan(r)
		return err
	}
}

// value scans rows of one column.
func value[T any](r Row) (v T, err error) { return v, r.Scan(&v) }

// scanID scans a row that is an id.
func scanID(r Row) (string, error) {
	id, err := value[ID](r)
	return string(id), err
}

// get scans the row of a statement of a transaction. It reports whether there is one.
func get(ctx context.Context, tx Tx, dest []any, sql string, args ...any) (found bool, err error) {
	b := new(Batch)
	b.Query(func(r Row) error {
		found = true
		return r.Scan(dest...)
	}, sql, args...)
	return found, tx.Send(ctx, b)
}

// need is get for a row that has to exist. If there is none, it returns missing().
func need(ctx context.Context, tx Tx, missing func() error, dest []any, sql string, args ...any) error {
	found, err := get(ctx, tx, dest, sql, args...)
	if err == nil && !found {
		err = missing()
	}
	return err
}

// exec runs a statement and returns the number of rows that it changed.
func exec(ctx context.Context, tx Tx, sql string, args ...any) (int64, error) {
	var n int64
	err := tx.Send(ctx, &Batch{[]Statement{{SQL: sql, Args: args, Changed: &n}}})
	return n, err
}

// change runs a statement. If it changes no row, change returns missing(), unless missing
// is nil.
func change(ctx context.Context, tx Tx, missing func() error, sql string, args ...any) error {
	n, err := exec(ctx, tx, sql, args...)
	if err == nil && n == 0 && missing != nil {
		err = missing()
	}
	return err
}

// update is change in a transaction of its own.
func (q *Queries) update(ctx context.Context, pool connpool.Pool, operation string, missing func() error, sql string, args ...any) error {
	return q.engine.Update(ctx, pool, operation, func(tx Tx) error { return change(ctx, tx, missing, sql, args...) })
}

// updateAt is Update for a transaction that needs the time of the store's clock.
func (q *Queries) updateAt(ctx context.Context, pool connpool.Pool, operation string, do func(tx Tx, now time.Time) error) error {
	return q.engine.Update(ctx, pool, operation, func(tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return do(tx, now)
	})
}

// conflict returns err, or CodeConflict with a message if err is a violation of a unique
// constraint.
func (q *Queries) conflict(err error, message string) error {
	if err != nil && q.engine.Taken(err) {
		return assay.Errorf(assay.CodeConflict, "%s", message)
	}
	return err
}

// OrgOf returns the row of an organization. An unknown one is CodeNotFound.
func OrgOf(ctx context.Context, tx Tx, id string) (org int64, err error) {
	err = need(ctx, tx, errNoOrganization, []any{&org}, `SELECT org FROM organizations WHERE id = $1`, ID(id))
	return org, err
}

// noLimit is the limit of a query that has only an offset. SQLite requires a limit.
const noLimit = ` LIMIT 9223372036854775807`
