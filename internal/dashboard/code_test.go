// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/dashboard"
	"assay/internal/dashboard/dashboardtest"
)

func TestRepositories(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	page := s.page("/repositories")
	require.Contains(t, page, "shop/checkout")
	require.Contains(t, page, `href="/repositories/connect"`)
	repository := "/repositories/" + dashboardtest.RepositoryID
	page = s.page(repository)
	require.Contains(t, page, "Traces and metrics by the Go SDK.")
	require.Contains(t, page, "internal/order/place.go")
	require.NotContains(t, page, "Paths to leave out", "settings are for users")

	finding := repository + "/findings/" + dashboardtest.FindingID
	page = s.page(finding)
	require.Contains(t, page, `<li class="marked"><span>42</span>`)
	require.Contains(t, page, `href="/insights/`+s.Found[0].ID+`"`)
	require.Contains(t, s.page("/insights/"+s.Found[0].ID), `href="`+finding+`"`)
	require.Contains(t, s.page(repository+"/findings/otel-ba9876543210"), "known", "a dismissed finding")
	require.Contains(t, s.page("/runs/"+dashboardtest.RunID), "checkout started")
	const place = `<span class="sub"><bdi>internal/order/place.go</bdi>:42</span>`
	require.Contains(t, s.page(repository), place)
	page = s.page("/findings?severity=critical,high")
	require.Contains(t, page, "Attribute holds personal data")
	require.Contains(t, page, strings.Replace(place, `"sub">`, `"sub"><bdi>shop/checkout</bdi> · `, 1))

	for path, status := range map[string]int{
		"/repositories/nope": 404, "/repositories/" + dashboardtest.RunID: 404, "/runs/nope": 404, repository + "/findings/otel-0": 404, "/findings?severity=worst": 400,
	} {
		require.Equal(t, status, s.get(path).StatusCode, path)
	}
}

// TestFixRun shows the change of a run and the results of its verification.
func TestFixRun(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	s.Patch = "--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-old\n+<script>\u202e\n" + strings.Repeat(" same\n", 600)
	page := s.page("/runs/" + dashboardtest.FixID)
	require.Contains(t, page, "Verification: <bdi>verified</bdi>")
	require.Contains(t, page, "Left to do")
	require.Contains(t, page, "go mod tidy")
	require.NotContains(t, page, "Require `go.opentelemetry.io/otel`", "completed steps are in the patch")
	require.Contains(t, page, `href="https://git.example.com/shop/checkout/pulls/7"`)
	require.Contains(t, page, `<li class="removed"><code><bdi>-old<`)
	require.Contains(t, page, "88.0")
	require.NotContains(t, page, "<script>\u202e")
	require.Contains(t, page, "105 more lines")
	require.NotContains(t, page, "Publish this fix")
	res := s.get("/runs/" + dashboardtest.FixID + "/patch")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.Header.Get("Content-Disposition"), "attachment")
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, s.Patch, string(body))
	require.Equal(t, http.StatusNotFound, s.get("/runs/nope/patch").StatusCode)

	require.Contains(t, s.page("/repositories/"+dashboardtest.RepositoryID), `name="finding" value="`+dashboardtest.FindingID+`"`)
	require.Contains(t, s.page("/repositories/"+dashboardtest.RepositoryID+"/findings/"+dashboardtest.FindingID), "Fix it by a change")
	require.NotContains(t, s.page("/repositories/"+dashboardtest.RepositoryID), "by the language model")
	const other = "/repositories/" + dashboardtest.RepositoryID + "/findings/otel-ba9876543210"
	require.NotContains(t, s.page(other), "Fix it by a change", "it has no mechanical fix")
	s = newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.AgentModel = true })
	require.Contains(t, s.page(other), "A language model proposes the change.")
	require.Contains(t, s.page("/repositories/"+dashboardtest.RepositoryID), "by the language model")
}

// TestOutputOfTests: the page of a run shows the last lines of tests that failed.
func TestOutputOfTests(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	require.NotContains(t, s.page("/runs/"+dashboardtest.FixID), "Output of the tests")
	s.TestOutput = strings.Repeat("collected\n", 20) + "<b>\x1b[31m\nNo module named pytest\n"
	page := s.page("/runs/" + dashboardtest.FixID)
	require.Contains(t, page, "<bdi>No module named pytest<")
	require.Contains(t, page, "&lt;b&gt;")
	require.NotContains(t, page, "\x1b")
	require.Equal(t, 8, strings.Count(page, "collected"))
}

