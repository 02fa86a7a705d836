// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/merge"
)

// FindScoreGroups implements assay.OverviewStore.
func (q *Queries) FindScoreGroups(ctx context.Context, organizationID string) ([]assay.ScoreGroup, error) {
	var (
		org    int64
		groups merge.Groups
	)
	err := q.engine.View(ctx, connpool.Pages, "group services by score",
		func(b *Batch) {
			org = 0
			b.Query(func(r Row) error { return r.Scan(&org) }, `SELECT org FROM organizations WHERE id = $1`, ID(organizationID))
		},
		func(b *Batch) {
			groups = make(merge.Groups)
			b.Query(func(r Row) error {
				var (
					n                 int
					value             float64
					evaluated, failed int64
				)
				err := r.Scan(&value, &evaluated, &failed, &n)
				groups.Add(n, value, evaluated, failed)
				return err
			}, `SELECT score, score_evaluated, score_failed, count(*) FROM services`+q.sql.Index(`services_by_name`)+`
				WHERE org = $1 AND score IS NOT NULL GROUP BY 1, 2, 3`, org)
			// Few insights are muted, so look them up by type.
			b.Query(func(r Row) error {
				var evaluated, failed, rule int64
				err := r.Scan(&evaluated, &failed, &rule)
				groups.Mute(evaluated, failed, rule)
				return err
			}, `SELECT s.score_evaluated, s.score_failed, i.rule FROM insights i`+q.sql.Index(`insights_muted`)+` JOIN services s ON s.svc = i.svc
				WHERE i.org = $1 AND i.status = 3 AND s.score IS NOT NULL
					AND `+q.sql.InSelect(`i.rule`, `SELECT rule FROM insight_counts WHERE org = $1 AND status = 3 AND n > 0`), org)
		})
	return result(groups.All(), err)
}

// FindInsightTypeCounts implements assay.OverviewStore.
func (q *Queries) FindInsightTypeCounts(ctx context.Context, organizationID string) ([]assay.InsightTypeCount, error) {
	return list(ctx, q, connpool.Pages, "count insights by type", func(r Row) (c assay.InsightTypeCount, err error) {
		var rule int64
		err = r.Scan(&rule, &c.Active)
		c.Type = codec.InsightType(rule)
		return c, err
	}, `SELECT rule, CAST(sum(n) AS bigint) FROM insight_counts
		WHERE org = (SELECT org FROM organizations WHERE id = $1) AND status = $2 GROUP BY rule HAVING sum(n) > 0`, ID(organizationID), codec.StatusActive)
}

// FindOrganizationScores implements assay.OverviewStore.
func (q *Queries) FindOrganizationScores(ctx context.Context, organizationID string, series assay.SeriesRange) ([]assay.ScorePoint, error) {
	return list(ctx, q, connpool.Pages, "read an organization's score history", func(r Row) (p assay.ScorePoint, err error) {
		err = r.Scan((*Time)(&p.At), &p.Value)
		return p, err
	}, q.sql.Found(`p.value`, `SELECT c.score FROM organization_scores c WHERE c.org = o.org AND c.slot BETWEEN (p.value - $1) / $2 AND p.value / $2
			AND c.at > p.value - $1 AND c.at <= p.value ORDER BY c.slot DESC LIMIT 1`,
		`organizations o CROSS JOIN `+q.sql.Ints(`$3`, `p`))+` AND o.id = $4 ORDER BY p.value`,
		series.Reach().Microseconds(), ScoreSlot.Microseconds(), micros(series.Ends()), ID(organizationID))
}
