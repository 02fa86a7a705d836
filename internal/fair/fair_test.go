// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSemaphoreTurns: keys take turns, regardless of the number of waiters per key.
func TestSemaphoreTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(1, 1)
		require.NoError(t, s.Acquire(t.Context(), "a"))
		var mu sync.Mutex
		var order string
		var wg sync.WaitGroup
		for _, key := range []string{"a", "a", "a", "b", "b", "c"} {
			wg.Go(func() {
				require.NoError(t, s.Acquire(t.Context(), key))
				mu.Lock()
				order += key
				mu.Unlock()
				s.Release(key)
			})
			synctest.Wait()
		}
		s.Release("a")
		wg.Wait()
		require.Equal(t, "abcaba", order)
		require.Empty(t, s.keys, "keys without holders are removed")
		require.Empty(t, s.order)
	})
}

// TestSemaphoreEach: the limit per key leaves room for another key.
func TestSemaphoreEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(4, 2)
		for range 2 {
			require.NoError(t, s.Acquire(t.Context(), "a"))
		}
		third := make(chan error, 1)
		go func() { third <- s.Acquire(t.Context(), "a") }()
		synctest.Wait()
		require.Empty(t, third, "the third holder of a key waits")
		require.NoError(t, s.Acquire(t.Context(), "b"))
		require.NoError(t, s.Acquire(t.Context(), "c"))
		fourth := make(chan error, 1)
		go func() { fourth <- s.Acquire(t.Context(), "d") }()
		synctest.Wait()
		s.Release("b")
		require.NoError(t, <-fourth, "admitted before a key at its limit that has waited longer")
		s.Release("a")
		require.NoError(t, <-third)
	})
}

// TestSemaphoreFewest: two greedy keys hold all slots and have more waiters. A third key is admitted as soon as one
// holder ends.
func TestSemaphoreFewest(t *testing.T) {
	s := NewSemaphore(4, 2)
	for _, key := range []string{"a", "a", "b", "b"} {
		require.Nil(t, s.request(key, false))
	}
	waiting := []<-chan struct{}{s.request("a", false), s.request("b", false), s.request("a", false), s.request("c", false), s.request("c", false)}
	admitted := func() (n int) {
		for i, w := range waiting {
			select {
			case <-w:
				n |= 1 << i
			default:
			}
		}
		return n
	}
	require.Zero(t, admitted())
	s.Release("a")
	require.Equal(t, 1<<3, admitted(), "c holds nothing")
	s.Release("b")
	require.Equal(t, 1<<3|1, admitted(), "equal holders, a has waited longest")
	s.Release("b")
	require.Equal(t, 1<<3|1|1<<1, admitted(), "b holds nothing")
	s.Release("a")
	require.Equal(t, 1<<3|1|1<<1|1<<4, admitted(), "equal holders, the turn of c is before that of a")
}

// TestEnterTakesTurns: Enter and Acquire take turns for a key, each in the order of the requests.
func TestEnterTakesTurns(t *testing.T) {
	for requests, want := range map[string]string{
		"aaaee": "eaeaa", // a response waits for one Acquire, however many wait
		"eeeaa": "eaeae", // and the reverse
		"aaa":   "aaa",
		"eee":   "eee",
	} {
		s := NewSemaphore(1, 1)
		require.Nil(t, s.request("k", false))
		var waiting []<-chan struct{}
		for _, r := range requests {
			waiting = append(waiting, s.request("k", r == 'e'))
		}
		got, next := "", map[byte]int{}
		for range requests {
			s.Release("k")
			for i, w := range waiting {
				select {
				case <-w:
					kind := requests[i]
					require.GreaterOrEqual(t, i, next[kind], "first in, first out")
					got, next[kind], waiting[i] = got+string(kind), i, nil
				default:
				}
			}
		}
		require.Equal(t, want, got, requests)
	}
}

