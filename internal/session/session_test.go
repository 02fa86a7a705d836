// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/auth"
	"assay/internal/store/sqlite"
)

// fixture is a server on a real store with one page, which shows the signed-in user.
type fixture struct {
	t       *testing.T
	store   *broken
	manager *Manager
	server  *httptest.Server
	cfg     Config
	log     bytes.Buffer
	now     time.Time
	org     string
	other   string
}

// broken is a store that can fail.
type broken struct {
	*sqlite.Store
	err error

	mu      sync.Mutex
	lookups []string // organizations of the contexts of FindSession
	keys    []string // organizations of the contexts of FindAPIKey
}

func (b *broken) FindAPIKey(ctx context.Context, id string) (*assay.APIKey, error) {
	b.mu.Lock()
	b.keys = append(b.keys, assay.OrganizationOf(ctx))
	b.mu.Unlock()
	return b.Store.FindAPIKey(ctx, id)
}

func (b *broken) FindSession(ctx context.Context, hash [32]byte, now time.Time) (*assay.Session, error) {
	b.mu.Lock()
	b.lookups = append(b.lookups, assay.OrganizationOf(ctx))
	b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	return b.Store.FindSession(ctx, hash, now)
}

func (b *broken) CreateSession(ctx context.Context, s *assay.Session) error {
	if b.err != nil {
		return b.err
	}
	return b.Store.CreateSession(ctx, s)
}

func newFixture(t *testing.T, tls bool, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return f.now }
	f.store = &broken{Store: shared}
	for _, id := range []*string{&f.org, &f.other} {
		o := &assay.Organization{Name: rand.Text(), Tier: assay.TierFree}
		require.NoError(t, shared.CreateOrganization(t.Context(), o))
		*id = o.ID
	}
	keys := &auth.Authenticator{Keys: shared, Prefix: "assay", Now: clock, FailureLimit: 3}
	t.Cleanup(keys.Close)
	f.cfg = Config{
		Store: f.store, Authenticate: keys.Authenticate, Failures: auth.NewFailureLimiter(3, clock), Signer: fakeSigner{}, Keys: f.store, Assets: "/assets/",
		Page: func(w http.ResponseWriter, _ *http.Request, status int, p SignInPage) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "sign in, provider %v, to %s: %s", p.Provider, p.Return, p.Failure)
		},
		Fail: func(w http.ResponseWriter, _ *http.Request, status int, message string) {
			http.Error(w, message, status)
		},
		Now: clock, Logger: slog.New(slog.NewTextHandler(&f.log, nil)),
	}
	if change != nil {
		change(&f.cfg)
	}
	var err error
	f.manager, err = New(f.cfg)
	require.NoError(t, err)
	handler := f.manager.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := FromContext(r.Context())
		if s == nil {
			_, _ = io.WriteString(w, "signed out")
			return
		}
		fmt.Fprintf(w, "%s of %s, admin %v", s.Name, assay.OrganizationOf(r.Context()), s.Admin())
	}))
	if tls {
		f.server = httptest.NewTLSServer(handler)
	} else {
		f.server = httptest.NewServer(handler)
	}
	t.Cleanup(f.server.Close)
	return f
}

// fakeSigner signs with a secret of all fixtures.
type fakeSigner struct{}

func (fakeSigner) SignText(purpose, text string) (string, error) {
	sum := sha256.Sum256([]byte("secret\x00" + purpose + "\x00" + text))
	return hex.EncodeToString(sum[:]) + "." + text, nil
}

func (s fakeSigner) VerifyText(purpose, signed string) (string, bool) {
	_, text, _ := strings.Cut(signed, ".")
	want, _ := s.SignText(purpose, text)
	return text, signed == want
}

