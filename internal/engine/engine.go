// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"assay"
	"assay/internal/commit"
	"assay/internal/delta"
	"assay/internal/fair"
	"assay/internal/rules"
	"assay/internal/score"
	"assay/internal/trace"
	"assay/internal/wire"
)

// Store is what the engine needs of a store. Implementations may be used
// concurrently.
type Store interface {
	commit.Store
	// KnownServices returns the keys of the services kept for an organization.
	KnownServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, error)
	// KnownMetricNames returns the Lows of the stable hashes of the metric names kept,
	// by service.
	KnownMetricNames(ctx context.Context, organizationID string) (map[assay.ServiceKey][]uint64, error)
	// HashKey returns the key of an organization's stable hashes: always the same one.
	HashKey(ctx context.Context, organizationID string) (delta.HashKey, error)
}

// Config of an Engine. Store is needed; the zero value of another field means its
// default.
type Config struct {
	Store          Store
	Window         time.Duration  // default 30 days
	Step           time.Duration  // of the window; default 1 h
	CommitInterval time.Duration  // default 100 ms
	CommitTimeout  time.Duration  // of one transaction; default 5 s
	Trace          trace.Config   // Step, Filter and Seed are filled here
	Journal        *JournalConfig // of open traces; nil: they are in memory alone
	MaxServices    int            // per organization; default 10,000
	MaxMetricNames int            // per service; default 2,000
	Replicas       func() int     // how many processes work for the store; default 1
	Evaluators     int            // requests of one organization judged at a time, of all twice as many; default GOMAXPROCS
	Now            func() time.Time
	Logger         *slog.Logger

	// Committed, if set, is called with the log records of each organization that a
	// transaction added some for, after it has committed and before its requests
	// are acknowledged. The calls come one at a time, in the order of the
	// transactions; what they take, requests wait for. A request that was sent
	// again is in one call only.
	Committed func(records map[string]assay.SeverityCounts)

	// Input overrides what a request is judged under, but for the HashKey, for reading
	// recordings. By default that follows from Now.
	Input func(organizationID string) rules.Input
}

// futureTolerance is how far ahead of its arrival a record's timestamp is believed.
const futureTolerance = time.Minute

// Engine takes requests in. It may be used concurrently.
type Engine struct {
	cfg        Config
	quota      *Quota
	committer  *commit.Committer
	traces     *openTraces
	judging    *fair.Semaphore
	evaluators evaluators
	batches    sync.Pool

	// Requests whose outcome is open. None is added once the engine is closing.
	submitted sync.WaitGroup
	closeMu   sync.RWMutex
	closing   bool
	closeOnce sync.Once
	closed    chan struct{} // once everything is committed
	closeErr  error

	counters Counters
}

// Counters count since the start. They may be read at any time.
type Counters struct {
	Requests atomic.Uint64 // acknowledged
	Repeated atomic.Uint64 // acknowledged before and counted once
	Refused  atomic.Uint64 // malformed, or not committed
	Spans    atomic.Uint64
	Points   atomic.Uint64 // metric data points
	Records  atomic.Uint64 // log records
	Bytes    atomic.Uint64
	Overflow atomic.Uint64 // records past a quota

	Unevaluated atomic.Uint64 // traces dropped because their verdicts could not be committed
}

