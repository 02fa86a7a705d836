// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

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
// The work is done in many short transactions; when Expire fails or its context
// ends, the next call does the rest.
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
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// expireRows runs a deletion of at most rowChunk rows until it finds no more.
func (s *Store) expireRows(ctx context.Context, what, query string, before int64) error {
	for {
		var n int64
		err := s.update(ctx, what, func(tx *sql.Tx) error {
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

func (s *Store) expireHours(ctx context.Context, start int64) error {
	for {
		n := 0
		err := s.update(ctx, "forget old counts", func(tx *sql.Tx) (err error) {
			n, err = expireHours(ctx, tx, start)
			return err
		})
		if err != nil || n < rowChunk {
			return err
		}
	}
}

func expireHours(ctx context.Context, tx *sql.Tx, start int64) (int, error) {
	gone := make(map[int64]*codec.Tally)
	var bucket, svc int64
	n := 0
	rows, err := tx.QueryContext(ctx, `SELECT bucket, svc, tally FROM hours WHERE bucket < ? ORDER BY bucket, svc LIMIT ?`, start, rowChunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var blob []byte
		if err := rows.Scan(&bucket, &svc, &blob); err != nil {
			return err
		}
		var t codec.Tally
		if err := t.UnmarshalBinary(blob); err != nil {
			return err
		}
		if gone[svc] == nil {
			gone[svc] = new(codec.Tally)
		}
		gone[svc].Add(&t)
		n++
		return nil
	})
	if err != nil || n == 0 {
		return 0, err
	}
	find, err := tx.PrepareContext(ctx, `SELECT tally FROM services WHERE svc = ?`)
	if err != nil {
		return 0, err
	}
	defer find.Close()
	save, err := tx.PrepareContext(ctx, `UPDATE services SET tally = ?, signals = ?, revision = revision + ? WHERE svc = ?`)
	if err != nil {
		return 0, err
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
			return 0, err
		}
		var total codec.Tally
		if err := total.UnmarshalBinary(blob); err != nil {
			return 0, err
		}
		total.Sub(t)
		changed := 0 // usage alone does not change a score
		if t.Judged() {
			changed = 1
		}
		if _, err := save.ExecContext(inner, total.AppendBinary([]byte{}), total.Signals(), changed, svc); err != nil {
			return 0, err
		}
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM hours WHERE bucket < ?1 OR (bucket = ?1 AND svc <= ?2)`, bucket, svc)
	return n, err
}

func (s *Store) expireItems(ctx context.Context, start delta.Bucket) error {
	for {
		n := 0
		err := s.update(ctx, "forget old evidence", func(tx *sql.Tx) (err error) {
			n, err = expireItems(ctx, tx, start)
			return err
		})
		if err != nil || n < itemsChunk {
			return err
		}
	}
}

func expireItems(ctx context.Context, tx *sql.Tx, start delta.Bucket) (int, error) {
	type left struct {
		facts  []byte
		oldest delta.Bucket
	}
	kept := make(map[int64]left)
	rows, err := tx.QueryContext(ctx, `SELECT svc, facts FROM items WHERE oldest < ? LIMIT ?`, int64(start), itemsChunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var svc int64
		var blob []byte
		if err := rows.Scan(&svc, &blob); err != nil {
			return err
		}
		facts, oldest, err := fold.ExpireItems(blob, start)
		kept[svc] = left{facts, oldest}
		return err
	})
	if err != nil {
		return 0, err
	}
	for svc, l := range kept {
		if len(l.facts) == 0 {
			_, err = tx.ExecContext(ctx, `DELETE FROM items WHERE svc = ?`, svc)
		} else {
			_, err = tx.ExecContext(ctx, `UPDATE items SET oldest = ?, facts = ? WHERE svc = ?`, int64(l.oldest), l.facts, svc)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(kept), nil
}

// expireInstances forgets RES-002 claims whose key has one value only. They lie
// in the order of their last change, so each chunk goes on where the last ended.
func (s *Store) expireInstances(ctx context.Context, before int64) error {
	from := int64(0)
	for {
		n := 0
		err := s.update(ctx, "forget instances", func(tx *sql.Tx) error {
			n = 0
			orgs := make(map[int64]bool)
			rows, err := tx.QueryContext(ctx, `DELETE FROM claims WHERE (svc, rule, key, value) IN (
					SELECT svc, rule, key, value FROM claims c INDEXED BY claims_instances
					WHERE rule = 2 AND written_at >= ? AND written_at < ? AND NOT EXISTS (
						SELECT 1 FROM claims d WHERE d.org = c.org AND d.rule = 2 AND d.key = c.key AND d.value <> c.value)
					ORDER BY written_at LIMIT ?)
				RETURNING org, written_at`, from, before, rowChunk)
			err = each(rows, err, func(rows *sql.Rows) error {
				var org, at int64
				if err := rows.Scan(&org, &at); err != nil {
					return err
				}
				orgs[org], from = true, max(from, at)
				n++
				return nil
			})
			if err != nil {
				return err
			}
			return touchOrgs(ctx, tx, orgs)
		})
		if err != nil || n < rowChunk {
			return err
		}
	}
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
	err := s.view(ctx, "read the window", func(tx *sql.Tx) (err error) {
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
		err := s.update(ctx, "forget old claims", func(tx *sql.Tx) error {
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
	return s.update(ctx, "remember the window", func(tx *sql.Tx) error {
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
		rows, err := s.r.QueryContext(ctx, `SELECT hour, svc, rule, key FROM distinct_sets
			WHERE (hour, svc, rule, key) > (?, ?, ?, ?) AND hour <= ? AND `+old+` ORDER BY hour, svc, rule, key LIMIT ?`,
			at.hour, at.svc, at.rule, at.key, writtenBefore.Unix(), start, written, rowChunk)
		err = each(rows, err, func(rows *sql.Rows) error {
			err := rows.Scan(&at.hour, &at.svc, &at.rule, &at.key)
			victims = append(victims, at)
			return err
		})
		if err != nil {
			return s.fail(ctx, "find old distinct sets", err)
		}
		if len(victims) == 0 {
			return nil
		}
		err = s.update(ctx, "forget distinct sets", func(tx *sql.Tx) error {
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
		rows, err := s.r.QueryContext(ctx, `SELECT svc FROM services WHERE `+gone+` LIMIT ?2`, before, serviceChunk)
		err = each(rows, err, func(rows *sql.Rows) error {
			var svc int64
			err := rows.Scan(&svc)
			svcs = append(svcs, svc)
			return err
		})
		if err != nil {
			return s.fail(ctx, "find forgotten services", err)
		}
		if len(svcs) == 0 {
			return nil
		}
		err = s.update(ctx, "forget services", func(tx *sql.Tx) error {
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
