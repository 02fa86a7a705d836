// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/codebase/source/gittest"
)

// backend is an agent backend that verifies tokens with a standard library. It caches the public keys until a
// key id is missing, and records the last request.
type backend struct {
	*httptest.Server
	jwks string // URL of the key set, set before the first request

	mu       sync.Mutex
	keys     jose.JSONWebKeySet
	signedBy map[string]int // requests by key id
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
	_, _ = w.Write([]byte(`{"ok":true}`)) // the gateway may have disconnected
}

func (b *backend) verify(authorization []string) error {
	if len(authorization) != 1 || !strings.HasPrefix(authorization[0], "Bearer ") {
		return fmt.Errorf("%d Authorization headers", len(authorization))
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
		return fmt.Errorf("unknown key %s", kid)
	}
	if err := token.Claims(b.keys.Key(kid)[0], &claims); err != nil {
		return err
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{"assay-agent"}, Issuer: strings.TrimSuffix(b.jwks, "/.well-known/jwks.json"), Time: time.Now()}, 2*time.Second); err != nil {
		return err
	}
	switch {
	case claims.ID == "" || b.tokens[claims.ID]:
		return fmt.Errorf("the token id %q was used before", claims.ID)
	case claims.Organization == "" || claims.Subject == "":
		return fmt.Errorf("organization or subject missing")
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

// TestAgentGateway forwards requests to a backend that verifies every token, also during a rotation of the
// signing key, and checks the requests that arrive.
func TestAgentGateway(t *testing.T) {
	t.Parallel()
	provider := startIssuer(t)
	b := startBackend(t)
	d := startDaemon(t, t.TempDir(), append(provider.flags(), "--bootstrap-api-key", bootstrapKey, "--agent-backend-url", b.URL+"/base")...)
	b.jwks = d.Root + "/.well-known/jwks.json"
	require.Zero(t, d.assay(t, "organization", "set-external-id", "default", "org-1").Code)
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
	require.Empty(t, b.received().Header.Get("Forwarded"))

	for _, query := range []string{
		"a=1;b=2&c=%zz&d=+%2B&e=&&f=%E2%9C%93", "limit=5&limit=6&limit=", "=", "&", "%00", "x=" + strings.Repeat("y", 8<<10),
	} {
		require.Equal(t, 200, get(bootstrapKey, "/executions?"+query).Status, query)
		require.Equal(t, "/base/executions?"+query, b.received().RequestURI)
	}
	for _, id := range []string{"a%20b", "%E2%9C%93", "%25zz", "~x!$&'()*+,;=:@", strings.Repeat("z", 512)} {
		require.Equal(t, 200, get(bootstrapKey, "/executions/"+id).Status, id)
		require.Equal(t, "/base/executions/"+id, b.received().RequestURI)
	}
	before := b.received()
	for _, id := range []string{"%2F", "a%2fb", "..", "%2e%2e", ".%2e", ".", "%2E", "..;x", "a%5c..%5cb/../../admin"} {
		require.GreaterOrEqual(t, get(bootstrapKey, "/executions/"+id).Status, 400, id)
	}
	for _, path := range []string{"/admin/installations", "/onboarding/status", "/repositories/r/settings"} {
		require.Equal(t, 403, get(bootstrapKey, path).Status, path)
	}
	require.Same(t, before, b.received(), "the backend received no request")
	require.Equal(t, 200, get(user, "/admin/installations").Status)

	// Rotate the key while requests are in flight.
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
				a, err := d.ask(t.Context(), http.MethodGet, d.REST+"/v1/agent/repositories", nil, "Authorization", "Bearer "+credential)
				if err != nil {
					statuses[i][0]++
					continue
				}
				statuses[i][a.Status]++
			}
		})
	}
	r := d.assay(t, "signing-key", "rotate")
	require.Zero(t, r.Code, r.Stderr)
	eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.signedBy) == 2
	}, "the gateway does not sign with the new key")
	close(stop)
	wg.Wait()
	for _, s := range statuses {
		require.Len(t, s, 1, "%v", s)
		require.Positive(t, s[200])
	}
	require.Empty(t, b.failures)
	published, err := d.ask(t.Context(), http.MethodGet, b.jwks, nil)
	require.NoError(t, err)
	require.Contains(t, published.Header.Get("Cache-Control"), "max-age")
	var keys jose.JSONWebKeySet
	require.NoError(t, json.Unmarshal(published.Body, &keys))
	require.Len(t, keys.Keys, 2, "tokens signed with the old key may be valid")
	for _, k := range keys.Keys {
		require.True(t, k.IsPublic())
	}

	// The log has an audit record with the subject, and no credentials.
	for _, credential := range []string{bootstrapKey, user} {
		a, err := d.ask(t.Context(), http.MethodPost, d.REST+"/v1/agent/codebase/fix/execute", []byte(`{"note":"of-the-body"}`), "Authorization", "Bearer "+credential, "Content-Type", "application/json")
		require.NoError(t, err)
		require.Equal(t, 200, a.Status)
	}
	d.stop(t)
	log := d.Log.String()
	require.Regexp(t, `"msg":"agent operation".*"subject":"key:`+keyID(bootstrapKey)+`"`, log)
	require.Regexp(t, `"msg":"agent operation".*"subject":"user-of-org-1"`, log)
	for _, secret := range []string{"of-the-body", "of-the-caller", bootstrapKey, user} {
		require.NotContains(t, log, secret)
	}
}

