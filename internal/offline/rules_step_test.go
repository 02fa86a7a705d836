// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/offline"
	. "assay/internal/rules/rulestest"
)

// TestHoursStayHours: the step in which the window moves does not change what an
// hour is to SPA-003, MET-001 and RES-002.
func TestHoursStayHours(t *testing.T) {
	hour := time.Date(2026, 10, 15, 10, 0, 0, 0, time.UTC)
	// spread sends n span names, one each interval, from two hosts by turns.
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

// TestWindowBySteps: the window's borders do not depend on the step, either.
func TestWindowBySteps(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		in := []Request{stamped("a", Nano(T0)), stamped("b", Nano(T0.Add(-30*24*time.Hour))-1), stamped("c", Nano(T0.Add(-30*24*time.Hour)))}
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
