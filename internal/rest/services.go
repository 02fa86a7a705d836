// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

// Service is one monitored service.
type Service struct {
	ID             string `json:"id" format:"uuid" doc:"The same on every replica." example:"6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"`
	Name           string `json:"name" doc:"service.name as it was sent, unknown_service without one." example:"checkout"`
	Namespace      string `json:"namespace" doc:"service.namespace, empty without one." example:"shop"`
	Environment    string `json:"environment" doc:"deployment.environment.name, else deployment.environment, empty without one." example:"production"`
	Version        string `json:"version" doc:"service.version, empty without one." example:"1.4.2"`
	OrganizationID string `json:"organization_id" format:"uuid" doc:"The owning organization." example:"0b6cbb0e-3c0c-4a52-8f0e-1c6c1a7b9d10"`
	CreatedAt      Time   `json:"created_at" doc:"When telemetry of it was first received."`
	UpdatedAt      Time   `json:"updated_at" doc:"When telemetry of it was last received."`
	FirstSeenAt    Time   `json:"first_seen_at" doc:"Oldest event time seen."`
	LastSeenAt     Time   `json:"last_seen_at" doc:"Newest event time seen."`

	Score *InstrumentationScore `json:"instrumentation_score"`
}

// TransformSchema lets the score be null.
func (Service) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["instrumentation_score"] = nullable[InstrumentationScore](r, "Null before the first score, and for a service with nothing in the window.")
	return s
}

// InstrumentationScore is a service's score at one moment.
type InstrumentationScore struct {
	ID               string   `json:"id" format:"uuid" doc:"Id of this calculation." example:"b9c5a0f2-5e0f-4f6e-8f53-0b9f6c8b8a11"`
	Score            int      `json:"score" minimum:"0" maximum:"100" doc:"Rounded half up." example:"84"`
	Category         string   `json:"category" enum:"Excellent,Good,Needs Improvement,Poor" doc:"Band of the rounded score." example:"Good"`
	CalculatedAt     Time     `json:"calculated_timestamp" doc:"When it was calculated."`
	WindowSeconds    int64    `json:"calculation_window_seconds" minimum:"1" doc:"How far the score looks back." example:"2592000"`
	EvaluatedRuleIDs []string `json:"evaluated_rule_ids" nullable:"false" doc:"Rules that had something to look at, sorted." example:"[\"RES-005\",\"SPA-001\"]"`
	CreatedAt        Time     `json:"created_at" doc:"When it was stored."`
}

func showService(s *assay.Service, window time.Duration) Service {
	out := Service{
		ID: s.ID, Name: s.Name, Namespace: s.Namespace, Environment: s.Environment, Version: s.Version,
		OrganizationID: s.OrganizationID,
		CreatedAt:      Time(s.CreatedAt), UpdatedAt: Time(s.UpdatedAt),
		FirstSeenAt: Time(s.FirstSeenAt), LastSeenAt: Time(s.LastSeenAt),
	}
	if sc := s.Score; sc != nil {
		if sc.Window > 0 {
			window = sc.Window
		}
		out.Score = &InstrumentationScore{
			ID: sc.ID, Score: sc.Rounded(), Category: sc.Category(),
			CalculatedAt: Time(sc.CalculatedAt), WindowSeconds: int64(window / time.Second),
			EvaluatedRuleIDs: append([]string{}, sc.EvaluatedRuleIDs...), CreatedAt: Time(sc.CreatedAt),
		}
		slices.Sort(out.Score.EvaluatedRuleIDs)
	}
	return out
}

type listServicesParams struct {
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Maximum number of items." example:"50"`
	offset
}

func (p listServicesParams) page() assay.Page { return assay.Page{Limit: p.Limit, Offset: p.Offset} }

// serviceID is the path parameter of a service. What is no UUID is no service's
// id and so an unknown one.
type serviceID struct {
	ID string `path:"id" format:"uuid" malformed:"SERVICE_NOT_FOUND" doc:"Id of the service. A malformed one is answered like an unknown one." example:"6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"`
}

func (s *server) services() {
	registerList(s, operation{
		Path: "/v1/services", ID: "list-services", Tag: tagServices, Scope: assay.ScopeRead,
		Summary:     "List services",
		Description: "The organization's services with their instrumentation scores, by name, environment, version and id.",
		Example:     showService(&exampleService, assay.DefaultWindow),
	}, func(ctx context.Context, c *call, p *listServicesParams) ([]Service, int, error) {
		found, total, err := s.cfg.Services.FindServices(ctx, c.Principal.OrganizationID, p.page())
		if err != nil {
			return nil, 0, err
		}
		return showServices(found, s.cfg.Window), total, nil
	})

	register(s, operation{
		Path: "/v1/services/{id}", ID: "get-service", Tag: tagServices, Scope: assay.ScopeRead,
		Summary:     "Get a service",
		Description: "One service with its instrumentation score.",
		Example:     showService(&exampleService, assay.DefaultWindow),
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, c *call, p *serviceID) (Service, error) {
		found, err := s.cfg.Services.FindServiceByID(ctx, c.Principal.OrganizationID, p.ID)
		if err != nil {
			return Service{}, err
		}
		return showService(found, s.cfg.Window), nil
	})
}

func showServices(found []*assay.Service, window time.Duration) []Service {
	out := make([]Service, len(found))
	for i, f := range found {
		out[i] = showService(f, window)
	}
	return out
}

var exampleService = assay.Service{
	ID: exampleServiceID, OrganizationID: exampleOrgID,
	ServiceKey:  assay.ServiceKey{Namespace: "shop", Name: "checkout", Environment: "production", Version: "1.4.2"},
	FirstSeenAt: exampleTime.Add(-30 * 24 * time.Hour), LastSeenAt: exampleTime.Add(-2 * time.Second),
	CreatedAt: exampleTime.Add(-30 * 24 * time.Hour).Add(time.Second), UpdatedAt: exampleTime.Add(-time.Second),
	Score: &assay.Score{
		ID: "b9c5a0f2-5e0f-4f6e-8f53-0b9f6c8b8a11", Value: 83.7, Window: assay.DefaultWindow,
		EvaluatedRuleIDs: []string{"RES-005", "SPA-001", "SPA-003"},
		CalculatedAt:     exampleTime.Add(-10 * time.Second), CreatedAt: exampleTime.Add(-10 * time.Second),
	},
}
