// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/fair"
)

// BenchmarkGateBesideFlood is one request's memory while as many requests as one
// organization can have wait for its share.
func BenchmarkGateBesideFlood(b *testing.B) {
	const body = 64 << 10
	g := newGate(256<<20, 144<<20)
	leaseOf := func(organization string) *lease {
		l := g.lease(time.Hour)
		l.organization = organization
		return l
	}
	busy := leaseOf("flood")
	require.NoError(b, busy.take(b.Context(), g.each-maxOwnRequests*body))
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	defer all.Wait()
	defer cancel()
	for range maxOwnRequests - 1 {
		l := leaseOf("flood")
		require.NoError(b, l.take(ctx, body))
		w := g.request(l, 64<<20)
		all.Go(func() { _ = l.wait(ctx, w) })
	}
	for b.Loop() {
		l := leaseOf("quiet")
		if err := l.take(b.Context(), body); err != nil {
			b.Fatal(err)
		}
		l.end()
	}
}

// TestGateEndsEveryWait has requests take, give, grow, leave and take turns at random.
// None of them holds anything for longer than some seconds, so that a wait of minutes
// would be one for each other.
func TestGateEndsEveryWait(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			const capacity, largest = 1000, 600
			g := newGate(capacity, largest)
			turns := fair.NewSemaphore(3, 2)
			var mu sync.Mutex
			held := make(map[string]int64) // by organization
			count := func(organization string, n int64) {
				mu.Lock()
				defer mu.Unlock()
				held[organization] += n
				if held[organization] > g.each {
					t.Errorf("%s has %d", organization, held[organization])
				}
			}
			var all sync.WaitGroup
			for worker := range uint64(12) {
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, worker))
					for range 60 {
						passThrough(t, g, turns, r, count)
					}
				})
			}
			all.Wait()
			require.Zero(t, g.held())
			require.Zero(t, g.holders)
			require.Empty(t, g.shares)
			require.Empty(t, g.growers)
			require.Empty(t, g.newcomers)
			for i := range 3 { // no turn is lost
				require.NoError(t, turns.Acquire(t.Context(), fmt.Sprint(i)))
			}
		})
	}
}

// passThrough is one request of an organization.
func passThrough(t *testing.T, g *gate, turns *fair.Semaphore, r *rand.Rand, count func(string, int64)) {
	ctx := t.Context()
	if r.IntN(8) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(500))*time.Millisecond)
		defer cancel()
	}
	l := g.lease(time.Hour)
	l.organization = fmt.Sprint(r.IntN(4) * r.IntN(2))
	defer func() {
		count(l.organization, -l.bytes)
		l.end()
	}()
	for step := range 1 + r.IntN(5) {
		if step == 1 && r.IntN(2) == 0 {
			l.turn = &turn{semaphore: turns, organization: l.organization}
			if l.turn.begin(ctx) != nil {
				return
			}
			defer l.turn.end()
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
		count(l.organization, l.bytes-before)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		if r.IntN(3) == 0 {
			n := r.Int64N(l.bytes + 1)
			count(l.organization, -n)
			l.give(n)
		}
	}
}
