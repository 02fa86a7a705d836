// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	. "assay/internal/rules/rulestest"
)

// stamped returns a log record of a service with an OTLP timestamp.
func stamped(service string, unixNano uint64, set ...func(*logspb.LogRecord)) Request {
	set = append([]func(*logspb.LogRecord){func(r *logspb.LogRecord) { r.TimeUnixNano = unixNano }}, set...)
	return LogsRequest(Logs(Service(service), Log("x", set...)))
}

// TestEventTime checks which records are in the window.
func TestEventTime(t *testing.T) {
	const day = 24 * time.Hour
	unset := severity(0, "") // LOG-002 shows whether a record was evaluated
	run := After(time.Hour)
	requireVerdicts(t, []verdictCase{
		{name: "exactly 30 days before the end", in: []Request{stamped("a", Nano(T0)), stamped("b", Nano(After(-30*day)), unset)}, want: []string{"b: -LOG-002 +RES-001"}},
		{name: "a nanosecond older", in: []Request{stamped("a", Nano(T0)), stamped("b", Nano(After(-30*day))-1, unset)}, want: []string{"b: absent"}},
		{name: "an old record of a live service", in: []Request{stamped("a", Nano(T0)), stamped("a", Nano(After(-31*day)), unset)}, want: []string{"a: +LOG-002"}},
		{name: "an old span", in: []Request{stamped("a", Nano(T0)), Traces(Spans(Service("a"), Span(1, 1, 0, kind(client), ending(After(-31*day)))))}, want: []string{"a: ~SPA-004 ~SPA-003 ~SPA-001 ~SPA-006"}},
		{name: "an old data point", in: []Request{stamped("a", Nano(T0)), MetricsRequest(Metrics(Service("a"), Gauge("x", "", Point(After(-31*day), "k", "v"))))}, want: []string{"a: ~MET-002 ~MET-001 ~MET-007"}},
		{name: "an entry has the time of its newest record", in: []Request{stamped("a", Nano(T0)), LogsRequest(Logs(Attrs("service.name", "b"),
			Log("x", logged(After(-31*day)), unset), Log("x", logged(After(-29*day))), Log("x", logged(After(-33*day)))))}, want: []string{"b: -RES-001 +LOG-002"}},
		{name: "an entry with old records only", in: []Request{stamped("a", Nano(T0)), LogsRequest(Logs(Attrs("service.name", "a", "deployment.environment.name", "test"), Log("x", logged(After(-31*day)))))}, want: []string{"a: +RES-001"}},
		{name: "an entry without records is not looked at", in: []Request{stamped("a", Nano(T0)), Traces(Spans(Attrs("service.name", "a"))), Traces(Spans(nil))}, want: []string{"a: +RES-001 +RES-007", "unknown_service: absent"}},
		{name: "a scope without records", in: []Request{stamped("a", Nano(T0)), Traces(&tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{{}}})}, want: []string{"unknown_service: absent"}},
		{name: "an entry without a resource", in: []Request{Traces(&tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{Span(1, 1, 0)}}}})}, want: []string{"unknown_service: -RES-001 -RES-005 -RES-007"}},

		{name: "no time: inside the window", in: []Request{stamped("a", Nano(T0)), stamped("b", 0, unset)}, want: []string{"a: +LOG-002", "b: -LOG-002"}},
		{name: "no times at all", in: []Request{stamped("a", 0, unset)}, want: []string{"a: -LOG-002"}},
		{name: "the observed time is the fallback", in: []Request{stamped("a", Nano(T0)), stamped("b", 0, unset, func(r *logspb.LogRecord) { r.ObservedTimeUnixNano = Nano(After(-31 * day)) })}, want: []string{"b: absent"}},
		{name: "the own time goes first", in: []Request{stamped("a", Nano(T0)), stamped("b", Nano(After(-31*day)), unset, func(r *logspb.LogRecord) { r.ObservedTimeUnixNano = Nano(T0) })}, want: []string{"b: absent"}},
		{name: "the observed time moves the window", in: []Request{stamped("a", 0, func(r *logspb.LogRecord) { r.ObservedTimeUnixNano = Nano(T0) }), stamped("b", Nano(After(-31*day)))}, want: []string{"a: +LOG-002", "b: absent"}},
		{name: "a span's end counts, not its start", in: []Request{stamped("a", Nano(T0)), Traces(Spans(Service("b"), Span(1, 1, 0, func(s *tracepb.Span) { s.StartTimeUnixNano = Nano(After(-31 * day)) })))}, want: []string{"b: +SPA-004"}},
		{name: "a data point's time counts, not its start", in: []Request{stamped("a", Nano(T0)), func() Request {
			p := Point(T0)
			p.StartTimeUnixNano = Nano(After(-90 * day))
			return MetricsRequest(Metrics(Service("b"), Gauge("x", "1", p)))
		}()}, want: []string{"b: +MET-002"}},

		{name: "24 hours ahead of the run moves the window", now: run, in: []Request{stamped("a", Nano(run.Add(day))), stamped("b", Nano(run.Add(-29*day-1)))}, want: []string{"b: absent"}},
		{name: "more than that does not", now: run, in: []Request{stamped("a", Nano(run.Add(day))+1), stamped("b", Nano(run.Add(-29*day-1))), stamped("c", Nano(run))}, want: []string{"b: +LOG-002", "c: +LOG-002"}},
		{name: "a window in the past", now: run.Add(900 * day), in: []Request{stamped("a", Nano(T0)), stamped("b", Nano(After(-31*day)))}, want: []string{"a: +LOG-002", "b: absent"}},
		{name: "the whole input in the future", now: After(-100 * day), in: []Request{stamped("a", Nano(T0)), stamped("b", Nano(After(-30*day))), stamped("c", Nano(After(-31*day)))}, want: []string{"a: +LOG-002", "b: +LOG-002", "c: absent"}},
		{name: "a time in seconds by mistake", in: []Request{stamped("a", Nano(T0)), stamped("b", uint64(After(0).Unix()))}, want: []string{"b: absent"}},
		{name: "the smallest time", in: []Request{stamped("a", 1, unset)}, want: []string{"a: -LOG-002 +RES-001"}},
		{name: "the largest time among others", in: []Request{stamped("a", Nano(T0)), stamped("b", math.MaxUint64, unset)}, want: []string{"a: +LOG-002", "b: -LOG-002"}},
		{name: "only the largest time", in: []Request{stamped("a", math.MaxUint64, unset)}, want: []string{"a: -LOG-002"}},
		{name: "2^63 alone", in: []Request{stamped("a", 1<<63, unset)}, want: []string{"a: -LOG-002"}},
		{name: "2^63-1 alone", in: []Request{stamped("a", 1<<63-1, unset)}, want: []string{"a: -LOG-002"}},
		{name: "a trace has the time of its newest span", in: []Request{
			stamped("a", Nano(T0)),
			Traces(Spans(Service("b"), Span(1, 2, 1, ending(After(-31*day))))), Traces(Spans(Service("b"), Span(1, 3, 0, ending(T0)))),
		}, want: []string{"b: -SPA-002"}},
		{name: "a trace that is all old", in: []Request{stamped("b", Nano(T0)), Traces(Spans(Service("b"), Span(1, 2, 1, ending(After(-31*day)))))}, want: []string{"b: ~SPA-002 ~SPA-001 ~SPA-005"}},
	})
}

