// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
	. "assay/internal/rules/rulestest"
)

// slow is a store with a limit on closed traces per transaction. Larger transactions time out.
type slow struct {
	most     uint64
	failures int
	facts    delta.Delta
	now      time.Time
}

func (s *slow) Commit(ctx context.Context, _ time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	fresh := make([]bool, len(requests))
	for i := range fresh {
		fresh[i] = true
	}
	d := merge(fresh)
	if d == nil {
		return errors.New("refused")
	}
	if closed(d) > s.most {
		s.failures++
		return fmt.Errorf("commit: %w", context.DeadlineExceeded)
	}
	s.facts.Merge(d)
	return ctx.Err()
}

func (*slow) KnownServices(context.Context, string) ([]assay.ServiceKey, error) { return nil, nil }

func (*slow) HashKey(context.Context, string) (delta.HashKey, error) {
	return delta.NewHashKey(make([]byte, delta.HashSecretBytes))
}

func (*slow) KnownMetricNames(context.Context, string) (map[assay.ServiceKey][]uint64, error) {
	return nil, nil
}

// closed returns the number of evaluated traces.
func closed(d *delta.Delta) (n uint64) {
	for _, o := range d.Organizations {
		for _, s := range o.Services {
			for i := range s.Verdicts {
				n += s.Verdicts[i].Counts[catalog.SPA001].Observed
			}
		}
	}
	return n
}

// TestClosingShrinks: after a pause, more traces are due than one transaction can close.
func TestClosingShrinks(t *testing.T) {
	for name, flush := range map[string]bool{"due": false, "all": true} {
		t.Run(name, func(t *testing.T) {
			const traces = 30_000
			s := &slow{most: 6000, now: T0}
			e := engine.New(engine.Config{Store: s, Now: func() time.Time { return s.now }, CommitInterval: time.Millisecond, CPU: fair.NewCPU(1, time.Now)})
			defer func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) }()
			spans := make([]*tracepb.Span, traces)
			for i := range spans {
				spans[i] = Span(1, 1, 0)
				spans[i].TraceId = fmt.Appendf(nil, "%016d", i)
			}
			q := Traces(Spans(Service("a"), spans...))
			_, err := e.Ingest(t.Context(), "org", q.Signal, q.Body)
			require.NoError(t, err)
			require.Equal(t, traces, e.Traces().Traces)
			s.now = s.now.Add(time.Minute)
			for tries := 0; e.Traces().Traces > 0; tries++ {
				require.Less(t, tries, 5)
				if flush {
					err = e.FlushTraces(t.Context(), true)
				} else {
					err = e.CloseTraces(t.Context())
				}
				if err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			}
			require.EqualValues(t, traces, closed(&s.facts), "once")
			require.Positive(t, s.failures)
		})
	}
}

// rejecting is a store that rejects verdicts for one service.
type rejecting struct {
	slow
	refused string
	tries   int
}

func (s *rejecting) Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	return s.slow.Commit(ctx, now, requests, func(fresh []bool) *delta.Delta {
		d := merge(fresh)
		if len(requests) > 0 {
			return d
		}
		for _, o := range d.Organizations {
			for k := range o.Services {
				if k.Name == s.refused {
					s.tries++
					return nil
				}
			}
		}
		return d
	})
}

// TestRefusedVerdict: a trace whose verdict the store always rejects does not block other verdicts. It is retried a
// limited number of times and dropped.
func TestRefusedVerdict(t *testing.T) {
	s := &rejecting{slow: slow{most: 1 << 20, now: T0}, refused: "poison"}
	e := engine.New(engine.Config{Store: s, Now: func() time.Time { return s.now }, CommitInterval: time.Millisecond, CPU: fair.NewCPU(1, time.Now)})
	defer func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) }()
	send := func(service, id string) {
		span := Span(1, 1, 0)
		span.TraceId = fmt.Appendf(nil, "%016s", id)
		q := Traces(Spans(Service(service), span))
		_, err := e.Ingest(t.Context(), "org", q.Signal, q.Body)
		require.NoError(t, err)
	}
	for i := range 100 {
		send("good", fmt.Sprint(i))
	}
	send("poison", "bad")
	for i := range 50 {
		s.now = s.now.Add(time.Minute)
		_ = e.CloseTraces(t.Context()) // the rejected one fails
		send("good", fmt.Sprint("more", i))
		if e.Counters().Unevaluated.Load() > 0 {
			break
		}
	}
	require.EqualValues(t, 1, e.Counters().Unevaluated.Load())
	require.Less(t, s.tries, 20)
	s.now = s.now.Add(time.Minute)
	require.NoError(t, e.CloseTraces(t.Context()))
	require.Zero(t, e.Traces().Traces)
	require.GreaterOrEqual(t, closed(&s.facts), uint64(100))
	for k, facts := range s.facts.Organizations["org"].Services {
		require.True(t, k.Name == "good" || facts.Verdicts[0].Counts[catalog.SPA001].Observed == 0, k)
	}
}
