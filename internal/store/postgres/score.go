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
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/fold"
)

// UnscoredServices returns the ids of an organization's services whose facts
// changed since they were last scored; with all, of those that have facts in the
// window, a score or an insight.
func (s *Store) UnscoredServices(ctx context.Context, organizationID string, all bool) ([]string, error) {
	q := `SELECT id FROM services WHERE org = (SELECT org FROM organizations WHERE id = $1) AND unscored`
	if all {
		q = `SELECT id FROM services s WHERE org = (SELECT org FROM organizations WHERE id = $1) AND (
			unscored OR length(tally) > 0 OR score_id IS NOT NULL
			OR EXISTS (SELECT 1 FROM insights i WHERE i.svc = s.svc)
			OR EXISTS (SELECT 1 FROM claims c WHERE c.svc = s.svc))`
	}
	return list(ctx, s, scoring, "list unscored services", pgx.RowTo[string], q, uuidOf(organizationID))
}

// ClaimsRevision returns a number that grows whenever a claim of the
// organization is made, moves or is forgotten.
func (s *Store) ClaimsRevision(ctx context.Context, organizationID string) (uint64, error) {
	n, err := one(ctx, s, scoring, "read the claims revision", errNoOrganization, pgx.RowTo[int64],
		`SELECT claims_revision FROM organizations WHERE id = $1`, uuidOf(organizationID))
	return uint64(n), err
}

const (
	// By the primary key, service after service.
	countClaims = `SELECT s.svc, s.id, n.keys FROM services s, LATERAL (
			SELECT count(*) AS keys FROM (SELECT DISTINCT c.key, c.key_high FROM claims c WHERE c.svc = s.svc AND c.rule = $2 AND c.last >= $3) AS k) AS n
		WHERE s.org = $1 AND n.keys > 0`
	// Candidates have two values in the index, which has not all of the key and does not
	// say how old they are.
	contestedClaims = `WITH candidate (key) AS MATERIALIZED (
			SELECT key FROM claims WHERE org = $1 AND rule = $2 GROUP BY key HAVING min(value) <> max(value))
		SELECT c.key, c.key_high, c.value, c.svc, c.key_text, c.value_text
		FROM candidate JOIN claims c ON c.org = $1 AND c.rule = $2 AND c.key = candidate.key
		WHERE c.last >= $3 ORDER BY c.key, c.key_high`
)

// ClaimCounts sums up the claims of one rule in an organization that were made
// in a bucket since a given one, by service id. Services without are left out.
func (s *Store) ClaimCounts(ctx context.Context, organizationID string, rule catalog.Rule, since delta.Bucket) (map[string]delta.ClaimCount, error) {
	number := int16(codec.RuleNumber(rule))
	var (
		claims fold.ClaimCounts
		ids    map[int64]string
	)
	err := s.view(ctx, scoring, "count claims", func(tx pgx.Tx) error {
		claims, ids = fold.ClaimCounts{}, make(map[int64]string)
		org, err := orgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		b := new(pgx.Batch)
		b.Queue(countClaims, org, number, int64(since)).Query(func(rows pgx.Rows) error {
			return each(rows, nil, func(rows pgx.Rows) error {
				var svc, n int64
				var id string
				err := rows.Scan(&svc, &id, &n)
				ids[svc] = id
				claims.Keys(svc, uint64(n))
				return err
			})
		})
		b.Queue(contestedClaims, org, number, int64(since)).Query(func(rows pgx.Rows) error {
			return each(rows, nil, func(rows pgx.Rows) error {
				var low, high, value, svc int64
				var keyText, valueText []byte
				err := rows.Scan(&low, &high, &value, &svc, &keyText, &valueText)
				claims.Claim(delta.Hash128{High: uint64(high), Low: uint64(low)}, value, svc, string(keyText), string(valueText))
				return err
			})
		})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, err
	}
	counts := make(map[string]delta.ClaimCount, len(ids))
	for svc, c := range claims.BySvc() {
		counts[ids[svc]] = *c
	}
	return counts, nil
}

// maxFacts is how many services one call of Facts may name.
const maxFacts = 500

const (
	factsOfServices = `SELECT ` + serviceColumns + `, s.svc, s.revision, s.tally
		FROM services s JOIN organizations o ON o.org = s.org WHERE s.id = ANY ($2::uuid[]) AND o.id = $1`
	insightsOfServices = `SELECT ` + insightColumns + ` FROM ` + insightTables + `
		WHERE i.svc = ANY ($1::bigint[]) ORDER BY i.svc, i.rule`
	countDays = `SELECT svc, key, count(*) FROM claims WHERE svc = ANY ($1::bigint[]) AND rule = $2 AND last >= $3 GROUP BY svc, key`
)

// Facts returns what scoring the services needs, in no order and from one
// snapshot: at most 500 services. Ids that are unknown or another organization's
// are left out. Evidence and days older than since are, too.
func (s *Store) Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error) {
	if len(serviceIDs) > maxFacts {
		return nil, fmt.Errorf("postgres: load facts: %d services asked for, at most %d allowed", len(serviceIDs), maxFacts)
	}
	if len(serviceIDs) == 0 {
		return nil, nil
	}
	var found factsBySvc
	err := s.read(ctx, scoring, "load facts",
		func(b *pgx.Batch) {
			found = make(factsBySvc, len(serviceIDs))
			b.Queue(factsOfServices, uuidOf(organizationID), uuidsOf(serviceIDs)).Query(found.services)
		},
		func(b *pgx.Batch) {
			svcs := slices.Sorted(maps.Keys(found))
			b.Queue(findExamples, svcs).Query(found.examples)
			b.Queue(findItems, svcs).Query(func(rows pgx.Rows) error { return found.items(rows, since) })
			b.Queue(countDays, svcs, int16(codec.RuleNumber(catalog.LOG001)), int64(since)).Query(found.days)
			b.Queue(insightsOfServices, svcs).Query(found.insights)
		})
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(found)), nil
}

