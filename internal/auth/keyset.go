// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"assay"
)

const (
	fetchTimeout    = 5 * time.Second  // for the discovery document and the keys
	refreshInterval = 10 * time.Minute // limits how long a withdrawn key is accepted
	askInterval     = 10 * time.Second // between fetches that tokens cause
	minBackoff      = time.Second      // between failed fetches
	maxBackoff      = 10 * time.Second

	maxWaiting   = 256     // tokens that wait for a fetch concurrently
	maxDocument  = 1 << 20 // bytes of a response of the provider
	maxRedirects = 3
	maxKeys      = 64

	minRSABits = 2048 // Source: RFC 7518, section 3.3
)

// keySet holds the public keys of a provider and keeps them up to date. Only run fetches them, one fetch at a time. It
// is safe for concurrent use.
//
// go-oidc's RemoteKeySet is not used: it fetches for each token with an unknown key id, without a limit, and never
// otherwise, so it would accept a withdrawn key indefinitely.
type keySet struct {
	issuer string
	client *http.Client
	now    func() time.Time
	logger *slog.Logger
	wake   chan struct{} // requests a fetch from run

	mu        sync.Mutex
	keys      []jose.JSONWebKey // of the last successful fetch
	endpoints Endpoints         // likewise
	fetches   int               // that have succeeded
	changed   int               // the first fetch of these keys
	verified  *verifiedTokens   // that these keys signed
	pending   chan struct{}     // closed after the fetch that is in progress or requested; nil: there is none
	asked     time.Time         // when a fetch was last requested
	waiting   int
}

// Endpoints holds the sign-in endpoints of a provider.
// Source: OpenID Connect Discovery 1.0, section 3.
type Endpoints struct {
	Authorization string // "": the provider has none
	Token         string
	// SecretInBody reports that the client secret is sent in the body of a token request, because the provider does
	// not support HTTP Basic authentication.
	SecretInBody bool
}

func newKeySet(issuer string, client *http.Client, now func() time.Time, logger *slog.Logger) *keySet {
	return &keySet{
		issuer: issuer, client: client, now: now, logger: logger,
		wake:     make(chan struct{}, 1),
		pending:  make(chan struct{}), // run starts with a fetch
		verified: newVerifiedTokens(),
	}
}

// hasVerified reports whether one of the keys signed a token of an organization, as far as it is remembered.
func (s *keySet) hasVerified(organization string, hash [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verified.has(organization, hash)
}

// remember records that a key of a fetch signed a token of an organization.
func (s *keySet) remember(organization string, hash [sha256.Size]byte, fetch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fetch >= s.changed {
		s.verified.add(organization, hash)
	}
}

// find returns the keys with an id, or all keys if id is "", and the number of the fetch that they are from, 0 before
// the first one.
func (s *keySet) find(id string) (keys []jose.JSONWebKey, fetch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" {
		return s.keys, s.fetches
	}
	for _, k := range s.keys {
		if k.KeyID == id {
			keys = append(keys, k)
		}
	}
	return keys, s.fetches
}

// renew waits for the fetch in progress. If there is none, renew requests one, unless the last request was within ten
// seconds. It returns CodeUnavailable if it cannot wait for the result.
func (s *keySet) renew(ctx context.Context) error {
	s.mu.Lock()
	if s.pending == nil {
		if age := s.now().Sub(s.asked); age >= 0 && age < askInterval {
			s.mu.Unlock()
			return nil
		}
		s.asked = s.now()
		s.pending = make(chan struct{})
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	if s.waiting >= maxWaiting {
		s.mu.Unlock()
		return errProviderSlow(nil)
	}
	s.waiting++
	pending := s.pending
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	select {
	case <-pending:
		return nil
	case <-ctx.Done():
		return errProviderSlow(ctx.Err())
	}
}

func errProviderSlow(err error) error {
	return &assay.Error{Code: assay.CodeUnavailable, Message: "the identity provider does not answer", Err: err}
}

// run fetches the keys until ctx ends.
func (s *keySet) run(ctx context.Context) {
	var pause time.Duration // 0: the last fetch succeeded
	for {
		s.begin()
		keys, endpoints, err := s.fetch(ctx)
		s.end(keys, endpoints, err)
		if ctx.Err() != nil {
			return
		}
		next := refreshInterval
		switch {
		case err != nil:
			level := slog.LevelDebug // level for repeated failures
			if pause == 0 {
				level = slog.LevelWarn
			}
			s.logger.Log(ctx, level, "the identity provider's keys could not be fetched; trying again", "issuer", s.issuer, "error", err)
			pause = min(max(2*pause, minBackoff), maxBackoff)
			next = pause
		case pause != 0:
			s.logger.InfoContext(ctx, "the identity provider's keys can be fetched again", "issuer", s.issuer)
			pause = 0
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.wake:
		}
		timer.Stop()
	}
}

func (s *keySet) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = make(chan struct{})
	}
	select {
	case <-s.wake: // this fetch serves the request
	default:
	}
}

