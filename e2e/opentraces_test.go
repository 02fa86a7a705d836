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

// halves returns two halves of a number of traces, one for each server. The first half has spans of the
// service back only: six internal spans, children of a span in the second half. The second half has six more.
// Evaluated as a whole, back fails for its internal spans, and the only orphan is one span in every fourth
// trace, whose parent is never sent.
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

// TestOpenTraces stops servers in several ways while each holds one half of the traces. The server that
// receives the other half evaluates the whole trace once.
func TestOpenTraces(t *testing.T) {
	t.Parallel()
	const traces = 40
	args := []string{"--trace-idle", "10s", "--score-interval", "200ms", "--bootstrap-api-key", bootstrapKey}
	for name, next := range map[string]func(t *testing.T, first *daemon) *daemon{
		"killed": func(t *testing.T, first *daemon) *daemon {
			first.Kill()
			return startDaemon(t, first.Dir, args...)
		},
		"stopped": func(t *testing.T, first *daemon) *daemon {
			first.stop(t)
			return startDaemon(t, first.Dir, args...)
		},
		"killed beside another": func(t *testing.T, first *daemon) *daemon {
			// The other server receives spans immediately. It adopts the traces of the first one after the
			// first one's leases have expired.
			second := startDaemon(t, first.Dir, "--trace-idle", "20s", "--score-interval", "200ms", "--metrics-store", "none", "--bootstrap-api-key", bootstrapKey)
			first.Kill()
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
			eventually(t, func() bool { return got()["SPA-001"] != [2]float64{} }, "no trace is evaluated")
			eventually(t, func() bool { return fmt.Sprint(got()) == fmt.Sprint(want) }, "%v", got())
			require.Equal(t, want, got(), "nothing is evaluated twice")
		})
	}
}