// factsBySvc are facts by the rows of their services.
type factsBySvc map[int64]*delta.Facts

func (fs factsBySvc) services(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		f := new(delta.Facts)
		var svc, revision int64
		var blob []byte
		if err := scanService(rows, &f.Service, &svc, &revision, &blob); err != nil {
			return err
		}
		var total codec.Tally
		if err := total.UnmarshalBinary(blob); err != nil {
			return err
		}
		f.Revision, f.Totals = uint64(revision), total.Counts
		fs[svc] = f
		return nil
	})
}

func (fs factsBySvc) examples(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var svc int64
		var blob []byte
		if err := rows.Scan(&svc, &blob); err != nil {
			return err
		}
		return codec.DecodeExamples(blob, &fs[svc].Examples)
	})
}

func (fs factsBySvc) items(rows pgx.Rows, since delta.Bucket) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var svc int64
		var blob []byte
		if err := rows.Scan(&svc, &blob); err != nil {
			return err
		}
		items, err := codec.DecodeItems(blob)
		maps.DeleteFunc(items, func(_ delta.Item, b delta.Bucket) bool { return b < since })
		fs[svc].Items = items
		return err
	})
}

func (fs factsBySvc) days(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var svc, key, days int64
		if err := rows.Scan(&svc, &key, &days); err != nil {
			return err
		}
		switch key {
		case delta.KeyLogDay:
			fs[svc].LogDays = uint64(days)
		case delta.KeyDebugDay:
			fs[svc].DebugDays = uint64(days)
		}
		return nil
	})
}

func (fs factsBySvc) insights(rows pgx.Rows) error {
	byID := make(map[string]*delta.Facts, len(fs))
	for _, f := range fs {
		byID[f.Service.ID] = f
	}
	return each(rows, nil, func(rows pgx.Rows) error {
		in, err := insightOf(rows)
		if err != nil {
			return err
		}
		f := byID[in.Service.ID]
		f.Insights = append(f.Insights, in)
		return nil
	})
}

// OrganizationMean returns the mean of the unrounded current scores of an
// organization's services, and how many have one.
func (s *Store) OrganizationMean(ctx context.Context, organizationID string) (mean float64, services int, err error) {
	err = s.read(ctx, scoring, "average scores", func(b *pgx.Batch) {
		b.Queue(`SELECT coalesce(avg(score), 0), count(score) FROM services
			WHERE org = (SELECT org FROM organizations WHERE id = $1) AND score_id IS NOT NULL`, uuidOf(organizationID)).
			QueryRow(func(row pgx.Row) error { return row.Scan(&mean, &services) })
	})
	if err != nil {
		return 0, 0, err
	}
	return mean, services, nil
}

