// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// Rows that one transaction of the expiry changes. A chunk takes some ten milliseconds,
// so that commits do not wait for long.
const (
	hoursChunk = 1000 // rows of as many services, which the transaction locks
	rowChunk   = 5000
)

// ExpireHistory implements query.Engine. It also creates the partitions of today and
// tomorrow, so that no commit has to create them at the start of the day.
func (e engine) ExpireHistory(ctx context.Context, now time.Time, start delta.Bucket) []func() error {
	s := e.store
	return []func() error{
		func() error { return s.makePartitionsAhead(ctx, now) },
		func() error { return s.expireHours(ctx, int64(start)) },
		func() error { return s.expireSets(ctx, int64(start), now.Add(-query.SetsKept)) },
		func() error { return s.expireScores(ctx, micros(start.Time())) },
	}
}

// Chunk implements query.Engine.
func (e engine) Chunk(ctx context.Context, pool connpool.Pool, operation string, do func(query.Tx) error) error {
	return e.store.transact(ctx, pool, operation, beginCommit, func(tx pgx.Tx) error { return do(&transaction{e.store, tx}) })
}

// Unavailable implements query.Engine.
func (engine) Unavailable(ctx context.Context, err error) bool { return unavailable(ctx, err) }

// unavailable reports whether an error concerns the server or ctx, and not the rows of a single
// step.
func unavailable(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	switch stateOf(err) {
	case queryCanceled, lockNotAvailable, serializationFailure, deadlockDetected:
		return false
	}
	return assay.ErrorCode(err) == assay.CodeUnavailable
}

// expireRows repeats a deletion of at most rowChunk rows until it finds no more.
func (s *Store) expireRows(ctx context.Context, what, query string, args ...any) error {
	for {
		var n int64
		err := s.transact(ctx, scoring, what, beginCommit, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, query, args...)
			n = tag.RowsAffected()
			return err
		})
		if err != nil || n < rowChunk {
			return err
		}
	}
}

// eachBefore runs do for the partitions of a table that begin before a value. It skips a
// partition that another replica has dropped meanwhile.
func (s *Store) eachBefore(ctx context.Context, t *partitioned, before int64, do func(partition) error) error {
	found, err := s.partitionsBefore(ctx, t, before)
	if err != nil {
		return err
	}
	var failures []error
	for _, p := range found {
		if err := do(p); err != nil && stateOf(err) != undefinedTable {
			failures = append(failures, err)
			if unavailable(ctx, err) {
				break
			}
		}
	}
	return errors.Join(failures...)
}

func (s *Store) expireHours(ctx context.Context, start int64) error {
	const what = "delete old counts"
	return s.eachBefore(ctx, hoursTable, start, func(p partition) error {
		var unread error
		for at, more := (hourKey{bucket: p.from() - 1}), true; more; {
			var next hourKey
			var bad error
			err := s.transact(ctx, scoring, what, beginCommit, func(tx pgx.Tx) (err error) {
				next, more, bad, err = expireHours(ctx, tx, p, at, start)
				return err
			})
			if err != nil {
				return errors.Join(unread, err)
			}
			at, unread = next, cmp.Or(unread, s.unread(ctx, what, bad))
		}
		if p.next().from() > start {
			return unread
		}
		return errors.Join(unread, s.dropPartition(ctx, p, true))
	})
}

// unread returns the error for rows that were skipped because they could not be decoded.
func (s *Store) unread(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return s.fail(ctx, what, err)
}

// hourKey is the primary key of hours.
type hourKey struct{ bucket, svc int64 }

// expireHours deletes up to a chunk of rows after a key. It returns the last key and
// whether more rows may follow. It also deletes rows that it cannot decode, without
// subtracting them from the totals, and returns the error in unread.
func expireHours(ctx context.Context, tx pgx.Tx, p partition, after hourKey, start int64) (last hourKey, more bool, unread, err error) {
	var buckets, svcs []int64
	rows, err := tx.Query(ctx, `SELECT bucket, svc FROM `+p.name()+` WHERE (bucket, svc) > ($1, $2) AND bucket < $3 ORDER BY bucket, svc LIMIT $4`,
		after.bucket, after.svc, start, hoursChunk)
	err = each(rows, err, func(rows pgx.Rows) error {
		err := rows.Scan(&last.bucket, &last.svc)
		buckets, svcs = append(buckets, last.bucket), append(svcs, last.svc)
		return err
	})
	if err != nil || len(buckets) == 0 {
		return last, false, nil, err
	}
	totals := make(map[int64]*codec.Tally, len(svcs))
	gone := make(map[int64]*codec.Tally, len(svcs))
	b := new(pgx.Batch)
	b.Queue(`SELECT svc, tally FROM services WHERE svc = ANY ($1::bigint[]) ORDER BY svc FOR NO KEY UPDATE`, svcs).Query(tallies(totals, &unread))
	b.Queue(`DELETE FROM `+p.name()+` h USING unnest($1::bigint[], $2::bigint[]) AS n (bucket, svc) WHERE h.bucket = n.bucket AND h.svc = n.svc RETURNING h.svc, h.tally`,
		buckets, svcs).Query(tallies(gone, &unread))
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return last, false, nil, err
	}
	var changed []int64
	var sums [][]byte
	var signals []int16
	var evaluated []bool
	for _, svc := range slices.Sorted(maps.Keys(gone)) {
		if total := totals[svc]; total != nil {
			total.Sub(gone[svc])
			changed, sums, evaluated = append(changed, svc), append(sums, total.AppendBinary([]byte{})), append(evaluated, gone[svc].Evaluated())
			signals = append(signals, int16(total.Signals()))
		}
	}
	// Usage alone does not change a score.
	_, err = tx.Exec(ctx, `UPDATE services s SET tally = n.tally, signals = n.signals, revision = s.revision + n.evaluated::integer, unscored = s.unscored OR n.evaluated
		FROM unnest($1::bigint[], $2::bytea[], $3::smallint[], $4::boolean[]) AS n (svc, tally, signals, evaluated) WHERE s.svc = n.svc`, changed, sums, signals, evaluated)
	return last, len(buckets) == hoursChunk, unread, err
}

