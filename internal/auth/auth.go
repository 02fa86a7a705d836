// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"assay"
	"assay/internal/fair"
)

const (
	// cacheTTL limits how long a replica accepts a key after its revocation. The documented limit is five seconds.
	cacheTTL = 3 * time.Second

	// Known and unknown ids have separate caches, so that guessed ids do not evict keys in use.
	maxFound   = 4096
	maxUnknown = 1024

	// lookupTimeout limits a lookup, which all requests for the same key share, and a reading of the index. A result is
	// therefore never older than cacheTTL when it is cached.
	lookupTimeout = cacheTTL
	// maxLookups limits the concurrent lookups. The organizations of the keys share it; ids without a recent use count
	// as one organization (see fair.Limiter). Further keys come from the index. Neither guessed ids nor the keys of one
	// organization therefore delay other requests.
	maxLookups = 4

	touchInterval = time.Minute
	touchQueue    = 256
	touchTimeout  = 2 * time.Second // for one write, and for all remaining ones on Close

	// maxHeader is the maximum length of an Authorization header, in bytes.
	maxHeader = 16 << 10
)

// TokenVerifier verifies tokens of an identity provider. Implementations must be safe for concurrent use.
type TokenVerifier interface {
	// VerifyToken returns CodeInvalidToken for an invalid token, CodeForbidden for a user without an organization, and
	// CodeUnavailable when it cannot verify the token.
	VerifyToken(ctx context.Context, token Secret) (*assay.Principal, error)
}

// Authenticator authenticates requests by their Authorization header. Its fields must be set before the first use. It
// is then safe for concurrent use. It caches a few thousand keys and addresses and, when many lookups are needed at a
// time, the live keys of all organizations.
type Authenticator struct {
	Keys   assay.APIKeyStore
	Prefix string        // of API keys, without "_sk_"
	Tokens TokenVerifier // nil: no identity provider is configured, and every token is refused
	Now    func() time.Time
	Logger *slog.Logger

	// FailureLimit is the number of failures that an address may have at once. They are replenished evenly over a
	// minute. Above the limit, failures are answered with CodeRateLimited. Valid credentials are never limited. 0
	// means no limit.
	FailureLimit int

	prepare  sync.Once
	failures *fair.RateLimiter[netip.Prefix] // nil: no limit
	index    *keyIndex
	lookups  singleflight.Group
	running  *fair.Limiter // lookups by organization

	mu      sync.Mutex
	found   *cache[string, entry] // by key id, like unknown
	unknown *cache[string, entry] // ids without a live key
	touches chan touch            // nil until the first one
	stop    func()                // cancels the writer
	done    chan struct{}         // closed when the writer has ended
	closed  bool
}

// entry is the result of a lookup.
type entry struct {
	key     *assay.APIKey // nil: there is no such live key
	asOf    time.Time     // when the lookup began
	touched time.Time     // newest last use that was passed to the writer
}

// touch is a last use that is to be written.
type touch struct {
	id string
	at time.Time
}

// Authenticate returns the principal of the Authorization header of a request. remoteAddr is the host and port of the
// client. Errors: CodeMissingCredentials for no header, another scheme, or an empty credential; CodeInvalidToken;
// CodeInvalidAPIKey; CodeRateLimited instead of these two for an address that has failed too often, with a method
// RetryAfter() time.Duration; CodeForbidden for a user without an organization; CodeUnavailable while the store is
// unavailable and the key is not cached, or while the identity provider's keys are unknown. No error contains any part
// of the header.
//
// A revoked or expired key is refused within three seconds. A goroutine writes last uses in the background, at most
// once a minute per key.
func (a *Authenticator) Authenticate(ctx context.Context, authorizationHeader, remoteAddr string) (*assay.Principal, error) {
	a.prepare.Do(a.init)
	p, err := a.identify(ctx, authorizationHeader, remoteAddr)
	if a.failures == nil {
		return p, err
	}
	switch assay.ErrorCode(err) {
	case assay.CodeInvalidAPIKey, assay.CodeInvalidToken:
		if wait := a.failures.Take(fair.AddressOf(remoteAddr), a.now()); wait > 0 {
			return nil, errTooManyFailures(wait)
		}
	}
	return p, err
}

