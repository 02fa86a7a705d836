// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
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
		w := &scoreWriter{ctx: context.WithoutCancel(ctx), org: org} // as in Commit
		if err := w.prepare(tx); err != nil {
			return err
		}
		defer w.close()
		for i := range results {
			if err := w.save(&results[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// scoreWriter holds the prepared statements of SaveScores.
type scoreWriter struct {
	ctx                                        context.Context // never ends
	org                                        int64
	find, current, history, renew, saveInsight *sql.Stmt
}

func (w *scoreWriter) prepare(tx *sql.Tx) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		sql  string
	}{
		{&w.find, `SELECT svc FROM services WHERE id = ? AND org = ?`},
		{&w.current, `UPDATE services SET scored_revision = max(scored_revision, ?), score_id = ?, score = ?, score_evaluated = ?, score_failed = ?,
			score_at = ?, score_window = ?, score_created_at = ? WHERE svc = ?`},
		{&w.history, `INSERT INTO scores (svc, calculated_at, id, score, evaluated, failed, span, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`},
		// Most updates change only evidence. They leave out the columns that lists are sorted
		// and filtered by, so most indexes stay unchanged.
		{&w.renew, `UPDATE insights SET trace_id = ?5, telemetry_at = ?6, updated_at = max(updated_at, ?7), attributes = ?8
			WHERE id = ?1 AND weight = ?2 AND signal = ?3 AND detected_at = ?4 AND (status = ?9 OR status = 3 OR ?9 = 3)`},
		{&w.saveInsight, `INSERT INTO insights (id, org, svc, rule, status, weight, signal, mute_reason, trace_id, telemetry_at, detected_at, created_at, updated_at, attributes)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET
				status = iif(status = 3 OR excluded.status = 3, status, excluded.status),
				weight = excluded.weight, signal = excluded.signal, trace_id = excluded.trace_id, telemetry_at = excluded.telemetry_at,
				detected_at = excluded.detected_at, updated_at = max(updated_at, excluded.updated_at), attributes = excluded.attributes`},
	} {
		st, err := tx.PrepareContext(w.ctx, p.sql)
		if err != nil {
			w.close()
			return err
		}
		*p.stmt = st
	}
	return nil
}

func (w *scoreWriter) close() {
	for _, st := range []*sql.Stmt{w.find, w.current, w.history, w.renew, w.saveInsight} {
		if st != nil {
			_ = st.Close() // the end of the transaction closes it anyway
		}
	}
}

func (w *scoreWriter) save(r *delta.Result) error {
	var svc int64
	err := w.find.QueryRowContext(w.ctx, blobOf(r.ServiceID), w.org).Scan(&svc)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // deleted since its facts were read
	}
	if err != nil {
		return err
	}
	if r.Score == nil {
		_, err = w.current.ExecContext(w.ctx, int64(r.Revision), nil, nil, nil, nil, nil, nil, nil, svc)
	} else {
		err = w.saveScore(svc, r)
	}
	if err != nil {
		return err
	}
	for _, in := range r.Insights {
		if err := w.insight(svc, in); err != nil {
			return fmt.Errorf("insight %s: %w", in.ID, err)
		}
	}
	return nil
}

func (w *scoreWriter) saveScore(svc int64, r *delta.Result) error {
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
	_, err = w.current.ExecContext(w.ctx, int64(r.Revision), id, sc.Value, evaluated, failed, micros(sc.CalculatedAt), window, micros(sc.CreatedAt), svc)
	if err != nil || !r.NewRow {
		return err
	}
	_, err = w.history.ExecContext(w.ctx, svc, micros(sc.CalculatedAt), id, sc.Value, evaluated, failed, window, micros(sc.CreatedAt))
	return err
}

func (w *scoreWriter) insight(svc int64, in *assay.Insight) error {
	e, err := codec.EncodeInsight(in)
	if err != nil {
		return err
	}
	id := blobOf(in.ID)
	res, err := w.renew.ExecContext(w.ctx, id, e.Weight, e.Signal, micros(in.DetectedAt),
		in.TraceID, micros(in.TelemetryAt), micros(in.UpdatedAt), e.Attributes, e.Status)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	_, err = w.saveInsight.ExecContext(w.ctx, id, w.org, svc, e.Rule, e.Status, e.Weight, e.Signal,
		in.MuteReason, in.TraceID, micros(in.TelemetryAt), micros(in.DetectedAt), micros(in.CreatedAt), micros(in.UpdatedAt), e.Attributes)
	return err
}
