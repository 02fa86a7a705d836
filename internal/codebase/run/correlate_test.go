// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/rules/catalog"
)

func insight(t *testing.T, id, rule, service string, attributes map[string]any) evidence {
	t.Helper()
	r, ok := catalog.ByID(rule)
	require.True(t, ok)
	return newEvidence(&assay.Insight{ID: id, Type: r.Info().Name, Service: assay.Service{ServiceKey: assay.ServiceKey{Name: service}}, Attributes: attributes})
}

func TestCorrelate(t *testing.T) {
	tel := &telemetry{
		insights: []evidence{
			insight(t, "spans", "SPA-003", "search", map[string]any{"span_names": `["GET /search/1","GET /search/2"]`, "observations_total": int64(100), "violations_total": int64(80)}),
			insight(t, "metric", "MET-001", "search", map[string]any{"attribute_keys": `["search.query.id"]`, "metric_names": `["search.latency"]`, "observations_total": int64(100), "violations_total": int64(3)}),
			insight(t, "leak", "SPA-006", "accounts", map[string]any{"findings": `[{"where":"span attribute: user.contact","kind":"email"}]`, "observations_total": int64(10), "violations_total": int64(10)}),
			insight(t, "debug", "LOG-001", "search", map[string]any{"observations_total": int64(10), "violations_total": int64(10), "resource_attributes": `{"vcs.repository.url.full":"https://example.com/acme/search.git"}`}),
			insight(t, "instance", "RES-001", "cart", map[string]any{"missing_attribute": "service.instance.id"}),
		},
		services: map[string][]*assay.Service{
			"search": {{Score: &assay.Score{EvaluatedRuleIDs: []string{"RES-001", "SPA-003"}, FailedRuleIDs: []string{"SPA-003"}}}},
			"cart":   {{Score: &assay.Score{EvaluatedRuleIDs: []string{"RES-001"}, FailedRuleIDs: []string{"RES-001"}}}},
			"new":    {{}},
		},
	}
	finding := func(rule string, severity check.Severity, n check.Names) *review.Finding {
		return &review.Finding{Rules: []string{rule}, Severity: severity, Detail: &review.Detail{Names: n}}
	}
	for name, c := range map[string]struct {
		finding  *review.Finding
		services []string
		insights []string
		severity check.Severity
		service  string
	}{
		"a pattern of span names": {finding("SPA-003", check.High, check.Names{SpanName: "GET /search/*"}), []string{"search"}, []string{"spans"}, check.Critical, "search"},
		"another span":            {finding("SPA-003", check.High, check.Names{SpanName: "POST *"}), []string{"search"}, nil, check.High, "search"},
		"no name of a span":       {finding("SPA-003", check.Medium, check.Names{}), []string{"search"}, []string{"spans"}, check.High, "search"},
		"another service":         {finding("SPA-003", check.High, check.Names{SpanName: "GET /search/*"}), []string{"cart"}, nil, check.High, "cart"},
		"the place's service":     {finding("SPA-003", check.High, check.Names{Service: "search"}), []string{"cart", "other"}, []string{"spans"}, check.Critical, "search"},
		"a small share":           {finding("MET-001", check.High, check.Names{AttributeKey: "search.query.id"}), []string{"search"}, []string{"metric"}, check.High, "search"},
		"a metric":                {finding("MET-001", check.High, check.Names{AttributeKey: "x", MetricName: "search.latency"}), []string{"search"}, []string{"metric"}, check.High, "search"},
		"another attribute":       {finding("MET-001", check.High, check.Names{AttributeKey: "user.id"}), []string{"search"}, nil, check.High, "search"},
		"a suggestion":            {finding("MET-001", check.Suggestion, check.Names{AttributeKey: "search.query.id"}), []string{"search"}, []string{"metric"}, check.Low, "search"},
		"sensitive data":          {finding("SPA-006", check.Critical, check.Names{AttributeKey: "user.contact"}), []string{"accounts", "search"}, []string{"leak"}, check.Critical, "accounts"},
		"of the service":          {finding("LOG-001", check.Low, check.Names{}), []string{"search"}, []string{"debug"}, check.Medium, "search"},
		"refuted":                 {finding("RES-001", check.Medium, check.Names{}), []string{"search"}, nil, check.Suggestion, "search"},
		"confirmed":               {finding("RES-001", check.Medium, check.Names{AttributeKey: "service.instance.id"}), []string{"cart"}, []string{"instance"}, check.Medium, "cart"},
		"not evaluated":           {finding("RES-001", check.Medium, check.Names{}), []string{"new"}, nil, check.Medium, "new"},
		"unknown service":         {finding("RES-001", check.Medium, check.Names{}), []string{"none"}, nil, check.Medium, "none"},
		"no service":              {finding("RES-001", check.Medium, check.Names{}), nil, nil, check.Medium, ""},
		"sensitive data, passed":  {finding("MET-008", check.Critical, check.Names{}), []string{"search"}, nil, check.Critical, "search"},
	} {
		got, err := tel.newCorrelation(1, c.services...).correlate(t.Context(), c.finding)
		require.NoError(t, err)
		require.Equal(t, c.insights, got.insights, name)
		require.Equal(t, c.severity, got.severity, name)
		require.Equal(t, c.service, got.service, name)
		require.Equal(t, c.severity == check.Suggestion, got.note != "", name)
	}
	repo := &assay.Repository{URL: "ssh://git@example.com/acme/search"}
	require.Equal(t, []string{"cart", "search"}, tel.servicesOf(repo, []string{"cart"}))
	repo.Settings.Services = []string{"chosen"}
	require.Equal(t, []string{"chosen"}, tel.servicesOf(repo, []string{"cart"}))
}

