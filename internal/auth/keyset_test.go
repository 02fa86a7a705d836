// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"assay"
)

// idp is an identity provider in memory: the transport of a client that cannot reach other hosts.
type idp struct {
	mu        sync.Mutex
	keys      map[string]crypto.Signer
	discovery string // response instead of the document
	set       string // response instead of the keys
	down      error  // error instead of a response
	hangs     bool   // no response until the client disconnects
	at        []time.Time
	fetches   int // of the keys
}

func (i *idp) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func (i *idp) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// attempts returns the times of the requests.
func (i *idp) attempts() []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.at)
}

// RoundTrip implements http.RoundTripper.
func (i *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	down, hangs, discovery, set := i.down, i.hangs, i.discovery, i.set
	switch r.URL.String() {
	case testIssuer + "/.well-known/openid-configuration":
		i.at = append(i.at, time.Now())
		if discovery == "" {
			discovery = fmt.Sprintf(`{"issuer":%q,"jwks_uri":"https://id.example.com/keys"}`, testIssuer)
		}
		set = discovery
	case "https://id.example.com/keys":
		i.fetches++
		if set == "" {
			all := []json.RawMessage{}
			for id, key := range i.keys {
				b, _ := (&jose.JSONWebKey{Key: key.Public(), KeyID: id}).MarshalJSON()
				all = append(all, b)
			}
			b, _ := json.Marshal(map[string]any{"keys": all})
			set = string(b)
		}
	default:
		down = fmt.Errorf("no server at %s", r.URL)
	}
	i.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if down != nil {
		return nil, down
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(set)), Request: r}, nil
}

// bubble runs f with a fake clock and a Provider that gets its keys from i.
func bubble(t *testing.T, i *idp, f func(t *testing.T, p *Provider)) {
	t.Helper()
	keys := testKeys() // outside of the bubble, where the clock is real
	if i.keys == nil {
		i.keys = map[string]crypto.Signer{"EdDSA": keys["EdDSA"]}
	}
	synctest.Test(t, func(t *testing.T) {
		p, err := NewProvider(ProviderConfig{
			Issuer: testIssuer, Audience: testAudience, Organizations: finder(organizations),
			Wrap: func(base http.RoundTripper) http.RoundTripper {
				require.IsType(t, new(http.Transport), base)
				return i
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx)
		}()
		f(t, p)
		cancel()
		<-done
	})
}

// tokenOf returns a good token of a key, named by its id.
func tokenOf(t testing.TB, key crypto.Signer, alg, id string) Secret {
	return Secret(sign(t, key, fmt.Sprintf(`{"alg":%q,"kid":%q}`, alg, id), claims(time.Now(), map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()})))
}

func verify(t testing.TB, p *Provider, token Secret) assay.Code {
	_, err := p.VerifyToken(t.Context(), token)
	return assay.ErrorCode(err)
}

