// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/rulestest"
)

// inScope is a gauge x with one data point in a scope.
func inScope(scope *commonpb.InstrumentationScope) *metricspb.ResourceMetrics {
	r := rulestest.Metrics(rulestest.Service("a"), rulestest.Gauge("x", "s"))
	r.ScopeMetrics[0].Scope = scope
	return r
}

// TestSeries checks which data points belong to the same series.
func TestSeries(t *testing.T) {
	service, point := rulestest.Service, rulestest.Point
	gauge := func(attributes ...any) *metricspb.ResourceMetrics {
		return rulestest.Metrics(service("a"), rulestest.Gauge("x", "s", point(rulestest.T0, attributes...)))
	}
	on := func(resource []rulestest.Attr) *metricspb.ResourceMetrics {
		return rulestest.Metrics(resource, rulestest.Gauge("x", "s"))
	}
	backwards := service("a", "host.name", "h", "process.pid", 7)
	slices.Reverse(backwards)
	described, later := gauge(), gauge()
	described.ScopeMetrics[0].Metrics[0].Description = "what it is"
	p := later.ScopeMetrics[0].Metrics[0].GetGauge().DataPoints[0]
	p.TimeUnixNano -= uint64(20 * day)
	p.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: 2.5}
	for name, c := range map[string]struct {
		a, b *metricspb.ResourceMetrics
		same bool
	}{
		"the same":                       {gauge("k", "v"), gauge("k", "v"), true},
		"no attributes":                  {gauge(), gauge(), true},
		"order of attributes":            {gauge("k", "v", "l", 2), gauge("l", 2, "k", "v"), true},
		"order of resource attributes":   {on(service("a", "host.name", "h", "process.pid", 7)), on(backwards), true},
		"another description":            {gauge(), described, true},
		"another value at another time":  {gauge(), later, true},
		"another attribute value":        {gauge("k", "v"), gauge("k", "w"), false},
		"another kind of value":          {gauge("k", "1"), gauge("k", 1), false},
		"another attribute key":          {gauge("k", "v"), gauge("l", "v"), false},
		"one more attribute":             {gauge("k", "v"), gauge("k", "v", "l", "w"), false},
		"values exchanged":               {gauge("k", "v", "l", "w"), gauge("k", "w", "l", "v"), false},
		"elements of an array":           {gauge("k", []any{"v", "w"}), gauge("k", []any{"vw"}), false},
		"another name":                   {gauge(), rulestest.Metrics(service("a"), rulestest.Gauge("y", "s")), false},
		"another unit":                   {gauge(), rulestest.Metrics(service("a"), rulestest.Gauge("x", "ms")), false},
		"another type":                   {gauge(), rulestest.Metrics(service("a"), rulestest.Sum("x", "s")), false},
		"another instance":               {gauge(), on(rulestest.Attrs("service.name", "a", "service.instance.id", "i-2", "deployment.environment.name", "test")), false},
		"another resource attribute":     {on(service("a", "host.name", "h")), on(service("a", "host.name", "g")), false},
		"the same scope":                 {inScope(&commonpb.InstrumentationScope{Name: "lib", Version: "1"}), inScope(&commonpb.InstrumentationScope{Name: "lib", Version: "1"}), true},
		"another scope":                  {inScope(&commonpb.InstrumentationScope{Name: "lib"}), inScope(&commonpb.InstrumentationScope{Name: "bil"}), false},
		"another version of the scope":   {inScope(&commonpb.InstrumentationScope{Name: "lib", Version: "1"}), inScope(&commonpb.InstrumentationScope{Name: "lib", Version: "2"}), false},
		"another attribute of the scope": {inScope(&commonpb.InstrumentationScope{Name: "lib", Attributes: rulestest.Attrs("k", "v")}), inScope(&commonpb.InstrumentationScope{Name: "lib"}), false},
	} {
		t.Run(name, func(t *testing.T) {
			want := uint64(2)
			if c.same {
				want = 1
			}
			a, b := rulestest.MetricsRequest(c.a), rulestest.MetricsRequest(c.b)
			require.Equal(t, want, factsOf(t, "a", a, b).Series.Count(), "in two requests")
			require.Equal(t, want, factsOf(t, "a", rulestest.MetricsRequest(c.a, c.b)).Series.Count(), "in one")

			// Another process computes the same series, and committed series are not sent again.
			filter := delta.NewFilter(12)
			e := NewEvaluator(Config{Filter: filter})
			d := facts(t, e, input(), a)
			d.Merge(facts(t, NewEvaluator(Config{}), input(), b))
			s := d.Organizations[org].Services[assay.ServiceKey{Name: "a", Environment: "test"}]
			require.Equal(t, want, s.Series.Count())
			for _, h := range d.Remember {
				filter.Add(h)
			}
			d = facts(t, e, input(), a)
			s = d.Organizations[org].Services[assay.ServiceKey{Name: "a", Environment: "test"}]
			require.True(t, s.Series.Empty())
		})
	}
}

