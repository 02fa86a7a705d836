// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// hourSpan is the span, in seconds, of the rows of log_volume for an hour.
const hourSpan = 3600

const (
	// LogSeverities are the columns of log_volume with numbers of log records, in the order of
	// assay.SeverityCounts.
	LogSeverities = `trace, debug, info, warn, error, fatal, unspecified`
	// SumLogSeverities are the sums of these columns.
	SumLogSeverities = `CAST(sum(trace) AS bigint), CAST(sum(debug) AS bigint), CAST(sum(info) AS bigint), CAST(sum(warn) AS bigint),
		CAST(sum(error) AS bigint), CAST(sum(fatal) AS bigint), CAST(sum(unspecified) AS bigint)`
	// MergeLogRecords ends an insert into log_volume AS v. It adds to the rows that exist.
	MergeLogRecords = ` ON CONFLICT (org, span, at) DO UPDATE SET trace = v.trace + excluded.trace, debug = v.debug + excluded.debug,
		info = v.info + excluded.info, warn = v.warn + excluded.warn, error = v.error + excluded.error, fatal = v.fatal + excluded.fatal,
		unspecified = v.unspecified + excluded.unspecified`
	// AddLogRecords has the arguments of LogRow.
	AddLogRecords = `INSERT INTO log_volume AS v (org, span, at, ` + LogSeverities + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)` + MergeLogRecords

	selectLogRecords = `SELECT span, at, ` + LogSeverities + ` FROM log_volume
		WHERE org = (SELECT org FROM organizations WHERE id = $1) AND span = 3600 AND at > CAST($2 AS bigint) - 3600 AND at < $3
		UNION ALL
		SELECT 60, min(at), ` + SumLogSeverities + ` FROM log_volume
		WHERE org = (SELECT org FROM organizations WHERE id = $1) AND span = 60 AND at >= $2 AND at < $3
		GROUP BY (at - CAST($2 AS bigint)) / CAST($4 AS bigint)
		ORDER BY 2, 1`
)

// LogRow returns the arguments of AddLogRecords: an organization, the span and the start of
// a row in seconds, and the numbers of log records.
func LogRow(org, span, at int64, counts *assay.SeverityCounts) []any {
	row := []any{org, span, at}
	for _, n := range counts {
		row = append(row, int64(n))
	}
	return row
}

// LogRecords implements assay.LogRecordStore.
func (q *Queries) LogRecords(ctx context.Context, organizationID string, from, to time.Time, step time.Duration) ([]assay.LogRecords, error) {
	return list(ctx, q, connpool.Pages, "read log records", scanLogRecords, selectLogRecords,
		ID(organizationID), ceilSeconds(from), ceilSeconds(to), int64(step.Seconds()))
}

func scanLogRecords(r Row) (records assay.LogRecords, err error) {
	var span, at int64
	dest := []any{&span, &at}
	for i := range records.Counts {
		dest = append(dest, &records.Counts[i])
	}
	err = r.Scan(dest...)
	records.Start, records.Span = time.Unix(at, 0).UTC(), time.Duration(span)*time.Second
	return records, err
}

// ceilSeconds returns the first whole second, in Unix time, that is not before t. Rows
// begin at whole seconds.
func ceilSeconds(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// ImportLogRecords implements assay.LogRecordStore.
func (q *Queries) ImportLogRecords(ctx context.Context, organizationID string, records []assay.LogRecords) error {
	// Lock rows in the same order as the expiry.
	records = slices.SortedFunc(slices.Values(records), func(a, b assay.LogRecords) int {
		return cmp.Or(cmp.Compare(a.Span, b.Span), a.Start.Compare(b.Start))
	})
	return q.engine.Update(ctx, connpool.OwnWork, "import log records", func(tx Tx) error {
		// Serialize the imports of an organization: the next import sees the rows of this one.
		var org int64
		if err := need(ctx, tx, errNoOrganization, []any{&org},
			`SELECT org FROM organizations WHERE id = $1`+q.sql.LockRows, ID(organizationID)); err != nil {
			return err
		}
		var oldest *int64
		if _, err := get(ctx, tx, []any{&oldest}, `SELECT min(at) FROM log_volume WHERE org = $1`, org); err != nil {
			return err
		}
		b := new(Batch)
		for i := range records {
			if r := &records[i]; r.Counts != (assay.SeverityCounts{}) && (oldest == nil || r.Start.Unix() < *oldest) {
				b.Exec(AddLogRecords, LogRow(org, int64(r.Span.Seconds()), r.Start.Unix(), &r.Counts)...)
			}
		}
		return tx.Send(ctx, b)
	})
}

// mergeLogRecords merges the minutes before the start of an hour into hours.
func (q *Queries) mergeLogRecords(ctx context.Context, before time.Time) error {
	for {
		var n int64
		err := q.engine.Chunk(ctx, connpool.Scoring, "merge log records of minutes", func(tx Tx) (err error) {
			for _, sql := range q.sql.MergeMinutes {
				if n, err = exec(ctx, tx, sql, before.Unix(), q.sql.RowChunk); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
	}
}
