// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/auth/oidctest"
	"assay/internal/session"
	"assay/internal/tlsreload"
)

// browser is a client with cookies that does not follow redirects.
type browser struct {
	t *testing.T
	c *http.Client
	s *server
}

func newBrowser(t *testing.T, s *server) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	c := client(t)
	c.Jar, c.CheckRedirect = jar, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t, c, s}
}

// do sends a request, a POST if form is not nil, and reads the response.
func (b *browser) do(path string, form url.Values, header ...string) (res *http.Response, body string) {
	b.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	if strings.HasPrefix(path, "/") {
		path = b.s.rootURL() + path
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.s.rootURL())
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err = b.c.Do(req)
	require.NoError(b.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return res, string(text)
}

func (b *browser) signIn(key string) {
	b.t.Helper()
	res, body := b.do(session.SignInPath, url.Values{"key": {key}, "return": {"/keys"}})
	require.Equal(b.t, http.StatusSeeOther, res.StatusCode, body)
	require.Equal(b.t, "/keys", res.Header.Get("Location"))
}

// once returns the one-time token of the form that creates a key.
func (b *browser) once() string {
	b.t.Helper()
	_, body := b.do("/keys", nil)
	m := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(body)
	require.NotNil(b.t, m, body)
	return m[1]
}

func TestDashboard(t *testing.T) {
	s, log := startServer(t, testConfig(t, t.TempDir()))
	b := newBrowser(t, s)

	// HTML requests without a session redirect to the sign-in page. The API, its probes and other requests
	// are not affected by the dashboard.
	res, _ := b.do("/services?page=2", nil)
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, session.SignInPath+"?return=%2Fservices%3Fpage%3D2", res.Header.Get("Location"))
	res, body := b.do(session.SignInPath, nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, body, `action="/sign-in"`)
	require.NotContains(t, body, session.ProviderPath, "there is no provider")
	asset := regexp.MustCompile(`href="(/assets/[^"]+\.css)"`).FindStringSubmatch(body)
	require.NotNil(t, asset, body)
	res, _ = b.do(asset[1], nil, "Accept", "text/css")
	require.Equal(t, http.StatusOK, res.StatusCode)
	for path, want := range map[string]int{
		"/api": 404, "/api/v1/services": 401, "/api/nothing": 404, "//api/v1/services": 404, "/livez": 200, "/readyz": 200, "/.well-known/jwks.json": 200,
	} {
		res, body := b.do(path, nil)
		require.Equal(t, want, res.StatusCode, path)
		require.True(t, json.Valid([]byte(body)), "%s: %s", path, body)
	}
	res, body = b.do("/nothing", nil)
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	require.Contains(t, body, "<html")
	for _, accept := range []string{"", "*/*"} {
		res, _ := b.do("/", nil, "Accept", accept)
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, session.SignInPath, res.Header.Get("Location"))
	}
	for _, path := range []string{"/", "/nothing"} {
		_, body := b.do(path, nil, "Accept", "application/json")
		require.True(t, json.Valid([]byte(body)), "%s: %s", path, body)
	}

	b.signIn(testKey)
	for _, path := range []string{"/", "/services", "/insights", "/rules", "/rules/RES-005", "/keys"} {
		res, body := b.do(path, nil)
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		require.Contains(t, body, "<h1", path)
	}

	// Create a key. It is shown once and can be used. Revoking it ends its sessions.
	form := url.Values{"once": {b.once()}, "name": {"for <b>reading</b>"}, "scope": {"read"}, "days": {"30"}}
	res, body = b.do("/keys", form)
	require.Equal(t, http.StatusOK, res.StatusCode, body)
	made := regexp.MustCompile(`assay_sk_([A-Za-z0-9]{6})_[0-9a-f]{32}`).FindStringSubmatch(body)
	require.NotNil(t, made, body)
	require.NotContains(t, body, "<b>reading")
	res, body = b.do("/keys", form)
	require.Equal(t, http.StatusConflict, res.StatusCode, "a reload does not create a second key")
	require.Contains(t, body, made[1])
	_, body = b.do("/keys", nil)
	require.NotContains(t, body, made[0])
	code, _ := get(t, client(t), s.restURL()+"/v1/organization", made[0])
	require.Equal(t, http.StatusOK, code)
	reader := newBrowser(t, s)
	reader.signIn(made[0])
	_, body = reader.do("/keys", nil)
	require.NotContains(t, body, made[1], "does not list keys")
	res, _ = reader.do("/keys", url.Values{"once": {"1"}, "name": {"x"}, "scope": {"read"}, "days": {"30"}})
	require.Equal(t, http.StatusForbidden, res.StatusCode, "the key has no scope admin")
	res, _ = reader.do("/keys/"+made[1]+"/revoke", url.Values{}, "Origin", "https://evil.example")
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	res, _ = b.do("/keys/"+made[1]+"/revoke", url.Values{}, "Origin", "https://evil.example")
	require.Equal(t, http.StatusForbidden, res.StatusCode, "a cross-site request with the session of a user")
	res, _ = b.do("/keys/"+made[1]+"/revoke", url.Values{})
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	res, _ = reader.do("/services", nil)
	require.Equal(t, http.StatusSeeOther, res.StatusCode, "revoking a key ends its sessions")

	res, _ = b.do(session.SignOutPath, url.Values{})
	require.Equal(t, session.SignInPath, res.Header.Get("Location"))
	res, _ = b.do("/keys", nil)
	require.Equal(t, http.StatusSeeOther, res.StatusCode)

	require.NotContains(t, log.String(), made[0])
	require.NotContains(t, log.String(), testKey)
	require.Contains(t, log.String(), "created an API key")
}