func TestRepositoryForms(t *testing.T) {
	repository := "/repositories/" + dashboardtest.RepositoryID
	finding := repository + "/findings/" + dashboardtest.FindingID
	for _, tt := range []struct {
		path string
		form url.Values
		to   string
		call string
	}{
		{repository + "/activate", nil, repository, `PATCH ` + repository + ` {"is_active":true}`},
		{repository + "/deactivate", nil, repository, `PATCH ` + repository + ` {"is_active":false}`},
		{repository + "/review", nil, "/runs/" + dashboardtest.RunID, `POST /codebase/review/execute {"repo_id":"` + dashboardtest.RepositoryID + `"}`},
		{
			repository + "/settings",
			url.Values{"ignore": {"a\r\n\r\n b "}, "services": {"checkout"}, "test_command": {" make test "}},
			repository,
			`PUT ` + repository + `/settings {"review_instructions":"","fix_instructions":"","ignore":["a","b"],"disabled_checks":[],"services":["checkout"],"test_command":"make test"}`,
		},
		{finding + "/dismiss", url.Values{"reason": {"known"}}, finding, `PATCH ` + finding + ` {"dismissed":true,"dismissed_reason":"known"}`},
		{finding + "/restore", nil, finding, `PATCH ` + finding + ` {"dismissed":false}`},
		{
			"/repositories/connect",
			url.Values{"kind": {"git"}, "address": {" https://git.example.com/a.git "}, "token": {"t"}},
			repository,
			`POST /onboarding/installations {"kind":"git","token":"t","url":"https://git.example.com/a.git","write":false}`,
		},
		{
			"/repositories/connect",
			url.Values{"kind": {"git"}, "address": {"https://git.example.com/a.git"}, "token": {"t"}, "write": {"1"}},
			repository,
			`POST /onboarding/installations {"kind":"git","token":"t","url":"https://git.example.com/a.git","write":true}`,
		},
		{
			repository + "/fix",
			url.Values{"finding": {dashboardtest.FindingID, "otel-ba9876543210"}},
			"/runs/" + dashboardtest.FixID,
			`POST /codebase/fix/execute {"finding_ids":["` + dashboardtest.FindingID + `","otel-ba9876543210"],"repo_id":"` + dashboardtest.RepositoryID + `"}`,
		},
		{
			repository + "/fix",
			url.Values{"preview": {"1"}},
			"/runs/" + dashboardtest.FixID,
			`POST /codebase/fix/execute {"finding_ids":[],"publish":false,"repo_id":"` + dashboardtest.RepositoryID + `"}`,
		},
		{
			repository + "/change",
			url.Values{"type": {"general"}},
			"/runs/" + dashboardtest.FixID,
			`POST /codebase/instrumentation/execute {"repo_id":"` + dashboardtest.RepositoryID + `","type":"general"}`,
		},
		{
			repository + "/change",
			url.Values{"type": {"migration"}, "preview": {"1"}},
			"/runs/" + dashboardtest.FixID,
			`POST /codebase/partner/migrate/execute {"publish":false,"repo_id":"` + dashboardtest.RepositoryID + `"}`,
		},
	} {
		s := newSite(t, dashboardtest.Shop())
		if strings.HasSuffix(tt.path, "/settings") {
			require.Equal(t, http.StatusForbidden, s.post(tt.path, tt.form).StatusCode, "settings are for users")
			require.Empty(t, s.Calls)
			user := dashboardtest.Session()
			user.KeyID = ""
			s = newSite(t, dashboardtest.Shop(), as(user))
		}
		res := s.post(tt.path, tt.form)
		require.Equal(t, http.StatusSeeOther, res.StatusCode, tt.path)
		require.Equal(t, tt.to, res.Header.Get("Location"))
		require.Contains(t, s.Calls, tt.call)
	}
}

