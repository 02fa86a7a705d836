// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"assay"
	"assay/internal/lists"
)

// Service is one monitored service.
type Service struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Namespace      string `json:"namespace"`
	Environment    string `json:"environment"`
	Version        string `json:"version"`
	OrganizationID string `json:"organization_id"`
	CreatedAt      string `json:"created_at"`
	UpdatedAt      string `json:"updated_at"`
	FirstSeenAt    string `json:"first_seen_at"`
	LastSeenAt     string `json:"last_seen_at"`

	Score *InstrumentationScore `json:"instrumentation_score"`
}

// InstrumentationScore is a service's score at one moment.
type InstrumentationScore struct {
	ID               string   `json:"id"`
	Score            int      `json:"score"`
	Category         string   `json:"category"`
	CalculatedAt     string   `json:"calculated_timestamp"`
	WindowSeconds    int64    `json:"calculation_window_seconds"`
	EvaluatedRuleIDs []string `json:"evaluated_rule_ids"`
	CreatedAt        string   `json:"created_at"`
}

func (s *server) showService(f *assay.Service) Service {
	out := Service{
		ID: f.ID, Name: f.Name, Namespace: f.Namespace, Environment: f.Environment, Version: f.Version,
		OrganizationID: f.OrganizationID,
		CreatedAt:      timestamp(f.CreatedAt), UpdatedAt: timestamp(f.UpdatedAt),
		FirstSeenAt: timestamp(f.FirstSeenAt), LastSeenAt: timestamp(f.LastSeenAt),
	}
	if f.LastSeenAt.IsZero() { // only resources without records have arrived
		out.FirstSeenAt, out.LastSeenAt = out.CreatedAt, out.CreatedAt
	}
	if sc := f.Score; sc != nil {
		out.Score = &InstrumentationScore{
			ID: sc.ID, Score: sc.Rounded(), Category: sc.Category(),
			CalculatedAt: timestamp(sc.CalculatedAt), WindowSeconds: int64(cmp.Or(sc.Window, s.cfg.Window) / time.Second),
			EvaluatedRuleIDs: append([]string{}, sc.EvaluatedRuleIDs...), CreatedAt: timestamp(sc.CreatedAt),
		}
		slices.Sort(out.Score.EvaluatedRuleIDs)
	}
	return out
}

func (s *server) services() {
	handleList(s, "list-services", route{scope: assay.ScopeRead}, func(ctx context.Context, c *call) ([]Service, int, error) {
		found, total, err := s.cfg.Services.FindServices(ctx, c.Principal.OrganizationID, c.page())
		return lists.Map(found, s.showService), total, err
	})

	handleFound(s, "get-service", route{scope: assay.ScopeRead, unknown: assay.CodeServiceNotFound}, s.showService, func(ctx context.Context, c *call) (*assay.Service, error) {
		return s.cfg.Services.FindServiceByID(ctx, c.Principal.OrganizationID, param[string](c.params, "id"))
	})
}

// ServiceGroup is all versions of one name, namespace and environment.
type ServiceGroup struct {
	Name         string                `json:"name"`
	Namespace    string                `json:"namespace"`
	Environment  string                `json:"environment"`
	LatestID     string                `json:"latest_id"`
	VersionCount int                   `json:"version_count"`
	Insights     int                   `json:"insights_count"`
	Score        *InstrumentationScore `json:"instrumentation_score"`
}

// groupSorts maps the values of the sort parameter.
var groupSorts = map[string]assay.ServiceGroupFilter{
	"insights-first": {Sort: assay.SortGroupInsights, Descending: true},
	"name-asc":       {Sort: assay.SortGroupName},
	"name-desc":      {Sort: assay.SortGroupName, Descending: true},
	"created-asc":    {Sort: assay.SortGroupCreated},
	"created-desc":   {Sort: assay.SortGroupCreated, Descending: true},
}

// maxVersions limits the versions of a service that are counted.
const maxVersions = 1000

// serviceLists registers the other lists of services.
func (s *server) serviceLists() {
	handleList(s, "search-services", route{scope: assay.ScopeRead}, func(ctx context.Context, c *call) ([]Service, int, error) {
		f := assay.ServiceFilter{OrganizationID: c.Principal.OrganizationID, Search: param[string](c.params, "q"), Page: c.page()}
		if v := param[string](c.params, "environment"); v != "" {
			f.Environment = &v
		}
		if v := param[string](c.params, "namespace"); v != "" {
			f.Namespace = &v
		}
		found, total, err := s.cfg.ServiceLists.FindServiceRows(ctx, f)
		return s.showRows(found), total, err
	})

	handleList(s, "list-service-groups", route{scope: assay.ScopeRead}, func(ctx context.Context, c *call) ([]ServiceGroup, int, error) {
		f := groupSorts[param[string](c.params, "sort")]
		f.OrganizationID, f.Page = c.Principal.OrganizationID, c.page()
		found, total, err := s.cfg.ServiceLists.FindServiceGroups(ctx, f)
		return lists.Map(found, func(g *assay.ServiceGroup) ServiceGroup {
			latest := s.showService(g.Latest)
			return ServiceGroup{
				Name: latest.Name, Namespace: latest.Namespace, Environment: latest.Environment,
				LatestID: latest.ID, VersionCount: g.Versions, Insights: g.Insights, Score: latest.Score,
			}
		}), total, err
	})

	handleList(s, "list-service-versions", route{scope: assay.ScopeRead, unknown: assay.CodeServiceNotFound}, func(ctx context.Context, c *call) ([]Service, int, error) {
		org := c.Principal.OrganizationID
		of, err := s.cfg.Services.FindServiceByID(ctx, org, param[string](c.params, "id"))
		if err != nil {
			return nil, 0, err
		}
		key := assay.ServiceKey{Namespace: of.Namespace, Name: of.Name, Environment: of.Environment}
		found, err := s.cfg.ServiceLists.FindServiceVersions(ctx, org, key, assay.SeriesRange{}, maxVersions)
		if err != nil {
			return nil, 0, err
		}
		return s.showRows(pageOf(found, c.page())), len(found), nil
	})
}

// pageOf returns a page of items that are in memory.
func pageOf[T any](all []T, p assay.Page) []T {
	from := min(p.Offset, len(all))
	return all[from:min(from+p.Limit, len(all))]
}

func (s *server) showRows(found []*assay.ServiceRow) []Service {
	return lists.Map(found, func(f *assay.ServiceRow) Service { return s.showService(&f.Service) })
}
