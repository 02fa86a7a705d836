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

// No request may take more than these steps, to be evaluated and to be merged. What is
// dearest for its bytes are data points of one hour each of a service each.
const (
	fixedSteps   = 2000
	stepsPerByte = 40
)

// work is what a request takes.
type work struct {
	bytes, evaluate, merge uint64
	err                    error
}

// evaluated evaluates a request with empty caches and merges it twice, as the group of a
// commit that holds it and one like it.
func evaluated(t require.TestingT, h wiretest.Hostile, size int) (w work) {
	h.At = rulestest.T0
	body := h.Request(size)
	e := NewEvaluator(Config{Quota: newLimits(), Filter: delta.NewFilter(16)})
	var b Batch
	w.err = e.Evaluate(context.Background(), h.Signal, body, input(), &b)
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

// require holds the work to its bound.
func (w work) require(t require.TestingT) {
	if w.bytes < 1<<20 { // some lists of lists are larger than asked for
		require.NoError(t, w.err)
	}
	require.LessOrEqual(t, w.evaluate, fixedSteps+stepsPerByte*w.bytes)
	require.LessOrEqual(t, w.merge, fixedSteps+stepsPerByte*w.bytes)
}

// TestSteps holds the work for hostile requests to their bytes: there are so many steps
// for each, and a request eight times as large takes about eight times the steps, unless
// both take few: small requests are mostly framing.
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

// FuzzSteps holds the work for any combination of what hostile requests are made of to
// its bytes. With 256 KiB anything that is quadratic takes far more.
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

// TestEvaluateStops: when its context ends, an evaluation stops within the steps
// between two checks.
func TestEvaluateStops(t *testing.T) {
	for _, h := range wiretest.Shapes() {
		h.At = rulestest.T0
		body := h.Request(128 << 10)
		e := NewEvaluator(Config{Quota: newLimits()})
		var b Batch
		require.NoError(t, e.Evaluate(t.Context(), h.Signal, body, input(), &b))
		all := e.Steps()
		for _, checks := range []int{0, 1, 3} {
			// What happens between two checks, and what one attribute of the whole size takes.
			within := uint64(checks+1)*(stepsBetweenChecks+1000) + 2*uint64(len(body))
			if all < 2*within {
				continue
			}
			b.Reset()
			e = NewEvaluator(Config{Quota: newLimits()})
			err := e.Evaluate(&wiretest.EndingContext{Context: t.Context(), Checks: checks}, h.Signal, body, input(), &b)
			require.ErrorIs(t, err, context.Canceled, h.Name)
			require.LessOrEqual(t, e.Steps(), within, h.Name)
		}
	}
}

// TestStoppedVerdictsAreForgotten: what an evaluation that was stopped has not looked
// at wholly is not remembered as good.
func TestStoppedVerdictsAreForgotten(t *testing.T) {
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

// TestTooDear: a large request that needs more work than its size allows is refused for
// good; the same in pieces is not.
func TestTooDear(t *testing.T) {
	h := wiretest.Hostile{Signal: wire.Logs, Resources: wiretest.Many, Services: true}
	w := evaluated(t, h, 8<<20)
	require.ErrorContains(t, w.err, errTooDear)
	require.NoError(t, evaluated(t, h, 1<<20).err)
}

// TestOrdinaryIsCheap: what real senders sent stays far below the limit however large a
// request of it is.
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
