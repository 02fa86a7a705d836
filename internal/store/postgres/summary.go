// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
)

// FindSummary implements assay.SummaryStore.
func (s *Store) FindSummary(ctx context.Context, k assay.SummaryKey) (*assay.InsightSummary, error) {
	missing := func() error { return assay.Errorf(assay.CodeNotFound, "no such summary") }
	if !storable(k.Model) {
		return nil, missing()
	}
	return one(ctx, s, pages, "find a summary", missing, func(row pgx.CollectableRow) (*assay.InsightSummary, error) {
		found := &assay.InsightSummary{InsightID: k.InsightID, Model: k.Model, Cached: true}
		return found, row.Scan(&found.Content, (*instant)(&found.GeneratedAt))
	}, `SELECT m.content, m.generated_at
		FROM summaries m JOIN insights i ON i.id = m.insight JOIN organizations o USING (org)
		WHERE m.insight = $1 AND o.id = $2 AND m.evidence = $3 AND m.model = $4 AND m.prompt = $5`,
		uuidOf(k.InsightID), uuidOf(k.OrganizationID), k.Evidence[:], k.Model, k.PromptVersion)
}

// SaveSummary implements assay.SummaryStore.
func (s *Store) SaveSummary(ctx context.Context, k assay.SummaryKey, m *assay.InsightSummary) error {
	return s.update(ctx, pages, "save a summary", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO summaries (insight, evidence, model, prompt, generated_at, content)
			SELECT i.id, $1, $2, $3, $4, $5 FROM insights i JOIN organizations o USING (org) WHERE i.id = $6 AND o.id = $7 FOR KEY SHARE OF i
			ON CONFLICT (insight) DO UPDATE SET evidence = excluded.evidence, model = excluded.model, prompt = excluded.prompt,
				generated_at = excluded.generated_at, content = excluded.content`,
			k.Evidence[:], k.Model, k.PromptVersion, micros(m.GeneratedAt), m.Content, uuidOf(k.InsightID), uuidOf(k.OrganizationID))
		return changedOne(tag, err, errNoInsight)
	})
}

// callDaysKept is how many days' counts of calls an organization has: replicas
// whose clocks differ count on two days around midnight.
const callDaysKept = 2

// TakeSummaryCall implements assay.SummaryStore. An unknown organization is
// CodeNotFound.
func (s *Store) TakeSummaryCall(ctx context.Context, organizationID string, at time.Time, limit int) (bool, error) {
	day := at.Unix() / (24 * 60 * 60)
	took := false
	err := s.update(ctx, pages, "count a call for a summary", func(tx pgx.Tx) error {
		org, err := orgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM summary_calls WHERE org = $1 AND day <= $2`, org, day-callDaysKept); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO summary_calls AS c (org, day, n) SELECT $1, $2, 1 WHERE $3 > 0
			ON CONFLICT (org, day) DO UPDATE SET n = c.n + 1 WHERE c.n < $3`, org, day, limit)
		took = tag.RowsAffected() == 1
		return err
	})
	return took && err == nil, err
}
