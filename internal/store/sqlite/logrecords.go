// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
)

// logRecords adds the log records of an organization.
func (c *commit) logRecords(org int64, counts *assay.SeverityCounts) error {
	for s, n := range counts {
		if n == 0 {
			continue
		}
		if _, err := c.exec(addLogRecords, org, codec.SeverityNumber(assay.Severity(s)), int64(n)); err != nil {
			return err
		}
	}
	return nil
}

// LogRecords implements assay.LogRecordStore.
func (s *Store) LogRecords(ctx context.Context) (map[string]assay.SeverityCounts, error) {
	records := make(map[string]assay.SeverityCounts)
	err := s.query(ctx, lane.Lookups, "read log records", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT o.id, l.severity, l.n FROM log_records l JOIN organizations o ON o.org = l.org`)
		return each(rows, err, func(rows *sql.Rows) error {
			var id []byte
			var number int32
			var n uint64
			if err := rows.Scan(&id, &number, &n); err != nil {
				return err
			}
			counts := records[idOf(id)]
			counts[assay.SeverityOf(number)] += n
			records[idOf(id)] = counts
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}
