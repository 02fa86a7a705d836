// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSemaphoreTurns: keys take turns, however many holders of one wait.
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
		require.Empty(t, s.keys, "keys that hold nothing are forgotten")
		require.Empty(t, s.turn)
	})
}

// TestSemaphoreEach: one key leaves room for another.
func TestSemaphoreEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSemaphore(4, 2)
		for range 2 {
			require.NoError(t, s.Acquire(t.Context(), "a"))
		}
		third := make(chan error, 1)
		go func() { third <- s.Acquire(t.Context(), "a") }()
		synctest.Wait()
		require.Empty(t, third, "the third of a key waits")
		require.NoError(t, s.Acquire(t.Context(), "b"))
		require.NoError(t, s.Acquire(t.Context(), "c"))
		fourth := make(chan error, 1)
		go func() { fourth <- s.Acquire(t.Context(), "d") }()
		synctest.Wait()
		s.Release("b")
		require.NoError(t, <-fourth, "who may be admitted is, though another waits for longer")
		s.Release("a")
		require.NoError(t, <-third)
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
		require.NoError(t, s.Acquire(t.Context(), "c"), "nobody waits before it")
		s.Release("c")
		require.Empty(t, s.keys)
		require.Empty(t, s.turn)
		require.Equal(t, 1, s.free)
	})
}

// TestSemaphoreBounds holds the limits against many that come, go and give up.
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
	require.Empty(t, s.turn)
	require.Equal(t, n, s.free)
}

func TestQueue(t *testing.T) {
	q := NewQueue[int](8, 1000)
	require.Empty(t, q.Take(10))
	for i := range 4 {
		require.True(t, q.Push("a", i, 1))
	}
	require.False(t, q.Push("a", 4, 1), "as many as there is room left")
	require.True(t, q.Push("b", 10, 1))
	require.True(t, q.Push("b", 11, 100))
	require.True(t, q.Push("c", 20, 1))
	require.True(t, q.Push("d", 30, 1))
	require.False(t, q.Push("e", 40, 1), "full")
	require.Equal(t, 8, q.Len())
	<-q.Ready()
	require.Equal(t, []int{0, 10, 20, 30, 1}, q.Take(5))
	<-q.Ready()
	require.Equal(t, []int{11}, q.Take(1), "one, however heavy")
	require.True(t, q.Push("b", 12, 1))
	<-q.Ready()
	require.Equal(t, []int{2, 12, 3}, q.Take(100))
	require.Zero(t, q.Len())
	require.Zero(t, q.total)
	require.Empty(t, q.keys)
	require.Empty(t, q.Ready())
}

// TestQueueRemove: what is taken back leaves room, and the others in their order.
func TestQueueRemove(t *testing.T) {
	q := NewQueue[string](6, 100)
	for _, item := range []string{"a1", "a2", "a3", "b1", "c1"} {
		require.True(t, q.Push(item[:1], item, 20))
	}
	require.False(t, q.Push("d", "d1", 20))
	require.False(t, q.Remove("a", "b1"), "another key's")
	require.False(t, q.Remove("e", "e1"))
	require.True(t, q.Remove("a", "a2"))
	require.False(t, q.Remove("a", "a2"), "once")
	require.True(t, q.Remove("b", "b1"))
	require.Equal(t, 3, q.Len())
	require.True(t, q.Push("d", "d1", 20))
	require.True(t, q.Remove("c", "c1"))
	require.Equal(t, []string{"a1", "d1"}, q.Take(40))
	require.False(t, q.Remove("a", "a1"), "it was taken")
	require.True(t, q.Remove("a", "a3"))
	require.Zero(t, q.total)
	require.Empty(t, q.keys)
	require.Empty(t, q.turn)
	require.Len(t, q.Ready(), 1, "who waits for the queue to be empty hears of it")
	require.Empty(t, q.Take(1))
	require.Empty(t, q.Ready())
}

func TestQueueWeights(t *testing.T) {
	q := NewQueue[string](100, 100)
	require.True(t, q.Push("a", "huge", 1000), "an empty queue takes any")
	require.False(t, q.Push("b", "b", 1))
	require.Equal(t, []string{"huge"}, q.Take(1))
	require.True(t, q.Push("a", "a1", 30))
	require.True(t, q.Push("a", "a2", 30))
	require.False(t, q.Push("a", "a3", 1), "a has more than is left")
	require.False(t, q.Push("b", "b1", 41), "too heavy for what is left")
	require.True(t, q.Push("b", "b2", 40))
	require.False(t, q.Push("c", "c", 1), "full")
	require.Equal(t, []string{"a1", "b2", "a2"}, q.Take(100))
	require.Zero(t, q.total)
}
