// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/fair"
	"assay/internal/lease"
	"assay/internal/rules/catalog"
	. "assay/internal/rules/rulestest"
	"assay/internal/store/sqlite"
	"assay/internal/trace"
)

const organization = "01234567-89ab-7cde-8f01-23456789abcd"

// server is the engine of one process.
type server struct {
	*engine.Engine
	t *testing.T
	p *process
}

func (w *world) start(t *testing.T, name string, ends map[int]end) *server {
	p := &process{world: w, name: name, ends: ends}
	s := &server{t: t, p: p, Engine: engine.New(engine.Config{
		Store: p, Now: w.clock, CommitInterval: time.Microsecond, CPU: fair.NewCPU(1, time.Now),
		Journal: &engine.JournalConfig{Name: name, Store: p, Leases: p, Expiry: expiry, RestartGrace: -1},
	})}
	t.Cleanup(func() {
		p.kill()
		_ = s.Close(context.Background()) //nolint:usetesting // the test's own context has ended
	})
	return s
}

func (s *server) send(q Request) error {
	_, err := s.Ingest(s.t.Context(), organization, q.Signal, q.Body)
	return err
}

// ingest sends a request until it is acknowledged.
func (s *server) ingest(q Request) {
	s.t.Helper()
	for range 5 {
		if s.send(q) == nil {
			return
		}
	}
	require.NoError(s.t, s.send(q))
}

// closeAll advances the time until all traces are closed.
func (s *server) closeAll() {
	s.t.Helper()
	for range 10 {
		if s.Traces().Traces == 0 {
			return
		}
		s.p.advance(30 * time.Second)
		require.NoError(s.t, s.CloseTraces(s.t.Context()))
	}
	s.t.Fatal("traces stay open")
}

// script is a sequence of requests and clock advances for the current process.
var script = func() (steps []func(*server) error) {
	send := func(entries ...*tracepb.ResourceSpans) {
		q := Traces(entries...)
		steps = append(steps, func(s *server) error { return s.send(q) })
	}
	later := func(d time.Duration) {
		steps = append(steps, func(s *server) error {
			s.p.advance(d)
			return nil
		})
	}
	internal := func(s *tracepb.Span) { s.Kind = tracepb.Span_SPAN_KIND_INTERNAL }
	short := func(s *tracepb.Span) { s.StartTimeUnixNano = s.EndTimeUnixNano - 1000 }
	var many []*tracepb.Span
	for i := range 14 {
		many = append(many, Span(3, 10+i, 2, internal), Span(4, 10+i, 1, short))
	}
	a, b := Service("a"), Service("b")
	send(Spans(a, Span(1, 2, 1), Span(2, 1, 0), Span(7, 2, 1)))
	send(Spans(b, Span(1, 3, 2)), Spans(a, many[:14]...))
	later(20 * time.Second)
	send(Spans(b, many[:14]...), Spans(a, Span(2, 2, 1), Span(2, 3, 99)))
	send(Spans(a, Span(1, 1, 0))) // whose children arrived long before
	later(10 * time.Second)
	steps = append(steps, func(s *server) error { return s.CloseTraces(s.t.Context()) }) // trace 7
	send(Spans(b, many[14:]...), Spans(a, Span(2, 4, 3)))
	steps = append(steps, func(s *server) error { return s.CloseTraces(s.t.Context()) })
	later(20 * time.Second)
	send(Spans(b, Span(1, 4, 3), Span(5, 2, 1)))
	later(20 * time.Second)
	steps = append(steps, func(s *server) error { return s.CloseTraces(s.t.Context()) })
	send(Spans(b, Span(6, 2, 1), Span(6, 1, 0)))
	return steps
}()

func outcome(w *world) map[string]delta.Count {
	counts := make(map[string]delta.Count)
	for _, service := range []string{"a", "b"} {
		for _, r := range []catalog.Rule{catalog.SPA001, catalog.SPA002, catalog.SPA004, catalog.SPA005} {
			counts[service+" "+r.ID()] = w.totals(service, r)
		}
	}
	return counts
}

// play runs the script. When a process dies, its successor takes over the traces and repeats the step.
func play(t *testing.T, w *world, ends map[int]end) (commits, lives int) {
	s := w.start(t, "0", ends)
	lives = 1
	require.NoError(t, s.TakeOver(t.Context()))
	step := func(do func(*server) error) {
		for try := 0; do(s) != nil; try++ {
			require.Less(t, try, 5)
			if s.p.alive() != nil {
				w.mu.Lock()
				clear(w.leases) // all leases expire
				w.mu.Unlock()
				s = w.start(t, fmt.Sprint(lives), nil)
				lives++
				require.NoError(t, s.TakeOver(t.Context()))
			}
		}
	}
	for _, do := range script {
		step(do)
	}
	for i := 0; s.Traces().Traces > 0 || i == 0; i++ {
		require.Less(t, i, 10)
		w.advance(30 * time.Second)
		step(func(s *server) error { return s.CloseTraces(t.Context()) })
	}
	return s.p.commits, lives
}

