// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"

	"assay"
)

// Organization is the caller's organization.
type Organization struct {
	ID                  string             `json:"id"`
	Name                string             `json:"name"`
	Tier                Tier               `json:"tier"`
	Score               *OrganizationScore `json:"score"`
	ServicesCount       int                `json:"services_count"`
	ActiveInsightsCount int                `json:"active_insights_count"`
	CreatedAt           string             `json:"created_at"`
}

// Tier is a subscription.
type Tier struct {
	Name                string   `json:"name"`
	Features            []string `json:"features"`
	AllowedInsightTypes []string `json:"allowed_insight_types"`
}

// OrganizationScore is the instrumentation quality score of an organization.
type OrganizationScore struct {
	Value     int    `json:"value"`
	Category  string `json:"category"`
	UpdatedAt string `json:"updated_at"`
}

// tierFeatures lists the features of each plan. Every plan includes all insight types of assay, and all features except
// partner migrations, which the agent allows for the plan enterprise only. An agent elsewhere may check plans in another
// way.
var tierFeatures = map[assay.Tier][]string{
	assay.TierFree:       {"services", "insights", "insight_summaries", "log_volume", "service_analytics", "codebase_agent"},
	assay.TierPro:        {"services", "insights", "insight_summaries", "log_volume", "service_analytics", "codebase_agent"},
	assay.TierEnterprise: {"services", "insights", "insight_summaries", "log_volume", "service_analytics", "codebase_agent", "partner_migration"},
}

func showOrganization(o *assay.Organization) Organization {
	out := Organization{
		ID: o.ID, Name: o.Name,
		Tier:          Tier{Name: string(o.Tier), Features: append([]string{}, tierFeatures[o.Tier]...)},
		ServicesCount: o.ServicesCount, ActiveInsightsCount: o.ActiveInsightsCount,
		CreatedAt: timestamp(o.CreatedAt),
	}
	if o.Score != nil {
		v := assay.RoundScore(*o.Score)
		out.Score = &OrganizationScore{Value: v, Category: assay.Category(v), UpdatedAt: timestamp(o.ScoreUpdatedAt)}
	}
	return out
}

func (s *server) organization() {
	handleFound(s, "get-organization", route{scope: assay.ScopeRead}, showOrganization, func(ctx context.Context, c *call) (*assay.Organization, error) {
		return s.cfg.Organizations.FindOrganizationByID(ctx, c.Principal.OrganizationID)
	})
}
