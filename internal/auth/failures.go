// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"assay"
	"assay/internal/fair"
)

func errTooManyFailures(after time.Duration) error {
	return assay.WithRetryAfter(assay.Errorf(assay.CodeRateLimited, "too many failed authentications from this address"), after)
}

// FailureLimiter limits failed operations that are expensive and whose validity is unknown until they are done. It
// counts failures by address. Failures of a known client are counted by its name instead, so that unknown clients
// behind the same proxy cannot cause its refusal. It does not share counts with an Authenticator. It is safe for
// concurrent use and remembers a few thousand clients.
type FailureLimiter struct {
	now       func() time.Time
	addresses *fair.RateLimiter[netip.Prefix]
	known     *fair.RateLimiter[string]
}

// NewFailureLimiter returns a limiter that allows perMinute failures of a client at once. They are replenished evenly
// over a minute.
func NewFailureLimiter(perMinute int, now func() time.Time) *FailureLimiter {
	return &FailureLimiter{now, fair.NewRateLimiter[netip.Prefix](perMinute), fair.NewRateLimiter[string](perMinute)}
}

// Refuse returns CodeRateLimited, with a method RetryAfter() time.Duration, for a client that has failed too often,
// else nil. remoteAddr is host and port. known is the name of a known client, else "".
func (l *FailureLimiter) Refuse(remoteAddr, known string) error {
	wait := l.addresses.Wait(fair.AddressOf(remoteAddr), l.now())
	if known != "" {
		wait = l.known.Wait(known, l.now())
	}
	if wait > 0 {
		return errTooManyFailures(wait)
	}
	return nil
}

// Failed counts a failure of a client. It has the parameters of Refuse.
func (l *FailureLimiter) Failed(remoteAddr, known string) {
	if known != "" {
		l.known.Take(known, l.now())
		return
	}
	l.addresses.Take(fair.AddressOf(remoteAddr), l.now())
}

// keyIndex caches the live keys of all organizations, for lookups that would otherwise cause too many queries. It is
// safe for concurrent use.
type keyIndex struct {
	keys    assay.APIKeyStore
	now     func() time.Time
	reading singleflight.Group

	mu     sync.Mutex
	cached *liveKeys // nil: not read yet
}

// liveKeys are the live keys by id. They are not changed.
type liveKeys struct {
	byID map[string]*assay.APIKey
	asOf time.Time // when they began to be read
}

// read returns the live keys as of at most three seconds ago, and that time. All requests that wait for them share one
// query, which has a timeout of its own.
func (x *keyIndex) read(ctx context.Context) (map[string]*assay.APIKey, time.Time, error) {
	if k := x.fresh(); k != nil {
		return k.byID, k.asOf, nil
	}
	select {
	case r := <-x.reading.DoChan("", x.query):
		if r.Err != nil {
			return nil, time.Time{}, r.Err
		}
		k := r.Val.(*liveKeys)
		return k.byID, k.asOf, nil
	case <-ctx.Done():
		return nil, time.Time{}, context.Cause(ctx)
	}
}

// fresh returns the cached keys, or nil if they have expired.
func (x *keyIndex) fresh() *liveKeys {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cached == nil {
		return nil
	}
	if age := x.now().Sub(x.cached.asOf); age < 0 || age >= cacheTTL {
		return nil
	}
	return x.cached
}

func (x *keyIndex) query() (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	k := &liveKeys{byID: make(map[string]*assay.APIKey), asOf: x.now()}
	keys, err := x.keys.FindLiveAPIKeys(ctx, k.asOf)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		k.byID[key.ID] = key
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cached = k
	return k, nil
}