// New returns an Engine that takes requests at once. Close ends it.
func New(cfg Config) *Engine {
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	if cfg.Step <= 0 {
		cfg.Step = assay.DefaultWindowStep
	}
	if cfg.Evaluators <= 0 {
		cfg.Evaluators = runtime.GOMAXPROCS(0)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	filter := delta.NewFilter(21) // 16 MiB
	cfg.Trace.Step, cfg.Trace.Filter, cfg.Trace.Seed = cfg.Step, filter, rand.Uint64()
	assembler := trace.NewAssembler(cfg.Trace)
	e := &Engine{
		cfg: cfg,
		quota: NewQuota(QuotaConfig{
			Store: cfg.Store, MaxServices: cfg.MaxServices, MaxMetricNames: cfg.MaxMetricNames, Window: cfg.Window, Replicas: cfg.Replicas, Now: cfg.Now, Logger: cfg.Logger,
		}),
		traces:  &openTraces{assembler: assembler, tx: assembler.Transaction()},
		judging: fair.NewSemaphore(2*cfg.Evaluators, cfg.Evaluators),
		batches: sync.Pool{New: func() any { return new(rules.Batch) }},
		closed:  make(chan struct{}),
	}
	e.traces.windowStart = func() uint64 { return e.input("").Start }
	if cfg.Journal != nil {
		e.traces.journal = newJournal(*cfg.Journal, assembler, cfg.Now, cfg.Logger)
	}
	e.committer = commit.New(commit.Config{
		Store: cfg.Store, Filter: filter, Interval: cfg.CommitInterval, Timeout: cfg.CommitTimeout,
		Journal: e.traces, Now: cfg.Now, Logger: cfg.Logger, Committed: cfg.Committed,
	})
	e.evaluators.config = rules.Config{Step: cfg.Step, Filter: filter, Quota: e.quota, MaxHours: partHours, MaxSpans: partSpans, MaxFacts: partFacts}
	return e
}

// Counters returns the engine's counters.
func (e *Engine) Counters() *Counters { return &e.counters }

// Behind returns for how long requests have waited without one having been committed,
// 0 when none waits.
func (e *Engine) Behind() time.Duration { return e.committer.Behind() }

// Refused tells whether the store took nothing the last time that something was to be
// committed, and how long ago that was.
func (e *Engine) Refused() (ago time.Duration, ok bool) { return e.committer.Failed() }

// Recovering tells whether the engine still looks for open traces that a process before
// it may have left behind.
func (e *Engine) Recovering() bool { return e.traces.journal != nil && e.traces.journal.waits() }

// Traces returns how full the memory of open traces is.
func (e *Engine) Traces() trace.Stats { return e.traces.assembler.Stats() }

// input returns what a request that arrives now is judged under.
func (e *Engine) input(organizationID string) rules.Input {
	if e.cfg.Input != nil {
		return e.cfg.Input(organizationID)
	}
	now := e.cfg.Now()
	p := score.PeriodAt(now, e.cfg.Window, e.cfg.Step)
	return rules.Input{
		OrganizationID: organizationID,
		Start:          unixNano(p.Start),
		MetricStart:    unixNano(p.MetricStart),
		Arrival:        unixNano(now),
		Latest:         unixNano(now.Add(futureTolerance)),
	}
}

func unixNano(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// Ingest judges one uncompressed protobuf request and returns when its facts are
// durable; body is not kept. A warning is for the sender: the request was taken,
// but something in it was not judged. Malformed input is a *wire.Error; a request
// that was not evaluated before ctx ended or could not be committed has CodeUnavailable
// and may be sent again.
func (e *Engine) Ingest(ctx context.Context, organizationID string, signal wire.Signal, body []byte) (warning string, err error) {
	in := e.input(organizationID)
	if err := e.quota.Load(ctx, organizationID); err != nil {
		if ctx.Err() != nil {
			return "", &assay.Error{Code: assay.CodeUnavailable, Message: "the limits of the organization were not read in time", Err: err}
		}
		return "", err
	}
	in.HashKey = e.quota.HashKey(organizationID)
	if !e.open() {
		return "", assay.Errorf(assay.CodeUnavailable, "shutting down")
	}
	o := e.ingest(ctx, signal, body, in)
	return o.warning, o.err
}

// ingest evaluates and commits a request whose place is taken, and gives the place back.
func (e *Engine) ingest(ctx context.Context, signal wire.Signal, body []byte, in rules.Input) outcome {
	defer e.submitted.Done()
	bodies, err := wire.Split(body, partEntries, maxParts)
	if err != nil {
		return e.refused(err)
	}
	if len(bodies) > 1 {
		return e.ingestParts(ctx, signal, body, bodies, in)
	}
	p, err := e.evaluatePart(ctx, signal, body, in, in.HashKey.Request(body))
	if err != nil {
		return e.refused(err)
	}
	// The caller's time may run out while the facts are in a transaction. What becomes of
	// them is seen to all the same.
	done := make(chan outcome, 1)
	size := len(body)
	e.submitted.Add(1)
	go func() {
		defer e.submitted.Done()
		if err := e.commitPart(ctx, p); err != nil {
			done <- e.refused(err)
			return
		}
		defer e.recycle(p.batch)
		done <- e.committed([]*part{p}, size)
	}()
	select {
	case o := <-done:
		return o
	case <-ctx.Done():
		return outcome{err: &assay.Error{Code: assay.CodeUnavailable, Message: "the request was not committed in time", Err: ctx.Err()}}
	}
}

// refused counts a request that was not taken.
func (e *Engine) refused(err error) outcome {
	e.counters.Refused.Add(1)
	return outcome{err: err}
}

// open takes a place among the requests whose outcome is open; false when the
// engine is closing.
func (e *Engine) open() bool {
	e.closeMu.RLock()
	defer e.closeMu.RUnlock()
	if !e.closing {
		e.submitted.Add(1)
	}
	return !e.closing
}

// outcome is what a request's sender is told.
type outcome struct {
	warning string
	err     error
}

func (e *Engine) recycle(b *rules.Batch) {
	b.Reset()
	e.batches.Put(b)
}

// takeTurn waits for the organization's turn at the processor.
func (e *Engine) takeTurn(ctx context.Context, organizationID string) error {
	err := context.Cause(ctx)
	if err == nil {
		err = e.judging.Acquire(ctx, organizationID)
	}
	if err != nil {
		return &assay.Error{Code: assay.CodeUnavailable, Message: "too many requests wait to be judged", Err: err}
	}
	return nil
}

// evaluate waits for the organization's turn and evaluates a part of a request.
func (e *Engine) evaluate(ctx context.Context, signal wire.Signal, body []byte, in rules.Input, p *part) error {
	if err := e.takeTurn(ctx, in.OrganizationID); err != nil {
		return err
	}
	defer e.judging.Release(in.OrganizationID)
	ev := e.evaluators.take()
	defer e.evaluators.give(ev)
	if err := ev.Evaluate(ctx, signal, body, in, p.batch); err != nil {
		if ctx.Err() != nil {
			return &assay.Error{Code: assay.CodeUnavailable, Message: "the request was not evaluated in time", Err: err}
		}
		return err
	}
	p.detached = p.batch.Detach(partRows)
	return nil
}

// evaluators are those that judge nothing, the last one used at the end: its caches
// know most. There are as many as were ever needed at a time.
type evaluators struct {
	config rules.Config

	mu   sync.Mutex
	free []*rules.Evaluator
}

func (s *evaluators) take() *rules.Evaluator {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return rules.NewEvaluator(s.config)
	}
	last := len(s.free) - 1
	ev := s.free[last]
	s.free = s.free[:last]
	return ev
}

func (s *evaluators) give(ev *rules.Evaluator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, ev)
}

