// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
)

// TestDependenciesMisbehave has a metrics store, an identity provider, a model and an agent backend hang or
// answer incorrectly under load. Requests that need one of them fail in time. Ingest, and requests that only
// need the store, are not affected.
func TestDependenciesMisbehave(t *testing.T) {
	parallel(t)
	metrics := newDependency(t, answer(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	model := newDependency(t, answer(`{"id":"1","object":"chat.completion","created":1,"model":"stub","choices":[{"index":0,"finish_reason":"stop",`+
		`"message":{"role":"assistant","content":"## Why it matters\n\nTraces break.\n\n## What it costs here\n\nSpans.\n\n## Next step\n\nFix it.\n"}}]}`))
	backend := newDependency(t, answer(`{"executions":[]}`))
	provider := newIssuer(t)
	fleet := FleetConfig{Args: []string{
		"--metrics-store", metrics.URL,
		"--summary-provider", "openai", "--summary-url", model.URL + "/v1", "--summary-model", "stub", "--summary-api-key", "of-the-model", "--summary-timeout", "1s",
		"--agent-backend-url", backend.URL, "--agent-timeout", "1s",
		"--oidc-issuer", provider.URL, "--oidc-audience", audience,
	}}
	all := []*dependency{metrics, model, backend, provider.dependency}
	l := loads.get(t, in(8, 60), false)
	run(t, plan{load: l.load, every: in(400*time.Millisecond, time.Second), idle: "1s", fleet: fleet, breaks: func(s *scenario) {
		_, err := s.fleet.command(s.ctx, "organization", "set-external-id", DefaultOrganization, externalID)
		require.NoError(s, err)
		dependentRequests := s.dependentRequests(provider)
		healthy := func() {
			for _, a := range dependentRequests[:len(dependentRequests)-1] {
				require.NoError(s, assaytest.Await(s.ctx, assaytest.Limit, assaytest.PollInterval, func() error { return a.expect(http.StatusOK) }))
			}
		}
		healthy()
		before := s.resources()

		for _, n := range all {
			n.misbehaving.Store(true)
		}
		s.Fault("misbehaving", "the dependencies misbehave")
		var clients sync.WaitGroup
		for _, a := range dependentRequests {
			for range 4 {
				clients.Go(func() {
					for range in(5, 60) {
						s.check(a.expect(a.while...))
					}
				})
			}
		}
		clients.Go(func() {
			for range in(20, 500) {
				for _, path := range []string{"/v1/services", "/v1/insights", "/v1/organization", "/v1/analytics/services"} {
					s.check((&dependentRequest{s, same(path), bootstrapKey, nil}).expect(http.StatusOK))
				}
			}
		})
		clients.Wait()
		s.check(s.fleet.Ready(s.ctx, 0))
		for _, n := range all {
			n.misbehaving.Store(false)
		}
		ended := time.Now()
		s.Event("the dependencies recovered after %d, %d, %d and %d bad responses", metrics.badRequests.Load(), model.badRequests.Load(), backend.badRequests.Load(), provider.badRequests.Load())
		s.ready(0, ended)
		healthy()
		s.Event("requests that need the dependencies succeed")
		s.notGrown(before)
		if causes := s.ledger.Causes(); *long && len(causes) != 0 { // on a busy machine senders time out as well
			s.Fail("senders retried: %v", causes)
		}
	}}, l.reference)
}

// dependentRequest is a request that needs a dependency.
type dependentRequest struct {
	*scenario
	path  func() string
	key   string
	while []int // statuses allowed while the dependencies misbehave
}

// expect sends the request and returns an error unless the response has one of the statuses.
func (a *dependentRequest) expect(statuses ...int) error {
	r, err := a.fleet.reader(0)
	if err != nil {
		return err
	}
	path := a.path()
	got, err := assaytest.Do(a.ctx, r.Client, http.MethodGet, r.REST+path, a.key, nil)
	if err == nil && !slices.Contains(statuses, got.Status) {
		err = fmt.Errorf("GET %s: %d: %s", path, got.Status, got.Body)
	}
	return err
}

// dependentRequests returns a request for each dependency. The last one has a token that is signed with an unpublished
// key.
func (s *scenario) dependentRequests(provider *issuer) []*dependentRequest {
	var insights []Insight
	require.NoError(s, assaytest.Await(s.ctx, assaytest.Limit, assaytest.PollInterval, func() error {
		r, err := s.fleet.reader(0)
		if err != nil {
			return err
		}
		insights, err = r.insights(s.ctx, DefaultOrganization, bootstrapKey)
		if err == nil && len(insights) < 10 {
			err = errors.New("there are too few insights")
		}
		return err
	}))
	var next atomic.Uint64
	summary := func() string { // usually of an insight without a cached summary
		return "/v1/insights/" + insights[next.Add(1)%uint64(len(insights))].ID + "/summary"
	}
	return []*dependentRequest{
		{s, same("/v1/analytics/log-volume?period=1h"), bootstrapKey, []int{http.StatusBadGateway}},
		{s, summary, bootstrapKey, []int{http.StatusOK, http.StatusServiceUnavailable}},
		// JSON, an empty body and 429 of the backend are passed through.
		{s, same("/v1/agent/executions"), bootstrapKey, []int{http.StatusOK, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}},
		// The token is valid unless the provider publishes another key.
		{s, same("/v1/services"), provider.token(s.T, provider.key, "known"), []int{http.StatusOK, http.StatusUnauthorized, http.StatusServiceUnavailable}},
		{s, same("/v1/services"), provider.token(s.T, newKey(s.T), "unknown"), []int{http.StatusUnauthorized, http.StatusServiceUnavailable}},
	}
}

func same(path string) func() string { return func() string { return path } }

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

const (
	audience   = "assay-faults"
	externalID = "org-1"
)

// issuer is a minimal identity provider.
type issuer struct {
	*dependency
	key *ecdsa.PrivateKey
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t)}
	other := newKey(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, keySet(i.key, "known")) })
	i.dependency = newDependency(t, mux,
		func(w http.ResponseWriter, r *http.Request) { // other keys with the id of the current one
			if r.URL.Path == "/keys" {
				writeJSON(w, keySet(other, "known"))
				return
			}
			mux.ServeHTTP(w, r)
		},
		func(w http.ResponseWriter, r *http.Request) { // keys without an id, and the discovery document of another issuer
			if r.URL.Path == "/keys" {
				writeJSON(w, keySet(other, ""))
				return
			}
			writeJSON(w, map[string]any{"issuer": "https://elsewhere.example.com", "jwks_uri": i.URL + "/keys"})
		})
	return i
}

func keySet(key *ecdsa.PrivateKey, id string) jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"}}}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}

// token returns a token signed with key, whose header names keyID.
func (i *issuer) token(t *testing.T, key *ecdsa.PrivateKey, keyID string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}, new(jose.SignerOptions).WithType("JWT"))
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": i.URL, "aud": audience, "sub": "user", "org_id": externalID, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}).Serialize()
	require.NoError(t, err)
	return token
}