// TestSeriesOfAllTypes: each data point is a series, regardless of its type.
func TestSeriesOfAllTypes(t *testing.T) {
	r := rulestest.Service("a")
	s := factsOf(t, "a", rulestest.MetricsRequest(rulestest.Metrics(r,
		rulestest.Gauge("x", "1", rulestest.Point(rulestest.T0, "k", 1), rulestest.Point(rulestest.T0, "k", 2), rulestest.Point(rulestest.T0.Add(-time.Hour), "k", 1)),
		rulestest.Sum("x", "1"), rulestest.Histogram("h", "s", rulestest.T0, []float64{1, 2, 3}),
		rulestest.ExponentialHistogram("e", "s"), rulestest.Summary("s", "s"))))
	require.EqualValues(t, 6, s.Series.Count())
	s = factsOf(t, "a", rulestest.LogsRequest(rulestest.Logs(r, rulestest.Log("x"))), rulestest.Traces(rulestest.Spans(r, rulestest.Span(1, 1, 0))))
	require.True(t, s.Series.Empty())
}

// TestSeriesNotCounted checks the data points that are not evaluated.
func TestSeriesNotCounted(t *testing.T) {
	r := rulestest.Service("a")
	s := factsOf(t, "a", rulestest.MetricsRequest(rulestest.Metrics(r, rulestest.Gauge("x", "1", rulestest.Point(rulestest.T0.Add(-31*day))))))
	require.True(t, s.Series.Empty(), "before the window")
	o, _ := evaluateWithQuota(t, &quota{services: 1, names: 1}, rulestest.MetricsRequest(
		rulestest.Metrics(r, rulestest.Gauge("x", "1"), rulestest.Gauge("past the quota", "1")),
		rulestest.Metrics(rulestest.Service("past the quota"), rulestest.Gauge("x", "1"))))
	require.Len(t, o.Services, 2)
	for k, s := range o.Services {
		require.Equal(t, !k.Overflow(), s.Series.Count() == 1, k.Name)
	}
}

// TestSeriesTime: by default days; of a window of few steps the steps.
func TestSeriesTime(t *testing.T) {
	at := func(clock string) delta.Bucket {
		parsed, err := time.Parse(time.DateTime, clock)
		require.NoError(t, err)
		return delta.Bucket(parsed.Unix())
	}
	for _, c := range []struct {
		window, step time.Duration
		bucket, want string
	}{
		{30 * day, time.Hour, "2026-10-15 00:00:00", "2026-10-15 23:00:00"},
		{30 * day, time.Hour, "2026-10-15 23:00:00", "2026-10-15 23:00:00"},
		{30*day + 59*time.Minute, time.Hour, "2026-10-16 01:00:00", "2026-10-16 23:00:00"},
		{time.Minute, time.Second, "2026-10-15 00:00:03", "2026-10-15 00:00:03"},
		{time.Minute, 5 * time.Second, "2026-10-15 00:00:05", "2026-10-15 00:00:05"},
		{7 * day, time.Hour, "2026-10-15 04:00:00", "2026-10-15 05:00:00"},
		{-time.Hour, time.Hour, "2026-10-15 04:00:00", "2026-10-15 04:00:00"},
	} {
		e := NewEvaluator(Config{Step: c.step})
		e.in = Input{Start: rulestest.Nano(rulestest.T0.Add(-c.window)), Arrival: rulestest.Nano(rulestest.T0)}
		require.Equal(t, at(c.want), e.seriesTime(at(c.bucket)), "%v by %v", c.window, c.step)
	}
}

// TestSeriesBound: the number of series that a request adds to a batch is limited.
func TestSeriesBound(t *testing.T) {
	var points []*metricspb.NumberDataPoint
	for n := range 6000 {
		points = append(points, &metricspb.NumberDataPoint{
			TimeUnixNano: rulestest.Nano(rulestest.T0), Attributes: rulestest.Attrs("k", n),
			Exemplars: []*metricspb.Exemplar{{TraceId: rulestest.TraceID(n), SpanId: rulestest.SpanID(1), TimeUnixNano: 1}},
		})
	}
	var services []*metricspb.ResourceMetrics
	for i := range 200 {
		services = append(services, rulestest.Metrics(rulestest.Service(fmt.Sprint(i)), rulestest.Gauge("x", "1", points...)))
	}
	q := rulestest.MetricsRequest(services...)
	var b Batch
	require.ErrorContains(t, NewEvaluator(Config{}).Evaluate(t.Context(), q.Signal, q.Body, unlimited(), &b), errTooMany)
	require.Greater(t, b.series, maxSeries)
	require.Less(t, b.series, maxSeries+8200)
	b.Reset()
	require.Zero(t, b.series)
}
