// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// SaveScores stores the results of scoring in one transaction: current scores, rows of
// the history, insights. A service counts as scored unless its facts changed after Facts
// returned them. The scorer does not decide whether an insight is muted: SaveScores keeps
// the status of a muted insight, and a muted result does not change the status of an
// insight that is no longer muted. Without the lease of the fence it returns
// delta.ErrLeaseLost and stores nothing.
func (s *Store) SaveScores(ctx context.Context, f delta.Fence, organizationID string, results []delta.Result) error {
	return s.update(ctx, connpool.Scoring, "save scores", func(tx *sql.Tx) error {
		if err := within(ctx, tx, f); err != nil {
			return err
		}
		org, err := query.OrgOf(ctx, &transaction{s, tx}, organizationID)
		if err != nil {
			return err
		}
		c := s.commitIn(ctx, tx)
		for i := range results {
			if err := c.result(org, &results[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *commit) result(org int64, r *delta.Result) error {
	var svc int64
	known, err := c.get(findScored, []any{&svc}, blobOf(r.ServiceID), org)
	if err != nil || !known { // deleted since its facts were read
		return err
	}
	if r.Score == nil {
		_, err = c.exec(saveScore, int64(r.Revision), nil, nil, nil, nil, nil, nil, nil, svc)
	} else {
		err = c.score(svc, r)
	}
	if err != nil {
		return err
	}
	for _, in := range r.Insights {
		if err := c.insight(org, svc, in); err != nil {
			return fmt.Errorf("insight %s: %w", in.ID, err)
		}
	}
	return nil
}

func (c *commit) score(svc int64, r *delta.Result) error {
	sc := r.Score
	evaluated, err := codec.RuleSet(sc.EvaluatedRuleIDs)
	if err != nil {
		return err
	}
	failed, err := codec.RuleSet(sc.FailedRuleIDs)
	if err != nil {
		return err
	}
	id, window := blobOf(sc.ID), sc.Window.Microseconds()
	_, err = c.exec(saveScore, int64(r.Revision), id, sc.Value, evaluated, failed, micros(sc.CalculatedAt), window, micros(sc.CreatedAt), svc)
	if err != nil || !r.NewRow {
		return err
	}
	_, err = c.exec(addScore, svc, micros(sc.CalculatedAt), id, sc.Value, evaluated, failed, window, micros(sc.CreatedAt))
	return err
}

func (c *commit) insight(org, svc int64, in *assay.Insight) error {
	e, err := codec.EncodeInsight(in)
	if err != nil {
		return err
	}
	id := blobOf(in.ID)
	renewed, err := c.exec(renewInsight, id, e.Weight, e.Signal, micros(in.DetectedAt),
		in.TraceID, micros(in.TelemetryAt), micros(in.UpdatedAt), e.Attributes, e.Status)
	if err != nil || renewed {
		return err
	}
	_, err = c.exec(saveInsight, id, org, svc, e.Rule, e.Status, e.Weight, e.Signal,
		in.MuteReason, in.TraceID, micros(in.TelemetryAt), micros(in.DetectedAt), micros(in.CreatedAt), micros(in.UpdatedAt), e.Attributes)
	return err
}
