// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay"
	"assay/internal/fair"
)

const org = "0b6cbb0e-3c0c-4a52-8f0e-1c6c1a7b9d10"

var now = time.Date(2026, time.November, 20, 12, 30, 0, 0, time.UTC)

// store is a UsageStore of one organization.
type store struct {
	usage []*assay.ServiceUsage
	err   error
}

func (s store) FindUsage(_ context.Context, organizationID string) ([]*assay.ServiceUsage, error) {
	if organizationID != org {
		return nil, nil
	}
	return s.usage, s.err
}

// some are round prices.
var some = Prices{TracesPerGB: 1, MetricsPerGB: 2, LogsPerGB: 4, SeriesPer1000: 8, Currency: "EUR"}

type testingT interface {
	require.TestingT
	Helper()
}

func analyst(t testingT, p Prices, s store) *Analyst {
	t.Helper()
	a, err := New(Config{Store: s, Prices: p, Now: func() time.Time { return now }})
	require.NoError(t, err)
	return a
}

func analyze(t testingT, p Prices, usage ...*assay.ServiceUsage) *assay.ServiceAnalytics {
	t.Helper()
	out, err := analyst(t, p, store{usage: usage}).Analyze(context.Background(), org, 100)
	require.NoError(t, err)
	return out
}

// TestAnalysisTakesTurns: usage is computed while the organization holds a slot of the CPUs.
func TestAnalysisTakesTurns(t *testing.T) {
	cpu := fair.NewSemaphore(2, 1)
	a, err := New(Config{Store: store{}, Prices: some, Now: func() time.Time { return now }, CPU: cpu})
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, cpu.Acquire(t.Context(), org))
	_, err = a.Analyze(ended, org, 100)
	require.ErrorIs(t, err, context.Canceled)
	_, err = a.Analyze(ended, "other", 100)
	require.NoError(t, err)
	cpu.Release(org)
	for range 3 {
		_, err = a.Analyze(ended, org, 100)
		require.NoError(t, err)
	}
}

// sent returns a version of a service that sent the given GB of each signal.
func sent(id string, k assay.ServiceKey, seen time.Time, tracesGB, metricsGB, logsGB, series uint64) *assay.ServiceUsage {
	return &assay.ServiceUsage{
		Service:      assay.Service{ID: id, OrganizationID: org, ServiceKey: k, LastSeenAt: seen},
		Traces:       assay.SignalUsage{Items: 1000 * tracesGB, Bytes: tracesGB * 1e9},
		Metrics:      assay.SignalUsage{Items: 1000 * metricsGB, Bytes: metricsGB * 1e9},
		Logs:         assay.SignalUsage{Items: 1000 * logsGB, Bytes: logsGB * 1e9},
		ActiveSeries: series,
	}
}

func TestVersionsTogether(t *testing.T) {
	shop := assay.ServiceKey{Namespace: "shop", Name: "checkout", Environment: "production"}
	v := func(version string) assay.ServiceKey { k := shop; k.Version = version; return k }
	out := analyze(t, some,
		sent("b", v("1.1"), now, 10, 20, 30, 4000),
		sent("a", v("1.0"), now.Add(-time.Hour), 1, 2, 3, 500),
		sent("c", v("1.2"), now.Add(-time.Minute), 0, 0, 0, 0),
		sent("z", assay.ServiceKey{Name: "checkout", Environment: "production"}, now, 0, 1, 0, 0),
	)
	require.Equal(t, &assay.ServiceAnalytics{
		Start: now.Add(-30 * 24 * time.Hour), End: now, Currency: "EUR",
		TotalBytes: 67e9, TotalCost: 11 + 44 + 132 + 36 + 2,
		Services: []assay.ServiceCost{
			{
				ID: "b", Name: "checkout", Namespace: "shop", Environment: "production", Version: "1.1",
				Traces:       assay.SignalUsage{Items: 11_000, Bytes: 11e9},
				Metrics:      assay.SignalUsage{Items: 22_000, Bytes: 22e9},
				Logs:         assay.SignalUsage{Items: 33_000, Bytes: 33e9},
				ActiveSeries: 4500, EstimatedCost: 11 + 44 + 132 + 36,
				TracesCost: assay.SignalCost{Estimated: 11}, MetricsCost: assay.SignalCost{Estimated: 44 + 36}, LogsCost: assay.SignalCost{Estimated: 132},
			},
			{
				ID: "z", Name: "checkout", Environment: "production", Metrics: assay.SignalUsage{Items: 1000, Bytes: 1e9},
				MetricsCost: assay.SignalCost{Estimated: 2}, EstimatedCost: 2,
			},
		},
	}, out)
}

