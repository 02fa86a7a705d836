// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"time"

	"assay"
	"assay/internal/store/lane"
)

// hourSpan is the span, in seconds, of the rows of log_volume for an hour.
const hourSpan = 3600

// logRow returns the arguments of addLogRecords.
func logRow(org, span, at int64, c *assay.SeverityCounts) []any {
	row := []any{org, span, at}
	for _, n := range c {
		row = append(row, int64(n))
	}
	return row
}

// logRecords adds the log records of an organization to the minute of the commit.
func (c *commit) logRecords(org int64, counts *assay.SeverityCounts) error {
	if *counts == (assay.SeverityCounts{}) {
		return nil
	}
	_, err := c.exec(addLogRecords, logRow(org, 60, c.now/time.Minute.Microseconds()*60, counts)...)
	return err
}

const selectLogRecords = `
	SELECT span, at, trace, debug, info, warn, error, fatal, unspecified FROM log_volume WHERE org = ?1 AND span = 3600 AND at > ?2 - 3600 AND at < ?3
	UNION ALL
	SELECT 60, min(at), sum(trace), sum(debug), sum(info), sum(warn), sum(error), sum(fatal), sum(unspecified) FROM log_volume WHERE org = ?1 AND span = 60 AND at >= ?2 AND at < ?3
	GROUP BY (at - ?2) / ?4
	ORDER BY 2, 1`

// LogRecords implements assay.LogRecordStore.
func (s *Store) LogRecords(ctx context.Context, organizationID string, from, to time.Time, step time.Duration) ([]assay.LogRecords, error) {
	var records []assay.LogRecords
	err := s.view(ctx, lane.Pages, "read log records", func(tx *sql.Tx) error {
		records = nil
		org, err := orgOf(ctx, tx, organizationID)
		if assay.ErrorCode(err) == assay.CodeNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		var span, at int64
		var c assay.SeverityCounts
		dest := []any{&span, &at}
		for i := range c {
			dest = append(dest, &c[i])
		}
		rows, err := tx.QueryContext(ctx, selectLogRecords, org, ceilSeconds(from), ceilSeconds(to), int64(step.Seconds()))
		return each(rows, err, func(rows *sql.Rows) error {
			err := rows.Scan(dest...)
			records = append(records, assay.LogRecords{Start: time.Unix(at, 0).UTC(), Span: time.Duration(span) * time.Second, Counts: c})
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
	return s.update(ctx, lane.OwnWork, "import log records", func(tx *sql.Tx) error {
		org, err := orgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		var oldest sql.NullInt64
		if err := tx.QueryRowContext(ctx, `SELECT min(at) FROM log_volume WHERE org = ?`, org).Scan(&oldest); err != nil {
			return err
		}
		add, err := tx.PrepareContext(ctx, statements[addLogRecords])
		if err != nil {
			return err
		}
		defer add.Close()
		for i := range records {
			r := &records[i]
			if oldest.Valid && r.Start.Unix() >= oldest.Int64 {
				continue
			}
			if _, err := add.ExecContext(ctx, logRow(org, int64(r.Span.Seconds()), r.Start.Unix(), &r.Counts)...); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	// Both statements select the same rows.
	mergeMinutes = `INSERT INTO log_volume (org, span, at, trace, debug, info, warn, error, fatal, unspecified)
		SELECT org, 3600, at - at % 3600, sum(trace), sum(debug), sum(info), sum(warn), sum(error), sum(fatal), sum(unspecified) FROM (
			SELECT * FROM log_volume INDEXED BY log_volume_by_time WHERE span = 60 AND at < ?1 ORDER BY at, org LIMIT ?2)
		WHERE true GROUP BY 1, 2, 3 ` + mergeLogRecords
	deleteMinutes = `DELETE FROM log_volume WHERE (org, span, at) IN (
		SELECT org, span, at FROM log_volume INDEXED BY log_volume_by_time WHERE span = 60 AND at < ?1 ORDER BY at, org LIMIT ?2)`
	deleteHours = `DELETE FROM log_volume WHERE (org, span, at) IN (
		SELECT org, span, at FROM log_volume INDEXED BY log_volume_by_time WHERE span = 3600 AND at <= ?1 LIMIT ?2)`

	mergeLogRecords = `ON CONFLICT DO UPDATE SET trace = trace + excluded.trace, debug = debug + excluded.debug, info = info + excluded.info,
		warn = warn + excluded.warn, error = error + excluded.error, fatal = fatal + excluded.fatal, unspecified = unspecified + excluded.unspecified`
)

// expireLogRecords merges the minutes older than two days into hours and deletes the
// hours outside every period.
func (s *Store) expireLogRecords(ctx context.Context, now time.Time) error {
	before := now.Add(-assay.LogMinutesRetention).Truncate(time.Hour).Unix()
	err := s.expireChunks(ctx, "merge log records of minutes", rowChunk, func(tx *sql.Tx) (int, error, error) {
		if _, err := tx.ExecContext(ctx, mergeMinutes, before, rowChunk); err != nil {
			return 0, nil, err
		}
		res, err := tx.ExecContext(ctx, deleteMinutes, before, rowChunk)
		if err != nil {
			return 0, nil, err
		}
		n, err := res.RowsAffected()
		return int(n), nil, err
	})
	if err != nil {
		return err
	}
	return s.expireRows(ctx, "delete old log records", deleteHours, now.Add(-assay.LogHoursRetention).Unix()-hourSpan)
}
