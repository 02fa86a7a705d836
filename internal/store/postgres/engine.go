// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// dialect is the SQL of PostgreSQL.
var dialect = query.Dialect{
	Ints:  func(param, alias string) string { return array(param, `bigint[]`, alias) },
	IDs:   func(param, alias string) string { return array(param, `uuid[]`, alias) },
	Texts: func(param, alias string) string { return array(param, `text[]`, alias) },
	In:    func(expr, param string) string { return expr + ` = ANY (` + param + `)` },
	// Look rows up one by one by key, regardless of the planner's estimate for the query.
	InSelect: func(expr, query string) string { return expr + ` = ANY (ARRAY (` + query + `))` },
	JSONList: func(expr string) string { return `CAST(json_agg(` + expr + `) AS text)` },
	Found: func(columns, score, from string) string {
		return `SELECT ` + columns + `, found.score FROM ` + from + ` CROSS JOIN LATERAL (` + score + `) AS found WHERE true`
	},
	Contains:   func(expr, param string) string { return `position(CAST(` + param + ` AS bytea) IN ` + expr + `) > 0` },
	Index:      func(string) string { return `` },
	NamePrefix: func(expr string) string { return `substr(` + expr + `, 1, 1024)` },

	Evidence: ` JOIN evidence e ON e.svc = i.svc AND e.rule = i.rule`, EvidenceOf: `e`, EvidenceTable: `evidence`,
	Unscored: `unscored`, Rescore: `, unscored = true`,
	InsightKey: `id`, PagesApart: true,
	DeleteSome: func(table, _, condition string) string {
		return `DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY (SELECT ctid FROM ` + table + ` WHERE ` + condition + ` LIMIT $2 FOR UPDATE SKIP LOCKED))`
	},
	MergeMinutes: []string{`WITH old AS ( -- concurrent replicas merge different rows
			DELETE FROM log_volume WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM log_volume WHERE span = 60 AND at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING *)
		INSERT INTO log_volume AS v (org, span, at, ` + query.LogSeverities + `) SELECT org, 3600, at - at % 3600, ` + query.SumLogSeverities + `
			FROM old GROUP BY 1, 2, 3 ORDER BY 1, 2, 3` + query.MergeLogRecords},
	RowChunk: rowChunk, ServiceChunk: 50,
	LockGone: ` FOR UPDATE SKIP LOCKED`, OfServices: []string{"examples", "items", "series", "claims", "evidence", "insights"},
	CountGone: `UPDATE service_counts SET n = n - $2 WHERE org = $1`,
	SetStatus: `WITH i AS (UPDATE insights SET status = $2, mute_reason = $3, detected_at = coalesce($5, detected_at) WHERE id = $1 RETURNING svc, rule)
		UPDATE evidence e SET status = $2, updated_at = greatest(e.updated_at, $4) FROM i WHERE e.svc = i.svc AND e.rule = i.rule`,
	LockService: ` FOR NO KEY UPDATE`, LockInsight: ` FOR KEY SHARE OF i`,
	LockSessions:    `SELECT pg_advisory_xact_lock(hashtextextended('sessions', $1))`,
	LockCodebase:    `SELECT pg_advisory_xact_lock(hashtextextended('codebase', $1))`,
	LockRows:        ` FOR NO KEY UPDATE`,
	LockSigningKeys: `LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE`,
}

func array(param, kind, alias string) string {
	return `unnest(CAST(` + param + ` AS ` + kind + `)) WITH ORDINALITY AS ` + alias + ` (value, key)`
}

// engine runs the statements of package query.
type engine struct{ store *Store }

// View implements query.Engine. Each step is one round trip.
func (e engine) View(ctx context.Context, pool connpool.Pool, operation string, steps ...func(*query.Batch)) error {
	each := eachStatement
	if pool == connpool.Pages && e.store.cpu != nil {
		each = func(scan func(query.Row) error) func(pgx.Rows) error { return e.store.eachInTurn(ctx, scan) }
	}
	queue := make([]func(*pgx.Batch), len(steps))
	for i, step := range steps {
		queue[i] = func(b *pgx.Batch) {
			var statements query.Batch
			step(&statements)
			queueAll(b, &statements, each)
		}
	}
	return e.store.read(ctx, pool, operation, queue...)
}

// Update implements query.Engine.
func (e engine) Update(ctx context.Context, pool connpool.Pool, operation string, do func(query.Tx) error) error {
	return e.store.update(ctx, pool, operation, func(tx pgx.Tx) error { return do(&transaction{e.store, tx}) })
}

// Fail implements query.Engine.
func (e engine) Fail(ctx context.Context, operation string, err error) error {
	return e.store.fail(ctx, operation, err)
}

// Taken implements query.Engine.
func (engine) Taken(err error) bool { return taken(err) }

// Storable implements query.Engine. PostgreSQL texts cannot hold NUL or invalid UTF-8.
func (engine) Storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// transaction is a query.Tx.
type transaction struct {
	store *Store
	tx    pgx.Tx
}

func (t *transaction) Send(ctx context.Context, statements *query.Batch) error {
	b := new(pgx.Batch)
	queueAll(b, statements, eachStatement)
	return t.tx.SendBatch(ctx, b).Close()
}

func (t *transaction) Now(ctx context.Context) (time.Time, error) { return t.store.now(ctx, t.tx) }

func (t *transaction) CheckFence(ctx context.Context, f delta.Fence) error {
	b := new(pgx.Batch)
	lost := queueFence(b, f)
	if err := t.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	return lost()
}

// eachStatement is eachRow for a statement of package query.
func eachStatement(scan func(query.Row) error) func(pgx.Rows) error {
	return eachRow(func(rows pgx.Rows) error { return scan(rows) })
}

// queueAll adds statements to a batch of the driver. each returns the callback for the rows of a statement.
func queueAll(b *pgx.Batch, statements *query.Batch, each func(func(query.Row) error) func(pgx.Rows) error) {
	for _, st := range statements.Statements {
		queued := b.Queue(st.SQL, native(st.Args)...)
		switch {
		case st.Each != nil:
			queued.Query(each(st.Each))
		case st.Changed != nil:
			queued.Exec(func(tag pgconn.CommandTag) error {
				*st.Changed = tag.RowsAffected()
				return nil
			})
		}
	}
}

// native converts arguments to types that the driver accepts in every query mode.
func native(args []any) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case query.ID:
			list[i] = uuidOf(string(v))
		case query.Text:
			list[i] = bytesOf(string(v))
		case []query.ID:
			ids := lists.Map(v, func(id query.ID) pgtype.UUID { return uuidOf(string(id)) })
			list[i] = ids
		default:
			list[i] = arg
		}
	}
	return list
}