// TestSemaphoreModel: no slot is lost or idle while a key waits, and the key with the fewest holders is admitted
// next. For a key, Enter and Acquire take turns.
func TestSemaphoreModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		each := rapid.IntRange(1, n).Draw(t, "each")
		s := NewSemaphore(n, each)
		type waiter struct {
			key   string
			first bool
			c     <-chan struct{}
		}
		var waiting []waiter
		held, all := make(map[string]int), 0
		entered := make(map[string]bool) // the kind of the last that waited
		keys := rapid.SampledFrom([]string{"a", "a", "a", "b", "b", "c", "d"})
		// settle records the admitted waiters, of at most one key.
		settle := func(t *rapid.T) {
			waiting = slices.DeleteFunc(waiting, func(w waiter) bool {
				select {
				case <-w.c:
					for _, other := range waiting {
						require.False(t, held[other.key] < held[w.key] && held[other.key] < each, "%s before %s", w.key, other.key)
					}
					i := slices.IndexFunc(waiting, func(o waiter) bool { return o.key == w.key && o.first == w.first })
					require.Equal(t, w, waiting[i], "first in, first out")
					if w.first == entered[w.key] {
						require.False(t, slices.ContainsFunc(waiting, func(o waiter) bool { return o.key == w.key && o.first != w.first }), "%s takes turns", w.key)
					}
					held[w.key]++
					all++
					entered[w.key] = w.first
					return true
				default:
					return false
				}
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				key, first := keys.Draw(t, "key"), rapid.Bool().Draw(t, "first")
				if c := s.request(key, first); c != nil {
					waiting = append(waiting, waiter{key, first, c})
				} else {
					held[key]++
					all++
				}
			},
			"release": func(t *rapid.T) {
				if key := keys.Draw(t, "key"); held[key] > 0 {
					held[key]--
					all--
					s.Release(key)
				}
				settle(t)
			},
			"abandon": func(t *rapid.T) {
				if len(waiting) > 0 {
					i := rapid.IntRange(0, len(waiting)-1).Draw(t, "waiter")
					require.True(t, s.abandon(waiting[i].key, waiting[i].c))
					waiting = slices.Delete(waiting, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				for key := range entered {
					if _, ok := s.keys[key]; !ok {
						delete(entered, key)
					}
				}
				require.LessOrEqual(t, all, n)
				require.Equal(t, n-all, s.free)
				for key, held := range held {
					require.LessOrEqual(t, held, each, key)
				}
				for _, w := range waiting {
					require.True(t, all == n || held[w.key] == each, "%s waits", w.key)
				}
			},
		})
	})
}

func TestSemaphoreGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(1, 1)
		require.NoError(t, s.Acquire(t.Context(), "a"))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("impatient"))
		defer cancel()
		require.EqualError(t, s.Acquire(ctx, "b"), "impatient")
		s.Release("a")
		require.NoError(t, s.Acquire(t.Context(), "c"), "no key waits before it")
		s.Release("c")
		require.Empty(t, s.keys)
		require.Empty(t, s.order)
		require.Equal(t, 1, s.free)
	})
}

// TestSemaphoreBounds checks the limits with many concurrent acquisitions, releases and cancellations.
func TestSemaphoreBounds(t *testing.T) {
	const n, each = 5, 2
	s := NewSemaphore(n, each)
	var all atomic.Int32
	var keys [7]atomic.Int32
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 200 {
				k := r.IntN(len(keys))
				key := fmt.Sprint(k)
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(4) == 0 {
					go cancel()
				}
				if s.Acquire(ctx, key) == nil {
					if all.Add(1) > n || keys[k].Add(1) > each {
						t.Error("more than allowed")
					}
					all.Add(-1)
					keys[k].Add(-1)
					s.Release(key)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.keys)
	require.Empty(t, s.order)
	require.Equal(t, n, s.free)
}

// push pushes an item that fits without an eviction.
func push[T comparable](t *testing.T, q *Queue[T], key string, item T, weight int) {
	t.Helper()
	evicted, ok := q.Push(key, item, weight)
	require.True(t, ok)
	require.Empty(t, evicted)
}

// refused pushes an item that does not fit.
func refused[T comparable](t *testing.T, q *Queue[T], key string, item T, weight int) {
	t.Helper()
	evicted, ok := q.Push(key, item, weight)
	require.False(t, ok)
	require.Empty(t, evicted)
}

// empty checks that a queue is empty.
func empty[T comparable](t *testing.T, q *Queue[T]) {
	t.Helper()
	require.Zero(t, q.Len())
	require.Zero(t, q.count.Total())
	require.Zero(t, q.load.Total())
	require.Empty(t, q.keys)
	require.Empty(t, q.order)
}

func TestQueue(t *testing.T) {
	q := NewQueue[int](8, 1000)
	require.Empty(t, q.Take(10))
	for i := range 4 {
		push(t, q, "a", i, 1)
	}
	push(t, q, "b", 10, 1)
	push(t, q, "b", 11, 100)
	push(t, q, "c", 20, 1)
	push(t, q, "d", 30, 1)
	require.Equal(t, 8, q.Len())
	<-q.Ready()
	require.Equal(t, []int{0, 10, 20, 30, 1}, q.Take(5))
	<-q.Ready()
	require.Equal(t, []int{11}, q.Take(1), "one item, however heavy")
	push(t, q, "b", 12, 1)
	<-q.Ready()
	require.Equal(t, []int{2, 12, 3}, q.Take(100))
	push(t, q, "a", 1, 1)
	push(t, q, "b", 10, 1)
	evicted, ok := q.PushFirst("a", 0, 1)
	require.True(t, ok)
	require.Empty(t, evicted)
	<-q.Ready()
	require.Equal(t, []int{0, 10, 1}, q.Take(100))
	empty(t, q)
	require.Empty(t, q.Ready())
}

// TestQueueEvicts: two greedy keys that fill the queue do not keep a third one out, by items or by weight.
func TestQueueEvicts(t *testing.T) {
	for name, tt := range map[string]struct{ n, weight, each int }{
		"items":  {8, 1000, 1},
		"weight": {1000, 80, 10},
	} {
		t.Run(name, func(t *testing.T) {
			q := NewQueue[string](tt.n, tt.weight)
			for _, item := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"} {
				push(t, q, item[:1], item, tt.each)
			}
			refused(t, q, "a", "a5", tt.each)
			refused(t, q, "b", "b5", tt.each)
			for _, step := range []struct{ item, evicted string }{{"c1", "a4"}, {"c2", "b4"}, {"d1", "a3"}} {
				evicted, ok := q.Push(step.item[:1], step.item, tt.each)
				require.True(t, ok, step.item)
				require.Equal(t, []string{step.evicted}, evicted)
			}
			refused(t, q, "c", "c3", tt.each)
			require.False(t, q.Remove("a", "a4"), "evicted")
			require.Equal(t, []string{"a1", "b1", "c1", "d1", "a2", "b2", "c2", "b3"}, q.Take(1000))
			empty(t, q)
		})
	}
}

