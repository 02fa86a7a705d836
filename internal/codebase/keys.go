// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"assay"
)

const (
	keysFresh    = 5 * time.Minute // limits how long a withdrawn key is accepted while assay is reachable
	askInterval  = time.Second     // between fetches
	fetchTimeout = 5 * time.Second
	maxKeySet    = 64 << 10 // bytes
	maxKeys      = 64
)

// keySet caches the public keys that assay publishes. It fetches them when a token has an unknown key id and when they
// are stale: one fetch at a time, at most one a second. If assay is unavailable, the old keys remain. It is safe for
// concurrent use.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time
	logger *slog.Logger

	mu       sync.Mutex
	keys     map[string]ed25519.PublicKey // by key id; nil: they have never been fetched
	fetched  time.Time                    // when the last fetch that succeeded began
	asked    time.Time                    // when the last fetch began
	fetching chan struct{}                // closed after the fetch in progress; nil: there is none
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

// find returns the key with an id. It waits for assay only if the key is unknown or the keys are stale.
func (s *keySet) find(ctx context.Context, id string) (ed25519.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for waited := false; ; waited = true {
		key, known := s.keys[id]
		age := s.now().Sub(s.fetched)
		fresh := known && age >= 0 && age < keysFresh
		recent := s.now().Sub(s.asked)
		switch {
		case fresh || known && waited:
			return key, nil
		case s.fetching == nil && (waited || recent >= 0 && recent < askInterval):
			switch {
			case known:
				return key, nil
			case s.keys == nil:
				return nil, errNoKeys()
			}
			return nil, errToken("it is signed with a key that is not published")
		case s.fetching == nil:
			s.asked, s.fetching = s.now(), make(chan struct{})
			s.mu.Unlock()
			// Other requests may wait for the fetch, so it must not end with this one.
			s.refresh(context.WithoutCancel(ctx))
			s.mu.Lock()
		default:
			fetching := s.fetching
			s.mu.Unlock()
			select {
			case <-fetching:
			case <-ctx.Done():
			}
			s.mu.Lock()
			if ctx.Err() != nil {
				return nil, errNoKeys()
			}
		}
	}
}

// refresh fetches and stores the keys.
func (s *keySet) refresh(ctx context.Context) {
	keys, err := s.fetch(ctx)
	if err != nil {
		s.logger.WarnContext(ctx, "failed to fetch the keys of tokens", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keys, s.fetched = keys, s.asked
	}
	close(s.fetching)
	s.fetching = nil
}

func (s *keySet) fetch(ctx context.Context) (map[string]ed25519.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", s.url, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.url, err)
	}
	if len(body) > maxKeySet {
		return nil, fmt.Errorf("%s answered with more than %d bytes", s.url, maxKeySet)
	}
	return parseKeys(body)
}

// parseKeys returns the Ed25519 keys of a JWK set by id. It skips other keys.
// Source: RFC 7517, section 5.
func parseKeys(text []byte) (map[string]ed25519.PublicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("decode the keys: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New("the document has no array \"keys\"")
	}
	keys := make(map[string]ed25519.PublicKey)
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || k.KeyID == "" || k.Use != "" && k.Use != "sig" || k.Algorithm != "" && k.Algorithm != string(jose.EdDSA) {
			continue
		}
		if public, ok := k.Key.(ed25519.PublicKey); ok && len(keys) < maxKeys {
			keys[k.KeyID] = public
		}
	}
	return keys, nil
}

func errNoKeys() error {
	return assay.Errorf(assay.CodeUnavailable, "the keys of tokens cannot be fetched")
}
