// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"assay"
)

const (
	fetchTimeout    = 5 * time.Second  // for the discovery document and the keys
	refreshInterval = 10 * time.Minute // a key that is withdrawn is accepted no longer than that
	askInterval     = 10 * time.Second // between fetches that tokens ask for
	minBackoff      = time.Second      // between fetches that fail
	maxBackoff      = 10 * time.Second

	maxWaiting   = 256     // tokens that wait for a fetch at a time
	maxDocument  = 1 << 20 // bytes of what the provider answers
	maxRedirects = 3
	maxKeys      = 64

	minRSABits = 2048 // Source: RFC 7518, section 3.3
)

// keySet holds the public keys of a provider and keeps them up to date: one fetch at a
// time, by run alone. It may be used concurrently.
//
// It is not the RemoteKeySet of go-oidc, because that fetches for each token with an
// unknown key id, however many there are, and at no other time, so that a key that was
// withdrawn goes on working.
type keySet struct {
	issuer string
	client *http.Client
	now    func() time.Time
	logger *slog.Logger
	wake   chan struct{} // tells run that somebody asks for a fetch

	mu        sync.Mutex
	keys      []jose.JSONWebKey // of the last fetch that succeeded
	endpoints Endpoints         // the same
	loaded    bool              // there was one
	pending   chan struct{}     // closed after the fetch that is under way or asked for; nil: none is
	asked     time.Time         // when a fetch was last asked for
	waiting   int
}

// Endpoints are where a provider signs people in. Source: OpenID Connect Discovery
// 1.0, section 3.
type Endpoints struct {
	Authorization string // "": the provider does not say
	Token         string
	// SecretInBody tells that the client's secret goes into the body of a token request,
	// because the provider does not take it as HTTP Basic authentication.
	SecretInBody bool
}

func newKeySet(issuer string, client *http.Client, now func() time.Time, logger *slog.Logger) *keySet {
	return &keySet{
		issuer: issuer, client: client, now: now, logger: logger,
		wake:    make(chan struct{}, 1),
		pending: make(chan struct{}), // run begins with a fetch
	}
}

// find returns the keys with an id, all of them for "". loaded is false as long as
// nothing is known about any key.
func (s *keySet) find(id string) (keys []jose.JSONWebKey, loaded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" {
		return s.keys, s.loaded
	}
	for _, k := range s.keys {
		if k.KeyID == id {
			keys = append(keys, k)
		}
	}
	return keys, s.loaded
}

// renew waits for the fetch that is under way, or asks for one unless that was done
// in the last ten seconds. It returns CodeUnavailable when it cannot wait for the end.
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
			level := slog.LevelDebug // the rest of a row of failures
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
	case <-s.wake: // this is the fetch that was asked for
	default:
	}
}

// end keeps what a fetch brought. After one that failed the old keys stay.
func (s *keySet) end(keys []jose.JSONWebKey, endpoints Endpoints, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keys, s.endpoints, s.loaded = keys, endpoints, true
	}
	close(s.pending)
	s.pending = nil
}

// whereabouts returns the endpoints. It waits for the first fetch.
func (s *keySet) whereabouts(ctx context.Context) (Endpoints, error) {
	for asked := false; ; asked = true {
		s.mu.Lock()
		endpoints, loaded := s.endpoints, s.loaded
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

// fetch asks the provider where its keys are, and for them.
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
	if err := s.get(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, endpoints, fmt.Errorf("discovery: %w", err)
	}
	if discovery.Issuer != s.issuer {
		return nil, endpoints, fmt.Errorf("discovery: the document is of the issuer %.200q", discovery.Issuer)
	}
	if err := s.checkURL(discovery.JWKSURI); err != nil {
		return nil, endpoints, fmt.Errorf("discovery: jwks_uri: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.get(ctx, discovery.JWKSURI, &set); err != nil {
		return nil, endpoints, fmt.Errorf("keys: %w", err)
	}
	if set.Keys == nil {
		return nil, endpoints, errors.New("keys: the document has no array of keys")
	}
	keys := usableKeys(set.Keys)
	if len(keys) == 0 {
		s.logger.WarnContext(ctx, "the identity provider has no key that can be used, so all its tokens are refused", "issuer", s.issuer)
	}
	// Tokens can be checked without them: only signing in cannot.
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
		return errors.New("not the URL of a web page")
	case u.User != nil:
		return errors.New("has a user")
	case u.Scheme == "http" && strings.HasPrefix(s.issuer, "https:"):
		return errors.New("is without TLS, and the issuer is not")
	}
	return nil
}

// get reads a JSON document.
func (s *keySet) get(ctx context.Context, address string, document any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := s.client.Do(req)
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

// usableKeys returns the keys that can check signatures. A key that is of another
// kind, malformed or too weak does not keep the others from being used.
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

// parseKey reads a key; ok is false for one that is not usable.
func parseKey(raw []byte) (k jose.JSONWebKey, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return k, false
	}
	var operations []string
	if o, has := members["key_ops"]; has && (json.Unmarshal(o, &operations) != nil || !slices.Contains(operations, "verify")) {
		return k, false
	}
	// Certificates say nothing here that the key does not, and one that is odd would
	// have the library refuse the key.
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
	switch key := k.Key.(type) { // a private key is not usable: it is not secret any more
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// newClient returns a client for a document every few minutes: it keeps no
// connection open.
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
