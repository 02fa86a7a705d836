// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/fold"
)

// How long is kept what has no place in the window.
const (
	requestsKept  = 15 * time.Minute
	setsKept      = 6 * time.Hour  // distinct sets that are not full, since their last change
	instancesKept = 24 * time.Hour // RES-002 claims without conflict, since their last change
)

// Rows per transaction, so that none makes commits wait for long: each chunk is some
// ten milliseconds of work.
const (
	hoursChunk    = 1000 // rows of as many services, which are locked
	itemsChunk    = 200
	seriesChunk   = 100
	claimsChunk   = 100 // services whose claims are looked through
	rowChunk      = 5000
	serviceChunk  = 50
	servicesAhead = 20_000 // services that are looked at for ones to forget
)

// The names in table memory.
const (
	windowStart = "window_start"
	metricStart = "metric_window_start"
)

// Expire forgets what lies before the start of the window: counts and usage,
// which leave the totals with it, evidence, full distinct sets, metric series, claims
// (those of MET-003 and MET-004 before metrics), scores of the histories. It also forgets
// RES-002 claims without conflict and distinct sets that are not full when they
// did not change for 24 and 6 hours, sessions that have ended, and services not seen
// for twice the window before its start, with all that is theirs; and by the store's
// own clock requests after 15 minutes and leases that expired a day ago. A service whose
// counts changed counts as unscored.
//
// It also makes the partitions of now and of the day after, so that no commit has to
// when the day begins.
//
// The work is done in many short transactions; when its context ends, the next call does
// the rest. What fails keeps nothing else from being forgotten while the server is
// there: the error is all that went wrong. Several replicas may do it at the same time.
func (s *Store) Expire(ctx context.Context, now time.Time, start, metrics delta.Bucket) error {
	from := micros(start.Time())
	window := micros(now) - from
	steps := []func() error{
		func() error { return s.makePartitionsAhead(ctx, now) },
		func() error { return s.expireHours(ctx, int64(start)) },
		func() error { return s.expireItems(ctx, start) },
		func() error { return s.expireInstances(ctx, micros(now.Add(-instancesKept))) },
		func() error { return s.expireClaims(ctx, int64(start), int64(metrics)) },
		func() error { return s.expireSeries(ctx, start) },
		func() error { return s.expireSets(ctx, int64(start), now.Add(-setsKept)) },
		func() error {
			return s.expireRows(ctx, "forget requests", `DELETE FROM requests WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM requests WHERE at < coalesce($1::bigint, `+serverMicros+`) - $2::bigint ORDER BY at LIMIT $3 FOR UPDATE SKIP LOCKED))`,
				s.injectedNow(), requestsKept.Microseconds(), rowChunk)
		},
		func() error {
			return s.expireRows(ctx, "forget leases", `DELETE FROM leases WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM leases WHERE expires_at < coalesce($1::bigint, `+serverMicros+`) - $2::bigint LIMIT $3 FOR UPDATE SKIP LOCKED))`,
				s.injectedNow(), leasesKept.Microseconds(), rowChunk)
		},
		func() error { return s.expireScores(ctx, from) },
		func() error {
			return s.expireRows(ctx, "forget old scores of organizations", `DELETE FROM organization_scores WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM organization_scores WHERE slot < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`, from/scoreSlot.Microseconds(), rowChunk)
		},
		func() error {
			return s.expireRows(ctx, "forget ended sessions", `DELETE FROM sessions WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM sessions WHERE least(idle_at, expires_at) <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`, micros(now), rowChunk)
		},
		func() error { return s.expireServices(ctx, from-2*window) },
	}
	var failures []error
	for _, step := range steps {
		err := step()
		failures = append(failures, err)
		if away(ctx, err) {
			break
		}
	}
	return errors.Join(failures...)
}

// away tells whether an error of a step is about anything that would be asked of the
// server, and not about what was.
func away(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	switch stateOf(err) {
	case queryCanceled, lockNotAvailable, serializationFailure, deadlockDetected:
		return false
	}
	return assay.ErrorCode(err) == assay.CodeUnavailable
}

// expireRows runs a deletion of at most rowChunk rows until it finds no more.
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

