// SPDX-License-Identifier: Apache-2.0

package score

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// verdicts returns counts with the given numbers of passed and failed rules by impact.
func verdicts(t *testing.T, passed, failed map[assay.Impact]int) (v [catalog.Count]delta.Count) {
	t.Helper()
	for r := range catalog.Rule(catalog.Scored) {
		switch i := r.Info().Impact; {
		case passed[i] > 0:
			passed[i]--
			v[r] = delta.Count{Observed: 10}
		case failed[i] > 0:
			failed[i]--
			v[r] = delta.Count{Observed: 10, Failed: 1}
		}
	}
	for _, left := range []map[assay.Impact]int{passed, failed} {
		for i, n := range left {
			require.Zero(t, n, "not enough %s rules", i)
		}
	}
	return v
}

// TestValue checks the formula. TestCheckValue checks the weights of the specification.
func TestValue(t *testing.T) {
	var v [catalog.Count]delta.Count
	_, _, _, ok := Value(&v)
	require.False(t, ok, "no rule evaluated: no score")

	v[catalog.QuotaExceeded] = delta.Count{Observed: 5, Failed: 5}
	v[catalog.DefaultServiceName] = delta.Count{Observed: 5, Failed: 5}
	v[catalog.DeprecatedAttributes] = delta.Count{Observed: 5, Failed: 5}
	_, _, _, ok = Value(&v)
	require.False(t, ok, "insight types without a rule do not affect the score")

	v[catalog.RES005] = delta.Count{Observed: 3}
	value, evaluated, failed, ok := Value(&v)
	require.True(t, ok)
	require.Equal(t, 100.0, value)
	require.Equal(t, []string{"RES-005"}, evaluated)
	require.Empty(t, failed)

	v[catalog.RES001] = delta.Count{Observed: 1_000_000, Failed: 1} // no tolerance
	value, evaluated, failed, _ = Value(&v)
	require.Equal(t, 100*40.0/60, value)
	require.Equal(t, []string{"RES-001", "RES-005"}, evaluated)
	require.Equal(t, []string{"RES-001"}, failed)

	v[catalog.RES005].Failed = 3
	value, _, _, ok = Value(&v)
	require.True(t, ok)
	require.Zero(t, value)

	all := verdicts(t,
		map[assay.Impact]int{assay.ImpactCritical: 3, assay.ImpactImportant: 8, assay.ImpactNormal: 4, assay.ImpactLow: 0},
		map[assay.Impact]int{assay.ImpactCritical: 1, assay.ImpactImportant: 2, assay.ImpactNormal: 2, assay.ImpactLow: 1})
	value, _, _, _ = Value(&all)
	require.InDelta(t, 100*(3*40.0+8*30+4*20)/(4*40+10*30+6*20+10), value, 1e-12)
}

// TestCheckValue: Critical 4/8, Important 8/10, Normal 6/8, Low 1/5 gives 63.86. The catalog has fewer rules of some
// impacts, so the test sums the weights.
func TestCheckValue(t *testing.T) {
	passed, total := 0, 0
	for impact, n := range map[assay.Impact][2]int{
		assay.ImpactCritical: {4, 8}, assay.ImpactImportant: {8, 10}, assay.ImpactNormal: {6, 8}, assay.ImpactLow: {1, 5},
	} {
		passed += n[0] * impact.Weight()
		total += n[1] * impact.Weight()
	}
	require.Equal(t, 63.855421686746988, 100*float64(passed)/float64(total))
}

func TestBands(t *testing.T) {
	for value, want := range map[float64]struct {
		rounded int
		band    string
	}{
		100: {100, "Excellent"}, 90: {90, "Excellent"}, 89.5: {90, "Excellent"}, 89.49999: {89, "Good"}, 75: {75, "Good"}, 74.5: {75, "Good"},
		74.49: {74, "Needs Improvement"}, 50: {50, "Needs Improvement"}, 49.5: {50, "Needs Improvement"}, 49.49: {49, "Poor"}, 0.5: {1, "Poor"}, 0: {0, "Poor"},
		63.855421686746988: {64, "Needs Improvement"},
	} {
		s := assay.Score{Value: value}
		require.Equal(t, want.rounded, s.Rounded(), "%v", value)
		require.Equal(t, want.band, s.Category(), "%v", value)
	}
}

func TestPeriodAt(t *testing.T) {
	at := time.Date(2026, 10, 15, 12, 59, 59, 0, time.UTC)
	p := PeriodAt(at, assay.DefaultWindow, time.Hour)
	require.Equal(t, time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC), p.Start)
	require.Equal(t, time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), p.MetricStart)
	require.Equal(t, p, PeriodAt(at.Add(-59*time.Minute), assay.DefaultWindow, time.Hour), "the window moves in steps")
	p = PeriodAt(at, 24*time.Hour, time.Hour)
	require.Equal(t, p.Start, p.MetricStart, "no longer than the window")
}
