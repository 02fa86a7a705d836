// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/query"
)

const (
	lockScored = `SELECT svc, id FROM services WHERE id = ANY ($1::uuid[]) AND org = $2 ORDER BY svc FOR NO KEY UPDATE`
	saveScored = `UPDATE services s SET scored_revision = greatest(s.scored_revision, n.revision), unscored = s.revision > greatest(s.scored_revision, n.revision),
			score_id = n.id, score = n.score, score_evaluated = n.evaluated, score_failed = n.failed, score_at = n.at, score_window = n.span, score_created_at = n.created
		FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::float8[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
			AS n (svc, revision, id, score, evaluated, failed, at, span, created)
		WHERE s.svc = n.svc`
	// The status stays if the insight is muted, or was muted when it was scored. The row of
	// insights is written only if it changes.
	saveInsights = `WITH scored AS (
			SELECT n.*, i.id IS NOT NULL AS known, i.status AS was,
				CASE WHEN i.status = 3 OR n.status = 3 THEN coalesce(i.status, n.status) ELSE n.status END AS becomes,
				(i.weight, i.signal, i.detected_at) IS DISTINCT FROM (n.weight, n.signal, n.detected_at) AS differs
			FROM unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::smallint[], $6::smallint[], $7::smallint[], $8::text[], $9::text[],
				$10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[])
				AS n (id, svc, rule, status, weight, signal, mute_reason, trace_id, telemetry_at, detected_at, created_at, updated_at, attributes)
			LEFT JOIN insights i USING (id) ORDER BY id
		), changed AS (
			UPDATE insights i SET status = n.becomes, weight = n.weight, signal = n.signal, detected_at = n.detected_at
			FROM scored n WHERE i.id = n.id AND (n.differs OR n.becomes <> n.was)
		), opened AS (
			INSERT INTO insights (id, org, svc, rule, status, weight, signal, mute_reason, detected_at, created_at)
			SELECT id, $1::bigint, svc, rule, becomes, weight, signal, mute_reason, detected_at, created_at FROM scored WHERE NOT known
		), renewed AS (
			UPDATE evidence e SET status = n.becomes, weight = n.weight, signal = n.signal, updated_at = greatest(e.updated_at, n.updated_at),
				telemetry_at = n.telemetry_at, trace_id = n.trace_id, attributes = n.attributes
			FROM scored n WHERE e.svc = n.svc AND e.rule = n.rule
		)
		INSERT INTO evidence (svc, rule, id, org, status, weight, signal, created_at, updated_at, telemetry_at, trace_id, attributes)
			SELECT svc, rule, id, $1::bigint, becomes, weight, signal, created_at, updated_at, telemetry_at, trace_id, attributes FROM scored WHERE NOT known`
)

// SaveScores stores the results of scoring in one transaction: current scores, rows of
// the history, insights. A service counts as scored unless its facts changed after Facts
// returned them. The scorer does not decide whether an insight is muted: SaveScores keeps
// the status of a muted insight, and a muted result does not change the status of an
// insight that is no longer muted. Without the lease of the fence it returns
// delta.ErrLeaseLost and stores nothing.
func (s *Store) SaveScores(ctx context.Context, f delta.Fence, organizationID string, results []delta.Result) error {
	// Reject invalid values before the transaction locks rows.
	rows := make([]*scoreRow, 0, len(results))
	for i := range results {
		r, err := scoreRowOf(&results[i])
		if err != nil {
			return s.fail(ctx, "save scores", err)
		}
		rows = append(rows, r)
	}
	return s.updatePartitions(ctx, scoring, "save scores", func(tx pgx.Tx, use func(...partition) error) error {
		if err := use(scorePartitions(rows)...); err != nil {
			return err
		}
		org, err := query.OrgOf(ctx, &transaction{s, tx}, organizationID)
		if err != nil {
			return err
		}
		svcs, err := lockOf(ctx, tx, org, rows)
		if err != nil {
			return err
		}
		b := new(pgx.Batch)
		queueScored(b, svcs)
		queueHistory(b, svcs)
		queueInsights(b, org, svcs)
		lost := queueFence(b, f)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return lost()
	})
}

// scoreRow is a result in its stored form.
type scoreRow struct {
	id                pgtype.UUID
	svc               int64
	revision          int64
	score             *assay.Score // nil: none
	newRow            bool
	evaluated, failed int64
	insights          []insightRow
}

// insightRow is an insight of a result in its stored form.
type insightRow struct {
	*assay.Insight
	encoded codec.Insight
}

func scoreRowOf(r *delta.Result) (*scoreRow, error) {
	row := &scoreRow{id: uuidOf(r.ServiceID), revision: int64(r.Revision), score: r.Score, newRow: r.NewRow && r.Score != nil}
	if r.Score != nil {
		var err error
		if row.evaluated, err = codec.RuleSet(r.Score.EvaluatedRuleIDs); err != nil {
			return nil, err
		}
		if row.failed, err = codec.RuleSet(r.Score.FailedRuleIDs); err != nil {
			return nil, err
		}
	}
	for _, in := range r.Insights {
		encoded, err := codec.EncodeInsight(in)
		if err != nil {
			return nil, fmt.Errorf("insight %s: %w", in.ID, err)
		}
		row.insights = append(row.insights, insightRow{in, encoded})
	}
	return row, nil
}