// TestFailedSignInsAreLimited checks the limit on sign-ins, also where failures at the API are not limited.
func TestFailedSignInsAreLimited(t *testing.T) {
	s, _ := startServer(t, testConfig(t, t.TempDir()))
	b := newBrowser(t, s)
	wrong := url.Values{"key": {testKey[:len(testKey)-1] + "0"}}
	failures := 0
	require.NoError(t, assaytest.Await(t.Context(), assaytest.Limit, time.Millisecond, func() error { // on a busy machine the limit grows meanwhile
		res, _ := b.do(session.SignInPath, wrong)
		if res.StatusCode == http.StatusTooManyRequests {
			return nil
		}
		require.Equal(t, http.StatusUnauthorized, res.StatusCode)
		failures++
		return fmt.Errorf("not limited after %d failures", failures)
	}))
	require.GreaterOrEqual(t, failures, signInFailures)
	b.signIn(testKey)
	code, _ := get(t, client(t), s.restURL()+"/v1/organization", wrong.Get("key"))
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestSignInAtAProvider(t *testing.T) {
	op, err := oidctest.Start()
	require.NoError(t, err)
	t.Cleanup(op.Close)
	cfg := testConfig(t, t.TempDir())
	cfg.OIDCIssuer, cfg.OIDCAudience, cfg.OIDCClientID, cfg.OIDCAdminClaim = op.URL, "the-api", oidctest.Client, "assay_admin"
	s, log := startServer(t, cfg)
	o, err := s.store.FindOrganizationByName(t.Context(), firstOrganization)
	require.NoError(t, err)
	require.NoError(t, s.store.SetOrganizationExternalID(t.Context(), o.ID, "customer-7"))

	signIn := func() *browser {
		t.Helper()
		b := newBrowser(t, s)
		_, body := b.do(session.SignInPath, nil)
		require.Contains(t, body, session.ProviderPath)
		res, body := b.do(session.ProviderPath+"?return=/keys", nil)
		require.Equal(t, http.StatusSeeOther, res.StatusCode, body)
		back, err := op.Follow(t.Context(), res.Header.Get("Location"))
		require.NoError(t, err)
		res, body = b.do(back.String(), nil)
		require.Equal(t, http.StatusSeeOther, res.StatusCode, body)
		require.Equal(t, "/keys", res.Header.Get("Location"))
		require.NotContains(t, log.String(), back.Query().Get("code"))
		return b
	}
	form := url.Values{"once": {"1"}, "name": {"x"}, "scope": {"ingest"}, "days": {"30"}}
	b := signIn()
	res, _ := b.do("/services", nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	res, _ = b.do("/keys", form)
	require.Equal(t, http.StatusForbidden, res.StatusCode)

	op.SetClaim("assay_admin", true)
	b = signIn()
	res, body := b.do("/keys", form)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Regexp(t, `assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}`, body)
	require.NotContains(t, log.String(), op.URL+"/oauth/token?")

	// Requests to the provider are measured: for its keys, and to exchange a code.
	_, metrics := get(t, client(t), s.metricsURL(), "")
	require.Contains(t, metrics, `http_client_request_duration_seconds_count{http_request_method="GET",`)
	require.Contains(t, metrics, `http_client_request_duration_seconds_count{http_request_method="POST",`)

	// While the provider is unavailable, sessions continue, and users can sign in with a key.
	op.Close()
	res, _ = b.do("/services", nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	late := newBrowser(t, s)
	late.signIn(testKey)
}

func TestWithoutDashboard(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.Dashboard = false
	s, _ := startServer(t, cfg)
	require.Empty(t, s.dashboardURL())
	b := newBrowser(t, s)
	_, body := b.do("/", nil)
	require.Contains(t, body, `"api":"/api/v1"`)
	for _, path := range []string{session.SignInPath, "/services", "/assets/x.css"} {
		res, body := b.do(path, nil)
		require.Equal(t, http.StatusNotFound, res.StatusCode)
		require.True(t, json.Valid([]byte(body)), body)
	}
}

func TestDashboardSettings(t *testing.T) {
	parsed, _, err := parseServe(t, []string{"ASSAY_SESSION_IDLE=30m"}, "--no-dashboard", "--session-life", "24h")
	require.NoError(t, err)
	require.False(t, parsed.Dashboard)
	require.Equal(t, 30*time.Minute, parsed.SessionIdle)
	require.Equal(t, 24*time.Hour, parsed.SessionLife)
	parsed, _, err = parseServe(t, nil)
	require.NoError(t, err)
	require.True(t, parsed.Dashboard)
	require.Equal(t, []string{"openid", "profile"}, parsed.OIDCScopes)
	require.Equal(t, assay.DefaultSessionIdle, parsed.SessionIdle)
	require.Equal(t, assay.DefaultSessionLife, parsed.SessionLife)
	parsed, _, err = parseServe(t, []string{"ASSAY_DASHBOARD=false"})
	require.NoError(t, err)
	require.False(t, parsed.Dashboard)
	parsed, _, err = parseServe(t, nil, "--config", file(t, "assay.yaml", "dashboard: false\noidc-issuer: https://id.example.com\noidc-audience: api\noidc-client-id: dash\noidc-scopes: [openid, email]\n"))
	require.NoError(t, err)
	require.False(t, parsed.Dashboard)
	require.Equal(t, []string{"openid", "email"}, parsed.OIDCScopes)

	secret := file(t, "secret", "s3cret\n")
	issuer := []string{"--oidc-issuer", "https://id.example.com", "--oidc-audience", "api"}
	parsed, _, err = parseServe(t, nil, append(issuer, "--oidc-client-id", "dash", "--oidc-client-secret-file", secret)...)
	require.NoError(t, err)
	got, err := parsed.clientSecret()
	require.NoError(t, err)
	require.Equal(t, "s3cret", string(got))

	for want, args := range map[string][]string{
		"--session-idle: 1s":               {"--session-idle", "1s"},
		"--session-life: 1h":               {"--session-life", "1h"},
		"--session-life: 9000h":            {"--session-life", "9000h"},
		"need --oidc-issuer":               {"--oidc-client-id", "dash"},
		"needs --oidc-client-id":           append(issuer, "--oidc-client-secret", "hunter2"),
		"--oidc-admin-claim need":          {"--oidc-admin-claim", "admin"},
		"are both set":                     append(issuer, "--oidc-client-id", "dash", "--oidc-client-secret", "hunter2", "--oidc-client-secret-file", secret),
		"is not a scope":                   append(issuer, "--oidc-client-id", "dash", "--oidc-scopes", "openid profile"),
		"/keys has handlers of its own":    {"--base-path", "/keys"},
		"--public-otlp-http-url: has more": {"--public-otlp-http-url", "https://otlp.example.com/v1/traces"},
		"--public-otlp-grpc-url: not":      {"--public-otlp-grpc-url", "otlp.example.com:4317"},
	} {
		_, _, err := parseServe(t, nil, args...)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestDisplayedOTLPAddresses(t *testing.T) {
	plain, _ := startServer(t, testConfig(t, t.TempDir()))
	of := func(s *server, change func(*server)) [2]string {
		s = &server{cfg: s.cfg, otlpHTTP: s.otlpHTTP, grpc: s.grpc, certificate: s.certificate}
		change(s)
		overHTTP, overGRPC := s.otlpURLs()
		return [2]string{overHTTP, overGRPC}
	}
	public := func(url string) func(*server) { return func(s *server) { s.cfg.PublicURL = url } }
	all := func(next func(*server)) func(*server) {
		return func(s *server) {
			s.otlpHTTP, s.grpc = listener("[::]:4318"), listener("0.0.0.0:4317")
			next(s)
		}
	}
	withTLS := func(s *server) { s.certificate = new(tlsreload.Certificate) }
	for name, tc := range map[string]struct {
		change func(*server)
		want   [2]string
	}{
		"one address":         {func(*server) {}, [2]string{"http://" + plain.otlpHTTPAddr(), "http://" + plain.grpcAddr()}},
		"all addresses":       {all(func(*server) {}), [2]string{"http://:4318", "http://:4317"}},
		"with TLS":            {all(withTLS), [2]string{"https://:4318", "https://:4317"}},
		"a proxy with TLS":    {all(public("https://assay.example.com:8443")), [2]string{"http://assay.example.com:4318", "http://assay.example.com:4317"}},
		"a plain URL and TLS": {all(func(s *server) { withTLS(s); public("http://assay.example.com")(s) }), [2]string{"https://assay.example.com:4318", "https://assay.example.com:4317"}},
		"an IPv6 host":        {all(public("http://[2001:db8::1]:8080")), [2]string{"http://[2001:db8::1]:4318", "http://[2001:db8::1]:4317"}},
		"a proxy for OTLP, too": {func(s *server) {
			s.cfg.PublicOTLPHTTPURL, s.cfg.PublicOTLPGRPCURL = "https://otlp.example.com/", "https://otlp.example.com:4317"
		}, [2]string{"https://otlp.example.com", "https://otlp.example.com:4317"}},
		"a proxy for HTTP alone": {all(func(s *server) {
			public("https://assay.example.com")(s)
			s.cfg.PublicOTLPHTTPURL = "https://otlp.example.com"
		}), [2]string{"https://otlp.example.com", "http://assay.example.com:4317"}},
	} {
		require.Equal(t, tc.want, of(plain, tc.change), name)
	}
}

// listener is a listener that only has an address.
type listener string

func (l listener) Addr() net.Addr          { return l }
func (listener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (listener) Close() error              { return nil }
func (listener) Network() string           { return "tcp" }
func (l listener) String() string          { return string(l) }
