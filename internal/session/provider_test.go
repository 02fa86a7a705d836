// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// fakeProvider records its calls and returns the configured results.
type fakeProvider struct {
	user     *User
	err      error
	hold     chan struct{} // if not nil, Exchange waits until it is closed
	held     chan struct{} // receives a value for each waiting Exchange
	calls    atomic.Int64  // of Exchange
	asked    Authorization // the last
	code     string        // that was exchanged
	verifier string
}

func (p *fakeProvider) AuthorizationURL(_ context.Context, a Authorization) (string, error) {
	p.asked = a
	return "https://id.example.com/authorize?state=" + a.State, p.err
}

func (p *fakeProvider) Exchange(_ context.Context, code, verifier string, a Authorization) (*User, error) {
	p.calls.Add(1)
	if p.hold != nil {
		p.held <- struct{}{}
		<-p.hold
		return nil, assay.Errorf(assay.CodeUnavailable, "held")
	}
	if a != p.asked {
		return nil, assay.Errorf(assay.CodeInternal, "exchanged with other parameters than requested")
	}
	p.code, p.verifier = code, verifier
	return p.user, p.err
}

// callback returns the URL to which a provider redirects after sign-in.
func (p *fakeProvider) callback() string {
	return CallbackPath + "?" + url.Values{"code": {"authorization-code-1"}, "state": {p.asked.State}}.Encode()
}

func newProviderFixture(t *testing.T) (*fixture, *fakeProvider) {
	p := &fakeProvider{user: &User{Subject: "user-1", Name: "Ada Example"}}
	f := newFixture(t, true, func(c *Config) { c.Provider = p })
	p.user.OrganizationID = f.org
	return f, p
}

func TestSignInAtProvider(t *testing.T) {
	f, p := newProviderFixture(t)
	b := f.browser()
	require.Contains(t, text(t, b.ask(SignInPath, nil)), "provider true")
	res := b.ask(ProviderPath+"?return=/insights", nil)
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, "https://id.example.com/authorize?state="+p.asked.State, res.Header.Get("Location"))
	require.Equal(t, f.server.URL+CallbackPath, p.asked.RedirectURI)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))

	res = b.ask(p.callback(), nil)
	require.Equal(t, http.StatusSeeOther, res.StatusCode, text(t, res))
	require.Equal(t, "/insights", res.Header.Get("Location"))
	require.Nil(t, b.cookie(signInCookie), "used up")
	require.Equal(t, "authorization-code-1", p.code)
	sum := sha256.Sum256([]byte(p.verifier))
	require.Equal(t, p.asked.Challenge, base64.RawURLEncoding.EncodeToString(sum[:]))
	require.GreaterOrEqual(t, len(p.verifier), 43) // RFC 7636, section 4.1
	require.Equal(t, "Ada Example of "+f.org+", admin false", b.page())
	s, err := f.store.FindSession(t.Context(), tokenOf(t, b).hash(), f.now)
	require.NoError(t, err)
	require.True(t, s.User())
	require.Equal(t, []assay.Scope{assay.ScopeRead, assay.ScopeAgent}, s.Scopes)
	for _, secret := range []string{p.code, p.verifier, p.asked.Nonce, p.asked.State, "Ada"} {
		require.NotContains(t, f.log.String(), secret)
	}

	p.user.Admin = true
	b = f.browser()
	b.ask(ProviderPath, nil)
	b.ask(p.callback(), nil)
	require.Equal(t, "Ada Example of "+f.org+", admin true", b.page())
}

