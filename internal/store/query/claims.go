// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"assay"
	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/merge"
)

// ClaimsRevision returns a number that grows whenever a claim of the organization is
// added, moves or expires.
func (q *Queries) ClaimsRevision(ctx context.Context, organizationID string) (uint64, error) {
	n, err := one(ctx, q, connpool.Scoring, "read the claims revision", errNoOrganization, value[int64],
		`SELECT claims_revision FROM organizations WHERE id = $1`, ID(organizationID))
	return uint64(n), err
}

// Sizes of the pieces in which the claims of an organization are counted. A service has at
// most 20 claims for each of its metric names.
const (
	countedServices = 16   // services whose keys one piece counts
	countedClaims   = 5000 // claims of a piece, and all claims of its last key
)

// ClaimCounter returns a counter of the claims of one rule in an organization that were
// made in or after a bucket. Each piece reads from a snapshot of its own.
func (q *Queries) ClaimCounter(organizationID string, rule catalog.Rule, since delta.Bucket) delta.ClaimCounter {
	return &claimCounter{q: q, organization: organizationID, rule: rule, since: since, from: math.MinInt64}
}

// claimCounter implements delta.ClaimCounter.
type claimCounter struct {
	q            *Queries
	organization string
	rule         catalog.Rule
	since        delta.Bucket

	org    int64
	ids    map[int64]string // of the services of the organization
	left   []int64          // services whose keys are not counted yet
	from   int64            // claims of smaller keys are counted
	counts merge.ClaimCounts
}

// Next implements delta.ClaimCounter.
func (c *claimCounter) Next(ctx context.Context) (more bool, err error) {
	switch {
	case c.ids == nil:
		return true, c.findServices(ctx)
	case len(c.left) > 0:
		return true, c.countKeys(ctx)
	default:
		return c.countContested(ctx)
	}
}

// Counts implements delta.ClaimCounter.
func (c *claimCounter) Counts() map[string]delta.ClaimCount {
	counts := make(map[string]delta.ClaimCount)
	for svc, n := range c.counts.BySvc() {
		if id, ok := c.ids[svc]; ok {
			counts[id] = *n
		}
	}
	return counts
}

// findServices lists the services of the organization.
func (c *claimCounter) findServices(ctx context.Context) error {
	ids := make(map[int64]string)
	var left []int64
	err := c.q.engine.View(ctx, connpool.Scoring, "list services",
		func(b *Batch) {
			c.org = 0
			b.Query(func(r Row) error { return r.Scan(&c.org) }, `SELECT org FROM organizations WHERE id = $1`, ID(c.organization))
		},
		func(b *Batch) {
			clear(ids)
			left = left[:0]
			b.Query(func(r Row) error {
				var svc int64
				var id ID
				err := r.Scan(&svc, &id)
				ids[svc], left = string(id), append(left, svc)
				return err
			}, `SELECT svc, id FROM services WHERE org = $1`, c.org)
		})
	if err == nil && c.org == 0 {
		err = errNoOrganization()
	}
	if err != nil {
		return err
	}
	c.ids = ids
	if c.rule.Claims() == catalog.Definitions { // of instances only the contested keys count
		slices.Sort(left) // in the order of the table
		c.left = left
	}
	return nil
}

// countKeys counts the keys of some services by the primary key.
func (c *claimCounter) countKeys(ctx context.Context) error {
	svcs := c.left[:min(countedServices, len(c.left))]
	keys := make(map[int64]uint64, len(svcs))
	err := c.q.engine.View(ctx, connpool.Scoring, "count claims", func(b *Batch) {
		clear(keys)
		b.Query(func(r Row) error {
			var svc int64
			var n uint64
			err := r.Scan(&svc, &n)
			keys[svc] = n
			return err
		}, `SELECT s.svc, (SELECT count(*) FROM (SELECT DISTINCT c.key, c.key_high FROM claims c WHERE c.svc = s.svc AND c.rule = $2 AND c.last >= $3) AS k)
			FROM services s WHERE `+c.q.sql.In(`s.svc`, `$1`), svcs, int64(codec.RuleNumber(c.rule)), int64(c.since))
	})
	if err != nil {
		return err
	}
	for svc, n := range keys {
		c.counts.Keys(svc, n)
	}
	c.left = c.left[len(svcs):]
	return nil
}