// TestEveryCommit ends each commit in every possible way. The counts must equal those without failures.
func TestEveryCommit(t *testing.T) {
	undisturbed := newWorld(T0)
	commits, _ := play(t, undisturbed, nil)
	require.Greater(t, commits, 8)
	want := outcome(undisturbed)
	require.Equal(t, map[string]delta.Count{
		"a SPA-001": {Observed: 5}, "a SPA-002": {Observed: 19, Failed: 16}, "a SPA-004": {Observed: 2}, "a SPA-005": {Observed: 5},
		"b SPA-001": {Observed: 5, Failed: 1}, "b SPA-002": {Observed: 32, Failed: 29}, "b SPA-004": {Observed: 1}, "b SPA-005": {Observed: 5, Failed: 1},
	}, want)
	for _, how := range []end{diesBefore, diesAfter, resultLost, refused} {
		for i := range commits {
			w := newWorld(T0)
			_, lives := play(t, w, map[int]end{i + 1: how})
			if how <= diesAfter {
				require.Equal(t, 2, lives)
			}
			require.Equal(t, want, outcome(w), "commit %d ends by %d", i+1, how)
		}
	}
	w := newWorld(T0)
	all := make(map[int]end)
	for i := range 4 * commits {
		all[2*i+1] = resultLost
	}
	play(t, w, all)
	require.Equal(t, want, outcome(w), "every second result is lost")
}

// TestFrozenProcess: a process that was suspended for longer than its lease finds its journal taken over and begins
// another one. No trace is evaluated twice.
func TestFrozenProcess(t *testing.T) {
	for name, back := range map[string]func(w *world, s *server, journal string){
		"while the other process holds its journal": func(*world, *server, string) {},
		"after the other process released it": func(w *world, s *server, journal string) {
			w.advance(expiry)
			s.p.renew(delta.JournalLease(journal))
			(&process{world: w, name: "other"}).renew(delta.JournalLease(onlyName(w, "other")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(T0)
			old, other := w.start(t, "old", nil), w.start(t, "other", nil)
			for _, s := range []*server{old, other} {
				require.NoError(t, s.TakeOver(t.Context()))
			}
			old.ingest(Traces(Spans(Service("a"), Span(1, 1, 0), Span(2, 2, 1))))
			require.Len(t, w.entries(), 1)
			journal := ""
			for journal = range w.entries() {
			}
			require.NoError(t, other.TakeOver(t.Context()))
			require.Zero(t, other.Traces().Traces, "its lease is still held")
			w.advance(expiry)
			require.NoError(t, other.TakeOver(t.Context()))
			require.Equal(t, 2, other.Traces().Traces)
			back(w, old, journal)

			require.NoError(t, old.send(Traces(Spans(Service("a"), Span(1, 2, 1), Span(3, 1, 0)))), "the sender gets no error")
			require.Equal(t, 2, old.Traces().Traces, "only spans received since")
			require.NoError(t, old.TakeOver(t.Context()))
			require.NoError(t, other.TakeOver(t.Context()))
			old.closeAll()
			other.closeAll()
			require.Equal(t, delta.Count{Observed: 4}, w.totals("a", catalog.SPA001), "trace 1 has two halves")
			require.Equal(t, delta.Count{Observed: 1, Failed: 1}, w.totals("a", catalog.SPA002), "the second half lacks its beginning")
			require.EqualValues(t, 2, w.totals("a", catalog.SPA004).Observed, "roots")
		})
	}
}

// TestFrozenSuccessor: a process that has lost its journal also finds out while it only takes over another one.
func TestFrozenSuccessor(t *testing.T) {
	for name, back := range map[string]func(w *world, s *server, journal string){
		"while another process holds its journal": func(*world, *server, string) {},
		"after that process released it": func(w *world, s *server, journal string) {
			w.advance(expiry)
			s.p.renew(delta.JournalLease(journal))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(T0)
			frozen, other, dead := w.start(t, "frozen", nil), w.start(t, "other", nil), w.start(t, "dead", nil)
			require.NoError(t, frozen.TakeOver(t.Context()))
			frozen.ingest(Traces(Spans(Service("a"), Span(1, 1, 0))))
			journal := onlyName(w, "frozen")
			w.advance(expiry)
			require.NoError(t, other.TakeOver(t.Context()))
			require.Equal(t, 1, other.Traces().Traces)
			back(w, frozen, journal)
			dead.ingest(Traces(Spans(Service("a"), Span(2, 1, 0))))
			require.NoError(t, dead.Close(t.Context()))

			other.p.renew(delta.JournalLease(onlyName(w, "other")))
			require.Error(t, frozen.TakeOver(t.Context()))
			require.NoError(t, frozen.TakeOver(t.Context()))
			require.Equal(t, 1, frozen.Traces().Traces)
			frozen.closeAll()
			other.closeAll()
			require.Equal(t, delta.Count{Observed: 2}, w.totals("a", catalog.SPA001))
		})
	}
}

