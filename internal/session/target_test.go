// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
)

var hostileReturns = []string{
	"", "services", "https://evil.example", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example", "/\n/evil.example",
	"\t//evil.example", " //evil.example", "javascript:alert(1)", "data:text/html,x", "https:evil.example", "http:///evil.example", "/a\x00", "/a\r\nSet-Cookie: x=y",
	"/%zz", "/sign-in", "/sign-in?return=/sign-in", "/%73ign-in", "/sign-in/provider", "/sign-out", "/sign-out/all", "/" + strings.Repeat("x", maxReturn), "?x", "#x", "/.//evil.example\\",
	"/\u0085/evil", "@evil.example", ":80",
}

func TestSafeReturn(t *testing.T) {
	for _, back := range hostileReturns {
		require.Equal(t, "/", safeReturn(back), "%q", back)
	}
	for back, want := range map[string]string{
		"/":                                "/",
		"/services?search=%22a%20b&page=2": "/services?search=%22a%20b&page=2",
		"/insights/7?x=//evil.example":     "/insights/7?x=//evil.example",
		"/rules/RES-001#choices":           "/rules/RES-001",
		"/sign-innards":                    "/sign-innards",
		"/services?search=%2F%2Fä":         "/services?search=%2F%2Fä",
	} {
		require.Equal(t, want, safeReturn(back), "%q", back)
	}
}

// FuzzSafeReturn checks that a browser that follows the target stays on this site.
func FuzzSafeReturn(f *testing.F) {
	for _, back := range hostileReturns {
		f.Add(back)
	}
	here := &url.URL{Scheme: "https", Host: "assay.example.com", Path: "/sign-in"}
	f.Fuzz(func(t *testing.T, back string) {
		safe := safeReturn(back)
		to, err := here.Parse(safe)
		require.NoError(t, err)
		require.Equal(t, "https://assay.example.com", to.Scheme+"://"+to.Host, "%q", safe)
		require.True(t, safe[0] == '/' && !strings.HasPrefix(safe, "//") && !strings.ContainsAny(safe, "\\\r\n\t"), "%q", safe)
		require.Equal(t, safe, safeReturn(safe))
	})
}

// TestOpenRedirect tries every way in.
func TestOpenRedirect(t *testing.T) {
	f := newFixture(t, false, func(c *Config) { c.Provider = &fakeProvider{user: &User{Subject: "u"}} })
	f.cfg.Provider.(*fakeProvider).user.OrganizationID = f.org
	secret, _ := keyOf(f)
	for _, back := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example"} {
		b := f.browser()
		res := b.ask(SignInPath, url.Values{"key": {secret}, "return": {back}})
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, "/", res.Header.Get("Location"))
		require.Equal(t, "/", b.ask(SignInPath+"?"+url.Values{"return": {back}}.Encode(), nil).Header.Get("Location"))

		b = f.browser()
		b.ask(ProviderPath+"?"+url.Values{"return": {back}}.Encode(), nil)
		res = b.ask(f.cfg.Provider.(*fakeProvider).callback(), nil)
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, "/", res.Header.Get("Location"))
	}
}

func keyOf(f *fixture) (secret, id string) {
	key, _ := f.key(f.org, "a", f.now.AddDate(1, 0, 0), assay.ScopeRead)
	return key, ""
}
