// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/fold"
	"assay/internal/store/lane"
)

// FindScoreGroups implements assay.OverviewStore.
func (s *Store) FindScoreGroups(ctx context.Context, organizationID string) ([]assay.ScoreGroup, error) {
	groups := make(fold.Groups)
	err := s.view(ctx, lane.Pages, "group services by score", func(tx *sql.Tx) error {
		clear(groups)
		org, err := orgOf(ctx, tx, organizationID)
		if assay.ErrorCode(err) == assay.CodeNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		var svc, rule int64
		muted := make(map[int64]int64)
		rows, err := tx.QueryContext(ctx, `SELECT svc, rule FROM insights INDEXED BY insights_muted WHERE org = ? AND status = 3`, org)
		err = each(rows, err, func(rows *sql.Rows) error {
			err := rows.Scan(&svc, &rule)
			muted[svc] |= codec.RuleBit(rule)
			return err
		})
		if err != nil {
			return err
		}
		var evaluated, failed int64
		var value float64
		rows, err = tx.QueryContext(ctx, `SELECT svc, score, score_evaluated, score_failed FROM services INDEXED BY services_by_name
			WHERE org = ? AND score IS NOT NULL`, org)
		return each(rows, err, func(rows *sql.Rows) error {
			err := rows.Scan(&svc, &value, &evaluated, &failed)
			if err == nil {
				groups.Add(1, value, evaluated, failed, muted[svc])
			}
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
	var counts []assay.InsightTypeCount
	err := s.query(ctx, lane.Pages, "count insights by type", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT rule, sum(n) FROM insight_counts
			WHERE org = (SELECT org FROM organizations WHERE id = ?) AND status = ? GROUP BY rule HAVING sum(n) > 0`, blobOf(organizationID), codec.StatusActive)
		return each(rows, err, func(rows *sql.Rows) error {
			var rule int64
			var c assay.InsightTypeCount
			if err := rows.Scan(&rule, &c.Active); err != nil {
				return err
			}
			c.Type = codec.InsightType(rule)
			counts = append(counts, c)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// scoreSlot is to how long the history of an organization's score is kept.
const scoreSlot = 10 * time.Minute

// slotOf returns the slot of a moment in organization_scores.
func slotOf(t time.Time) int64 { return t.UnixMicro() / scoreSlot.Microseconds() }

// FindOrganizationScores implements assay.OverviewStore.
func (s *Store) FindOrganizationScores(ctx context.Context, organizationID string, course assay.Course) ([]assay.ScorePoint, error) {
	var points []assay.ScorePoint
	err := s.query(ctx, lane.Pages, "read an organization's score history", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT p.value, (
				SELECT score FROM organization_scores c WHERE c.org = o.org AND c.slot BETWEEN (p.value - ?1) / ?2 AND p.value / ?2
					AND c.at > p.value - ?1 AND c.at <= p.value ORDER BY c.slot DESC LIMIT 1)
			FROM organizations o CROSS JOIN json_each(?3) p WHERE o.id = ?4 ORDER BY p.value`,
			course.Reach().Microseconds(), scoreSlot.Microseconds(), jsonTimes(course.Ends()), blobOf(organizationID))
		return each(rows, err, func(rows *sql.Rows) error {
			var at int64
			var score sql.NullFloat64
			if err := rows.Scan(&at, &score); err != nil {
				return err
			}
			if score.Valid {
				points = append(points, assay.ScorePoint{At: timeOf(at), Value: score.Float64})
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return points, nil
}

// jsonTimes is a list of times as a JSON array.
func jsonTimes(times []time.Time) string {
	list := make([]int64, len(times))
	for i, t := range times {
		list[i] = micros(t)
	}
	return jsonList(list)
}

// ServiceClaims implements score.FactStore. A key with one value of the service's own is
// contested when there is a smaller or a larger one: the index knows most without a look
// at all claims of the key.
func (s *Store) ServiceClaims(ctx context.Context, organizationID, serviceID string, since, metricSince delta.Bucket) (map[catalog.Rule]delta.ClaimCount, error) {
	counts := make(map[catalog.Rule]delta.ClaimCount)
	err := s.view(ctx, lane.Pages, "count the claims of a service", func(tx *sql.Tx) error {
		clear(counts)
		var org, svc int64
		err := tx.QueryRowContext(ctx, `SELECT s.org, s.svc FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = ? AND o.id = ?`,
			blobOf(serviceID), blobOf(organizationID)).Scan(&org, &svc)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoService()
		}
		if err != nil {
			return err
		}
		for rule, from := range map[catalog.Rule]delta.Bucket{catalog.RES002: since, catalog.MET003: metricSince, catalog.MET004: metricSince} {
			var c delta.ClaimCount
			err := tx.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE
					EXISTS (SELECT 1 FROM claims d INDEXED BY claims_by_key WHERE d.org = ?1 AND d.rule = ?3 AND d.key = k.key AND d.value < k.value AND d.key_high = k.key_high AND d.last >= ?4) OR
					EXISTS (SELECT 1 FROM claims d INDEXED BY claims_by_key WHERE d.org = ?1 AND d.rule = ?3 AND d.key = k.key AND d.value > k.value AND d.key_high = k.key_high AND d.last >= ?4))
				FROM (SELECT key, key_high, min(value) AS value FROM claims WHERE svc = ?2 AND rule = ?3 AND last >= ?4 GROUP BY key, key_high) k`,
				org, svc, int64(codec.RuleNumber(rule)), int64(from)).Scan(&c.Claims, &c.Contested)
			if err != nil {
				return err
			}
			if c.Claims > 0 {
				counts[rule] = c
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}