// TestSecondHalfElsewhere: when a replica dies, the rest of a trace arrives at another replica, possibly before that
// has adopted the first half.
func TestSecondHalfElsewhere(t *testing.T) {
	w := newWorld(T0)
	first, second := w.start(t, "first", nil), w.start(t, "second", nil)
	for _, s := range []*server{first, second} {
		require.NoError(t, s.TakeOver(t.Context()))
	}
	first.ingest(Traces(Spans(Service("a"), Span(1, 1, 0), Span(2, 3, 2))))
	first.p.kill()
	second.ingest(Traces(Spans(Service("b"), Span(1, 2, 1), Span(2, 2, 1))))
	w.advance(expiry)
	require.NoError(t, second.TakeOver(t.Context()))
	second.ingest(Traces(Spans(Service("c"), Span(2, 1, 0))))
	second.closeAll()
	for _, service := range []string{"a", "b", "c"} {
		require.Zero(t, w.totals(service, catalog.SPA002).Failed, service)
	}
	require.Equal(t, delta.Count{Observed: 2}, w.totals("b", catalog.SPA002))
	require.Equal(t, delta.Count{Observed: 1}, w.totals("c", catalog.SPA001))
}

// TestNothingClosesMeanwhile: a process does not evaluate its part of a trace while it adopts another process's part.
func TestNothingClosesMeanwhile(t *testing.T) {
	w := newWorld(T0)
	first, second := w.start(t, "first", nil), w.start(t, "second", nil)
	for _, s := range []*server{first, second} {
		require.NoError(t, s.TakeOver(t.Context()))
	}
	first.ingest(Traces(Spans(Service("a"), Span(1, 1, 0))))
	first.p.kill()
	second.ingest(Traces(Spans(Service("a"), Span(1, 2, 1))))
	w.advance(time.Minute)
	second.p.reading = func() { require.NoError(t, second.CloseTraces(t.Context())) }
	require.NoError(t, second.TakeOver(t.Context()))
	require.Equal(t, 2, second.Traces().Spans)
	second.closeAll()
	require.Equal(t, delta.Count{Observed: 1}, w.totals("a", catalog.SPA002))
}

// TestStartWaits: a new process evaluates no trace while an earlier process may have left a journal whose lease has
// not expired.
func TestStartWaits(t *testing.T) {
	w := newWorld(T0)
	brief := func(name string) *server {
		p := &process{world: w, name: name}
		s := &server{t: t, p: p, Engine: engine.New(engine.Config{
			Store: p, Now: w.clock, CommitInterval: time.Microsecond, Trace: trace.Config{Idle: time.Second},
			Journal: &engine.JournalConfig{Name: name, Store: p, Leases: p, Expiry: expiry, RestartGrace: -1},
		})}
		t.Cleanup(func() {
			p.kill()
			_ = s.Close(context.Background()) //nolint:usetesting // the test's own context has ended
		})
		return s
	}
	first := brief("a")
	require.NoError(t, first.TakeOver(t.Context()))
	first.ingest(Traces(Spans(Service("a"), Span(1, 1, 0))))
	first.p.kill()

	second := brief("a, again")
	second.ingest(Traces(Spans(Service("a"), Span(1, 2, 1))))
	w.advance(2 * time.Second)
	require.NoError(t, second.CloseTraces(t.Context()))
	require.NoError(t, second.TakeOver(t.Context()))
	require.NoError(t, second.CloseTraces(t.Context()))
	require.Equal(t, 1, second.Traces().Spans)
	w.advance(expiry - 2*time.Second)
	require.NoError(t, second.TakeOver(t.Context()))
	require.Equal(t, 2, second.Traces().Spans)
	w.advance(time.Second)
	require.NoError(t, second.CloseTraces(t.Context()))
	require.Equal(t, delta.Count{Observed: 1}, w.totals("a", catalog.SPA002))

	// Live replicas do not delay it further.
	third := brief("third")
	third.ingest(Traces(Spans(Service("a"), Span(3, 1, 0))))
	second.ingest(Traces(Spans(Service("a"), Span(2, 1, 0))))
	require.NoError(t, third.TakeOver(t.Context()))
	w.advance(expiry)
	second.p.renew(delta.JournalLease(onlyName(w, "a, again")))
	require.NoError(t, third.TakeOver(t.Context()))
	require.NoError(t, third.CloseTraces(t.Context()))
	require.Zero(t, third.Traces().Traces)
}

