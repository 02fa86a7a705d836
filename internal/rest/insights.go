// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/rules/catalog"
)

// Insight is one finding about one service.
type Insight struct {
	ID                 string         `json:"id" format:"uuid" doc:"The same on every replica." example:"7d0f6f1e-4c55-5b8e-9a3f-0c1d2e3f4a5b"`
	ServiceID          string         `json:"service_id" format:"uuid" doc:"The service it is about." example:"6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"`
	ServiceName        string         `json:"service_name" doc:"Name of the service." example:"checkout"`
	ServiceNamespace   string         `json:"service_namespace" doc:"Namespace of the service, empty without one." example:"shop"`
	ServiceEnvironment string         `json:"service_environment" doc:"Environment of the service, empty without one." example:"production"`
	ServiceVersion     string         `json:"service_version" doc:"Version of the service, empty without one." example:"1.4.2"`
	Status             string         `json:"status" enum:"active,archived,muted" doc:"active: the rule fails in the window. archived: no failure is left in the window. muted: by an operator." example:"active"`
	TraceID            string         `json:"trace_id" doc:"Trace of the newest example, empty where it has none." example:"4bf92f3577b34da6a3ce929d0e0e4736"`
	TelemetryTS        Time           `json:"telemetry_ts" doc:"Event time of the newest example."`
	DetectedTS         Time           `json:"detected_ts" doc:"When the insight last became active."`
	CreatedAt          Time           `json:"created_at" doc:"When it was first found."`
	UpdatedAt          Time           `json:"updated_at" doc:"When the evidence or the status last changed."`
	Attributes         map[string]any `json:"attributes" doc:"Evidence by name. Every insight has signal_type (TRACES, METRICS or LOGS), resource_attributes (a string holding a JSON object), observations_total and violations_total; lists are strings holding a JSON array." example:"{\"signal_type\":\"TRACES\",\"violations_total\":7}"`
	InsightType        InsightType    `json:"insight_type" doc:"What it is about, and how to fix it."`
}

// InsightType says what a kind of insight is about and how to fix it.
type InsightType struct {
	ID          string `json:"id" format:"uuid" doc:"The same in every installation." example:"1f6f4c4e-58a1-5f7b-8c9d-6f3e2d1c0b9a"`
	Name        string `json:"name" doc:"Stable name." example:"missing_service_name"`
	DisplayName string `json:"display_name" doc:"Name for people." example:"Service name is missing"`
	Description string `json:"description" doc:"What is wrong and what it costs, in Markdown." example:"Telemetry arrives without a service.name."`
	Impact      string `json:"impact" enum:"Critical,Important,Normal,Low" doc:"How much the rule weighs in the score." example:"Critical"`
	SignalType  string `json:"signal_type" enum:"trace,metric,log" doc:"Signal that the rule belongs to." example:"trace"`
	RuleID      string `json:"instrumentation_score_rule_id" doc:"Rule of the Instrumentation Score, empty for a type that no score sees." example:"RES-005"`
	Remediation string `json:"remediation_instructions" doc:"How to fix it, in Markdown." example:"Set OTEL_SERVICE_NAME."`
	CreatedAt   Time   `json:"created_at" doc:"When the texts and criteria of the rules last changed."`
	UpdatedAt   Time   `json:"updated_at" doc:"The same."`
}

func showInsightType(name string) InsightType {
	if t := shownTypes[name]; t != nil {
		return t.InsightType
	}
	// Written by a newer replica during an upgrade. It is shown with what is known of
	// it rather than left out of a list that counts it.
	return InsightType{
		ID: uuid.Nil.String(), Name: name, DisplayName: name,
		Impact: string(assay.ImpactLow), SignalType: string(assay.SignalTrace),
		CreatedAt: Time(catalog.CatalogDate), UpdatedAt: Time(catalog.CatalogDate),
	}
}

func showInsight(i *assay.Insight) Insight {
	out := Insight{
		ID: i.ID, ServiceID: i.Service.ID,
		ServiceName: i.Service.Name, ServiceNamespace: i.Service.Namespace,
		ServiceEnvironment: i.Service.Environment, ServiceVersion: i.Service.Version,
		Status: string(i.Status), TraceID: i.TraceID,
		TelemetryTS: Time(i.TelemetryAt), DetectedTS: Time(i.DetectedAt),
		CreatedAt: Time(i.CreatedAt), UpdatedAt: Time(i.UpdatedAt),
		Attributes: i.Attributes, InsightType: showInsightType(i.Type),
	}
	if out.Attributes == nil {
		out.Attributes = map[string]any{}
	}
	return out
}

func showInsights(found []*assay.Insight) []Insight {
	out := make([]Insight, len(found))
	for i, f := range found {
		out[i] = showInsight(f)
	}
	return out
}

type listServiceInsightsParams struct {
	serviceID
	Status []assay.InsightStatus `query:"status" enum:"active,archived,muted" default:"active" doc:"Comma-separated statuses." example:"[\"active\",\"muted\"]"`
	Limit  int                   `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Maximum number of items." example:"50"`
	offset
}

func (p listServiceInsightsParams) page() assay.Page {
	return assay.Page{Limit: p.Limit, Offset: p.Offset}
}