// Run closes traces as their time comes, and takes over those that processes left in
// their journals, until ctx ends.
func (e *Engine) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	if j := e.traces.journal; j != nil {
		others.Go(func() { j.run(ctx, e.adopt) })
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := e.CloseTraces(ctx); err != nil && ctx.Err() == nil {
				e.cfg.Logger.ErrorContext(ctx, "verdicts of closed traces wait for the store", "error", err)
			}
		}
	}
}

// Close commits what waits and ends the engine. Requests after it get
// CodeUnavailable. Traces that are still open stay in the journal for other
// processes; without one they are judged as far as that can be told. It returns early
// when ctx ends, and may be called again.
func (e *Engine) Close(ctx context.Context) error {
	e.closeMu.Lock()
	e.closing = true
	e.closeMu.Unlock()
	e.closeOnce.Do(func() {
		go func() {
			defer close(e.closed)
			e.closeErr = e.close(context.WithoutCancel(ctx))
		}()
	})
	select {
	case <-e.closed:
		return e.closeErr
	case <-ctx.Done():
		return errors.Join(errors.New("close engine: the store did not take everything in time"), ctx.Err())
	}
}

func (e *Engine) close(ctx context.Context) error {
	e.submitted.Wait()
	j := e.traces.journal
	if j == nil {
		err := e.FlushTraces(ctx, false)
		e.committer.Close()
		return err
	}
	// Nothing is lost with a store that is away: what is not judged is in the journal.
	if err := e.CloseTraces(ctx); err != nil {
		e.cfg.Logger.WarnContext(ctx, "traces whose time has come are left to the next process", "error", err)
	}
	e.committer.Close()
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := j.close(ctx); err != nil {
		e.cfg.Logger.WarnContext(ctx, "other processes have to wait for the journal of open traces", "error", err)
	}
	return nil
}

// releaseTimeout is how long giving up the journal may take, whose lease would
// expire a little later.
const releaseTimeout = 3 * time.Second

// Refresh brings the quota up to date with what the store still keeps.
func (e *Engine) Refresh(ctx context.Context) error { return e.quota.Refresh(ctx) }
