// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

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
	maxCalls    = 8               // generations at a time
	maxFlights  = 64              // generations in flight, most of them waiting; see fair.Calls
	saveTimeout = 5 * time.Second // beyond the timeout, for what has been paid for

	leasePrefix = "summary:"
	leaseWait   = 250 * time.Millisecond // between looks at what another process writes
)

// Config says who writes summaries and where they are kept.
type Config struct {
	Store    assay.SummaryStore
	Provider Provider
	// DailyCalls is how many summaries an organization may have written on one
	// UTC day. Retries do not count, failures do. 0: no limit.
	DailyCalls int
	// Timeout bounds a generation with its retries. Default DefaultTimeout.
	Timeout time.Duration
	// Leases has the processes that work for the store write a summary one at a time,
	// so that the others find it written. Default: this is the only process.
	Leases Leases
	// Now returns the time. Default time.Now.
	Now func() time.Time
	// Logger hears of failures. Default: nobody.
	Logger *slog.Logger
	// Observe, if set, is told what became of every request for a summary.
	Observe func(Outcome)
	// ObserveCall, if set, is told of every call to the provider, retries included.
	ObserveCall func(CallOutcome, time.Duration)
}

// Leases gives out leases, each to one process at a time. Implementations may be
// used concurrently.
type Leases interface {
	// Acquire takes a lease until Release. It returns whether it has it.
	Acquire(ctx context.Context, name string) (bool, error)
	Release(ctx context.Context, name string) error
}

// Outcome is what became of a request for a summary.
type Outcome string

// The outcomes.
const (
	Cached    Outcome = "cached"    // it was in the store
	Generated Outcome = "generated" // it was written for this request
	Shared    Outcome = "shared"    // it was being written for another request
	Limited   Outcome = "limited"   // the day's calls are used up
	Paused    Outcome = "paused"    // the provider failed lately, or too many wait
	Failed    Outcome = "failed"    // the provider failed
	Errored   Outcome = "error"     // the store failed, or the insight is gone
	Canceled  Outcome = "canceled"  // the caller left
)

// Outcomes are all outcomes of a request.
var Outcomes = []Outcome{Cached, Generated, Shared, Limited, Paused, Failed, Errored, Canceled}

// CallOutcome is what became of one call to the provider.
type CallOutcome string

// The outcomes of calls.
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

// Summarizer implements assay.Summarizer. It may be used concurrently.
type Summarizer struct {
	cfg   Config
	calls *fair.Semaphore // for generations, by organization
	pause pause

	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	flights map[assay.SummaryKey]*flight // of running; nil once closed
	begun   *fair.Calls                  // flights by organization
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
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Outcome) {}
	}
	if c.ObserveCall == nil {
		c.ObserveCall = func(CallOutcome, time.Duration) {}
	}
	s := &Summarizer{
		cfg:     c,
		calls:   fair.NewSemaphore(maxCalls, maxCalls),
		flights: make(map[assay.SummaryKey]*flight),
		begun:   fair.NewCalls(maxFlights),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends what is under way and waits for it.
func (s *Summarizer) Close() {
	s.close()
	s.mu.Lock()
	s.flights = nil
	s.mu.Unlock()
	s.running.Wait()
	if p, ok := s.cfg.Provider.(interface{ CloseIdleConnections() }); ok {
		p.CloseIdleConnections()
	}
}

// unavailable is CodeUnavailable with a time to wait.
type unavailable struct {
	err     *assay.Error
	after   time.Duration
	outcome Outcome
}

func (e *unavailable) Error() string { return e.err.Error() }
func (e *unavailable) Unwrap() error { return e.err }

// RetryAfter returns when to try again.
func (e *unavailable) RetryAfter() time.Duration { return e.after }

// How long callers are told to wait.
const (
	afterFailure = 10 * time.Second
	afterBusy    = 5 * time.Second
)

func unavailableAs(outcome Outcome, after time.Duration, format string, args ...any) *unavailable {
	return &unavailable{err: assay.Errorf(assay.CodeUnavailable, format, args...), after: after, outcome: outcome}
}

// flight is a summary that is being written. Its results are set before done is
// closed.
type flight struct {
	done    chan struct{}
	outcome Outcome
	summary *assay.InsightSummary
	err     error
}

// Summarize implements assay.Summarizer. Callers that ask for the same summary at
// the same time share one generation, which ends with its own deadline and not
// with the caller that began it. What is written is in the store before anybody
// gets it; failures are not kept.
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
	f, mine, err := s.board(ctx, g)
	if err != nil {
		return nil, Paused, err
	}
	select {
	case <-ctx.Done():
		return nil, Canceled, fmt.Errorf("summary: wait for the summary of insight %s: %w", i.ID, context.Cause(ctx))
	case <-f.done:
	}
	if f.err != nil {
		return nil, f.outcome, f.err
	}
	summary := *f.summary
	if mine {
		return &summary, f.outcome, nil
	}
	summary.Cached = true
	return &summary, Shared, nil
}

// generation returns what writing a summary of an insight starts from.
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

// CachedSummary returns what Summarize would return without a call to the model, and
// CodeNotFound when there is nothing. It counts as no request for a summary.
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

// board returns the flight for a key, which it starts when there is none. mine
// tells that it did.
func (s *Summarizer) board(ctx context.Context, g *generation) (f *flight, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.flights == nil:
		return nil, false, unavailableAs(Paused, afterBusy, "summaries are shutting down")
	case s.flights[g.key] != nil:
		return s.flights[g.key], false, nil
	case !s.begun.Begin(g.key.OrganizationID):
		return nil, false, unavailableAs(Paused, afterBusy, "too many summaries are being written")
	}
	f = &flight{done: make(chan struct{})}
	s.flights[g.key] = f
	s.running.Go(func() {
		defer close(f.done)
		f.summary, f.outcome, f.err = g.run(context.WithoutCancel(ctx))
		s.mu.Lock()
		delete(s.flights, g.key)
		s.begun.End(g.key.OrganizationID)
		s.mu.Unlock()
	})
	return f, true, nil
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