// eachBefore runs do for the partitions of a table that begin before a value. One
// that others have dropped meanwhile is done with.
func (s *Store) eachBefore(ctx context.Context, t *partitioned, before int64, do func(partition) error) error {
	found, err := s.partitionsBefore(ctx, t, before)
	if err != nil {
		return err
	}
	var failures []error
	for _, p := range found {
		if err := do(p); err != nil && stateOf(err) != undefinedTable {
			failures = append(failures, err)
			if away(ctx, err) {
				break
			}
		}
	}
	return errors.Join(failures...)
}

func (s *Store) expireHours(ctx context.Context, start int64) error {
	const what = "forget old counts"
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

// unread is the error for what was passed over because it cannot be read.
func (s *Store) unread(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return s.fail(ctx, what, err)
}

// hourKey is the primary key of hours.
type hourKey struct{ bucket, svc int64 }

// expireHours forgets some rows after a key and returns the last one, whether there may
// be more, and what was wrong with one that cannot be read: it goes, and leaves the
// totals as they are.
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
	var judged []bool
	for _, svc := range slices.Sorted(maps.Keys(gone)) {
		if total := totals[svc]; total != nil {
			total.Sub(gone[svc])
			changed, sums, judged = append(changed, svc), append(sums, total.AppendBinary([]byte{})), append(judged, gone[svc].Judged())
			signals = append(signals, int16(total.Signals()))
		}
	}
	// Usage alone does not change a score.
	_, err = tx.Exec(ctx, `UPDATE services s SET tally = n.tally, signals = n.signals, revision = s.revision + n.judged::integer, unscored = s.unscored OR n.judged
		FROM unnest($1::bigint[], $2::bytea[], $3::smallint[], $4::boolean[]) AS n (svc, tally, signals, judged) WHERE s.svc = n.svc`, changed, sums, signals, judged)
	return last, len(buckets) == hoursChunk, unread, err
}