func TestReportWindowAndTotals(t *testing.T) {
	old := Traces(Spans(Service("old"), Span(1, 1, 0, ending(After(-40*24*time.Hour)))))
	fresh := Traces(Spans(Service("a"), Span(2, 1, 0), Span(2, 2, 1)))
	metrics := MetricsRequest(Metrics(Service("a"), Gauge("x", "1", Point(T0), Point(T0)), Summary("y", "1")))
	logs := LogsRequest(Logs(Service("a"), Log("x"), Log("y"), Log("z")))
	r := scoreOf(t, time.Time{}, old, fresh, metrics, logs)
	require.Equal(t, T0, r.Window.End)
	require.Equal(t, After(-30*24*time.Hour), r.Window.Start)
	require.Len(t, r.Services, 1)
	require.EqualValues(t, 3, r.Totals.Spans, "older records count as usage")
	require.EqualValues(t, 3, r.Totals.MetricDataPoints)
	require.EqualValues(t, 3, r.Totals.LogRecords)
	bytes := 0
	for _, q := range []Request{old, fresh, metrics, logs} {
		bytes += len(q.Body)
	}
	require.EqualValues(t, bytes, r.Totals.Bytes)
}

// TestScoreOfReport compares the score with sums computed by hand.
func TestScoreOfReport(t *testing.T) {
	// RES-001 20, 004 30, 005 40, 007 30, 010 40; LOG-002 30, LOG-003 40: 230 in all.
	for _, c := range []struct {
		name  string
		in    Request
		exact float64
		score int
		band  string
	}{
		{"everything passes", LogsRequest(Logs(Service("a"), Log("x"))), 100, 100, "Excellent"},
		{"LOG-002 fails", LogsRequest(Logs(Service("a"), Log("x", severity(0, "")))), 86.96, 87, "Good"},
		{"LOG-002 and LOG-003 fail", LogsRequest(Logs(Service("a"), Log("jane@example.com", severity(0, "")))), 69.57, 70, "Needs Improvement"},
		{"RES-001, 005, 007 and LOG-002, 003 fail", LogsRequest(Logs(nil, Log("jane@example.com", severity(0, "")))), 30.43, 30, "Poor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := scoreOf(t, time.Time{}, c.in)
			require.Len(t, r.Services, 1)
			s := r.Services[0]
			require.Equal(t, c.exact, *s.ScoreExact)
			require.Equal(t, c.score, *s.Score)
			require.Equal(t, c.band, s.Category)
			require.Equal(t, []string{"LOG-002", "LOG-003", "RES-001", "RES-004", "RES-005", "RES-007", "RES-010"}, s.EvaluatedRuleIDs)
		})
	}
}

