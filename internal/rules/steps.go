// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"
	"sync/atomic"

	"assay/internal/wire"
)

// The work for a request is counted in steps. A step is about 10 ns of processor time,
// the cost of an attribute with a cached verdict. The weights of other work are
// proportional: on the requests of wiretest a step takes 8 to 30 ns.
//
// limit returns the steps that all parts of a request together may take. Ordinary telemetry takes a tenth of a step for
// each byte. Telemetry with only new resources, series and values takes up to one, which is at most three quarters of the
// limit of requests up to 7 MiB. Larger requests, which exporters do not send by default, have less for each further
// byte, so that 64 MiB at the limit take less than five times as long as 64 MiB of ordinary telemetry: a request of
// 20 MiB in which each record has a new resource is rejected.
const (
	freeSteps  = 4 << 20  // plus three for each two bytes
	largeSteps = 13 << 20 // plus one for each four bytes, if that is less

	stepsPerEntry    = 4
	stepsPerResource = 100 // for a new one, plus stepsPerDecided for each attribute
	stepsPerDecided  = 8
	stepsPerShown    = 15  // an attribute, or an item of an array or map, in the form of evidence
	stepsPerShownKey = 25  // of a map, in addition
	stepsPerService  = 200 // new in the batch
	stepsPerScope    = 3
	stepsPerRecord   = 3
	stepsPerPart     = 3 // an event, link, exemplar, data point or entity
	stepsPerMetric   = 10
	stepsPerNew      = 60 // a metric, claim, set, bucket or piece of evidence
	stepsPerHashed   = 3  // an attribute of a series, plus one for each bytesPerStep
	stepsPerValue    = 3  // in an array or map
	stepsPerBucket   = 4  // looked up
	stepsPerFact     = 15 // a lookup or update, which likely misses the processor's caches
	stepsPerMiss     = 3  // of a verdict cache, plus one for each bytesPerStep
	stepsPerKey      = 12 // as stepsPerMiss, for an attribute key, which is looked up in tables
	bytesPerStep     = 4
	stepsPerLookup   = 2 // in a text, of a name or number that may be sensitive

	stepsBetweenChecks = 1 << 12
)

const errTooDear = "the request needs more work than its size allows: too many small resources, scopes, metrics, hours, attributes or names of secrets; send smaller requests"

// spend counts n steps. It returns an error, also from all later calls, when the context
// has ended or the request exceeds its budget.
func (e *Evaluator) spend(n uint64) error {
	e.steps += n
	if e.steps < e.nextCheck {
		return nil
	}
	return e.check()
}

// spendMiss counts the computation of a verdict on n bytes.
func (e *Evaluator) spendMiss(n int) error {
	return e.spend(stepsPerMiss + uint64(n)/bytesPerStep)
}

// lookups counts lookups in 64 KiB of a text, or in the rest of it. It reports whether the
// request may continue.
func (e *Evaluator) lookups(n int, end bool) bool {
	if !end {
		e.nextCheck = 0 // reading 64 KiB takes longer than the steps between two checks
	}
	return e.spend(uint64(n)*stepsPerLookup) == nil
}

// complete reports whether all texts so far were searched completely, so that results may
// be cached for other requests. If not, the next call of spend returns an error.
func (e *Evaluator) complete() bool { return e.spend(0) == nil }

// Steps returns the number of steps of the current request, or of the last one.
func (e *Evaluator) Steps() uint64 { return e.steps }

// limit returns the number of steps that a request with a number of bytes may take.
func limit(bytes int) int64 {
	b := int64(bytes)
	return min(freeSteps+b*3/2, largeSteps+b/4)
}

// Budget is the number of steps that the parts of one request may take together. It is
// safe for concurrent use.
type Budget struct{ left atomic.Int64 }

// NewBudget returns the budget of a request with a number of bytes.
func NewBudget(bytes int) *Budget {
	b := new(Budget)
	b.left.Store(limit(bytes))
	return b
}

func (e *Evaluator) check() error {
	e.nextCheck = 0 // fail again, too
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