// TestAgentServe reviews and fixes a repository through an agent in another process.
func TestAgentServe(t *testing.T) {
	t.Parallel()
	host := startGit(t, fixture(t, "go"))
	relay := newRelay(t)
	address := relay.Addr().String()
	dir := t.TempDir()
	d := startDaemon(t, dir, "--bootstrap-api-key", bootstrapKey, "--agent", "http://"+address)
	binary, err := assaytest.Binary()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, "agent", "serve", "--data-dir", dir, "--address", "127.0.0.1:0", "--jwks-url", d.Root+"/.well-known/jwks.json",
		"--agent-allow-private-hosts", "--agent-source-ca", host.CA, "--log-format", "json")
	cmd.Env = append(storeEnviron(t, dir), "HOME="+dir, "PATH="+os.Getenv("PATH"))
	agent, err := assaytest.StartProcess("agent", cmd, nil)
	require.NoError(t, err)
	t.Cleanup(agent.Kill)
	var listens []string
	eventually(t, func() bool {
		listens = regexp.MustCompile(`"msg":"agent serves","address":"([^"]+)"`).FindStringSubmatch(agent.Log.String())
		return listens != nil
	}, "the agent does not serve")
	relay.to(listens[1])

	r := host.connect(t, d)
	found := r.findings()
	require.Contains(t, found, "span-name-dynamic")
	preview, id := r.wait("/codebase/fix/execute", fmt.Sprintf(`{"repo_id":%q,"finding_ids":[%q],"publish":false}`, r.id, found["span-name-dynamic"]))
	require.Equal(t, []string{found["span-name-dynamic"]}, preview.Result.Fixed)
	var patch struct{ Patch string }
	r.call("GET", "/executions/"+id+"/patch", "", &patch)
	require.Contains(t, patch.Patch, "+++ b/shop.go")

	// Requests without a token of the server are refused, and the server stays without its agent.
	refused, err := d.ask(t.Context(), http.MethodGet, "http://"+address+"/repositories", nil, "Authorization", "Bearer "+bootstrapKey)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, refused.Status)

	// Connections of others, whose requests do not end, replace each other.
	var others []net.Conn
	for range 2100 {
		c, err := net.Dial("tcp", listens[1])
		require.NoError(t, err)
		others = append(others, c)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nX-Long: unfinished")
	}
	eventually(t, func() bool { return strings.Contains(agent.Log.String(), "connections for HTTP are at their limit") }, "all connections stay")
	require.NotEmpty(t, r.findings())
	for _, c := range others {
		_ = c.Close()
	}
	eventually(t, func() bool { return strings.Count(agent.Log.String(), `"msg":"run ended"`) == 2 }, "the agent does not log the end of its runs")
	require.NoError(t, agent.Stop())
	require.NoError(t, relay.Close())
	require.NotContains(t, d.Log.String(), `"msg":"run begins"`)
	a := d.get(t, bootstrapKey, "/v1/agent/repositories")
	require.Equal(t, http.StatusServiceUnavailable, a.Status, "%s", a.Body)
	require.Equal(t, http.StatusOK, d.get(t, bootstrapKey, "/v1/services").Status)
	for _, log := range []string{agent.Log.String(), d.Log.String()} {
		require.NotContains(t, log, gittest.Token)
		require.NotContains(t, log, bootstrapKey)
	}
}

// TestAgentWithoutGit runs the server as in a container image from scratch, which has no git and no ssh.
func TestAgentWithoutGit(t *testing.T) {
	t.Parallel()
	code := t.TempDir()
	newRepository(t, filepath.Join(code, "repository"))
	require.NoError(t, os.Mkdir(filepath.Join(code, "plain"), 0o755))
	d := startDaemonWith(t, []string{"PATH=" + t.TempDir()}, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--agent-local-root", code, "--agent-allow-private-hosts")
	require.Contains(t, d.Log.String(), "the agent cannot read repositories: install git")
	const why = "is not installed on the host of the agent, so the agent cannot read this repository"
	do := func(method, path, body string) *answered {
		a, err := assaytest.Do(t.Context(), d.Client, method, d.REST+"/v1/agent"+path, bootstrapKey, []byte(body), "Content-Type", "application/json")
		require.NoError(t, err)
		return a
	}
	for _, body := range []string{
		`{"kind":"git","url":"https://127.0.0.1/shop.git"}`,
		`{"kind":"git","url":"git@127.0.0.1:shop.git","ssh_key":"-----BEGIN OPENSSH PRIVATE KEY-----"}`,
	} {
		a := do(http.MethodPost, "/onboarding/installations", body)
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Body), "git "+why)
	}

	// Other directories need no git.
	for name, want := range map[string]string{"repository": "failed", "plain": "completed"} {
		made := decode[struct{ Repositories []struct{ ID string } }](t, do(http.MethodPost, "/onboarding/installations", fmt.Sprintf(`{"kind":"local","url":%q}`, filepath.Join(code, name)))).Data
		id := made.Repositories[0].ID
		require.Equal(t, http.StatusOK, do(http.MethodPatch, "/repositories/"+id, `{"is_active":true}`).Status)
		run := decode[struct{ ExecutionID string }](t, do(http.MethodPost, "/codebase/review/execute", `{"repo_id":"`+id+`"}`)).Data
		type execution struct{ Status, Error string }
		var ended execution
		eventually(t, func() bool {
			ended = decode[struct{ Execution execution }](t, d.get(t, bootstrapKey, "/v1/agent/executions/"+run.ExecutionID)).Data.Execution
			return ended.Status == "failed" || ended.Status == "completed"
		}, "the run does not end")
		require.Equal(t, want, ended.Status, name)
		if want == "failed" {
			require.Contains(t, ended.Error, "git "+why)
		}
	}
}