// end records the result of a fetch. After a failed fetch the old keys remain.
func (s *keySet) end(keys []jose.JSONWebKey, endpoints Endpoints, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.fetches++
		if !reflect.DeepEqual(keys, s.keys) {
			s.changed, s.verified = s.fetches, newVerifiedTokens()
		}
		s.keys, s.endpoints = keys, endpoints
	}
	close(s.pending)
	s.pending = nil
}

// awaitEndpoints returns the endpoints. It waits for the first fetch.
func (s *keySet) awaitEndpoints(ctx context.Context) (Endpoints, error) {
	for asked := false; ; asked = true {
		s.mu.Lock()
		endpoints, loaded := s.endpoints, s.fetches > 0
		s.mu.Unlock()
		if loaded {
			return endpoints, nil
		}
		if asked {
			return Endpoints{}, errProviderSlow(nil)
		}
		if err := s.renew(ctx); err != nil {
			return Endpoints{}, err
		}
	}
}

// fetch fetches the discovery document and the keys.
// Source: OpenID Connect Discovery 1.0, section 4.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, Endpoints, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var discovery struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		Authorization string   `json:"authorization_endpoint"`
		Token         string   `json:"token_endpoint"`
		Methods       []string `json:"token_endpoint_auth_methods_supported"`
	}
	var endpoints Endpoints
	if err := get(ctx, s.client, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, endpoints, fmt.Errorf("discovery: %w", err)
	}
	if discovery.Issuer != s.issuer {
		return nil, endpoints, fmt.Errorf("discovery: the document names the issuer %.200q", discovery.Issuer)
	}
	if err := s.checkURL(discovery.JWKSURI); err != nil {
		return nil, endpoints, fmt.Errorf("discovery: jwks_uri: %w", err)
	}
	keys, err := FetchKeys(ctx, s.client, discovery.JWKSURI)
	if err != nil {
		return nil, endpoints, fmt.Errorf("keys: %w", err)
	}
	if len(keys) == 0 {
		s.logger.WarnContext(ctx, "the identity provider has no key that can be used, so all its tokens are refused", "issuer", s.issuer)
	}
	// Without the endpoints, only sign-in is unavailable. Tokens can still be verified.
	if s.checkURL(discovery.Authorization) == nil && s.checkURL(discovery.Token) == nil {
		endpoints = Endpoints{
			Authorization: discovery.Authorization, Token: discovery.Token,
			SecretInBody: slices.Contains(discovery.Methods, "client_secret_post") && !slices.Contains(discovery.Methods, "client_secret_basic"),
		}
	}
	return keys, endpoints, nil
}

func (s *keySet) checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return errors.New("not an http or https URL")
	case u.User != nil:
		return errors.New("contains a user name")
	case u.Scheme == "http" && strings.HasPrefix(s.issuer, "https:"):
		return errors.New("uses http, but the issuer uses https")
	}
	return nil
}

// FetchKeys returns the keys of a JWK set that can verify signatures.
func FetchKeys(ctx context.Context, client *http.Client, address string) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := get(ctx, client, address, &set); err != nil {
		return nil, err
	}
	if set.Keys == nil {
		return nil, errors.New("the document has no array \"keys\"")
	}
	return usableKeys(set.Keys), nil
}

// get reads a JSON document.
func get(ctx context.Context, client *http.Client, address string, document any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", address, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", address, err)
	}
	if len(body) > maxDocument {
		return fmt.Errorf("%s answered with more than %d bytes", address, maxDocument)
	}
	if err := json.Unmarshal(body, document); err != nil {
		return fmt.Errorf("decode %s: %w", address, err)
	}
	return nil
}

// usableKeys returns the keys that can verify signatures. It skips keys that have another type, are malformed or are
// too weak.
// Source: RFC 7517, section 5.
func usableKeys(all []json.RawMessage) []jose.JSONWebKey {
	var keys []jose.JSONWebKey
	for _, raw := range all {
		if k, ok := parseKey(raw); ok && len(keys) < maxKeys {
			keys = append(keys, k)
		}
	}
	return keys
}

// parseKey parses a key. ok is false if the key is not usable.
func parseKey(raw []byte) (k jose.JSONWebKey, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return k, false
	}
	var operations []string
	if o, has := members["key_ops"]; has && (json.Unmarshal(o, &operations) != nil || !slices.Contains(operations, "verify")) {
		return k, false
	}
	// Certificates add nothing to the key, and the library refuses a key with a malformed one.
	for _, name := range []string{"x5c", "x5t", "x5t#S256", "x5u"} {
		delete(members, name)
	}
	raw, err := json.Marshal(members)
	if err != nil || k.UnmarshalJSON(raw) != nil {
		return k, false
	}
	return k, isUsable(&k)
}

func isUsable(k *jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" {
		return false
	}
	switch key := k.Key.(type) { // a private key is refused: it was published
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// newClient returns a client that keeps no idle connections, because the documents are fetched only every few minutes.
func newClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
				return errors.New("redirected to an address without TLS")
			}
			return nil
		},
	}
}
