// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
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

// Store is the store of an Engine. Implementations must be safe for concurrent use.
type Store interface {
	commit.Store
	// KnownServices returns the keys of an organization's services in the store.
	KnownServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, error)
	// KnownMetricNames returns the Low part of the stable hashes of the stored metric names, by service.
	KnownMetricNames(ctx context.Context, organizationID string) (map[assay.ServiceKey][]uint64, error)
	// HashKey returns the key of an organization's stable hashes. It never changes.
	HashKey(ctx context.Context, organizationID string) (delta.HashKey, error)
}

// Config configures an Engine. Store is required. Other zero fields select the default.
type Config struct {
	Store          Store
	Window         time.Duration   // default 30 days
	Step           time.Duration   // bucket size of the window; default 1 h
	CommitInterval time.Duration   // default 100 ms
	Trace          trace.Config    // Step, Filter and Seed are set by New
	Journal        *JournalConfig  // journal of open traces; nil: memory only
	MaxServices    int             // per organization; default 10,000
	MaxMetricNames int             // per service; default 2,000
	Replicas       func() int      // number of processes that share the store; default 1
	CPU            *fair.Semaphore // for evaluations, shared with the receiver; default: one of its own
	Now            func() time.Time
	Logger         *slog.Logger

	// Committed, if set, is called after a transaction with the number of log records that it added, by organization,
	// before its requests are acknowledged. Calls are sequential and in the order of the transactions. The requests
	// wait for the call to return. A repeated request is in one call only.
	Committed func(records map[string]assay.SeverityCounts)
}

// futureTolerance is how far a timestamp may be ahead of the arrival of its record.
const futureTolerance = time.Minute

// Engine ingests requests. It is safe for concurrent use.
type Engine struct {
	cfg        Config
	quota      *Quota
	committer  *commit.Committer
	traces     *openTraces
	evaluators evaluators
	batches    sync.Pool

	// Requests in progress. None is added once the engine is closing.
	submitted sync.WaitGroup
	closeMu   sync.RWMutex
	closing   bool
	closeOnce sync.Once
	closed    chan struct{} // closed when everything is committed
	closeErr  error

	counters Counters
}

// Counters count since the start of the process.
type Counters struct {
	Requests atomic.Uint64 // acknowledged
	Repeated atomic.Uint64 // acknowledged repetitions, not counted again
	Refused  atomic.Uint64 // malformed or not committed
	Spans    atomic.Uint64
	Points   atomic.Uint64 // metric data points
	Records  atomic.Uint64 // log records
	Bytes    atomic.Uint64
	Overflow atomic.Uint64 // records beyond a quota

	Unevaluated atomic.Uint64 // traces dropped because their verdicts could not be committed
}

