// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"

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

// expireSeries forgets series not seen since the start of the window. What cannot be
// read stays.
func (s *Store) expireSeries(ctx context.Context, start delta.Bucket) error {
	at := factsKey{oldest: math.MinInt64}
	return s.expireChunks(ctx, "forget old series", seriesChunk, func(tx *sql.Tx) (int, error, error) { return expireSeries(ctx, tx, &at, start) })
}

// expireSeries goes on from a key and moves it.
func expireSeries(ctx context.Context, tx *sql.Tx, at *factsKey, start delta.Bucket) (n int, unread, err error) {
	kept := make(map[int64]*delta.Series)
	rows, err := tx.QueryContext(ctx, `SELECT oldest, svc, facts FROM series INDEXED BY series_by_oldest
		WHERE (oldest, svc) > (?, ?) AND oldest < ? ORDER BY oldest, svc LIMIT ?`, at.oldest, at.svc, int64(start), seriesChunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var blob sql.RawBytes
		if err := rows.Scan(&at.oldest, &at.svc, &blob); err != nil {
			return err
		}
		n++
		series := new(delta.Series)
		if err := series.UnmarshalBinary(blob); err != nil {
			unread = fmt.Errorf("service %d: %w", at.svc, err)
			return nil
		}
		series.Expire(start)
		kept[at.svc] = series
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	for svc, series := range kept {
		if series.Empty() {
			_, err = tx.ExecContext(ctx, `DELETE FROM series WHERE svc = ?`, svc)
		} else {
			_, err = tx.ExecContext(ctx, `UPDATE series SET oldest = ?, n = ?, facts = ? WHERE svc = ?`,
				int64(series.Oldest()), int64(series.Count()), series.AppendBinary(nil), svc)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return n, unread, nil
}
