// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"assay"
	"assay/internal/llm"
	"assay/internal/rules/catalog"
)

const (
	retries   = 2
	firstWait = 500 * time.Millisecond // before the first retry; doubles
)

// generation is the generation of one summary.
type generation struct {
	*Summarizer
	key    assay.SummaryKey
	prompt *Prompt
	rule   catalog.Rule
	leased bool // until the end of run
}

// run generates the summary and stores it, within the timeout.
func (g *generation) run(ctx context.Context) (summary *assay.InsightSummary, outcome Outcome, err error) {
	defer func() {
		if v := recover(); v != nil { // a panic outside of a request would end the process
			g.cfg.Logger.ErrorContext(ctx, "writing a summary panicked", "insight_id", g.key.InsightID, "panic", v, "stack", string(debug.Stack()))
			summary, outcome, err = nil, Errored, assay.Errorf(assay.CodeInternal, "writing a summary panicked")
		}
	}()
	background := ctx
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(g.closing, cancel)()
	defer g.release(background)

	text, err := g.text(ctx)
	var known *unavailable
	switch {
	case errors.As(err, &known):
		return nil, known.outcome, err
	case errors.Is(err, errWritten):
		found, err := g.cfg.Store.FindSummary(ctx, g.key)
		if err != nil {
			return nil, Errored, err
		}
		found.Cached = true
		return found, Cached, nil
	case err != nil && ctx.Err() != nil: // of the store, out of time
		return nil, Paused, unavailableAs(Paused, afterBusy, "no summary was written in time: %w", err)
	case err != nil:
		return nil, Errored, err
	}

	ctx, cancel = context.WithTimeout(background, saveTimeout)
	defer cancel()
	summary = &assay.InsightSummary{
		InsightID: g.key.InsightID, Content: text, Model: g.key.Model,
		GeneratedAt: g.cfg.Now().UTC().Truncate(time.Microsecond), // as it is stored
	}
	if err := g.cfg.Store.SaveSummary(ctx, g.key, summary); err != nil {
		return nil, Errored, err
	}
	return summary, Generated, nil
}

// errWritten reports that another process has stored the summary meanwhile.
var errWritten = errors.New("summary: being written")

// text returns the text of the summary. Every failure of the provider is CodeUnavailable.
func (g *generation) text(ctx context.Context) (string, error) {
	if g.calls.Acquire(ctx, g.key.OrganizationID) != nil {
		return "", unavailableAs(Paused, afterBusy, "too many summaries are being written")
	}
	defer g.calls.Release(g.key.OrganizationID)
	if err := g.acquire(ctx); err != nil {
		return "", err
	}
	// The previous flight, or another process, may have stored the summary after the caller's read and before the
	// start of this flight.
	if err := g.unwritten(ctx); err != nil {
		return "", err
	}
	now := g.cfg.Now()
	if left := g.pauses.left(g.key.OrganizationID, now); left > 0 {
		return "", unavailableAs(Paused, left, "the language model did not answer lately")
	}
	if g.cfg.DailyCalls > 0 {
		ok, err := g.cfg.Store.TakeSummaryCall(ctx, g.key.OrganizationID, now, g.cfg.DailyCalls)
		if err != nil {
			return "", err
		}
		if !ok {
			day := now.UTC().Truncate(24 * time.Hour)
			return "", unavailableAs(Limited, day.Add(24*time.Hour).Sub(now), "the summaries of this organization for today are used up")
		}
	}
	return g.ask(ctx)
}

// unwritten returns errWritten if the summary is in the store.
func (g *generation) unwritten(ctx context.Context) error {
	_, err := g.cfg.Store.FindSummary(ctx, g.key)
	switch {
	case err == nil:
		return errWritten
	case assay.ErrorCode(err) != assay.CodeNotFound:
		return err
	}
	return nil
}

// acquire acquires the lease of the insight. It returns errWritten if another process has stored this summary.
func (g *generation) acquire(ctx context.Context) (err error) {
	if g.cfg.Leases == nil {
		return nil
	}
	for {
		if g.leased, err = g.cfg.Leases.Acquire(ctx, leasePrefix+g.key.InsightID); err != nil || g.leased {
			return err
		}
		if err := sleep(ctx, leaseWait); err != nil {
			return err
		}
		if err := g.unwritten(ctx); err != nil {
			return err
		}
	}
}

