// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"time"

	"assay"
	"assay/internal/store/lane"
)

// FindSummary implements assay.SummaryStore.
func (s *Store) FindSummary(ctx context.Context, k assay.SummaryKey) (*assay.InsightSummary, error) {
	missing := func() error { return assay.Errorf(assay.CodeNotFound, "no such summary") }
	of := func(row row) (*assay.InsightSummary, error) {
		found := assay.InsightSummary{InsightID: k.InsightID, Model: k.Model, Cached: true}
		var generated int64
		err := row.Scan(&found.Content, &generated)
		found.GeneratedAt = timeOf(generated)
		return &found, err
	}
	return one(ctx, s, lane.Pages, "find a summary", missing, of, `SELECT m.content, m.generated_at
		FROM summaries m JOIN insights i USING (insight) JOIN organizations o USING (org)
		WHERE i.id = ? AND o.id = ? AND m.evidence = ? AND m.model = ? AND m.prompt = ?`,
		blobOf(k.InsightID), blobOf(k.OrganizationID), k.Evidence[:], k.Model, k.PromptVersion)
}

// SaveSummary implements assay.SummaryStore.
func (s *Store) SaveSummary(ctx context.Context, k assay.SummaryKey, m *assay.InsightSummary) error {
	return s.update(ctx, lane.Pages, "save a summary", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO summaries (insight, evidence, model, prompt, generated_at, content)
			SELECT i.insight, ?, ?, ?, ?, ? FROM insights i JOIN organizations o USING (org) WHERE i.id = ? AND o.id = ?
			ON CONFLICT DO UPDATE SET evidence = excluded.evidence, model = excluded.model, prompt = excluded.prompt,
				generated_at = excluded.generated_at, content = excluded.content`,
			k.Evidence[:], k.Model, k.PromptVersion, micros(m.GeneratedAt), m.Content, blobOf(k.InsightID), blobOf(k.OrganizationID))
		return changedOne(res, err, errNoInsight)
	})
}

// callDaysKept is how many days' counts of calls an organization has: replicas
// whose clocks differ count on two days around midnight.
const callDaysKept = 2

// TakeSummaryCall implements assay.SummaryStore. An unknown organization is
// CodeNotFound.
func (s *Store) TakeSummaryCall(ctx context.Context, organizationID string, at time.Time, limit int) (bool, error) {
	day := at.Unix() / (24 * 60 * 60)
	taken := false
	err := s.update(ctx, lane.Pages, "count a call for a summary", func(tx *sql.Tx) error {
		org, err := orgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM summary_calls WHERE org = ? AND day <= ?`, org, day-callDaysKept); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO summary_calls (org, day, n) SELECT ?1, ?2, 1 WHERE ?3 > 0
			ON CONFLICT DO UPDATE SET n = n + 1 WHERE n < ?3`, org, day, limit)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		taken = n == 1
		return err
	})
	return taken && err == nil, err
}
