// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/lease"
)

const (
	ttl      = 10 * time.Second
	interval = 3 * time.Second
	takeover = 15 * time.Second // maximum time until a dead replica is noticed
	soon     = 2*interval + time.Second
	next     = interval + time.Second
)

// replica is a running Coordinator.
type replica struct {
	*lease.Coordinator
	link link
	stop func() // stops it and waits
}

// cluster is a set of replicas with one store, in a synctest bubble.
type cluster struct {
	t     *testing.T
	store *memory

	mu   sync.Mutex
	work []string
}

// list returns the current work.
func (c *cluster) list(context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.work, nil
}

func (c *cluster) set(work ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work = work
}

func newCluster(t *testing.T, work int) *cluster {
	c := &cluster{t: t, store: new(memory)}
	for i := range work {
		c.work = append(c.work, fmt.Sprintf("score:%04d", i))
	}
	return c
}

// start starts a replica and returns after its first renewal.
func (c *cluster) start(change ...func(*lease.Config)) *replica {
	c.t.Helper()
	r := &replica{}
	r.link.memory = c.store
	cfg := lease.Config{Store: &r.link, Name: "test", Work: c.list}
	for _, f := range change {
		f(&cfg)
	}
	r.Coordinator = lease.New(cfg)
	require.NoError(c.t, r.Renew(c.t.Context()))
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	c.t.Cleanup(r.stop)
	return r
}

// wait advances the time and checks throughout that no lease is held twice.
func (c *cluster) wait(d time.Duration, replicas ...*replica) {
	c.t.Helper()
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		time.Sleep(step)
		synctest.Wait() // until all goroutines are idle
		holders := make(map[string]int)
		for i, r := range replicas {
			for _, name := range r.Held("") {
				other, twice := holders[name]
				require.False(c.t, twice, "%s is held by replicas %d and %d", name, other, i)
				holders[name] = i
			}
		}
	}
}

// shares checks that the replicas hold all the work, in shares that differ by at most one.
func (c *cluster) shares(replicas ...*replica) {
	c.t.Helper()
	var all []string
	least, most := len(c.work), 0
	for _, r := range replicas {
		mine := r.Held("score:")
		all = append(all, mine...)
		least, most = min(least, len(mine)), max(most, len(mine))
	}
	slices.Sort(all)
	require.Equal(c.t, slices.Sorted(slices.Values(c.work)), all)
	require.LessOrEqual(c.t, most-least, 1, "the shares are fair")
}

func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10)
		a := c.start()
		c.shares(a) // without waiting
		require.Equal(t, 1, a.Replicas())

		// New replicas soon get their exact share.
		b := c.start()
		c.wait(soon, a, b)
		c.shares(a, b)
		d := c.start()
		c.wait(soon, a, b, d)
		c.shares(a, b, d)
		require.Equal(t, 3, a.Replicas())
		before := [][]string{a.Held(""), b.Held(""), d.Held("")}
		c.wait(time.Minute, a, b, d)
		require.Equal(t, before, [][]string{a.Held(""), b.Held(""), d.Held("")}, "leases do not move without a reason")

		// A replica that stops hands over at once.
		b.stop()
		require.Empty(t, b.Held(""))
		c.wait(next, a, b, d)
		c.shares(a, d)

		// A dead replica is noticed when its leases expire.
		d.link.set(func(l *link) { l.down = true })
		c.wait(takeover, a, d)
		require.Empty(t, d.Held(""))
		c.shares(a)
		require.Equal(t, 1, a.Replicas())

		// It returns, with more work than before.
		d.link.set(func(l *link) { l.down = false })
		c.set(slices.Concat(c.work, []string{"score:new"})...)
		c.wait(soon, a, d)
		c.shares(a, d)
		c.set(c.work[3:]...)
		c.wait(soon, a, d)
		c.shares(a, d)
	})
}

// TestMoreReplicasThanWork: some replicas hold no work.
func TestMoreReplicasThanWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		replicas := []*replica{c.start(), c.start(), c.start()}
		c.wait(soon, replicas...)
		c.shares(replicas...)
		c.set()
		c.wait(soon, replicas...)
		for _, r := range replicas {
			require.Empty(t, r.Held("score:"))
		}
	})
}

