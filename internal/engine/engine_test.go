// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
	. "assay/internal/rules/rulestest"
	"assay/internal/score"
	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/fresh"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faultyStore is a store whose commits fail or block on demand.
type faultyStore struct {
	*sqlite.Store
	mu   sync.Mutex
	fail error
	hold chan struct{} // commits wait until it is closed
	held atomic.Int64  // commits that have waited
	// reading, if set, is called when a journal is read.
	reading func()
}

func (g *faultyStore) ReadJournal(ctx context.Context, name string, after uint64, n int) ([]delta.JournalEntry, error) {
	if g.reading != nil {
		g.reading()
	}
	return g.Store.ReadJournal(ctx, name, after, n)
}

func (g *faultyStore) set(fail error, hold chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail, g.hold = fail, hold
}

func (g *faultyStore) Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	g.mu.Lock()
	fail, hold := g.fail, g.hold
	g.mu.Unlock()
	if hold != nil {
		g.held.Add(1)
		<-hold
	}
	if fail != nil {
		return fail
	}
	return g.Store.Commit(ctx, now, requests, merge)
}

type fixture struct {
	t     *testing.T
	store *faultyStore
	org   string
	mu    sync.Mutex
	now   time.Time
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, now: T0}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: fresh.Path(t), Now: f.clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	f.store = &faultyStore{Store: store}
	o := &assay.Organization{Name: "org", Tier: assay.TierFree}
	require.NoError(t, store.CreateOrganization(t.Context(), o))
	f.org = o.ID
	return f
}

func (f *fixture) engine(set ...func(*engine.Config)) *engine.Engine {
	cfg := engine.Config{Store: f.store, Now: f.clock, CommitInterval: time.Millisecond, CPU: fair.NewCPU(2, time.Now)}
	for _, s := range set {
		s(&cfg)
	}
	e := engine.New(cfg)
	f.t.Cleanup(func() {
		f.store.set(nil, nil)
		_ = e.Close(context.Background()) //nolint:usetesting // the test's own context has ended
	})
	return e
}

func (f *fixture) ingest(e *engine.Engine, q Request) string {
	f.t.Helper()
	warning, err := e.Ingest(f.t.Context(), f.org, q.Signal, q.Body)
	require.NoError(f.t, err)
	return warning
}

// totals returns the stored counts of a service's rule.
func (f *fixture) totals(name string, r catalog.Rule) delta.Count {
	f.t.Helper()
	id := delta.ServiceID(f.org, assay.ServiceKey{Name: name, Environment: "test"})
	if name == assay.OverflowService {
		id = delta.ServiceID(f.org, assay.ServiceKey{Name: name})
	}
	facts, err := f.store.Facts(f.t.Context(), f.org, []string{id}, 0)
	require.NoError(f.t, err)
	if len(facts) == 0 {
		return delta.Count{}
	}
	return facts[0].Totals[r]
}

func (f *fixture) names() (names []string) {
	f.t.Helper()
	services, _, err := f.store.FindServices(f.t.Context(), f.org, assay.Page{Limit: 1000})
	require.NoError(f.t, err)
	for _, s := range services {
		names = append(names, s.Name)
	}
	return names
}

