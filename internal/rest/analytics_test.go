// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

func testVolume() *assay.LogVolume {
	v := &assay.LogVolume{
		Period: "24h", Start: testNow.Add(-24 * time.Hour), End: testNow,
		Series: []assay.LogVolumePoint{
			{Start: testNow.Add(-48 * time.Minute), Counts: assay.SeverityCounts{1, 0, 0, 0, 0, 0, 1}},
			{Start: testNow.Add(-24 * time.Minute), Counts: assay.SeverityCounts{0, 0, 1, 0, 0, 0, 0}},
		},
	}
	for i := range v.Series {
		v.Counts.Add(&v.Series[i].Counts)
	}
	return v
}

func testAnalytics() *assay.ServiceAnalytics {
	return &assay.ServiceAnalytics{
		Start: testNow.Add(-30 * 24 * time.Hour), End: testNow, Currency: "EUR", TotalBytes: 600, TotalCost: 1.00005,
		Services: []assay.ServiceCost{
			{
				ID: "6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69", Name: "checkout", Namespace: "shop", Environment: "production", Version: "1.4.2",
				Traces: assay.SignalUsage{Items: 1, Bytes: 100}, Metrics: assay.SignalUsage{Items: 2, Bytes: 200},
				Logs: assay.SignalUsage{}, ActiveSeries: 3, EstimatedCost: 0.00004, AvoidableCost: 0.33333,
			},
			{ID: "7f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69", Name: "idle"},
		},
	}
}

func TestLogVolumePeriods(t *testing.T) {
	f := newFixture(t)
	var asked []any
	f.h.cfg.LogVolume = logVolumeFunc(func(_ context.Context, org string, p assay.LogVolumePeriod) (*assay.LogVolume, error) {
		asked = append(asked, org, p)
		return &assay.LogVolume{Period: p, Start: testNow.Add(-p.Duration()), End: testNow}, nil
	})
	for _, p := range assay.LogVolumePeriods() {
		a := f.get(t, "/api/v1/analytics/log-volume?period="+string(p)).ok(t)
		require.Contains(t, string(a.Data), `"period":"`+string(p)+`"`)
		require.Contains(t, string(a.Data), `"total_count":0,"severities":[{"severity_text":"TRACE","record_count":0,"percent":0},`, "no records, no NaN")
		require.Contains(t, string(a.Data), `"series":[]`)
	}
	require.Equal(t, []any{orgID, assay.LogVolumePeriod("1h")}, asked[:2])
	require.Len(t, asked, 2*len(assay.LogVolumePeriods()))
	for target, period := range map[string]assay.LogVolumePeriod{"": "24h", "?period=": "24h", "?x=1": "24h", "?organization_id=" + otherID: "24h"} {
		asked = nil
		f.get(t, "/api/v1/analytics/log-volume"+target).ok(t)
		require.Equal(t, []any{orgID, period}, asked)
	}
	asked = nil
	for _, p := range []string{"2h", "24H", "1d", "3600", "-1h", "7d,30d", "24h%00", "24h&period=24h"} {
		a := f.get(t, "/api/v1/analytics/log-volume?period="+p).fails(t, 400, assay.CodeInvalid)
		require.Contains(t, a.Error.Details, "period")
	}
	require.Empty(t, asked)
}

func TestLogVolumeShares(t *testing.T) {
	v := showLogVolume(&assay.LogVolume{Counts: assay.SeverityCounts{0, 1, 2, 0, 0, math.MaxUint32, 0}})
	var names []string
	for _, s := range v.Severities {
		names = append(names, s.Severity)
	}
	require.Equal(t, []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "UNSPECIFIED"}, names)
	v = showLogVolume(&assay.LogVolume{Counts: assay.SeverityCounts{1, 1, 1, 0, 0, 0, 0}})
	require.InDelta(t, 33.33, v.Severities[0].Percent, 1e-9)
	require.EqualValues(t, 3, v.Total)
}

func TestServiceAnalyticsLimit(t *testing.T) {
	f := newFixture(t)
	var asked []any
	f.h.cfg.Analyst = analystFunc(func(_ context.Context, org string, limit int) (*assay.ServiceAnalytics, error) {
		asked = append(asked, org, limit)
		return &assay.ServiceAnalytics{Start: testNow, End: testNow, Currency: "USD"}, nil
	})
	a := f.get(t, "/api/v1/analytics/services").ok(t)
	require.Contains(t, string(a.Data), `"services":[]`)
	require.Nil(t, a.Meta.Total, "not a list")
	require.Nil(t, a.Links)
	f.get(t, "/api/v1/analytics/services?limit=100").ok(t)
	f.get(t, "/api/v1/analytics/services?limit=1").ok(t)
	require.Equal(t, []any{orgID, 50, orgID, 100, orgID, 1}, asked)
	for _, limit := range []string{"0", "101", "-1", "1.5", "x", "99999999999999999999"} {
		f.get(t, "/api/v1/analytics/services?limit="+limit).fails(t, 400, assay.CodeInvalid)
	}
}

