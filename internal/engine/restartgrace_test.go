// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
	. "assay/internal/rules/rulestest"
)

// TestRestartGrace: a journal is reserved for the next process of its replica, which receives the rest of the
// traces. Other replicas take it over after RestartGrace.
func TestRestartGrace(t *testing.T) {
	w := newWorld(T0)
	start := func(replica, holder string) *server {
		p := &process{world: w, name: holder}
		s := &server{t: t, p: p, Engine: engine.New(engine.Config{
			Store: p, Now: w.clock, CommitInterval: time.Microsecond, CPU: fair.NewCPU(1, time.Now),
			Journal: &engine.JournalConfig{Name: replica, Store: p, Leases: p, Expiry: expiry, RestartGrace: 20 * time.Second},
		})}
		t.Cleanup(func() {
			p.kill()
			_ = s.Close(context.Background()) //nolint:usetesting // the test's own context has ended
		})
		require.NoError(t, s.TakeOver(t.Context()))
		return s
	}
	first, other := start("one-a", "1"), start("one", "2")
	first.ingest(Traces(Spans(Service("a"), Span(1, 2, 1))))
	first.p.kill()
	w.advance(expiry)
	require.NoError(t, other.TakeOver(t.Context()))
	require.Zero(t, other.Traces().Traces)
	again := start("one-a", "3")
	require.Equal(t, 1, again.Traces().Traces)
	again.ingest(Traces(Spans(Service("a"), Span(1, 1, 0))))
	again.p.kill()

	w.advance(expiry)
	require.NoError(t, other.TakeOver(t.Context()))
	w.advance(19 * time.Second)
	require.NoError(t, other.TakeOver(t.Context()))
	require.Zero(t, other.Traces().Traces)
	w.advance(time.Second)
	require.NoError(t, other.TakeOver(t.Context()))
	require.Equal(t, 1, other.Traces().Traces)
	other.closeAll()
	require.Equal(t, delta.Count{Observed: 1}, w.totals("a", catalog.SPA001))
	require.Equal(t, delta.Count{Observed: 1}, w.totals("a", catalog.SPA002))
}