func TestAcknowledgedAfterCommit(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	hold := make(chan struct{})
	f.store.set(nil, hold)
	done := make(chan error, 1)
	q := LogsRequest(Logs(Service("a"), Log("x")))
	go func() {
		_, err := e.Ingest(t.Context(), f.org, q.Signal, q.Body)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("acknowledged before it was committed: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.Zero(t, e.Counters().Requests.Load())
	close(hold)
	require.NoError(t, <-done)
	require.EqualValues(t, 1, f.totals("a", catalog.LOG002).Observed)
	require.EqualValues(t, 1, e.Counters().Requests.Load())
	require.EqualValues(t, 1, e.Counters().Records.Load())
	require.EqualValues(t, len(q.Body), e.Counters().Bytes.Load())
}

// TestSenderGivesUp: a request in a transaction is committed even if its sender times out.
func TestSenderGivesUp(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	hold := make(chan struct{})
	f.store.set(nil, hold)
	ctx, cancel := context.WithCancel(t.Context())
	q := Traces(Spans(Service("a"), Span(1, 1, 0)))
	go func() {
		defer cancel()
		for f.store.held.Load() == 0 {
			runtime.Gosched()
		}
	}()
	_, err := e.Ingest(ctx, f.org, q.Signal, q.Body)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.ErrorIs(t, err, context.Canceled)
	f.store.set(nil, nil)
	close(hold)
	f.ingest(e, q) // retried
	require.EqualValues(t, 1, f.totals("a", catalog.SPA004).Observed)
	require.EqualValues(t, 1, e.Counters().Repeated.Load())
	require.Eventually(t, func() bool { return e.Traces().Spans == 1 }, time.Minute, time.Millisecond, "the first attempt adds its spans")
}

// TestSenderGivesUpInTheQueue: a queued request is removed when its sender gives up.
func TestSenderGivesUpInTheQueue(t *testing.T) {
	f := newFixture(t)
	e := f.engine(func(c *engine.Config) { c.MaxServices = 2 })
	hold := make(chan struct{})
	f.store.set(nil, hold)
	first := make(chan error, 1)
	go func() {
		q := LogsRequest(Logs(Service("a"), Log("x")))
		_, err := e.Ingest(t.Context(), f.org, q.Signal, q.Body)
		first <- err
	}()
	require.Eventually(t, func() bool { return f.store.held.Load() > 0 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	q := LogsRequest(Logs(Service("b"), Log("x")))
	_, err := e.Ingest(ctx, f.org, q.Signal, q.Body)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.Eventually(t, func() bool { return e.Counters().Refused.Load() == 1 }, time.Minute, time.Millisecond, "while the store hangs")
	f.store.set(nil, nil)
	close(hold)
	require.NoError(t, <-first)
	require.Empty(t, f.ingest(e, LogsRequest(Logs(Service("c"), Log("x")))), "its admission was released")
	require.ElementsMatch(t, []string{"a", "c"}, f.names())
}

// TestSenderGivesUpImmediately: a request whose context has ended before the evaluation leaves no state.
func TestSenderGivesUpImmediately(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := Traces(Spans(Service("a"), Span(1, 1, 0)))
	_, err := e.Ingest(ctx, f.org, q.Signal, q.Body)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.ErrorIs(t, err, context.Canceled)
	f.ingest(e, q)
	require.Zero(t, e.Counters().Repeated.Load())
}

// TestCloseUnderLoad: acknowledged requests are stored, and all others were refused.
func TestCloseUnderLoad(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	var wg sync.WaitGroup
	var acknowledged atomic.Uint64
	for w := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				_, err := e.Ingest(t.Context(), f.org, wire.Logs, LogsRequest(Logs(Service("a"), Log(fmt.Sprint(w, i)))).Body)
				if err != nil {
					require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return acknowledged.Load() > 8 }, time.Minute, time.Millisecond)
	require.NoError(t, e.Close(t.Context()))
	wg.Wait()
	require.Equal(t, acknowledged.Load(), f.totals("a", catalog.LOG002).Observed)
}

func TestRepeatedRequestCountsOnce(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	q := Traces(Spans(Service("a"), Span(1, 1, 0)))
	for range 3 {
		f.ingest(e, q)
	}
	require.EqualValues(t, 1, f.totals("a", catalog.SPA004).Observed)
	require.EqualValues(t, 2, e.Counters().Repeated.Load())
	require.Equal(t, 1, e.Traces().Spans)

	// The same bytes for another signal or organization are another request.
	other := &assay.Organization{Name: "other", Tier: assay.TierFree}
	require.NoError(t, f.store.CreateOrganization(t.Context(), other))
	_, err := e.Ingest(t.Context(), other.ID, q.Signal, q.Body)
	require.NoError(t, err)
	require.EqualValues(t, 2, e.Counters().Repeated.Load())
}

// TestLogRecords: every accepted log record counts once by severity, before the acknowledgement.
func TestLogRecords(t *testing.T) {
	f := newFixture(t)
	var mu sync.Mutex
	reported := make(map[string]assay.SeverityCounts)
	e := f.engine(func(c *engine.Config) {
		c.MaxServices = 1
		c.Committed = func(records map[string]assay.SeverityCounts) {
			mu.Lock()
			defer mu.Unlock()
			for id, counts := range records {
				sum := reported[id]
				sum.Add(&counts)
				reported[id] = sum
			}
		}
	})
	severity := func(n int32) *logspb.LogRecord {
		return Log("x", func(r *logspb.LogRecord) { r.SeverityNumber = logspb.SeverityNumber(n) })
	}
	old := severity(17)
	old.TimeUnixNano = Nano(After(-60 * 24 * time.Hour))
	q := LogsRequest(Logs(Service("a"), severity(1), severity(9), severity(12), old),
		Logs(Service("beyond the quota"), severity(24), severity(0), severity(25), severity(-1)))
	want := assay.SeverityCounts{
		assay.SeverityTrace: 1, assay.SeverityInfo: 2, assay.SeverityError: 1, assay.SeverityFatal: 1, assay.SeverityUnspecified: 3,
	}
	for range 2 { // the second is a repetition
		f.ingest(e, q)
		stored, err := f.store.LogRecords(t.Context(), f.org, time.Unix(0, 0), time.Now().AddDate(100, 0, 0), time.Minute)
		require.NoError(t, err)
		require.Len(t, stored, 1)
		require.Equal(t, want, stored[0].Counts)
		mu.Lock()
		require.Equal(t, map[string]assay.SeverityCounts{f.org: want}, reported)
		mu.Unlock()
	}
	require.EqualValues(t, 1, e.Counters().Repeated.Load())
	require.Equal(t, want.Total(), e.Counters().Records.Load())
}

// TestActiveSeries: a series counts once, whichever replica sees it, how often, and in which hour.
func TestActiveSeries(t *testing.T) {
	f := newFixture(t)
	active := func() uint64 {
		t.Helper()
		usage, err := f.store.FindUsage(t.Context(), f.org)
		require.NoError(t, err)
		require.Len(t, usage, 1)
		return usage[0].ActiveSeries
	}
	e, replica := f.engine(), f.engine()
	send := func(e *engine.Engine, from, to int) {
		t.Helper()
		var points []*metricspb.NumberDataPoint
		for n := from; n < to; n++ {
			points = append(points, Point(f.clock(), "k", n))
		}
		f.ingest(e, MetricsRequest(Metrics(Service("a"), Gauge("x", "1", points...))))
	}
	send(e, 0, 100)
	send(e, 0, 100)
	require.EqualValues(t, 100, active())
	require.EqualValues(t, 1, e.Counters().Repeated.Load())
	send(replica, 50, 150)
	require.EqualValues(t, 150, active())
	for range 30 {
		f.advance(time.Hour)
		send(e, 0, 50)
		send(replica, 140, 151)
	}
	require.EqualValues(t, 151, active())
	require.NoError(t, e.Close(t.Context()))
	send(f.engine(), 0, 152)
	require.EqualValues(t, 152, active(), "after a restart")
}

func TestMalformedRequest(t *testing.T) {
	f := newFixture(t)
	e := f.engine(func(c *engine.Config) { c.MaxServices = 1 })
	good := Traces(Spans(Service("a"), Span(1, 1, 0)), Spans(Service("b"), Span(1, 1, 0, func(s *tracepb.Span) { s.SpanId = []byte{1} })))
	_, err := e.Ingest(t.Context(), f.org, good.Signal, good.Body)
	var w *wire.Error
	require.ErrorAs(t, err, &w)
	require.EqualValues(t, 1, e.Counters().Refused.Load())
	require.Empty(t, f.names(), "nothing is stored")
	require.Zero(t, e.Traces().Spans)
	require.Empty(t, f.ingest(e, Traces(Spans(Service("c"), Span(1, 1, 0)))), "its admission was released")
}

func TestUnavailableStore(t *testing.T) {
	f := newFixture(t)
	e := f.engine(func(c *engine.Config) { c.MaxServices = 1 })
	f.store.set(errors.New("disk full"), nil)
	q := Traces(Spans(Service("a"), Span(1, 1, 0)))
	_, err := e.Ingest(t.Context(), f.org, q.Signal, q.Body)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.Zero(t, e.Traces().Spans, "its spans are not in a trace")
	f.store.set(nil, nil)
	require.Empty(t, f.ingest(e, Traces(Spans(Service("b"), Span(1, 1, 0)))), "its admission was released")
}

func TestServiceQuota(t *testing.T) {
	f := newFixture(t)
	small := func(c *engine.Config) { c.MaxServices = 2 }
	e := f.engine(small)
	require.Empty(t, f.ingest(e, LogsRequest(Logs(Service("a"), Log("x")), Logs(Service("b"), Log("x")))))
	warning := f.ingest(e, LogsRequest(Logs(Service("c"), Log("x"), Log("y")), Logs(Service("a"), Log("z"))))
	require.Contains(t, warning, "2 records")
	require.Contains(t, warning, assay.OverflowService)
	require.EqualValues(t, 2, e.Counters().Overflow.Load())
	require.Equal(t, []string{"a", assay.OverflowService, "b"}, f.names())
	require.Equal(t, delta.Count{Observed: 2, Failed: 2}, f.totals(assay.OverflowService, catalog.QuotaExceeded))
	require.EqualValues(t, 2, f.totals("a", catalog.LOG002).Observed, "known services are still evaluated")

	// Its traces are not evaluated either.
	f.ingest(e, Traces(Spans(Service("d"), Span(1, 1, 77)), Spans(Service("a"), Span(1, 2, 1))))
	f.advance(time.Minute)
	require.NoError(t, e.CloseTraces(t.Context()))
	require.Equal(t, delta.Count{}, f.totals(assay.OverflowService, catalog.SPA002))
	require.Equal(t, delta.Count{Observed: 1}, f.totals("a", catalog.SPA002), "but their spans count as parents")

	require.NoError(t, score.New(score.Config{Store: f.store, Now: f.clock}).Round(t.Context()))
	overflow, err := f.store.FindServiceByID(t.Context(), f.org, delta.ServiceID(f.org, assay.ServiceKey{Name: assay.OverflowService}))
	require.NoError(t, err)
	require.Nil(t, overflow.Score)
	insights, _, err := f.store.FindInsights(t.Context(), assay.InsightFilter{OrganizationID: f.org, ServiceID: overflow.ID, Page: assay.Page{Limit: 10}})
	require.NoError(t, err)
	require.Len(t, insights, 1)
	require.Equal(t, "quota_exceeded", insights[0].Type)

	// After a restart the quota knows the content of the store.
	require.NoError(t, e.Close(t.Context()))
	e = f.engine(small)
	require.NotEmpty(t, f.ingest(e, LogsRequest(Logs(Service("e"), Log("x")))))
	require.Empty(t, f.ingest(e, LogsRequest(Logs(Service("b"), Log("x2")))))
}

func TestMetricNameQuota(t *testing.T) {
	f := newFixture(t)
	small := func(c *engine.Config) { c.MaxMetricNames = 2 }
	e := f.engine(small)
	require.Empty(t, f.ingest(e, MetricsRequest(Metrics(Service("a"), Gauge("m1", "1"), Gauge("m2", "1")))))
	warning := f.ingest(e, MetricsRequest(Metrics(Service("a"), Gauge("m3", "", Point(T0), Point(T0)), Gauge("m1", "1"))))
	require.Contains(t, warning, "2 records")
	require.Equal(t, delta.Count{Observed: 3}, f.totals("a", catalog.MET002), "m3 is not evaluated")
	require.Equal(t, delta.Count{Observed: 2, Failed: 2}, f.totals(assay.OverflowService, catalog.QuotaExceeded))
	require.NotContains(t, f.ingest(e, MetricsRequest(Metrics(Service("b"), Gauge("m3", "1")))), "records", "each service has its own limit")
	usage, err := f.store.FindUsage(t.Context(), f.org)
	require.NoError(t, err)
	points := make(map[string]uint64)
	for _, u := range usage {
		points[u.Service.Name] = u.Metrics.Items
	}
	require.Equal(t, map[string]uint64{"a": 3, "b": 1, assay.OverflowService: 2}, points)

	require.NoError(t, e.Close(t.Context()))
	e = f.engine(small)
	require.NotEmpty(t, f.ingest(e, MetricsRequest(Metrics(Service("a"), Gauge("m4", "1")))), "a restart keeps the quota")
}

// TestRepeatKeepsAdmission: a repeated request that was evaluated before the first one committed must not release the
// admission of a stored service.
func TestRepeatKeepsAdmission(t *testing.T) {
	f := newFixture(t)
	e := f.engine(func(c *engine.Config) { c.MaxServices = 1 })
	q := LogsRequest(Logs(Service("a"), Log("x")))
	hold := make(chan struct{})
	f.store.set(nil, hold)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := e.Ingest(t.Context(), f.org, q.Signal, q.Body)
			require.NoError(t, err)
		})
	}
	time.Sleep(20 * time.Millisecond)
	close(hold)
	wg.Wait()
	require.EqualValues(t, 7, e.Counters().Repeated.Load())
	require.NotEmpty(t, f.ingest(e, LogsRequest(Logs(Service("b"), Log("x")))))
	require.Empty(t, f.ingest(e, LogsRequest(Logs(Service("a"), Log("y")))))
	require.NotContains(t, f.names(), "b")
}