const (
	lockScored = `SELECT svc, id FROM services WHERE id = ANY ($1::uuid[]) AND org = $2 ORDER BY svc FOR NO KEY UPDATE`
	saveScored = `UPDATE services s SET scored_revision = greatest(s.scored_revision, n.revision), unscored = s.revision > greatest(s.scored_revision, n.revision),
			score_id = n.id, score = n.score, score_evaluated = n.evaluated, score_failed = n.failed, score_at = n.at, score_window = n.span, score_created_at = n.created
		FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::float8[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
			AS n (svc, revision, id, score, evaluated, failed, at, span, created)
		WHERE s.svc = n.svc`
	// The status of an insight that is muted, or was when it was scored, stays. The row
	// of insights is written only where it changes.
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

// SaveScores stores what scoring gave, in one transaction: current scores, rows
// of the history, insights. A service counts as scored unless its facts changed
// after Facts returned them. Whether an insight is muted is not for the scorer
// to say: the status of a muted one stays, and a result that says muted does not
// change the status of one that is no longer. Without the lease of the fence it is
// delta.ErrLeaseLost, and nothing is stored.
func (s *Store) SaveScores(ctx context.Context, f delta.Fence, organizationID string, results []delta.Result) error {
	// What cannot be stored fails before anything is locked.
	rows := make([]*scoreRow, 0, len(results))
	for i := range results {
		r, err := scoreRowOf(&results[i])
		if err != nil {
			return s.fail(ctx, "save scores", err)
		}
		rows = append(rows, r)
	}
	return s.updatePartitions(ctx, scoring, "save scores", beginCommit, func(tx pgx.Tx, use func(...partition) error) error {
		if err := use(scorePartitions(rows)...); err != nil {
			return err
		}
		org, err := orgOf(ctx, tx, organizationID)
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

// scoreRow is a result as it is stored.
type scoreRow struct {
	id                pgtype.UUID
	svc               int64
	revision          int64
	score             *assay.Score // nil: none
	newRow            bool
	evaluated, failed int64
	insights          []insightRow
}

// insightRow is an insight of a result as it is stored.
type insightRow struct {
	*assay.Insight
	id                           pgtype.UUID
	rule, status, weight, signal int16
	attributes                   string
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
		i, err := insightRowOf(in)
		if err != nil {
			return nil, fmt.Errorf("insight %s: %w", in.ID, err)
		}
		row.insights = append(row.insights, i)
	}
	return row, nil
}

func insightRowOf(in *assay.Insight) (insightRow, error) {
	rule, ok := catalog.ByInsightType(in.Type)
	if !ok {
		return insightRow{}, fmt.Errorf("unknown insight type %q", in.Type)
	}
	status := codec.StatusNumber(in.Status)
	if status == 0 {
		return insightRow{}, fmt.Errorf("unknown status %q", string(in.Status))
	}
	attributes, err := codec.EncodeAttributes(in.Attributes)
	if err != nil {
		return insightRow{}, err
	}
	info := rule.Info()
	return insightRow{
		Insight: in, id: uuidOf(in.ID), rule: int16(codec.RuleNumber(rule)), status: int16(status),
		weight: int16(info.Impact.Weight()), signal: int16(codec.SignalNumber(info.Signal)), attributes: string(attributes),
	}, nil
}

// scorePartitions returns the partitions of the rows that the history gets.
func scorePartitions(rows []*scoreRow) []partition {
	days := make(map[partition]bool)
	for _, r := range rows {
		if r.newRow {
			days[scoresTable.of(micros(r.score.CalculatedAt))] = true
		}
	}
	return slices.Collect(maps.Keys(days))
}

// lockOf locks the services of rows and returns the rows of those that there are, in
// the order of their services. Others have been forgotten since their facts were read.
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

// queueInsights writes insights, all in one statement: it counts them, and what it
// counts is locked until the end.
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
			ids, svcs = append(ids, in.id), append(svcs, r.svc)
			rules, statuses, weights, signals = append(rules, in.rule), append(statuses, in.status), append(weights, in.weight), append(signals, in.signal)
			reasons, traces, attributes = append(reasons, in.MuteReason), append(traces, in.TraceID), append(attributes, in.attributes)
			telemetry, detected = append(telemetry, micros(in.TelemetryAt)), append(detected, micros(in.DetectedAt))
			created, updated = append(created, micros(in.CreatedAt)), append(updated, micros(in.UpdatedAt))
		}
	}
	if len(ids) > 0 {
		b.Queue(saveInsights, org, ids, svcs, rules, statuses, weights, signals, reasons, traces, telemetry, detected, created, updated, attributes)
	}
}
