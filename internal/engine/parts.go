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

// A large request is committed in parts, so that its transactions do not delay other organizations. Each part is
// recognized on its own when the request is repeated. So the boundaries depend only on the bytes of the request.
const (
	partEntries  = 64      // resource entries per part
	maxParts     = 512     // parts per request; larger requests have larger parts
	partServices = 256     // services per part, including those without records; more are refused
	partHours    = 2048    // pairs of service and hour per part; more are refused, exporters send a few
	partSpans    = 1 << 16 // spans per part; more are refused
	partFacts    = 1 << 16 // rows per part; more are refused
	partRows     = 1024    // rows of one transaction of detached facts
	groupsAtOnce = 16      // concurrent transactions of detached facts per part
	partsAtOnce  = 16      // parts of a request that are evaluated or queued concurrently
)

// part holds the result of evaluating one part of a request.
type part struct {
	id       delta.Request
	batch    *rules.Batch
	detached []*delta.Delta // facts committed before the batch
	fresh    bool
}

// evaluatePart evaluates a part of a request. On errors it releases everything.
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

// drop releases the admissions of a part that will not be committed.
func (e *Engine) drop(p *part) {
	e.quota.Release(p.id.OrganizationID, p.batch.Admitted)
	e.recycle(p.batch)
}

// ingestParts evaluates and commits a split request, a few parts at a time. If only some parts commit, the sender may
// retry: committed parts count once. ingestParts returns when nothing uses the request any more.
func (e *Engine) ingestParts(ctx context.Context, signal wire.Signal, body []byte, bodies [][]byte, in rules.Input) outcome {
	whole, err := e.validate(ctx, signal, body, in) // before committing anything
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
			// Ignore a wrapped error: it belongs to another part and ended this one.
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

// validate checks a whole request in an evaluation slot of the organization, and returns its hash.
func (e *Engine) validate(ctx context.Context, signal wire.Signal, body []byte, in rules.Input) (hash [16]byte, err error) {
	if err := e.acquireSlot(ctx, in.OrganizationID); err != nil {
		return hash, err
	}
	defer e.cfg.CPU.Release(in.OrganizationID)
	if err := wire.ValidateContext(ctx, signal, body); err != nil {
		return hash, err
	}
	return in.HashKey.Request(body), nil
}

// recovered converts a panic to an error, so that a request cannot end the process.
func (e *Engine) recovered(ctx context.Context, err *error) {
	if r := recover(); r != nil {
		e.cfg.Logger.ErrorContext(ctx, "panic while ingesting a request", "stack", string(debug.Stack()))
		*err = assay.Errorf(assay.CodeInternal, "internal error")
	}
}

// commitPart commits a part. On errors it releases everything.
func (e *Engine) commitPart(ctx context.Context, p *part) (err error) {
	ahead := false // detached facts are committed: the admissions are in the store
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
		// Submit a few at a time, so that the parts of one request do not fill the queue.
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(groupsAtOnce)
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

// committed counts a committed request and returns its outcome.
func (e *Engine) committed(parts []*part, bytes int) outcome {
	e.counters.Requests.Add(1)
	var overflow, fresh uint64
	for _, p := range parts {
		if !p.fresh { // its services are already in the store, so their admissions are kept
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
	return outcome{warning: fmt.Sprintf("%d records exceed the organization's limit of services or metric names; they count for the service %s and are not evaluated",
		overflow, assay.OverflowService)}
}

// detached holds facts of a request that are idempotent.
type detached struct {
	facts        *delta.Delta
	organization string
}

// MergeInto adds the facts to d.
func (f detached) MergeInto(d *delta.Delta) { d.Merge(f.facts) }

// Rows returns an estimate of the rows that a store writes.
func (f detached) Rows() int { return partRows }

// Organization implements commit.Owned.
func (f detached) Organization() string { return f.organization }

// First implements commit.Owned.
func (f detached) First() bool { return false }