func TestRefreshMakesRoom(t *testing.T) {
	f := newFixture(t)
	e := f.engine(func(c *engine.Config) { c.MaxServices = 1 })
	f.ingest(e, LogsRequest(Logs(Service("a"), Log("x"))))
	require.NotEmpty(t, f.ingest(e, LogsRequest(Logs(Service("b"), Log("x")))))
	f.advance(100 * 24 * time.Hour)
	p := score.PeriodAt(f.clock(), assay.DefaultWindow, time.Hour)
	require.NoError(t, f.store.Expire(t.Context(), f.clock(), delta.Bucket(p.Start.Unix()), delta.Bucket(p.MetricStart.Unix())))
	require.NoError(t, e.Refresh(t.Context()))
	require.Empty(t, f.ingest(e, LogsRequest(Logs(Service("b"), Log("y")))))
}

func TestTraceVerdicts(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	f.ingest(e, Traces(Spans(Service("a"), Span(1, 2, 1))))
	require.NoError(t, e.CloseTraces(t.Context()))
	require.Zero(t, f.totals("a", catalog.SPA002).Observed)
	f.advance(30 * time.Second)
	f.store.set(errors.New("disk full"), nil)
	require.Error(t, e.CloseTraces(t.Context()))
	require.Equal(t, 1, e.Traces().Traces, "uncommitted traces stay open")
	f.store.set(nil, nil)
	require.NoError(t, e.CloseTraces(t.Context()))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, f.totals("a", catalog.SPA002))
	require.NoError(t, e.CloseTraces(t.Context()))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, f.totals("a", catalog.SPA002), "once")
}

