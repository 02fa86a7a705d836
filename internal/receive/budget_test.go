// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/fair"

	"assay"
	"assay/internal/wire"
)

// reserve returns a new reservation of an organization, and the context that ends with it.
func reserve(t require.TestingT, b *budget, organization string, maxWait time.Duration) (*reservation, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	l, err := b.begin(maxWait, cancel)
	require.NoError(t, err)
	l.identify(organization)
	return l, ctx
}

// unused checks that nothing is held.
func unused(t require.TestingT, b *budget) {
	require.Zero(t, b.held())
	require.Zero(t, b.bytes.Total())
	require.Zero(t, b.requests.Total())
	require.Empty(t, b.accounts)
	require.Empty(t, b.waiting)
}

func TestBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 100, 10)
		first, _ := reserve(t, b, "a", time.Second)
		require.NoError(t, first.take(t.Context(), 100))
		order := make(chan int, 3)
		reservations := []*reservation{first}
		for i, n := range []int64{60, 30, 10} {
			l, ctx := reserve(t, b, "a", time.Second)
			reservations = append(reservations, l)
			go func() {
				if err := l.take(ctx, n); err != nil {
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
		for _, l := range reservations {
			l.end()
		}
		unused(t, b)
	})
}

func TestBudgetMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 100, 10)
		holder, _ := reserve(t, b, "a", 0)
		require.NoError(t, holder.take(t.Context(), 95))
		l, ctx := reserve(t, b, "a", 2*time.Second)
		began := time.Now()
		require.ErrorIs(t, l.take(ctx, 10), errBusy)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, 2*time.Second, l.waited)
		require.ErrorIs(t, l.take(ctx, 10), errBusy, "maxWait is for all waits together")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.NoError(t, l.take(ctx, 5), "no wait is needed")
		l.end()
		holder.end()
		unused(t, b)
	})
}

func TestBudgetEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 100, 10)
		holder, _ := reserve(t, b, "a", 0)
		require.NoError(t, holder.take(t.Context(), 100))
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(time.Millisecond)
			cancel(errDraining)
		}()
		l, _ := reserve(t, b, "a", time.Hour)
		require.ErrorIs(t, l.take(ctx, 1), errDraining)
		require.Empty(t, b.waiting)
	})
}

// TestBudgetResolvesDeadlock: reservations that hold bytes and need more are served before new ones of the
// organization. When all of them wait, the newest one is refused.
func TestBudgetResolvesDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 100, 10)
		first, ctx1 := reserve(t, b, "a", time.Hour)
		second, ctx2 := reserve(t, b, "a", time.Hour)
		require.NoError(t, first.take(ctx1, 50))
		require.NoError(t, second.take(ctx2, 50))
		served := make(chan string, 2)
		go func() {
			if err := first.take(ctx1, 40); err != nil {
				t.Error(err)
			}
			served <- "grower"
		}()
		synctest.Wait()
		newcomer, ctx3 := reserve(t, b, "a", time.Hour)
		go func() {
			if err := newcomer.take(ctx3, 30); err != nil {
				t.Error(err)
			}
			served <- "newcomer"
		}()
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, second.take(ctx2, 10), errBusy)
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, context.Cause(ctx2), errBusy)
		second.end()
		require.Equal(t, "grower", <-served)
		synctest.Wait()
		require.Empty(t, served)
		first.end()
		require.Equal(t, "newcomer", <-served)
		newcomer.end()
		unused(t, b)
	})
}

func TestBudgetOfOneLease(t *testing.T) {
	b := newBudget(100, 90, 10)
	l, ctx := reserve(t, b, "a", 0)
	require.NoError(t, l.take(ctx, 70))
	require.NoError(t, l.take(ctx, 1000), "the maximum of one reservation is enough")
	require.Equal(t, int64(90), b.held())
	l.give(1000)
	require.Zero(t, b.held())
	l.end()
	unused(t, b)
}

