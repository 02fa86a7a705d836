// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
)

// instances is the number of the rule for claims of instances. The partial index
// claims_instances is for this rule, so a statement needs the literal instead of a
// parameter.
var instances = fmt.Sprint(numbers(catalog.Instances)[0])

// instance is a claim of an instance, in the order of last changes.
type instance struct{ writtenAt, svc, key, value int64 }

func compareRows(a, b instance) int {
	return cmp.Or(cmp.Compare(a.svc, b.svc), cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
}

// expireInstances deletes claims of instances last changed before a time, if their key
// has one value according to the index. The index has only the lower half of a key, so a
// claim with the same half of another key also keeps the claim. Contested claims stay for
// the window and may outnumber the ones to delete, so every statement reads at most a
// chunk of either.
func (q *Queries) expireInstances(ctx context.Context, before int64) error {
	find := `SELECT written_at, svc, key, value, org,
			NOT EXISTS (SELECT 1 FROM claims d WHERE d.org = c.org AND d.rule = ` + instances + ` AND d.key = c.key AND d.value <> c.value)
		FROM (
			SELECT written_at, svc, key, value, org FROM claims` + q.sql.Index(`claims_instances`) + `
			WHERE rule = ` + instances + ` AND (written_at, svc, rule, key, value) > ($1, $2, ` + instances + `, $3, $4) AND written_at < $5
			ORDER BY written_at, svc, rule, key, value LIMIT $6) AS c
		ORDER BY written_at, svc, key, value`
	return walk(ctx, q, "delete old instances", instancesChunk, instance{writtenAt: math.MinInt64}, func(tx Tx, at instance) (last instance, n int, unread, err error) {
		var (
			b     Batch
			alone []instance
			orgs  = make(map[int64]bool)
		)
		b.Query(func(r Row) error {
			var org int64
			var is bool
			err := r.Scan(&at.writtenAt, &at.svc, &at.key, &at.value, &org, &is)
			if is {
				alone, orgs[org] = append(alone, at), true
			}
			n++
			return err
		}, find, at.writtenAt, at.svc, at.key, at.value, before, instancesChunk)
		if err := tx.Send(ctx, &b); err != nil {
			return at, 0, nil, err
		}
		b = Batch{}
		slices.SortFunc(alone, compareRows)
		for _, c := range alone { // another replica may have changed them meanwhile
			b.Exec(`DELETE FROM claims WHERE svc = $1 AND rule = `+instances+` AND key = $2 AND value = $3 AND written_at < $4`, c.svc, c.key, c.value, before)
		}
		touchClaims(&b, orgs)
		return at, n, nil, tx.Send(ctx, &b)
	})
}

// expireClaims deletes the claims before a window, service by service. It looks through all
// of them, which is only worth it when a window moved. What comes in too old meanwhile is
// not seen by readers and waits for the next move.
func (q *Queries) expireClaims(ctx context.Context, start, metrics delta.Bucket) error {
	before := make(map[string]int64)
	err := q.engine.View(ctx, lane.Scoring, "read the window", func(b *Batch) {
		clear(before)
		b.Query(func(r Row) error {
			var name string
			var at int64
			err := r.Scan(&name, &at)
			before[name] = at
			return err
		}, `SELECT name, value FROM memory WHERE name IN ($1, $2)`, WindowStart, MetricWindowStart)
	})
	if err != nil || before[WindowStart] == int64(start) && before[MetricWindowStart] == int64(metrics) {
		return err
	}
	err = walk(ctx, q, "delete old claims", q.sql.ClaimsChunk, int64(0), func(tx Tx, after int64) (last int64, n int, unread, err error) {
		var b Batch
		var svcs []int64
		b.Query(collect(&svcs, value[int64]), `SELECT s.svc FROM services s WHERE s.svc > $1 ORDER BY s.svc LIMIT $2`+q.sql.LockService, after, q.sql.ClaimsChunk)
		if err := tx.Send(ctx, &b); err != nil || len(svcs) == 0 {
			return after, 0, nil, err
		}
		return svcs[len(svcs)-1], len(svcs), nil, q.deleteClaims(ctx, tx, svcs, start, metrics)
	})
	if err != nil {
		return err
	}
	return q.update(ctx, lane.Scoring, "store the window", nil,
		`INSERT INTO memory (name, value) VALUES ($1, $2), ($3, $4) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
		MetricWindowStart, int64(metrics), WindowStart, int64(start)) // in the order of their names
}

// deleteClaims deletes the old claims of services.
func (q *Queries) deleteClaims(ctx context.Context, tx Tx, svcs []int64, start, metrics delta.Bucket) error {
	var b Batch
	orgs, counted := make(map[int64]bool), make(map[int64]bool)
	b.Query(func(r Row) error {
		var org, svc, number int64
		err := r.Scan(&org, &svc, &number)
		orgs[org] = true
		if rule, ok := codec.RuleByNumber(number); ok && rule.Claims() == catalog.Days {
			counted[svc] = true // for this service alone
		}
		return err
	}, `DELETE FROM claims WHERE `+q.sql.In(`svc`, `$1`)+` AND last < CASE WHEN `+q.sql.In(`rule`, `$2`)+` THEN CAST($3 AS bigint) ELSE CAST($4 AS bigint) END
		RETURNING org, svc, rule`, svcs, numbers(catalog.Definitions), int64(metrics), int64(start))
	if err := tx.Send(ctx, &b); err != nil {
		return err
	}
	b = Batch{}
	if len(counted) > 0 {
		b.Exec(`UPDATE services SET revision = revision + 1`+q.sql.Rescore+` WHERE `+q.sql.In(`svc`, `$1`), slices.Sorted(maps.Keys(counted)))
	}
	touchClaims(&b, orgs)
	return tx.Send(ctx, &b)
}
