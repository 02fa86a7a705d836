// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/connpool"
	"assay/internal/store/merge"
)

// Retention of rows that do not depend on the window.
const (
	SetsKept      = 6 * time.Hour // distinct sets that are not full, since their last change
	RequestsKept  = 15 * time.Minute
	instancesKept = 24 * time.Hour // uncontested claims of instances, since their last change
	leasesKept    = 24 * time.Hour // since they expired
)

// Rows that one transaction changes or reads. Each transaction takes some ten
// milliseconds, so that commits do not wait for long.
const (
	factsChunk     = 25 // services, whose evidence or series have up to some hundred kilobytes each
	instancesChunk = 1000
	servicesAhead  = 20_000
)

// Keys of table memory under which the expiry stores the windows.
const (
	WindowStart       = "window_start"
	MetricWindowStart = "metric_window_start"
)

// Expire deletes the data before the start of the window: counts and usage, which it
// subtracts from the totals, evidence, full distinct sets, metric series, claims (for
// metric definitions, before metrics) and score histories. It deletes uncontested claims
// of instances and partial distinct sets that did not change for 24 and 6 hours, sessions
// that have ended, and services with all their data if they were last seen more than
// twice the window ago. By the store's own clock, it deletes requests after 15 minutes
// and leases that expired a day ago. A service whose counts changed counts as unscored.
// It merges log records into hours after two days and deletes them after 30, and deletes
// findings in code that were resolved 90 days ago, old runs, and deliveries of webhooks
// that were completed 7 days ago, regardless of the window.
//
// It runs many short transactions. If its context ends, the next call continues. After a
// failed step, the other steps still run while the database is available; the error joins
// all failures. Several replicas may run it at the same time.
func (q *Queries) Expire(ctx context.Context, now time.Time, start, metrics delta.Bucket) error {
	from := Micros(start.Time())
	window := Micros(now) - from
	at := func(t int64) func(time.Time) int64 { return func(time.Time) int64 { return t } }
	ago := func(d time.Duration) func(time.Time) int64 {
		return func(now time.Time) int64 { return Micros(now.Add(-d)) }
	}
	steps := append(q.engine.ExpireHistory(ctx, now, start),
		func() error { return q.mergeLogRecords(ctx, now.Add(-assay.LogMinutesRetention).Truncate(time.Hour)) },
		func() error {
			return q.expireRows(ctx, "log_volume", `org, span, at`, `span = 3600 AND at <= $1`, at(now.Add(-assay.LogHoursRetention).Unix()-hourSpan))
		},
		func() error { return q.expireFacts(ctx, &oldItems, start) },
		func() error { return q.expireFacts(ctx, &oldSeries, start) },
		func() error { return q.expireInstances(ctx, Micros(now.Add(-instancesKept))) },
		func() error { return q.expireClaims(ctx, start, metrics) },
		func() error {
			return q.expireRows(ctx, "requests", `org, signal, hash`, `at < $1 ORDER BY at`, ago(RequestsKept))
		},
		func() error { return q.expireRows(ctx, "leases", `name`, `expires_at < $1`, ago(leasesKept)) },
		func() error {
			return q.expireRows(ctx, "organization_scores", `org, slot`, `slot < $1`, at(from/ScoreSlot.Microseconds()))
		},
		func() error {
			return q.expireRows(ctx, "sessions", `hash`, `(idle_at <= $1 OR expires_at <= $1)`, at(Micros(now)))
		},
		func() error {
			return q.expireRows(ctx, "webhook_deliveries", `webhook, seq`, `completed_at > 0 AND completed_at < $1`, ago(deliveriesKept))
		},
		func() error { return q.expireServices(ctx, from-2*window) },
		func() error { return q.ExpireCodebase(ctx, now.Add(-FindingsKept)) })
	var failures []error
	for _, step := range steps {
		err := step()
		failures = append(failures, err)
		if q.engine.Unavailable(ctx, err) {
			break
		}
	}
	return errors.Join(failures...)
}