// TestBudgetGivesWay: two greedy organizations hold everything. A third organization that requests its share gets it
// as soon as the newest reservations of the others have ended, before other waiters. A slow reservation delays only
// its own organization.
func TestBudgetGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 50, 10)
		var reservations []*reservation
		var ended []context.Context
		for i := range 4 {
			l, ctx := reserve(t, b, []string{"a", "b"}[i%2], time.Hour)
			require.NoError(t, l.take(ctx, 25))
			reservations, ended = append(reservations, l), append(ended, ctx)
		}
		waiter, waits := reserve(t, b, "a", time.Hour)
		refused := make(chan error, 1)
		go func() { refused <- waiter.take(waits, 10) }()
		synctest.Wait()

		modest, ctx := reserve(t, b, "c", time.Hour)
		served := make(chan error, 1)
		go func() { served <- modest.take(ctx, 33) }()
		synctest.Wait()
		require.Empty(t, served, "until the others have released")
		require.NoError(t, ended[0].Err())
		require.NoError(t, ended[1].Err())
		require.ErrorIs(t, context.Cause(ended[2]), errBusy)
		require.ErrorIs(t, context.Cause(ended[3]), errBusy)
		require.ErrorIs(t, reservations[2].take(t.Context(), 1), errBusy, "evicted")
		reservations[2].end()
		synctest.Wait()
		require.Empty(t, served)
		require.Empty(t, refused)
		reservations[3].end()
		require.NoError(t, <-served)
		require.NoError(t, <-refused, "there was room for it as well")
		for _, l := range []*reservation{reservations[0], reservations[1], waiter, modest} {
			l.end()
		}
		unused(t, b)
	})
}

// TestBudgetRequests: an organization within its share of the requests can begin one, and unidentified requests evict
// each other.
func TestBudgetRequests(t *testing.T) {
	b := newBudget(100, 50, 4)
	var ended []context.Context
	begin := func(organization string) *reservation {
		l, ctx := reserve(t, b, organization, 0)
		ended = append(ended, ctx)
		return l
	}
	end := func(i int) { require.ErrorIs(t, context.Cause(ended[i]), errBusy) }
	reservations := []*reservation{begin("a"), begin("b"), begin("a"), begin("b")}
	reservations = append(reservations, begin("c"))
	end(2)
	reservations = append(reservations, begin(""))
	end(3)
	reservations = append(reservations, begin(""), begin(""))
	end(5) // the oldest unidentified one
	end(6)
	for i, l := range reservations {
		if i != 2 && i != 3 && i != 5 && i != 6 {
			require.NoError(t, ended[i].Err(), i)
		}
		l.identify("late") // no effect on those that have ended
	}
	require.EqualValues(t, 4, b.requests.Held("late"))
	for _, l := range reservations {
		l.end()
		l.end()
	}
	unused(t, b)
}

