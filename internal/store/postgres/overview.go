// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/fold"
)

// scoreGroups finds the few muted insights by their types.
const scoreGroups = `SELECT s.score, s.score_evaluated, s.score_failed, coalesce(m.rules, 0) & s.score_failed, count(*)
	FROM services s LEFT JOIN (
		SELECT i.svc, bit_or(1::bigint << (i.rule - 1)) AS rules FROM insights i
		WHERE i.org = $1 AND i.status = 3 AND i.rule = ANY (ARRAY (SELECT rule FROM insight_counts WHERE org = $1 AND status = 3 AND n > 0))
		GROUP BY i.svc) AS m ON m.svc = s.svc
	WHERE s.org = $1 AND s.score IS NOT NULL GROUP BY 1, 2, 3, 4`

// FindScoreGroups implements assay.OverviewStore.
func (s *Store) FindScoreGroups(ctx context.Context, organizationID string) ([]assay.ScoreGroup, error) {
	var (
		groups fold.Groups
		org    int64
	)
	err := s.read(ctx, pages, "group services by score",
		func(b *pgx.Batch) {
			org = 0
			b.Queue(`SELECT org FROM organizations WHERE id = $1`, uuidOf(organizationID)).Query(func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&org}, func() error { return nil })
				return err
			})
		},
		func(b *pgx.Batch) {
			groups = make(fold.Groups)
			b.Queue(scoreGroups, org).Query(func(rows pgx.Rows) error {
				var value float64
				var evaluated, failed, muted int64
				var n int
				_, err := pgx.ForEachRow(rows, []any{&value, &evaluated, &failed, &muted, &n}, func() error {
					groups.Add(n, value, evaluated, failed, muted)
					return nil
				})
				return err
			})
		})
	if err != nil {
		return nil, err
	}
	return groups.All(), nil
}

// FindInsightTypeCounts implements assay.OverviewStore.
func (s *Store) FindInsightTypeCounts(ctx context.Context, organizationID string) ([]assay.InsightTypeCount, error) {
	of := func(row pgx.CollectableRow) (c assay.InsightTypeCount, err error) {
		var rule int64
		err = row.Scan(&rule, &c.Active)
		c.Type = codec.InsightType(rule)
		return c, err
	}
	return list(ctx, s, pages, "count insights by type", of, `SELECT rule, sum(n)::bigint FROM insight_counts
		WHERE org = (SELECT org FROM organizations WHERE id = $1) AND status = $2 GROUP BY rule HAVING sum(n) > 0`, uuidOf(organizationID), codec.StatusActive)
}

// scoreSlot is to how long the history of an organization's score is kept.
const scoreSlot = 10 * time.Minute

// slotOf returns the slot of a moment in organization_scores.
func slotOf(t time.Time) int64 { return t.UnixMicro() / scoreSlot.Microseconds() }

// FindOrganizationScores implements assay.OverviewStore.
func (s *Store) FindOrganizationScores(ctx context.Context, organizationID string, course assay.Course) ([]assay.ScorePoint, error) {
	of := func(row pgx.CollectableRow) (p assay.ScorePoint, err error) {
		return p, row.Scan((*instant)(&p.At), &p.Value)
	}
	return list(ctx, s, pages, "read an organization's score history", of, `SELECT p.at, c.score
		FROM organizations o CROSS JOIN unnest($2::bigint[]) AS p (at)
			CROSS JOIN LATERAL (SELECT score FROM organization_scores c WHERE c.org = o.org AND c.slot BETWEEN (p.at - $3) / $4 AND p.at / $4
				AND c.at > p.at - $3 AND c.at <= p.at ORDER BY c.slot DESC LIMIT 1) AS c
		WHERE o.id = $1 ORDER BY p.at`, uuidOf(organizationID), microsOf(course.Ends()), course.Reach().Microseconds(), scoreSlot.Microseconds())
}

// claimsOfService counts the keys that a service ($2) claims under a rule ($3) since a
// bucket ($4), and those of them that are contested: a key with one value of the
// service's own is, when there is a smaller or a larger one. The index knows most without a
// look at all claims of the key.
const claimsOfService = `SELECT count(*), count(*) FILTER (WHERE
		EXISTS (SELECT FROM claims d WHERE d.org = $1 AND d.rule = $3 AND d.key = k.key AND d.value < k.value AND d.key_high = k.key_high AND d.last >= $4) OR
		EXISTS (SELECT FROM claims d WHERE d.org = $1 AND d.rule = $3 AND d.key = k.key AND d.value > k.value AND d.key_high = k.key_high AND d.last >= $4))
	FROM (SELECT key, key_high, min(value) AS value FROM claims WHERE svc = $2 AND rule = $3 AND last >= $4 GROUP BY key, key_high) AS k`

// ServiceClaims implements score.FactStore.
func (s *Store) ServiceClaims(ctx context.Context, organizationID, serviceID string, since, metricSince delta.Bucket) (map[catalog.Rule]delta.ClaimCount, error) {
	var (
		org, svc int64
		counts   map[catalog.Rule]delta.ClaimCount
	)
	err := s.read(ctx, pages, "count the claims of a service",
		func(b *pgx.Batch) {
			b.Queue(`SELECT s.org, s.svc FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = $1 AND o.id = $2`, uuidOf(serviceID), uuidOf(organizationID)).
				QueryRow(func(row pgx.Row) error {
					err := row.Scan(&org, &svc)
					if errors.Is(err, pgx.ErrNoRows) {
						err = errNoService()
					}
					return err
				})
		},
		func(b *pgx.Batch) {
			counts = make(map[catalog.Rule]delta.ClaimCount)
			for rule, from := range map[catalog.Rule]delta.Bucket{catalog.RES002: since, catalog.MET003: metricSince, catalog.MET004: metricSince} {
				b.Queue(claimsOfService, org, svc, int16(codec.RuleNumber(rule)), int64(from)).QueryRow(func(row pgx.Row) error {
					var c delta.ClaimCount
					err := row.Scan(&c.Claims, &c.Contested)
					if c.Claims > 0 {
						counts[rule] = c
					}
					return err
				})
			}
		})
	if err != nil {
		return nil, err
	}
	return counts, nil
}
