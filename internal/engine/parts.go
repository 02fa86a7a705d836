// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules"
	"assay/internal/wire"
)

// A request is committed in parts when one transaction would take longer than the
// requests of other organizations should wait. Each part is recognized by itself when the
// request is repeated, so where a request is cut depends on its bytes alone.
const (
	partEntries = 64      // resource entries of a part
	maxParts    = 512     // of a request. Parts of one that has more entries are larger
	partHours   = 2048    // hours of the services of a part. More are refused: exporters send a few
	partSpans   = 1 << 16 // of a part. More are refused
	partFacts   = 1 << 16 // rows of a part. More are refused
	partRows    = 1024    // rows that go ahead of the others in one transaction
	partsAtOnce = 16      // parts of a request that are evaluated, or wait for a transaction
)

// part is what one part of a request left behind.
type part struct {
	id       delta.Request
	batch    *rules.Batch
	detached []*delta.Delta // of the batch; go ahead of it
	fresh    bool
}

// evaluatePart evaluates a part of a request. When that fails, it holds nothing.
func (e *Engine) evaluatePart(ctx context.Context, signal wire.Signal, body []byte, in rules.Input, hash [16]byte) (*part, error) {
	p := &part{
		id:    delta.Request{OrganizationID: in.OrganizationID, Signal: rules.SignalOf(signal), Hash: hash},
		batch: e.batches.Get().(*rules.Batch),
	}
	if err := e.evaluate(ctx, signal, body, in, p); err != nil {
		e.drop(p)
		return nil, err
	}
	return p, nil
}

// drop gives back what a part took that is not going to be committed.
func (e *Engine) drop(p *part) {
	e.quota.Release(p.id.OrganizationID, p.batch.Admitted)
	e.recycle(p.batch)
}

// ingestParts evaluates and commits a request that was cut, a few parts at a time. When
// some are committed and others are not, the request may be sent again: the committed ones
// count once. It returns when nothing uses the request any more.
func (e *Engine) ingestParts(ctx context.Context, signal wire.Signal, body []byte, bodies [][]byte, in rules.Input) outcome {
	whole, err := e.validate(ctx, signal, body, in) // before anything is committed
	if err != nil {
		return e.refused(err)
	}
	in.Budget = rules.NewBudget(len(body))
	parts := make([]*part, len(bodies))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	offset := 0
	for i, b := range bodies {
		at := offset
		offset += len(b)
		group.Go(func() (err error) {
			defer e.recovered(groupCtx, &err)
			if err := context.Cause(groupCtx); err != nil {
				return &assay.Error{Code: assay.CodeUnavailable, Message: "the request was not committed in time", Err: err}
			}
			p, err := e.evaluatePart(groupCtx, signal, b, in, in.HashKey.Request(binary.LittleEndian.AppendUint32(whole[:], uint32(i))))
			if err == nil {
				err = e.commitPart(groupCtx, p)
			}
			// Not one that is wrapped: that is another part's, for which this one ended.
			if malformed, ok := err.(*wire.Error); ok {
				err = &wire.Error{Offset: malformed.Offset + at, Field: malformed.Field, Reason: malformed.Reason}
			}
			if err == nil {
				parts[i] = &part{fresh: p.fresh, batch: &rules.Batch{Items: p.batch.Items, OverflowItems: p.batch.OverflowItems}}
				e.recycle(p.batch)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return e.refused(err)
	}
	return e.committed(parts, len(body))
}

// validate checks a whole request in the organization's turn, and returns its hash.
func (e *Engine) validate(ctx context.Context, signal wire.Signal, body []byte, in rules.Input) (hash [16]byte, err error) {
	if err := e.takeTurn(ctx, in.OrganizationID); err != nil {
		return hash, err
	}
	defer e.judging.Release(in.OrganizationID)
	if err := wire.Validate(signal, body); err != nil {
		return hash, err
	}
	return in.HashKey.Request(body), nil
}

// recovered turns a panic into an error: one request must not end the process.
func (e *Engine) recovered(ctx context.Context, err *error) {
	if r := recover(); r != nil {
		e.cfg.Logger.ErrorContext(ctx, "panic while a request was taken in", "stack", string(debug.Stack()))
		*err = assay.Errorf(assay.CodeInternal, "internal error")
	}
}

// commitPart commits a part. When that fails, it holds nothing.
func (e *Engine) commitPart(ctx context.Context, p *part) (err error) {
	ahead := false // of the part's own transaction: what was admitted is in the store
	defer func() {
		switch {
		case err == nil || ahead:
			e.quota.Keep(p.id.OrganizationID, p.batch.Admitted)
			if err != nil {
				e.recycle(p.batch)
			}
		default:
			e.drop(p)
		}
	}()
	if len(p.detached) > 0 {
		// All at once: what the queue has no room for is not held in memory.
		group, ctx := errgroup.WithContext(ctx)
		var some atomic.Bool
		for _, d := range p.detached {
			group.Go(func() error {
				_, err := e.committer.Submit(ctx, nil, detached{d, p.id.OrganizationID})
				if err == nil {
					some.Store(true)
				}
				return err
			})
		}
		err := group.Wait()
		ahead = some.Load()
		if err != nil {
			return err
		}
		p.detached = nil
	}
	p.fresh, err = e.committer.Submit(ctx, &p.id, &request{p.batch, p.id.OrganizationID})
	return err
}

// committed counts a request and returns what its sender is told.
func (e *Engine) committed(parts []*part, bytes int) outcome {
	e.counters.Requests.Add(1)
	var overflow, fresh uint64
	for _, p := range parts {
		if !p.fresh { // its services are in the store already, so what was admitted for it stays
			continue
		}
		fresh++
		overflow += p.batch.OverflowItems
		e.counters.Spans.Add(p.batch.Items[delta.Traces])
		e.counters.Points.Add(p.batch.Items[delta.Metrics])
		e.counters.Records.Add(p.batch.Items[delta.Logs])
	}
	if fresh == 0 {
		e.counters.Repeated.Add(1)
		return outcome{}
	}
	e.counters.Bytes.Add(uint64(bytes))
	if overflow == 0 {
		return outcome{}
	}
	e.counters.Overflow.Add(overflow)
	return outcome{warning: fmt.Sprintf("%d records are past the organization's limit of services or metric names and count for the service %s without being judged",
		overflow, assay.OverflowService)}
}

// detached is facts of a request that may be committed any number of times.
type detached struct {
	facts        *delta.Delta
	organization string
}

// MergeInto adds the facts to d.
func (f detached) MergeInto(d *delta.Delta) { d.Merge(f.facts) }

// Rows returns about how many rows a store writes.
func (f detached) Rows() int { return partRows }

// Organization implements commit.Owned.
func (f detached) Organization() string { return f.organization }