func TestClose(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	f.ingest(e, Traces(Spans(Service("a"), Span(1, 2, 1))))
	require.NoError(t, e.Close(t.Context()))
	require.Equal(t, delta.Count{Observed: 1}, f.totals("a", catalog.SPA001), "open traces are evaluated")
	require.Equal(t, delta.Count{}, f.totals("a", catalog.SPA002), "except for missing parents")
	_, err := e.Ingest(t.Context(), f.org, wire.Logs, LogsRequest(Logs(Service("a"), Log("x"))).Body)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.NoError(t, e.Close(t.Context()))
}

func TestCloseTimeout(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	f.ingest(e, Traces(Spans(Service("a"), Span(1, 2, 1))))
	hold := make(chan struct{})
	f.store.set(nil, hold)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.Close(ctx), context.DeadlineExceeded)
	close(hold)
	require.NoError(t, e.Close(t.Context()))
}

// leaving is a context that ends after a number of calls of Err.
type leaving struct {
	context.Context
	leave context.CancelFunc
	looks atomic.Int64
}

func (c *leaving) Err() error {
	if c.looks.Add(-1) == 0 {
		c.leave()
	}
	return c.Context.Err()
}

// TestEvaluationEndsWithTheRequest: when the context ends, the evaluation stops and leaves no state.
func TestEvaluationEndsWithTheRequest(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	h := wiretest.Hostile{Signal: wire.Logs, At: T0, Records: wiretest.Root, RecordShare: 8, Content: wiretest.Distinct}
	body := h.Request(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &leaving{Context: ctx, leave: cancel}
	c.looks.Store(20)
	_, err := e.Ingest(c, f.org, wire.Logs, body)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "not evaluated in time")
	require.Less(t, c.looks.Load(), int64(5), "Err was called more than twenty times")
	require.Greater(t, c.looks.Load(), int64(-10), "evaluation stops soon")
	require.EqualValues(t, 1, e.Counters().Refused.Load())
	_, err = e.Ingest(t.Context(), f.org, wire.Logs, body)
	require.NoError(t, err)
}

