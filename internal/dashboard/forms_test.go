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
			require.NotEmpty(t, attribute(e, "href"), "a GET of a form's target")
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

// TestFailedFormKeepsInput checks that a form with an error can be submitted again with the typed text.
func TestFailedFormKeepsInput(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	s.Err = assay.Errorf(assay.CodeUnavailable, "unavailable")
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

	// A form that cannot succeed is not shown again.
	r = s.post("/keys/zzzzzz/revoke", nil)
	require.Equal(t, http.StatusNotFound, r.StatusCode)
	target, _ := formOf(t, read(t, r))
	require.Empty(t, target)

	// Before a page is reached, too.
	w := httptest.NewRecorder()
	s.handler.Fail(w, httptest.NewRequest(http.MethodPost, session.SignOutPath, nil), http.StatusServiceUnavailable, "unavailable")
	target, _ = formOf(t, w.Body.String())
	require.Equal(t, session.SignOutPath, target)
}

// TestSessionEndsBeforeAForm returns to the page of the form after signing in.
func TestSessionEndsBeforeAForm(t *testing.T) {
	s := newSite(t, dashboardtest.Shop(), as(nil))
	for path, want := range map[string]string{
		"/insights/7/mute": "/sign-in?return=%2Finsights%2F7", "/keys": "/sign-in?return=%2Fkeys", "/keys/q7Lm2P/revoke": "/sign-in?return=%2Fkeys%2Fq7Lm2P%2Frevoke",
		"/webhooks/7/test": "/sign-in?return=%2Fwebhooks%2F7", "/webhooks/7/delete": "/sign-in?return=%2Fwebhooks%2F7%2Fdelete", "/webhooks": "/sign-in?return=%2Fwebhooks",
	} {
		r := s.post(path, url.Values{"reason": {"x"}})
		require.Equal(t, http.StatusSeeOther, r.StatusCode)
		require.Equal(t, want, r.Header.Get("Location"))
	}
}

// TestNoThemeLinkOnFormResponse checks that the response to a form has no theme link: following it would lose
// the response.
func TestNoThemeLinkOnFormResponse(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	require.Contains(t, s.page("/keys"), `action="/theme"`)
	require.NotContains(t, read(t, s.post("/keys", url.Values{})), `action="/theme"`)
	w := httptest.NewRecorder()
	s.handler.SignInPage(w, httptest.NewRequest(http.MethodPost, session.SignInPath, nil), http.StatusUnauthorized, session.SignInPage{Return: "/services?q=a"})
	require.Contains(t, w.Body.String(), `name="return" value="/sign-in?return=%2Fservices%3Fq%3Da"`, "the link back is preserved")
}

func TestThemeCookieIsSecure(t *testing.T) {
	for public, want := range map[string]bool{"": false, "http://assay.example.com": false, "https://assay.example.com": true} {
		s := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.PublicURL = public })
		require.Equal(t, want, s.post("/theme", url.Values{"theme": {"dark"}}).Cookies()[0].Secure, public)
	}
}

// TestReasonsAreNotTruncated checks that the longest text that the browser accepts is stored completely, and
// that a longer one is rejected.
func TestReasonsAreNotTruncated(t *testing.T) {
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