// key creates an API key.
func (f *fixture) key(org, name string, expires time.Time, scopes ...assay.Scope) (secret, id string) {
	f.t.Helper()
	key, k := auth.NewKey("assay")
	k.OrganizationID, k.Name, k.Scopes, k.ExpiresAt = org, name, scopes, expires
	require.NoError(f.t, f.store.CreateAPIKey(f.t.Context(), k, assay.APIKeyLimits{}))
	return string(key), k.ID
}

// browser is a client with cookies that does not follow redirects.
type browser struct {
	f *fixture
	*http.Client
}

func (f *fixture) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(f.t, err)
	transport := f.server.Client().Transport
	return &browser{f, &http.Client{Transport: transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// ask sends a same-origin request, a POST if form is not nil.
func (b *browser) ask(path string, form url.Values, header ...string) *http.Response {
	b.f.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(b.f.t.Context(), method, b.f.server.URL+path, strings.NewReader(form.Encode()))
	require.NoError(b.f.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.Do(req)
	require.NoError(b.f.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(b.f.t, err)
	require.NoError(b.f.t, res.Body.Close())
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res
}

func (b *browser) page() string {
	b.f.t.Helper()
	return text(b.f.t, b.ask("/services?sort=name", nil))
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

// signIn signs in with a key and requires success.
func (b *browser) signIn(secret string) *http.Response {
	b.f.t.Helper()
	res := b.ask(SignInPath, url.Values{"key": {secret}, "return": {"/services?sort=name"}})
	require.Equal(b.f.t, http.StatusSeeOther, res.StatusCode, text(b.f.t, res))
	require.Equal(b.f.t, "/services?sort=name", res.Header.Get("Location"))
	return res
}

// cookie returns the browser's cookie whose name has the suffix, or nil.
func (b *browser) cookie(name string) *http.Cookie {
	u, err := url.Parse(b.f.server.URL)
	require.NoError(b.f.t, err)
	for _, c := range b.Jar.Cookies(u) {
		if strings.HasSuffix(c.Name, name) {
			return c
		}
	}
	return nil
}

func TestSignInByKey(t *testing.T) {
	f := newFixture(t, true, nil)
	secret, id := f.key(f.org, "Ada's key", time.Time{}, assay.Scopes()...)
	b := f.browser()
	require.Equal(t, "signed out", b.page())
	require.Equal(t, "sign in, provider false, to /insights: ", text(t, b.ask(SignInPath+"?return=/insights", nil)))

	res := b.signIn(" " + secret + "\n")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.Equal(t, "Ada's key of "+f.org+", admin true", b.page())
	res = b.ask(SignInPath+"?return=/insights", nil)
	require.Equal(t, "/insights", res.Header.Get("Location"), "existing sessions continue")

	// The key is nowhere.
	require.NotContains(t, f.log.String(), secret)
	require.Contains(t, f.log.String(), id)
	s, err := f.store.FindSession(t.Context(), tokenOf(t, b).hash(), f.now)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%+v", s), secret)
	require.Equal(t, "key:"+id, s.Subject)
	require.NotContains(t, f.log.String(), b.cookie(sessionCookie).Value)

	// Signing out ends the session, also for a copy of the cookie.
	thief := f.browser()
	u, _ := url.Parse(f.server.URL)
	thief.Jar.SetCookies(u, []*http.Cookie{b.cookie(sessionCookie)})
	require.NotEqual(t, "signed out", thief.page())
	res = b.ask(SignOutPath, url.Values{})
	require.Equal(t, SignInPath, res.Header.Get("Location"))
	require.Equal(t, `"cache"`, res.Header.Get("Clear-Site-Data"), "Back shows nothing")
	require.Nil(t, b.cookie(sessionCookie))
	require.Equal(t, "signed out", thief.page())
	require.Equal(t, SignInPath, b.ask(SignOutPath, url.Values{}).Header.Get("Location"), "a second time")
}

func tokenOf(t *testing.T, b *browser) secret {
	t.Helper()
	token, ok := parseSecret(b.cookie(sessionCookie).Value)
	require.True(t, ok)
	return token
}

func TestSignInRefused(t *testing.T) {
	f := newFixture(t, false, nil)
	good, _ := f.key(f.org, "good", time.Time{}, assay.ScopeRead)
	sender, _ := f.key(f.org, "sender", time.Time{}, assay.ScopeIngest, assay.ScopeAdmin)
	b := f.browser()
	try := func(key string, status int, says string) *http.Response {
		t.Helper()
		res := b.ask(SignInPath, url.Values{"key": {key}, "return": {"/x"}})
		require.Equal(t, status, res.StatusCode)
		require.Contains(t, text(t, res), says)
		require.Nil(t, b.cookie(sessionCookie))
		return res
	}
	try(sender, http.StatusForbidden, failedScope)
	try("", http.StatusUnauthorized, failedKey)
	for _, key := range []string{good[:len(good)-1] + "x", good + "\t" + good, "a.b.c"} {
		try(key, http.StatusUnauthorized, failedKey)
	}
	res := try("a.b.c", http.StatusTooManyRequests, failedTooOften)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.Contains(t, text(t, b.ask(SignInPath, url.Values{"key": {strings.Repeat("x", maxForm)}})), failedMalformed)
	require.NotContains(t, f.log.String(), good)

	b.signIn(good) // failed attempts do not delay it
	require.Equal(t, "good of "+f.org+", admin false", b.page())
}

func TestSessionEnds(t *testing.T) {
	f := newFixture(t, false, nil)
	begin := f.now
	secret, id := f.key(f.org, "a", time.Time{}, assay.ScopeRead)
	expiring, _ := f.key(f.org, "b", f.now.Add(time.Hour), assay.ScopeRead)
	in := func(secret string) *browser {
		b := f.browser()
		b.signIn(secret)
		return b
	}
	idle, used, polling, ofExpiring := in(secret), in(secret), in(secret), in(expiring)
	require.NotEqual(t, "signed out", ofExpiring.page())
	for f.now.Sub(begin) < 8*time.Hour-time.Minute {
		f.now = f.now.Add(time.Hour)
		require.NotEqual(t, "signed out", used.page())
		polling.ask("/", nil, BackgroundHeader, "1")
	}
	require.Equal(t, "signed out", ofExpiring.page())
	require.Equal(t, "signed out", idle.page(), "not used for eight hours")
	require.Equal(t, "signed out", polling.page(), "polling does not count as activity")
	require.NotEqual(t, "signed out", used.page())
	for f.now.Sub(begin) < 7*24*time.Hour-time.Hour {
		f.now = f.now.Add(time.Hour)
		require.NotEqual(t, "signed out", used.page())
	}
	f.now = begin.Add(7 * 24 * time.Hour)
	require.Equal(t, "signed out", used.page(), "seven days in all")

	late := in(secret)
	require.NoError(t, f.store.RevokeAPIKey(t.Context(), id))
	require.Equal(t, "signed out", late.page(), "at once, which is within five seconds")
}

func TestTouchedOnceAMinute(t *testing.T) {
	f := newFixture(t, false, nil)
	secret, _ := f.key(f.org, "a", time.Time{}, assay.ScopeRead)
	b := f.browser()
	b.signIn(secret)
	usedAt := func() time.Time {
		s, err := f.store.FindSession(t.Context(), tokenOf(t, b).hash(), f.now)
		require.NoError(t, err)
		return s.UsedAt
	}
	begin := f.now
	f.now = begin.Add(59 * time.Second)
	b.page()
	require.Equal(t, begin, usedAt())
	f.now = begin.Add(60 * time.Second)
	b.page()
	require.Equal(t, f.now, usedAt())
}

func TestSignOutEverywhere(t *testing.T) {
	f := newFixture(t, false, nil)
	mine, _ := f.key(f.org, "mine", time.Time{}, assay.ScopeRead)
	colleague, _ := f.key(f.org, "colleague", time.Time{}, assay.ScopeRead)
	foreign, _ := f.key(f.other, "foreign", time.Time{}, assay.ScopeRead)
	browsers := make([]*browser, 4)
	for i, secret := range []string{mine, mine, colleague, foreign} {
		browsers[i] = f.browser()
		browsers[i].signIn(secret)
	}
	res := browsers[0].ask(SignOutAllPath, url.Values{})
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, `"cache"`, res.Header.Get("Clear-Site-Data"))
	require.Equal(t, "signed out", browsers[0].page())
	require.Equal(t, "signed out", browsers[1].page())
	require.Equal(t, "colleague of "+f.org+", admin false", browsers[2].page())
	require.Equal(t, "foreign of "+f.other+", admin false", browsers[3].page())
}

// TestFixation checks that a token chosen by an attacker is never used for a session.
func TestFixation(t *testing.T) {
	f := newFixture(t, false, nil)
	secret1, _ := f.key(f.org, "a", time.Time{}, assay.ScopeRead)
	u, err := url.Parse(f.server.URL)
	require.NoError(t, err)
	victim, attacker := f.browser(), f.browser()
	planted := newSecret()
	for _, b := range []*browser{victim, attacker} {
		b.Jar.SetCookies(u, []*http.Cookie{{Name: sessionCookie, Value: planted.String(), Path: "/"}})
	}
	victim.signIn(secret1)
	require.NotEqual(t, planted, tokenOf(t, victim))
	require.Equal(t, "signed out", attacker.page())

	// Signing in again creates a new token and ends the former session.
	old := victim.cookie(sessionCookie)
	victim.signIn(secret1)
	require.NotEqual(t, old.Value, victim.cookie(sessionCookie).Value)
	attacker.Jar.SetCookies(u, []*http.Cookie{old})
	require.Equal(t, "signed out", attacker.page())
	require.NotEqual(t, "signed out", victim.page())
}

// TestBadCookies checks that malformed tokens are rejected without a lookup in the store.
func TestBadCookies(t *testing.T) {
	f := newFixture(t, false, nil)
	f.store.err = errors.New("asked")
	good := newSecret().String()
	for _, value := range []string{"", "x", good[:42], good + "A", good[:42] + "=", strings.Repeat("A", 5000), good[:42] + "\"", strings.Replace(good, good[:1], "!", 1)} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Header.Set("Cookie", sessionCookie+"="+value)
		s, err := f.manager.find(req)
		require.NoError(t, err, "%q", value)
		require.Nil(t, s)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	req.Header.Set("Cookie", sessionCookie+"="+good)
	_, err := f.manager.find(req)
	require.ErrorContains(t, err, "asked")
}

func TestCookieFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		tls       bool
		publicURL string
		secure    bool
	}{
		"plain":                   {false, "", false},
		"TLS":                     {true, "", true},
		"behind a proxy with TLS": {false, "https://assay.example.com", true},
		"behind a plain proxy":    {false, "http://assay.example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.tls, func(c *Config) { c.PublicURL, c.Provider = tc.publicURL, &fakeProvider{} })
			secret, _ := f.key(f.org, "a", time.Time{}, assay.ScopeRead)
			b := f.browser()
			prefix := ""
			if tc.secure {
				prefix = "__Host-"
			}
			for _, res := range []*http.Response{b.signIn(secret), f.browser().ask(ProviderPath, nil), b.ask(SignOutPath, url.Values{})} {
				for _, c := range res.Cookies() {
					require.True(t, strings.HasPrefix(c.Name, prefix+"assay_"), c.Name)
					require.Equal(t, tc.secure, c.Secure)
					require.True(t, c.HttpOnly)
					require.Equal(t, http.SameSiteLaxMode, c.SameSite)
					require.Equal(t, "/", c.Path)
					require.Empty(t, c.Domain)
				}
				require.Len(t, res.Cookies(), 1)
			}
		})
	}
}

// TestOtherSites checks that state-changing requests must be same-origin.
func TestOtherSites(t *testing.T) {
	f := newFixture(t, false, func(c *Config) { c.PublicURL = "http://assay.example.com" })
	secret, _ := f.key(f.org, "a", time.Time{}, assay.ScopeRead)
	b := f.browser()
	b.signIn(secret)
	for _, path := range []string{SignInPath, SignOutPath, SignOutAllPath, "/keys", "/insights/1/mute"} {
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"}, // such as another service under the same domain
			{"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
			{"Sec-Fetch-Site", "", "Origin", "null"},
			{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		} {
			res := b.ask(path, url.Values{"key": {secret}}, header...)
			require.Equal(t, http.StatusForbidden, res.StatusCode, "%s %v", path, header)
			require.NotEqual(t, "signed out", b.page(), "still signed in")
		}
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "none"},
		{"Sec-Fetch-Site", "", "Origin", f.server.URL},
		{"Sec-Fetch-Site", "", "Origin", "http://assay.example.com"}, // behind a proxy that changes the host
	} {
		require.Equal(t, http.StatusOK, b.ask("/keys", url.Values{}, header...).StatusCode, header)
	}
	// A GET request changes nothing.
	for _, path := range []string{SignOutPath, SignOutAllPath} {
		res := b.ask(path, nil)
		require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
		require.Equal(t, "POST", res.Header.Get("Allow"))
	}
	require.Equal(t, "GET, POST", mustMethod(t, b, http.MethodPut, SignInPath).Header.Get("Allow"))
	require.NotEqual(t, "signed out", b.page())
}

func mustMethod(t *testing.T, b *browser, method, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.f.server.URL+path, nil)
	require.NoError(t, err)
	res, err := b.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	return res
}

