// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"sync"
	"time"

	"assay"
)

// rates limits the bytes per second that each organization sends. The size of a request is known only after
// decompression. So a request is admitted unless earlier ones have overdrawn the organization's bucket. It is safe
// for concurrent use.
type rates struct {
	perSecond float64 // bytes
	burst     float64 // bytes

	mu      sync.Mutex
	buckets map[string]*bucket // by organization; one for each that has sent
}

// bucket is the token bucket of an organization. left is its level at a time.
type bucket struct {
	left float64 // negative: overdrawn
	at   time.Time
}

func newRates(perSecond, burst int64) *rates {
	return &rates{perSecond: float64(perSecond), burst: float64(burst), buckets: make(map[string]*bucket)}
}

// admit returns an error with assay.CodeRateLimited and the time to wait while the organization's bucket is
// overdrawn.
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
	return assay.WithRetryAfter(assay.Errorf(assay.CodeRateLimited, "organization exceeds its telemetry rate limit"), wait)
}

// spend charges the uncompressed size of an admitted request.
func (r *rates) spend(organizationID string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buckets[organizationID].left -= float64(bytes)
}
