// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

func errNoSummary() error { return assay.Errorf(assay.CodeNotFound, "no such summary") }

// FindSummary implements assay.SummaryStore.
func (q *Queries) FindSummary(ctx context.Context, k assay.SummaryKey) (*assay.InsightSummary, error) {
	if !q.engine.Storable(k.Model) {
		return nil, errNoSummary()
	}
	return one(ctx, q, connpool.Pages, "find a summary", errNoSummary, func(r Row) (*assay.InsightSummary, error) {
		found := &assay.InsightSummary{InsightID: k.InsightID, Model: k.Model, Cached: true}
		return found, r.Scan(&found.Content, (*Time)(&found.GeneratedAt))
	}, `SELECT m.content, m.generated_at FROM summaries m JOIN insights i ON i.`+q.sql.InsightKey+` = m.insight JOIN organizations o ON o.org = i.org
		WHERE i.id = $1 AND o.id = $2 AND m.evidence = $3 AND m.model = $4 AND m.prompt = $5`,
		ID(k.InsightID), ID(k.OrganizationID), k.Evidence[:], k.Model, k.PromptVersion)
}

// SaveSummary implements assay.SummaryStore.
func (q *Queries) SaveSummary(ctx context.Context, k assay.SummaryKey, m *assay.InsightSummary) error {
	return q.update(ctx, connpool.Pages, "save a summary", errNoInsight, `INSERT INTO summaries (insight, evidence, model, prompt, generated_at, content)
			SELECT i.`+q.sql.InsightKey+`, $1, $2, $3, $4, $5 FROM insights i JOIN organizations o ON o.org = i.org WHERE i.id = $6 AND o.id = $7`+q.sql.LockInsight+`
			ON CONFLICT (insight) DO UPDATE SET evidence = excluded.evidence, model = excluded.model, prompt = excluded.prompt,
				generated_at = excluded.generated_at, content = excluded.content`,
		k.Evidence[:], k.Model, k.PromptVersion, Micros(m.GeneratedAt), m.Content, ID(k.InsightID), ID(k.OrganizationID))
}

// callDaysKept is the number of days for which calls of an organization are counted.
// Around midnight, replicas with different clocks count on two days.
const callDaysKept = 2

// TakeSummaryCall implements assay.SummaryStore. An unknown organization is CodeNotFound.
func (q *Queries) TakeSummaryCall(ctx context.Context, organizationID string, at time.Time, limit int) (bool, error) {
	day := at.Unix() / (24 * 60 * 60)
	var n int64
	err := q.engine.Update(ctx, connpool.Pages, "count a call for a summary", func(tx Tx) error {
		org, err := OrgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		if _, err := exec(ctx, tx, `DELETE FROM summary_calls WHERE org = $1 AND day <= $2`, org, day-callDaysKept); err != nil {
			return err
		}
		n, err = exec(ctx, tx, `INSERT INTO summary_calls AS c (org, day, n) SELECT $1, $2, 1 WHERE $3 > 0
			ON CONFLICT (org, day) DO UPDATE SET n = c.n + 1 WHERE c.n < $3`, org, day, limit)
		return err
	})
	return result(n == 1, err)
}
