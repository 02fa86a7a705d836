// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"assay"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
)

// Defaults of the command line.
const (
	DefaultTimeout    = 30 * time.Second
	DefaultDailyCalls = 200
)

const (
	maxCalls    = 8               // generations at a time, half of them of one organization
	maxFlights  = 64              // generations in flight, most of them waiting; see fair.Limiter
	saveTimeout = 5 * time.Second // beyond the timeout, for a reply that has been paid for

	leasePrefix = "summary:"
	leaseWait   = 250 * time.Millisecond // between polls for a summary that another process generates
)

// Config configures a Summarizer.
type Config struct {
	Store    assay.SummaryStore
	Provider Provider
	// DailyCalls limits the generations of an organization per UTC day. Retries do not count, failures do. 0: no
	// limit.
	DailyCalls int
	// Timeout limits a generation including its retries. Default: DefaultTimeout.
	Timeout time.Duration
	// Leases serializes the generations of a summary among the processes of the store, so that only one generates it.
	// Default: this is the only process.
	Leases Leases
	// Now returns the time. Default time.Now.
	Now func() time.Time
	// Logger logs failures. Default: none.
	Logger *slog.Logger
	// Observe, if set, is called with the outcome of every request for a summary.
	Observe func(Outcome)
	// ObserveCall, if set, is called after every call to the provider, including retries.
	ObserveCall func(CallOutcome, time.Duration)
}

// Leases acquires leases, each for one process at a time. Implementations must be safe for concurrent use.
type Leases interface {
	// Acquire acquires a lease until Release. It reports whether it succeeded.
	Acquire(ctx context.Context, name string) (bool, error)
	Release(ctx context.Context, name string) error
}

// Outcome is the outcome of a request for a summary.
type Outcome string

// Outcomes of requests.
const (
	Cached    Outcome = "cached"    // it was in the store
	Generated Outcome = "generated" // it was written for this request
	Shared    Outcome = "shared"    // it was being written for another request
	Limited   Outcome = "limited"   // the day's calls are used up
	Paused    Outcome = "paused"    // the provider failed the organization recently, or too many requests wait
	Failed    Outcome = "failed"    // the provider failed
	Errored   Outcome = "error"     // the store failed, or the insight no longer exists
	Canceled  Outcome = "canceled"  // the caller disconnected
)

// Outcomes are all outcomes of a request.
var Outcomes = []Outcome{Cached, Generated, Shared, Limited, Paused, Failed, Errored, Canceled}

// CallOutcome is the outcome of one call to the provider.
type CallOutcome string

// Outcomes of calls.
const (
	CallOK       CallOutcome = "ok"
	CallRefused  CallOutcome = "refused"  // another 3xx or 4xx, such as for a wrong key
	CallLimited  CallOutcome = "limited"  // 429
	CallError    CallOutcome = "error"    // 5xx
	CallBroken   CallOutcome = "broken"   // no whole response
	CallTimeout  CallOutcome = "timeout"  // no response in time
	CallUnusable CallOutcome = "unusable" // a response without a summary
)

// CallOutcomes are all outcomes of a call.
var CallOutcomes = []CallOutcome{CallOK, CallRefused, CallLimited, CallError, CallBroken, CallTimeout, CallUnusable}

// Summarizer implements assay.Summarizer. It is safe for concurrent use.
type Summarizer struct {
	cfg    Config
	calls  *fair.Semaphore // for generations, by organization
	pauses pauses

	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup

	flights singleflight.Group // by key
	begun   *fair.Limiter      // flights by organization

	mu     sync.Mutex
	closed bool
}

var _ assay.Summarizer = (*Summarizer)(nil)

