// SPDX-License-Identifier: Apache-2.0

package usage

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/rules/catalog"
)

var update = flag.Bool("update", false, "rewrite docs/costs.md")

//go:embed costs.md.tmpl
var documentTemplate string

// example is the service of the example in docs/costs.md.
func example() *assay.ServiceUsage {
	return &assay.ServiceUsage{
		Service:      assay.Service{ID: "1", ServiceKey: assay.ServiceKey{Name: "checkout"}},
		Traces:       assay.SignalUsage{Items: 100_000_000, Bytes: 60e9},
		Metrics:      assay.SignalUsage{Items: 40_000_000, Bytes: 8e9},
		Logs:         assay.SignalUsage{Items: 300_000_000, Bytes: 120e9},
		ActiveSeries: 50_000,
		Insights: []assay.InsightUsage{
			{Type: "excessive_internal_spans", Observed: 5_000_000, Failed: 2_000_000},
			{Type: "excessive_short_spans", Observed: 5_000_000, Failed: 1_000_000},
			{Type: "debug_logs_in_production", Observed: 30, Failed: 24},
			{Type: "unbounded_metric_attributes", Observed: 1_000, Failed: 700},
			{Type: "missing_log_severity", Observed: 300_000_000, Failed: 300_000_000},
		},
	}
}

// TestExample computes the example of docs/costs.md by hand.
func TestExample(t *testing.T) {
	u := example()
	row := analyze(t, DefaultPrices(), u).Services[0]
	require.InDelta(t, 30+60+325, row.EstimatedCost, 1e-9)
	require.InDelta(t, 0.3058*30+0.2*60+0.8*325, row.AvoidableCost, 1e-9)
}

// TestDocument: docs/costs.md matches the table and the example.
func TestDocument(t *testing.T) {
	u := example()
	row := analyze(t, DefaultPrices(), u).Services[0]
	byPart := func(p part) (cost, saved string) {
		only := DefaultPrices().costs(u.Traces.Bytes, u.Metrics.Bytes, u.Logs.Bytes, u.ActiveSeries)
		for other := range only {
			if part(other) != p {
				only[other] = 0
			}
		}
		savings := avoidable(u, &only)
		return money(only.sum()), money(savings.sum())
	}
	cost, saved := map[string]string{}, map[string]string{}
	for p := range partCount {
		name := strings.ToUpper(p.String()[:1]) + p.String()[1:]
		cost[name], saved[name] = byPart(p)
	}
	type documented struct{ Insight, Part, Formula, Reason string }
	var rows []documented
	for _, m := range methods {
		rows = append(rows, documented{m.insight, m.part.String(), m.formula, m.reason})
	}
	tmpl, err := template.New("costs").Option("missingkey=error").Funcs(template.FuncMap{
		"money": func(v any) string {
			if s, ok := v.(string); ok {
				return s
			}
			return money(v.(float64))
		},
		"num": func(n uint64) string { return thousands(n) },
		"gb":  func(n uint64) string { return strconv.FormatFloat(float64(n)/1e9, 'f', -1, 64) },
	}).Parse(documentTemplate)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, tmpl.Execute(&b, map[string]any{
		"Prices": DefaultPrices(), "Methods": rows, "Example": u, "Row": row, "Costs": cost, "Saved": saved,
	}))
	want := strings.TrimRight(b.String(), "\n") + "\n"
	path := filepath.Join("..", "..", "docs", "costs.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/costs.md is not current: run go test ./internal/usage -run TestDocument -update")
}

func money(v float64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", v)
}

func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// String is the name of the part in the document.
func (p part) String() string {
	return [partCount]string{"traces", "metrics", "logs", "series"}[p]
}

// TestEveryInsightType: the table has exactly the known insight types, each part of the cost at most once.
func TestEveryInsightType(t *testing.T) {
	known := map[string]bool{}
	seen := map[string]bool{}
	for _, m := range methods {
		_, ok := catalog.ByInsightType(m.insight)
		require.True(t, ok, "no insight type %q", m.insight)
		require.NotEmpty(t, m.reason)
		require.Equal(t, m.formula != "", m.share != nil, m.insight)
		key := m.insight + " " + m.part.String()
		require.False(t, seen[key], key)
		seen[key], known[m.insight] = true, true
	}
	for _, r := range catalog.All() {
		require.True(t, known[r.Info().Name], "no row for %q", r.Info().Name)
	}
}
