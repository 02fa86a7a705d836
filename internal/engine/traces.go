// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"assay/internal/commit"
	"assay/internal/delta"
	"assay/internal/rules"
	"assay/internal/trace"
)

// openTraces keeps the assembler, and its journal if there is one, in step with the
// store. It implements commit.Journal.
type openTraces struct {
	assembler   *trace.Assembler
	tx          *trace.Transaction // of the committing goroutine
	windowStart func() uint64      // Unix nanoseconds
	journal     *journal           // nil: none

	most atomic.Int64 // traces that close in one transaction
}

// After a pause all open traces may be due at once. So many of them close in one
// transaction, which requests share and wait for; fewer when that was too much in the
// time that one has.
const (
	maxClosing = 20_000
	minClosing = maxClosing / 64
)

// request is the facts of a request, with its spans.
type request struct {
	*rules.Batch
	organization string
}

// closing is the verdicts on traces whose time has come, or on all.
type closing struct {
	traces   *openTraces
	all      bool
	complete bool // none of their spans is still on the way
	rows     int
	more     bool // are left; set by Prepare
}

// MergeInto adds the verdicts to d.
func (c *closing) MergeInto(d *delta.Delta) { d.Merge(c.traces.tx.Verdicts()) }

// Rows returns how many services the verdicts are on, as far as that is known before.
func (c *closing) Rows() int { return c.rows + 1 }

// adoption moves traces from the journal of another process.
type adoption struct{ recovery *trace.Recovery }

// MergeInto does nothing: there are no facts.
func (adoption) MergeInto(*delta.Delta) {}

// Rows returns how many rows are written to journals, about.
func (adoption) Rows() int { return 8 }

// Prepare implements commit.Journal.
func (o *openTraces) Prepare(ctx context.Context, now time.Time, facts []commit.Facts) error {
	if o.journal != nil {
		if err := o.journal.prepare(ctx, now); err != nil {
			return err
		}
	}
	o.tx.Begin(now)
	for _, f := range facts {
		switch c, ok := f.(*closing); {
		case !ok:
		case c.all:
			c.more = o.tx.CloseAll(o.windowStart(), c.complete, int(o.most.Load()))
		default:
			c.more = o.tx.Close(o.windowStart(), int(o.most.Load()))
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
func (o *openTraces) Done(ctx context.Context, err error) (again bool) {
	if o.tx.Verdicts() != nil {
		switch most := o.most.Load(); {
		case err == nil:
			o.most.Store(min(most+minClosing, maxClosing))
		case errors.Is(err, context.DeadlineExceeded):
			o.most.Store(max(most/2, minClosing))
		}
	}
	if err != nil {
		return o.journal != nil && o.journal.failed(ctx, err)
	}
	if o.journal != nil {
		o.journal.committed()
	}
	o.tx.Commit()
	return false
}

// CloseTraces judges the traces whose time has come and commits their verdicts, in
// several transactions where they are many.
// Traces whose verdicts could not be committed stay open. With a journal none are
// closed while those of a process that died may still be taken over.
func (e *Engine) CloseTraces(ctx context.Context) error {
	for more := true; more; {
		if e.traces.journal != nil && e.traces.journal.waits() || !e.traces.assembler.Due(e.cfg.Now()) {
			return nil
		}
		var err error
		if more, err = e.closeTraces(ctx, &closing{traces: e.traces}); err != nil {
			return err
		}
	}
	return nil
}

// FlushTraces judges all open traces; complete says that none of their spans is
// still on the way.
func (e *Engine) FlushTraces(ctx context.Context, complete bool) error {
	for e.Traces().Traces > 0 {
		if _, err := e.closeTraces(ctx, &closing{traces: e.traces, all: true, complete: complete}); err != nil {
			return err
		}
	}
	return nil
}

// closeTraces runs one transaction and tells whether traces are left.
func (e *Engine) closeTraces(ctx context.Context, c *closing) (more bool, err error) {
	c.rows = c.traces.assembler.Services(e.cfg.Now(), c.all, int(c.traces.most.Load()))
	if _, err := e.committer.Submit(ctx, nil, c); err != nil {
		return false, fmt.Errorf("commit closed traces: %w", err)
	}
	return c.more, nil
}