// New returns a Summarizer. The caller closes it before the store.
func New(c Config) *Summarizer {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Observe == nil {
		c.Observe = func(Outcome) {}
	}
	if c.ObserveCall == nil {
		c.ObserveCall = func(CallOutcome, time.Duration) {}
	}
	s := &Summarizer{
		cfg:   c,
		calls: fair.NewSemaphore(maxCalls, maxCalls/2),
		begun: fair.NewLimiter(maxFlights),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close cancels generations and waits for them.
func (s *Summarizer) Close() {
	s.close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	if p, ok := s.cfg.Provider.(interface{ CloseIdleConnections() }); ok {
		p.CloseIdleConnections()
	}
}

// unavailable is a CodeUnavailable error with a delay.
type unavailable struct {
	err     *assay.Error
	after   time.Duration
	outcome Outcome
}

func (e *unavailable) Error() string { return e.err.Error() }
func (e *unavailable) Unwrap() error { return e.err }

// RetryAfter returns the delay before the next attempt.
func (e *unavailable) RetryAfter() time.Duration { return e.after }

// Delays that are returned to callers.
const (
	afterFailure = 10 * time.Second
	afterBusy    = 5 * time.Second
)

func unavailableAs(outcome Outcome, after time.Duration, format string, args ...any) *unavailable {
	return &unavailable{err: assay.Errorf(assay.CodeUnavailable, format, args...), after: after, outcome: outcome}
}

// written is the result of a flight.
type written struct {
	summary *assay.InsightSummary
	outcome Outcome
}

// Summarize implements assay.Summarizer. Concurrent callers for the same summary share one generation, which has its
// own deadline and continues when the first caller disconnects. A summary is stored before it is returned. Failures
// are not cached.
func (s *Summarizer) Summarize(ctx context.Context, i *assay.Insight) (*assay.InsightSummary, error) {
	summary, outcome, err := s.summarize(ctx, i)
	s.cfg.Observe(outcome)
	return summary, err
}

func (s *Summarizer) summarize(ctx context.Context, i *assay.Insight) (*assay.InsightSummary, Outcome, error) {
	g, err := s.generation(i)
	if err != nil {
		return nil, Errored, err
	}
	switch found, err := s.cfg.Store.FindSummary(ctx, g.key); {
	case err == nil:
		found.Cached = true
		return found, Cached, nil
	case assay.ErrorCode(err) != assay.CodeNotFound:
		return nil, Errored, err
	}
	mine := false
	flight := s.flights.DoChan(fmt.Sprint(g.key), func() (any, error) {
		mine = true
		return s.write(context.WithoutCancel(ctx), g)
	})
	select {
	case <-ctx.Done():
		return nil, Canceled, fmt.Errorf("summary: wait for the summary of insight %s: %w", i.ID, context.Cause(ctx))
	case r := <-flight:
		w := r.Val.(written)
		if r.Err != nil {
			return nil, w.outcome, r.Err
		}
		summary := *w.summary
		if !mine {
			summary.Cached, w.outcome = true, Shared
		}
		return &summary, w.outcome, nil
	}
}

// generation returns a new generation for an insight.
func (s *Summarizer) generation(i *assay.Insight) (*generation, error) {
	rule, ok := catalog.ByInsightType(i.Type)
	if !ok { // written by a newer replica during an upgrade
		return nil, unavailableAs(Errored, afterFailure, "the type of this insight is not known to this version")
	}
	prompt, err := newPrompt(i, rule)
	if err != nil {
		return nil, err
	}
	return &generation{
		Summarizer: s, prompt: prompt, rule: rule,
		key: assay.SummaryKey{
			OrganizationID: i.OrganizationID, InsightID: i.ID,
			Evidence: prompt.evidence(), Model: s.cfg.Provider.Model(), PromptVersion: PromptVersion,
		},
	}, nil
}

// CachedSummary returns the result of Summarize if it needs no call to the model, else CodeNotFound. It is not counted
// as a request for a summary.
func (s *Summarizer) CachedSummary(ctx context.Context, i *assay.Insight) (*assay.InsightSummary, error) {
	g, err := s.generation(i)
	if err != nil {
		return nil, assay.Errorf(assay.CodeNotFound, "no summary: %w", err)
	}
	found, err := s.cfg.Store.FindSummary(ctx, g.key)
	if err != nil {
		return nil, err
	}
	found.Cached = true
	return found, nil
}

// write generates a summary for all callers that wait for it, unless there are too many.
func (s *Summarizer) write(ctx context.Context, g *generation) (w written, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return written{outcome: Paused}, unavailableAs(Paused, afterBusy, "summaries are shutting down")
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	if !s.begun.Acquire(g.key.OrganizationID, 1) {
		return written{outcome: Paused}, unavailableAs(Paused, afterBusy, "too many summaries are being written")
	}
	defer s.begun.Release(g.key.OrganizationID, 1)
	w.summary, w.outcome, err = g.run(ctx)
	return w, err
}

// sleep waits for d or the end of the context.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
