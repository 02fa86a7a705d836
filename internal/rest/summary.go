// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"

	"assay"
)

// InsightSummary is a text of a language model about one insight.
type InsightSummary struct {
	InsightID   string `json:"insight_id"`
	Content     string `json:"content"`
	Model       string `json:"model"`
	GeneratedAt string `json:"generated_at"`
	Cached      bool   `json:"cached"`
}

func showSummary(s *assay.InsightSummary) InsightSummary {
	return InsightSummary{
		InsightID: s.InsightID, Content: s.Content, Model: s.Model,
		GeneratedAt: timestamp(s.GeneratedAt), Cached: s.Cached,
	}
}

func (s *server) summary() {
	handleFound(s, "get-insight-summary", route{scope: assay.ScopeRead, timeout: slowTimeout}, showSummary, func(ctx context.Context, c *call) (*assay.InsightSummary, error) {
		insight, err := s.cfg.Insights.FindInsightByID(ctx, c.Principal.OrganizationID, param[string](c.params, "id"))
		if err != nil {
			return nil, err
		}
		if s.cfg.Summaries == nil {
			return nil, assay.Errorf(assay.CodeUnavailable, "summaries are not configured")
		}
		return s.cfg.Summaries.Summarize(ctx, insight)
	})
}