func TestOrderAndLimit(t *testing.T) {
	key := func(name, namespace, environment string) assay.ServiceKey {
		return assay.ServiceKey{Name: name, Namespace: namespace, Environment: environment}
	}
	usage := []*assay.ServiceUsage{
		sent("1", key("b", "", ""), now, 1, 0, 0, 0),
		sent("2", key("a", "y", "p"), now, 0, 1, 0, 0),
		sent("3", key("a", "x", "q"), now, 0, 0, 1, 0),
		sent("4", key("a", "x", "p"), now, 1, 0, 0, 0),
		sent("5", key("z", "", ""), now, 1, 1, 0, 0),
		sent("6", key("nothing", "", ""), now, 0, 0, 0, 9),
	}
	ids := func(s []assay.ServiceCost) (ids []string) {
		for _, c := range s {
			ids = append(ids, c.ID)
		}
		return ids
	}
	all := []string{"5", "4", "3", "2", "1", "6"}
	a := analyst(t, some, store{usage: usage})
	var totals []float64
	for limit := range 8 {
		out, err := a.Analyze(context.Background(), org, limit-1)
		require.NoError(t, err)
		require.Equal(t, all[:min(max(limit-1, 0), 6)], append([]string{}, ids(out.Services)...))
		require.EqualValues(t, 6e9, out.TotalBytes)
		totals = append(totals, out.TotalCost)
	}
	require.Len(t, slices.Compact(totals), 1, "totals of all services, listed or not")

	out, err := a.Analyze(context.Background(), "another", 10)
	require.NoError(t, err)
	require.Empty(t, out.Services)
	require.Zero(t, out.TotalCost)
}

func TestSameLastSeen(t *testing.T) {
	k := func(version string) assay.ServiceKey { return assay.ServiceKey{Name: "a", Version: version} }
	for range 2 {
		out := analyze(t, some, sent("b", k("2"), now, 1, 0, 0, 0), sent("a", k("1"), now, 1, 0, 0, 0))
		require.Equal(t, "a", out.Services[0].ID, "the smallest id")
		require.Equal(t, "1", out.Services[0].Version)
	}
}

func TestErrors(t *testing.T) {
	unavailable := assay.Errorf(assay.CodeUnavailable, "the store is unavailable")
	_, err := analyst(t, some, store{err: unavailable}).Analyze(context.Background(), org, 1)
	require.ErrorIs(t, err, unavailable)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))

	window := 7 * 24 * time.Hour
	a, err := New(Config{Store: store{}, Prices: some, Window: window})
	require.NoError(t, err)
	out, err := a.Analyze(context.Background(), org, 1)
	require.NoError(t, err)
	require.Equal(t, window, out.End.Sub(out.Start))
	require.NotZero(t, out.End)
}

func TestPrices(t *testing.T) {
	require.NoError(t, DefaultPrices().Validate())
	require.NoError(t, Prices{Currency: "CHF"}.Validate(), "free of charge")
	for name, change := range map[string]func(*Prices){
		"negative":          func(p *Prices) { p.TracesPerGB = -0.01 },
		"not a number":      func(p *Prices) { p.MetricsPerGB = math.NaN() },
		"infinite":          func(p *Prices) { p.LogsPerGB = math.Inf(1) },
		"too large":         func(p *Prices) { p.SeriesPer1000 = 1.1e9 },
		"negative infinity": func(p *Prices) { p.SeriesPer1000 = math.Inf(-1) },
		"no currency":       func(p *Prices) { p.Currency = "" },
		"lower case":        func(p *Prices) { p.Currency = "usd" },
		"symbol":            func(p *Prices) { p.Currency = "US$" },
		"four letters":      func(p *Prices) { p.Currency = "EURO" },
		"with a newline":    func(p *Prices) { p.Currency = "USD\n" },
	} {
		t.Run(name, func(t *testing.T) {
			p := some
			change(&p)
			err := p.Validate()
			require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
			_, err = New(Config{Store: store{}, Prices: p})
			require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
		})
	}
}

