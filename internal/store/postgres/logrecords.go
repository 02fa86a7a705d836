// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"assay"
)

// LogRecords implements assay.LogRecordStore.
func (s *Store) LogRecords(ctx context.Context) (map[string]assay.SeverityCounts, error) {
	records := make(map[string]assay.SeverityCounts)
	err := s.read(ctx, lookups, "read log records", func(b *pgx.Batch) {
		clear(records)
		b.Queue(`SELECT o.id, l.severity, l.n FROM log_records l JOIN organizations o USING (org)`).Query(func(rows pgx.Rows) error {
			var (
				id     string
				number int32
				n      uint64
			)
			_, err := pgx.ForEachRow(rows, []any{&id, &number, &n}, func() error {
				counts := records[id]
				counts[assay.SeverityOf(number)] += n
				records[id] = counts
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
