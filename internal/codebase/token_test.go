// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// show sends a request with header fields Authorization.
func (w *world) show(fields ...string) *reply {
	r := httptest.NewRequest("GET", "/findings", nil)
	r.Header["Authorization"] = fields
	return w.serve(r)
}

func TestTokens(t *testing.T) {
	w := newWorld(t, Config{})
	good := w.signer.sign(t, w.claims(w.acme, credentialUser))
	require.Equal(t, 200, w.show("Bearer "+good).status)
	require.Equal(t, 200, w.show("bearer "+good).status)

	with := func(name string, value any) string {
		claims := w.claims(w.acme, credentialUser)
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
		return w.signer.sign(t, claims)
	}
	signedBy := func(algorithm jose.SignatureAlgorithm, key any, id string) string {
		return signWith(t, jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, w.claims(w.acme, credentialUser))
	}
	published := w.signer.keys[0].Public().Key.(ed25519.PublicKey)
	_, stranger, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), nil)
	require.NoError(t, err)
	payload, err := json.Marshal(w.claims("another", credentialUser))
	require.NoError(t, err)
	b64 := base64.RawURLEncoding.EncodeToString
	now := w.clock.Now()
	parts := strings.Split(good, ".")

	for name, token := range map[string]string{
		"wrong audience":    with("aud", "another"),
		"no audience":       with("aud", nil),
		"wrong issuer":      with("iss", "https://other.example.com"),
		"no issuer":         with("iss", nil),
		"expired":           with("exp", now.Add(-leeway-time.Second).Unix()),
		"no expiry":         with("exp", nil),
		"not yet":           with("nbf", now.Add(leeway+time.Second).Unix()),
		"no nbf":            with("nbf", nil),
		"from the future":   with("iat", now.Add(leeway+time.Second).Unix()),
		"no iat":            with("iat", nil),
		"exp is a text":     with("exp", "tomorrow"),
		"no subject":        with("sub", nil),
		"no organization":   with("org_id", nil),
		"empty org":         with("org_id", ""),
		"long org":          with("org_id", strings.Repeat("a", maxID+1)),
		"org is a number":   with("org_id", 1),
		"no credential":     with("credential", nil),
		"odd credential":    with("credential", "root"),
		"alg none":          b64([]byte(`{"alg":"none","kid":"key-1"}`)) + "." + b64(payload) + ".",
		"HS256":             signedBy(jose.HS256, []byte(published), "key-1"),
		"ES256":             signedBy(jose.ES256, curve, "key-1"),
		"unknown key":       signedBy(jose.EdDSA, stranger, "key-9"),
		"no key id":         signedBy(jose.EdDSA, stranger, ""),
		"another's key":     signedBy(jose.EdDSA, stranger, "key-1"),
		"changed claims":    parts[0] + "." + b64(payload) + "." + parts[2],
		"no signature":      parts[0] + "." + parts[1] + ".",
		"not a token":       "assay_sk_ABCDEF_0123456789abcdef0123456789abcdef",
		"too long":          strings.Repeat("a", maxToken+1),
		"nothing":           "",
		"with key in it":    embedded(t, stranger, w.claims(w.acme, credentialUser)),
		"two tokens in one": good + " " + good,
	} {
		a := w.show("Bearer " + token)
		require.Equal(t, http.StatusUnauthorized, a.status, name)
		require.Equal(t, "INVALID_TOKEN", a.Error.Code, name)
		require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"), name)
	}
	for _, fields := range [][]string{nil, {""}, {good}, {"Basic " + good}, {"Bearer"}, {"Bearer " + good, "Bearer " + good}} {
		a := w.show(fields...)
		require.Equal(t, http.StatusUnauthorized, a.status)
		require.Equal(t, "MISSING_CREDENTIALS", a.Error.Code)
	}
	r := httptest.NewRequest("GET", "/nowhere", nil)
	require.Equal(t, http.StatusUnauthorized, w.serve(r).status, "before anything else")
	require.Contains(t, w.log.String(), `level=DEBUG msg="agent rejected a token"`)
	require.NotContains(t, w.log.String(), "level=INFO", "anyone can send such requests")
	for _, part := range append(parts, "somebody") {
		require.NotContains(t, w.log.String(), part, "the log shows a part of a token")
	}
}

