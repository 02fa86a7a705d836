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
)

// TestNeighboursLie has a metrics store, an identity provider, a model and an agent
// backend hang and lie under load. Whoever needs one of them is told so in time; ingest
// and what only the store is needed for do not notice.
func TestNeighboursLie(t *testing.T) {
	parallel(t)
	metrics := newNeighbour(t, answer(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	model := newNeighbour(t, answer(`{"id":"1","object":"chat.completion","created":1,"model":"stub","choices":[{"index":0,"finish_reason":"stop",`+
		`"message":{"role":"assistant","content":"## Why it matters\n\nTraces break.\n\n## What it costs here\n\nSpans.\n\n## Next step\n\nFix it.\n"}}]}`))
	backend := newNeighbour(t, answer(`{"executions":[]}`))
	provider := newIssuer(t)
	fleet := FleetConfig{Args: []string{
		"--metrics-store", metrics.URL,
		"--summary-provider", "openai", "--summary-url", model.URL + "/v1", "--summary-model", "stub", "--summary-api-key", "of-the-model", "--summary-timeout", "1s",
		"--agent-backend-url", backend.URL, "--agent-timeout", "1s",
		"--oidc-issuer", provider.URL, "--oidc-audience", audience,
	}}
	all := []*neighbour{metrics, model, backend, provider.neighbour}
	l := loads.get(t, in(8, 60), false)
	run(t, plan{load: l.load, every: in(400*time.Millisecond, time.Second), idle: "1s", fleet: fleet, breaks: func(s *scenario) {
		_, err := s.fleet.command(s.ctx, "organization", "set-external-id", DefaultOrganization, externalID)
		require.NoError(s, err)
		asks := s.asks(provider)
		honest := func() {
			for _, a := range asks[:len(asks)-1] {
				require.NoError(s, await(s.ctx, settleLimit, often, func() error { return a.expect(http.StatusOK) }))
			}
		}
		honest()
		before := s.resources()

		for _, n := range all {
			n.lies.Store(true)
		}
		s.Fault("lies", "the neighbours lie")
		var clients sync.WaitGroup
		for _, a := range asks {
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
					s.check((&ask{s, same(path), bootstrapKey, nil}).expect(http.StatusOK))
				}
			}
		})
		clients.Wait()
		s.check(s.fleet.Ready(s.ctx, 0))
		for _, n := range all {
			n.lies.Store(false)
		}
		ended := time.Now()
		s.Event("the neighbours are honest again, after %d, %d, %d and %d lies", metrics.asked.Load(), model.asked.Load(), backend.asked.Load(), provider.asked.Load())
		s.ready(0, ended)
		honest()
		s.Event("whoever needs them is served again")
		s.notGrown(before)
		if causes := s.ledger.Causes(); len(causes) != 0 {
			s.Fail("senders noticed: %v", causes)
		}
	}}, l.reference)
}

// ask is a request that a neighbour is needed for.
type ask struct {
	*scenario
	path  func() string
	key   string
	while []int // the statuses allowed while neighbours lie
}

// expect returns an error unless the answer comes in time and has one of the statuses.
func (a *ask) expect(statuses ...int) error {
	r, err := a.fleet.reader(0)
	if err != nil {
		return err
	}
	path := a.path()
	status, body, err := r.ask(a.ctx, a.key, path)
	if err == nil && !slices.Contains(statuses, status) {
		err = fmt.Errorf("GET %s: %d: %s", path, status, body)
	}
	return err
}

// asks returns a request for each neighbour. The last one has a token of a key that
// nobody has published.
func (s *scenario) asks(provider *issuer) []*ask {
	var insights []Insight
	require.NoError(s, await(s.ctx, settleLimit, often, func() error {
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
	summary := func() string { // of an insight that has none yet, most of the time
		return "/v1/insights/" + insights[next.Add(1)%uint64(len(insights))].ID + "/summary"
	}
	return []*ask{
		{s, same("/v1/analytics/log-volume?period=1h"), bootstrapKey, []int{http.StatusBadGateway}},
		{s, summary, bootstrapKey, []int{http.StatusOK, http.StatusServiceUnavailable}},
		// What is JSON, or nothing, is the backend's answer, and so is that it is busy.
		{s, same("/v1/agent/executions"), bootstrapKey, []int{http.StatusOK, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}},
		// The token's key is known, unless the provider says that it has another one.
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

// issuer is an identity provider as far as assay sees one.
type issuer struct {
	*neighbour
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
	i.neighbour = newNeighbour(t, mux,
		func(w http.ResponseWriter, r *http.Request) { // other keys by the name of the one in use
			if r.URL.Path == "/keys" {
				writeJSON(w, keySet(other, "known"))
				return
			}
			mux.ServeHTTP(w, r)
		},
		func(w http.ResponseWriter, r *http.Request) { // keys without a name, and the discovery document of another
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
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}

// token returns a token that a key with a name has signed.
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