// expireRows deletes rows of a table, in chunks. Argument 1 of the condition is before(now), where now is the time of
// the store's clock.
func (q *Queries) expireRows(ctx context.Context, table, key, condition string, before func(now time.Time) int64) error {
	for {
		var n int64
		err := q.engine.Chunk(ctx, connpool.Scoring, "delete old rows of "+table, func(tx Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			n, err = exec(ctx, tx, q.sql.DeleteSome(table, key, condition), before(now), q.sql.RowChunk)
			return err
		})
		if err != nil || n < int64(q.sql.RowChunk) {
			return err
		}
	}
}

// walk runs transactions until one finds fewer rows than a chunk. Each continues after
// the last key of the previous one, also if that failed after it found its rows: the rows
// of other services and organizations do not wait for it. unread is the error for a row
// that was skipped because it could not be decoded.
func walk[K any](ctx context.Context, q *Queries, operation string, chunk int, last K, do func(tx Tx, after K) (last K, n int, unread, err error)) error {
	var failure error
	for {
		var (
			next   K
			n      int
			unread error
		)
		err := q.engine.Chunk(ctx, connpool.Scoring, operation, func(tx Tx) (err error) {
			next, n, unread, err = do(tx, last)
			return err
		})
		if unread != nil {
			failure = cmp.Or(failure, q.engine.Fail(ctx, operation, unread))
		}
		if n < chunk || q.engine.Unavailable(ctx, err) {
			return errors.Join(failure, err)
		}
		failure, last = cmp.Or(failure, err), next
	}
}

// lockServices locks services in the order of their rows.
func (q *Queries) lockServices(b *Batch, svcs []int64) {
	if q.sql.LockService != "" {
		b.Exec(`SELECT 1 FROM services s WHERE `+q.sql.In(`s.svc`, `$1`)+` ORDER BY s.svc`+q.sql.LockService, svcs)
	}
}

// touchClaims marks the claims of organizations as changed, and subtracts the deleted ones
// from their number.
func touchClaims(b *Batch, deleted map[int64]int64) {
	for _, org := range slices.Sorted(maps.Keys(deleted)) {
		b.Exec(`UPDATE organizations SET claims_revision = claims_revision + 1, claims = CASE WHEN claims > $2 THEN claims - $2 ELSE 0 END WHERE org = $1`,
			org, deleted[org])
	}
}

// oldFacts is a table with one value for each service and the oldest bucket in it.
type oldFacts struct {
	table, change string
	// expire returns the arguments of change after the service, nil if nothing remains.
	expire func(facts []byte, start delta.Bucket) (left []any, err error)
}

var oldItems = oldFacts{
	"items", `UPDATE items SET oldest = $2, facts = $3 WHERE svc = $1`,
	func(facts []byte, start delta.Bucket) ([]any, error) {
		facts, oldest, err := merge.ExpireItems(facts, start)
		if err != nil || len(facts) == 0 {
			return nil, err
		}
		return []any{int64(oldest), facts}, nil
	},
}

var oldSeries = oldFacts{
	"series", `UPDATE series SET oldest = $2, n = $3, facts = $4 WHERE svc = $1`,
	func(facts []byte, start delta.Bucket) ([]any, error) {
		series := new(delta.Series)
		if err := series.UnmarshalBinary(facts); err != nil {
			return nil, err
		}
		if series.Expire(start); series.Empty() {
			return nil, nil
		}
		return []any{int64(series.Oldest()), int64(series.Count()), series.AppendBinary(nil)}, nil
	},
}

