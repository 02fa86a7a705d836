// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"

	"assay"
)

// InsightSummary is a text about one insight that a language model wrote.
type InsightSummary struct {
	InsightID   string `json:"insight_id" format:"uuid" doc:"The insight it is about." example:"7d0f6f1e-4c55-5b8e-9a3f-0c1d2e3f4a5b"`
	Content     string `json:"content" doc:"The text, in Markdown." example:"**checkout** sends traces without a name."`
	Model       string `json:"model" doc:"The language model that wrote it." example:"example-model-1"`
	GeneratedAt Time   `json:"generated_at" doc:"When it was written."`
	Cached      bool   `json:"cached" doc:"Whether it was there already, and not written for this request." example:"true"`
}

func showSummary(s *assay.InsightSummary) InsightSummary {
	return InsightSummary{
		InsightID: s.InsightID, Content: s.Content, Model: s.Model,
		GeneratedAt: Time(s.GeneratedAt), Cached: s.Cached,
	}
}

func (s *server) summary() {
	register(s, operation{
		Path: "/v1/insights/{id}/summary", ID: "get-insight-summary", Tag: tagInsights, Scope: assay.ScopeRead,
		Summary: "Get the summary of an insight",
		Description: "A text about one insight by a language model. The one that exists is returned as long as nothing it was made from has changed; " +
			"else a new one is written, which can take half a minute.",
		Errors:  []int{http.StatusNotFound},
		Timeout: slowTimeout, Volatile: true,
		Example: showSummary(&assay.InsightSummary{
			InsightID: exampleInsightID, Model: "example-model-1", GeneratedAt: exampleTime, Cached: true,
			Content: "**checkout** sends traces without a `service.name`, so they are counted for `unknown_service`.\n\nSet `OTEL_SERVICE_NAME=checkout` where it is deployed.",
		}),
	}, func(ctx context.Context, c *call, p *insightID) (InsightSummary, error) {
		insight, err := s.cfg.Insights.FindInsightByID(ctx, c.Principal.OrganizationID, p.ID)
		if err != nil {
			return InsightSummary{}, err
		}
		if s.cfg.Summaries == nil {
			return InsightSummary{}, assay.Errorf(assay.CodeUnavailable, "summaries are not configured")
		}
		written, err := s.cfg.Summaries.Summarize(ctx, insight)
		if err != nil {
			return InsightSummary{}, err
		}
		return showSummary(written), nil
	})
}