func TestNewKeyIsFetched(t *testing.T) {
	i, keys := &idp{}, testKeys()
	bubble(t, i, func(t *testing.T, p *Provider) {
		require.Empty(t, verify(t, p, tokenOf(t, keys["EdDSA"], "EdDSA", "EdDSA")), "waits for the first fetch")
		require.Equal(t, 1, i.count())

		// The provider rotates its key.
		i.change(func() { i.keys = map[string]crypto.Signer{"EdDSA": keys["EdDSA"], "new": keys["ES256"]} })
		require.Empty(t, verify(t, p, tokenOf(t, keys["ES256"], "ES256", "new")))
		require.Equal(t, 2, i.count())

		// Tokens with unknown keys cause at most one fetch in ten seconds.
		began := time.Now()
		for n := range 100 {
			require.Equal(t, assay.CodeInvalidToken, verify(t, p, tokenOf(t, keys["EdDSA"], "EdDSA", fmt.Sprint(n))))
		}
		require.Zero(t, time.Since(began), "no request waits")
		require.Equal(t, 2, i.count())
		time.Sleep(askInterval - time.Nanosecond)
		require.Equal(t, assay.CodeInvalidToken, verify(t, p, tokenOf(t, keys["ES384"], "ES384", "x")))
		require.Equal(t, 2, i.count())
		time.Sleep(time.Nanosecond)
		for range 3 {
			require.Equal(t, assay.CodeInvalidToken, verify(t, p, tokenOf(t, keys["ES384"], "ES384", "x")))
			require.Equal(t, 3, i.count())
		}

		// A token without a key id may also be signed with a new key.
		time.Sleep(askInterval)
		i.change(func() { i.keys = map[string]crypto.Signer{"newest": keys["ES384"]} })
		require.Empty(t, verify(t, p, Secret(sign(t, keys["ES384"], `{"alg":"ES384"}`, claims(time.Now(), nil)))))
		require.Equal(t, 4, i.count())

		// A known key id with a wrong signature does not cause a fetch.
		time.Sleep(askInterval)
		require.Equal(t, assay.CodeInvalidToken, verify(t, p, tokenOf(t, keys["ES256"], "ES256", "newest")))
		require.Equal(t, 4, i.count())

		// A token of another issuer does not cause a fetch either.
		other := sign(t, keys["ES256"], header("ES256"), claims(time.Now(), map[string]any{"iss": "https://other.example.com"}))
		require.Equal(t, assay.CodeInvalidToken, verify(t, p, Secret(other)))
		require.Equal(t, 4, i.count())
	})
}

func TestWithdrawnKeyIsRejected(t *testing.T) {
	i, keys := &idp{}, testKeys()
	bubble(t, i, func(t *testing.T, p *Provider) {
		token := tokenOf(t, keys["EdDSA"], "EdDSA", "EdDSA")
		require.Empty(t, verify(t, p, token))
		i.change(func() { i.keys = map[string]crypto.Signer{} })
		time.Sleep(refreshInterval - time.Second)
		require.Empty(t, verify(t, p, token))
		time.Sleep(2 * time.Second)
		require.Equal(t, assay.CodeInvalidToken, verify(t, p, token))
	})
}

func TestProviderIsDown(t *testing.T) {
	i, keys := &idp{down: errors.New("connection refused")}, testKeys()
	bubble(t, i, func(t *testing.T, p *Provider) {
		token := tokenOf(t, keys["EdDSA"], "EdDSA", "EdDSA")
		for range 1000 {
			require.Equal(t, assay.CodeUnavailable, verify(t, p, token))
		}
		require.LessOrEqual(t, len(i.attempts()), 2, "at start, and for the first token")
		time.Sleep(time.Minute)
		at := i.attempts()
		require.Len(t, at, 9, "after 1, 2, 4, 8 s and then every 10 s, of which one may be for the token")
		require.Equal(t, maxBackoff, at[8].Sub(at[7]))
		require.Equal(t, assay.CodeUnavailable, verify(t, p, token))

		// The provider recovers.
		i.change(func() { i.down = nil })
		time.Sleep(maxBackoff)
		require.Empty(t, verify(t, p, token))

		// It fails again: known keys remain valid.
		i.change(func() { i.down = errors.New("connection refused") })
		time.Sleep(3 * refreshInterval)
		require.Empty(t, verify(t, p, token))
		require.Equal(t, assay.CodeInvalidToken, verify(t, p, tokenOf(t, keys["ES256"], "ES256", "new")))
		for _, garbage := range []string{`{"keys":`, `[]`, `{"keys":{}}`, `{}`, `<html>`, ``} {
			i.change(func() { i.down, i.set = nil, garbage+" " })
			time.Sleep(2 * maxBackoff)
			require.Empty(t, verify(t, p, token), garbage)
		}
	})
}

