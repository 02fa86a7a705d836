// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"
	"sync/atomic"

	"assay/internal/wire"
)

// The work for a request is counted in steps. A step is about the time that an
// attribute takes whose verdict is known; the weights of other work are in proportion.
// Real telemetry takes less than one step for four bytes, and less than one a byte
// where no attribute, name or series has been seen before.
//
// A request may take freeSteps and allowedPerByte more for each byte, all of its parts
// together. Large scrapes of which no series has been seen take 1.2 steps a byte and have
// to pass. The dearest requests that pass take some 16 times as long as ordinary telemetry
// of their size; half a step a byte would hold them to five, and refuse such scrapes.
const (
	freeSteps      = 16 << 20
	allowedPerByte = 2

	stepsPerEntry    = 4
	stepsPerResource = 100 // that is new, and stepsPerDecided for each attribute
	stepsPerDecided  = 8
	stepsPerShown    = 30  // an attribute, as evidence shows it
	stepsPerService  = 250 // that is new in the batch
	stepsPerScope    = 3
	stepsPerRecord   = 3
	stepsPerPart     = 3 // an event, link, exemplar, data point or entity
	stepsPerMetric   = 10
	stepsPerNew      = 60 // a metric, claim, set, bucket or piece of evidence
	stepsPerValue    = 3  // in an array or map
	stepsPerFact     = 8  // looked up or added to
	stepsPerMiss     = 3  // of a cache, and one for each bytesPerStep
	bytesPerStep     = 8

	stepsBetweenChecks = 1 << 12
)

const errTooDear = "the request needs more work than its size allows: too many small resources, scopes, metrics, hours or attributes; send smaller requests"

// spend counts n steps. It returns an error, from then on, when the context has ended
// or the request takes too many.
func (e *Evaluator) spend(n uint64) error {
	e.steps += n
	if e.steps < e.nextCheck {
		return nil
	}
	return e.check()
}

// spendMiss counts a verdict that is worked out from n bytes.
func (e *Evaluator) spendMiss(n int) error {
	return e.spend(stepsPerMiss + uint64(n)/bytesPerStep)
}

// Steps returns how many steps the request in hand, or the last one, took. A step is
// about the time that an attribute takes whose verdict is known.
func (e *Evaluator) Steps() uint64 { return e.steps }

// Budget is the steps that the parts of one request may take together. It may be used
// concurrently.
type Budget struct{ left atomic.Int64 }

// NewBudget returns the budget of a request of so many bytes.
func NewBudget(bytes int) *Budget {
	b := new(Budget)
	b.left.Store(freeSteps + allowedPerByte*int64(bytes))
	return b
}

func (e *Evaluator) check() error {
	if e.ctx.Err() != nil {
		return fmt.Errorf("evaluate request: %w", context.Cause(e.ctx))
	}
	spent := e.steps - e.charged
	e.charged = e.steps
	if e.budget.left.Add(-int64(spent)) < 0 {
		return &wire.Error{Offset: e.offset, Field: "ExportServiceRequest", Reason: errTooDear}
	}
	e.nextCheck = e.steps + stepsBetweenChecks
	return nil
}
