// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

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
	partEntries = 64   // resource entries of a part
	partHours   = 2048 // hours of the services of a part. More are refused: exporters send a few
	partRows    = 1024 // other rows in one transaction
	partsAtOnce = 32   // parts of a request that wait for a transaction
)

// part is what one part of a request left behind.
type part struct {
	id       delta.Request
	batch    *rules.Batch
	detached []*delta.Delta // of the batch; go ahead of it
	fresh    bool
}

// evaluateParts evaluates a request.
func (e *Engine) evaluateParts(ctx context.Context, signal wire.Signal, body []byte, in rules.Input) ([]*part, error) {
	bodies, err := wire.Split(body, partEntries)
	if err != nil {
		e.counters.Refused.Add(1)
		return nil, err
	}
	whole := in.HashKey.Request(body)
	parts := make([]*part, 0, len(bodies))
	offset := 0
	for i, b := range bodies {
		p := &part{
			id:    delta.Request{OrganizationID: in.OrganizationID, Signal: rules.SignalOf(signal), Hash: whole},
			batch: e.batches.Get().(*rules.Batch),
		}
		if len(bodies) > 1 {
			p.id.Hash = in.HashKey.Request(binary.LittleEndian.AppendUint32(whole[:], uint32(i)))
		}
		parts = append(parts, p)
		if err := e.evaluate(ctx, signal, b, in, p); err != nil {
			e.refuse(in.OrganizationID, parts...)
			var malformed *wire.Error
			if errors.As(err, &malformed) {
				malformed.Offset += offset
			}
			return nil, err
		}
		offset += len(b)
	}
	return parts, nil
}

// submit has the facts of a request committed and does what follows from that. It takes
// the parts over. When some are committed and others are not, the request may be sent
// again: the committed ones count once.
func (e *Engine) submit(ctx context.Context, organizationID string, parts []*part, bytes int) outcome {
	defer func() {
		for _, p := range parts {
			e.recycle(p.batch)
		}
	}()
	if err := e.submitParts(ctx, organizationID, parts); err != nil {
		e.counters.Refused.Add(1)
		return outcome{err: err}
	}
	e.counters.Requests.Add(1)
	var overflow, fresh uint64
	for _, p := range parts {
		if p.fresh {
			fresh++
			overflow += p.batch.OverflowItems
			e.counters.Spans.Add(p.batch.Items[delta.Traces])
			e.counters.Points.Add(p.batch.Items[delta.Metrics])
			e.counters.Records.Add(p.batch.Items[delta.Logs])
		}
	}
	if fresh == 0 { // its services are in the store already, so what was admitted for it stays
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

// submitParts commits the parts of a request, several at a time.
func (e *Engine) submitParts(ctx context.Context, organizationID string, parts []*part) error {
	if len(parts) == 1 {
		return e.submitPart(ctx, organizationID, parts[0])
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	for _, p := range parts {
		group.Go(func() error { return e.submitPart(ctx, organizationID, p) })
	}
	return group.Wait()
}

// submitPart commits a part.
func (e *Engine) submitPart(ctx context.Context, organizationID string, p *part) (err error) {
	defer func() {
		if err != nil {
			e.quota.Release(organizationID, p.batch.Admitted)
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return &assay.Error{Code: assay.CodeUnavailable, Message: "the request was not committed in time", Err: err}
	}
	if len(p.detached) > 0 {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(partsAtOnce)
		for _, d := range p.detached {
			group.Go(func() error {
				_, err := e.committer.Submit(ctx, nil, detached{d, organizationID})
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		p.detached = nil
	}
	if p.fresh, err = e.committer.Submit(ctx, &p.id, &request{p.batch, organizationID}); err != nil {
		return err
	}
	e.quota.Keep(organizationID, p.batch.Admitted)
	return nil
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

// refuse gives back what a request took that is not going to be committed.
func (e *Engine) refuse(organizationID string, parts ...*part) {
	e.counters.Refused.Add(1)
	for _, p := range parts {
		e.quota.Release(organizationID, p.batch.Admitted)
		e.recycle(p.batch)
	}
}