// identify is Authenticate without the failure limit.
func (a *Authenticator) identify(ctx context.Context, authorizationHeader, remoteAddr string) (*assay.Principal, error) {
	credential, err := bearer(authorizationHeader)
	if err != nil {
		return nil, err
	}
	if strings.Count(string(credential), ".") == 2 {
		if a.Tokens == nil {
			return nil, assay.Errorf(assay.CodeInvalidToken, "tokens of an identity provider are not accepted here")
		}
		return a.Tokens.VerifyToken(ctx, credential)
	}
	id, ok := ParseKey(a.Prefix, credential)
	if !ok {
		return nil, errInvalidKey()
	}
	key, err := a.lookup(ctx, id, remoteAddr)
	if err != nil {
		return nil, &assay.Error{Code: assay.CodeUnavailable, Message: "API keys cannot be looked up at the moment", Err: err}
	}
	// An unknown id takes the same hash and comparison as a known one.
	var want [32]byte
	if key != nil {
		want = key.Hash
	}
	got := HashKey(credential)
	match := subtle.ConstantTimeCompare(got[:], want[:]) == 1
	now := a.now()
	if key == nil || !match || !key.Live(now) {
		return nil, errInvalidKey()
	}
	a.touch(key, now)
	return &assay.Principal{
		OrganizationID: key.OrganizationID,
		Subject:        "key:" + key.ID,
		Scopes:         slices.Clone(key.Scopes),
	}, nil
}

// bearer returns the credential of a header.
func bearer(header string) (Secret, error) {
	const space = " \t"
	if len(header) > maxHeader {
		return "", errInvalidKey()
	}
	header = strings.Trim(header, space)
	if header == "" {
		return "", assay.Errorf(assay.CodeMissingCredentials, "the Authorization header is missing")
	}
	i := strings.IndexAny(header, space)
	if i < 0 || !strings.EqualFold(header[:i], "Bearer") {
		return "", assay.Errorf(assay.CodeMissingCredentials, "the Authorization header must be: Bearer <API key>")
	}
	return Secret(strings.Trim(header[i:], space)), nil
}

// errInvalidKey returns the same error for every reason, so that it does not reveal which keys exist.
func errInvalidKey() error {
	return assay.Errorf(assay.CodeInvalidAPIKey, "the API key is not valid")
}

// errTooManyLookups reports that an organization has its share of lookups.
var errTooManyLookups = errors.New("too many lookups")

