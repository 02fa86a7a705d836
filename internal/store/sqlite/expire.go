// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/fold"
	"assay/internal/store/lane"
)

// How long is kept what has no place in the window.
const (
	requestsKept  = 15 * time.Minute
	setsKept      = 6 * time.Hour  // distinct sets that are not full, since their last change
	instancesKept = 24 * time.Hour // RES-002 claims without conflict, since their last change
)

// Rows per transaction, so that none holds the write lock for long: each chunk
// is some ten milliseconds of work, services being the largest.
const (
	rowChunk     = 2000
	itemsChunk   = 200
	claimsChunk  = 20 // services whose claims are looked through
	serviceChunk = 5
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
// did not change for 24 and 6 hours, and services not seen for twice the window
// before its start, with all that is theirs; and by the store's own clock requests
// after 15 minutes and leases that expired a day ago. A service whose counts
// changed counts as unscored.
//
// The work is done in many short transactions; when its context ends, the next call does
// the rest. What fails keeps nothing else from being forgotten while the store can be
// written: the error is all that went wrong.
func (s *Store) Expire(ctx context.Context, now time.Time, start, metrics delta.Bucket) error {
	from := micros(start.Time())
	window := micros(now) - from
	steps := []func() error{
		func() error { return s.expireHours(ctx, int64(start)) },
		func() error { return s.expireItems(ctx, start) },
		func() error { return s.expireInstances(ctx, micros(now.Add(-instancesKept))) },
		func() error { return s.expireClaims(ctx, int64(start), int64(metrics)) },
		func() error { return s.expireSeries(ctx, start) },
		func() error { return s.expireSets(ctx, int64(start), now.Add(-setsKept)) },
		func() error {
			return s.expireRows(ctx, "forget requests", `DELETE FROM requests WHERE (org, signal, hash) IN (
				SELECT org, signal, hash FROM requests WHERE at < ? LIMIT ?)`, micros(s.now().Add(-requestsKept)))
		},
		func() error {
			return s.expireRows(ctx, "forget leases", `DELETE FROM leases WHERE name IN (
				SELECT name FROM leases WHERE expires_at < ? LIMIT ?)`, micros(s.now().Add(-leasesKept)))
		},
		func() error {
			return s.expireRows(ctx, "forget old scores", `DELETE FROM scores WHERE (svc, calculated_at, id) IN (
				SELECT svc, calculated_at, id FROM scores WHERE calculated_at < ? LIMIT ?)`, from)
		},
		func() error {
			return s.expireRows(ctx, "forget old scores of organizations", `DELETE FROM organization_scores WHERE (org, slot) IN (
				SELECT org, slot FROM organization_scores WHERE slot < ? LIMIT ?)`, from/scoreSlot.Microseconds())
		},
		func() error {
			return s.expireRows(ctx, "forget ended sessions", `DELETE FROM sessions WHERE hash IN (
				SELECT hash FROM sessions WHERE min(idle_at, expires_at) <= ? LIMIT ?)`, micros(now))
		},
		func() error { return s.expireServices(ctx, from-2*window) },
	}
	var failures []error
	for _, step := range steps {
		err := step()
		failures = append(failures, err)
		if ctx.Err() != nil || assay.ErrorCode(err) == assay.CodeUnavailable {
			break
		}
	}
	return errors.Join(failures...)
}

// expireRows runs a deletion of at most rowChunk rows until it finds no more.
func (s *Store) expireRows(ctx context.Context, what, query string, before int64) error {
	for {
		var n int64
		err := s.update(ctx, lane.Scoring, what, func(tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, query, before, rowChunk)
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil || n < rowChunk {
			return err
		}
	}
}

// expireChunks runs a transaction until there is no more to do. It returns how much it
// found of at most chunk, and what was wrong with what it passed over because that
// cannot be read.
func (s *Store) expireChunks(ctx context.Context, what string, chunk int, do func(*sql.Tx) (n int, unread, err error)) error {
	var failure error
	for {
		n := 0
		var unread error
		err := s.update(ctx, lane.Scoring, what, func(tx *sql.Tx) (err error) {
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

// expireHours forgets old counts. Those that cannot be read go, too, and leave the totals
// as they are.
func (s *Store) expireHours(ctx context.Context, start int64) error {
	return s.expireChunks(ctx, "forget old counts", rowChunk, func(tx *sql.Tx) (int, error, error) { return expireHours(ctx, tx, start) })
}

func expireHours(ctx context.Context, tx *sql.Tx, start int64) (n int, unread, err error) {
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
	find, err := tx.PrepareContext(ctx, `SELECT tally FROM services WHERE svc = ?`)
	if err != nil {
		return 0, nil, err
	}
	defer find.Close()
	save, err := tx.PrepareContext(ctx, `UPDATE services SET tally = ?, signals = ?, revision = revision + ? WHERE svc = ?`)
	if err != nil {
		return 0, nil, err
	}
	defer save.Close()
	inner := context.WithoutCancel(ctx) // one row each; the transaction has the context
	for svc, t := range gone {
		var blob []byte
		err := find.QueryRowContext(inner, svc).Scan(&blob)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		var total codec.Tally
		if err := total.UnmarshalBinary(blob); err != nil {
			unread = fmt.Errorf("counts of service %d: %w", svc, err)
			continue
		}
		total.Sub(t)
		changed := 0 // usage alone does not change a score
		if t.Judged() {
			changed = 1
		}
		if _, err := save.ExecContext(inner, total.AppendBinary([]byte{}), total.Signals(), changed, svc); err != nil {
			return 0, nil, err
		}
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM hours WHERE bucket < ?1 OR (bucket = ?1 AND svc <= ?2)`, bucket, svc)
	return n, unread, err
}

// factsKey is where a row lies among the oldest ones.
type factsKey struct{ oldest, svc int64 }

// expireItems forgets old evidence. What cannot be read stays.
func (s *Store) expireItems(ctx context.Context, start delta.Bucket) error {
	at := factsKey{oldest: math.MinInt64}
	return s.expireChunks(ctx, "forget old evidence", itemsChunk, func(tx *sql.Tx) (int, error, error) { return expireItems(ctx, tx, &at, start) })
}

// expireItems goes on from a key and moves it.
func expireItems(ctx context.Context, tx *sql.Tx, at *factsKey, start delta.Bucket) (n int, unread, err error) {
	type left struct {
		facts  []byte
		oldest delta.Bucket
	}
	kept := make(map[int64]left)
	rows, err := tx.QueryContext(ctx, `SELECT oldest, svc, facts FROM items INDEXED BY items_by_oldest
		WHERE (oldest, svc) > (?, ?) AND oldest < ? ORDER BY oldest, svc LIMIT ?`, at.oldest, at.svc, int64(start), itemsChunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var blob []byte
		if err := rows.Scan(&at.oldest, &at.svc, &blob); err != nil {
			return err
		}
		n++
		facts, oldest, err := fold.ExpireItems(blob, start)
		if err != nil {
			unread = fmt.Errorf("service %d: %w", at.svc, err)
			return nil
		}
		kept[at.svc] = left{facts, oldest}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	for svc, l := range kept {
		if len(l.facts) == 0 {
			_, err = tx.ExecContext(ctx, `DELETE FROM items WHERE svc = ?`, svc)
		} else {
			_, err = tx.ExecContext(ctx, `UPDATE items SET oldest = ?, facts = ? WHERE svc = ?`, int64(l.oldest), l.facts, svc)
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return n, unread, nil
}

// uncontested reports whether a claim c of RES-002 is the only value of its key, as far
// as the index knows: a claim whose key has the same lower half keeps it, too.
const uncontested = `NOT EXISTS (SELECT 1 FROM claims d WHERE d.org = c.org AND d.rule = 2 AND d.key = c.key AND d.value <> c.value)`

// instanceKey is where a RES-002 claim lies in the order of last changes.
type instanceKey struct{ writtenAt, svc, key, value int64 }

// expireInstances forgets RES-002 claims whose key has one value only. Contested ones
// stay for the window, so there may be more of them than of those to forget: no
// statement looks at more than a chunk of either, and only deleting makes writers wait.
func (s *Store) expireInstances(ctx context.Context, before int64) error {
	const what = "forget instances"
	at := instanceKey{writtenAt: math.MinInt64}
	for n := rowChunk; n == rowChunk; {
		n = 0
		var alone []instanceKey
		err := s.query(ctx, lane.Scoring, what, func(db *sql.DB) error {
			rows, err := db.QueryContext(ctx, `SELECT c.written_at, c.svc, c.key, c.value, `+uncontested+` FROM claims c INDEXED BY claims_instances
				WHERE c.rule = 2 AND (c.written_at, c.svc, c.rule, c.key, c.value) > (?, ?, 2, ?, ?) AND c.written_at < ?
				ORDER BY c.written_at, c.svc, c.rule, c.key, c.value LIMIT ?`, at.writtenAt, at.svc, at.key, at.value, before, rowChunk)
			return each(rows, err, func(rows *sql.Rows) error {
				var is bool
				err := rows.Scan(&at.writtenAt, &at.svc, &at.key, &at.value, &is)
				if is {
					alone = append(alone, at)
				}
				n++
				return err
			})
		})
		if err != nil {
			return err
		}
		if len(alone) == 0 {
			continue
		}
		if err := s.update(ctx, lane.Scoring, what, func(tx *sql.Tx) error { return forgetInstances(ctx, tx, alone, before) }); err != nil {
			return err
		}
	}
	return nil
}

// forgetInstances forgets those of the claims that did not change meanwhile.
func forgetInstances(ctx context.Context, tx *sql.Tx, claims []instanceKey, before int64) error {
	st, err := tx.PrepareContext(ctx, `DELETE FROM claims AS c WHERE svc = ? AND rule = 2 AND key = ? AND value = ? AND written_at < ? AND `+uncontested+` RETURNING org`)
	if err != nil {
		return err
	}
	defer st.Close()
	orgs := make(map[int64]bool)
	inner := context.WithoutCancel(ctx) // one row each; the transaction has the context
	for _, cl := range claims {
		var org int64
		switch err := st.QueryRowContext(inner, cl.svc, cl.key, cl.value, before).Scan(&org); {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		default:
			orgs[org] = true
		}
	}
	return touchOrgs(ctx, tx, orgs)
}

// touchOrgs notes that claims of organizations changed.
func touchOrgs(ctx context.Context, tx *sql.Tx, orgs map[int64]bool) error {
	for org := range orgs {
		if _, err := tx.ExecContext(ctx, statements[touchClaims], org); err != nil {
			return err
		}
	}
	return nil
}

// expireClaims looks through all claims, service by service. That is only worth
// it when a window moved; what comes in too old meanwhile is not seen by readers
// and waits for the next move.
func (s *Store) expireClaims(ctx context.Context, start, metrics int64) error {
	var before, metricsBefore int64
	err := s.view(ctx, lane.Scoring, "read the window", func(tx *sql.Tx) (err error) {
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
		err := s.update(ctx, lane.Scoring, "forget old claims", func(tx *sql.Tx) error {
			svcs = svcs[:0]
			rows, err := tx.QueryContext(ctx, `SELECT svc FROM services WHERE svc > ? ORDER BY svc LIMIT ?`, last, claimsChunk)
			err = each(rows, err, func(rows *sql.Rows) error {
				var svc int64
				err := rows.Scan(&svc)
				svcs = append(svcs, svc)
				return err
			})
			if err != nil || len(svcs) == 0 {
				return err
			}
			return expireClaims(ctx, tx, svcs[0], svcs[len(svcs)-1], start, metrics)
		})
		if err != nil {
			return err
		}
		if len(svcs) < claimsChunk {
			break
		}
		last = svcs[len(svcs)-1]
	}
	return s.update(ctx, lane.Scoring, "remember the window", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO memory (name, value) VALUES (?, ?), (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value`,
			windowStart, start, metricStart, metrics)
		return err
	})
}

func expireClaims(ctx context.Context, tx *sql.Tx, from, to, start, metrics int64) error {
	orgs, svcs := make(map[int64]bool), make(map[int64]bool)
	rows, err := tx.QueryContext(ctx, `DELETE FROM claims WHERE svc BETWEEN ? AND ? AND last < iif(rule IN (?, ?), ?, ?) RETURNING org, svc, rule`,
		from, to, int64(codec.RuleNumber(catalog.MET003)), int64(codec.RuleNumber(catalog.MET004)), metrics, start)
	err = each(rows, err, func(rows *sql.Rows) error {
		var org, svc, rule int64
		if err := rows.Scan(&org, &svc, &rule); err != nil {
			return err
		}
		orgs[org] = true
		if rule == int64(codec.RuleNumber(catalog.LOG001)) {
			svcs[svc] = true // days count for this service alone
		}
		return nil
	})
	if err != nil {
		return err
	}
	for svc := range svcs {
		if _, err := tx.ExecContext(ctx, `UPDATE services SET revision = revision + 1 WHERE svc = ?`, svc); err != nil {
			return err
		}
	}
	return touchOrgs(ctx, tx, orgs)
}

// recall returns a remembered value, 0 when there is none.
func recall(ctx context.Context, tx *sql.Tx, name string) (int64, error) {
	var v int64
	err := tx.QueryRowContext(ctx, `SELECT value FROM memory WHERE name = ?`, name).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return v, err
}

// setKey is the primary key of distinct_sets.
type setKey struct{ hour, svc, rule, key int64 }

// expireSets walks over the sets of hours long enough ago, reading in chunks and
// deleting in transactions of their own.
func (s *Store) expireSets(ctx context.Context, start int64, writtenBefore time.Time) error {
	const old = `iif(full = 1, last < ?, written_at < ?)`
	written := micros(writtenBefore)
	at := setKey{hour: -1 << 63}
	for {
		var victims []setKey
		err := s.query(ctx, lane.Scoring, "find old distinct sets", func(db *sql.DB) error {
			rows, err := db.QueryContext(ctx, `SELECT hour, svc, rule, key FROM distinct_sets
				WHERE (hour, svc, rule, key) > (?, ?, ?, ?) AND hour <= ? AND `+old+` ORDER BY hour, svc, rule, key LIMIT ?`,
				at.hour, at.svc, at.rule, at.key, writtenBefore.Unix(), start, written, rowChunk)
			return each(rows, err, func(rows *sql.Rows) error {
				err := rows.Scan(&at.hour, &at.svc, &at.rule, &at.key)
				victims = append(victims, at)
				return err
			})
		})
		if err != nil {
			return err
		}
		if len(victims) == 0 {
			return nil
		}
		err = s.update(ctx, lane.Scoring, "forget distinct sets", func(tx *sql.Tx) error {
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
		if err != nil || len(victims) < rowChunk {
			return err
		}
	}
}

// expireServices forgets services last seen before a time, those without event
// times by their making. One that still has counts is left for later.
func (s *Store) expireServices(ctx context.Context, before int64) error {
	const gone = `last_seen_at < ?1 AND (last_seen_at > 0 OR created_at < ?1) AND length(tally) = 0`
	for {
		var svcs []int64
		err := s.query(ctx, lane.Scoring, "find forgotten services", func(db *sql.DB) error {
			rows, err := db.QueryContext(ctx, `SELECT svc FROM services WHERE `+gone+` LIMIT ?2`, before, serviceChunk)
			return each(rows, err, func(rows *sql.Rows) error {
				var svc int64
				err := rows.Scan(&svc)
				svcs = append(svcs, svc)
				return err
			})
		})
		if err != nil {
			return err
		}
		if len(svcs) == 0 {
			return nil
		}
		err = s.update(ctx, lane.Scoring, "forget services", func(tx *sql.Tx) error {
			orgs := make(map[int64]bool)
			rows, err := tx.QueryContext(ctx, `DELETE FROM services WHERE svc IN (SELECT value FROM json_each(?2)) AND `+gone+` RETURNING org`,
				before, jsonList(svcs))
			err = each(rows, err, func(rows *sql.Rows) error {
				var org int64
				err := rows.Scan(&org)
				orgs[org] = true
				return err
			})
			if err != nil {
				return err
			}
			return touchOrgs(ctx, tx, orgs)
		})
		if err != nil {
			return err
		}
	}
}