// TestInsightsOutsideTheScore tests the insight types without a rule.
func TestInsightsOutsideTheScore(t *testing.T) {
	names := func(in ...Request) map[string][]string {
		all := make(map[string][]string)
		for _, s := range scoreOf(t, time.Time{}, in...).Services {
			for _, i := range s.Insights {
				if i.RuleID == "" {
					all[s.Name] = append(all[s.Name], i.Name)
				}
			}
		}
		return all
	}
	require.Empty(t, names(one(Service("a"))...))
	require.Equal(t, []string{"default_service_name"}, names(one(Service("unknown_service"))...)["unknown_service"])
	require.Equal(t, []string{"default_service_name"}, names(one(Service("unknown_service:java"))...)["unknown_service:java"])
	require.Empty(t, names(one(Service("unknown_service_x"))...))
	require.Empty(t, names(one(Service("UNKNOWN_SERVICE"))...))
	require.Empty(t, names(one(nil)...), "a missing name is covered by RES-005")
	deprecated := []string{"deprecated_attributes"}
	require.Equal(t, deprecated, names(one(Service("a", "deployment.environment", "x"))...)["a"])
	for _, key := range []string{"gen_ai.request.model", "mcp.session.id", "code.function", "http.flavor", "container.labels", "k8s.pod.label.app"} {
		require.Empty(t, names(one(Service("a", key, "x"))...), key)
	}
	require.Equal(t, deprecated, names(Traces(Spans(Service("a"), Span(1, 1, 0, func(s *tracepb.Span) { s.Attributes = Attrs("http.method", "GET") }))))["a"])
	require.Equal(t, deprecated, names(MetricsRequest(Metrics(Service("a"), Gauge("x", "1", Point(T0, "http.method", "GET")))))["a"])
	require.Equal(t, deprecated, names(LogsRequest(Logs(Service("a"), Log("x", func(r *logspb.LogRecord) { r.Attributes = Attrs("http.method", "GET") }))))["a"])
}
