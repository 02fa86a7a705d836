// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
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

	rows atomic.Int64 // services with verdicts on the traces that closed last
}

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
}

// MergeInto adds the verdicts to d.
func (c *closing) MergeInto(d *delta.Delta) { d.Merge(c.traces.tx.Verdicts()) }

// Rows returns how many services the last verdicts were on.
func (c *closing) Rows() int { return int(c.traces.rows.Load()) + 1 }

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
			o.tx.CloseAll(o.windowStart(), c.complete)
		default:
			o.tx.Close(o.windowStart())
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
	if err != nil {
		return o.journal != nil && o.journal.failed(ctx, err)
	}
	if v := o.tx.Verdicts(); v != nil {
		rows := 0
		for _, org := range v.Organizations {
			rows += len(org.Services)
		}
		o.rows.Store(int64(rows))
	}
	if o.journal != nil {
		o.journal.committed()
	}
	o.tx.Commit()
	return false
}

// CloseTraces judges the traces whose time has come and commits their verdicts.
// Traces whose verdicts could not be committed stay open. With a journal none are
// closed while those of a process that died may still be taken over.
func (e *Engine) CloseTraces() error {
	if e.traces.journal != nil && e.traces.journal.waits() || !e.traces.assembler.Due(e.cfg.Now()) {
		return nil
	}
	return e.closeTraces(&closing{traces: e.traces})
}

// FlushTraces judges all open traces; complete says that none of their spans is
// still on the way.
func (e *Engine) FlushTraces(complete bool) error {
	if e.Traces().Traces == 0 {
		return nil
	}
	return e.closeTraces(&closing{traces: e.traces, all: true, complete: complete})
}

func (e *Engine) closeTraces(c *closing) error {
	if _, err := e.committer.Submit(context.Background(), nil, c); err != nil {
		return fmt.Errorf("commit closed traces: %w", err)
	}
	return nil
}