// tallies sums up the tallies of rows by service. One that cannot be read is left out and
// said in unread.
func tallies(sums map[int64]*codec.Tally, unread *error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		return each(rows, nil, func(rows pgx.Rows) error {
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
}

// oldFacts is a table with one value for each service, and the bucket of its oldest
// part.
type oldFacts struct {
	table string
	chunk int
	// expire returns what is left of a value.
	expire func(facts []byte, start delta.Bucket) (left leftFacts, err error)
}

// leftFacts is what is left of a value; no facts for nothing.
type leftFacts struct {
	facts  []byte
	oldest delta.Bucket
	n      int64
}

func (s *Store) expireItems(ctx context.Context, start delta.Bucket) error {
	return s.expireFacts(ctx, start, &oldFacts{"items", itemsChunk, func(facts []byte, start delta.Bucket) (left leftFacts, err error) {
		left.facts, left.oldest, err = fold.ExpireItems(facts, start)
		return left, err
	}})
}

func (s *Store) expireSeries(ctx context.Context, start delta.Bucket) error {
	return s.expireFacts(ctx, start, &oldFacts{"series", seriesChunk, func(facts []byte, start delta.Bucket) (left leftFacts, err error) {
		series := new(delta.Series)
		if err := series.UnmarshalBinary(facts); err != nil {
			return left, err
		}
		if series.Expire(start); !series.Empty() {
			left = leftFacts{series.AppendBinary(nil), series.Oldest(), int64(series.Count())}
		}
		return left, nil
	}})
}

func (s *Store) expireFacts(ctx context.Context, start delta.Bucket, t *oldFacts) error {
	what := "forget old " + t.table
	var unread error
	for at, more := (factsKey{oldest: math.MinInt64}), true; more; {
		var next factsKey
		var bad error
		err := s.transact(ctx, scoring, what, beginCommit, func(tx pgx.Tx) (err error) {
			next, more, bad, err = t.expireChunk(ctx, tx, at, start)
			return err
		})
		if err != nil {
			return errors.Join(unread, err)
		}
		at, unread = next, cmp.Or(unread, s.unread(ctx, what, bad))
	}
	return unread
}

// factsKey is where a row lies among the oldest ones.
type factsKey struct{ oldest, svc int64 }

// expireChunk forgets what is old of some services after a key and returns the last
// one, whether there may be more, and what was wrong with a value that cannot be read,
// which stays.
func (t *oldFacts) expireChunk(ctx context.Context, tx pgx.Tx, after factsKey, start delta.Bucket) (last factsKey, more bool, unread, err error) {
	var svcs []int64
	rows, err := tx.Query(ctx, `SELECT oldest, svc FROM `+t.table+` WHERE (oldest, svc) > ($1, $2) AND oldest < $3 ORDER BY oldest, svc LIMIT $4`,
		after.oldest, after.svc, int64(start), t.chunk)
	err = each(rows, err, func(rows pgx.Rows) error {
		err := rows.Scan(&last.oldest, &last.svc)
		svcs = append(svcs, last.svc)
		return err
	})
	if err != nil || len(svcs) == 0 {
		return last, false, nil, err
	}
	var gone, kept, oldest, ns []int64
	var facts [][]byte
	b := new(pgx.Batch)
	b.Queue(`SELECT 1 FROM services WHERE svc = ANY ($1::bigint[]) ORDER BY svc FOR NO KEY UPDATE`, svcs)
	b.Queue(`SELECT svc, facts FROM `+t.table+` WHERE svc = ANY ($1::bigint[]) AND oldest < $2`, svcs, int64(start)).Query(func(rows pgx.Rows) error {
		return each(rows, nil, func(rows pgx.Rows) error {
			var svc int64
			var blob []byte
			if err := rows.Scan(&svc, &blob); err != nil {
				return err
			}
			left, err := t.expire(blob, start)
			if err != nil {
				unread = fmt.Errorf("service %d: %w", svc, err)
				return nil
			}
			if len(left.facts) == 0 {
				gone = append(gone, svc)
			} else {
				kept, oldest, ns, facts = append(kept, svc), append(oldest, int64(left.oldest)), append(ns, left.n), append(facts, left.facts)
			}
			return nil
		})
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return last, false, nil, err
	}
	b = new(pgx.Batch)
	b.Queue(`DELETE FROM `+t.table+` WHERE svc = ANY ($1::bigint[])`, gone)
	switch t.table {
	case "items":
		b.Queue(changeItems, kept, oldest, facts)
	default:
		b.Queue(changeSeries, kept, oldest, ns, facts)
	}
	return last, len(svcs) == t.chunk, unread, tx.SendBatch(ctx, b).Close()
}

// uncontested reports whether a claim c of RES-002 is the only value of its key, as far
// as the index knows: a claim whose key has the same lower half keeps it, too.
const uncontested = `NOT EXISTS (SELECT 1 FROM claims d WHERE d.org = c.org AND d.rule = 2 AND d.key = c.key AND d.value <> c.value)`

// instanceKey is where a RES-002 claim lies in the order of last changes.
type instanceKey struct{ writtenAt, svc, key, value int64 }

// instancesAhead finds claims after a key, contested or not.
const instancesAhead = `SELECT written_at, svc, key, value, org, ` + uncontested + ` FROM (
	SELECT written_at, svc, key, value, org FROM claims
	WHERE rule = 2 AND (written_at, svc, key, value) > ($1, $2, $3, $4) AND written_at < $5
	ORDER BY written_at, svc, key, value LIMIT $6) AS c ORDER BY written_at, svc, key, value`

// expireInstances forgets RES-002 claims whose key has one value only. Contested ones
// stay for the window, so there may be more of them than of those to forget: no
// statement looks at more than a chunk of either.
func (s *Store) expireInstances(ctx context.Context, before int64) error {
	for at, more := (instanceKey{writtenAt: math.MinInt64}), true; more; {
		var next instanceKey
		err := s.transact(ctx, scoring, "forget instances", beginCommit, func(tx pgx.Tx) (err error) {
			next, more, err = expireInstances(ctx, tx, at, before)
			return err
		})
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// expireInstances looks at some claims after a key, and returns the last one and
// whether there may be more.
func expireInstances(ctx context.Context, tx pgx.Tx, after instanceKey, before int64) (last instanceKey, more bool, err error) {
	var svcs, keys, values []int64
	orgs, n := make(map[int64]bool), 0
	rows, err := tx.Query(ctx, instancesAhead, after.writtenAt, after.svc, after.key, after.value, before, rowChunk)
	err = each(rows, err, func(rows pgx.Rows) error {
		var org int64
		var alone bool
		n++
		if err := rows.Scan(&last.writtenAt, &last.svc, &last.key, &last.value, &org, &alone); err != nil || !alone {
			return err
		}
		svcs, keys, values, orgs[org] = append(svcs, last.svc), append(keys, last.key), append(values, last.value), true
		return nil
	})
	if err != nil || len(svcs) == 0 {
		return last, n == rowChunk, err
	}
	b := new(pgx.Batch)
	b.Queue(`DELETE FROM claims c USING (SELECT svc, key, value FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS n (svc, key, value) ORDER BY svc, key, value) AS o
		WHERE c.svc = o.svc AND c.rule = 2 AND c.key = o.key AND c.value = o.value AND c.written_at < $4`, svcs, keys, values, before)
	queueClaimed(b, orgs)
	return last, n == rowChunk, tx.SendBatch(ctx, b).Close()
}

// expireClaims looks through all claims, service by service. That is only worth
// it when a window moved; what comes in too old meanwhile is not seen by readers
// and waits for the next move.
func (s *Store) expireClaims(ctx context.Context, start, metrics int64) error {
	var before, metricsBefore int64
	err := s.view(ctx, scoring, "read the window", func(tx pgx.Tx) (err error) {
		if before, err = recall(ctx, tx, windowStart); err == nil {
			metricsBefore, err = recall(ctx, tx, metricStart)
		}
		return err
	})
	if err != nil || (before == start && metricsBefore == metrics) {
		return err
	}
	for last := int64(0); ; {
		var svcs []int64
		err := s.transact(ctx, scoring, "forget old claims", beginCommit, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `SELECT svc FROM services WHERE svc > $1 ORDER BY svc LIMIT $2 FOR NO KEY UPDATE`, last, claimsChunk)
			if err != nil {
				return err
			}
			if svcs, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil || len(svcs) == 0 {
				return err
			}
			return expireClaims(ctx, tx, svcs, start, metrics)
		})
		if err != nil {
			return err
		}
		if len(svcs) < claimsChunk {
			break
		}
		last = svcs[len(svcs)-1]
	}
	return s.update(ctx, scoring, "remember the window", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO memory (name, value) VALUES ($1, $2), ($3, $4) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			metricStart, metrics, windowStart, start) // in the order of their names
		return err
	})
}

func expireClaims(ctx context.Context, tx pgx.Tx, svcs []int64, start, metrics int64) error {
	orgs, logged := make(map[int64]bool), make(map[int64]bool)
	rows, err := tx.Query(ctx, `DELETE FROM claims WHERE svc = ANY ($1::bigint[]) AND last < CASE WHEN rule IN ($2, $3) THEN $4::bigint ELSE $5::bigint END RETURNING org, svc, rule`,
		svcs, int16(codec.RuleNumber(catalog.MET003)), int16(codec.RuleNumber(catalog.MET004)), metrics, start)
	err = each(rows, err, func(rows pgx.Rows) error {
		var org, svc int64
		var rule int16
		if err := rows.Scan(&org, &svc, &rule); err != nil {
			return err
		}
		orgs[org] = true
		if rule == int16(codec.RuleNumber(catalog.LOG001)) {
			logged[svc] = true // days count for this service alone
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := new(pgx.Batch)
	if len(logged) > 0 {
		b.Queue(`UPDATE services SET revision = revision + 1, unscored = true WHERE svc = ANY ($1::bigint[])`, slices.Sorted(maps.Keys(logged)))
	}
	queueClaimed(b, orgs)
	return tx.SendBatch(ctx, b).Close()
}

// recall returns a remembered value, 0 when there is none.
func recall(ctx context.Context, tx pgx.Tx, name string) (int64, error) {
	var v int64
	err := tx.QueryRow(ctx, `SELECT value FROM memory WHERE name = $1`, name).Scan(&v)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return v, err
}

// expireSets forgets distinct sets: full ones before start, others written before a
// time.
func (s *Store) expireSets(ctx context.Context, start int64, writtenBefore time.Time) error {
	return s.eachBefore(ctx, setsTable, writtenBefore.Unix()+1, func(p partition) error {
		for _, step := range []struct {
			sets string
			args []any
		}{
			{`NOT is_full AND hour <= $1 AND written_at < $2`, []any{writtenBefore.Unix(), micros(writtenBefore)}},
			// A bucket before start is of an hour before start.
			{`is_full AND hour < $1 AND last < $2`, []any{start, start}},
		} {
			if p.from() >= step.args[0].(int64) {
				continue
			}
			err := s.expireRows(ctx, "forget distinct sets", `DELETE FROM `+p.name()+` WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM `+p.name()+` WHERE `+step.sets+` LIMIT $3 FOR UPDATE SKIP LOCKED))`, append(step.args, rowChunk)...)
			if err != nil {
				return err
			}
		}
		// Of a day that is over for long little is left, or nothing.
		if p.next().from() > max(start, writtenBefore.Unix()) {
			return nil
		}
		if err := s.dropPartition(ctx, p, true); err != nil {
			return err
		}
		return s.compactPartition(ctx, p)
	})
}

// expireScores forgets the scores of the history before a time.
func (s *Store) expireScores(ctx context.Context, before int64) error {
	return s.eachBefore(ctx, scoresTable, before, func(p partition) error {
		if p.next().from() <= before {
			return s.dropPartition(ctx, p, false)
		}
		return s.expireRows(ctx, "forget old scores", `DELETE FROM `+p.name()+` WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM `+p.name()+` WHERE calculated_at < $1 ORDER BY calculated_at LIMIT $2 FOR UPDATE SKIP LOCKED))`, before, rowChunk)
	})
}

// goneServices tells of services that they were last seen before $1, those without
// event times by their making. One that still has counts is left for later.
const goneServices = `last_seen_at < $1 AND (last_seen_at > 0 OR created_at < $1) AND length(tally) = 0`

// expireServices forgets services last seen before a time.
func (s *Store) expireServices(ctx context.Context, before int64) error {
	for last := int64(0); ; {
		var gone []int64
		var next *int64
		err := s.read(ctx, scoring, "find forgotten services", func(b *pgx.Batch) {
			b.Queue(`SELECT max(svc), array_agg(svc ORDER BY svc) FILTER (WHERE `+goneServices+`) FROM (
				SELECT svc, last_seen_at, created_at, tally FROM services WHERE svc > $2 ORDER BY svc LIMIT $3) AS ahead`, before, last, servicesAhead).
				QueryRow(func(row pgx.Row) error { return row.Scan(&next, &gone) })
		})
		if err != nil || next == nil {
			return err
		}
		for svcs := range slices.Chunk(gone, serviceChunk) {
			err := s.transact(ctx, scoring, "forget services", beginCommit, func(tx pgx.Tx) error { return forgetServices(ctx, tx, svcs, before) })
			if err != nil {
				return err
			}
		}
		last = *next
	}
}

// forgetServices forgets those of the services that still are to be, with all that is
// theirs but what goes with the window anyway.
func forgetServices(ctx context.Context, tx pgx.Tx, svcs []int64, before int64) error {
	var locked []int64
	orgs, counts := make(map[int64]bool), make(map[int64]int64)
	rows, err := tx.Query(ctx, `SELECT svc, org FROM services WHERE `+goneServices+` AND svc = ANY ($2::bigint[]) ORDER BY svc FOR UPDATE SKIP LOCKED`, before, svcs)
	err = each(rows, err, func(rows pgx.Rows) error {
		var svc, org int64
		err := rows.Scan(&svc, &org)
		locked, orgs[org] = append(locked, svc), true
		counts[org]--
		return err
	})
	if err != nil || len(locked) == 0 {
		return err
	}
	b := new(pgx.Batch)
	for _, table := range []string{"examples", "items", "series", "claims", "evidence", "insights", "services"} {
		b.Queue(`DELETE FROM `+table+` WHERE svc = ANY ($1::bigint[])`, locked)
	}
	queueCounts(b, counts)
	queueClaimed(b, orgs)
	return tx.SendBatch(ctx, b).Close()
}