// lookup returns the stored key, or nil for an id without a live key.
func (a *Authenticator) lookup(ctx context.Context, id, remoteAddr string) (*assay.APIKey, error) {
	start := a.now()
	if e := a.cached(id, start); e != nil {
		return e.key, nil
	}
	if a.failures != nil && a.failures.Wait(fair.AddressOf(remoteAddr), start) > 0 {
		return a.indexed(ctx, id)
	}
	// Concurrent requests for a key share one lookup when its entry has expired.
	found := a.lookups.DoChan(id, func() (any, error) { return a.find(context.WithoutCancel(ctx), id) })
	select {
	case r := <-found:
		if errors.Is(r.Err, errTooManyLookups) {
			return a.indexed(ctx, id)
		}
		key, _ := r.Val.(*assay.APIKey)
		return key, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// find reads a key from the store, for all requests that share the lookup. It never waits for other lookups, because
// it continues after its requests have ended.
func (a *Authenticator) find(ctx context.Context, id string) (*assay.APIKey, error) {
	organization := a.organization(id)
	if !a.running.Acquire(organization, 1) {
		return nil, errTooManyLookups
	}
	defer a.running.Release(organization, 1)
	ctx, cancel := context.WithTimeout(assay.WithOrganization(ctx, organization), lookupTimeout)
	defer cancel()
	// The age of the entry counts from the start of the lookup, so that a slow store does not extend the use of a
	// revoked key.
	start := a.now()
	key, err := a.Keys.FindAPIKey(ctx, id)
	switch {
	case assay.ErrorCode(err) == assay.CodeNotFound:
		key = nil
	case err != nil:
		return nil, err
	case !key.Live(start):
		key = nil
	}
	a.remember(id, &entry{key: key, asOf: start})
	return key, nil
}

// indexed is lookup from the index.
func (a *Authenticator) indexed(ctx context.Context, id string) (*assay.APIKey, error) {
	keys, asOf, err := a.index.read(ctx)
	if err != nil {
		return nil, err
	}
	key := keys[id]
	a.remember(id, &entry{key: key, asOf: asOf})
	return key, nil
}

// cached returns the entry of an id if it is fresh, else nil.
func (a *Authenticator) cached(id string, now time.Time) *entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range []*cache[string, entry]{a.found, a.unknown} {
		if e := c.get(id); e != nil {
			if age := now.Sub(e.asOf); age >= 0 && age < cacheTTL {
				return e
			}
		}
	}
	return nil
}

// organization returns the organization of a key that was found lately, else assay.Anonymous.
func (a *Authenticator) organization(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.found.get(id); e != nil {
		return e.key.OrganizationID
	}
	return assay.Anonymous
}

// remember caches the result of a lookup, unless that of a later one is cached.
func (a *Authenticator) remember(id string, e *entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.found.get(id)
	for _, other := range []*entry{old, a.unknown.get(id)} {
		if other != nil && other.asOf.After(e.asOf) {
			return
		}
	}
	if e.key == nil {
		a.found.remove(id)
		a.unknown.put(id, e)
		return
	}
	if old != nil {
		e.touched = old.touched
	}
	a.unknown.remove(id)
	a.found.put(id, e)
}

// touch passes a last use to the writer if the previous one is a minute old. It never blocks: if the queue is full,
// the next request tries again.
func (a *Authenticator) touch(key *assay.APIKey, now time.Time) {
	if now.Sub(key.LastUsedAt) < touchInterval {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.found.get(key.ID)
	if a.closed || e == nil || (!e.touched.IsZero() && now.Sub(e.touched) < touchInterval) {
		return
	}
	if a.touches == nil {
		ctx, cancel := context.WithCancel(context.Background())
		a.touches, a.done, a.stop = make(chan touch, touchQueue), make(chan struct{}), cancel
		go a.write(ctx, a.touches, a.done)
	}
	select {
	case a.touches <- touch{key.ID, now}:
		e.touched = now
	default:
	}
}

// write writes last uses until the queue is closed.
func (a *Authenticator) write(ctx context.Context, touches <-chan touch, done chan<- struct{}) {
	defer close(done)
	for t := range touches {
		if ctx.Err() != nil {
			continue // the timeout of Close is over: drop the rest
		}
		one, cancel := context.WithTimeout(ctx, touchTimeout)
		if err := a.Keys.TouchAPIKey(one, t.id, t.at); err != nil && a.Logger != nil {
			a.Logger.Warn("the last use of an API key was not written", "key_id", t.id, "error", err)
		}
		cancel()
	}
}

// Close writes the remaining last uses, for at most two seconds, and stops the writer. It may be called several times.
// After Close, Authenticate still works but records no last uses.
func (a *Authenticator) Close() {
	a.mu.Lock()
	if !a.closed && a.touches != nil {
		close(a.touches)
	}
	a.closed = true
	done, stop := a.done, a.stop
	a.mu.Unlock()
	if done == nil {
		return
	}
	late := time.AfterFunc(touchTimeout, stop)
	<-done
	late.Stop()
	stop()
}

func (a *Authenticator) init() {
	a.found, a.unknown = newCache[string, entry](maxFound), newCache[string, entry](maxUnknown)
	a.index = &keyIndex{keys: a.Keys, now: a.now}
	a.running = fair.NewLimiter(maxLookups)
	if a.FailureLimit > 0 {
		a.failures = fair.NewRateLimiter[netip.Prefix](a.FailureLimit)
	}
}

func (a *Authenticator) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}
