// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/dashboard/dashboardtest"
)

// onceOf returns the one-time token of a page's form.
func onceOf(t *testing.T, page string) string {
	t.Helper()
	m := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, m, page)
	return m[1]
}

func TestKeysAreMadeAndRevoked(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	require.Contains(t, s.page("/keys"), "collector, production")
	once := onceOf(t, s.page("/keys"))
	r := s.post("/keys", url.Values{"once": {once}, "name": {"a <new> key"}, "scope": {"ingest", "ingest", "nonsense"}, "days": {"30"}})
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	page := read(t, r)
	made := s.APIKeys[len(s.APIKeys)-1]
	require.Equal(t, []assay.Scope{assay.ScopeIngest}, made.Scopes)
	require.Equal(t, dashboardtest.Now.AddDate(0, 0, 30), made.ExpiresAt)
	secret := regexp.MustCompile(`assay_sk_[0-9a-zA-Z]+_[0-9a-f]{32}`).FindString(page)
	require.NotEmpty(t, secret)
	require.Contains(t, page, "OTEL_EXPORTER_OTLP_HEADERS=&#34;Authorization=Bearer%20"+secret+"&#34;")
	require.Contains(t, page, "endpoint: 127.0.0.1:4317")
	require.NotContains(t, s.page("/keys"), secret, "shown once")

	once = onceOf(t, s.page("/keys"))
	for _, form := range []url.Values{
		{"scope": {"read"}, "days": {"1"}},
		{"name": {"x"}, "days": {"1"}},
		{"name": {"x"}, "scope": {"read"}, "days": {"-1"}},
		{"name": {"x"}, "scope": {"read"}, "days": {"1e9"}},
		{"name": {strings.Repeat("x", 101)}, "scope": {"read"}, "days": {"1"}},
	} {
		form.Set("once", once)
		require.Equal(t, http.StatusBadRequest, s.post("/keys", form).StatusCode, form)
	}
	require.Contains(t, s.page("/keys/q7Lm2P/revoke"), "Revoke the key")
	require.True(t, s.APIKeys[1].RevokedAt.IsZero(), "asking changes nothing")
	require.Equal(t, http.StatusSeeOther, s.post("/keys/q7Lm2P/revoke", nil).StatusCode)
	require.False(t, s.APIKeys[1].RevokedAt.IsZero())
	require.Equal(t, http.StatusNotFound, s.get("/keys/q7Lm2P/revoke").StatusCode)
}

func TestKeysNeedAnAdmin(t *testing.T) {
	signedIn := dashboardtest.Session()
	signedIn.Scopes = []assay.Scope{assay.ScopeRead}
	s := newSite(t, dashboardtest.Shop(), as(signedIn))
	page := s.page("/keys")
	require.Contains(t, page, "needs a session with the scope <code>admin</code>")
	for _, hidden := range []string{"Create key", "/revoke", "q7Lm2P", "collector, production"} {
		require.NotContains(t, page, hidden, "the scope read does not list keys")
	}
	for _, r := range []*http.Response{
		s.post("/keys", url.Values{"name": {"x"}, "scope": {"read"}, "days": {"1"}}), s.get("/keys/q7Lm2P/revoke"), s.post("/keys/q7Lm2P/revoke", nil),
	} {
		require.Equal(t, http.StatusForbidden, r.StatusCode)
		require.Contains(t, read(t, r), "Not allowed")
	}
	require.Len(t, s.APIKeys, 5)
}

// TestFormCreatesOneKey submits a form twice, like a reload or a double click.
func TestFormCreatesOneKey(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	form := url.Values{"once": {onceOf(t, s.page("/keys"))}, "name": {"a key"}, "scope": {"ingest"}, "days": {"0"}}
	page := read(t, s.post("/keys", form))
	require.Contains(t, page, "assay_sk_")
	require.Contains(t, page, "It does not expire")
	require.Len(t, s.APIKeys, 6)

	r := s.post("/keys", form)
	require.Equal(t, http.StatusConflict, r.StatusCode)
	page = read(t, r)
	require.NotContains(t, page, "assay_sk_")
	require.Contains(t, page, "A key was already created from this form")
	require.Contains(t, page, `value="a key"`)
	require.Len(t, s.APIKeys, 6)

	form.Set("once", onceOf(t, page)) // submitted again intentionally
	require.Equal(t, http.StatusOK, s.post("/keys", form).StatusCode)
	form.Del("once")
	require.Equal(t, http.StatusBadRequest, s.post("/keys", form).StatusCode)
	require.Len(t, s.APIKeys, 7)

	// The first run's button, too.
	empty := newSite(t, dashboardtest.Empty())
	form = url.Values{"once": {onceOf(t, empty.page("/"))}, "name": {"first service"}, "scope": {"ingest"}, "days": {"0"}}
	require.Equal(t, http.StatusOK, empty.post("/keys", form).StatusCode)
	require.Equal(t, http.StatusConflict, empty.post("/keys", form).StatusCode)
	require.True(t, empty.APIKeys[1].ExpiresAt.IsZero())
}

// TestManyKeys pages through a thousand keys.
func TestManyKeys(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	for i := range 1000 {
		s.APIKeys = append(s.APIKeys, &assay.APIKey{
			ID: fmt.Sprintf("K%05d", i), OrganizationID: dashboardtest.OrganizationID, Name: fmt.Sprintf("key %d of a service", i), Scopes: assay.Scopes(),
			CreatedAt: dashboardtest.Now,
		})
	}
	page := s.page("/keys")
	require.Equal(t, 50, strings.Count(page, "<tr data-key"))
	require.Contains(t, page, "1–50 of 1,005")
	require.Contains(t, page, `href="/keys?page=2" rel="next"`)
	require.Less(t, packedSize(t, s, "/keys"), 30<<10)
	page = s.page("/keys?page=21")
	require.Contains(t, page, "old laptop", "revoked keys are last")
	require.Equal(t, 5, strings.Count(page, "<tr data-key"))
	r := s.get("/keys?page=99")
	require.Equal(t, http.StatusSeeOther, r.StatusCode)
	require.Equal(t, "/keys?page=21", r.Header.Get("Location"))
}
