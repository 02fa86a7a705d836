// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"assay"
	"assay/internal/dashboard"
	"assay/internal/dashboard/dashboardtest"
	"assay/internal/session"
)

// formOf returns the target and the fields of the form in main.
func formOf(t *testing.T, page string) (target string, fields url.Values) {
	t.Helper()
	fields = url.Values{}
	for _, e := range elements(t, page) {
		if !within(e, "main") {
			continue
		}
		switch e.Data {
		case "form":
			target = attribute(e, "action")
		case "input":
			fields.Add(attribute(e, "name"), attribute(e, "value"))
		case "a":
			require.NotEmpty(t, attribute(e, "href"), "a GET of what only takes a form")
		}
	}
	return target, fields
}

func within(n *html.Node, element string) bool {
	for n = n.Parent; n != nil; n = n.Parent {
		if n.Data == element {
			return true
		}
	}
	return false
}

// TestAFormThatFails can be sent again with what was typed.
func TestAFormThatFails(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	s.Err = assay.Errorf(assay.CodeUnavailable, "away")
	insight := "/insights/" + s.Found[0].ID
	for path, back := range map[string]string{insight + "/mute": insight, insight + "/unmute": insight, "/keys": "/keys", "/keys/q7Lm2P/revoke": "/keys/q7Lm2P/revoke"} {
		sent := url.Values{"reason": {`a "long" reason`}, "scope": {"read", "ingest"}}
		r := s.post(path, sent)
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode, path)
		page := read(t, r)
		target, fields := formOf(t, page)
		require.Equal(t, path, target)
		require.Equal(t, sent, fields)
		require.Contains(t, page, `href="`+back+`"`)
		wellFormed(t, path, page, elements(t, page))
	}
	s.Err = nil
	r := s.post(insight+"/mute", url.Values{"reason": {`a "long" reason`}})
	require.Equal(t, http.StatusSeeOther, r.StatusCode)

	// What cannot be put right by sending it again is not offered.
	r = s.post("/keys/zzzzzz/revoke", nil)
	require.Equal(t, http.StatusNotFound, r.StatusCode)
	target, _ := formOf(t, read(t, r))
	require.Empty(t, target)

	// Before a page is reached, too.
	w := httptest.NewRecorder()
	s.handler.Fail(w, httptest.NewRequest(http.MethodPost, session.SignOutPath, nil), http.StatusServiceUnavailable, "away")
	target, _ = formOf(t, w.Body.String())
	require.Equal(t, session.SignOutPath, target)
}

// TestSessionEndsBeforeAForm comes back to the page that had it.
func TestSessionEndsBeforeAForm(t *testing.T) {
	s := newSite(t, dashboardtest.Shop(), as(nil))
	for path, want := range map[string]string{
		"/insights/7/mute": "/sign-in?return=%2Finsights%2F7", "/keys": "/sign-in?return=%2Fkeys", "/keys/q7Lm2P/revoke": "/sign-in?return=%2Fkeys%2Fq7Lm2P%2Frevoke",
	} {
		r := s.post(path, url.Values{"reason": {"x"}})
		require.Equal(t, http.StatusSeeOther, r.StatusCode)
		require.Equal(t, want, r.Header.Get("Location"))
	}
}

// TestThemeIsNoWayAway: what is shown in the answer to a form would be lost.
func TestThemeIsNoWayAway(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	require.Contains(t, s.page("/keys"), `action="/theme"`)
	require.NotContains(t, read(t, s.post("/keys", url.Values{})), `action="/theme"`)
	w := httptest.NewRecorder()
	s.handler.SignInPage(w, httptest.NewRequest(http.MethodPost, session.SignInPath, nil), http.StatusUnauthorized, session.SignInPage{Return: "/services?q=a"})
	require.Contains(t, w.Body.String(), `name="return" value="/sign-in?return=%2Fservices%3Fq%3Da"`, "and the way back is kept")
}

func TestThemeCookieIsSecure(t *testing.T) {
	for public, want := range map[string]bool{"": false, "http://assay.example.com": false, "https://assay.example.com": true} {
		s := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.PublicURL = public })
		require.Equal(t, want, s.post("/theme", url.Values{"theme": {"dark"}}).Cookies()[0].Secure, public)
	}
}

// TestReasonsAreNotCut: what a browser lets somebody type is kept whole, and what is
// longer is refused.
func TestReasonsAreNotCut(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	path := "/insights/" + s.Found[0].ID
	for text, want := range map[string]string{
		strings.Repeat("ß", 500):           strings.Repeat("ß", 500),
		strings.Repeat("\U0001F511", 250):  strings.Repeat("\U0001F511", 250),
		strings.Repeat("a\r\n", 249) + "b": strings.Repeat("a\n", 249) + "b",
	} {
		require.Equal(t, http.StatusSeeOther, s.post(path+"/mute", url.Values{"reason": {text}}).StatusCode)
		require.Equal(t, want, s.Found[0].MuteReason)
	}
	for _, long := range []string{strings.Repeat("a", 501), strings.Repeat("\U0001F511", 251)} {
		r := s.post(path+"/mute", url.Values{"reason": {long}})
		require.Equal(t, http.StatusBadRequest, r.StatusCode)
		require.Contains(t, read(t, r), "longer than 500 characters")
	}
	require.NotEqual(t, strings.Repeat("a", 500), s.Found[0].MuteReason)
}
