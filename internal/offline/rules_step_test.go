// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/offline"
	"assay/internal/report"
	. "assay/internal/rules/rulestest"
)

// TestHoursStayHours: the step of the window does not affect the hours of SPA-003, MET-001 and RES-002.
func TestHoursStayHours(t *testing.T) {
	hour := time.Date(2026, 10, 15, 10, 0, 0, 0, time.UTC)
	// spread sends n span names, one per interval, alternating between two hosts.
	spread := func(n int, interval time.Duration) Request {
		var entries []*tracepb.ResourceSpans
		for i := range n {
			at := hour.Add(time.Duration(i) * interval)
			entries = append(entries, Spans(Service("a", "host.name", fmt.Sprint("h", at.Hour())), Span(i+1, 1, 0, named(fmt.Sprint("op ", i)), ending(at))))
		}
		return Traces(entries...)
	}
	for _, step := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 90 * time.Minute, 6 * time.Hour} {
		for _, c := range []struct {
			name string
			in   Request
			want string
		}{
			{"1,001 names within an hour", spread(1001, 3*time.Second), "a: -SPA-003 +RES-002"},
			{"2,000 names within two hours, a host in each", spread(2000, 3600*time.Millisecond), "a: +SPA-003 +RES-002"},
		} {
			t.Run(fmt.Sprint(step, " ", c.name), func(t *testing.T) {
				t.Parallel()
				r, err := offline.Score(t.Context(), offline.Config{
					Now: T0, Step: step,
					Inputs: []offline.Input{{Name: "traces", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.in.Body)), nil }}},
				})
				require.NoError(t, err)
				checkVerdicts(t, r, c.want)
			})
		}
	}
}

// TestWindowBySteps: the bounds of the window do not depend on the step, either.
func TestWindowBySteps(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		in := []Request{stamped("a", Nano(T0)), stamped("b", Nano(After(-30*24*time.Hour))-1), stamped("c", Nano(After(-30*24*time.Hour)))}
		cfg := offline.Config{Now: T0, Step: step}
		for i, q := range in {
			cfg.Inputs = append(cfg.Inputs, offline.Input{
				Name: fmt.Sprintf("logs-%d", i),
				Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.Body)), nil },
			})
		}
		r, err := offline.Score(t.Context(), cfg)
		require.NoError(t, err)
		checkVerdicts(t, r, "a: +LOG-002")
		checkVerdicts(t, r, "b: absent")
		checkVerdicts(t, r, "c: +LOG-002")
	}
}

// TestSameInputSameReport: the result is deterministic even when hashes estimate the number of values of an
// attribute.
func TestSameInputSameReport(t *testing.T) {
	var metrics []*metricspb.Metric
	for i := range 12 {
		m := Gauge(fmt.Sprint("metric ", i), "1")
		for v := range 10_000 {
			m.GetGauge().DataPoints = append(m.GetGauge().DataPoints, Point(T0, "k", i*10_000+v))
		}
		metrics = append(metrics, m)
	}
	body := MetricsRequest(Metrics(Service("a"), metrics...)).Body
	var reports [2]*report.Report
	for i := range reports {
		r, err := offline.Score(t.Context(), offline.Config{
			Now:    T0,
			Inputs: []offline.Input{{Name: "metrics", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }}},
		})
		require.NoError(t, err)
		reports[i] = r
	}
	require.Equal(t, reports[0], reports[1])
}
