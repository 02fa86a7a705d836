// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"encoding/json"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
	"assay/internal/store/merge"
)

// ClaimsRevision returns a number that grows whenever a claim of the organization is
// added, moves or expires.
func (q *Queries) ClaimsRevision(ctx context.Context, organizationID string) (uint64, error) {
	n, err := one(ctx, q, lane.Scoring, "read the claims revision", errNoOrganization, value[int64],
		`SELECT claims_revision FROM organizations WHERE id = $1`, ID(organizationID))
	return uint64(n), err
}

// ClaimCounts counts the claims of one rule in an organization that were made in or after
// a bucket, by service id. It leaves out services without claims.
func (q *Queries) ClaimCounts(ctx context.Context, organizationID string, rule catalog.Rule, since delta.Bucket) (map[string]delta.ClaimCount, error) {
	var (
		org    int64
		claims merge.ClaimCounts
		ids    map[int64]string
	)
	byKey, number := q.sql.Index(`claims_by_key`), int64(codec.RuleNumber(rule))
	err := q.engine.View(ctx, lane.Scoring, "count claims",
		func(b *Batch) {
			org = 0
			b.Query(func(r Row) error { return r.Scan(&org) }, `SELECT org FROM organizations WHERE id = $1`, ID(organizationID))
		},
		func(b *Batch) {
			claims, ids = merge.ClaimCounts{}, make(map[int64]string)
			// Read by the primary key, one service after the other.
			b.Query(func(r Row) error {
				var (
					svc int64
					id  ID
					n   uint64
				)
				err := r.Scan(&svc, &id, &n)
				ids[svc] = string(id)
				claims.Keys(svc, n)
				return err
			}, `SELECT s.svc, s.id, (SELECT count(*) FROM (SELECT DISTINCT c.key, c.key_high FROM claims c WHERE c.svc = s.svc AND c.rule = $2 AND c.last >= $3) AS k)
				FROM services s WHERE s.org = $1`, org, number, int64(since))
			// Candidates have two values in the index. The index holds half of each key and not
			// the age of a value.
			b.Query(func(r Row) error {
				var (
					low, high, value, svc int64
					key, text             Text
				)
				err := r.Scan(&low, &high, &value, &svc, &key, &text)
				claims.Claim(delta.Hash128{High: uint64(high), Low: uint64(low)}, value, svc, string(key), string(text))
				return err
			}, `WITH candidate (key) AS MATERIALIZED (
					SELECT key FROM claims`+byKey+` WHERE org = $1 AND rule = $2 GROUP BY key HAVING min(value) <> max(value))
				SELECT c.key, c.key_high, c.value, c.svc, c.key_text, c.value_text
				FROM candidate JOIN claims c`+byKey+` ON c.org = $1 AND c.rule = $2 AND c.key = candidate.key
				WHERE c.last >= $3 ORDER BY c.key, c.key_high`, org, number, int64(since))
		})
	if err == nil && org == 0 {
		err = errNoOrganization()
	}
	if err != nil {
		return nil, err
	}
	counts := make(map[string]delta.ClaimCount, len(ids))
	for svc, c := range claims.BySvc() {
		counts[ids[svc]] = *c
	}
	return counts, nil
}

// ServiceClaims implements score.FactStore.
func (q *Queries) ServiceClaims(ctx context.Context, organizationID, serviceID string, since, metricSince delta.Bucket) (map[catalog.Rule]delta.ClaimCount, error) {
	var (
		org, svc int64
		counts   map[catalog.Rule]delta.ClaimCount
	)
	err := q.engine.View(ctx, lane.Pages, "count the claims of a service",
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
	if err != nil {
		return nil, err
	}
	return counts, nil
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
	err := q.engine.View(ctx, lane.Loads, "list known metric names", func(b *Batch) {
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
			of := make([]uint64, len(hashes))
			for i, h := range hashes {
				of[i] = uint64(h)
			}
			names[k] = of
			return nil
		}, `SELECT s.namespace, s.name, s.environment, s.version, (
				SELECT `+q.sql.JSONList(`DISTINCT c.key`)+` FROM claims c WHERE c.svc = s.svc AND c.rule = $1 AND c.key_high <> 0)
			FROM services s WHERE s.org = (SELECT org FROM organizations WHERE id = $2)`, int64(codec.RuleNumber(catalog.MetricNames)), ID(organizationID))
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}
