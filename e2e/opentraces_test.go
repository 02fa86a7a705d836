// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/rules/rulestest"
)

// halves are traces of which each server gets one half. The first has spans of the
// service back alone: six internal ones, the children of a span in the second half.
// The second has six more of them. So no service is to blame for orphans but for the
// one span in every fourth trace whose parent nobody sent, and back is for all its
// internal spans.
func halves(traces int) (first, second rulestest.Request) {
	at := time.Now()
	span := func(trace, id, parent int) *tracepb.Span {
		return rulestest.Span(trace, id, parent, func(s *tracepb.Span) {
			s.Kind = tracepb.Span_SPAN_KIND_INTERNAL
			s.StartTimeUnixNano, s.EndTimeUnixNano = rulestest.Nano(at.Add(-time.Second)), rulestest.Nano(at)
		})
	}
	var begun, rest, roots []*tracepb.Span
	for i := range traces {
		for j := range 6 {
			begun = append(begun, span(i, 10+j, 2))
			rest = append(rest, span(i, 20+j, 10+j))
		}
		if i%4 == 0 {
			begun = append(begun, span(i, 30, 99))
		}
		roots = append(roots, span(i, 1, 0), span(i, 2, 1))
	}
	front, back := rulestest.Service("front"), rulestest.Service("back")
	return rulestest.Traces(rulestest.Spans(back, begun...)), rulestest.Traces(rulestest.Spans(back, rest...), rulestest.Spans(front, roots...))
}

// TestOpenTraces has servers end in all ways while they have halves of traces.
// Whoever gets the other half judges the whole, and once.
func TestOpenTraces(t *testing.T) {
	const traces = 40
	args := []string{"--trace-idle", "3s", "--score-interval", "200ms", "--bootstrap-api-key", bootstrapKey}
	for name, next := range map[string]func(t *testing.T, first *daemon) *daemon{
		"killed": func(t *testing.T, first *daemon) *daemon {
			first.kill()
			return startDaemon(t, first.dir, args...)
		},
		"stopped": func(t *testing.T, first *daemon) *daemon {
			first.stop(t)
			return startDaemon(t, first.dir, args...)
		},
		"killed beside another": func(t *testing.T, first *daemon) *daemon {
			// Spans reach the other one at once, what the first one got of the traces after
			// its leases have expired.
			second := startDaemon(t, first.dir, "--trace-idle", "20s", "--score-interval", "200ms", "--metrics-store", "none", "--bootstrap-api-key", bootstrapKey)
			first.kill()
			return second
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := halves(traces)
			d := startDaemon(t, t.TempDir(), args...)
			d.mustPost(t, bootstrapKey, first)
			d = next(t, d)
			d.mustPost(t, bootstrapKey, second)
			want := map[string][2]float64{"SPA-001": {traces, traces}, "SPA-002": {12*traces + traces/4, traces / 4}}
			got := func() map[string][2]float64 {
				counts := make(map[string][2]float64)
				for _, i := range d.insights(t, bootstrapKey) {
					if _, ok := want[i.Type.RuleID]; ok && i.ServiceName == "back" {
						counts[i.Type.RuleID] = [2]float64{i.Attributes["observations_total"].(float64), i.Attributes["violations_total"].(float64)}
					}
				}
				return counts
			}
			eventually(t, time.Minute, func() bool { return got()["SPA-001"] != [2]float64{} }, "no trace is judged")
			eventually(t, 10*time.Second, func() bool { return fmt.Sprint(got()) == fmt.Sprint(want) }, "%v", got())
			require.Equal(t, want, got(), "nothing is judged again")
		})
	}
}