func TestRounding(t *testing.T) {
	require.InDelta(t, 66.67, percent(2, 3), 0)
	require.InDelta(t, 0, percent(0, 0), 0)
	require.InDelta(t, 100, percent(math.MaxUint64, math.MaxUint64), 0)
	require.InDelta(t, 0.0001, cost(0.00005), 0)
	require.InDelta(t, 12.3457, cost(12.34567), 0)
}

func TestAnalyticsHaveNoEntityTag(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{"/api/v1/analytics/log-volume", "/api/v1/analytics/services"} {
		a := f.get(t, target, "If-None-Match", "*").ok(t)
		require.Empty(t, a.Header().Get("ETag"))
		require.Equal(t, "private, no-cache", a.Header().Get("Cache-Control"))
	}
}

// TestNotConfigured: the last of the checks.
func TestNotConfigured(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.LogVolume, c.Analyst, c.Summaries, c.Agent = nil, nil, nil, nil })
	insight := f.insights[0].ID
	for target, message := range map[string]string{
		"/api/v1/analytics/log-volume":             "the metrics store is not configured",
		"/api/v1/analytics/services":               "service analytics are not configured",
		"/api/v1/insights/" + insight + "/summary": "summaries are not configured",
		"/api/v1/agent/findings":                   "the agent backend is not configured",
	} {
		a := f.get(t, target).fails(t, 503, assay.CodeUnavailable)
		require.Equal(t, message, a.Error.Message)
		require.Equal(t, "5", a.Header().Get("Retry-After"))
		f.do(t, "GET", target).fails(t, 401, assay.CodeMissingCredentials)
		f.do(t, "GET", target, "Authorization", ingester).fails(t, 403, assay.CodeForbidden)
	}
	f.get(t, "/api/v1/analytics/log-volume?period=x").fails(t, 400, assay.CodeInvalid)
	f.get(t, "/api/v1/analytics/services?limit=x").fails(t, 400, assay.CodeInvalid)
	f.get(t, "/api/v1/insights/x/summary").fails(t, 400, assay.CodeInvalid)
	f.get(t, "/api/v1/insights/"+f.insights[60].ID+"/summary").fails(t, 404, assay.CodeInsightNotFound)
	f.get(t, "/api/v1/agent/executions/a%2fb").fails(t, 400, assay.CodeInvalid)
}

func TestDependenciesFail(t *testing.T) {
	secret := errors.New("dial tcp 10.1.2.3:9090: refused")
	for status, code := range map[int]assay.Code{500: assay.CodeInternal, 502: assay.CodeUpstream, 503: assay.CodeUnavailable} {
		err := assay.Errorf(code, "query: %w", secret)
		f := newFixture(t, func(c *Config) {
			c.LogVolume = logVolumeFunc(func(context.Context, string, assay.LogVolumePeriod) (*assay.LogVolume, error) { return nil, err })
			c.Analyst = analystFunc(func(context.Context, string, int) (*assay.ServiceAnalytics, error) { return nil, err })
			c.Summaries = summaryFunc(func(context.Context, *assay.Insight) (*assay.InsightSummary, error) { return nil, err })
			c.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) { return nil, err })
		})
		targets := []string{"/api/v1/analytics/log-volume", "/api/v1/agent/findings"}
		if status != 502 { // the others have no upstream that could fail
			targets = append(targets, "/api/v1/analytics/services", "/api/v1/insights/"+f.insights[0].ID+"/summary")
		}
		for _, target := range targets {
			f.log.Reset()
			a := f.get(t, target).fails(t, status, code)
			require.NotContains(t, a.Body.String(), "10.1.2.3")
			require.Contains(t, f.log.String(), "10.1.2.3")
		}
	}
}

func TestSummary(t *testing.T) {
	f := newFixture(t)
	var got *assay.Insight
	var deadline time.Duration
	f.h.cfg.Summaries = summaryFunc(func(ctx context.Context, i *assay.Insight) (*assay.InsightSummary, error) {
		d, _ := ctx.Deadline()
		got, deadline = i, time.Until(d)
		return &assay.InsightSummary{InsightID: i.ID, GeneratedAt: testNow}, nil
	})
	a := f.get(t, "/api/v1/insights/"+f.insights[3].ID+"/summary").ok(t)
	require.Same(t, f.insights[3], got)
	require.Greater(t, deadline, 31*time.Second, "longer than the model may take")
	var s InsightSummary
	require.NoError(t, json.Unmarshal(a.Data, &s))
	require.Equal(t, f.insights[3].ID, s.InsightID)
	require.Empty(t, a.Header().Get("ETag"))

	f.h.cfg.Summaries = summaryFunc(func(context.Context, *assay.Insight) (*assay.InsightSummary, error) {
		return nil, assay.WithRetryAfter(assay.Errorf(assay.CodeUnavailable, "no more summaries today"), time.Hour)
	})
	a = f.get(t, "/api/v1/insights/"+f.insights[3].ID+"/summary").fails(t, 503, assay.CodeUnavailable)
	require.Equal(t, "3600", a.Header().Get("Retry-After"))
	require.Equal(t, "no more summaries today", a.Error.Message)
}
