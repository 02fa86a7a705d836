// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// Limits of the steps to evaluate and to merge any request. The most expensive bytes are
// data points, each in an hour and a service of its own.
const (
	fixedSteps   = 2000
	stepsPerByte = 40
)

// work is the cost of a request.
type work struct {
	bytes, evaluate, merge uint64
	err                    error
}

// unlimited is input without a limit on the steps.
func unlimited() Input {
	in := input()
	in.Budget = NewBudget(1 << 40)
	return in
}

// evaluated evaluates a request with empty caches and without a limit on its steps. It
// merges the request twice, as the group of a commit that holds it and one like it.
func evaluated(t require.TestingT, h wiretest.Hostile, size int) (w work) {
	h.At = rulestest.T0
	body := h.Request(size)
	e := NewEvaluator(Config{Quota: newLimits(), Filter: delta.NewFilter(16)})
	var b Batch
	w.err = e.Evaluate(context.Background(), h.Signal, body, unlimited(), &b)
	var malformed *wire.Error
	require.True(t, w.err == nil || errors.As(w.err, &malformed), "%v", w.err)
	w.bytes, w.evaluate = uint64(len(body)), e.Steps()
	for _, s := range b.services {
		w.evaluate += s.Steps()
	}
	if w.err == nil {
		d := new(delta.Delta)
		b.MergeInto(d)
		b.MergeInto(d)
		w.merge = d.Steps()
	}
	return w
}

// require checks the work against its limit.
func (w work) require(t require.TestingT) {
	if w.bytes < 1<<20 { // some nested lists are larger than requested
		require.NoError(t, w.err)
	}
	require.LessOrEqual(t, w.evaluate, fixedSteps+stepsPerByte*w.bytes)
	require.LessOrEqual(t, w.merge, fixedSteps+stepsPerByte*w.bytes)
}

// TestSteps checks that the work for hostile requests is linear: the steps per byte are
// limited, and a request eight times as large takes about eight times the steps, unless
// both take few, since small requests are mostly framing.
func TestSteps(t *testing.T) {
	const factor, few = 1.25, 8
	for _, h := range wiretest.Shapes() {
		t.Run(h.Name, func(t *testing.T) {
			evaluated(t, h, 8<<10).require(t) // about a record for each hour of the window
			small, large := evaluated(t, h, 32<<10), evaluated(t, h, 256<<10)
			small.require(t)
			large.require(t)
			growth := factor * float64(large.bytes) / float64(small.bytes)
			require.LessOrEqual(t, float64(large.evaluate), growth*float64(max(small.evaluate, few*small.bytes)))
			require.LessOrEqual(t, float64(large.merge), growth*float64(max(small.merge, few*small.bytes)))
		})
	}
}

