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

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

// instances is the number of the rule for claims of instances. The partial index
// claims_instances is for this rule, so a statement needs the literal instead of a
// parameter.
var instances = fmt.Sprint(numbers(catalog.Instances)[0])

// MaxClaims is the default of the number of claims that a store keeps for an
// organization: two for each of the metric names that it may have, which leaves room for
// 80,000 instances an hour. At the limit, claims of further names and instances are not
// compared until others expire.
const MaxClaims = 4_000_000

// claimsChunk is the number of claims that one transaction reads, and deletes at most.
const claimsChunk = 2000

// instance is a claim of an instance, in the order of last changes.
type instance struct{ writtenAt, svc, key, value int64 }

func compareRows(a, b instance) int {
	return cmp.Or(cmp.Compare(a.svc, b.svc), cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
}

// expireInstances deletes claims of instances last changed before a time, if their key
// has one value according to the index. The index has only the lower half of a key, so a
// claim with the same half of another key also keeps the claim. Contested claims stay for
// the window and may outnumber the ones to delete, so every statement reads at most a
// chunk of either. Many services may claim the same value of a key, so a statement looks
// for a smaller and a larger one.
func (q *Queries) expireInstances(ctx context.Context, before int64) error {
	other := func(compare string) string {
		return `NOT EXISTS (SELECT 1 FROM claims d` + q.sql.Index(`claims_by_key`) + ` WHERE d.org = c.org AND d.rule = ` + instances + ` AND d.key = c.key AND d.value ` + compare + ` c.value)`
	}
	find := `SELECT written_at, svc, key, value, org, ` + other(`<`) + ` AND ` + other(`>`) + `
		FROM (
			SELECT written_at, svc, key, value, org FROM claims` + q.sql.Index(`claims_instances`) + `
			WHERE rule = ` + instances + ` AND (written_at, svc, rule, key, value) > ($1, $2, ` + instances + `, $3, $4) AND written_at < $5
			ORDER BY written_at, svc, rule, key, value LIMIT $6) AS c
		ORDER BY written_at, svc, key, value`
	return walk(ctx, q, "delete old instances", instancesChunk, instance{writtenAt: math.MinInt64}, func(tx Tx, at instance) (last instance, n int, unread, err error) {
		var (
			b     Batch
			alone []instance
			orgOf = make(map[int64]int64) // by service
		)
		b.Query(func(r Row) error {
			var org int64
			var is bool
			err := r.Scan(&at.writtenAt, &at.svc, &at.key, &at.value, &org, &is)
			if is {
				alone, orgOf[at.svc] = append(alone, at), org
			}
			n++
			return err
		}, find, at.writtenAt, at.svc, at.key, at.value, before, instancesChunk)
		if err := tx.Send(ctx, &b); err != nil {
			return at, 0, nil, err
		}
		slices.SortFunc(alone, compareRows)
		changed := make([]int64, len(alone))
		b = Batch{}
		for i, c := range alone { // another replica may have changed them meanwhile
			b.Statements = append(b.Statements, Statement{
				SQL:     `DELETE FROM claims WHERE svc = $1 AND rule = ` + instances + ` AND key = $2 AND value = $3 AND written_at < $4`,
				Args:    []any{c.svc, c.key, c.value, before},
				Changed: &changed[i],
			})
		}
		if err := tx.Send(ctx, &b); err != nil {
			return at, n, nil, err
		}
		deleted := make(map[int64]int64)
		for i, c := range alone {
			deleted[orgOf[c.svc]] += changed[i]
		}
		b = Batch{}
		touchClaims(&b, deleted)
		return at, n, nil, tx.Send(ctx, &b)
	})
}

// expireClaims deletes the claims before a window and corrects the number of claims of each organization. It reads all
// claims, so it only runs when a window has moved. Claims before the window that arrive meanwhile are invisible to
// readers and are deleted after the next move.
func (q *Queries) expireClaims(ctx context.Context, start, metrics delta.Bucket) error {
	before, counted := make(map[string]int64), make(map[int64]int64)
	err := q.engine.View(ctx, connpool.Scoring, "read the window", func(b *Batch) {
		clear(before)
		clear(counted)
		b.Query(func(r Row) error {
			var name string
			var at int64
			err := r.Scan(&name, &at)
			before[name] = at
			return err
		}, `SELECT name, value FROM memory WHERE name IN ($1, $2)`, WindowStart, MetricWindowStart)
		b.Query(func(r Row) error {
			var org, n int64
			err := r.Scan(&org, &n)
			counted[org] = n
			return err
		}, `SELECT org, claims FROM organizations`)
	})
	if err != nil || before[WindowStart] == int64(start) && before[MetricWindowStart] == int64(metrics) {
		return err
	}
	found := make(map[int64]int64) // claims by organization
	var failure error
	for p := (claimsPiece{last: claimKey{svc: math.MinInt64}}); ; {
		if p, err = q.readClaims(ctx, p.last, start, metrics); err != nil {
			return errors.Join(failure, err)
		}
		for org, n := range p.found {
			found[org] += n
		}
		if len(p.old) > 0 {
			err := q.engine.Chunk(ctx, connpool.Scoring, "delete old claims", func(tx Tx) error { return q.deleteClaims(ctx, tx, &p, start, metrics) })
			if q.engine.Unavailable(ctx, err) {
				return errors.Join(failure, err)
			}
			failure = cmp.Or(failure, err)
		}
		if p.n < claimsChunk {
			break
		}
	}
	if failure != nil {
		return failure
	}
	return q.engine.Update(ctx, connpool.Scoring, "store the window", func(tx Tx) error {
		b := new(Batch)
		b.Exec(`INSERT INTO memory (name, value) VALUES ($1, $2), ($3, $4) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			MetricWindowStart, int64(metrics), WindowStart, int64(start)) // in the order of their names
		// The number has changed meanwhile because claims were deleted and added. A claim that was added before the
		// scan reached its key counts twice until the next correction.
		for _, org := range slices.Sorted(maps.Keys(counted)) {
			if n := found[org] - counted[org]; n != 0 {
				b.Exec(`UPDATE organizations SET claims = CASE WHEN claims + $2 > 0 THEN claims + $2 ELSE 0 END WHERE org = $1`, org, n)
			}
		}
		return tx.Send(ctx, b)
	})
}

// claimKey is the primary key of claims.
type claimKey struct{ svc, rule, key, value int64 }

// claimsPiece is a number of claims in the order of their keys.
type claimsPiece struct {
	after, last claimKey
	n           int             // claims, at most claimsChunk
	found       map[int64]int64 // claims by organization
	old         []int64         // services of the claims before the window
}

// beforeWindow is the condition that a claim is older than the start $3 of the window, or
// $2 for the rules $1.
func (q *Queries) beforeWindow() string {
	return `last < CASE WHEN ` + q.sql.In(`rule`, `$1`) + ` THEN CAST($2 AS bigint) ELSE CAST($3 AS bigint) END`
}

// readClaims reads the claims after a key.
func (q *Queries) readClaims(ctx context.Context, after claimKey, start, metrics delta.Bucket) (p claimsPiece, err error) {
	err = q.engine.View(ctx, connpool.Scoring, "find old claims", func(b *Batch) {
		p = claimsPiece{after: after, last: after, found: make(map[int64]int64)}
		b.Query(func(r Row) error {
			var org int64
			var old bool
			err := r.Scan(&p.last.svc, &p.last.rule, &p.last.key, &p.last.value, &org, &old)
			p.n++
			p.found[org]++
			if old {
				p.old = append(p.old, p.last.svc)
			}
			return err
		}, `SELECT svc, rule, key, value, org, `+q.beforeWindow()+` FROM claims
			WHERE (svc, rule, key, value) > ($4, $5, $6, $7) ORDER BY svc, rule, key, value LIMIT $8`,
			numbers(catalog.Definitions), int64(metrics), int64(start), after.svc, after.rule, after.key, after.value, claimsChunk)
	})
	return p, err
}

// deleteClaims deletes the old claims of a piece.
func (q *Queries) deleteClaims(ctx context.Context, tx Tx, p *claimsPiece, start, metrics delta.Bucket) error {
	var b Batch
	deleted, counted := make(map[int64]int64), make(map[int64]bool)
	q.lockServices(&b, slices.Compact(slices.Clone(p.old)))
	b.Query(func(r Row) error {
		var org, svc, number int64
		err := r.Scan(&org, &svc, &number)
		deleted[org]++
		if rule, ok := codec.RuleByNumber(number); ok && rule.Claims() == catalog.Days {
			counted[svc] = true // for this service alone
		}
		return err
	}, `DELETE FROM claims WHERE (svc, rule, key, value) > ($4, $5, $6, $7) AND (svc, rule, key, value) <= ($8, $9, $10, $11) AND `+q.beforeWindow()+`
		RETURNING org, svc, rule`, numbers(catalog.Definitions), int64(metrics), int64(start),
		p.after.svc, p.after.rule, p.after.key, p.after.value, p.last.svc, p.last.rule, p.last.key, p.last.value)
	if err := tx.Send(ctx, &b); err != nil {
		return err
	}
	b = Batch{}
	if len(counted) > 0 {
		b.Exec(`UPDATE services SET revision = revision + 1`+q.sql.Rescore+` WHERE `+q.sql.In(`svc`, `$1`), slices.Sorted(maps.Keys(counted)))
	}
	touchClaims(&b, deleted)
	return tx.Send(ctx, &b)
}