// TestHostileCallback checks that a callback signs in only the browser that began the sign-in.
func TestHostileCallback(t *testing.T) {
	f, p := newProviderFixture(t)
	u, err := url.Parse(f.server.URL)
	require.NoError(t, err)
	attacker := f.browser()
	attacker.ask(ProviderPath, nil)
	theirs := p.callback() // with a code of the attacker's account

	refuse := func(path string, status int, change func(*browser)) {
		t.Helper()
		b := f.browser()
		b.ask(ProviderPath, nil)
		if change != nil {
			change(b)
		}
		path = strings.ReplaceAll(path, "STATE", p.asked.State)
		p.code = ""
		res := b.ask(path, nil)
		require.Equal(t, status, res.StatusCode, path)
		require.NotContains(t, text(t, res), "<script>")
		require.Empty(t, p.code, "no code is exchanged")
		require.Nil(t, b.cookie(sessionCookie))
	}
	bad := http.StatusBadRequest
	refuse(theirs, bad, nil)
	refuse(theirs, bad, func(b *browser) {
		b.Jar.SetCookies(u, []*http.Cookie{{Name: hostPrefix + signInCookie, MaxAge: -1, Path: "/", Secure: true}})
	})
	for _, query := range []string{
		"", "code=c", "state=STATE", "code=c&state=", "code=c&state=x", "code=c&state=STATE&state=STATE", "code=c&code=d&state=STATE", "code=&state=STATE",
		"code=" + strings.Repeat("c", maxCode+1) + "&state=STATE", "code=c&state=STATEx", "code=c&state=%00", "code=c;state=STATE",
	} {
		refuse(CallbackPath+"?"+query, bad, nil)
	}
	refuse(CallbackPath+"?error=access_denied&error_description=<script>&state=STATE", http.StatusForbidden, nil)
	refuse(CallbackPath+"?error=%3Cscript%3E%0Aforged&code=c&state=STATE", http.StatusForbidden, nil)
	refuse(CallbackPath+"?error=access_denied&state=x", bad, nil)
	require.NotContains(t, f.log.String(), "forged")
	for _, value := range []string{"", ".", "x", newSecret().String(), newSecret().String() + ".!", newSecret().String() + "." + base64.RawURLEncoding.EncodeToString([]byte("//evil.example"))} {
		refuse(CallbackPath+"?code=c&state=STATE", bad, func(b *browser) {
			b.Jar.SetCookies(u, []*http.Cookie{{Name: hostPrefix + signInCookie, Value: value, Path: "/", Secure: true}})
		})
	}
	// A cookie without the __Host- prefix is ignored.
	refuse(CallbackPath+"?code=c&state=STATE", bad, func(b *browser) {
		mine := b.cookie(signInCookie)
		b.Jar.SetCookies(u, []*http.Cookie{{Name: hostPrefix + signInCookie, MaxAge: -1, Path: "/", Secure: true}, {Name: signInCookie, Value: mine.Value, Path: "/"}})
	})

	// A callback works once.
	b := f.browser()
	b.ask(ProviderPath, nil)
	require.Equal(t, http.StatusSeeOther, b.ask(p.callback(), nil).StatusCode)
	require.Equal(t, http.StatusBadRequest, b.ask(p.callback(), nil).StatusCode)
	require.NotEqual(t, "signed out", b.page(), "and does not sign out")
}

func TestProviderFails(t *testing.T) {
	f, p := newProviderFixture(t)
	f.manager.cfg.Failures = nil
	for code, want := range map[assay.Code]struct {
		status int
		says   string
	}{
		assay.CodeUnavailable:  {http.StatusServiceUnavailable, failedProvider},
		assay.CodeInternal:     {http.StatusServiceUnavailable, failedProvider},
		assay.CodeInvalidToken: {http.StatusForbidden, failedRefused},
		assay.CodeForbidden:    {http.StatusForbidden, failedUser},
	} {
		b := f.browser()
		p.err = nil
		b.ask(ProviderPath, nil)
		p.err = assay.Errorf(code, "of the provider")
		for _, path := range []string{p.callback(), ProviderPath} {
			res := b.ask(path, nil)
			require.Equal(t, want.status, res.StatusCode, "%s %s", code, path)
			require.Contains(t, text(t, res), want.says)
			require.NotContains(t, text(t, res), "of the provider")
			require.Nil(t, b.cookie(sessionCookie))
		}
	}
	// The organization was deleted in the meantime.
	p.err, p.user.OrganizationID = nil, "00000000-0000-4000-8000-000000000000"
	b := f.browser()
	b.ask(ProviderPath, nil)
	res := b.ask(p.callback(), nil)
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.Contains(t, text(t, res), failedUser)
	require.Equal(t, "signed out", b.page())
	// The store is unavailable.
	p.user.OrganizationID = f.org
	b.ask(ProviderPath, nil)
	f.store.err = assay.Errorf(assay.CodeUnavailable, "away")
	require.Equal(t, http.StatusServiceUnavailable, b.ask(p.callback(), nil).StatusCode)
}

// begin starts a sign-in in a new browser. p.callback completes it.
func (f *fixture) begin() *browser {
	b := f.browser()
	require.Equal(f.t, http.StatusSeeOther, b.ask(ProviderPath, nil).StatusCode)
	return b
}