func TestProviderHangs(t *testing.T) {
	i, keys := &idp{hangs: true}, testKeys()
	bubble(t, i, func(t *testing.T, p *Provider) {
		token := tokenOf(t, keys["EdDSA"], "EdDSA", "EdDSA")
		began := time.Now()
		var answered, waited atomic.Int32
		var wg sync.WaitGroup
		for range 1500 {
			wg.Go(func() {
				if verify(t, p, token) != assay.CodeUnavailable {
					t.Error("cannot tell")
				}
				answered.Add(1)
				if time.Since(began) > 0 {
					waited.Add(1)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, 1500-maxWaiting, answered.Load(), "the others are answered at once")
		wg.Wait()
		require.EqualValues(t, maxWaiting, waited.Load())
		require.Equal(t, fetchTimeout, time.Since(began))

		// A request whose context ends does not wait for the fetch.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_, err := p.VerifyToken(ctx, token)
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
		require.LessOrEqual(t, time.Since(began), time.Second)
		p.keys.mu.Lock()
		require.Zero(t, p.keys.waiting)
		p.keys.mu.Unlock()

		// API keys do not notice.
		m := &memory{}
		key := m.add(t, nil)
		a := &Authenticator{Keys: m.store(), Prefix: "assay", Tokens: p}
		defer a.Close()
		began = time.Now()
		_, err = a.Authenticate(t.Context(), "Bearer "+string(key), "")
		require.NoError(t, err)
		require.Zero(t, time.Since(began))

		i.change(func() { i.hangs = false })
		time.Sleep(fetchTimeout + maxBackoff)
		require.Empty(t, verify(t, p, token))
	})
}

func TestWrongDiscovery(t *testing.T) {
	keys := testKeys()
	for name, discovery := range map[string]string{
		"other issuer":        `{"issuer":"https://id.example.com","jwks_uri":"https://id.example.com/keys"}`,
		"issuer with a slash": `{"issuer":"` + testIssuer + `/","jwks_uri":"https://id.example.com/keys"}`,
		"no keys":             `{"issuer":"` + testIssuer + `"}`,
		"keys without TLS":    `{"issuer":"` + testIssuer + `","jwks_uri":"http://id.example.com/keys"}`,
		"keys in a file":      `{"issuer":"` + testIssuer + `","jwks_uri":"file:///keys"}`,
		"keys with a user":    `{"issuer":"` + testIssuer + `","jwks_uri":"https://user:hunter2@id.example.com/keys"}`,
		"keys elsewhere":      `{"issuer":"` + testIssuer + `","jwks_uri":"https://id.example.com:x/keys"}`,
		"not JSON":            `<html>`,
		"too long":            `{"issuer":"` + testIssuer + `","jwks_uri":"https://id.example.com/keys","x":"` + strings.Repeat("x", maxDocument) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			i := &idp{discovery: discovery}
			bubble(t, i, func(t *testing.T, p *Provider) {
				require.Equal(t, assay.CodeUnavailable, verify(t, p, tokenOf(t, keys["EdDSA"], "EdDSA", "EdDSA")))
				require.Zero(t, i.count())
			})
		})
	}
}

// TestFetchOverTLS fetches from a real server.
func TestFetchOverTLS(t *testing.T) {
	var mux http.ServeMux
	s := httptest.NewUnstartedServer(&mux)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	plain := httptest.NewServer(&mux)
	defer plain.Close()
	var keysURL string
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, s.URL, keysURL)
	})
	set := publicSet(t, map[string]crypto.Signer{"k": testKeys()["ES256"]})[0]
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"keys":[%s]}`, set) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL+"/keys", http.StatusFound) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for range 2 * maxDocument / 1024 {
			_, _ = w.Write(bytes.Repeat([]byte{' '}, 1024)) // fails when the client stops reading
		}
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })

	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for path, want := range map[string]string{
		"/keys": "", "/moved": "",
		"/loop":    "redirects",
		"/down":    "without TLS",
		"/endless": "more than",
		"/broken":  "502",
		"/nothing": "404",
	} {
		keysURL = s.URL + path
		keys, _, err := newKeySet(s.URL, newClient(roots), time.Now, slog.New(slog.DiscardHandler)).fetch(t.Context())
		if want == "" {
			require.NoError(t, err, path)
			require.Len(t, keys, 1)
		} else {
			require.ErrorContains(t, err, want, path)
		}
	}
	_, _, err := newKeySet(s.URL, newClient(nil), time.Now, slog.New(slog.DiscardHandler)).fetch(t.Context())
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, err, &unknown)
}

func base64URL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func TestUsableKeys(t *testing.T) {
	keys := testKeys()
	public := func(name string) string {
		b, err := (&jose.JSONWebKey{Key: keys[name].Public(), KeyID: name}).MarshalJSON()
		require.NoError(t, err)
		return string(b)
	}
	plus := func(key, members string) string { return strings.TrimSuffix(key, "}") + "," + members + "}" }
	private, err := (&jose.JSONWebKey{Key: keys["ES256"], KeyID: "private"}).MarshalJSON()
	require.NoError(t, err)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	// The modulus of a public key can be parsed without known factors.
	weak := func(bits int) string {
		n := bytes.Repeat([]byte{0xfb}, bits/8)
		b, err := json.Marshal(map[string]any{"kty": "RSA", "n": base64URL(n), "e": "AQAB"})
		require.NoError(t, err)
		return string(b)
	}
	for name, c := range map[string]struct {
		key    string
		usable bool
	}{
		"RSA":                   {public("RS256"), true},
		"EC":                    {public("ES512"), true},
		"Ed25519":               {public("EdDSA"), true},
		"for signatures":        {plus(public("RS256"), `"use":"sig","alg":"RS256","key_ops":["verify"]`), true},
		"with odd certificates": {plus(public("RS256"), `"x5c":["AA=="],"x5t":"?","x5t#S256":"","x5u":"::"`), true},
		"with unknown members":  {plus(public("RS256"), `"issuer":"x","exp":1`), true},
		"RSA of 2048 bits":      {weak(2048), true},
		"RSA of 1024 bits":      {weak(1024), false},
		"RSA of 512 bits":       {weak(512), false},
		"RSA of 2040 bits":      {weak(2040), false},
		"RSA of 65536 bits":     {weak(65536), false},
		"for encryption":        {plus(public("RS256"), `"use":"enc"`), false},
		"for other things":      {plus(public("RS256"), `"use":"tls"`), false},
		"for signing only":      {plus(public("RS256"), `"key_ops":["sign"]`), false},
		"for nothing":           {plus(public("RS256"), `"key_ops":[]`), false},
		"for odd things":        {plus(public("RS256"), `"key_ops":7`), false},
		"private":               {string(private), false},
		"a secret":              {`{"kty":"oct","k":"c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"}`, false},
		"a curve of others":     {`{"kty":"EC","crv":"P-224","x":"` + base64URL(p224.X.Bytes()) + `","y":"` + base64URL(p224.Y.Bytes()) + `"}`, false},
		"a point off the curve": {`{"kty":"EC","crv":"P-256","x":"` + base64URL(make([]byte, 32)) + `","y":"` + base64URL(make([]byte, 32)) + `"}`, false},
		"X25519":                {`{"kty":"OKP","crv":"X25519","x":"` + base64URL(make([]byte, 32)) + `"}`, false},
		"a short Ed25519":       {`{"kty":"OKP","crv":"Ed25519","x":"AAAA"}`, false},
		"an exponent of one":    {strings.Replace(weak(2048), "AQAB", "AQ", 1), false},
		"unknown":               {`{"kty":"XYZ"}`, false},
		"nothing":               {`{}`, false},
		"null":                  {`null`, false},
		"a number":              {`7`, false},
		"an id of another type": {strings.Replace(public("RS256"), `"kid":"RS256"`, `"kid":7`, 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := usableKeys([]json.RawMessage{[]byte(c.key), []byte(public("ES256"))})
			require.Len(t, got, map[bool]int{true: 2, false: 1}[c.usable])
			require.Equal(t, "ES256", got[len(got)-1].KeyID, "one bad key does not keep the others out")
		})
	}
	many := make([]json.RawMessage, 10*maxKeys)
	for n := range many {
		many[n] = []byte(public("EdDSA"))
	}
	require.Len(t, usableKeys(many), maxKeys)
}
