// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

func at(when time.Time) func(*logspb.LogRecord) {
	return func(r *logspb.LogRecord) { r.TimeUnixNano = rulestest.Nano(when) }
}

// TestBuckets: a verdict counts in the hour of its record, usage in that of the arrival.
func TestBuckets(t *testing.T) {
	hour := rulestest.T0.Truncate(time.Hour)
	s := factsOf(t, "a", rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a"),
		rulestest.Log("x", at(hour)), rulestest.Log("x", at(hour.Add(-1))), rulestest.Log("x", at(hour.Add(-time.Hour))), rulestest.Log("x", at(hour.Add(-31*day))))))
	require.Len(t, s.Verdicts, 2)
	require.EqualValues(t, 1, s.Counts(delta.Bucket(hour.Unix()))[catalog.LOG002].Observed)
	require.EqualValues(t, 2, s.Counts(delta.Bucket(hour.Add(-time.Hour).Unix()))[catalog.LOG002].Observed)
	require.EqualValues(t, 1, s.Counts(delta.Bucket(hour.Unix()))[catalog.RES001].Observed, "the resource counts with the newest record")
	require.Len(t, s.Usage, 1)
	require.EqualValues(t, hour.Unix(), s.Usage[0].Bucket)
	require.EqualValues(t, 4, s.Usage[0].Usage[delta.Logs].Items)
	require.Equal(t, rulestest.Nano(hour.Add(-31*day)), s.FirstSeen)
	require.Equal(t, rulestest.Nano(hour), s.LastSeen)
}

// TestBytesAreSharedOut: the bytes of a request are distributed over its entries,
// including the framing.
func TestBytesAreSharedOut(t *testing.T) {
	a := rulestest.Logs(rulestest.Service("a"), rulestest.Log("x"))
	b := rulestest.Logs(rulestest.Service("b"), rulestest.Log("a longer body"), rulestest.Log("y"))
	q := rulestest.LogsRequest(a, b)
	sum := uint64(0)
	for name, records := range map[string]uint64{"a": 1, "b": 2} {
		s := factsOf(t, name, q)
		require.Equal(t, records, s.Usage[0].Usage[delta.Logs].Items)
		require.Equal(t, uint64(len(rulestest.LogsRequest(map[string]*logspb.ResourceLogs{"a": a, "b": b}[name]).Body)), s.Usage[0].Usage[delta.Logs].Bytes)
		sum += s.Usage[0].Usage[delta.Logs].Bytes
	}
	require.EqualValues(t, len(q.Body), sum)
}

// TestExampleIsTheNewest failing observation, not the newest of all.
func TestExampleIsTheNewest(t *testing.T) {
	unset := func(n int) func(*logspb.LogRecord) {
		return func(r *logspb.LogRecord) { r.SeverityNumber, r.TraceId = 0, rulestest.TraceID(n) }
	}
	s := factsOf(t, "a", rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a"),
		rulestest.Log("x", unset(1), at(rulestest.T0.Add(-3*time.Minute))), rulestest.Log("x", unset(2), at(rulestest.T0.Add(-time.Minute))),
		rulestest.Log("x", unset(3), at(rulestest.T0.Add(-2*time.Minute))), rulestest.Log("x"))))
	e := s.Examples[catalog.LOG002]
	require.Equal(t, rulestest.TraceID(2), e.TraceID[:])
	require.Equal(t, rulestest.Nano(rulestest.T0.Add(-time.Minute)), e.TimeUnixNano)
	require.Equal(t, delta.Logs, e.Signal)
	require.Zero(t, e.SamplingRate)
	require.Contains(t, e.ResourceAttributes, `"service.name":"a"`)
}

func TestTimestampsStop(t *testing.T) {
	h := wiretest.Hostile{Signal: wire.Logs, Records: wiretest.Many}
	body, visited := h.Request(1<<20), 0
	ctx := &wiretest.EndingContext{Context: t.Context(), Checks: 1}
	require.ErrorIs(t, Timestamps(ctx, wire.Logs, body, func(uint64) { visited++ }), context.Canceled)
	require.LessOrEqual(t, visited, 2*stepsBetweenChecks)
}

func TestTimestamps(t *testing.T) {
	collect := func(q rulestest.Request) (list []uint64) {
		require.NoError(t, Timestamps(t.Context(), q.Signal, q.Body, func(n uint64) { list = append(list, n) }))
		return list
	}
	t0 := rulestest.Nano(rulestest.T0)
	require.Equal(t, []uint64{t0, 7}, collect(rulestest.Traces(rulestest.Spans(nil, rulestest.Span(1, 1, 0), rulestest.Span(1, 2, 0, func(s *tracepb.Span) { s.EndTimeUnixNano = 7 })))))
	require.Equal(t, []uint64{t0, t0, t0, t0, t0}, collect(rulestest.MetricsRequest(rulestest.Metrics(nil, rulestest.Gauge("x", "1"), rulestest.Sum("x", "1"),
		rulestest.Histogram("x", "1", rulestest.T0, nil), rulestest.ExponentialHistogram("x", "1"), rulestest.Summary("x", "1")))))
	require.Equal(t, []uint64{t0, 5, 0}, collect(rulestest.LogsRequest(rulestest.Logs(nil, rulestest.Log("x"),
		rulestest.Log("x", func(r *logspb.LogRecord) { r.TimeUnixNano, r.ObservedTimeUnixNano = 0, 5 }), rulestest.Log("x", func(r *logspb.LogRecord) { r.TimeUnixNano = 0 })))))
	require.Error(t, Timestamps(t.Context(), 1, []byte{0x0a, 5}, func(uint64) {}))
}