func TestAvoidable(t *testing.T) {
	type insights = []assay.InsightUsage
	for name, c := range map[string]struct {
		insights insights
		want     float64 // of 1 GB of traces at 1, 1 GB of metrics at 2, 1 GB of logs at 4, 20,000 series at 0.008
	}{
		"none":                {nil, 0},
		"unknown":             {insights{{Type: "no_such_type", Failed: 1, Observed: 1}}, 0},
		"no saving":           {insights{{Type: "orphan_spans", Failed: 1000, Observed: 1000}}, 0},
		"internal":            {insights{{Type: "excessive_internal_spans", Failed: 10, Observed: 50}}, 0.11},
		"internal, all":       {insights{{Type: "excessive_internal_spans", Failed: 1000, Observed: 1000}}, 1},
		"short":               {insights{{Type: "excessive_short_spans", Failed: 20, Observed: 50}}, 0.22},
		"both":                {insights{{Type: "excessive_short_spans", Failed: 20, Observed: 50}, {Type: "excessive_internal_spans", Failed: 10, Observed: 50}}, 1 - 0.89*0.78},
		"debug":               {insights{{Type: "debug_logs_in_production", Failed: 15, Observed: 30}}, 4 * 0.125},
		"debug, all days":     {insights{{Type: "debug_logs_in_production", Failed: 30, Observed: 30}}, 1},
		"debug, days unknown": {insights{{Type: "debug_logs_in_production", Failed: 15}}, 0},
		"unbounded":           {insights{{Type: "unbounded_metric_attributes", Failed: 1, Observed: 9}}, 2 + 80},
		"no longer failing": {insights{
			{Type: "excessive_internal_spans", Observed: 50},
			{Type: "debug_logs_in_production", Observed: 30},
			{Type: "unbounded_metric_attributes", Observed: 9},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u := sent("a", assay.ServiceKey{Name: "a"}, now, 1, 1, 1, 20_000)
			u.Insights = c.insights
			row := analyze(t, some, u).Services[0]
			require.InDelta(t, c.want, row.AvoidableCost, 1e-12)
			require.InDelta(t, 1+2+4+160, row.EstimatedCost, 1e-12)
			require.InDelta(t, c.want, row.TracesCost.Avoidable+row.MetricsCost.Avoidable+row.LogsCost.Avoidable, 1e-12)
			require.InDelta(t, 2+160, row.MetricsCost.Estimated, 1e-12, "with the series")
		})
	}
	t.Run("few series", func(t *testing.T) {
		u := sent("a", assay.ServiceKey{Name: "a"}, now, 0, 100, 0, 9_000)
		u.Insights = insights{{Type: "unbounded_metric_attributes", Failed: 5, Observed: 9}}
		require.InDelta(t, 200*0.5, analyze(t, some, u).Services[0].AvoidableCost, 1e-12, "data points only")
	})
	t.Run("nothing sent", func(t *testing.T) {
		u := sent("a", assay.ServiceKey{Name: "a"}, now, 0, 0, 0, 0)
		u.Insights = example().Insights
		require.Zero(t, analyze(t, some, u).Services[0].AvoidableCost)
	})
	t.Run("of its version only", func(t *testing.T) {
		u := sent("a", assay.ServiceKey{Name: "a", Version: "1"}, now, 1, 0, 0, 0)
		u.Insights = insights{{Type: "excessive_internal_spans", Failed: 1000, Observed: 1000}}
		other := sent("b", assay.ServiceKey{Name: "a", Version: "2"}, now, 3, 0, 0, 0)
		require.InDelta(t, 1, analyze(t, some, u, other).Services[0].AvoidableCost, 1e-12)
	})
}

// usages draws the usage of an organization with few names, so that services have several versions.
func usages(t *rapid.T) []*assay.ServiceUsage {
	n := rapid.IntRange(0, 12).Draw(t, "services")
	few := rapid.SampledFrom([]string{"", "a", "b"})
	amount := rapid.OneOf(rapid.Uint64Range(0, 100_000), rapid.Uint64Range(0, 1<<50), rapid.Just(uint64(0)))
	signal := rapid.Custom(func(t *rapid.T) assay.SignalUsage {
		return assay.SignalUsage{Items: amount.Draw(t, "items"), Bytes: amount.Draw(t, "bytes")}
	})
	list := make([]*assay.ServiceUsage, n)
	for i := range list {
		u := &assay.ServiceUsage{
			Service: assay.Service{
				ID: fmt.Sprint("id ", i),
				ServiceKey: assay.ServiceKey{
					Name: few.Draw(t, "name"), Namespace: few.Draw(t, "namespace"), Environment: few.Draw(t, "environment"), Version: fmt.Sprint(i),
				},
				LastSeenAt: now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "hours")) * time.Hour),
			},
			Traces: signal.Draw(t, "traces"), Metrics: signal.Draw(t, "metrics"), Logs: signal.Draw(t, "logs"),
			ActiveSeries: amount.Draw(t, "series"),
		}
		for _, m := range methods {
			if rapid.Bool().Draw(t, m.insight) && !slices.ContainsFunc(u.Insights, func(i assay.InsightUsage) bool { return i.Type == m.insight }) {
				u.Insights = append(u.Insights, assay.InsightUsage{Type: m.insight, Observed: amount.Draw(t, "observed"), Failed: amount.Draw(t, "failed")})
			}
		}
		list[i] = u
	}
	return list
}

