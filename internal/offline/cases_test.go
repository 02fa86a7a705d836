// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/offline"
	"assay/internal/report"
)

const testdata = "../../testdata"

// file returns an input that reads a file.
func file(path string) offline.Input {
	return offline.Input{Name: filepath.Base(path), Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// wantCase holds the expected verdicts of one rule case.
type wantCase struct {
	About         string                 `json:"about"`
	Services      map[string]wantService `json:"services"`
	ServicesExact bool                   `json:"services_exact"`
	Sorted        bool                   `json:"sorted"`
	Totals        map[string]uint64      `json:"totals"`
	Forbidden     []string               `json:"forbidden"`
}

// wantService holds the expectations for one service.
type wantService struct {
	Failed       []string                     `json:"failed"`
	Passed       []string                     `json:"passed"`
	NotEvaluated []string                     `json:"not_evaluated"`
	FailedExact  bool                         `json:"failed_exact"`
	Evaluated    []string                     `json:"evaluated"`
	Score        *int                         `json:"score"`
	ScoreExact   *float64                     `json:"score_exact"`
	Category     *string                      `json:"category"`
	Insights     map[string]map[string]string `json:"insights"`
	NoInsights   []string                     `json:"no_insights"`
	Attributes   map[string]map[string]any    `json:"attributes"`
	Optional     bool                         `json:"optional"`
}

// TestCases runs the rules on cases with known verdicts. Each case is a file of OTLP/JSON with an entry in
// expected.json.
func TestCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testdata, "cases", "expected.json"))
	require.NoError(t, err)
	var cases map[string]wantCase
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := cases[name]
			r, err := offline.Score(t.Context(), offline.Config{
				Inputs: []offline.Input{file(filepath.Join(testdata, "cases", name+".jsonl.gz"))},
			})
			require.NoError(t, err)
			checkCase(t, want, r)
		})
	}
}

func checkCase(t *testing.T, want wantCase, r *report.Report) {
	t.Helper()
	found := make(map[string]report.Service)
	var names []string
	for _, s := range r.Services {
		found[strings.Join([]string{s.Namespace, s.Name, s.Environment, s.Version}, "|")] = s
		names = append(names, s.Name)
		require.True(t, slices.IsSorted(s.EvaluatedRuleIDs), "rule ids sorted")
		require.True(t, slices.IsSorted(s.FailedRuleIDs), "rule ids sorted")
	}
	require.True(t, slices.IsSorted(names), "services in name order: %v", names)
	for key, w := range want.Services {
		s, ok := find(found, key)
		if !ok && w.Optional {
			continue
		}
		require.True(t, ok, "service %s is in the report", key)
		checkService(t, key, w, s)
	}
	if want.ServicesExact {
		require.Len(t, r.Services, len(want.Services))
	}
	totals := map[string]uint64{
		"spans": r.Totals.Spans, "metric_data_points": r.Totals.MetricDataPoints,
		"log_records": r.Totals.LogRecords, "bytes": r.Totals.Bytes,
	}
	for k, n := range want.Totals {
		require.Equal(t, n, totals[k], "totals.%s", k)
	}
	var printed strings.Builder
	require.NoError(t, json.NewEncoder(&printed).Encode(r))
	everything := printed.String() + fmt.Sprintf("%+v", r)
	for i, text := range want.Forbidden {
		require.NotContains(t, everything, text, "sensitive value %d", i+1)
	}
}

// find returns the service with a key, whose parts may be "*".
func find(found map[string]report.Service, key string) (report.Service, bool) {
	if s, ok := found[key]; ok {
		return s, true
	}
	want := strings.Split(key, "|")
	for k, s := range found {
		got := strings.Split(k, "|")
		same := len(got) == len(want)
		for i := 0; same && i < len(want); i++ {
			same = want[i] == "*" || want[i] == got[i]
		}
		if same {
			return s, true
		}
	}
	return report.Service{}, false
}

func checkService(t *testing.T, key string, w wantService, s report.Service) {
	t.Helper()
	failed := slices.Clone(w.Failed)
	for _, id := range w.Failed {
		require.Contains(t, s.EvaluatedRuleIDs, id, "%s: %s is evaluated", key, id)
		require.Contains(t, s.FailedRuleIDs, id, "%s: %s fails", key, id)
	}
	for _, id := range w.Passed {
		require.Contains(t, s.EvaluatedRuleIDs, id, "%s: %s is evaluated", key, id)
		require.NotContains(t, s.FailedRuleIDs, id, "%s: %s passes", key, id)
	}
	for _, id := range w.NotEvaluated {
		require.NotContains(t, s.EvaluatedRuleIDs, id, "%s: %s is not evaluated", key, id)
	}
	if w.FailedExact {
		require.ElementsMatch(t, failed, s.FailedRuleIDs, "%s: all that fails", key)
	}
	if w.Evaluated != nil {
		require.ElementsMatch(t, w.Evaluated, s.EvaluatedRuleIDs, "%s: all that is evaluated", key)
	}
	if w.Score != nil {
		require.NotNil(t, s.Score, "%s has a score", key)
		require.Equal(t, *w.Score, *s.Score, "%s: score", key)
	}
	if w.ScoreExact != nil {
		require.NotNil(t, s.ScoreExact, "%s has a score", key)
		require.InDelta(t, *w.ScoreExact, *s.ScoreExact, 0.0051, "%s: exact score", key)
	}
	if w.Category != nil {
		require.Equal(t, *w.Category, s.Category, "%s: category", key)
	}
	byName, byRule := make(map[string]report.Insight), make(map[string]report.Insight)
	for _, i := range s.Insights {
		require.NotContains(t, byName, i.Name, "%s: one insight of a type", key)
		byName[i.Name], byRule[i.RuleID] = i, i
	}
	for name, about := range w.Insights {
		require.Contains(t, byName, name, "%s", key)
		for k, v := range about {
			require.Equal(t, v, map[string]string{"rule_id": byName[name].RuleID, "impact": string(byName[name].Impact)}[k], "%s: %s of %s", key, k, name)
		}
	}
	for _, name := range w.NoInsights {
		require.NotContains(t, byName, name, "%s", key)
	}
	for rule, evidence := range w.Attributes {
		for k, v := range evidence {
			checkEvidence(t, key+": "+rule+" "+k, v, byRule[rule].Attributes[k])
		}
	}
}

// checkEvidence compares one piece of evidence with a value, a list of required items, or a limit.
func checkEvidence(t *testing.T, about string, want, got any) {
	t.Helper()
	var list []any
	text, isText := got.(string)
	isList := isText && json.Unmarshal([]byte(text), &list) == nil
	switch w := want.(type) {
	case []any:
		require.True(t, isList, "%s is a list, not %v", about, got)
		for _, item := range w {
			require.Contains(t, list, item, about)
		}
	case map[string]any:
		if limit, ok := w["items_at_most"].(float64); ok {
			require.True(t, isList && len(list) > 0 && len(list) <= int(limit), "%s has 1 to %v items: %v", about, limit, got)
		}
		if limit, ok := w["object_bytes_at_most"].(float64); ok {
			require.True(t, isText && len(text) <= int(limit) && json.Valid([]byte(text)), "%s has at most %v bytes", about, limit)
		}
	default:
		if isList {
			require.Contains(t, list, want, about)
			return
		}
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), about)
	}
}