// TestFailedExchangesAreLimited begins one sign-in after the other, with made-up codes that assay sends to
// the provider.
func TestFailedExchangesAreLimited(t *testing.T) {
	f, p := newProviderFixture(t)
	ada := f.begin() // this browser is known from now on
	require.Equal(t, http.StatusSeeOther, ada.ask(p.callback(), nil).StatusCode)
	require.NotNil(t, ada.cookie(knownCookie))
	attack := func(b *browser, err error) *http.Response {
		p.err = nil
		b.ask(ProviderPath, nil)
		p.err = err
		return b.ask(p.callback(), nil)
	}
	wrong := assay.Errorf(assay.CodeInvalidToken, "no such code")
	for range 3 { // the limit of the fixture
		require.Equal(t, http.StatusForbidden, attack(f.browser(), wrong).StatusCode)
	}
	for range 3 {
		res := attack(f.browser(), wrong)
		require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
		require.Contains(t, text(t, res), failedTooOften)
	}
	require.EqualValues(t, 1+3, p.calls.Load(), "no request to the provider")
	require.Equal(t, 3, strings.Count(f.log.String(), "level=WARN"))

	// A user with a known browser signs in from the same address, as behind a proxy.
	for range 5 {
		require.Equal(t, http.StatusSeeOther, attack(ada, nil).StatusCode)
	}
	// Keys have a separate limit per address.
	require.Equal(t, http.StatusUnauthorized, f.browser().ask(SignInPath, url.Values{"key": {"wrong"}}).StatusCode)
	// Failures are allowed again after a while, and successes do not count.
	f.now = f.now.Add(20 * time.Second)
	require.Equal(t, http.StatusSeeOther, attack(f.browser(), nil).StatusCode)
	require.Equal(t, http.StatusSeeOther, attack(f.browser(), nil).StatusCode)
	// A known browser has its own limit.
	for range 3 {
		require.Equal(t, http.StatusForbidden, attack(ada, wrong).StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, attack(ada, wrong).StatusCode)
	require.Equal(t, http.StatusSeeOther, attack(f.browser(), nil).StatusCode)
	// A browser does not stay known forever.
	f.now = f.now.Add(knownLife)
	for range 3 {
		require.Equal(t, http.StatusForbidden, attack(f.browser(), wrong).StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, attack(ada, nil).StatusCode)
}

// TestFailedKeysRefuseNoExchange checks that failed keys from an address do not prevent sign-ins at the
// provider.
func TestFailedKeysRefuseNoExchange(t *testing.T) {
	f, p := newProviderFixture(t)
	for range 20 {
		f.browser().ask(SignInPath, url.Values{"key": {"wrong"}})
	}
	require.Equal(t, http.StatusTooManyRequests, f.browser().ask(SignInPath, url.Values{"key": {"wrong"}}).StatusCode)
	require.Equal(t, http.StatusSeeOther, f.begin().ask(p.callback(), nil).StatusCode)
}

// TestForgedSignInsAreFree checks that a callback that this installation did not begin is rejected before it
// counts, and does not affect users at the same address.
func TestForgedSignInsAreFree(t *testing.T) {
	f, p := newProviderFixture(t)
	forge := func(cookie string, of flow) *http.Response {
		p.asked = of.authorization(f.server.URL + CallbackPath)
		return f.browser().ask(p.callback(), nil, "Cookie", hostPrefix+signInCookie+"="+cookie)
	}
	signed := func(purpose string, of flow, expires time.Time) string {
		s, err := fakeSigner{}.SignText(purpose, strconv.FormatInt(expires.Unix(), 10)+"."+of.String())
		require.NoError(t, err)
		return s
	}
	made := flow{secret: newSecret(), back: "/x"}
	good := signed(signedFlow, made, f.now.Add(signInLife))
	for what, cookie := range map[string]string{
		"not signed":         made.String(),
		"signed otherwise":   strings.Repeat("0", 64) + good[64:],
		"for something else": signed(signedKnown, made, f.now.Add(signInLife)),
		"too old":            signed(signedFlow, made, f.now),
		"changed":            good + "x",
		"cut":                good[:len(good)-1],
	} {
		for range 5 {
			require.Equal(t, http.StatusBadRequest, forge(cookie, made).StatusCode, what)
		}
	}
	require.Zero(t, p.calls.Load(), "no request to the provider")
	require.Equal(t, http.StatusSeeOther, forge(good, made).StatusCode)
	p.err = assay.Errorf(assay.CodeInvalidToken, "no such code")
	for range 3 {
		require.Equal(t, http.StatusForbidden, forge(good, made).StatusCode, "nothing counted before")
	}
}

func TestExchangesInFlightAreBounded(t *testing.T) {
	f, p := newProviderFixture(t)
	f.manager.cfg.Failures = nil
	ada := f.begin()
	require.Equal(t, http.StatusSeeOther, ada.ask(p.callback(), nil).StatusCode)
	ada.ask(ProviderPath, nil)
	adas := p.callback()
	b := f.begin()
	path, cookie := p.callback(), b.cookie(signInCookie).Value
	p.calls.Store(0)
	p.hold, p.held = make(chan struct{}), make(chan struct{}, maxExchanges)
	ask := func(known bool) *http.Response {
		if known {
			return f.browser().ask(adas, nil, "Cookie", hostPrefix+signInCookie+"="+ada.cookie(signInCookie).Value+"; "+hostPrefix+knownCookie+"="+ada.cookie(knownCookie).Value)
		}
		return f.browser().ask(path, nil, "Cookie", hostPrefix+signInCookie+"="+cookie)
	}
	var waiting sync.WaitGroup
	hold := func(n int, known bool) {
		for range n {
			waiting.Go(func() { ask(known) })
		}
		for range n {
			<-p.held
		}
		res := ask(known)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.Contains(t, text(t, res), failedBusy)
	}
	hold(maxStrangers, false)
	hold(maxExchanges-maxStrangers, true) // unknown browsers leave them room
	close(p.hold)
	waiting.Wait()
	require.EqualValues(t, maxExchanges, p.calls.Load())
	require.Contains(t, text(t, ask(false)), failedProvider, "then there is room")
}

func TestNoProvider(t *testing.T) {
	f := newFixture(t, false, nil)
	for _, path := range []string{ProviderPath, CallbackPath + "?code=c&state=s"} {
		require.Equal(t, http.StatusNotFound, f.browser().ask(path, nil).StatusCode)
	}
}

func TestRedirectURI(t *testing.T) {
	for _, tc := range []struct {
		tls               bool
		publicURL, prefix string
	}{
		{false, "", "http://127.0.0.1:"}, {true, "", "https://127.0.0.1:"}, {false, "https://assay.example.com/", "https://assay.example.com" + CallbackPath},
	} {
		p := new(fakeProvider)
		f := newFixture(t, tc.tls, func(c *Config) { c.Provider, c.PublicURL = p, tc.publicURL })
		f.browser().ask(ProviderPath, nil)
		require.True(t, strings.HasPrefix(p.asked.RedirectURI, tc.prefix), p.asked.RedirectURI)
		require.True(t, strings.HasSuffix(p.asked.RedirectURI, CallbackPath), p.asked.RedirectURI)
	}
}

func TestFlow(t *testing.T) {
	f := flow{secret: newSecret(), back: "/a?b=c"}
	parsed, ok := parseFlow(f.String())
	require.True(t, ok)
	require.Equal(t, f, parsed)
	a := f.authorization("https://x")
	all := map[string]bool{f.secret.String(): true, f.verifier(): true, a.State: true, a.Nonce: true, a.Challenge: true}
	require.Len(t, all, 5, "none is another")
	require.Equal(t, a, parsed.authorization("https://x"))
	require.Less(t, len(flow{secret: newSecret(), back: "/" + strings.Repeat("x", maxReturn-1)}.String()), 4000, "limits of browsers")
	require.Equal(t, 10*time.Minute, signInLife)
}

func FuzzParseFlow(f *testing.F) {
	f.Add(flow{secret: newSecret(), back: "/a"}.String())
	f.Add(".")
	f.Add(newSecret().String() + "." + base64.RawURLEncoding.EncodeToString([]byte("//evil.example")))
	f.Fuzz(func(t *testing.T, text string) {
		if parsed, ok := parseFlow(text); ok {
			require.Equal(t, parsed.back, safeReturn(parsed.back))
			again, ok := parseFlow(parsed.String())
			require.True(t, ok)
			require.Equal(t, parsed, again)
		}
	})
}