// embedded returns a token that brings the key along that it is signed with.
func embedded(t *testing.T, key ed25519.PrivateKey, claims map[string]any) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, &jose.SignerOptions{EmbedJWK: true})
	require.NoError(t, err)
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := s.Sign(payload)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}

func TestUnconfiguredAcceptsNothing(t *testing.T) {
	w := newWorld(t, Config{})
	w.handler, _ = New(Config{JWKSURL: w.signer.URL, Keys: KeyTransport(nil), Now: w.clock.Now})
	claims := w.claims(w.acme, credentialUser)
	claims["iss"] = ""
	require.Equal(t, http.StatusUnauthorized, w.show("Bearer "+w.signer.sign(t, claims)).status, "no issuer is no issuer")
}

// TestRotation sees that a new key is taken up at its first token, and that tokens of
// unknown keys do not send the agent to assay more than once a second.
func TestRotation(t *testing.T) {
	w := newWorld(t, Config{})
	ask := func() int { return w.show("Bearer " + w.signer.sign(t, w.claims(w.acme, credentialUser))).status }
	lasting := w.claims(w.acme, credentialUser)
	lasting["exp"] = w.clock.Now().Add(time.Hour).Unix()
	old := w.signer.sign(t, lasting)
	for range 3 {
		require.Equal(t, 200, ask())
	}
	require.EqualValues(t, 1, w.signer.gets.Load(), "keys are kept")

	w.signer.add(t, "key-2")
	require.Equal(t, 401, ask(), "less than a second after the last fetch")
	w.clock.move(time.Second)
	require.Equal(t, 200, ask())
	require.Equal(t, 200, w.show("Bearer "+old).status, "the old key is still published")
	require.EqualValues(t, 2, w.signer.gets.Load())

	_, stranger, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	guess := signWith(t, jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: stranger, KeyID: "guess"}}, w.claims(w.acme, credentialUser))
	w.clock.move(time.Second)
	for range 20 {
		require.Equal(t, 401, w.show("Bearer "+guess).status)
	}
	require.EqualValues(t, 3, w.signer.gets.Load())

	w.signer.mu.Lock()
	w.signer.keys = w.signer.keys[1:]
	w.signer.mu.Unlock()
	require.Equal(t, 200, w.show("Bearer "+old).status, "what is known is fresh")
	w.clock.move(keysFresh)
	require.Equal(t, 401, w.show("Bearer "+old).status, "the old key is withdrawn")
	require.Equal(t, 200, ask())
}

// TestKeysAway sees what happens while assay does not answer.
func TestKeysAway(t *testing.T) {
	w := newWorld(t, Config{})
	ask := func() *reply { return w.show("Bearer " + w.signer.sign(t, w.claims(w.acme, credentialUser))) }
	broken := func(status int, body string) {
		w.signer.mu.Lock()
		defer w.signer.mu.Unlock()
		w.signer.status, w.signer.body = status, body
	}
	for name, b := range map[string]struct {
		status int
		body   string
	}{
		"error":     {500, "oops"},
		"redirect":  {302, ""},
		"not JSON":  {200, "<html>"},
		"no keys":   {200, "{}"},
		"too large": {200, `{"keys":[],"x":"` + strings.Repeat("a", 1<<20) + `"}`},
	} {
		w.clock.move(time.Minute)
		broken(b.status, b.body)
		a := ask()
		require.Equal(t, http.StatusServiceUnavailable, a.status, name)
		require.Equal(t, "1", a.header.Get("Retry-After"), name)
	}
	w.clock.move(time.Minute)
	broken(200, "")
	require.Equal(t, 200, ask().status)
	broken(500, "oops")
	w.clock.move(time.Hour)
	require.Equal(t, 200, ask().status, "what is known stays")
	gets := w.signer.gets.Load()
	require.Equal(t, 200, ask().status)
	require.Equal(t, gets, w.signer.gets.Load(), "at most once a second")
}