// tallies sums tallies by service. It skips a tally that it cannot decode and stores the
// error in unread.
func tallies(sums map[int64]*codec.Tally, unread *error) func(pgx.Rows) error {
	return eachRow(func(rows pgx.Rows) error {
		var svc int64
		var blob []byte
		if err := rows.Scan(&svc, &blob); err != nil {
			return err
		}
		var t codec.Tally
		if err := t.UnmarshalBinary(blob); err != nil {
			*unread = fmt.Errorf("counts of service %d: %w", svc, err)
			return nil
		}
		if sums[svc] == nil {
			sums[svc] = new(codec.Tally)
		}
		sums[svc].Add(&t)
		return nil
	})
}

// setKey is the primary key of distinct sets.
type setKey struct{ hour, svc, rule, key int64 }

// expireSets deletes full distinct sets before start, and other sets last written before
// writtenBefore.
func (s *Store) expireSets(ctx context.Context, start int64, writtenBefore time.Time) error {
	return s.eachBefore(ctx, setsTable, writtenBefore.Unix()+1, func(p partition) error {
		for at, more := (setKey{hour: p.from() - 1}), true; more; {
			var next setKey
			err := s.transact(ctx, scoring, "delete old distinct sets", beginCommit, func(tx pgx.Tx) (err error) {
				next, more, err = expireSets(ctx, tx, p, at, start, writtenBefore)
				return err
			})
			if err != nil {
				return err
			}
			at = next
		}
		// Few or no rows are left of a day long past.
		if p.next().from() > max(start, writtenBefore.Unix()) {
			return nil
		}
		if err := s.dropPartition(ctx, p, true); err != nil {
			return err
		}
		return s.compactPartition(ctx, p)
	})
}

// expireSets deletes the expired sets among the rowChunk rows after a key, as
// Store.expireSets describes. It returns the last key and whether more rows may follow.
func expireSets(ctx context.Context, tx pgx.Tx, p partition, after setKey, start int64, writtenBefore time.Time) (last setKey, more bool, err error) {
	last, more = setKey{hour: writtenBefore.Unix() + 1}, true
	err = tx.QueryRow(ctx, `SELECT hour, svc, rule, key FROM `+p.name()+` WHERE (hour, svc, rule, key) > ($1, $2, $3, $4) ORDER BY hour, svc, rule, key LIMIT 1 OFFSET $5`,
		after.hour, after.svc, after.rule, after.key, rowChunk-1).Scan(&last.hour, &last.svc, &last.rule, &last.key)
	if errors.Is(err, pgx.ErrNoRows) {
		more, err = false, nil
	}
	if err != nil {
		return last, false, err
	}
	// A full set before start belongs to an hour before start.
	_, err = tx.Exec(ctx, `DELETE FROM `+p.name()+` WHERE ctid = ANY (ARRAY(SELECT ctid FROM `+p.name()+`
		WHERE (hour, svc, rule, key) > ($1, $2, $3, $4) AND (hour, svc, rule, key) <= ($5, $6, $7, $8) AND hour <= $9
			AND CASE WHEN is_full THEN last < $10 ELSE written_at < $11 END FOR UPDATE SKIP LOCKED))`,
		after.hour, after.svc, after.rule, after.key, last.hour, last.svc, last.rule, last.key, writtenBefore.Unix(), start, micros(writtenBefore))
	return last, more && last.hour <= writtenBefore.Unix(), err
}

// expireScores deletes the scores of the history before a time.
func (s *Store) expireScores(ctx context.Context, before int64) error {
	return s.eachBefore(ctx, scoresTable, before, func(p partition) error {
		if p.next().from() <= before {
			return s.dropPartition(ctx, p, false)
		}
		return s.expireRows(ctx, "delete old scores", `DELETE FROM `+p.name()+` WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM `+p.name()+` WHERE calculated_at < $1 ORDER BY calculated_at LIMIT $2 FOR UPDATE SKIP LOCKED))`, before, rowChunk)
	})
}