func TestConsists(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{
		{"GET /a", "GET /a", true},
		{"GET /a/b", "GET /a", false},
		{"GET /a/7/b", "GET /a/{id}/b", true},
		{"GET /a/7/b/b", "GET /a/%d/b", true},
		{"GET /a/b", "GET /a/*/b", false},
		{"anything", "*", true},
		{"", "*", true},
		{"aba", "ab*ba", false},
		{"a1b2c", "a*b*c", true},
		{"a1c2b", "a*b*c", false},
		{"line\nbreak", "line*", true},
	} {
		require.Equal(t, c.want, matchParts(c.name, newSubject(check.Names{SpanName: c.pattern}).span), "%s and %s", c.name, c.pattern)
	}
}

// TestLongPattern: the span name of a finding is truncated before it is split into parts.
func TestLongPattern(t *testing.T) {
	for _, pattern := range []string{"*", "*a", "{", "%d/"} {
		s := newSubject(check.Names{SpanName: strings.Repeat(pattern, 1<<20)})
		require.LessOrEqual(t, len(s.span), check.MaxName, pattern)
	}
}

// counting is a context that counts how often it is asked for its end, and ends after that.
type counting struct {
	context.Context
	asked, end int
}

func (c *counting) Err() error {
	if c.asked++; c.asked > c.end {
		return context.Canceled
	}
	return nil
}

// correlating returns a run whose findings are about span names of one service, with open insights of its versions.
func correlating(t *testing.T, findings, insights int) *job {
	r, ok := catalog.ByID("SPA-003")
	require.True(t, ok)
	seen, report := &versions{}, &review.Report{Instrumentation: review.Instrumentation{Services: []string{"shop"}}}
	for i := range insights {
		seen.insights = append(seen.insights, &assay.Insight{
			ID: strconv.Itoa(i), Type: r.Info().Name, Service: assay.Service{ServiceKey: assay.ServiceKey{Name: "shop"}}, Attributes: map[string]any{"span_names": `["GET /1"]`},
		})
	}
	for range findings {
		report.Findings = append(report.Findings, review.Finding{Rules: []string{"SPA-003"}, Severity: check.High, Detail: &review.Detail{Names: check.Names{SpanName: "GET /{id}Q"}}})
	}
	return &job{Worker: New(Config{Telemetry: seen}), run: &assay.Run{}, repository: &assay.Repository{}, report: report}
}

// TestCorrelationEnds: a correlation of thousands of findings with thousands of insights ends with its run, at the next
// finding and at the next insight.
func TestCorrelationEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDeadline)
	j := correlating(t, 1, 0)
	require.ErrorIs(t, j.needFindings(ctx), errDeadline)
	require.Nil(t, j.findings)

	j = correlating(t, 1, 1000)
	ended := &counting{Context: ctx, end: 10}
	require.ErrorIs(t, j.needFindings(ended), errDeadline)
	require.Less(t, ended.asked, 20)
	require.Nil(t, j.findings)
}

// TestCorrelationWork counts the comparisons of findings with insights.
func TestCorrelationWork(t *testing.T) {
	for _, findings := range []int{10, 3000} {
		ctx := &counting{Context: t.Context(), end: math.MaxInt}
		require.NoError(t, correlating(t, findings, 2000).needFindings(ctx))
		require.LessOrEqual(t, ctx.asked, maxComparisons+3*findings)
		require.GreaterOrEqual(t, ctx.asked, min(findings*2000, maxComparisons-findings))
	}
}
