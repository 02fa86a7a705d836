// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/dashboard/dashboardtest"
)

func TestWebhookPages(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	const hook = "/webhooks/" + dashboardtest.WebhookID
	form := url.Values{"name": {" a <new> hook "}, "url": {"https://example.com/x?token=7"}, "min_severity": {"Important"}, "environments": {"production\r\nstaging\r\n"}, "type": {"missing_service_name", "orphan_spans"}}
	r := s.post("/webhooks", form)
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	page := read(t, r)
	require.Contains(t, page, "whsec_5f0e")
	wellFormed(t, "/webhooks", page, elements(t, page))
	require.NotContains(t, s.page("/webhooks"), "whsec_", "shown once")
	made := s.Webhooks.Hooks[2]
	require.Equal(t, "a <new> hook", made.Name)
	require.Equal(t, []string{"production", "staging"}, made.Environments)
	require.Equal(t, []string{"missing_service_name", "orphan_spans"}, made.EventTypes)
	require.True(t, made.Enabled)
	require.Equal(t, dashboardtest.OrganizationID, made.OrganizationID)

	// A second submission creates nothing.
	r = s.post("/webhooks", form)
	require.Equal(t, http.StatusConflict, r.StatusCode)
	require.Contains(t, read(t, r), "exists")
	require.Len(t, s.Webhooks.Hooks, 3)
	form.Set("url", "http://example.com")
	r = s.post("/webhooks", form)
	require.Equal(t, http.StatusBadRequest, r.StatusCode)
	page = read(t, r)
	require.Contains(t, page, "URL must begin with https://.")
	require.Contains(t, page, `value="http://example.com"`)
	require.Contains(t, page, `value="orphan_spans" checked`)
	s.Webhooks.Err = assay.Errorf(assay.CodeConflict, "the limit")
	require.Equal(t, http.StatusConflict, s.post("/webhooks", form).StatusCode)
	s.Webhooks.Err = nil

	page = s.page(hook)
	require.Contains(t, page, "token=4f2a")
	require.Contains(t, page, "the target did not answer within 10s")
	require.Equal(t, 4, strings.Count(page, "<tr data-key"))
	require.Equal(t, http.StatusSeeOther, s.post(hook+"/test", nil).StatusCode)
	require.Contains(t, s.page(hook), "the certificate of the target is not valid")
	s.Webhooks.Err = assay.Errorf(assay.CodeRateLimited, "too many tests")
	require.Equal(t, http.StatusConflict, s.post(hook+"/test", nil).StatusCode)
	s.Webhooks.Err = &assay.Error{Code: assay.CodeInvalid, Details: map[string]string{"url": "must begin with https://"}}
	require.Equal(t, http.StatusConflict, s.post(hook+"/enable", nil).StatusCode)
	s.Webhooks.Err = nil

	require.Equal(t, http.StatusSeeOther, s.post(hook+"/disable", nil).StatusCode)
	require.False(t, s.Webhooks.Hooks[0].Enabled)
	const disabled = "/webhooks/" + dashboardtest.DisabledWebhookID
	require.Contains(t, s.page(disabled), "The server disabled this webhook")
	require.Equal(t, http.StatusSeeOther, s.post(disabled+"/enable", nil).StatusCode)
	require.NotContains(t, s.page(disabled), "The server disabled this webhook")

	require.Contains(t, s.page(hook+"/delete"), "Delete the webhook")
	require.Len(t, s.Webhooks.Hooks, 3, "asking changes nothing")
	r = s.post(hook+"/delete", nil)
	require.Equal(t, "/webhooks", r.Header.Get("Location"))
	require.Len(t, s.Webhooks.Hooks, 2)
	require.Equal(t, http.StatusNotFound, s.get(hook).StatusCode)
}

func TestWebhooksNeedAnAdmin(t *testing.T) {
	signedIn := dashboardtest.Session()
	signedIn.Scopes = []assay.Scope{assay.ScopeRead}
	s := newSite(t, dashboardtest.Shop(), as(signedIn))
	const hook = "/webhooks/" + dashboardtest.WebhookID
	for _, path := range []string{"/webhooks", hook} {
		page := s.page(path)
		require.Contains(t, page, "https://hooks.example.com/...")
		for _, hidden := range []string{"token", "Create webhook", hook + "/delete", hook + "/test"} {
			require.NotContains(t, page, hidden)
		}
	}
	for _, path := range []string{"/webhooks", hook + "/test", hook + "/enable", hook + "/disable", hook + "/delete"} {
		require.Equal(t, http.StatusForbidden, s.post(path, url.Values{"name": {"x"}, "url": {"https://example.com"}}).StatusCode, path)
	}
	require.Equal(t, http.StatusForbidden, s.get(hook+"/delete").StatusCode)
	require.Len(t, s.Webhooks.Hooks, 2)
	require.True(t, s.Webhooks.Hooks[0].Enabled)
}
