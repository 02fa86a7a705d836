// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"assay"
	"assay/internal/commit"
	"assay/internal/delta"
	"assay/internal/rules"
	"assay/internal/trace"
)

// openTraces keeps the Assembler, and its journal if there is one, consistent with the store. It implements
// commit.Journal.
type openTraces struct {
	assembler   *trace.Assembler
	tx          *trace.Transaction // used by the committing goroutine only
	windowStart func() uint64      // Unix nanoseconds
	journal     *journal           // may be nil
	commits     atomic.Uint64      // committed transactions

	// Used by the committing goroutine only: the pieces of the current transaction, and whether it has nothing else.
	pieces []*closing
	alone  bool

	mu     sync.Mutex
	limits map[string]int // maximum traces per Piece, by organization; absent: no limit
}

// A transaction that times out is retried with half as many traces. The limit grows with each commit.
const limitStep = 256

// limit implements trace.Due.Limit.
func (o *openTraces) limit(organizationID string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n, ok := o.limits[organizationID]; ok {
		return n
	}
	return math.MaxInt
}

// adjustLimit adjusts the limit of an organization after a transaction with the given number of its traces.
func (o *openTraces) adjustLimit(organizationID string, traces int, failed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, limited := o.limits[organizationID]
	switch {
	case failed:
		if o.limits == nil {
			o.limits = make(map[string]int)
		}
		o.limits[organizationID] = max(1, traces/2)
	case limited && traces < n: // the Piece had all due traces
		delete(o.limits, organizationID)
	case limited:
		o.limits[organizationID] = n + limitStep
	}
}

// request holds the facts of a request, including its spans.
type request struct {
	*rules.Batch
	organization string
}

// tracesPerRow is the number of traces that close in the time to write a row.
const tracesPerRow = 16

// closing holds the verdicts for due traces of one organization.
type closing struct {
	piece    *trace.Piece
	verdicts *delta.Delta // set by Prepare
	failure  error        // error of the last transaction
	alone    bool         // the last transaction had nothing else
}

// MergeInto adds the verdicts to d.
func (c *closing) MergeInto(d *delta.Delta) { d.Merge(c.verdicts) }

// Rows returns an estimate of the rows that a store writes, and the equivalent number of rows of the traces that are
// closed.
func (c *closing) Rows() int { return c.piece.Rows() + c.piece.Traces()/tracesPerRow }

// Organization implements commit.Owned.
func (c *closing) Organization() string { return c.piece.Organization() }

// First implements commit.Owned: closeTraces waits for the verdicts of all organizations, so those of one organization
// must not wait for its requests.
func (c *closing) First() bool { return true }

// housekeeping is a transaction that only updates the journal.
type housekeeping struct{}

// MergeInto does nothing.
func (housekeeping) MergeInto(*delta.Delta) {}

// Rows returns an estimate of the rows written to the journal.
func (housekeeping) Rows() int { return 1 }

// adoption moves traces from the journal of another process.
type adoption struct{ recovery *trace.Recovery }

// MergeInto does nothing.
func (adoption) MergeInto(*delta.Delta) {}

// Rows returns an estimate of the rows written to journals.
func (adoption) Rows() int { return 8 }

// Prepare implements commit.Journal.
func (o *openTraces) Prepare(ctx context.Context, now time.Time, facts []commit.Facts) error {
	clear(o.pieces)
	o.pieces, o.alone = o.pieces[:0], len(facts) == 1
	if o.journal != nil {
		if err := o.journal.prepare(ctx, now); err != nil {
			return err
		}
	}
	o.tx.Begin(now)
	for _, f := range facts {
		if c, ok := f.(*closing); ok {
			c.verdicts = o.tx.Close(c.piece)
			o.pieces = append(o.pieces, c)
		}
	}
	return nil
}

// Merge implements commit.Journal.
func (o *openTraces) Merge(d *delta.Delta, facts []commit.Facts) {
	o.tx.Restart()
	for _, f := range facts {
		switch f := f.(type) {
		case *request:
			o.tx.Add(f.organization, f.Spans)
		case adoption:
			o.tx.Adopt(f.recovery)
		}
	}
	if o.journal != nil {
		d.Journals = append(d.Journals, o.journal.write(o.tx)...)
	}
}

