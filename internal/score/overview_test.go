// SPDX-License-Identifier: Apache-2.0

package score_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/score"
)

// groupOf returns a group of services with the same failing and muted rules, and their score.
func groupOf(t *testing.T, services int, evaluated, failed, muted []string) (assay.ScoreGroup, float64) {
	t.Helper()
	var v [catalog.Count]delta.Count
	for _, id := range evaluated {
		r, ok := catalog.ByID(id)
		require.True(t, ok, id)
		v[r].Observed = 1
	}
	for _, id := range failed {
		r, ok := catalog.ByID(id)
		require.True(t, ok, id)
		v[r].Failed = 1
	}
	value, evaluated, failed, ok := score.Value(&v)
	require.True(t, ok)
	g := assay.ScoreGroup{
		EvaluatedRuleIDs: evaluated, Services: services,
		Categories: map[string]int{assay.Category(assay.RoundScore(value)): services}, Failing: map[string]int{},
	}
	for _, id := range failed {
		if !slices.Contains(muted, id) {
			g.Failing[id] = services
		}
	}
	return g, value
}

// TestGainEqualsFix compares Gain with the score after a fix.
func TestGainEqualsFix(t *testing.T) {
	type group struct {
		services          int
		evaluated, failed []string
	}
	all := []group{
		{3, []string{"RES-005", "RES-001", "SPA-001"}, []string{"RES-005"}},
		{2, []string{"RES-005", "LOG-001"}, []string{"RES-005", "LOG-001"}},
		{5, []string{"RES-001", "SPA-001", "LOG-001"}, nil},
		{1, []string{"SPA-001"}, []string{"SPA-001"}},
	}
	groups := func(fixed string) (out []assay.ScoreGroup, mean float64) {
		services := 0
		for _, g := range all {
			var failed []string
			for _, id := range g.failed {
				if id != fixed {
					failed = append(failed, id)
				}
			}
			group, value := groupOf(t, g.services, g.evaluated, failed, nil)
			out = append(out, group)
			mean += value * float64(g.services)
			services += g.services
		}
		return out, mean / float64(services)
	}
	now, before := groups("")
	counts := []assay.InsightTypeCount{
		{Type: catalog.LOG001.Info().Name, Active: 2},
		{Type: catalog.RES005.Info().Name, Active: 5},
		{Type: catalog.SPA001.Info().Name, Active: 1},
		{Type: catalog.QuotaExceeded.Info().Name, Active: 1},
		{Type: "of_a_newer_version", Active: 9},
		{Type: catalog.MET001.Info().Name, Active: 0},
	}
	fixes := score.Fixes(now, counts)
	require.Len(t, fixes, 4)
	require.Equal(t, catalog.RES005, fixes[0].Rule, "five Critical failures have the largest weight")
	require.Equal(t, 5*catalog.RES005.Info().Impact.Weight(), fixes[0].Weight)
	for _, f := range fixes {
		want := 0.0
		if f.Rule.ID() != "" {
			_, after := groups(f.Rule.ID())
			want = after - before
			require.Positive(t, want)
		}
		require.InDelta(t, want, f.Gain, 1e-9, f.Rule.Info().Name)
	}
}

func TestMutedInsightsGainNothing(t *testing.T) {
	counts := []assay.InsightTypeCount{{Type: catalog.RES005.Info().Name, Active: 1}}
	one, _ := groupOf(t, 1, []string{"RES-005", "RES-001"}, []string{"RES-005"}, nil)
	muted, _ := groupOf(t, 3, []string{"RES-005"}, []string{"RES-005"}, []string{"RES-005"})
	fixes := score.Fixes([]assay.ScoreGroup{one, muted}, counts)
	require.Len(t, fixes, 1)
	weight := func(r catalog.Rule) float64 { return float64(r.Info().Impact.Weight()) }
	require.InDelta(t, 100*weight(catalog.RES005)/(weight(catalog.RES005)+weight(catalog.RES001))/4, fixes[0].Gain, 1e-9)
	require.Empty(t, score.Fixes(nil, nil))
	require.Zero(t, score.Fixes(nil, counts)[0].Gain, "not scored yet")
}

func TestBandsOfGroups(t *testing.T) {
	bands := score.Bands([]assay.ScoreGroup{
		{Categories: map[string]int{"Excellent": 2, "Poor": 1}}, {Categories: map[string]int{"Excellent": 3, "Needs Improvement": 4}}, {},
	})
	require.Equal(t, []score.Band{{"Excellent", 5}, {"Good", 0}, {"Needs Improvement", 4}, {"Poor", 1}}, bands)
}

func TestStates(t *testing.T) {
	var v [catalog.Count]delta.Count
	v[catalog.RES001] = delta.Count{Observed: 9}
	v[catalog.RES005] = delta.Count{Observed: 9, Failed: 2}
	v[catalog.SPA001] = delta.Count{Failed: 2} // the observation left the window before its failure
	v[catalog.QuotaExceeded] = delta.Count{Observed: 1, Failed: 1}
	states := score.States(&v)
	require.Len(t, states, catalog.Scored)
	for i, s := range states {
		require.Equal(t, catalog.Rule(i), s.Rule)
		switch s.Rule {
		case catalog.RES001:
			require.Equal(t, score.RuleState{Rule: s.Rule, State: score.Passed, Observed: 9}, s)
		case catalog.RES005:
			require.Equal(t, score.RuleState{Rule: s.Rule, State: score.Failed, Observed: 9, Failed: 2}, s)
		default:
			require.Equal(t, score.RuleState{Rule: s.Rule, State: score.NotEvaluated}, s)
		}
	}
}

func TestChanges(t *testing.T) {
	at := func(hours int) time.Time { return time.Date(2026, 11, 1, hours, 0, 0, 0, time.UTC) }
	history := []*assay.Score{
		{CalculatedAt: at(0), EvaluatedRuleIDs: []string{"RES-001", "RES-005"}, FailedRuleIDs: []string{"RES-005"}},
		{CalculatedAt: at(1), EvaluatedRuleIDs: []string{"RES-001", "RES-005"}, FailedRuleIDs: []string{"RES-005"}},
		{CalculatedAt: at(2), EvaluatedRuleIDs: []string{"LOG-001", "RES-005"}, FailedRuleIDs: nil},
		{CalculatedAt: at(3), EvaluatedRuleIDs: []string{"LOG-001", "RES-005"}, FailedRuleIDs: []string{"LOG-001"}},
	}
	require.Equal(t, []score.Change{
		{At: at(2), Transitions: []score.Transition{
			{RuleID: "LOG-001", From: score.NotEvaluated, To: score.Passed},
			{RuleID: "RES-001", From: score.Passed, To: score.NotEvaluated},
			{RuleID: "RES-005", From: score.Failed, To: score.Passed},
		}},
		{At: at(3), Transitions: []score.Transition{{RuleID: "LOG-001", From: score.Passed, To: score.Failed}}},
	}, score.Changes(history))
	require.Empty(t, score.Changes(nil))
	require.Empty(t, score.Changes(history[:1]))
}