// TestMetricClaims checks the claims of MET-003 and MET-004, and their maximum age.
func TestMetricClaims(t *testing.T) {
	count := func(when time.Time) (met003, met004 int) {
		s := factsOf(t, "a", rulestest.MetricsRequest(rulestest.Metrics(rulestest.Service("a"), rulestest.Histogram("h", "s", when, []float64{1}))))
		require.EqualValues(t, 1, total(s, catalog.MET002).Observed)
		for c, f := range s.Claims {
			switch c.Rule {
			case catalog.MET003:
				met003++
				require.Equal(t, delta.ClaimFact{Last: delta.BucketOf(rulestest.Nano(when), time.Hour), KeyText: "h", ValueText: "s"}, f)
			case catalog.MET004:
				met004++
				require.Equal(t, "h", f.KeyText)
			}
		}
		return met003, met004
	}
	for when, want := range map[time.Time]int{rulestest.T0: 1, rulestest.T0.Add(-14 * day): 1, rulestest.T0.Add(-14*day - 1): 0, rulestest.T0.Add(-29 * day): 0} {
		met003, met004 := count(when)
		require.Equal(t, want, met003, when)
		require.Equal(t, want, met004, when)
	}
}

// TestDistinctSets checks the sets of MET-001 and SPA-003.
func TestDistinctSets(t *testing.T) {
	p := func(v any) rulestest.Request {
		return rulestest.MetricsRequest(rulestest.Metrics(rulestest.Service("a"), rulestest.Gauge("m", "1", rulestest.Point(rulestest.T0, "k", v))))
	}
	distinct := func(requests ...rulestest.Request) uint64 {
		s := factsOf(t, "a", requests...)
		require.Len(t, s.Distinct, 1)
		for k, f := range s.Distinct {
			require.Equal(t, catalog.MET001, k.Rule)
			require.Equal(t, rulestest.T0.Truncate(time.Hour).Unix(), k.Hour)
			require.Equal(t, "m", f.Metric)
			require.Equal(t, "k", f.Attr)
			require.EqualValues(t, 10_000, f.Values.Limit)
			return f.Values.Count()
		}
		return 0
	}
	require.EqualValues(t, 1, distinct(p("1"), p(1), p([]byte("1")), p(1.0)), "values count by their string form")
	require.EqualValues(t, 2, distinct(p(true), p("true"), p("True")))
	require.EqualValues(t, 1, distinct(p(nil), p("")))
	require.EqualValues(t, 2, distinct(p([]any{"a", "b"}), p([]any{"a", "b"}), p([]any{"ab"})))

	s := factsOf(t, "a", rulestest.Traces(rulestest.Spans(rulestest.Service("a"), rulestest.Span(1, 1, 0), rulestest.Span(1, 2, 1), rulestest.Span(1, 3, 1, func(s *tracepb.Span) { s.Name = "x" }))))
	require.Len(t, s.Distinct, 1)
	for k, f := range s.Distinct {
		require.Equal(t, delta.DistinctKey{Rule: catalog.SPA003, Hour: rulestest.T0.Truncate(time.Hour).Unix(), Key: delta.KeySpanNames}, k)
		require.EqualValues(t, 2, f.Values.Count())
		require.EqualValues(t, 1001, f.Values.Limit)
	}
}

// TestDebugDays checks the days of LOG-001.
func TestDebugDays(t *testing.T) {
	prod := rulestest.Attrs("service.name", "a", "deployment.environment.name", "Prod")
	debug := func(r *logspb.LogRecord) { r.SeverityText = "debug" }
	s := factsOf(t, "a", rulestest.LogsRequest(rulestest.Logs(prod, rulestest.Log("x"), rulestest.Log("x", debug), rulestest.Log("x", at(rulestest.T0.Add(-day))))))
	today := rulestest.Nano(rulestest.T0) / uint64(day)
	var got []delta.Claim
	for c := range s.Claims {
		got = append(got, c)
	}
	require.ElementsMatch(t, []delta.Claim{
		{Rule: catalog.LOG001, Key: delta.Hash128{Low: delta.KeyLogDay}, Value: today},
		{Rule: catalog.LOG001, Key: delta.Hash128{Low: delta.KeyLogDay}, Value: today - 1},
		{Rule: catalog.LOG001, Key: delta.Hash128{Low: delta.KeyDebugDay}, Value: today},
	}, got)
	require.NotNil(t, s.Examples[catalog.LOG001])
}