// New returns a running Engine. Close stops it.
func New(cfg Config) *Engine {
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	if cfg.Step <= 0 {
		cfg.Step = assay.DefaultWindowStep
	}
	if cfg.CPU == nil {
		cfg.CPU = fair.NewCPU(runtime.GOMAXPROCS(0), time.Now)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	filter := delta.NewFilter(21) // 16 MiB
	cfg.Trace.Step, cfg.Trace.Filter, cfg.Trace.Seed = cfg.Step, filter, rand.Uint64()
	assembler := trace.NewAssembler(cfg.Trace)
	e := &Engine{
		cfg: cfg,
		quota: NewQuota(QuotaConfig{
			Store: cfg.Store, MaxServices: cfg.MaxServices, MaxMetricNames: cfg.MaxMetricNames, Replicas: cfg.Replicas, Now: cfg.Now, Logger: cfg.Logger,
		}),
		traces:  &openTraces{assembler: assembler, tx: assembler.Transaction()},
		batches: sync.Pool{New: func() any { return new(rules.Batch) }},
		closed:  make(chan struct{}),
	}
	e.traces.windowStart = func() uint64 { return e.input("").Start }
	if cfg.Journal != nil {
		e.traces.journal = newJournal(*cfg.Journal, assembler, cfg.Now, cfg.Logger)
	}
	e.committer = commit.New(commit.Config{
		Store: cfg.Store, Filter: filter, Interval: cfg.CommitInterval,
		Journal: e.traces, Replicas: cfg.Replicas, Now: cfg.Now, Logger: cfg.Logger, Committed: cfg.Committed,
	})
	e.evaluators.config = rules.Config{Step: cfg.Step, Filter: filter, Quota: e.quota, MaxServices: partServices, MaxHours: partHours, MaxSpans: partSpans, MaxFacts: partFacts}
	return e
}

// Counters returns the engine's counters.
func (e *Engine) Counters() *Counters { return &e.counters }

// Behind returns how long requests have been waiting without a commit, or 0 if none is waiting.
func (e *Engine) Behind() time.Duration { return e.committer.Behind() }

// Refused reports whether the store was unavailable at the last commit, and how long ago.
func (e *Engine) Refused() (ago time.Duration, ok bool) { return e.committer.Failed() }

// Recovering reports whether the engine is still looking for open traces of an earlier process.
func (e *Engine) Recovering() bool { return e.traces.journal != nil && e.traces.journal.waits() }

// Traces returns the usage of the memory for open traces.
func (e *Engine) Traces() trace.Stats { return e.traces.assembler.Stats() }

// input returns the evaluation input for a request that arrives now.
func (e *Engine) input(organizationID string) rules.Input {
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

// Ingest evaluates an uncompressed protobuf request and returns when its facts are durable. It does not retain body.
// A warning is for the sender: the request was accepted, but part of it was not evaluated. Malformed input returns a
// *wire.Error. A request that was not evaluated before ctx ended or could not be committed returns CodeUnavailable
// and may be retried.
func (e *Engine) Ingest(ctx context.Context, organizationID string, signal wire.Signal, body []byte) (warning string, err error) {
	in := e.input(organizationID)
	if err := e.quota.Load(ctx, organizationID); err != nil {
		if ctx.Err() != nil {
			return "", &assay.Error{Code: assay.CodeUnavailable, Message: "timeout while reading the organization's limits", Err: err}
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

// ingest evaluates and commits a request admitted by open, and ends it.
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
	// ctx may end while the facts are in a transaction. The goroutine handles the result in any case.
	done := make(chan outcome, 1)
	size := len(body)
	e.submitted.Go(func() {
		if err := e.commitPart(ctx, p); err != nil {
			done <- e.refused(err)
			return
		}
		defer e.recycle(p.batch)
		done <- e.committed([]*part{p}, size)
	})
	select {
	case o := <-done:
		return o
	case <-ctx.Done():
		return outcome{err: &assay.Error{Code: assay.CodeUnavailable, Message: "the request was not committed in time", Err: ctx.Err()}}
	}
}

// refused counts a request that was not ingested.
func (e *Engine) refused(err error) outcome {
	e.counters.Refused.Add(1)
	return outcome{err: err}
}

// open admits a request. It returns false if the engine is closing.
func (e *Engine) open() bool {
	e.closeMu.RLock()
	defer e.closeMu.RUnlock()
	if !e.closing {
		e.submitted.Add(1)
	}
	return !e.closing
}

// outcome is the response to a request.
type outcome struct {
	warning string
	err     error
}

func (e *Engine) recycle(b *rules.Batch) {
	b.Reset()
	e.batches.Put(b)
}

// acquireSlot waits for an evaluation slot of the organization.
func (e *Engine) acquireSlot(ctx context.Context, organizationID string) error {
	err := context.Cause(ctx)
	if err == nil {
		err = e.cfg.CPU.Acquire(ctx, organizationID)
	}
	if err != nil {
		return &assay.Error{Code: assay.CodeUnavailable, Message: "too many requests wait for evaluation", Err: err}
	}
	return nil
}

// evaluate evaluates a part of a request in an evaluation slot of the organization.
func (e *Engine) evaluate(ctx context.Context, signal wire.Signal, body []byte, in rules.Input, p *part) error {
	if err := e.acquireSlot(ctx, in.OrganizationID); err != nil {
		return err
	}
	defer e.cfg.CPU.Release(in.OrganizationID)
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

// evaluators is the pool of idle evaluators. The most recently used one, with the warmest caches, is last. The pool
// grows to the maximum number used concurrently.
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

// Run closes due traces, and takes over the traces of abandoned journals, until ctx ends.
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
				e.cfg.Logger.ErrorContext(ctx, "failed to commit verdicts of closed traces, will retry", "error", err)
			}
		}
	}
}

// Close commits pending submissions and stops the engine. Later requests return CodeUnavailable. Open traces stay in
// the journal for other processes. Without a journal they are evaluated as far as possible. Close returns early when
// ctx ends, and may be called again.
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
		return errors.Join(errors.New("close engine: timeout while committing"), ctx.Err())
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
	// An unavailable store is harmless here: traces without a verdict are in the journal.
	if err := e.CloseTraces(ctx); err != nil {
		e.cfg.Logger.WarnContext(ctx, "failed to close due traces, leaving them to the next process", "error", err)
	}
	e.committer.Close()
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := j.close(ctx); err != nil {
		e.cfg.Logger.WarnContext(ctx, "failed to release the trace journal, other processes wait until its lease expires", "error", err)
	}
	return nil
}

// releaseTimeout limits the release of the journal. Its lease would expire a little later.
const releaseTimeout = 3 * time.Second

// Refresh updates the quotas from the store.
func (e *Engine) Refresh(ctx context.Context) error { return e.quota.Refresh(ctx) }