// TestAgentRefuses: a refusal of the agent is shown with the form.
func TestAgentRefuses(t *testing.T) {
	s := newSite(t, dashboardtest.Shop())
	s.AgentErr = assay.Errorf(assay.CodeUnprocessable, "This address is not public.")
	res := s.post("/repositories/connect", url.Values{"kind": {"git"}, "address": {"https://10.0.0.1/a"}, "token": {"secret-token"}})
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	page := string(body)
	require.Contains(t, page, "This address is not public.")
	require.Contains(t, page, "https://10.0.0.1/a")
	require.NotContains(t, page, "secret-token")
	s.AgentErr = assay.Errorf(assay.CodeUnavailable, "down")
	require.Equal(t, http.StatusServiceUnavailable, s.get("/repositories").StatusCode)

	user := dashboardtest.Session()
	user.KeyID = ""
	s = newSite(t, dashboardtest.Shop(), as(user))
	s.AgentErr = assay.Errorf(assay.CodeUnprocessable, `ignore has "a[b", which is not a pattern.`)
	res = s.post("/repositories/"+dashboardtest.RepositoryID+"/settings", url.Values{"ignore": {"a[b"}, "services": {"entered\nbefore"}})
	require.Equal(t, http.StatusConflict, res.StatusCode)
	body, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), "which is not a pattern.")
	require.Contains(t, string(body), "entered\nbefore", "what was entered is still there")
}

// TestMigrationNeedsPlan: the repository page says which tier has migrations, and shows the refusal of the agent.
func TestMigrationNeedsPlan(t *testing.T) {
	const hint = "needs the tier enterprise"
	s := newSite(t, dashboardtest.Shop())
	require.Contains(t, s.page("/repositories/"+dashboardtest.RepositoryID), hint)
	s.AgentErr = assay.Errorf(assay.CodeForbidden, "the organization's plan has no partner migrations")
	res := s.post("/repositories/"+dashboardtest.RepositoryID+"/change", url.Values{"type": {"migration"}})
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	page := read(t, res)
	require.Contains(t, page, "The organization&#39;s plan has no partner migrations.")
	require.Contains(t, page, "Add OpenTelemetry", "the form is still there")
	s.Organization.Tier = assay.TierEnterprise
	require.NotContains(t, s.page("/repositories/"+dashboardtest.RepositoryID), hint)
}

// TestSourceHosts: users get a button for each configured source host, which leads there.
func TestSourceHosts(t *testing.T) {
	require.NotContains(t, newSite(t, dashboardtest.Shop()).page("/repositories/connect"), "Connect GitHub", "a key cannot authorize")
	require.Equal(t, http.StatusForbidden, newSite(t, dashboardtest.Shop()).get("/repositories/connect/github").StatusCode)

	user := dashboardtest.Session()
	user.KeyID = ""
	s := newSite(t, dashboardtest.Shop(), as(user))
	page := s.page("/repositories/connect")
	require.Contains(t, page, `action="/repositories/connect/github"`)
	require.NotContains(t, page, "GitLab")
	s.InstallationURL = "https://github.com/apps/assay/installations/new?state=x"
	res := s.get("/repositories/connect/github")
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, s.InstallationURL, res.Header.Get("Location"))
	require.Contains(t, s.Calls, `POST /onboarding/session {"kind":"github","write":false}`)
	s.get("/repositories/connect/github?write=1")
	require.Contains(t, s.Calls, `POST /onboarding/session {"kind":"github","write":true}`)
	calls := len(s.Calls)
	for _, site := range []string{"cross-site", "same-site"} {
		res := s.get("/repositories/connect/github?write=1", "Sec-Fetch-Site", site)
		require.Equal(t, "/repositories/connect", res.Header.Get("Location"))
	}
	require.Len(t, s.Calls, calls, "another site begins no session")
	require.Equal(t, http.StatusNotFound, s.get("/repositories/connect/git").StatusCode)
	s.InstallationURL = "javascript:alert(1)"
	require.Equal(t, http.StatusServiceUnavailable, s.get("/repositories/connect/github").StatusCode)
}

// TestWithoutAgent: without an agent, or without its scope, no page leads to repositories.
func TestWithoutAgent(t *testing.T) {
	s := newSite(t, dashboardtest.Shop(), func(c *dashboard.Config) { c.Agent = nil })
	require.NotContains(t, s.page("/"), `href="/repositories"`)
	require.Equal(t, http.StatusNotFound, s.get("/repositories").StatusCode)

	reader := dashboardtest.Session()
	reader.Scopes = []assay.Scope{assay.ScopeRead}
	s = newSite(t, dashboardtest.Shop(), as(reader))
	require.NotContains(t, s.page("/"), `href="/repositories"`)
	require.Equal(t, http.StatusForbidden, s.get("/repositories").StatusCode)
	require.Equal(t, http.StatusForbidden, s.get("/repositories/connect").StatusCode)
}
