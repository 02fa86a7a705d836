// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/fair"
)

// BenchmarkBudgetBesideFlood measures the memory reservation of one request while another organization holds the
// whole budget with the maximum number of requests, all waiting for more.
func BenchmarkBudgetBesideFlood(b *testing.B) {
	const body = 64 << 10
	g := newBudget((maxRequests-1)*body, 48<<20, maxRequests)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	defer all.Wait()
	defer cancel()
	flood := func() {
		l, ended := reserve(b, g, "flood", time.Hour)
		require.NoError(b, l.take(ctx, body))
		all.Go(func() {
			_ = l.take(ended, 64<<20)
			l.end()
		})
	}
	for range maxRequests - 1 {
		flood()
	}
	for b.Loop() {
		l, ended := reserve(b, g, "modest", time.Hour)
		if err := l.take(ended, body); err != nil {
			b.Fatal(err)
		}
		l.end()
	}
}

// TestBudgetEndsEveryWait lets requests take, give, grow, leave and use the CPU at random. No request holds anything
// for more than a few seconds, so a wait of minutes would be a deadlock.
func TestBudgetEndsEveryWait(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			const capacity, largest = 1000, 600
			b := newBudget(capacity, largest, 10)
			cpu := fair.NewSemaphore(3, 2)
			var inUse, served, refused atomic.Int64
			var all sync.WaitGroup
			for worker := range uint64(12) {
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, worker))
					for range 60 {
						passThrough(t, b, cpu, r, func(n int64, err error) {
							if inUse.Add(n) > capacity {
								t.Error("more is in use than there is")
							}
							if err != nil {
								refused.Add(1)
							} else if n > 0 {
								served.Add(1)
							}
						})
					}
				})
			}
			all.Wait()
			require.Greater(t, served.Load(), refused.Load())
			require.Positive(t, refused.Load())
			require.Zero(t, inUse.Load())
			unused(t, b)
			for i := range 3 { // no slot is lost
				require.NoError(t, cpu.Acquire(t.Context(), fmt.Sprint(i)))
			}
		})
	}
}

// passThrough simulates one request of an organization. It calls count with the bytes taken or released.
func passThrough(t *testing.T, b *budget, cpu *fair.Semaphore, r *rand.Rand, count func(int64, error)) {
	ctx := t.Context()
	if r.IntN(8) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(500))*time.Millisecond)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, err := b.begin(time.Hour, cancel)
	if err != nil {
		t.Error(err) // there is room for an organization's first request
		return
	}
	l.identify(fmt.Sprint(r.IntN(4) * r.IntN(2)))
	defer func() {
		count(-l.bytes, nil)
		l.end()
	}()
	for step := range 1 + r.IntN(5) {
		if step == 1 && r.IntN(2) == 0 {
			l.cpu = &cpuSlot{semaphore: cpu, organization: fmt.Sprint(r.IntN(4))}
			if l.cpu.acquire(ctx) != nil {
				return
			}
			defer l.cpu.release()
		}
		n := 1 + r.Int64N(150)
		if r.IntN(10) == 0 {
			n = 1 + r.Int64N(700)
		}
		before, began := l.bytes, time.Now()
		err := l.take(ctx, n)
		if waited := time.Since(began); waited > time.Minute {
			t.Errorf("%d bytes took %v", n, waited)
		}
		count(l.bytes-before, err)
		if err != nil {
			return
		}
		select {
		case <-time.After(time.Duration(r.IntN(300)) * time.Millisecond):
		case <-ctx.Done():
			return
		}
		if r.IntN(3) == 0 {
			n := r.Int64N(l.bytes + 1)
			count(-n, nil)
			l.give(n)
		}
	}
}