func TestStoreUnavailable(t *testing.T) {
	f := newFixture(t, false, nil)
	secret, _ := f.key(f.org, "a", time.Time{}, assay.ScopeRead)
	b := f.browser()
	b.signIn(secret)
	f.store.err = assay.Errorf(assay.CodeUnavailable, "the store is away")
	for _, path := range []string{"/", SignInPath} {
		res := b.ask(path, nil)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.Equal(t, "5", res.Header.Get("Retry-After"))
	}
	require.Equal(t, http.StatusServiceUnavailable, b.ask(SignOutPath, url.Values{}).StatusCode)
	require.NotNil(t, b.cookie(sessionCookie), "not signed out, and it does not look so")
	require.Equal(t, http.StatusOK, b.ask("/assets/app.css", nil).StatusCode, "the page about it needs its style")
	res := f.browser().ask(SignInPath, url.Values{"key": {secret}})
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Contains(t, text(t, res), failedStore)
	f.store.err = nil
	require.NotEqual(t, "signed out", b.page())
}

func TestNew(t *testing.T) {
	f := newFixture(t, false, nil)
	for name, spoil := range map[string]func(*Config){
		"no store":                    func(c *Config) { c.Store = nil },
		"no page":                     func(c *Config) { c.Page = nil },
		"no keys":                     func(c *Config) { c.Keys = nil },
		"a path":                      func(c *Config) { c.PublicURL = "/assay" },
		"no URL":                      func(c *Config) { c.PublicURL = "https://%zz" },
		"a provider without a signer": func(c *Config) { c.Provider, c.Signer = &fakeProvider{}, nil },
	} {
		cfg := f.cfg
		spoil(&cfg)
		_, err := New(cfg)
		require.Error(t, err, name)
	}
}

func TestToken(t *testing.T) {
	s := newSecret()
	parsed, ok := parseSecret(s.String())
	require.True(t, ok)
	require.Equal(t, s, parsed)
	require.Equal(t, sha256.Sum256(s[:]), s.hash())
	require.NotEqual(t, s, newSecret())
}

func FuzzParseSecret(f *testing.F) {
	f.Add(newSecret().String())
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := parseSecret(text); ok {
			require.Equal(t, text, s.String(), "one text for each token")
		}
	})
}
