// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// model evaluates a trace directly by the definition of the rules.
func model(spans []Span) map[string]map[catalog.Rule]delta.Count {
	out := make(map[string]map[catalog.Rule]delta.Count)
	internal, short, first := map[string]int{}, map[string]int{}, []string(nil)
	arrived := map[[8]byte]bool{}
	type span struct {
		service string
		id      [8]byte
	}
	countedInternal, countedShort := map[span]bool{}, map[span]bool{}
	shorts := 0
	for _, s := range spans {
		name := s.Resource.Service.Name
		if out[name] == nil {
			out[name] = map[catalog.Rule]delta.Count{catalog.SPA001: {Observed: 1}, catalog.SPA005: {Observed: 1}}
			first = append(first, name)
		}
		arrived[s.SpanID] = true
		x := span{name, s.SpanID}
		if s.Internal && (s.SpanID == [8]byte{} || !countedInternal[x]) {
			countedInternal[x] = true
			internal[name]++
		}
		if s.Short && (s.SpanID == [8]byte{} || !countedShort[x]) {
			countedShort[x] = true
			short[name]++
			shorts++
		}
	}
	worst := ""
	for _, name := range first {
		if internal[name] > 10 {
			out[name][catalog.SPA001] = delta.Count{Observed: 1, Failed: 1}
		}
		if worst == "" || short[name] > short[worst] || short[name] == short[worst] && name < worst {
			worst = name
		}
	}
	if shorts > 20 {
		out[worst][catalog.SPA005] = delta.Count{Observed: 1, Failed: 1}
	}
	for _, s := range spans {
		if s.ParentID == ([8]byte{}) {
			continue
		}
		c := out[s.Resource.Service.Name][catalog.SPA002]
		c.Observed++
		if !arrived[s.ParentID] {
			c.Failed++
		}
		out[s.Resource.Service.Name][catalog.SPA002] = c
	}
	return out
}

// TestAgainstModel compares the Assembler with the model.
func TestAgainstModel(t *testing.T) {
	resources := []*Resource{resource("a"), resource("a"), resource("b"), resource("c")}
	rapid.Check(t, func(t *rapid.T) {
		a := NewAssembler(Config{})
		n := func(label string, limit int) int { return rapid.IntRange(0, limit).Draw(t, label) }
		byTrace := make(map[int][]Span)
		odds := 1 + n("odds", 9)
		for r := range 1 + n("requests", 5) {
			var batch []Span
			for range n("spans", 40) {
				trace := n("trace", 2)
				s := span(trace, n("id", 40), n("parent", 40), resources[n("resource", len(resources)-1)])
				s.Internal, s.Short = n("internal", 9) < odds, n("short", 9) < odds
				batch = append(batch, s)
				byTrace[trace] = append(byTrace[trace], s)
			}
			a.Add(t0.Add(time.Duration(r)*time.Second), org, batch)
		}
		want := make(map[string]map[catalog.Rule]delta.Count)
		for _, spans := range byTrace {
			for service, rules := range model(spans) {
				for r, c := range rules {
					if want[service] == nil {
						want[service] = make(map[catalog.Rule]delta.Count)
					}
					sum := want[service][r]
					sum.Add(c)
					want[service][r] = sum
				}
			}
		}
		d := flush(a, true)
		for _, service := range []string{"a", "b", "c"} {
			for _, r := range []catalog.Rule{catalog.SPA001, catalog.SPA002, catalog.SPA005} {
				require.Equal(t, want[service][r], counts(d, service, r), fmt.Sprint(service, " ", r.ID()))
			}
		}
	})
}