// TestStartTogether starts many replicas at the same time.
func TestStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 100)
		var replicas []*replica
		for range 7 {
			replicas = append(replicas, c.start())
		}
		c.wait(soon, replicas...)
		c.shares(replicas...)
	})
}

// TestFaults lets connections and replicas fail in random order. No lease is held twice, and after recovery all are
// held.
func TestFaults(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c := newCluster(t, 20)
			c.store.ahead = -5 * time.Hour
			replicas := []*replica{c.start(), c.start(), c.start()}
			for range 30 {
				r := replicas[random.IntN(len(replicas))]
				r.link.set(func(l *link) {
					l.down, l.lost, l.hung = random.IntN(3) == 0, random.IntN(3) == 0, random.IntN(4) == 0
					l.slow = time.Duration(random.IntN(2000)) * time.Millisecond
				})
				c.wait(time.Duration(random.IntN(8000))*time.Millisecond, replicas...)
			}
			for _, r := range replicas {
				r.link.set(func(l *link) { l.down, l.lost, l.hung, l.slow = false, false, false, 0 })
			}
			c.wait(2*takeover, replicas...)
			c.shares(replicas...)
		})
	}
}

// TestStoreUnavailable: the duration of a lease counts from before the last renewal.
func TestStoreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		r := c.start()
		term := r.Term("score:0000")
		require.NotZero(t, term)
		require.True(t, r.Holds("score:0000"))
		time.Sleep(2*interval + time.Second)
		require.Equal(t, term, r.Term("score:0000"), "held without interruption")

		// The last renewal was a second ago, and the result of the next one is delayed.
		r.link.set(func(l *link) { l.hung = true })
		time.Sleep(ttl - time.Second - time.Nanosecond)
		require.True(t, r.Holds("score:0000"))
		time.Sleep(time.Nanosecond)
		require.False(t, r.Holds("score:0000"))
		require.Zero(t, r.Term("score:0000"))
		require.Empty(t, r.Held(""))

		drain(r.Gained())
		r.link.set(func(l *link) { l.hung = false })
		time.Sleep(soon)
		require.True(t, r.Holds("score:0000"))
		require.NotEqual(t, term, r.Term("score:0000"), "held with an interruption")
		select {
		case <-r.Gained():
		default:
			t.Error("no value on Gained")
		}
	})
}

func drain(ch <-chan struct{}) {
	select {
	case <-ch:
	default:
	}
}

// TestSlowRenewal: a renewal takes longer than the remaining duration of the lease.
func TestSlowRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		r := c.start(func(c *lease.Config) { c.Interval = 9 * time.Second })
		term := r.Term("score:0000")
		r.link.set(func(l *link) { l.slow = 4 * time.Second })
		time.Sleep(12 * time.Second)
		require.False(t, r.Holds("score:0000"))
		time.Sleep(2 * time.Second)
		later := r.Term("score:0000")
		require.NotEqual(t, term, later, "another replica may have held it in between")
		require.NotZero(t, later)
		time.Sleep(5*time.Second - time.Nanosecond)
		require.Equal(t, later, r.Term("score:0000"))
		time.Sleep(time.Nanosecond)
		require.Zero(t, r.Term("score:0000"), "the duration counts from the call of the store")
	})
}

// TestLeaseLost: the store grants a held lease to another holder.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		r := c.start()
		ok, err := r.Acquire(t.Context(), "journal:a")
		require.NoError(t, err)
		require.True(t, ok)
		c.store.take("score:0001", "thief", time.Hour)
		c.store.take("journal:a", "thief", time.Hour)
		time.Sleep(next)
		require.Equal(t, []string{"score:0000"}, r.Held("score:"))
		require.False(t, r.Holds("journal:a"))

		// Free work is taken again. Other leases are acquired only on request.
		c.store.take("score:0001", "", 0)
		c.store.take("journal:a", "", 0)
		time.Sleep(next)
		require.True(t, r.Holds("score:0001"))
		require.False(t, r.Holds("journal:a"))
	})
}

