// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"container/heap"
	"sync"
	"time"
)

// maxLimited is the maximum number of buckets of a RateLimiter.
const maxLimited = 10_000

// RateLimiter holds one token bucket for each key. A bucket begins with a number of tokens and
// is refilled evenly over a minute. It may be used concurrently.
//
// It holds a bounded number of buckets and evicts the fullest one: its key starts again with
// a full bucket, so it gains the fewest tokens. A caller that invents keys therefore cannot
// evict a bucket with fewer tokens than its own.
type RateLimiter[K comparable] struct {
	interval time.Duration // in which one token is added
	window   time.Duration // in which an empty bucket is refilled
	capacity int

	mu      sync.Mutex
	buckets map[K]*bucket[K]
	fullest bucketHeap[K]
}

// bucket is a token bucket. Its only state is the time at which it will be full, which is
// also the order of eviction. A rate.Limiter of golang.org/x/time would duplicate it.
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

// Take takes a token from the bucket of a key and returns 0. If the bucket is empty, Take
// returns the time until the next token.
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

// Wait returns the time until the bucket of a key has a token, 0 if it has one.
func (l *RateLimiter[K]) Wait(key K, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait, _ := l.look(l.buckets[key], now)
	return wait
}

// look returns the time until a bucket has a token, and the time until it is full.
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