func TestFutureTimestamps(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	for i, at := range []time.Time{After(time.Minute), After(time.Minute + 1), {}} {
		f.ingest(e, LogsRequest(Logs(Service(fmt.Sprint("s", i)), Log("x", func(r *logspb.LogRecord) {
			r.TimeUnixNano = 0
			if !at.IsZero() {
				r.TimeUnixNano = Nano(at)
			}
		}))))
	}
	services, _, err := f.store.FindServices(t.Context(), f.org, assay.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, After(time.Minute), services[0].LastSeenAt, "a minute ahead is accepted")
	require.Equal(t, T0, services[1].LastSeenAt, "more is replaced by the arrival time")
	require.Equal(t, T0, services[2].LastSeenAt, "as without a timestamp")
}

func TestRun(t *testing.T) {
	f := newFixture(t)
	e := f.engine()
	f.ingest(e, Traces(Spans(Service("a"), Span(1, 1, 0))))
	f.advance(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	require.Eventually(t, func() bool { return e.Traces().Traces == 0 }, time.Minute, 20*time.Millisecond)
	cancel()
	<-done
}

func TestWaitingForAnEvaluatorEndsWithTheContext(t *testing.T) {
	f := newFixture(t)
	e := f.engine(func(c *engine.Config) { c.CPU = fair.NewCPU(1, time.Now) })
	f.ingest(e, LogsRequest(Logs(Service("a"), Log("x"))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	refused := 0
	for range 20 { // a free evaluator may still be used
		if _, err := e.Ingest(ctx, f.org, wire.Logs, LogsRequest(Logs(Service("a"), Log("x"))).Body); err != nil {
			require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
			refused++
		}
	}
	require.Positive(t, refused)
}