// expireFacts deletes old parts of values. It keeps a value that it cannot decode.
func (q *Queries) expireFacts(ctx context.Context, t *oldFacts, start delta.Bucket) error {
	type key struct{ oldest, svc int64 }
	return walk(ctx, q, "delete old "+t.table, factsChunk, key{oldest: math.MinInt64}, func(tx Tx, last key) (_ key, n int, unread, err error) {
		var (
			svcs, gone    []int64
			find, changes Batch
		)
		find.Query(func(r Row) error {
			err := r.Scan(&last.oldest, &last.svc)
			svcs = append(svcs, last.svc)
			return err
		}, `SELECT oldest, svc FROM `+t.table+q.sql.Index(t.table+`_by_oldest`)+` WHERE (oldest, svc) > ($1, $2) AND oldest < $3 ORDER BY oldest, svc LIMIT $4`,
			last.oldest, last.svc, int64(start), factsChunk)
		if err := tx.Send(ctx, &find); err != nil || len(svcs) == 0 {
			return last, 0, nil, err
		}
		find = Batch{}
		q.lockServices(&find, svcs)
		find.Query(func(r Row) error {
			var svc int64
			var facts []byte
			if err := r.Scan(&svc, &facts); err != nil {
				return err
			}
			switch left, err := t.expire(facts, start); {
			case err != nil:
				unread = fmt.Errorf("service %d: %w", svc, err)
			case left == nil:
				gone = append(gone, svc)
			default:
				changes.Exec(t.change, append([]any{svc}, left...)...)
			}
			return nil
		}, `SELECT svc, facts FROM `+t.table+` WHERE `+q.sql.In(`svc`, `$1`)+` AND oldest < $2`, svcs, int64(start))
		if err := tx.Send(ctx, &find); err != nil {
			return last, len(svcs), nil, err
		}
		if len(gone) > 0 {
			changes.Exec(`DELETE FROM `+t.table+` WHERE `+q.sql.In(`svc`, `$1`), gone)
		}
		return last, len(svcs), unread, tx.Send(ctx, &changes)
	})
}

// expireServices deletes services last seen before a time, and services without event
// times created before it. A service that still has counts or claims, of which it may
// have many, waits for a later call.
func (q *Queries) expireServices(ctx context.Context, before int64) error {
	const gone = `last_seen_at < $1 AND (last_seen_at > 0 OR created_at < $1) AND length(tally) = 0
		AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.svc = s.svc)`
	var failure error
	for last := int64(0); ; {
		var next *int64
		var svcs []int64
		err := q.engine.View(ctx, connpool.Scoring, "find old services", func(b *Batch) {
			next, svcs = nil, nil
			b.Query(func(r Row) error { return r.Scan(&next) },
				`SELECT max(svc) FROM (SELECT svc FROM services WHERE svc > $1 ORDER BY svc LIMIT $2) AS ahead`, last, servicesAhead)
			b.Query(collect(&svcs, value[int64]), `SELECT svc FROM (
				SELECT svc, last_seen_at, created_at, tally FROM services WHERE svc > $2 ORDER BY svc LIMIT $3) AS s WHERE `+gone+` ORDER BY svc`,
				before, last, servicesAhead)
		})
		if err != nil || next == nil {
			return errors.Join(failure, err)
		}
		for chunk := range slices.Chunk(svcs, q.sql.ServiceChunk) {
			err := q.engine.Chunk(ctx, connpool.Scoring, "delete old services", func(tx Tx) error {
				var (
					b      Batch
					locked []int64
					counts = make(map[int64]int64)
				)
				b.Query(func(r Row) error {
					var svc, org int64
					err := r.Scan(&svc, &org)
					locked = append(locked, svc)
					counts[org]++
					return err
				}, `SELECT svc, org FROM services s WHERE `+gone+` AND `+q.sql.In(`svc`, `$2`)+` ORDER BY svc`+q.sql.LockGone, before, chunk)
				if err := tx.Send(ctx, &b); err != nil || len(locked) == 0 {
					return err
				}
				b = Batch{}
				for _, table := range q.sql.OfServices {
					b.Exec(`DELETE FROM `+table+` WHERE `+q.sql.In(`svc`, `$1`), locked)
				}
				b.Exec(`DELETE FROM services WHERE `+q.sql.In(`svc`, `$1`), locked)
				if q.sql.CountGone != "" {
					for _, org := range slices.Sorted(maps.Keys(counts)) {
						b.Exec(q.sql.CountGone, org, counts[org])
					}
				}
				return tx.Send(ctx, &b)
			})
			if q.engine.Unavailable(ctx, err) {
				return err
			}
			failure = cmp.Or(failure, err)
		}
		last = *next
	}
}
