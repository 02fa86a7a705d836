// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/offline"
	"assay/internal/report"
)

// recorded is the time of the recordings.
var recorded = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// verdict is the expected result for one service of a recording.
type verdict struct {
	score  float64
	failed []string
	beside []string // insight types without a rule
}

// recordings are recordings of real SDKs with the findings of a manual review.
var recordings = map[string]map[string]verdict{
	// Automatic instrumentation of express: a span for each middleware, command lines on metrics, no environment.
	"node-default": {
		"lamp-shop": {84.85, []string{"MET-007", "RES-007", "SPA-001", "SPA-005"}, nil},
	},
	// Two services with conflicting units and buckets. Callers of storefront do not export spans, and a background
	// poller creates root client spans. inventory sets host.name on log records and creates many short spans in a
	// report.
	"go-two-services": {
		"inventory": {71.67, []string{"MET-003", "MET-004", "MET-007", "RES-001", "RES-004", "SPA-001", "SPA-005"}, nil},
		"storefront": {
			65.08,
			[]string{"MET-002", "MET-003", "MET-004", "MET-005", "MET-007", "RES-001", "RES-007", "SPA-002", "SPA-004"},
			[]string{"deprecated_attributes"},
		},
	},
	// The defaults of telemetrygen: a client span as root, a metric without a unit.
	"telemetrygen-basic": {
		"telemetrygen": {80, []string{"MET-002", "RES-001", "RES-007", "SPA-004"}, nil},
	},
}

func TestRecordings(t *testing.T) {
	for name, want := range recordings {
		t.Run(name, func(t *testing.T) {
			r, err := offline.Score(t.Context(), offline.Config{
				Inputs: []offline.Input{file(filepath.Join(testdata, "recordings", name+".jsonl.gz"))},
				Now:    recorded,
			})
			require.NoError(t, err)
			require.Equal(t, want, verdicts(r))
		})
	}
}

func verdicts(r *report.Report) map[string]verdict {
	got := make(map[string]verdict)
	for _, s := range r.Services {
		v := verdict{score: *s.ScoreExact, failed: s.FailedRuleIDs}
		for _, i := range s.Insights {
			if i.RuleID == "" {
				v.beside = append(v.beside, i.Name)
			}
		}
		got[s.Name] = v
	}
	return got
}

// TestRecordingsTotals compares the totals with those of another decoder for the same files.
func TestRecordingsTotals(t *testing.T) {
	want := map[string]report.Totals{
		"telemetrygen-basic": {Spans: 600, MetricDataPoints: 300, LogRecords: 300},
		"node-default":       {Spans: 4867, MetricDataPoints: 289, LogRecords: 127},
		"go-two-services":    {Spans: 1378, MetricDataPoints: 316, LogRecords: 313},
	}
	for name, w := range want {
		r, err := offline.Score(t.Context(), offline.Config{
			Inputs: []offline.Input{file(filepath.Join(testdata, "recordings", name+".jsonl.gz"))},
			Now:    recorded,
		})
		require.NoError(t, err)
		w.Bytes = r.Totals.Bytes // JSON does not determine the protobuf encoding
		require.Equal(t, w, r.Totals, name)
	}
}
