// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"assay"
	"assay/internal/auth"
)

const (
	keysFresh    = 5 * time.Minute // limits how long a withdrawn key is accepted while assay is reachable
	askInterval  = time.Second     // between fetches
	fetchTimeout = 5 * time.Second
)

// keySet caches the public keys that assay publishes. It fetches them when a token has an unknown key id and when they
// are stale: one fetch at a time, at most one a second. If assay is unavailable, the old keys remain, and tokens with a
// known key do not wait for further fetches. It is safe for concurrent use.
type keySet struct {
	url     string
	client  *http.Client
	now     func() time.Time
	logger  *slog.Logger
	fetches singleflight.Group

	mu      sync.Mutex
	keys    map[string]ed25519.PublicKey // by key id; nil: they have never been fetched
	fetched time.Time                    // when the last fetch that succeeded began
	asked   time.Time                    // when the last fetch began
	failing bool                         // the last fetch failed
}

func newKeySet(url string, transport http.RoundTripper, now func() time.Time, logger *slog.Logger) *keySet {
	return &keySet{
		url: url, now: now, logger: logger,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// KeyTransport returns a transport for fetching the keys of another process. roots are the CAs for its certificate;
// nil: the system's.
func KeyTransport(roots *x509.CertPool) http.RoundTripper {
	return &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// find returns the key with an id. It waits for assay only if the key is unknown, or if the keys are stale and the last
// fetch succeeded.
func (s *keySet) find(ctx context.Context, id string) (ed25519.PublicKey, error) {
	key, err := s.cached(id)
	if err == nil {
		return key, nil
	}
	// Other requests may wait for the fetch, so it must not end with this one.
	fetch := s.fetches.DoChan("", func() (any, error) { return nil, s.refresh(context.WithoutCancel(ctx)) })
	if key != nil && s.isFailing() {
		return key, nil
	}
	select {
	case <-fetch:
	case <-ctx.Done():
		return nil, errNoKeys()
	}
	if key, err = s.cached(id); key != nil {
		return key, nil
	}
	return nil, err
}

func (s *keySet) isFailing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing
}

// cached returns the key with an id. It returns an error if the key is unknown, and with the key if the keys are stale.
func (s *keySet) cached(id string) (ed25519.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, known := s.keys[id]
	age := s.now().Sub(s.fetched)
	switch {
	case s.keys == nil || known && (age < 0 || age >= keysFresh):
		return key, errNoKeys()
	case !known:
		return nil, errToken("it is signed with a key that is not published")
	}
	return key, nil
}

// refresh fetches and stores the keys, unless it did less than a second ago.
func (s *keySet) refresh(ctx context.Context) error {
	now := s.now()
	s.mu.Lock()
	recent := now.Sub(s.asked)
	if recent < 0 || recent >= askInterval {
		s.asked = now
	}
	s.mu.Unlock()
	if recent >= 0 && recent < askInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	all, err := auth.FetchKeys(ctx, s.client, s.url)
	s.mu.Lock()
	s.failing = err != nil
	s.mu.Unlock()
	if err != nil {
		s.logger.WarnContext(ctx, "failed to fetch the keys of tokens", "error", err)
		return err
	}
	keys := make(map[string]ed25519.PublicKey)
	for _, k := range all {
		if key, ok := k.Key.(ed25519.PublicKey); ok && k.KeyID != "" && (k.Algorithm == "" || k.Algorithm == string(jose.EdDSA)) {
			keys[k.KeyID] = key
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.fetched = keys, now
	return nil
}

func errNoKeys() error {
	return assay.Errorf(assay.CodeUnavailable, "the keys of tokens cannot be fetched")
}
