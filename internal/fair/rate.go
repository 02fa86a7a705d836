// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"container/heap"
	"sync"
	"time"
)

// maxLimited is how many keys a RateLimiter remembers.
const maxLimited = 10_000

// RateLimiter holds one token bucket for each key. A bucket begins with a number of tokens and
// is refilled evenly over a minute. It may be used concurrently.
//
// It remembers a bounded number of keys. Beyond it, the fullest bucket is forgotten, which
// differs least from the full one that its key begins with again. A caller that makes up keys
// therefore evicts none that has used up more tokens than each of them.
type RateLimiter[K comparable] struct {
	interval time.Duration // in which one token comes back
	window   time.Duration // in which a whole bucket does
	capacity int

	mu      sync.Mutex
	buckets map[K]*bucket[K]
	fullest bucketHeap[K]
}

// bucket is a token bucket. The time at which it will be full is all of its state, and the
// order of eviction; a rate.Limiter of x/time would hold the same a second time.
type bucket[K comparable] struct {
	key   K
	full  time.Time
	index int // in the heap
}

// NewRateLimiter returns a RateLimiter whose buckets hold perMinute tokens, at least one.
func NewRateLimiter[K comparable](perMinute int) *RateLimiter[K] {
	interval := max(1, time.Minute/time.Duration(max(1, perMinute)))
	return &RateLimiter[K]{
		interval: interval, window: interval * time.Duration(max(1, perMinute)), capacity: maxLimited, buckets: make(map[K]*bucket[K]),
	}
}

// Take takes a token from the bucket of a key. It returns 0, or without taking anything how
// long it will be until there is a token.
func (l *RateLimiter[K]) Take(key K, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	wait, missing := l.look(b, now)
	if wait > 0 {
		return wait
	}
	if b == nil {
		if len(l.buckets) >= l.capacity {
			delete(l.buckets, heap.Pop(&l.fullest).(*bucket[K]).key)
		}
		b = &bucket[K]{key: key}
		l.buckets[key] = b
		heap.Push(&l.fullest, b)
	}
	b.full = now.Add(missing + l.interval)
	heap.Fix(&l.fullest, b.index)
	return 0
}

// Wait returns how long it will be until the bucket of a key has a token, 0 if it has one.
func (l *RateLimiter[K]) Wait(key K, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait, _ := l.look(l.buckets[key], now)
	return wait
}

// look returns how long it will be until a bucket has a token, and until it is full.
func (l *RateLimiter[K]) look(b *bucket[K], now time.Time) (wait, missing time.Duration) {
	if b != nil {
		missing = min(max(b.full.Sub(now), 0), l.window) // the bounds are for a clock that jumps
	}
	return max(missing+l.interval-l.window, 0), missing
}

// bucketHeap is a heap.Interface whose first bucket is the fullest.
type bucketHeap[K comparable] []*bucket[K]

func (h bucketHeap[K]) Len() int           { return len(h) }
func (h bucketHeap[K]) Less(i, j int) bool { return h[i].full.Before(h[j].full) }

func (h bucketHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *bucketHeap[K]) Push(b any) {
	b.(*bucket[K]).index = len(*h)
	*h = append(*h, b.(*bucket[K]))
}

func (h *bucketHeap[K]) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return b
}
