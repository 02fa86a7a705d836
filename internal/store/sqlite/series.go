// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"assay/internal/delta"
	"assay/internal/store/fold"
)

// seriesChunk is how many services lose series in one transaction.
const seriesChunk = 100

// series adds the metric series of a service. They change no score.
func (c *commit) series(svc int64, isNew bool, f *delta.Service) error {
	if f.Series.Empty() {
		return nil
	}
	var blob []byte
	if !isNew {
		if _, err := c.get(findSeries, []any{&blob}, svc); err != nil {
			return err
		}
	}
	kept, merged, err := fold.Series(blob, &f.Series)
	if err != nil || merged == nil {
		return err
	}
	_, err = c.exec(saveSeries, svc, int64(kept.Oldest()), int64(kept.Count()), merged)
	return err
}

func (s *Store) expireSeries(ctx context.Context, start delta.Bucket) error {
	for {
		n := 0
		err := s.update(ctx, "forget old series", func(tx *sql.Tx) (err error) {
			n, err = expireSeries(ctx, tx, start)
			return err
		})
		if err != nil || n < seriesChunk {
			return err
		}
	}
}

func expireSeries(ctx context.Context, tx *sql.Tx, start delta.Bucket) (int, error) {
	kept := make(map[int64]*delta.Series)
	rows, err := tx.QueryContext(ctx, `SELECT svc, facts FROM series INDEXED BY series_by_oldest WHERE oldest < ? LIMIT ?`, int64(start), seriesChunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var svc int64
		var blob sql.RawBytes
		if err := rows.Scan(&svc, &blob); err != nil {
			return err
		}
		series := new(delta.Series)
		if err := series.UnmarshalBinary(blob); err != nil {
			return fmt.Errorf("service %d: %w", svc, err)
		}
		series.Expire(start)
		kept[svc] = series
		return nil
	})
	if err != nil {
		return 0, err
	}
	for svc, series := range kept {
		if series.Empty() {
			_, err = tx.ExecContext(ctx, `DELETE FROM series WHERE svc = ?`, svc)
		} else {
			_, err = tx.ExecContext(ctx, `UPDATE series SET oldest = ?, n = ?, facts = ? WHERE svc = ?`,
				int64(series.Oldest()), int64(series.Count()), series.AppendBinary(nil), svc)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(kept), nil
}