func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		a, b := c.start(), c.start()
		ctx := t.Context()
		acquire := func(r *replica, want bool) {
			t.Helper()
			ok, err := r.Acquire(ctx, "journal:x")
			require.NoError(t, err)
			require.Equal(t, want, ok)
			require.Equal(t, want, r.Holds("journal:x"))
		}
		acquire(a, true)
		acquire(b, false)
		term := a.Term("journal:x")
		acquire(a, true)
		require.Equal(t, term, a.Term("journal:x"))
		c.wait(time.Minute, a, b)
		require.Equal(t, term, a.Term("journal:x"), "renewed throughout")
		c.shares(a, b) // not part of the work

		require.NoError(t, a.Release(ctx, "journal:x"))
		require.False(t, a.Holds("journal:x"))
		acquire(b, true)
		acquire(a, false)
		require.NoError(t, a.Release(ctx, "journal:x"), "another replica's lease is kept")
		require.True(t, b.Holds("journal:x"))
		c.wait(next, a, b)
		require.Equal(t, b.Holder(), c.store.holderOf("journal:x"))

		// A failed Acquire does not hold or renew the lease, even if the store granted it.
		b.stop()
		a.link.set(func(l *link) { l.lost = true })
		_, err := a.Acquire(ctx, "journal:x")
		require.ErrorIs(t, err, errUnavailable)
		require.False(t, a.Holds("journal:x"))
		a.link.set(func(l *link) { l.lost = false })
		c.wait(ttl, a)
		require.Empty(t, c.store.holderOf("journal:x"))
		acquire(a, true)
		a.link.set(func(l *link) { l.down = true })
		require.ErrorIs(t, a.Release(ctx, "journal:x"), errUnavailable)
		require.False(t, a.Holds("journal:x"))
	})
}

// TestHungStore: no call exceeds its timeout while the store hangs.
func TestHungStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		r := c.start()
		r.link.set(func(l *link) { l.hung = true })
		time.Sleep(interval + time.Second) // Renew waits for the store
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Acquire(ctx, "journal:x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, r.Release(ctx, "journal:x"), context.DeadlineExceeded)
		require.ErrorIs(t, r.Renew(ctx), context.DeadlineExceeded)
		began := time.Now()
		r.stop()
		require.LessOrEqual(t, time.Since(began), interval)
		require.Empty(t, r.Held(""), "Run ends")
	})
}

// TestWorkUnknown: leases are kept while the work cannot be listed.
func TestWorkUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		var fail atomic.Bool
		r := c.start(func(cfg *lease.Config) {
			cfg.Work = func(ctx context.Context) ([]string, error) {
				if fail.Load() {
					return nil, errUnavailable
				}
				return c.list(ctx)
			}
		})
		fail.Store(true)
		c.wait(time.Minute, r)
		c.shares(r)
		require.ErrorIs(t, r.Renew(t.Context()), errUnavailable)
	})
}

// TestManyOrganizations counts the calls of the store.
func TestManyOrganizations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 10_000)
		a := c.start()
		c.shares(a)
		c.store.calls.Store(0)
		require.NoError(t, a.Renew(t.Context()))
		require.EqualValues(t, 2, c.store.calls.Load(), "a renewal and the list of replicas")
		b := c.start()
		c.store.calls.Store(0)
		require.NoError(t, a.Renew(t.Context()))
		require.EqualValues(t, 3, c.store.calls.Load(), "and a release")
		require.NoError(t, b.Renew(t.Context()))
		require.EqualValues(t, 6, c.store.calls.Load(), "and an acquisition")
		c.shares(a, b)
	})
}

func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		r := c.start(func(c *lease.Config) { c.Holder = "me" })
		require.Equal(t, "me", r.Holder())
		require.Equal(t, []string{"replica:test/me", "score:0000", "score:0001", "score:0002"}, r.Held(""))
		require.Equal(t, c.work, r.Held("score:"))
		require.Empty(t, r.Held("score:9"))
		require.NotEqual(t, lease.New(lease.Config{}).Holder(), lease.New(lease.Config{}).Holder())
		names, err := c.store.LeaseNames(t.Context(), "replica:")
		require.NoError(t, err)
		require.True(t, slices.Contains(names, "replica:test/me"))
	})
}
