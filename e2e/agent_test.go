// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// backend is an agent backend that verifies tokens with a standard library, keeps
// the public keys until one is missing, and remembers what it was sent.
type backend struct {
	*httptest.Server
	jwks string // address of the keys, set before the first request

	mu       sync.Mutex
	keys     jose.JSONWebKeySet
	signedBy map[string]int // requests by key
	tokens   map[string]bool
	failures []string
	last     *http.Request // without its body
}

func startBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{signedBy: map[string]int{}, tokens: map[string]bool{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = r
	if err := b.verify(r.Header.Values("Authorization")); err != nil {
		b.failures = append(b.failures, err.Error())
		http.Error(w, `{"error":{"code":"UNAUTHORIZED","message":"no"}}`, http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"ok":true}`)) // a gateway that is gone needs no answer
}

func (b *backend) verify(authorization []string) error {
	if len(authorization) != 1 || !strings.HasPrefix(authorization[0], "Bearer ") {
		return fmt.Errorf("%d Authorization fields", len(authorization))
	}
	raw := strings.TrimPrefix(authorization[0], "Bearer ")
	token, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return err
	}
	kid := token.Headers[0].KeyID
	if len(b.keys.Key(kid)) == 0 {
		resp, err := http.Get(b.jwks)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&b.keys); err != nil {
			return err
		}
	}
	var claims struct {
		jwt.Claims
		Organization string `json:"org_id"`
		Credential   string `json:"credential"`
	}
	if len(b.keys.Key(kid)) != 1 {
		return fmt.Errorf("no key %s", kid)
	}
	if err := token.Claims(b.keys.Key(kid)[0], &claims); err != nil {
		return err
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{"assay-agent"}, Issuer: strings.TrimSuffix(b.jwks, "/.well-known/jwks.json"), Time: time.Now()}, 2*time.Second); err != nil {
		return err
	}
	switch {
	case claims.ID == "" || b.tokens[claims.ID]:
		return fmt.Errorf("the token's id %q is not new", claims.ID)
	case claims.Organization == "" || claims.Subject == "":
		return fmt.Errorf("no organization or subject")
	case claims.Expiry.Time().Sub(claims.IssuedAt.Time()) != time.Minute:
		return fmt.Errorf("valid from %v to %v", claims.IssuedAt.Time(), claims.Expiry.Time())
	case (claims.Credential == "api_key") != strings.HasPrefix(claims.Subject, "key:"):
		return fmt.Errorf("credential %q of %q", claims.Credential, claims.Subject)
	}
	b.tokens[claims.ID] = true
	b.signedBy[kid]++
	return nil
}

// received returns the last request.
func (b *backend) received() *http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// TestAgentGateway forwards to a backend that trusts nobody, through a rotation of
// the signing key, and looks at what arrives.
func TestAgentGateway(t *testing.T) {
	t.Parallel()
	provider := startIssuer(t)
	b := startBackend(t)
	d := startDaemon(t, t.TempDir(), append(provider.flags(), "--bootstrap-api-key", bootstrapKey, "--agent-backend-url", b.URL+"/base")...)
	b.jwks = d.root + "/.well-known/jwks.json"
	require.Zero(t, d.assay(t, "organization", "set-external-id", "default", "org-1").code)
	user := provider.token(t, "org-1")

	get := func(credential, path string, headers ...string) *answered {
		t.Helper()
		return d.get(t, credential, "/v1/agent"+path, headers...)
	}
	a := get(bootstrapKey, "/findings/summary", "Cookie", "session=of-the-caller", "X-Other", "of-the-caller", "X-Request-Id", "req-1",
		"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	require.JSONEq(t, `{"ok":true}`, string(decode[json.RawMessage](t, a).Data))
	seen := fmt.Sprint(b.received().Header)
	for _, secret := range []string{"of-the-caller", bootstrapKey, keyID(bootstrapKey) + "_"} {
		require.NotContains(t, seen, secret)
	}
	require.Equal(t, "req-1", b.received().Header.Get("X-Request-Id"))
	require.Contains(t, b.received().Header.Get("Traceparent"), "4bf92f3577b34da6a3ce929d0e0e4736")
	require.NotEmpty(t, b.received().Header.Get("Forwarded"))

	for _, query := range []string{
		"a=1;b=2&c=%zz&d=+%2B&e=&&f=%E2%9C%93", "limit=5&limit=6&limit=", "=", "&", "%00", "x=" + strings.Repeat("y", 8<<10),
	} {
		require.Equal(t, 200, get(bootstrapKey, "/executions?"+query).status, query)
		require.Equal(t, "/base/executions?"+query, b.received().RequestURI)
	}
	for _, id := range []string{"a%20b", "%E2%9C%93", "%25zz", "~x!$&'()*+,;=:@", strings.Repeat("z", 512)} {
		require.Equal(t, 200, get(bootstrapKey, "/executions/"+id).status, id)
		require.Equal(t, "/base/executions/"+id, b.received().RequestURI)
	}
	before := b.received()
	for _, id := range []string{"%2F", "a%2fb", "..", "%2e%2e", ".%2e", ".", "%2E", "..;x", "a%5c..%5cb/../../admin"} {
		require.GreaterOrEqual(t, get(bootstrapKey, "/executions/"+id).status, 400, id)
	}
	for _, path := range []string{"/admin/installations", "/onboarding/status", "/repositories/r/settings"} {
		require.Equal(t, 403, get(bootstrapKey, path).status, path)
	}
	require.Same(t, before, b.received(), "nothing of it reached the backend")
	require.Equal(t, 200, get(user, "/admin/installations").status)

	// A rotation while requests go on.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	statuses := make([]map[int]int, 3)
	for i := range statuses {
		statuses[i] = map[int]int{}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				credential := []string{bootstrapKey, user}[i%2]
				a, err := d.ask(t.Context(), http.MethodGet, d.rest+"/v1/agent/repositories", nil, "Authorization", "Bearer "+credential)
				if err != nil {
					statuses[i][0]++
					continue
				}
				statuses[i][a.status]++
			}
		})
	}
	r := d.assay(t, "signing-key", "rotate")
	require.Zero(t, r.code, r.stderr)
	eventually(t, time.Minute, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.signedBy) == 2
	}, "the new key is not used")
	close(stop)
	wg.Wait()
	for _, s := range statuses {
		require.Len(t, s, 1, "%v", s)
		require.Positive(t, s[200])
	}
	require.Empty(t, b.failures)
	published, err := d.ask(t.Context(), http.MethodGet, b.jwks, nil)
	require.NoError(t, err)
	require.Contains(t, published.header.Get("Cache-Control"), "max-age")
	var keys jose.JSONWebKeySet
	require.NoError(t, json.Unmarshal(published.body, &keys))
	require.Len(t, keys.Keys, 2, "tokens of the old key may live")
	for _, k := range keys.Keys {
		require.True(t, k.IsPublic())
	}

	// Who did what is in the log, and nothing else of it.
	for _, credential := range []string{bootstrapKey, user} {
		a, err := d.ask(t.Context(), http.MethodPost, d.rest+"/v1/agent/codebase/fix/execute", []byte(`{"note":"of-the-body"}`), "Authorization", "Bearer "+credential, "Content-Type", "application/json")
		require.NoError(t, err)
		require.Equal(t, 200, a.status)
	}
	d.stop(t)
	log := d.read(t, d.log)
	require.Regexp(t, `"msg":"agent operation".*"subject":"key:`+keyID(bootstrapKey)+`"`, log)
	require.Regexp(t, `"msg":"agent operation".*"subject":"user-of-org-1"`, log)
	for _, secret := range []string{"of-the-body", "of-the-caller", bootstrapKey, user} {
		require.NotContains(t, log, secret)
	}
}