// countContested counts the contested keys in a range. Candidates have two values in the
// index, which holds half of each key and not the age of a value.
func (c *claimCounter) countContested(ctx context.Context) (more bool, err error) {
	type claim struct {
		key        delta.Hash128
		value, svc int64
		text, of   string
	}
	var (
		claims []claim
		to     int64
		number = int64(codec.RuleNumber(c.rule))
		byKey  = c.q.sql.Index(`claims_by_key`)
	)
	err = c.q.engine.View(ctx, connpool.Scoring, "count contested claims",
		func(b *Batch) {
			to, more = math.MaxInt64, false
			b.Query(func(r Row) error {
				more = true
				return r.Scan(&to)
			}, `SELECT key FROM claims`+byKey+` WHERE org = $1 AND rule = $2 AND key >= $3 ORDER BY key LIMIT 1 OFFSET $4`, c.org, number, c.from, countedClaims)
		},
		func(b *Batch) {
			claims = nil
			b.Query(func(r Row) error {
				var low, high int64
				var x claim
				err := r.Scan(&low, &high, &x.value, &x.svc, (*Text)(&x.of), (*Text)(&x.text))
				x.key = delta.Hash128{High: uint64(high), Low: uint64(low)}
				claims = append(claims, x)
				return err
			}, `WITH candidate (key) AS MATERIALIZED (
					SELECT key FROM claims`+byKey+` WHERE org = $1 AND rule = $2 AND key >= $3 AND key <= $4 GROUP BY key HAVING min(value) <> max(value))
				SELECT c.key, c.key_high, c.value, c.svc, c.key_text, c.value_text
				FROM candidate JOIN claims c`+byKey+` ON c.org = $1 AND c.rule = $2 AND c.key = candidate.key AND c.key >= $3 AND c.key <= $4
				WHERE c.last >= $5 ORDER BY c.key, c.key_high`, c.org, number, c.from, to, int64(c.since))
		})
	if err != nil {
		return false, err
	}
	for _, x := range claims {
		c.counts.Claim(x.key, x.value, x.svc, x.of, x.text)
	}
	if more = more && to < math.MaxInt64; more {
		c.from = to + 1
	}
	return more, nil
}

// ServiceClaims implements score.FactStore.
func (q *Queries) ServiceClaims(ctx context.Context, organizationID, serviceID string, since, metricSince delta.Bucket) (map[catalog.Rule]delta.ClaimCount, error) {
	var (
		org, svc int64
		counts   map[catalog.Rule]delta.ClaimCount
	)
	err := q.engine.View(ctx, connpool.Pages, "count the claims of a service",
		func(b *Batch) {
			org, svc = 0, 0
			b.Query(func(r Row) error { return r.Scan(&org, &svc) },
				`SELECT s.org, s.svc FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = $1 AND o.id = $2`, ID(serviceID), ID(organizationID))
		},
		func(b *Batch) {
			counts = make(map[catalog.Rule]delta.ClaimCount)
			for _, rule := range catalog.Claiming(catalog.Instances, catalog.Definitions) {
				from := since
				if rule.Claims() == catalog.Definitions {
					from = metricSince
				}
				q.countClaims(b, counts, org, svc, rule, from)
			}
		})
	if err == nil && svc == 0 {
		err = errNoService()
	}
	return result(counts, err)
}

// countClaims counts the keys that a service claims under a rule since a bucket, and how
// many of them are contested.
func (q *Queries) countClaims(b *Batch, counts map[catalog.Rule]delta.ClaimCount, org, svc int64, rule catalog.Rule, since delta.Bucket) {
	// A key for which the service claims one value is contested if another service claims a
	// smaller or a larger one. The index alone answers this for most keys.
	other := func(compare string) string {
		return `EXISTS (SELECT 1 FROM claims d` + q.sql.Index(`claims_by_key`) + ` WHERE d.org = $1 AND d.rule = $3 AND d.key = k.key AND d.value ` + compare + ` k.value
			AND d.key_high = k.key_high AND d.last >= $4)`
	}
	b.Query(func(r Row) error {
		var c delta.ClaimCount
		err := r.Scan(&c.Claims, &c.Contested)
		if c.Claims > 0 {
			counts[rule] = c
		}
		return err
	}, `SELECT count(*), count(*) FILTER (WHERE `+other(`<`)+` OR `+other(`>`)+`)
		FROM (SELECT key, key_high, min(value) AS value FROM claims WHERE svc = $2 AND rule = $3 AND last >= $4 GROUP BY key, key_high) AS k`,
		org, svc, int64(codec.RuleNumber(rule)), int64(since))
}

// KnownMetricNames returns the hashes of the metric names of each service of an
// organization: the lower halves of the keys of their claims. It leaves out keys that
// older versions stored; their metrics are added when they arrive again.
func (q *Queries) KnownMetricNames(ctx context.Context, organizationID string) (map[assay.ServiceKey][]uint64, error) {
	var names map[assay.ServiceKey][]uint64
	err := q.engine.View(ctx, connpool.Loads, "list known metric names", func(b *Batch) {
		names = make(map[assay.ServiceKey][]uint64)
		b.Query(func(r Row) error {
			var (
				k      assay.ServiceKey
				list   []byte
				hashes []int64
			)
			if err := r.Scan((*Text)(&k.Namespace), (*Text)(&k.Name), (*Text)(&k.Environment), (*Text)(&k.Version), &list); err != nil || list == nil {
				return err
			}
			if err := json.Unmarshal(list, &hashes); err != nil || len(hashes) == 0 {
				return err
			}
			of := lists.Map(hashes, func(h int64) uint64 { return uint64(h) })
			names[k] = of
			return nil
		}, `SELECT s.namespace, s.name, s.environment, s.version, (
				SELECT `+q.sql.JSONList(`DISTINCT c.key`)+` FROM claims c WHERE c.svc = s.svc AND c.rule = $1 AND c.key_high <> 0)
			FROM services s WHERE s.org = (SELECT org FROM organizations WHERE id = $2)`, int64(codec.RuleNumber(catalog.MetricNames)), ID(organizationID))
	})
	return result(names, err)
}
