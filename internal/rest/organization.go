// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

// Organization is the caller's organization.
type Organization struct {
	ID                  string             `json:"id" format:"uuid" doc:"Id of the organization." example:"0b6cbb0e-3c0c-4a52-8f0e-1c6c1a7b9d10"`
	Name                string             `json:"name" doc:"Name of the organization." example:"default"`
	Tier                Tier               `json:"tier" doc:"Its subscription."`
	Score               *OrganizationScore `json:"score"`
	ServicesCount       int                `json:"services_count" minimum:"0" doc:"Services kept." example:"42"`
	ActiveInsightsCount int                `json:"active_insights_count" minimum:"0" doc:"Insights with status active." example:"17"`
	CreatedAt           Time               `json:"created_at" doc:"When the organization was made."`
}

// TransformSchema lets the score be null.
func (Organization) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["score"] = nullable[OrganizationScore](r, "Mean of the services' scores, null before the first one.")
	return s
}

// Tier is a subscription.
type Tier struct {
	Name                string   `json:"name" enum:"free,pro,enterprise" doc:"Name of the plan." example:"pro"`
	Features            []string `json:"features" nullable:"false" doc:"What the plan includes." example:"[\"services\",\"insights\"]"`
	AllowedInsightTypes []string `json:"allowed_insight_types" doc:"Names of the insight types that the plan shows, null for all."`
}

// OrganizationScore is the instrumentation quality score of an organization.
type OrganizationScore struct {
	Value     int    `json:"value" minimum:"0" maximum:"100" doc:"Unweighted mean of the services' unrounded scores, rounded half up." example:"84"`
	Category  string `json:"category" enum:"Excellent,Good,Needs Improvement,Poor" doc:"Band of the rounded score." example:"Good"`
	UpdatedAt Time   `json:"updated_at" doc:"When it was calculated."`
}

// tierFeatures names what each plan includes. What assay does itself is part of
// every plan, and every plan shows all insight types. The last two belong to the
// agent backend, which checks a plan on its own; assay only says what was bought.
var tierFeatures = map[assay.Tier][]string{
	assay.TierFree:       {"services", "insights", "insight_summaries", "log_volume", "service_analytics"},
	assay.TierPro:        {"services", "insights", "insight_summaries", "log_volume", "service_analytics", "codebase_agent"},
	assay.TierEnterprise: {"services", "insights", "insight_summaries", "log_volume", "service_analytics", "codebase_agent", "partner_migration"},
}

func showOrganization(o *assay.Organization) Organization {
	out := Organization{
		ID: o.ID, Name: o.Name,
		Tier:          Tier{Name: string(o.Tier), Features: append([]string{}, tierFeatures[o.Tier]...)},
		ServicesCount: o.ServicesCount, ActiveInsightsCount: o.ActiveInsightsCount,
		CreatedAt: Time(o.CreatedAt),
	}
	if o.Score != nil {
		v := assay.RoundScore(*o.Score)
		out.Score = &OrganizationScore{Value: v, Category: assay.Category(v), UpdatedAt: Time(o.ScoreUpdatedAt)}
	}
	return out
}

type noParams struct{}

func (s *server) organization() {
	register(s, operation{
		Path: "/v1/organization", ID: "get-organization", Tag: tagOrganization, Scope: assay.ScopeRead,
		Summary:     "Get the organization",
		Description: "The organization of the credential: its subscription tier and instrumentation quality score.",
		Example:     exampleOrganization(),
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, c *call, _ *noParams) (Organization, error) {
		found, err := s.cfg.Organizations.FindOrganizationByID(ctx, c.Principal.OrganizationID)
		if err != nil {
			return Organization{}, err
		}
		return showOrganization(found), nil
	})
}

func exampleOrganization() Organization {
	score := 83.7
	return showOrganization(&assay.Organization{
		ID: exampleOrgID, Name: "default", Tier: assay.TierPro, CreatedAt: exampleTime.Add(-90 * 24 * time.Hour),
		Score: &score, ScoreUpdatedAt: exampleTime.Add(-10 * time.Second), ServicesCount: 42, ActiveInsightsCount: 17,
	})
}