// Done implements commit.Journal.
func (o *openTraces) Done(ctx context.Context, err error) (retry bool) {
	for _, c := range o.pieces {
		c.failure, c.alone = err, o.alone
	}
	if err != nil {
		return o.journal != nil && o.journal.failed(ctx, err)
	}
	o.commits.Add(1)
	if o.journal != nil {
		o.journal.committed()
	}
	o.tx.Commit()
	return false
}

// CloseTraces evaluates the due traces and commits their verdicts, in several transactions if there are many. Traces
// whose verdicts could not be committed stay open. With a journal, no trace is closed while traces of a dead process
// may still be adopted.
func (e *Engine) CloseTraces(ctx context.Context) error {
	waits := func() bool { return e.traces.journal != nil && e.traces.journal.waits() }
	for more := true; more && !waits(); {
		var err error
		due := trace.Due{Now: e.cfg.Now(), WindowStart: e.traces.windowStart(), Limit: e.traces.limit}
		if more, err = e.closeTraces(ctx, due); err != nil {
			return err
		}
	}
	if waits() || !e.traces.assembler.Pending() {
		return nil
	}
	for range housekeepings {
		if _, err := e.committer.Submit(ctx, nil, housekeeping{}); err != nil {
			return fmt.Errorf("commit trace journal: %w", err)
		}
		if !e.traces.assembler.Shedding() {
			break
		}
	}
	return nil
}

// housekeepings limits the transactions in a row that only drop traces, while verdicts wait.
const housekeepings = 8

// FlushTraces evaluates all open traces. complete reports that no more spans will arrive.
func (e *Engine) FlushTraces(ctx context.Context, complete bool) error {
	for more := true; more; {
		var err error
		due := trace.Due{
			Now: e.cfg.Now(), All: true, Incomplete: !complete, WindowStart: e.traces.windowStart(), Limit: e.traces.limit,
		}
		if more, err = e.closeTraces(ctx, due); err != nil {
			return err
		}
	}
	return nil
}

// closeTraces evaluates some traces of each organization and commits their verdicts. It reports whether to continue:
// more are due and some have closed. If no trace of any organization has closed, it returns the error of one.
func (e *Engine) closeTraces(ctx context.Context, due trace.Due) (more bool, err error) {
	pieces, more := e.traces.assembler.Evaluate(ctx, due)
	failures := make([]error, len(pieces))
	var wg sync.WaitGroup
	for i, p := range pieces {
		wg.Go(func() { failures[i] = e.closePiece(ctx, p) })
	}
	wg.Wait()
	closed := false
	for _, failure := range failures {
		closed = closed || failure == nil
		err = cmp.Or(err, failure)
	}
	if closed {
		return more || err != nil, nil
	}
	return false, err
}

// closePiece commits the verdicts of a Piece.
func (e *Engine) closePiece(ctx context.Context, p *trace.Piece) error {
	defer p.Release()
	c := &closing{piece: p}
	_, err := e.committer.Submit(ctx, nil, c)
	if err == nil {
		e.traces.adjustLimit(p.Organization(), p.Traces(), false)
		return nil
	}
	if failed := c.failure; failed != nil && (errors.Is(failed, context.DeadlineExceeded) || assay.ErrorCode(failed) != assay.CodeUnavailable) {
		e.traces.adjustLimit(p.Organization(), p.Traces(), true)
		if c.alone && p.Failed(e.cfg.Now(), e.traces.commits.Load()) {
			return e.dropTrace(ctx, p, err)
		}
	}
	return fmt.Errorf("commit closed traces: %w", cmp.Or(c.failure, err)) // the cause, which senders are not told
}

// dropTrace closes a trace without a verdict.
func (e *Engine) dropTrace(ctx context.Context, p *trace.Piece, cause error) error {
	p.Drop()
	if _, err := e.committer.Submit(ctx, nil, &closing{piece: p}); err != nil {
		return fmt.Errorf("drop trace: %w", err)
	}
	e.counters.Unevaluated.Add(uint64(p.Traces()))
	e.cfg.Logger.ErrorContext(ctx, "dropped a trace whose verdict could not be committed",
		"organization", p.Organization(), "trace", p.String(), "error", cause)
	return nil
}
