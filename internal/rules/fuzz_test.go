// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// fuzz evaluates arbitrary bytes: it does not panic, the facts are bounded, and a second
// evaluation returns the same facts.
func fuzz(f *testing.F, signal wire.Signal) {
	for _, r := range append(wiretest.Real(), wiretest.Fixtures()...) {
		if r.Signal == signal && len(r.Body) < 16<<10 {
			f.Add(r.Body)
		}
	}
	e := NewEvaluator(Config{Filter: delta.NewFilter(10)})
	var b Batch
	f.Fuzz(func(t *testing.T, body []byte) {
		b.Reset()
		err := e.Evaluate(t.Context(), signal, body, input(), &b)
		var w *wire.Error
		require.True(t, err == nil || errors.As(err, &w), "an error of another kind: %v", err)
		if err != nil {
			require.Error(t, wire.Validate(signal, body), "refused, but valid")
			return
		}
		require.NoError(t, Timestamps(t.Context(), signal, body, func(uint64) {}))
		d := new(delta.Delta)
		b.MergeInto(d)
		bytes := uint64(0)
		for _, o := range d.Organizations {
			for _, s := range o.Services {
				for i := range s.Verdicts {
					for r, c := range s.Verdicts[i].Counts {
						require.LessOrEqual(t, c.Failed, c.Observed, catalog.Rule(r).Info().Name)
					}
				}
				require.LessOrEqual(t, len(s.Items), delta.MaxItems*int(delta.ListCount)*catalog.Count)
				for it := range s.Items {
					require.LessOrEqual(t, len(it.Text), 2*delta.MaxItemBytes)
				}
				for _, x := range s.Examples {
					require.True(t, x == nil || len(x.ResourceAttributes) <= maxAttributesJSON)
				}
				for i := range s.Usage {
					bytes += s.Usage[i].Usage[SignalOf(signal)].Bytes
				}
			}
		}
		if len(d.Organizations) > 0 {
			require.EqualValues(t, len(body), bytes, "every byte is some service's")
		}
		require.LessOrEqual(t, len(b.Spans), len(body))
		again := new(delta.Delta)
		b.Reset()
		require.NoError(t, e.Evaluate(t.Context(), signal, body, input(), &b))
		b.MergeInto(again)
		require.Empty(t, diff(d, again))
	})
}

func FuzzTraces(f *testing.F)  { fuzz(f, wire.Traces) }
func FuzzMetrics(f *testing.F) { fuzz(f, wire.Metrics) }
func FuzzLogs(f *testing.F)    { fuzz(f, wire.Logs) }
