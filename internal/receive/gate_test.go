// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGateServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 100)
		first := g.lease(time.Second)
		require.NoError(t, first.take(t.Context(), 100))
		order := make(chan int, 3)
		for i, n := range []int64{60, 30, 10} {
			go func() {
				l := g.lease(time.Second)
				if err := l.take(t.Context(), n); err != nil {
					t.Error(err)
				}
				order <- i
			}()
			synctest.Wait()
		}
		first.give(59)
		synctest.Wait()
		require.Empty(t, order, "a small request must not overtake a large one")
		first.give(1)
		require.Equal(t, 0, <-order)
		first.give(30)
		require.Equal(t, 1, <-order)
		first.end()
		require.Equal(t, 2, <-order)
	})
}

func TestGatePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 100)
		holder := g.lease(0)
		require.NoError(t, holder.take(t.Context(), 95))
		l := g.lease(2 * time.Second)
		began := time.Now()
		require.ErrorIs(t, l.take(t.Context(), 10), errBusy)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, 2*time.Second, l.waited)
		require.ErrorIs(t, l.take(t.Context(), 10), errBusy, "patience is for all waits together")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.NoError(t, l.take(t.Context(), 5), "no wait is needed")
		l.end()
		holder.end()
		require.Zero(t, g.held())
	})
}

func TestGateEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 100)
		holder := g.lease(0)
		require.NoError(t, holder.take(t.Context(), 100))
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(time.Millisecond)
			cancel(errDraining)
		}()
		require.ErrorIs(t, g.lease(time.Hour).take(ctx, 1), errDraining)
		require.Empty(t, g.newcomers)
	})
}

// Leases that hold something and want more come before new ones; when all of them wait, the last is refused.
func TestGateResolvesDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 100)
		a, b := g.lease(time.Hour), g.lease(time.Hour)
		require.NoError(t, a.take(t.Context(), 50))
		require.NoError(t, b.take(t.Context(), 50))
		served := make(chan string, 2)
		go func() {
			if err := a.take(t.Context(), 40); err != nil {
				t.Error(err)
			}
			served <- "grower"
		}()
		synctest.Wait()
		go func() {
			if err := g.lease(time.Hour).take(t.Context(), 30); err != nil {
				t.Error(err)
			}
			served <- "newcomer"
		}()
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, b.take(t.Context(), 10), errBusy)
		require.Zero(t, time.Since(began))
		b.end()
		require.Equal(t, "grower", <-served)
		synctest.Wait()
		require.Empty(t, served)
		a.end()
		require.Equal(t, "newcomer", <-served)
	})
}

func TestGateGivesOneRequestAtMostItself(t *testing.T) {
	g := newGate(100, 100)
	l := g.lease(0)
	require.NoError(t, l.take(t.Context(), 70))
	require.NoError(t, l.take(t.Context(), 1000), "what the whole gate has is enough")
	require.Equal(t, int64(100), g.held())
	l.give(1000)
	require.Zero(t, g.held())
	require.Zero(t, g.holders)
}

func TestGateUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity = 1000
		g := newGate(capacity, capacity/4)
		var inUse, served, refused atomic.Int64
		var all sync.WaitGroup
		for seed := range uint64(16) {
			all.Go(func() {
				random := rand.New(rand.NewPCG(seed, 0))
				for range 300 {
					l := g.lease(time.Duration(random.IntN(100)) * time.Millisecond)
					l.organization = string('a' + rune(seed%5))
					for range 1 + random.IntN(4) {
						held := l.bytes
						if l.take(t.Context(), 1+random.Int64N(capacity/4)) != nil {
							refused.Add(1)
							break
						}
						served.Add(1)
						if inUse.Add(l.bytes-held) > capacity { // a lease gets no more than its organization's share
							t.Error("more is in use than there is")
						}
						time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
					}
					inUse.Add(-l.bytes)
					l.end()
				}
			})
		}
		all.Wait()
		require.Positive(t, served.Load())
		require.Positive(t, refused.Load())
		require.Zero(t, g.held())
		require.Zero(t, g.holders)
		require.Empty(t, g.shares)
		require.Empty(t, g.growers)
		require.Empty(t, g.newcomers)
	})
}

// TestGateShares: one organization leaves room for another, which comes first where
// both wait, and its own leases do not wait for each other for ever.
func TestGateShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 50)
		leaseOf := func(organization string) *lease {
			l := g.lease(time.Hour)
			l.organization = organization
			return l
		}
		a := leaseOf("greedy")
		require.NoError(t, a.take(t.Context(), 40))
		b := leaseOf("greedy")
		require.NoError(t, b.take(t.Context(), 35))
		served := make(chan string, 4)
		take := func(name string, l *lease, n int64) {
			go func() {
				if err := l.take(t.Context(), n); err != nil {
					t.Error(err)
				}
				served <- name
			}()
			synctest.Wait()
		}
		next := leaseOf("greedy")
		take("greedy", next, 10)
		require.Empty(t, served, "three quarters are held")
		quiet := leaseOf("quiet")
		take("quiet", quiet, 20)
		require.Equal(t, "quiet", <-served)

		take("greedy grows", a, 5)
		require.Empty(t, served)
		require.ErrorIs(t, b.take(t.Context(), 5), errBusy, "all leases of the organization would wait")
		other := leaseOf("other")
		take("other", other, 5)
		require.Equal(t, "other", <-served, "who waits for its own share is not in the way")
		late := leaseOf("late")
		take("late", late, 5)
		require.Empty(t, served, "nothing is free")
		b.end()
		synctest.Wait()
		require.ElementsMatch(t, []string{"greedy grows", "greedy", "late"}, []string{<-served, <-served, <-served})
		for _, l := range []*lease{a, next, quiet, other, late} {
			l.end()
		}
		require.Zero(t, g.held())
		require.Empty(t, g.shares)
	})
}

func TestBufferSizes(t *testing.T) {
	for n, want := range map[int64]int64{
		0: minBuffer, minBuffer: minBuffer, minBuffer + 1: 2 * minBuffer, 300_000: 512 << 10,
		maxPooled: maxPooled, maxPooled + 1: 2 * maxPooled, 64<<20 + 1: 68 << 20,
	} {
		size := bufferSize(n)
		require.Equal(t, want, size)
		require.Equal(t, want <= maxPooled, pool(size) != nil)
	}
	require.Nil(t, pool(100_000), "not one of the sizes")
	seen := map[*sync.Pool]bool{}
	for size := int64(minBuffer); size <= maxPooled; size *= 2 {
		require.False(t, seen[pool(size)])
		seen[pool(size)] = true
	}
	require.Len(t, seen, len(pools))
}
