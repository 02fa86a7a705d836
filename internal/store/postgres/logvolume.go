// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/delta"
)

// hourSpan is the span, in seconds, of the rows of log_volume for an hour.
const hourSpan = 3600

// logRows are rows of log_volume, in columns.
type logRows struct {
	orgs, spans, ats []int64
	counts           [assay.SeverityCount][]int64
}

func (r *logRows) add(org, span, at int64, counts *assay.SeverityCounts) {
	if *counts == (assay.SeverityCounts{}) {
		return
	}
	r.orgs, r.spans, r.ats = append(r.orgs, org), append(r.spans, span), append(r.ats, at)
	for severity, n := range counts {
		r.counts[severity] = append(r.counts[severity], int64(n))
	}
}

const (
	addLogRecords = `INSERT INTO log_volume AS v (org, span, at, trace, debug, info, warn, error, fatal, unspecified)
		SELECT org, span, at, trace, debug, info, warn, error, fatal, unspecified
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[])
			AS a (org, span, at, trace, debug, info, warn, error, fatal, unspecified)
		ORDER BY org, span, at ` + mergeLogRecords

	mergeLogRecords = `ON CONFLICT (org, span, at) DO UPDATE SET trace = v.trace + excluded.trace, debug = v.debug + excluded.debug, info = v.info + excluded.info,
		warn = v.warn + excluded.warn, error = v.error + excluded.error, fatal = v.fatal + excluded.fatal, unspecified = v.unspecified + excluded.unspecified`
)

func (r *logRows) queue(b *pgx.Batch) {
	if len(r.orgs) == 0 {
		return
	}
	columns := []any{r.orgs, r.spans, r.ats}
	for _, c := range r.counts {
		columns = append(columns, c)
	}
	b.Queue(addLogRecords, columns...)
}

// queueLogRecords adds the log records of the organizations to the minute of the commit.
func (c *commit) queueLogRecords(b *pgx.Batch, d *delta.Delta) {
	var rows logRows
	for id, o := range d.Organizations {
		rows.add(c.orgs[id], 60, c.now/time.Minute.Microseconds()*60, &o.LogRecords)
	}
	rows.queue(b)
}

const selectLogRecords = `
	SELECT span, at, trace, debug, info, warn, error, fatal, unspecified FROM log_volume
	WHERE org = (SELECT org FROM organizations WHERE id = $1) AND span = 3600 AND at > $2::bigint - 3600 AND at < $3::bigint
	UNION ALL
	SELECT 60, min(at), sum(trace)::bigint, sum(debug)::bigint, sum(info)::bigint, sum(warn)::bigint, sum(error)::bigint, sum(fatal)::bigint, sum(unspecified)::bigint FROM log_volume
	WHERE org = (SELECT org FROM organizations WHERE id = $1) AND span = 60 AND at >= $2::bigint AND at < $3::bigint GROUP BY (at - $2::bigint) / $4::bigint
	ORDER BY 2, 1`

// LogRecords implements assay.LogRecordStore.
func (s *Store) LogRecords(ctx context.Context, organizationID string, from, to time.Time, step time.Duration) ([]assay.LogRecords, error) {
	var records []assay.LogRecords
	err := s.read(ctx, pages, "read log records", func(b *pgx.Batch) {
		records = nil
		b.Queue(selectLogRecords, uuidOf(organizationID), ceilSeconds(from), ceilSeconds(to), int64(step.Seconds())).Query(func(rows pgx.Rows) error {
			var span, at int64
			var c assay.SeverityCounts
			dest := []any{&span, &at}
			for i := range c {
				dest = append(dest, &c[i])
			}
			_, err := pgx.ForEachRow(rows, dest, func() error {
				records = append(records, assay.LogRecords{Start: time.Unix(at, 0).UTC(), Span: time.Duration(span) * time.Second, Counts: c})
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// ceilSeconds returns the first whole second, in Unix time, that is not before t. Rows
// begin at whole seconds.
func ceilSeconds(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// ImportLogRecords implements assay.LogRecordStore.
func (s *Store) ImportLogRecords(ctx context.Context, organizationID string, records []assay.LogRecords) error {
	return s.update(ctx, ownWork, "import log records", func(tx pgx.Tx) error {
		org, err := orgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		// Serialize the imports of an organization: the next import sees the rows of this one.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM organizations WHERE org = $1 FOR NO KEY UPDATE`, org); err != nil {
			return err
		}
		var oldest *int64
		if err := tx.QueryRow(ctx, `SELECT min(at) FROM log_volume WHERE org = $1`, org).Scan(&oldest); err != nil {
			return err
		}
		var rows logRows
		for i := range records {
			if r := &records[i]; oldest == nil || r.Start.Unix() < *oldest {
				rows.add(org, int64(r.Span.Seconds()), r.Start.Unix(), &r.Counts)
			}
		}
		b := new(pgx.Batch)
		rows.queue(b)
		return tx.SendBatch(ctx, b).Close()
	})
}

const (
	// Concurrent replicas merge different rows.
	mergeMinutes = `WITH old AS (
		DELETE FROM log_volume WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM log_volume WHERE span = 60 AND at < $1::bigint ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING *),
		added AS (INSERT INTO log_volume AS v (org, span, at, trace, debug, info, warn, error, fatal, unspecified)
			SELECT org, 3600, at - at % 3600, sum(trace), sum(debug), sum(info), sum(warn), sum(error), sum(fatal), sum(unspecified)
			FROM old GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 ` + mergeLogRecords + `)
		SELECT count(*) FROM old`
	deleteHours = `DELETE FROM log_volume WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM log_volume WHERE span = 3600 AND at <= $1::bigint LIMIT $2 FOR UPDATE SKIP LOCKED))`
)

// expireLogRecords merges the minutes older than two days into hours and deletes the
// hours outside every period.
func (s *Store) expireLogRecords(ctx context.Context, now time.Time) error {
	before := now.Add(-assay.LogMinutesRetention).Truncate(time.Hour).Unix()
	for n := rowChunk; n == rowChunk; {
		err := s.transact(ctx, scoring, "merge log records of minutes", beginCommit, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, mergeMinutes, before, rowChunk).Scan(&n)
		})
		if err != nil {
			return err
		}
	}
	return s.expireRows(ctx, "delete old log records", deleteHours, now.Add(-assay.LogHoursRetention).Unix()-hourSpan, rowChunk)
}