// TestBudgetModel runs reservations of greedy and modest organizations at random. An organization within its share
// waits only for evicted reservations and is never evicted. Each wait ends as soon as the evicted reservations are
// released.
func TestBudgetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(4, 100).Draw(t, "capacity")
		requests := rapid.IntRange(1, 12).Draw(t, "requests")
		b := newBudget(capacity, rapid.Int64Range(1, capacity).Draw(t, "largest"), requests)
		share := func(s *fair.Shares, asking string) int64 {
			keys := int64(s.Keys())
			if s.Held(asking) == 0 {
				keys++
			}
			return s.Capacity() / keys
		}
		type open struct {
			*reservation
			organization string
			ended        bool
		}
		var all []*open
		pick := func(t *rapid.T) *open {
			if len(all) == 0 {
				t.Skip("no reservation")
			}
			return rapid.SampledFrom(all).Draw(t, "reservation")
		}
		organizations := rapid.SampledFrom([]string{"a", "a", "a", "b", "b", "b", "c", "d", "e"})
		beginning := false
		// mayEnd reports whether a reservation of an organization may be evicted now.
		mayEnd := func(organization string) bool {
			if held := b.requests.Held(organization); beginning && b.requests.Total() == b.requests.Capacity() {
				if least := share(b.requests, ""); organization == "" && held+1 > least || held > least && held > b.requests.Held("")+1 {
					return true
				}
			}
			next := b.next()
			if next == nil {
				return false
			}
			least := share(b.bytes, next.organization)
			if held := b.bytes.Held(organization); held > least && held > b.heldAfter(next) {
				return true
			}
			a := b.accounts[organization]
			return len(a.growers) == a.holders && b.heldAfter(a) > least && b.heldAfter(next) > least
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				o := &open{}
				within := b.requests.Held("")+1 <= share(b.requests, "")
				beginning = true
				l, err := b.begin(0, func(cause error) {
					require.ErrorIs(t, cause, errBusy)
					require.False(t, o.ended)
					require.True(t, mayEnd(o.organization), "%q evicted within its share", o.organization)
					o.ended = true
				})
				beginning = false
				if err != nil {
					require.False(t, within)
					return
				}
				o.reservation = l
				all = append(all, o)
			},
			"identify": func(t *rapid.T) {
				if o := pick(t); o.organization == "" {
					o.organization = organizations.Draw(t, "organization")
					o.identify(o.organization)
				}
			},
			"take": func(t *rapid.T) {
				if o := pick(t); o.organization != "" && o.requested == 0 && len(o.ready) == 0 {
					before := o.bytes
					b.request(o.reservation, rapid.Int64Range(1, capacity).Draw(t, "n"))
					require.False(t, o.ended && o.bytes > before)
				}
			},
			"answer": func(t *rapid.T) {
				if o := pick(t); len(o.ready) > 0 {
					if err := <-o.ready; err != nil {
						require.True(t, o.ended) // which may also follow a grant
					}
				}
			},
			"abandon": func(t *rapid.T) { b.abandon(pick(t).reservation) },
			"give": func(t *rapid.T) {
				if o := pick(t); o.requested == 0 && o.bytes > 0 {
					o.give(rapid.Int64Range(1, o.bytes).Draw(t, "n"))
				}
			},
			"end": func(t *rapid.T) {
				o := pick(t)
				b.abandon(o.reservation)
				o.end()
				for i := range all {
					if all[i] == o {
						all = append(all[:i], all[i+1:]...)
						break
					}
				}
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, b.held(), capacity)
				require.LessOrEqual(t, b.requests.Total(), int64(requests))
				require.GreaterOrEqual(t, b.ending, int64(0))
				keys := int64(b.bytes.Keys())
				for _, a := range b.waiting {
					if a.holders == 0 {
						keys++ // it is requesting
					}
				}
				for _, a := range b.waiting {
					if b.ending == 0 {
						require.Greater(t, b.heldAfter(a), capacity/keys, "%s waits within its share", a.organization)
					}
				}
			},
		})
		for _, o := range all {
			b.abandon(o.reservation)
			o.end()
		}
		unused(t, b)
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

// TestSoleRequest: a server that is full admits the sole request of a connection.
func TestSoleRequest(t *testing.T) {
	r, err := New(Config{Authenticate: func(context.Context, string, string) (*assay.Principal, error) { return nil, errScope }, Ingester: idle{}})
	require.NoError(t, err)
	for range maxRequests + maxEnding {
		require.NoError(t, r.begin(false))
	}
	require.ErrorIs(t, r.begin(false), errBusy)
	require.NoError(t, r.begin(true))
	require.Equal(t, maxRequests+maxEnding+1, r.Requests())
	for range r.Requests() {
		r.end()
	}
	require.NoError(t, r.begin(false))
}

type idle struct{}

func (idle) Ingest(context.Context, string, wire.Signal, []byte) (string, error) { return "", nil }
