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

// AddressOf returns the prefix by which clients are counted: an IPv4 address, or the /64 of an IPv6 address, because
// one client usually has a whole /64. All addresses that are not IP addresses, such as Unix sockets, share the zero
// Prefix.
func AddressOf(remoteAddr string) netip.Prefix {
	a, err := netip.ParseAddrPort(remoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := a.Addr().Unmap().WithZone(""), 64
	if address.Is4() {
		bits = 32
	}
	prefix, _ := address.Prefix(bits) // fails only for an invalid number of bits
	return prefix
}

// limitError is a CodeRateLimited error with a delay.
type limitError struct {
	error
	after time.Duration
}

func (e *limitError) Unwrap() error { return e.error }

// RetryAfter returns the delay before the next attempt.
func (e *limitError) RetryAfter() time.Duration { return e.after }

func errTooManyFailures(after time.Duration) error {
	return &limitError{assay.Errorf(assay.CodeRateLimited, "too many failed authentications from this address"), after}
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
	wait := l.addresses.Wait(AddressOf(remoteAddr), l.now())
	if known != "" {
		wait = l.known.Wait(known, l.now())
	}
	if wait > 0 {
		return errTooManyFailures(wait)
	}
	return nil
}

// Failed counts a failure of a client. The parameters are those of Refuse.
func (l *FailureLimiter) Failed(remoteAddr, known string) {
	if known != "" {
		l.known.Take(known, l.now())
		return
	}
	l.addresses.Take(AddressOf(remoteAddr), l.now())
}

// keyIndex caches the ids of all keys. It serves addresses that have failed too often, so that their guesses do not
// cause a query each. Ids that exist are still looked up.
type keyIndex struct {
	keys    assay.APIKeyStore
	now     func() time.Time
	reading singleflight.Group

	mu   sync.Mutex
	ids  map[string]struct{}
	asOf time.Time // when the ids began to be read
}

// has reports whether a key with the id existed within the last three seconds.
func (x *keyIndex) has(ctx context.Context, id string) (bool, error) {
	if ids := x.fresh(); ids != nil {
		_, ok := ids[id]
		return ok, nil
	}
	select {
	case r := <-x.reading.DoChan("", x.read):
		if r.Err != nil {
			return false, r.Err
		}
		_, ok := r.Val.(map[string]struct{})[id]
		return ok, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// fresh returns the ids, or nil if they have expired.
func (x *keyIndex) fresh() map[string]struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if age := x.now().Sub(x.asOf); age < 0 || age >= cacheTTL {
		return nil
	}
	return x.ids
}

// read reads the ids for all requests that wait for them. It therefore has its own timeout.
func (x *keyIndex) read() (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), indexTimeout)
	defer cancel()
	start := x.now()
	keys, err := x.keys.FindAPIKeys(ctx, "")
	if err != nil {
		return nil, err
	}
	ids := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		ids[k.ID] = struct{}{}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids, x.asOf = ids, start
	return ids, nil
}