// TestQueueHalves: two keys hold one item of half the weight each, and a third key pushes a light item.
func TestQueueHalves(t *testing.T) {
	q := NewQueue[string](100, 100)
	push(t, q, "a", "a", 50)
	push(t, q, "b", "b", 50)
	evicted, ok := q.Push("c", "c", 1)
	require.True(t, ok)
	require.Equal(t, []string{"a"}, evicted)
	require.Equal(t, []string{"b", "c"}, q.Take(1000))
	empty(t, q)
}

// TestQueueOwn: items of the empty key are never refused or evicted, and do not count against other keys.
func TestQueueOwn(t *testing.T) {
	q := NewQueue[string](2, 20)
	push(t, q, "a", "a1", 10)
	push(t, q, "a", "a2", 10)
	push(t, q, "", "own1", 1000)
	push(t, q, "", "own2", 1000)
	push(t, q, "", "own3", 1000)
	evicted, ok := q.Push("b", "b1", 10)
	require.True(t, ok)
	require.Equal(t, []string{"a2"}, evicted)
	require.Equal(t, 5, q.Len())
	require.True(t, q.Remove("", "own2"))
	require.Equal(t, []string{"a1", "own1", "b1", "own3"}, q.Take(10000))
	empty(t, q)
}

// TestQueueRemove: removing an item makes room and preserves the order.
func TestQueueRemove(t *testing.T) {
	q := NewQueue[string](6, 100)
	for _, item := range []string{"a1", "a2", "a3", "b1", "c1"} {
		push(t, q, item[:1], item, 20)
	}
	require.False(t, q.Remove("a", "b1"), "item of another key")
	require.False(t, q.Remove("e", "e1"))
	require.True(t, q.Remove("a", "a2"))
	require.False(t, q.Remove("a", "a2"), "once")
	require.True(t, q.Remove("b", "b1"))
	require.Equal(t, 3, q.Len())
	push(t, q, "d", "d1", 20)
	require.True(t, q.Remove("c", "c1"))
	require.Equal(t, []string{"a1", "d1"}, q.Take(40))
	require.False(t, q.Remove("a", "a1"), "already taken")
	require.True(t, q.Remove("a", "a3"))
	empty(t, q)
	require.Len(t, q.Ready(), 1, "wakes a consumer that waits for an empty queue")
	require.Empty(t, q.Take(1))
	require.Empty(t, q.Ready())
}