// TestUnreadableJournal: a journal that cannot be adopted holds up verdicts no longer than one whose lease is held.
func TestUnreadableJournal(t *testing.T) {
	w := newWorld(T0)
	first := w.start(t, "a", nil)
	require.NoError(t, first.TakeOver(t.Context()))
	first.ingest(Traces(Spans(Service("a"), Span(1, 1, 0))))
	first.p.kill()
	w.mu.Lock()
	clear(w.leases)
	w.mu.Unlock()

	second := w.start(t, "b", nil)
	second.p.unreadable = errors.New("unreadable")
	second.ingest(Traces(Spans(Service("a"), Span(2, 1, 0))))
	require.ErrorIs(t, second.TakeOver(t.Context()), second.p.unreadable)
	w.advance(expiry - time.Second)
	require.NoError(t, second.TakeOver(t.Context()), "it is not tried again at once, since no trace closes meanwhile")
	require.True(t, second.Recovering())
	w.advance(time.Minute)
	require.Error(t, second.TakeOver(t.Context()))
	require.False(t, second.Recovering())
	require.NoError(t, second.CloseTraces(t.Context()))
	require.Zero(t, second.Traces().Traces)
	second.p.unreadable = nil
	require.NoError(t, second.TakeOver(t.Context()))
	require.Zero(t, second.Traces().Traces)
	w.advance(expiry)
	require.NoError(t, second.TakeOver(t.Context()))
	require.Equal(t, 1, second.Traces().Traces)
}

// onlyName returns the journal of a process.
func onlyName(w *world, process string) string {
	for name := range w.entries() {
		if strings.HasPrefix(name, process+"-") {
			return name
		}
	}
	return ""
}

// TestCloseLeavesOpenTraces: after Close, the next process takes over the open traces at once.
func TestCloseLeavesOpenTraces(t *testing.T) {
	w := newWorld(T0)
	s := w.start(t, "a", nil)
	require.NoError(t, s.TakeOver(t.Context()))
	s.ingest(Traces(Spans(Service("a"), Span(1, 2, 1), Span(2, 1, 0))))
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
	require.Empty(t, w.leases)
	require.Zero(t, w.totals("a", catalog.SPA001))

	next := w.start(t, "b", nil)
	require.NoError(t, next.TakeOver(t.Context()))
	require.Equal(t, 2, next.Traces().Traces)
	next.ingest(Traces(Spans(Service("a"), Span(1, 1, 0))))
	next.closeAll()
	require.Equal(t, delta.Count{Observed: 1}, w.totals("a", catalog.SPA002))
	require.Len(t, w.leases, 1)
}

// TestCloseWithoutStore: Close succeeds without a store, because open traces are in the journal.
func TestCloseWithoutStore(t *testing.T) {
	w := newWorld(T0)
	s := w.start(t, "a", nil)
	require.NoError(t, s.TakeOver(t.Context()))
	s.ingest(Traces(Spans(Service("a"), Span(1, 2, 1))))
	w.advance(time.Minute) // the trace is due
	s.p.kill()
	require.NoError(t, s.Close(t.Context()))

	w.mu.Lock()
	clear(w.leases) // all leases expire
	w.mu.Unlock()
	next := w.start(t, "b", nil)
	require.NoError(t, next.TakeOver(t.Context()))
	next.closeAll()
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, w.totals("a", catalog.SPA002))
}