// TestKeysHang: while assay does not answer, tokens with a known key wait for one fetch, and then for none.
func TestKeysHang(t *testing.T) {
	w := newWorld(t, Config{})
	keys := newKeySet(w.signer.URL, KeyTransport(nil), w.clock.Now, slog.New(slog.DiscardHandler))
	_, err := keys.find(t.Context(), "key-1")
	require.NoError(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	fetch := func(status int) error {
		w.signer.mu.Lock()
		w.signer.status = status
		w.signer.mu.Unlock()
		w.clock.move(keysFresh)
		defer w.clock.move(keysFresh)
		return keys.refresh(t.Context())
	}
	hang := func() error {
		w.signer.mu.Lock()
		_, err := keys.find(gone, "key-1")
		w.signer.mu.Unlock()
		<-keys.fetches.DoChan("", func() (any, error) { return nil, nil }) // after the one in progress
		return err
	}
	require.Error(t, fetch(http.StatusInternalServerError))
	require.NoError(t, hang())
	require.NoError(t, fetch(http.StatusOK))
	require.Error(t, hang(), "the first fetch after one that succeeded may withdraw the key")
}

func TestUnusableKeysAreLeftOut(t *testing.T) {
	w := newWorld(t, Config{})
	good, err := w.signer.keys[0].Public().MarshalJSON()
	require.NoError(t, err)
	private, err := w.signer.keys[0].MarshalJSON()
	require.NoError(t, err)
	change := func(old, new string) string { return strings.Replace(string(good), old, new, 1) }
	w.signer.status, w.signer.body = 200, `{"keys":[null,1,{"kty":"odd","kid":"a"},`+strings.Join([]string{
		change(`"key-1"`, `""`), change(`"sig"`, `"enc"`), change(`"EdDSA"`, `"HS256"`),
		strings.Replace(string(private), "key-1", "private", 1),
		`{"kty":"oct","kid":"secret","k":"AAAA"}`, change("key-1", "key-2"),
	}, ",")+`]}`
	keys := newKeySet(w.signer.URL, KeyTransport(nil), w.clock.Now, slog.New(slog.DiscardHandler))
	require.NoError(t, keys.refresh(t.Context()))
	require.Len(t, keys.keys, 1)
	require.Contains(t, keys.keys, "key-2")
}

// TestOneFetchForMany sees that requests that arrive together share a fetch.
func TestOneFetchForMany(t *testing.T) {
	w := newWorld(t, Config{})
	token := w.signer.sign(t, w.claims(w.acme, credentialUser))
	var many sync.WaitGroup
	for range 20 {
		many.Go(func() { require.Equal(t, 200, w.show("Bearer "+token).status) })
	}
	many.Wait()
	require.EqualValues(t, 1, w.signer.gets.Load())
}

func FuzzToken(f *testing.F) {
	w := newWorld(f, Config{})
	token := w.signer.sign(f, w.claims(w.acme, credentialUser))
	f.Add("Bearer " + token)
	f.Add("Bearer " + token[:len(token)-4])
	f.Add("Bearer a.b.c")
	f.Add("")
	f.Fuzz(func(t *testing.T, field string) {
		w := w.in(t)
		_, shown, _ := strings.Cut(field, " ")
		if w.show(field).status == 200 && shown != token {
			t.Fatal("a token that nobody signed is accepted")
		}
	})
}

func FuzzRequest(f *testing.F) {
	w := newWorld(f, Config{})
	c := w.as(w.acme, credentialUser)
	id := c.activate("https://example.com/acme/shop")
	f.Add("PATCH", "/repositories/"+id, "", `{"is_active":true}`)
	f.Add("GET", "/executions", "limit=1&executionType=review", "")
	f.Add("POST", "/codebase/fix/execute", "a=1;b", `{"finding_ids":["x"]}`)
	f.Add("POST", "/onboarding/repos", "", `{"repository_ids":[]}`)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		w := w.in(t)
		r := httptest.NewRequest("GET", "/", strings.NewReader(body))
		r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
		r.Header.Set("Authorization", "Bearer "+w.signer.sign(t, w.claims(w.acme, credentialUser)))
		if a := w.serve(r); a.status >= 500 {
			t.Fatalf("%d for %s %q?%q", a.status, method, path, query)
		}
	})
}
