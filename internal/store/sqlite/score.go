// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/fold"
	"assay/internal/store/lane"
)

// UnscoredServices returns the ids of an organization's services whose facts
// changed since they were last scored; with all, of those that have facts in the
// window, a score or an insight.
func (s *Store) UnscoredServices(ctx context.Context, organizationID string, all bool) ([]string, error) {
	q := `SELECT id FROM services WHERE org = (SELECT org FROM organizations WHERE id = ?) AND revision > scored_revision`
	if all {
		q = `SELECT id FROM services s WHERE org = (SELECT org FROM organizations WHERE id = ?) AND (
			revision > scored_revision OR length(tally) > 0 OR score_id IS NOT NULL
			OR EXISTS (SELECT 1 FROM insights i WHERE i.svc = s.svc)
			OR EXISTS (SELECT 1 FROM claims c WHERE c.svc = s.svc))`
	}
	var ids []string
	err := s.query(ctx, lane.Scoring, "list unscored services", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, q, blobOf(organizationID))
		return each(rows, err, func(rows *sql.Rows) error {
			var id []byte
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, idOf(id))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// ClaimsRevision returns a number that grows whenever a claim of the
// organization is made, moves or is forgotten.
func (s *Store) ClaimsRevision(ctx context.Context, organizationID string) (uint64, error) {
	var n int64
	err := s.view(ctx, lane.Scoring, "read the claims revision", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT claims_revision FROM organizations WHERE id = ?`, blobOf(organizationID)).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoOrganization()
		}
		return err
	})
	return uint64(n), err
}

// ClaimCounts sums up the claims of one rule in an organization that were made
// in a bucket since a given one, by service id. Services without are left out.
func (s *Store) ClaimCounts(ctx context.Context, organizationID string, rule catalog.Rule, since delta.Bucket) (map[string]delta.ClaimCount, error) {
	var counts map[string]delta.ClaimCount
	err := s.view(ctx, lane.Scoring, "count claims", func(tx *sql.Tx) error {
		org, err := orgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		counts, err = claimCounts(ctx, tx, org, int64(codec.RuleNumber(rule)), int64(since))
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

func claimCounts(ctx context.Context, tx *sql.Tx, org, rule, since int64) (map[string]delta.ClaimCount, error) {
	var claims fold.ClaimCounts
	ids := make(map[int64]string)
	rows, err := tx.QueryContext(ctx, `SELECT s.svc, s.id, (
			SELECT count(*) FROM (SELECT DISTINCT c.key, c.key_high FROM claims c WHERE c.svc = s.svc AND c.rule = ?1 AND c.last >= ?2))
		FROM services s WHERE s.org = ?3`, rule, since, org)
	err = each(rows, err, func(rows *sql.Rows) error {
		var svc int64
		var id []byte
		var n uint64
		err := rows.Scan(&svc, &id, &n)
		ids[svc] = idOf(id)
		claims.Keys(svc, n)
		return err
	})
	if err != nil {
		return nil, err
	}

	// Candidates have two values in the index, which has not all of the key and does not
	// say how old they are.
	rows, err = tx.QueryContext(ctx, `
		WITH candidate (key) AS MATERIALIZED (
			SELECT key FROM claims INDEXED BY claims_by_key WHERE org = ?1 AND rule = ?2 GROUP BY key HAVING min(value) <> max(value))
		SELECT c.key, c.key_high, c.value, c.svc, c.key_text, c.value_text
		FROM candidate JOIN claims c INDEXED BY claims_by_key ON c.org = ?1 AND c.rule = ?2 AND c.key = candidate.key
		WHERE c.last >= ?3 ORDER BY c.key, c.key_high`, org, rule, since)
	err = each(rows, err, func(rows *sql.Rows) error {
		var low, high, value, svc int64
		var keyText, valueText string
		err := rows.Scan(&low, &high, &value, &svc, &keyText, &valueText)
		claims.Claim(delta.Hash128{High: uint64(high), Low: uint64(low)}, value, svc, keyText, valueText)
		return err
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

// Facts returns what scoring the services needs, in no order and from one
// snapshot: at most 500 services. Ids that are unknown or another organization's
// are left out. Evidence and days older than since are, too.
func (s *Store) Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error) {
	if len(serviceIDs) > maxFacts {
		return nil, fmt.Errorf("sqlite: load facts: %d services asked for, at most %d allowed", len(serviceIDs), maxFacts)
	}
	if len(serviceIDs) == 0 {
		return nil, nil
	}
	var bySvc map[int64]*delta.Facts
	err := s.view(ctx, lane.Scoring, "load facts", func(tx *sql.Tx) error {
		var err error
		bySvc, err = facts(ctx, tx, organizationID, serviceIDs, since)
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(bySvc)), nil
}

func facts(ctx context.Context, tx *sql.Tx, organizationID string, ids []string, since delta.Bucket) (map[int64]*delta.Facts, error) {
	bySvc := make(map[int64]*delta.Facts, len(ids))
	args := []any{blobOf(organizationID)}
	for _, id := range ids {
		args = append(args, blobOf(id))
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+serviceColumns+`, s.svc, s.revision, s.tally
		FROM services s JOIN organizations o ON o.org = s.org
		WHERE o.id = ? AND s.id IN (?`+strings.Repeat(`, ?`, len(ids)-1)+`)`, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
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
		bySvc[svc] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := jsonList(slices.Sorted(maps.Keys(bySvc)))

	rows, err = tx.QueryContext(ctx, `SELECT svc, facts FROM examples WHERE svc IN (SELECT value FROM json_each(?))`, list)
	err = each(rows, err, func(rows *sql.Rows) error {
		var svc int64
		var blob []byte
		if err := rows.Scan(&svc, &blob); err != nil {
			return err
		}
		return codec.DecodeExamples(blob, &bySvc[svc].Examples)
	})
	if err != nil {
		return nil, err
	}

	rows, err = tx.QueryContext(ctx, `SELECT svc, facts FROM items WHERE svc IN (SELECT value FROM json_each(?))`, list)
	err = each(rows, err, func(rows *sql.Rows) error {
		var svc int64
		var blob []byte
		if err := rows.Scan(&svc, &blob); err != nil {
			return err
		}
		items, err := codec.DecodeItems(blob)
		maps.DeleteFunc(items, func(_ delta.Item, b delta.Bucket) bool { return b < since })
		bySvc[svc].Items = items
		return err
	})
	if err != nil {
		return nil, err
	}

	rows, err = tx.QueryContext(ctx, `SELECT svc, key, count(*) FROM claims WHERE svc IN (SELECT value FROM json_each(?)) AND rule = ? AND last >= ? GROUP BY svc, key`,
		list, int64(codec.RuleNumber(catalog.LOG001)), int64(since))
	err = each(rows, err, func(rows *sql.Rows) error {
		var svc, key int64
		var days uint64
		if err := rows.Scan(&svc, &key, &days); err != nil {
			return err
		}
		switch key {
		case delta.KeyLogDay:
			bySvc[svc].LogDays = days
		case delta.KeyDebugDay:
			bySvc[svc].DebugDays = days
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	byID := make(map[string]*delta.Facts, len(bySvc))
	for _, f := range bySvc {
		byID[f.Service.ID] = f
	}
	rows, err = tx.QueryContext(ctx, selectInsights+`WHERE i.svc IN (SELECT value FROM json_each(?)) ORDER BY i.svc, i.rule`, list)
	err = each(rows, err, func(rows *sql.Rows) error {
		in, err := scanInsight(rows)
		if err != nil {
			return err
		}
		f := byID[in.Service.ID]
		f.Insights = append(f.Insights, in)
		return nil
	})
	return bySvc, err
}

func jsonList(ids []int64) string {
	b := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}

// SaveScores stores what scoring gave, in one transaction: current scores, rows
// of the history, insights. A service counts as scored unless its facts changed
// after Facts returned them. Whether an insight is muted is not for the scorer
// to say: the status of a muted one stays, and a result that says muted does not
// change the status of one that is no longer. Without the lease of the fence it is
// delta.ErrLeaseLost, and nothing is stored.
func (s *Store) SaveScores(ctx context.Context, f delta.Fence, organizationID string, results []delta.Result) error {
	return s.update(ctx, lane.Scoring, "save scores", func(tx *sql.Tx) error {
		if err := within(ctx, tx, f); err != nil {
			return err
		}
		org, err := orgOf(ctx, tx, organizationID)
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

// scoreWriter holds the statements of SaveScores, which run often.
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
		// What mostly changes is evidence. Without the columns that lists are sorted and
		// filtered by, most indexes stay as they are.
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
			_ = st.Close() // ends with the transaction anyway
		}
	}
}

func (w *scoreWriter) save(r *delta.Result) error {
	var svc int64
	err := w.find.QueryRowContext(w.ctx, blobOf(r.ServiceID), w.org).Scan(&svc)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // forgotten since its facts were read
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
	rule, ok := catalog.ByInsightType(in.Type)
	if !ok {
		return fmt.Errorf("unknown insight type %q", in.Type)
	}
	status := codec.StatusNumber(in.Status)
	if status == 0 {
		return fmt.Errorf("unknown status %q", string(in.Status))
	}
	attributes, err := codec.EncodeAttributes(in.Attributes)
	if err != nil {
		return err
	}
	id, weight, signal := blobOf(in.ID), rule.Info().Impact.Weight(), codec.SignalNumber(rule.Info().Signal)
	res, err := w.renew.ExecContext(w.ctx, id, weight, signal, micros(in.DetectedAt),
		in.TraceID, micros(in.TelemetryAt), micros(in.UpdatedAt), string(attributes), status)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	_, err = w.saveInsight.ExecContext(w.ctx, id, w.org, svc, int64(codec.RuleNumber(rule)), status, weight, signal,
		in.MuteReason, in.TraceID, micros(in.TelemetryAt), micros(in.DetectedAt), micros(in.CreatedAt), micros(in.UpdatedAt), string(attributes))
	return err
}

// OrganizationMean returns the mean of the unrounded current scores of an
// organization's services, and how many have one.
func (s *Store) OrganizationMean(ctx context.Context, organizationID string) (mean float64, services int, err error) {
	err = s.query(ctx, lane.Scoring, "average scores", func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT ifnull(avg(score), 0), count(score) FROM services
			WHERE org = (SELECT org FROM organizations WHERE id = ?) AND score_id IS NOT NULL`, blobOf(organizationID)).Scan(&mean, &services)
	})
	return mean, services, err
}
