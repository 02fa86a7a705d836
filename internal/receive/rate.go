// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"sync"
	"time"

	"assay"
)

// rates limits what each organization sends to a number of bytes a second. How much
// a request is shows when it has been unpacked, so a request is admitted unless
// earlier ones spent more than there was, which has to be made up for first. It may
// be used concurrently.
type rates struct {
	perSecond float64 // bytes
	burst     float64 // bytes

	mu      sync.Mutex
	buckets map[string]*bucket // as many as there are organizations that sent
}

// bucket is what an organization may send: left bytes at a time, refilled since.
type bucket struct {
	left float64 // below 0: in debt
	at   time.Time
}

func newRates(perSecond, burst int64) *rates {
	return &rates{perSecond: float64(perSecond), burst: float64(burst), buckets: make(map[string]*bucket)}
}

// admit returns an error with assay.CodeRateLimited, and with how long to wait, while
// an organization is in debt.
func (r *rates) admit(organizationID string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[organizationID]
	if b == nil {
		b = &bucket{left: r.burst, at: now}
		r.buckets[organizationID] = b
	}
	if since := now.Sub(b.at); since > 0 {
		b.left = min(b.left+since.Seconds()*r.perSecond, r.burst)
	}
	b.at = now
	if b.left >= 0 {
		return nil
	}
	wait := time.Duration(-b.left / r.perSecond * float64(time.Second))
	return &rateError{assay.Errorf(assay.CodeRateLimited, "the organization sends more telemetry than it may"), wait}
}

// spend takes what an admitted request turned out to be.
func (r *rates) spend(organizationID string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buckets[organizationID].left -= float64(bytes)
}

// rateError is an *assay.Error that says how long to wait.
type rateError struct {
	err  error
	wait time.Duration
}

func (e *rateError) Error() string { return e.err.Error() }
func (e *rateError) Unwrap() error { return e.err }

// RetryAfter returns when to try again.
func (e *rateError) RetryAfter() time.Duration { return e.wait }