func TestQueueWeights(t *testing.T) {
	q := NewQueue[string](100, 100)
	push(t, q, "a", "huge", 1000)
	refused(t, q, "a", "a", 1)
	evicted, ok := q.Push("b", "b", 1)
	require.True(t, ok)
	require.Equal(t, []string{"huge"}, evicted)
	refused(t, q, "a", "huge", 1000)
	require.Equal(t, []string{"b"}, q.Take(1))
	push(t, q, "a", "huge", 1000)
	require.Equal(t, []string{"huge"}, q.Take(1))
	empty(t, q)
	push(t, q, "a", "a1", 30)
	push(t, q, "a", "a2", 30)
	refused(t, q, "b", "b1", 51)
	require.Equal(t, 2, q.Len(), "a refused item evicts nothing")
	evicted, ok = q.Push("b", "b1", 50)
	require.True(t, ok)
	require.Equal(t, []string{"a2"}, evicted)
	require.Equal(t, []string{"a1", "b1"}, q.Take(100))
	empty(t, q)
}

// TestQueueModel pushes, takes and removes items of greedy and modest keys at random. A key within its shares is
// neither refused nor evicted, items of a key are taken in order, and no item is lost.
func TestQueueModel(t *testing.T) {
	type item struct {
		id, weight int
	}
	rapid.Check(t, func(t *rapid.T) {
		n, weight := rapid.IntRange(1, 20).Draw(t, "items"), rapid.IntRange(1, 100).Draw(t, "weight")
		q, model := NewQueue[item](n, weight), make(map[string][]item)
		var last int
		sum := func(key string) (w int) {
			for _, i := range model[key] {
				w += min(i.weight, weight)
			}
			return w
		}
		// within reports whether an amount is within the shares of a key.
		within := func(key string, items, w int) bool {
			keys := 0
			for other, list := range model {
				if other != "" && (other == key || len(list) > 0) {
					keys++
				}
			}
			return items <= n/keys && w <= weight/keys
		}
		keys := rapid.SampledFrom([]string{"", "a", "a", "a", "b", "b", "b", "c", "d", "e"})
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				last++
				i := item{last, rapid.IntRange(1, max(1, weight*5/4)).Draw(t, "weight")}
				model[key] = append(model[key], i) // included in its shares
				entitled := key == "" || within(key, len(model[key]), sum(key))
				evicted, ok := q.Push(key, i, i.weight)
				if !ok {
					require.False(t, entitled, "refused within its shares")
					require.Empty(t, evicted)
					model[key] = model[key][:len(model[key])-1]
					return
				}
				for _, e := range evicted {
					for other, list := range model {
						if len(list) > 0 && list[len(list)-1] == e {
							require.NotEqual(t, key, other)
							require.NotEmpty(t, other)
							require.False(t, within(other, len(list), sum(other)), "evicted within its shares")
							model[other] = list[:len(list)-1]
							e.id = 0
							break
						}
					}
					require.Zero(t, e.id, "evicted was not the newest of a key")
				}
			},
			"take": func(t *rapid.T) {
				for _, i := range q.Take(rapid.IntRange(1, 2*weight).Draw(t, "budget")) {
					for key, list := range model {
						if len(list) > 0 && list[0] == i {
							model[key] = list[1:]
							i.id = 0
							break
						}
					}
					require.Zero(t, i.id, "taken out of order")
				}
			},
			"remove": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				if list := model[key]; len(list) > 0 {
					i := rapid.IntRange(0, len(list)-1).Draw(t, "index")
					require.True(t, q.Remove(key, list[i]))
					model[key] = slices.Concat(list[:i], list[i+1:])
				}
			},
			"": func(t *rapid.T) {
				var items, counted, w int
				for key, list := range model {
					items += len(list)
					if key != "" {
						counted += len(list)
						w += sum(key)
					}
				}
				require.Equal(t, items, q.Len())
				require.LessOrEqual(t, counted, n)
				require.LessOrEqual(t, w, weight)
				require.EqualValues(t, counted, q.count.Total())
				require.EqualValues(t, w, q.load.Total())
			},
		})
		q.Take(1 << 30)
		require.Empty(t, q.keys)
		require.Empty(t, q.order)
		require.Zero(t, q.count.Total())
		require.Zero(t, q.load.Total())
	})
}

// TestQueueIsFairByWeight: light items of one key do not wait for heavy items of another.
func TestQueueIsFairByWeight(t *testing.T) {
	q := NewQueue[string](100, 1_000_000)
	for i := range 10 {
		_, ok := q.Push("heavy", fmt.Sprint("heavy ", i), 1000)
		require.True(t, ok)
		_, ok = q.Push("light", fmt.Sprint("light ", i), 5)
		require.True(t, ok)
	}
	taken := q.Take(2000)
	require.Contains(t, taken, "light 9")
	require.NotContains(t, taken, "heavy 3")
	require.Len(t, q.Take(2000), 2)
}