// release releases the lease of the insight.
func (g *generation) release(ctx context.Context) {
	if !g.leased {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := g.cfg.Leases.Release(ctx, leasePrefix+g.key.InsightID); err != nil {
		g.cfg.Logger.WarnContext(ctx, "failed to release the lease of a summary, other replicas wait until it expires", "insight_id", g.key.InsightID, "error", err)
	}
}

// ask calls the provider, with retries, and cleans its answer.
func (g *generation) ask(ctx context.Context) (string, error) {
	for attempt := 0; ; attempt++ {
		text, err := g.call(ctx)
		if err == nil {
			g.pauses.succeeded(g.key.OrganizationID)
			return text, nil
		}
		wait := firstWait << attempt
		wait = wait/2 + rand.N(wait)
		if status, ok := errors.AsType[*llm.StatusError](err); ok && status.RetryAfter > 0 {
			wait = status.RetryAfter
		}
		deadline, _ := ctx.Deadline()
		if llm.Transient(err) && attempt < retries && wait < time.Until(deadline) && sleep(ctx, wait) == nil {
			continue
		}
		return "", g.failed(ctx, err, attempt+1)
	}
}

// failed reports that the provider returned no summary.
func (g *generation) failed(ctx context.Context, err error, attempts int) error {
	if g.closing.Err() != nil {
		return unavailableAs(Paused, afterBusy, "summaries are shutting down")
	}
	own := ofPrompt(err)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it did not answer within %s", g.cfg.Timeout)
	}
	after := afterFailure
	if status, ok := errors.AsType[*llm.StatusError](err); ok && status.RetryAfter > 0 {
		after = status.RetryAfter
	}
	if !own {
		after = max(after, g.pauses.failed(g.key.OrganizationID, g.cfg.Now(), after))
	}
	g.cfg.Logger.WarnContext(ctx, "the language model gave no summary",
		"insight_id", g.key.InsightID, "model", g.key.Model, "attempts", attempts, "error", err)
	return unavailableAs(Failed, after, "the language model gave no summary: %w", err)
}

// call calls the provider once.
func (g *generation) call(ctx context.Context) (string, error) {
	began := g.cfg.Now()
	answer, err := g.cfg.Provider.Write(ctx, g.prompt.Rules, g.prompt.Document)
	if err == nil {
		info := g.rule.Info()
		answer, err = clean(answer, hostsOf(info.Description, info.Rationale, info.Remediation))
	}
	g.cfg.ObserveCall(callOutcome(err), g.cfg.Now().Sub(began))
	return answer, err
}

// After this number of consecutive failed generations of an organization, its calls are paused. After the pause, one
// more failure pauses them again.
const (
	maxFailures = 3
	minPause    = 15 * time.Second
	maxPause    = 5 * time.Minute
	maxPaused   = 10_000 // organizations whose last call failed; beyond it, any is forgotten
)

// pauses suspend calls to a failing provider, for each organization: prompts of an organization can make the provider
// slow. It is safe for concurrent use.
type pauses struct {
	mu            sync.Mutex
	organizations map[string]pause // organizations whose last call failed
}

type pause struct {
	failures int // consecutive
	until    time.Time
}

// left returns the remaining time of the pause of an organization.
func (p *pauses) left(organization string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.organizations[organization].until.Sub(now), maxPause) // the bound is for a clock that jumps
}

func (p *pauses) succeeded(organization string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.organizations, organization)
}

// failed counts a failure of an organization. wish is the delay that the provider requested. failed returns the length
// of the pause.
func (p *pauses) failed(organization string, now time.Time, wish time.Duration) (d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, known := p.organizations[organization]
	if own.failures++; own.failures >= maxFailures {
		d = min(max(wish, minPause), maxPause)
		own.until = now.Add(d)
	}
	if p.organizations == nil {
		p.organizations = make(map[string]pause)
	}
	for other := range p.organizations {
		if known || len(p.organizations) < maxPaused {
			break
		}
		delete(p.organizations, other)
	}
	p.organizations[organization] = own
	return d
}