type listInsightsParams struct {
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Maximum number of items." example:"20"`
	offset
	ServiceID string                `query:"service_id" format:"uuid" doc:"Only insights of this service." example:"6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"`
	Status    []assay.InsightStatus `query:"status" enum:"active,archived,muted" doc:"Comma-separated statuses; all without it." example:"[\"active\"]"`
	Signal    assay.Signal          `query:"signal_type" enum:"trace,metric,log" doc:"Only insights whose type belongs to this signal." example:"trace"`
	Impact    []assay.Impact        `query:"impact" enum:"Critical,Important,Normal,Low" doc:"Comma-separated impacts; all without it." example:"[\"Critical\",\"Important\"]"`
	DateFrom  time.Time             `query:"date_from" doc:"Only insights created at this time or later, RFC 3339." example:"2026-11-01T00:00:00Z"`
	DateTo    time.Time             `query:"date_to" doc:"Only insights created at this time or earlier, RFC 3339." example:"2026-11-30T23:59:59Z"`
	Sort      sortOrder             `query:"sort" pattern:"^[+-]?(created_at|detected_ts|updated_at|impact|signal_type)$" patternDescription:"must be one of created_at, detected_ts, updated_at, impact, signal_type, with + or nothing (ascending) or - (descending) before it" default:"-created_at" doc:"Field to sort by, with + (or nothing) for ascending or - for descending before it; ties go by id. impact sorts by weight." example:"-impact"`
}

func (p listInsightsParams) page() assay.Page { return assay.Page{Limit: p.Limit, Offset: p.Offset} }

func (p *listInsightsParams) validate(details map[string]string) {
	if !p.DateFrom.IsZero() && !p.DateTo.IsZero() && p.DateFrom.After(p.DateTo) {
		details["date_from"] = "must not be after date_to"
	}
}

// filter returns what to ask the store for. Times are brought into the range that
// every store keeps, which no insight was created outside of; a bound below the
// microsecond moves inwards, as nothing is stored more finely.
func (p *listInsightsParams) filter(organizationID string) assay.InsightFilter {
	f := assay.InsightFilter{
		OrganizationID: organizationID,
		ServiceID:      p.ServiceID, Statuses: p.Status, Signal: p.Signal, Impacts: p.Impact,
		Page: p.page(),
	}
	f.Sort, f.Descending = p.Sort.split()
	if !p.DateFrom.IsZero() {
		f.CreatedFrom = clamp(p.DateFrom.Add(time.Microsecond - time.Nanosecond).Truncate(time.Microsecond))
	}
	if !p.DateTo.IsZero() {
		f.CreatedTo = clamp(p.DateTo.Truncate(time.Microsecond))
	}
	return f
}

var (
	earliest = time.Unix(0, 0).UTC()
	latest   = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)
)

func clamp(t time.Time) time.Time {
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	default:
		return t.UTC()
	}
}

type insightID struct {
	ID string `path:"id" format:"uuid" doc:"Id of the insight." example:"7d0f6f1e-4c55-5b8e-9a3f-0c1d2e3f4a5b"`
}

func (s *server) insights() {
	registerList(s, operation{
		Path: "/v1/services/{id}/insights", ID: "list-service-insights", Tag: tagServices, Scope: assay.ScopeRead,
		Summary:     "List a service's insights",
		Description: "Insights of one service, newest first; only active ones unless `status` asks for others.",
		Example:     exampleInsight(),
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, c *call, p *listServiceInsightsParams) ([]Insight, int, error) {
		if _, err := s.cfg.Services.FindServiceByID(ctx, c.Principal.OrganizationID, p.ID); err != nil {
			return nil, 0, err
		}
		return s.findInsights(ctx, assay.InsightFilter{
			OrganizationID: c.Principal.OrganizationID, ServiceID: p.ID, Statuses: p.Status,
			Sort: assay.SortCreatedAt, Descending: true, Page: p.page(),
		})
	})

	registerList(s, operation{
		Path: "/v1/insights", ID: "list-insights", Tag: tagInsights, Scope: assay.ScopeRead,
		Summary:     "List insights",
		Description: "The organization's insights. Without `status` it lists all statuses.",
		Example:     exampleInsight(),
	}, func(ctx context.Context, c *call, p *listInsightsParams) ([]Insight, int, error) {
		return s.findInsights(ctx, p.filter(c.Principal.OrganizationID))
	})

	register(s, operation{
		Path: "/v1/insights/{id}", ID: "get-insight", Tag: tagInsights, Scope: assay.ScopeRead,
		Summary:     "Get an insight",
		Description: "One insight with its evidence and how to fix it.",
		Example:     exampleInsight(),
		Errors:      []int{http.StatusNotFound},
	}, func(ctx context.Context, c *call, p *insightID) (Insight, error) {
		found, err := s.cfg.Insights.FindInsightByID(ctx, c.Principal.OrganizationID, p.ID)
		if err != nil {
			return Insight{}, err
		}
		return showInsight(found), nil
	})
}

func (s *server) findInsights(ctx context.Context, f assay.InsightFilter) ([]Insight, int, error) {
	found, total, err := s.cfg.Insights.FindInsights(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	return showInsights(found), total, nil
}

// exampleInsight has the first paragraph of each text.
func exampleInsight() Insight {
	i := showInsight(&assay.Insight{
		ID: exampleInsightID, Service: exampleService, Type: "missing_service_name", Status: assay.InsightActive,
		TraceID:     exampleTraceID,
		TelemetryAt: exampleTime.Add(-2 * time.Second), DetectedAt: exampleTime.Add(-24 * time.Hour),
		CreatedAt: exampleTime.Add(-24 * time.Hour), UpdatedAt: exampleTime.Add(-10 * time.Second),
		Attributes: map[string]any{
			"signal_type": "TRACES", "resource_attributes": `{"telemetry.sdk.language":"go"}`,
			"observations_total": 120, "violations_total": 7,
		},
	})
	i.InsightType.Description, _, _ = strings.Cut(i.InsightType.Description, "\n\n")
	i.InsightType.Remediation = "### SDK\n\n```sh\nexport OTEL_SERVICE_NAME=checkout\n```"
	return i
}