func prices(t *rapid.T) Prices {
	price := rapid.OneOf(rapid.Float64Range(0, 10), rapid.Float64Range(0, maxPrice), rapid.Just(0.0))
	return Prices{
		TracesPerGB: price.Draw(t, "traces"), MetricsPerGB: price.Draw(t, "metrics"), LogsPerGB: price.Draw(t, "logs"),
		SeriesPer1000: price.Draw(t, "series"), Currency: "USD",
	}
}

// TestProperties checks invariants for random usage and prices.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, p := usages(t), prices(t)
		out := analyze(t, p, list...)

		shuffled := rapid.Permutation(list).Draw(t, "order")
		require.Equal(t, out, analyze(t, p, shuffled...), "the order of services does not matter")

		var bytes, items, series uint64
		cost := 0.0
		for i, c := range out.Services {
			for _, v := range []float64{c.EstimatedCost, c.AvoidableCost} {
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0) || v < 0, "%v", v)
			}
			require.LessOrEqual(t, c.AvoidableCost, c.EstimatedCost)
			estimated, avoidable := 0.0, 0.0
			for _, s := range []assay.SignalCost{c.TracesCost, c.MetricsCost, c.LogsCost} {
				require.LessOrEqual(t, s.Avoidable, s.Estimated)
				estimated, avoidable = estimated+s.Estimated, avoidable+s.Avoidable
			}
			require.InEpsilon(t, c.EstimatedCost+1, estimated+1, 1e-9, "costs of signals add up")
			require.InEpsilon(t, c.AvoidableCost+1, avoidable+1, 1e-9)
			if i > 0 {
				require.LessOrEqual(t, c.Bytes(), out.Services[i-1].Bytes())
			}
			bytes += c.Bytes()
			items += c.Traces.Items + c.Metrics.Items + c.Logs.Items
			series += c.ActiveSeries
			cost += c.EstimatedCost
		}
		for _, u := range list {
			bytes -= u.Bytes()
			items -= u.Traces.Items + u.Metrics.Items + u.Logs.Items
			series -= u.ActiveSeries
		}
		require.Zero(t, bytes)
		require.Zero(t, items)
		require.Zero(t, series)
		require.InEpsilon(t, cost+1, out.TotalCost+1, 1e-9)

		cut, err := analyst(t, p, store{usage: list}).Analyze(context.Background(), org, 2)
		require.NoError(t, err)
		require.Equal(t, out.Services[:min(2, len(out.Services))], cut.Services)
		cut.Services = out.Services
		require.Equal(t, out, cut)

		for _, u := range list {
			u.Insights = nil
		}
		for _, c := range analyze(t, p, list...).Services {
			require.Zero(t, c.AvoidableCost)
		}
	})
}

// BenchmarkAnalyze analyzes 10,000 services with three versions each.
func BenchmarkAnalyze(b *testing.B) {
	const services, versions = 10_000, 3
	var list []*assay.ServiceUsage
	for i := range services * versions {
		u := sent(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i*2654435761%(1<<32)), assay.ServiceKey{
			Namespace: fmt.Sprint("team-", i%40), Name: fmt.Sprintf("service-%05d", i%services), Environment: "production", Version: fmt.Sprint(i / services),
		}, now, uint64(i%97), uint64(i%53), uint64(i%31), uint64(i%20_000))
		u.Insights = example().Insights
		list = append(list, u)
	}
	a := analyst(b, DefaultPrices(), store{usage: list})
	b.ReportAllocs()
	for b.Loop() {
		out, err := a.Analyze(context.Background(), org, 50)
		if err != nil || len(out.Services) != 50 {
			b.Fatal(err)
		}
	}
}
