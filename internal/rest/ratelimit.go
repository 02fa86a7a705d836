// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"container/list"
	"sync"
	"time"

	"assay"
)

// maxBuckets bounds the memory of a limiter. Past it the bucket that was used
// least recently is forgotten, which gives its credential a full one.
const maxBuckets = 10_000

// limiter holds one token bucket per credential: it begins with perMinute tokens
// and is refilled evenly over a minute. It may be used concurrently.
type limiter struct {
	interval time.Duration // in which one token comes back
	window   time.Duration // in which a whole bucket does

	mu      sync.Mutex
	order   *list.List // of *bucket, most recently used first
	buckets map[string]*list.Element
}

// bucket is kept as the time at which it will be full again, which needs no
// fractions of tokens.
type bucket struct {
	credential string
	full       time.Time
}

// bucketOf names the bucket of a caller. A user whose subject looks like a key's
// has another one than the key.
func bucketOf(who *assay.Principal) string {
	kind := "key"
	if who.User {
		kind = "user"
	}
	return who.OrganizationID + " " + kind + " " + who.Subject
}

func newLimiter(perMinute int) *limiter {
	interval := time.Minute / time.Duration(perMinute)
	return &limiter{
		interval: interval, window: interval * time.Duration(perMinute),
		order: list.New(), buckets: map[string]*list.Element{},
	}
}

// take takes a token from a credential's bucket. It returns 0, or how long it
// takes until there is one.
func (l *limiter) take(credential string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(credential, now)
	missing := min(max(b.full.Sub(now), 0), l.window) // the bounds are for a clock that jumps
	if wait := missing + l.interval - l.window; wait > 0 {
		return wait
	}
	b.full = now.Add(missing + l.interval)
	return 0
}

func (l *limiter) bucket(credential string, now time.Time) *bucket {
	if el, ok := l.buckets[credential]; ok {
		l.order.MoveToFront(el)
		return el.Value.(*bucket)
	}
	if l.order.Len() >= maxBuckets {
		oldest := l.order.Remove(l.order.Back()).(*bucket)
		delete(l.buckets, oldest.credential)
	}
	b := &bucket{credential: credential, full: now}
	l.buckets[credential] = l.order.PushFront(b)
	return b
}

// retryError is an error that goes away after a while.
type retryError struct {
	error
	after time.Duration
}

func (e *retryError) Unwrap() error { return e.error }

// RetryAfter returns when to try again.
func (e *retryError) RetryAfter() time.Duration { return e.after }

func rateLimited(after time.Duration) error {
	return &retryError{assay.Errorf(assay.CodeRateLimited, "too many requests with this credential"), after}
}
