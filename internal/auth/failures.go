// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"assay"
)

// maxClients bounds the memory of failures. Past it the client that failed least
// recently is forgotten.
const maxClients = 10_000

// failures holds one bucket of failed authentications per client: it begins with
// perMinute, and they come back evenly over a minute. It may be used concurrently.
type failures[K comparable] struct {
	interval time.Duration // in which one failure comes back
	window   time.Duration // in which a whole bucket does

	mu   sync.Mutex
	full *cache[K, time.Time] // when the bucket of a client will be full again
}

func newFailures[K comparable](perMinute int) *failures[K] {
	interval := max(1, time.Minute/time.Duration(perMinute))
	return &failures[K]{
		interval: interval, window: interval * time.Duration(perMinute),
		full: newCache[K, time.Time](maxClients),
	}
}

// wait returns how long it takes until the client may fail again, 0 for now.
func (f *failures[K]) wait(client K, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait, _ := f.look(client, now)
	return wait
}

// add counts a failure. It returns 0, or how long it takes until the client may fail
// again: the failure is one too many then.
func (f *failures[K]) add(client K, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait, missing := f.look(client, now)
	if wait == 0 {
		full := now.Add(missing + f.interval)
		f.full.put(client, &full)
	}
	return wait
}

// look returns how long the client has to wait for its next failure, and how long
// its bucket takes to be full.
func (f *failures[K]) look(client K, now time.Time) (wait, missing time.Duration) {
	if full := f.full.get(client); full != nil {
		missing = min(max(full.Sub(now), 0), f.window) // the bounds are for a clock that jumps
	}
	return max(missing+f.interval-f.window, 0), missing
}

// addressOf returns whose failures are counted together: an IPv4 address, or the
// /64 that one IPv6 client has to itself. Everything that is not an IP address, such as
// a socket in the file system, shares the zero Prefix.
func addressOf(remoteAddr string) netip.Prefix {
	a, err := netip.ParseAddrPort(remoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := a.Addr().Unmap().WithZone(""), 64
	if address.Is4() {
		bits = 32
	}
	prefix, _ := address.Prefix(bits) // fails for a number of bits that no address has
	return prefix
}

// limitError is a refusal that ends after a while.
type limitError struct {
	error
	after time.Duration
}

func (e *limitError) Unwrap() error { return e.error }

// RetryAfter returns when to try again.
func (e *limitError) RetryAfter() time.Duration { return e.after }

func errTooManyFailures(after time.Duration) error {
	return &limitError{assay.Errorf(assay.CodeRateLimited, "too many failed authentications from this address"), after}
}

// FailureLimiter limits what costs more than a look at a key and cannot be told good
// from bad before it is done. It counts failures for each address, but those of a client
// that is known by a name for that name, so that strangers at the address of a proxy
// refuse no client behind it that is known. It shares no count with an Authenticator. It
// may be used concurrently and remembers some thousands of clients.
type FailureLimiter struct {
	now       func() time.Time
	addresses *failures[netip.Prefix]
	known     *failures[string]
}

// NewFailureLimiter returns a limiter that lets perMinute failures of a client happen at
// once; they come back evenly over a minute.
func NewFailureLimiter(perMinute int, now func() time.Time) *FailureLimiter {
	return &FailureLimiter{now, newFailures[netip.Prefix](perMinute), newFailures[string](perMinute)}
}

// Refuse returns CodeRateLimited, with a method RetryAfter() time.Duration, for a client
// that has failed too often, else nil. remoteAddr is host and port; known is the name of
// a client that has one, else "".
func (l *FailureLimiter) Refuse(remoteAddr, known string) error {
	wait := l.addresses.wait(addressOf(remoteAddr), l.now())
	if known != "" {
		wait = l.known.wait(known, l.now())
	}
	if wait > 0 {
		return errTooManyFailures(wait)
	}
	return nil
}

// Failed counts a failure of a client, named as for Refuse.
func (l *FailureLimiter) Failed(remoteAddr, known string) {
	if known != "" {
		l.known.add(known, l.now())
		return
	}
	l.addresses.add(addressOf(remoteAddr), l.now())
}

// keyIndex knows the ids of all keys. It answers for addresses that have failed too
// often, so that their guesses do not become queries, one each, and a key of theirs
// that exists is looked up all the same.
type keyIndex struct {
	keys    assay.APIKeyStore
	now     func() time.Time
	reading singleflight.Group

	mu   sync.Mutex
	ids  map[string]struct{}
	asOf time.Time // when the reading of ids began
}

// has tells whether there is such a key, as of the last three seconds.
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

// fresh returns the ids, nil when they are too old.
func (x *keyIndex) fresh() map[string]struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if age := x.now().Sub(x.asOf); age < 0 || age >= cacheTTL {
		return nil
	}
	return x.ids
}

// read reads the ids for all who wait for them, so it has a time limit of its own.
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
