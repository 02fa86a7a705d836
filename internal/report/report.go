// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"assay"
	"assay/internal/rules/catalog"
)

// Report holds the scores of recorded telemetry. Its JSON form is the output of `assay score --format json`.
type Report struct {
	Services []Service `json:"services"` // by name, namespace, environment, version
	Window   Window    `json:"window"`
	Totals   Totals    `json:"totals"`
	Outside  Outside   `json:"-"`
}

// Outside counts the records with a time outside of the window. They do not affect scores.
type Outside struct {
	Records        uint64
	Oldest, Newest time.Time
}

// Window is the period that the scores cover.
type Window struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Totals counts the telemetry read.
type Totals struct {
	Spans            uint64 `json:"spans"`
	MetricDataPoints uint64 `json:"metric_data_points"`
	LogRecords       uint64 `json:"log_records"`
	Bytes            uint64 `json:"bytes"` // uncompressed OTLP protobuf
}

// Service is one service with its score and active insights.
type Service struct {
	Name             string    `json:"name"`
	Namespace        string    `json:"namespace"`
	Environment      string    `json:"environment"`
	Version          string    `json:"version"`
	Score            *int      `json:"score"`       // nil: no rule was evaluated
	ScoreExact       *float64  `json:"score_exact"` // two decimals
	Category         string    `json:"category"`    // "" without a score
	EvaluatedRuleIDs []string  `json:"evaluated_rule_ids"`
	FailedRuleIDs    []string  `json:"failed_rule_ids"`
	Insights         []Insight `json:"insights"` // by impact, then name
}

// Insight is one finding about a service.
type Insight struct {
	Name       string         `json:"name"`    // of the insight type
	RuleID     string         `json:"rule_id"` // "" for an insight type without a rule
	Impact     assay.Impact   `json:"impact"`
	Attributes map[string]any `json:"attributes"`
}

// NewService returns the entry of a service with its active insights. It ignores insights of types that are not in
// the catalog.
func NewService(s *assay.Service, insights []*assay.Insight) Service {
	e := Service{
		Name: s.Name, Namespace: s.Namespace, Environment: s.Environment, Version: s.Version,
		EvaluatedRuleIDs: []string{}, FailedRuleIDs: []string{}, Insights: []Insight{},
	}
	if s.Score != nil {
		rounded, exact := s.Score.Rounded(), math.Round(s.Score.Value*100)/100
		e.Score, e.ScoreExact, e.Category = &rounded, &exact, s.Score.Category()
		e.EvaluatedRuleIDs = append(e.EvaluatedRuleIDs, s.Score.EvaluatedRuleIDs...)
		e.FailedRuleIDs = append(e.FailedRuleIDs, s.Score.FailedRuleIDs...)
	}
	for _, i := range insights {
		if rule, ok := catalog.ByInsightType(i.Type); ok {
			e.Insights = append(e.Insights, Insight{Name: i.Type, RuleID: rule.ID(), Impact: rule.Info().Impact, Attributes: i.Attributes})
		}
	}
	slices.SortFunc(e.Insights, func(a, b Insight) int {
		return cmp.Or(cmp.Compare(b.Impact.Weight(), a.Impact.Weight()), cmp.Compare(a.Name, b.Name))
	})
	return e
}

// CompareServices defines the order of services in a report.
func CompareServices(a, b Service) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Version, b.Version))
}