// FuzzSteps checks that the work for any combination of hostile parts is linear in its bytes. With 256 KiB a
// quadratic algorithm exceeds the limit.
func FuzzSteps(f *testing.F) {
	for i := range byte(64) { // about each value of each field
		seed := make([]byte, wiretest.HostileFields)
		for j := range seed {
			seed[j] = i*73 + byte(j)*151 ^ i>>2
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { evaluated(t, wiretest.HostileOf(data), 256<<10).require(t) })
}

// TestEvaluateStops: an evaluation stops soon after its context ends, within the steps
// between two checks.
func TestEvaluateStops(t *testing.T) {
	for _, h := range wiretest.Shapes() {
		if h.Content == wiretest.SecretText {
			continue // TestLongTextEnds
		}
		h.At = rulestest.T0
		body := h.Request(128 << 10)
		e := NewEvaluator(Config{Quota: newLimits()})
		var b Batch
		require.NoError(t, e.Evaluate(t.Context(), h.Signal, body, unlimited(), &b))
		all := e.Steps()
		for _, checks := range []int{0, 1, 3} {
			// The work between two checks, and the work for an attribute or for passes over a group of the whole size.
			within := uint64(checks+1)*(stepsBetweenChecks+1000) + 5*uint64(len(body))
			if all < 2*within {
				continue
			}
			b.Reset()
			e = NewEvaluator(Config{Quota: newLimits()})
			err := e.Evaluate(&wiretest.EndingContext{Context: t.Context(), Checks: checks}, h.Signal, body, unlimited(), &b)
			require.ErrorIs(t, err, context.Canceled, h.Name)
			require.LessOrEqual(t, e.Steps(), within, h.Name)
		}
	}
}

// TestStoppedVerdictsAreNotCached: a stopped evaluation does not cache verdicts on values
// that it has not checked completely.
func TestStoppedVerdictsAreNotCached(t *testing.T) {
	items := make([]any, 3*stepsBetweenChecks)
	items[len(items)-1] = "bob@example.com"
	for _, q := range []rulestest.Request{
		rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a"), rulestest.Log(items))),
		rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a", "list", items), rulestest.Log("x"))),
	} {
		e := NewEvaluator(Config{})
		var b Batch
		require.ErrorIs(t, e.Evaluate(&wiretest.EndingContext{Context: t.Context(), Checks: 1}, q.Signal, q.Body, input(), &b), context.Canceled)
		failed := 0
		for _, s := range facts(t, e, input(), q).Organizations[org].Services {
			for _, c := range s.Verdicts[0].Counts {
				failed += int(c.Failed)
			}
		}
		require.Equal(t, 1, failed)
	}
}

// TestBudget checks that large hostile requests stay within their budget. The most
// expensive shapes are rejected in every run. Others may be, with some seeds of the hashes:
// if two values that alternate share a slot of a cache, each lookup misses it.
func TestBudget(t *testing.T) {
	const size = 4 << 20
	refused := map[string]bool{
		"distinct services": true, "distinct services of metrics": true, "distinct resources": true,
		"distinct metrics and units": true, "data points x distinct keys": true,
		"data points x distinct keys in all hours": true, "data points x attributes": true,
		"data points x distinct values": true, "distinct bounds": true,
		"spans of distinct names that take long to clean": true, "metrics of distinct names that take long to clean": true,
		"resources of distinct keys that take long to clean": true,
		`text of "PWD=/"`: true, `text of "token={"`: true, "resource attributes": true,
	}
	for _, h := range wiretest.Shapes() {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			h.At = rulestest.T0
			body := h.Request(size)
			e := NewEvaluator(Config{Quota: newLimits(), Filter: delta.NewFilter(16)})
			var b Batch
			err := e.Evaluate(t.Context(), h.Signal, body, input(), &b)
			t.Logf("%.2f steps for each byte, %v", float64(e.Steps())/float64(len(body)), err)
			if refused[h.Name] {
				require.ErrorContains(t, err, errTooDear)
			} else if err != nil {
				require.Regexp(t, errTooDear+"|too many (records|fields)", err.Error())
			}
			const piece = 4 * 64 << 10     // the lookups in a piece of a text
			whole := uint64(len(body)) / 2 // of a text, counted before it is decoded again
			require.LessOrEqual(t, e.Steps(), uint64(limit(len(body)))+2*stepsBetweenChecks+piece+whole)
		})
	}
}

// TestColdIsAllowed: telemetry with only new values takes at most three quarters of its budget.
func TestColdIsAllowed(t *testing.T) {
	for _, c := range wiretest.Colds() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			body := c.Request(rulestest.T0, 8<<20)
			e := NewEvaluator(Config{Quota: newLimits(), Filter: delta.NewFilter(16)})
			var b Batch
			require.NoError(t, e.Evaluate(t.Context(), c.Signal, body, input(), &b))
			t.Logf("%.2f steps for each byte", float64(e.Steps())/float64(len(body)))
			// Caches have random keys: occasionally more names than usual collide, which costs up to a tenth.
			require.LessOrEqual(t, 4*e.Steps(), 3*uint64(limit(len(body))))
		})
	}
}

// TestTooExpensive checks that a large request that exceeds its budget is rejected permanently, and a small
// one is not.
func TestTooExpensive(t *testing.T) {
	h := wiretest.Hostile{Signal: wire.Logs, Resources: wiretest.Many, Services: true, At: rulestest.T0}
	for size, dear := range map[int]bool{64 << 10: false, 8 << 20: true} {
		var b Batch
		err := NewEvaluator(Config{Quota: newLimits()}).Evaluate(t.Context(), h.Signal, h.Request(size), input(), &b)
		require.Equal(t, dear, err != nil)
		if dear {
			require.ErrorContains(t, err, errTooDear)
		}
	}
}

// TestOrdinaryIsCheap: recorded telemetry stays far below the limit at any request size.
func TestOrdinaryIsCheap(t *testing.T) {
	for _, signal := range wiretest.Signals {
		var body []byte
		for _, r := range wiretest.Real() {
			if r.Signal == signal {
				body = append(body, r.Body...)
			}
		}
		e := NewEvaluator(Config{Quota: newLimits(), Filter: delta.NewFilter(16)})
		var b Batch
		in := input()
		in.Start, in.MetricStart, in.Latest = 0, 0, 1<<63
		require.NoError(t, e.Evaluate(t.Context(), signal, body, in, &b))
		first := e.Steps()
		t.Logf("%s: %.2f steps a byte", signal, float64(first)/float64(len(body)))
		b.Reset()
		require.NoError(t, e.Evaluate(t.Context(), signal, body, in, &b))
		require.LessOrEqual(t, first, freeSteps/16+uint64(len(body)))
		require.LessOrEqual(t, e.Steps(), first)
	}
}