// TestJournalsEnd: the last entry of an adopted journal is deleted after a day, and a journal of an unknown version
// is kept.
func TestJournalsEnd(t *testing.T) {
	w := newWorld(T0)
	w.journals["newer"] = map[uint64][]byte{1: {99, 1, 2, 3}}
	for i := range 3 {
		s := w.start(t, fmt.Sprint(i), nil)
		s.ingest(Traces(Spans(Service("a"), Span(i, 1, 0))))
		require.NoError(t, s.Close(t.Context()))
	}
	s := w.start(t, "last", nil)
	for range 3 {
		require.NoError(t, s.TakeOver(t.Context()))
		require.Len(t, w.entries(), 5)
	}
	s.closeAll()
	require.NoError(t, s.CloseTraces(t.Context()))
	require.Equal(t, map[string]int{"newer": 1, onlyName(w, "0"): 1, onlyName(w, "1"): 1, onlyName(w, "2"): 1}, w.entries())
	w.advance(24 * time.Hour)
	again := w.start(t, "again", nil) // has not seen the journals before
	require.NoError(t, s.TakeOver(t.Context()))
	require.NoError(t, again.TakeOver(t.Context()))
	require.Equal(t, map[string]int{"newer": 1}, w.entries())
	require.Equal(t, delta.Count{Observed: 3}, w.totals("a", catalog.SPA001))
}

// TestSuccessorsCrash: failover works even if the successor and the next one also die.
func TestSuccessorsCrash(t *testing.T) {
	const traces = 42_000 // adopting them takes several transactions
	var spans []*tracepb.Span
	for i := range traces {
		spans = append(spans, Span(i, 2, i%2))
	}
	w := newWorld(T0)
	s := w.start(t, "owner", nil)
	s.ingest(Traces(Spans(Service("a"), spans...)))
	require.NoError(t, s.Close(t.Context()))
	for i, ends := range []map[int]end{{1: diesAfter}, {2: diesBefore}, {1: resultLost, 2: diesAfter}, {1: refused, 2: resultLost, 4: diesAfter}} {
		s = w.start(t, fmt.Sprint("heir ", i), ends)
		for try := 0; s.p.alive() == nil; try++ {
			require.Less(t, try, 20)
			if s.TakeOver(t.Context()) == nil {
				s.p.kill()
			}
		}
		w.mu.Lock()
		clear(w.leases)
		w.mu.Unlock()
	}
	s = w.start(t, "last", nil)
	require.NoError(t, s.TakeOver(t.Context()))
	require.Equal(t, traces, s.Traces().Traces)
	s.closeAll()
	require.Equal(t, delta.Count{Observed: traces}, w.totals("a", catalog.SPA001))
	require.Equal(t, delta.Count{Observed: traces / 2, Failed: traces / 2}, w.totals("a", catalog.SPA002))
}

// TestSQLite takes over from a process that did not close its store.
func TestSQLite(t *testing.T) {
	f := newFixture(t)
	path := filepath.Join(t.TempDir(), "assay.db")
	open := func(name string) (*faultyStore, *lease.Coordinator) {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Migrate: true, Now: f.clock})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return &faultyStore{Store: store}, lease.New(lease.Config{Store: store, Name: name, Now: f.clock})
	}
	begin := func(store *faultyStore, leases *lease.Coordinator) *engine.Engine {
		f.store = store
		e := f.engine(func(c *engine.Config) {
			c.Store = store
			c.Journal = &engine.JournalConfig{Name: "replica", Store: store, Leases: leases}
		})
		require.NoError(t, e.TakeOver(t.Context()))
		return e
	}
	store, leases := open("first")
	o := &assay.Organization{Name: "org", Tier: assay.TierFree}
	require.NoError(t, store.CreateOrganization(t.Context(), o))
	f.org = o.ID
	first := begin(store, leases)
	f.ingest(first, Traces(Spans(Service("a"), Span(1, 2, 1), Span(1, 3, 7), Span(2, 1, 0))))
	store.set(errDead, nil)
	f.advance(time.Second)

	second := begin(open("second"))
	f.ingest(second, Traces(Spans(Service("b"), Span(1, 1, 0), Span(2, 2, 1))))
	f.ingest(second, Traces(Spans(Service("a"), Span(1, 2, 1), Span(1, 3, 7), Span(2, 1, 0)))) // retried
	require.Equal(t, 2, second.Traces().Spans)
	f.advance(10 * time.Second)
	require.NoError(t, second.TakeOver(t.Context()))
	require.Equal(t, 5, second.Traces().Spans)
	f.advance(30 * time.Second)
	require.NoError(t, second.CloseTraces(t.Context()))
	require.Equal(t, delta.Count{Observed: 2, Failed: 1}, f.totals("a", catalog.SPA002))
	require.Equal(t, delta.Count{Observed: 1}, f.totals("b", catalog.SPA002))
	require.Equal(t, delta.Count{Observed: 2}, f.totals("a", catalog.SPA001))
	require.NoError(t, second.CloseTraces(t.Context()))
	journals, err := f.store.Journals(t.Context())
	require.NoError(t, err)
	require.Len(t, journals, 1, "the last entry of the first one")
	store.set(nil, nil)
}
