// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// rowChunk is the number of rows that one transaction of the expiry changes. A chunk
// holds the write lock for some ten milliseconds.
const rowChunk = 2000

// ExpireHistory implements query.Engine.
func (e engine) ExpireHistory(ctx context.Context, now time.Time, start delta.Bucket) []func() error {
	s := e.store
	return []func() error{
		func() error { return s.expireHours(ctx, int64(start)) },
		func() error { return s.expireSets(ctx, int64(start), now.Add(-query.SetsKept)) },
		func() error {
			return s.expireChunks(ctx, "delete old scores", rowChunk, func(tx *sql.Tx) (n int, unread, err error) {
				res, err := tx.ExecContext(ctx, `DELETE FROM scores WHERE (svc, calculated_at, id) IN (
					SELECT svc, calculated_at, id FROM scores WHERE calculated_at < ? LIMIT ?)`, micros(start.Time()), rowChunk)
				if err != nil {
					return 0, nil, err
				}
				deleted, err := res.RowsAffected()
				return int(deleted), nil, err
			})
		},
	}
}

// Chunk implements query.Engine.
func (e engine) Chunk(ctx context.Context, pool connpool.Pool, operation string, do func(query.Tx) error) error {
	return e.Update(ctx, pool, operation, do)
}

// Unavailable implements query.Engine.
func (engine) Unavailable(ctx context.Context, err error) bool {
	return ctx.Err() != nil || assay.ErrorCode(err) == assay.CodeUnavailable
}

// expireChunks repeats a transaction until no rows are left. The transaction returns the
// number of rows that it found, at most chunk, and the error for rows that it skipped
// because it could not decode them.
func (s *Store) expireChunks(ctx context.Context, what string, chunk int, do func(*sql.Tx) (n int, unread, err error)) error {
	var failure error
	for {
		n := 0
		var unread error
		err := s.update(ctx, connpool.Scoring, what, func(tx *sql.Tx) (err error) {
			n, unread, err = do(tx)
			return err
		})
		if unread != nil && failure == nil {
			failure = s.fail(ctx, what, unread)
		}
		if err != nil || n < chunk {
			return errors.Join(failure, err)
		}
	}
}

// expireHours deletes old counts. It also deletes counts that it cannot decode, without
// subtracting them from the totals.
func (s *Store) expireHours(ctx context.Context, start int64) error {
	return s.expireChunks(ctx, "delete old counts", rowChunk, func(tx *sql.Tx) (int, error, error) { return s.expireHoursIn(ctx, tx, start) })
}

func (s *Store) expireHoursIn(ctx context.Context, tx *sql.Tx, start int64) (n int, unread, err error) {
	gone := make(map[int64]*codec.Tally)
	var bucket, svc int64
	rows, err := tx.QueryContext(ctx, `SELECT bucket, svc, tally FROM hours WHERE bucket < ? ORDER BY bucket, svc LIMIT ?`, start, rowChunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var blob []byte
		if err := rows.Scan(&bucket, &svc, &blob); err != nil {
			return err
		}
		n++
		var t codec.Tally
		if err := t.UnmarshalBinary(blob); err != nil {
			unread = fmt.Errorf("counts of service %d: %w", svc, err)
			return nil
		}
		if gone[svc] == nil {
			gone[svc] = new(codec.Tally)
		}
		gone[svc].Add(&t)
		return nil
	})
	if err != nil || n == 0 {
		return 0, nil, err
	}
	c := s.commitIn(ctx, tx)
	for svc, t := range gone {
		var blob []byte
		known, err := c.get(findTotal, []any{&blob}, svc)
		if err != nil {
			return 0, nil, err
		}
		if !known {
			continue
		}
		var total codec.Tally
		if err := total.UnmarshalBinary(blob); err != nil {
			unread = fmt.Errorf("counts of service %d: %w", svc, err)
			continue
		}
		total.Sub(t)
		changed := 0 // usage alone does not change a score
		if t.Evaluated() {
			changed = 1
		}
		if _, err := c.exec(saveTotal, total.AppendBinary([]byte{}), total.Signals(), changed, svc); err != nil {
			return 0, nil, err
		}
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM hours WHERE bucket < ?1 OR (bucket = ?1 AND svc <= ?2)`, bucket, svc)
	return n, unread, err
}

// setKey is the primary key of distinct_sets.
type setKey struct{ hour, svc, rule, key int64 }

// expireSets deletes the distinct sets of past hours. It reads in chunks, however many
// sets stay, and deletes in transactions of their own.
func (s *Store) expireSets(ctx context.Context, start int64, writtenBefore time.Time) error {
	const old = `iif(full = 1, last < ?, written_at < ?)`
	written := micros(writtenBefore)
	for at := (setKey{hour: -1 << 63}); ; {
		var victims []setKey
		n := 0
		err := s.query(ctx, connpool.Scoring, "find old distinct sets", func(db *sql.DB) error {
			rows, err := db.QueryContext(ctx, `SELECT hour, svc, rule, key, `+old+` FROM distinct_sets
				WHERE (hour, svc, rule, key) > (?, ?, ?, ?) AND hour <= ? ORDER BY hour, svc, rule, key LIMIT ?`,
				start, written, at.hour, at.svc, at.rule, at.key, writtenBefore.Unix(), rowChunk)
			return each(rows, err, func(rows *sql.Rows) error {
				var is bool
				err := rows.Scan(&at.hour, &at.svc, &at.rule, &at.key, &is)
				if is {
					victims = append(victims, at)
				}
				n++
				return err
			})
		})
		if err != nil {
			return err
		}
		if len(victims) > 0 {
			err = s.update(ctx, connpool.Scoring, "delete old distinct sets", func(tx *sql.Tx) error {
				st, err := tx.PrepareContext(ctx, `DELETE FROM distinct_sets WHERE hour = ? AND svc = ? AND rule = ? AND key = ? AND `+old)
				if err != nil {
					return err
				}
				defer st.Close()
				for _, v := range victims {
					if _, err := st.ExecContext(ctx, v.hour, v.svc, v.rule, v.key, start, written); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil || n < rowChunk {
			return err
		}
	}
}
