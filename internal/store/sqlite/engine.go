// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"assay/internal/delta"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// dialect is the SQL of SQLite. Array arguments are JSON.
var dialect = query.Dialect{
	Ints: func(param, alias string) string { return `json_each(` + param + `) ` + alias },
	IDs: func(param, alias string) string {
		return `(SELECT key, unhex(value) AS value FROM json_each(` + param + `)) ` + alias
	},
	Texts:    func(param, alias string) string { return `json_each(` + param + `) ` + alias },
	In:       func(expr, param string) string { return expr + ` IN (SELECT value FROM json_each(` + param + `))` },
	InSelect: func(expr, query string) string { return expr + ` IN (` + query + `)` },
	JSONList: func(expr string) string { return `json_group_array(` + expr + `)` },
	Found: func(columns, score, from string) string {
		return `SELECT ` + columns + `, (` + score + `) AS found FROM ` + from + ` WHERE found IS NOT NULL`
	},
	Contains: func(expr, param string) string { return `instr(` + expr + `, ` + param + `) > 0` },
	Index:    func(name string) string { return ` INDEXED BY ` + name },

	EvidenceOf: `i`, EvidenceTable: `insights`,
	Unscored: `revision > scored_revision`,
	DeleteSome: func(table, key, condition string) string {
		return `DELETE FROM ` + table + ` WHERE (` + key + `) IN (SELECT ` + key + ` FROM ` + table + ` WHERE ` + condition + ` LIMIT $2)`
	},
	MergeMinutes: []string{ // both statements select the same rows
		`INSERT INTO log_volume AS v (org, span, at, ` + query.LogSeverities + `) SELECT org, 3600, at - at % 3600, ` + query.SumLogSeverities + ` FROM (
			SELECT * FROM log_volume INDEXED BY log_volume_by_time WHERE span = 60 AND at < $1 ORDER BY at, org LIMIT $2)
			WHERE true GROUP BY 1, 2, 3` + query.MergeLogRecords,
		`DELETE FROM log_volume WHERE (org, span, at) IN (
			SELECT org, span, at FROM log_volume INDEXED BY log_volume_by_time WHERE span = 60 AND at < $1 ORDER BY at, org LIMIT $2)`,
	},
	RowChunk: rowChunk, ServiceChunk: 5,
	InsightKey: `insight`,
	SetStatus: `UPDATE insights SET status = $2, mute_reason = $3, updated_at = max(updated_at, $4), detected_at = coalesce($5, detected_at)
		WHERE id = $1`,
}

// engine runs the statements of package query.
type engine struct{ store *Store }

// View implements query.Engine. It runs a single statement without a transaction.
func (e engine) View(ctx context.Context, pool connpool.Pool, operation string, steps ...func(*query.Batch)) error {
	first := new(query.Batch)
	steps[0](first)
	if len(steps) == 1 && len(first.Statements) == 1 {
		return e.store.query(ctx, pool, operation, func(db *sql.DB) error { return run(ctx, db, first) })
	}
	return e.store.view(ctx, pool, operation, func(tx *sql.Tx) error {
		if err := run(ctx, tx, first); err != nil {
			return err
		}
		for _, step := range steps[1:] {
			b := new(query.Batch)
			step(b)
			if err := run(ctx, tx, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// Update implements query.Engine.
func (e engine) Update(ctx context.Context, pool connpool.Pool, operation string, do func(query.Tx) error) error {
	return e.store.update(ctx, pool, operation, func(tx *sql.Tx) error { return do(&transaction{e.store, tx}) })
}

// Fail implements query.Engine.
func (e engine) Fail(ctx context.Context, operation string, err error) error {
	return e.store.fail(ctx, operation, err)
}

// Taken implements query.Engine.
func (engine) Taken(err error) bool { return taken(err) }

// Storable implements query.Engine.
func (engine) Storable(string) bool { return true }

// transaction is a query.Tx.
type transaction struct {
	store *Store
	tx    *sql.Tx
}

func (t *transaction) Send(ctx context.Context, b *query.Batch) error { return run(ctx, t.tx, b) }

func (t *transaction) Now(context.Context) (time.Time, error) { return stored(t.store.now()), nil }

func (t *transaction) CheckFence(ctx context.Context, f delta.Fence) error {
	return within(ctx, t.tx, f)
}

// conn is a database or a transaction.
type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// run runs the statements of a batch in order. It prepares a statement once for
// consecutive uses.
func run(ctx context.Context, db conn, b *query.Batch) error {
	for i := 0; i < len(b.Statements); i++ {
		st := b.Statements[i]
		if st.Each != nil {
			rows, err := db.QueryContext(ctx, st.SQL, native(st.Args)...)
			if err := each(rows, err, func(rows *sql.Rows) error { return st.Each(rows) }); err != nil {
				return err
			}
			continue
		}
		same := 1
		for i+same < len(b.Statements) && b.Statements[i+same].SQL == st.SQL {
			same++
		}
		if same > 1 {
			if err := repeat(ctx, db, b.Statements[i:i+same]); err != nil {
				return err
			}
			i += same - 1
			continue
		}
		res, err := db.ExecContext(ctx, st.SQL, native(st.Args)...)
		if err == nil && st.Changed != nil {
			*st.Changed, err = res.RowsAffected()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeat runs one statement with several sets of arguments. Each run takes microseconds.
// The end of ctx rolls the transaction back, so no run needs a watcher of its own.
func repeat(ctx context.Context, db conn, statements []query.Statement) error {
	prepared, err := db.PrepareContext(ctx, statements[0].SQL)
	if err != nil {
		return err
	}
	defer prepared.Close()
	ctx = context.WithoutCancel(ctx)
	for _, st := range statements {
		res, err := prepared.ExecContext(ctx, native(st.Args)...)
		if err == nil && st.Changed != nil {
			*st.Changed, err = res.RowsAffected()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// native converts arguments to types of the driver.
func native(args []any) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case query.ID:
			if u, ok := v.UUID(); ok {
				list[i] = u[:]
			}
		case query.Text:
			list[i] = string(v)
		case []int64:
			list[i] = jsonList(v)
		case []query.ID:
			list[i] = jsonIDs(v)
		case []string:
			list[i] = jsonTexts(v)
		default:
			list[i] = arg
		}
	}
	return list
}

func jsonList(list []int64) string {
	b := []byte{'['}
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}

// jsonIDs writes ids in hexadecimal. An id that is not a UUID becomes an empty text,
// which matches no row.
func jsonIDs(ids []query.ID) string {
	b := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		if u, ok := id.UUID(); ok {
			b = hex.AppendEncode(b, u[:])
		}
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

func jsonTexts(texts []string) string {
	list, _ := json.Marshal(append([]string{}, texts...)) // nil would be null; texts cannot fail
	return string(list)
}