// scorePartitions returns the partitions for the new rows of the history.
func scorePartitions(rows []*scoreRow) []partition {
	days := make(map[partition]bool)
	for _, r := range rows {
		if r.newRow {
			days[scoresTable.of(micros(r.score.CalculatedAt))] = true
		}
	}
	return slices.Collect(maps.Keys(days))
}

// lockOf locks the services of rows and returns the rows with an existing service, in the
// order of their services. The others were deleted since their facts were read.
func lockOf(ctx context.Context, tx pgx.Tx, org int64, rows []*scoreRow) ([]*scoreRow, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]pgtype.UUID, len(rows))
	svcs := make(map[pgtype.UUID]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.id
	}
	found, err := tx.Query(ctx, lockScored, ids, org)
	err = each(found, err, func(rows pgx.Rows) error {
		var svc int64
		var id pgtype.UUID
		err := rows.Scan(&svc, &id)
		svcs[id] = svc
		return err
	})
	if err != nil {
		return nil, err
	}
	var there []*scoreRow
	for _, r := range rows {
		if r.svc = svcs[r.id]; r.svc != 0 {
			there = append(there, r)
		}
	}
	slices.SortStableFunc(there, func(a, b *scoreRow) int { return cmp.Compare(a.svc, b.svc) })
	return there, nil
}

// queueScored writes the current scores.
func queueScored(b *pgx.Batch, rows []*scoreRow) {
	if len(rows) == 0 {
		return
	}
	var svcs, revisions []int64
	var ids []pgtype.UUID
	var scores []pgtype.Float8
	var evaluated, failed, ats, spans, created []pgtype.Int8
	for _, r := range rows {
		var id pgtype.UUID
		var score pgtype.Float8
		number := func(int64) pgtype.Int8 { return pgtype.Int8{} }
		sc := r.score
		if sc == nil {
			sc = new(assay.Score)
		} else {
			id, score = uuidOf(sc.ID), pgtype.Float8{Float64: sc.Value, Valid: true}
			number = func(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: true} }
		}
		svcs, revisions, ids, scores = append(svcs, r.svc), append(revisions, r.revision), append(ids, id), append(scores, score)
		evaluated, failed = append(evaluated, number(r.evaluated)), append(failed, number(r.failed))
		ats, spans, created = append(ats, number(micros(sc.CalculatedAt))), append(spans, number(sc.Window.Microseconds())), append(created, number(micros(sc.CreatedAt)))
	}
	b.Queue(saveScored, svcs, revisions, ids, scores, evaluated, failed, ats, spans, created)
}

// historyRows are rows of scores in one partition, in columns.
type historyRows struct {
	svcs, ats, evaluated, failed, spans, created []int64
	ids                                          []pgtype.UUID
	scores                                       []float64
}

// queueHistory adds rows to the history.
func queueHistory(b *pgx.Batch, rows []*scoreRow) {
	byDay := make(map[partition]*historyRows)
	for _, r := range rows {
		if !r.newRow {
			continue
		}
		sc := r.score
		h := in(byDay, scoresTable.of(micros(sc.CalculatedAt)))
		h.svcs, h.ats, h.ids, h.scores = append(h.svcs, r.svc), append(h.ats, micros(sc.CalculatedAt)), append(h.ids, uuidOf(sc.ID)), append(h.scores, sc.Value)
		h.evaluated, h.failed = append(h.evaluated, r.evaluated), append(h.failed, r.failed)
		h.spans, h.created = append(h.spans, sc.Window.Microseconds()), append(h.created, micros(sc.CreatedAt))
	}
	for p, h := range byDay {
		b.Queue(`INSERT INTO `+p.name()+` (svc, calculated_at, id, score, evaluated, failed, span, created_at)
			SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::float8[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
			ON CONFLICT DO NOTHING`, h.svcs, h.ats, h.ids, h.scores, h.evaluated, h.failed, h.spans, h.created)
	}
}

// queueInsights writes all insights in one statement. The statement updates their counts,
// whose rows stay locked until the end.
func queueInsights(b *pgx.Batch, org int64, rows []*scoreRow) {
	var (
		ids                                         []pgtype.UUID
		svcs, telemetry, detected, created, updated []int64
		rules, statuses, weights, signals           []int16
		reasons, traces, attributes                 []string
	)
	for _, r := range rows {
		for i := range r.insights {
			in := &r.insights[i]
			e := &in.encoded
			ids, svcs = append(ids, uuidOf(in.ID)), append(svcs, r.svc)
			rules, statuses = append(rules, int16(e.Rule)), append(statuses, int16(e.Status))
			weights, signals = append(weights, int16(e.Weight)), append(signals, int16(e.Signal))
			reasons, traces, attributes = append(reasons, in.MuteReason), append(traces, in.TraceID), append(attributes, e.Attributes)
			telemetry, detected = append(telemetry, micros(in.TelemetryAt)), append(detected, micros(in.DetectedAt))
			created, updated = append(created, micros(in.CreatedAt)), append(updated, micros(in.UpdatedAt))
		}
	}
	if len(ids) > 0 {
		b.Queue(saveInsights, org, ids, svcs, rules, statuses, weights, signals, reasons, traces, telemetry, detected, created, updated, attributes)
	}
}
