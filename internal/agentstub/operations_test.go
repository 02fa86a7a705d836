// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStatuses has every operation answer with every status that it has.
func TestStatuses(t *testing.T) {
	w := newWorld(t, Config{RepositoryLimit: 3, SessionsPerMinute: 2, PartnerOrganizations: []string{"acme"}})
	user, key := w.as("acme", credentialUser), w.as("acme", credentialKey)
	stranger := w.as("strangers", credentialUser)
	repos := user.repositories()
	active, inactive := repos["checkout"].ID, repos["ingress"].ID
	run := user.start(pathReview, "checkout").ID
	w.clock.move(time.Minute)
	big := `{"x":"` + strings.Repeat("a", maxBody) + `"}`
	body := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }

	covered := map[string]bool{}
	for _, c := range []struct {
		as     *client
		target string // the pattern of an operation, with {} for id
		id     string
		query  string
		body   string
		status int
		detail string // that is explained
	}{
		{user, "GET /admin/installations", "", "", "", 200, ""},
		{key, "GET /admin/installations", "", "", "", 403, ""},
		{user, "GET /admin/installations", "", "a=1;b=2", "", 400, "query"},

		{user, "POST /codebase/partner/migrate/execute", "", "", body(`{"repository_id":%q}`, active), 200, ""},
		{key, "POST /codebase/partner/migrate/execute", "", "", "", 200, ""},
		{stranger, "POST /codebase/partner/migrate/execute", "", "", "", 403, ""},

		{key, "GET /codebase/findings", "", "", "", 200, ""},
		{key, "GET /codebase/findings", "", "executionId=nobody&status=all", "", 200, ""},
		{key, "GET /codebase/findings", "", "status=open", "", 400, "status"},
		{key, "GET /codebase/findings", "", "status=all&status=all", "", 400, "status"},

		{key, "POST /codebase/fix/execute", "", "", "", 200, ""},
		{key, "POST /codebase/fix/execute", "", "", `{"finding_ids":[]}`, 422, "finding_ids"},
		{key, "POST /codebase/fix/execute", "", "", `{"finding_ids":["nothing"]}`, 422, "finding_ids"},
		{key, "POST /codebase/fix/execute", "", "", `{"finding_ids":"x"}`, 422, "finding_ids"},
		{key, "POST /codebase/instrumentation/execute", "", "", `{"branch":"next"}`, 200, ""},
		{key, "POST /codebase/instrumentation/execute", "", "", `{"branch":""}`, 422, "branch"},
		{key, "POST /codebase/instrumentation/execute", "", "", `{"finding_ids":["x"]}`, 422, "finding_ids"},
		{key, "POST /codebase/review/execute", "", "", " {} ", 200, ""},
		{key, "POST /codebase/review/execute", "", "", `{"repository_id":"nothing"}`, 404, ""},
		{key, "POST /codebase/review/execute", "", "", body(`{"repository_id":%q}`, inactive), 409, ""},
		{key, "POST /codebase/review/execute", "", "", `{"repository_id":null}`, 422, "repository_id"},
		{key, "POST /codebase/review/execute", "", "", `{`, 400, "body"},
		{key, "POST /codebase/review/execute", "", "", `[]`, 400, "body"},
		{key, "POST /codebase/review/execute", "", "", big, 413, ""},

		{key, "GET /executions", "", "limit=100&offset=0&status=completed&executionType=review,%20fix,&repositoryId=" + active, "", 200, ""},
		{key, "GET /executions", "", "limit=&status=&unknown=x", "", 200, ""},
		{key, "GET /executions", "", "limit=0", "", 400, "limit"},
		{key, "GET /executions", "", "limit=101", "", 400, "limit"},
		{key, "GET /executions", "", "limit=ten", "", 400, "limit"},
		{key, "GET /executions", "", "offset=-1", "", 400, "offset"},
		{key, "GET /executions", "", "status=done", "", 400, "status"},
		{key, "GET /executions", "", "executionType=review,reviews", "", 400, "executionType"},
		{key, "GET /executions/{}", run, "", "", 200, ""},
		{key, "GET /executions/{}", "run-nothing", "", "", 404, ""},
		{stranger, "GET /executions/{}", run, "", "", 404, ""},
		{key, "GET /executions/{}/agent-events", run, "afterSeq=3&limit=500", "", 200, ""},
		{key, "GET /executions/{}/agent-events", run, "afterSeq=1000000", "", 200, ""},
		{key, "GET /executions/{}/agent-events", run, "afterSeq=-1", "", 400, "afterSeq"},
		{key, "GET /executions/{}/agent-events", run, "limit=501", "", 400, "limit"},
		{key, "GET /executions/{}/agent-events", "run-nothing", "", "", 404, ""},
		{stranger, "GET /executions/{}/agent-events", run, "", "", 404, ""},

		{key, "GET /findings", "", "severity=critical,high&category=Sensitive%20Data,Volume&page=1&page_size=100", "", 200, ""},
		{key, "GET /findings", "", "page=900000", "", 200, ""},
		{key, "GET /findings", "", "severity=terrible", "", 400, "severity"},
		{key, "GET /findings", "", "category=volume", "", 400, "category"},
		{key, "GET /findings", "", "page=0", "", 400, "page"},
		{key, "GET /findings", "", "page_size=101", "", 400, "page_size"},
		{key, "GET /findings/summary", "", "", "", 200, ""},
		{key, "GET /findings/summary", "", "%zz", "", 400, "query"},

		{user, "POST /onboarding/session", "", "", "", 200, ""},
		{user, "POST /onboarding/session", "", "", "{}", 200, ""},
		{user, "POST /onboarding/session", "", "", "", 429, ""},
		{user, "POST /onboarding/session", "", "", `{"x":1}`, 422, "x"},
		{key, "POST /onboarding/session", "", "", "", 403, ""},
		{user, "GET /onboarding/status", "", "", "", 200, ""},
		{key, "GET /onboarding/status", "", "", "", 403, ""},
		{key, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q]}`, active), 403, ""},
		{user, "POST /onboarding/repos", "", "", ``, 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", `{"repository_ids":[]}`, 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", `{"repository_ids":["nothing"]}`, 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", `{"repository_ids":[1]}`, 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", `{"repositories":[]}`, 400, "repositories"},
		{stranger, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q]}`, active), 400, "repository_ids"},
		{user, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q,%q]}`, inactive, repos["payments"].ID), 409, "limit"},
		{user, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q,%q,%[1]q]}`, inactive, active), 200, ""},
		{user, "POST /onboarding/repos", "", "", body(`{"repository_ids":[%q]}`, active), 409, ""},

		{key, "GET /repositories", "", "", "", 200, ""},
		{key, "GET /repositories/{}", active, "", "", 200, ""},
		{key, "GET /repositories/{}", "nothing", "", "", 404, ""},
		{key, "GET /repositories/{}", "%2e%2e", "", "", 404, ""},
		{key, "GET /repositories/{}", "a%2Fb", "", "", 404, ""},
		{stranger, "GET /repositories/{}", active, "", "", 404, ""},
		{key, "PATCH /repositories/{}", active, "", `{"active":true}`, 200, ""},
		{key, "PATCH /repositories/{}", repos["payments"].ID, "", `{"active":true}`, 409, "limit"},
		{key, "PATCH /repositories/{}", inactive, "", `{"active":false}`, 200, ""},
		{key, "PATCH /repositories/{}", "nothing", "", `{"active":false}`, 404, ""},
		{stranger, "PATCH /repositories/{}", active, "", `{"active":false}`, 404, ""},
		{key, "PATCH /repositories/{}", active, "", ``, 400, "body"},
		{key, "PATCH /repositories/{}", active, "", `"active"`, 400, "body"},
		{key, "PATCH /repositories/{}", active, "", `{"active":"x"}`, 422, "active"},
		{key, "PATCH /repositories/{}", active, "", `{"active":null}`, 422, "active"},
		{key, "PATCH /repositories/{}", active, "", `{}`, 422, "active"},
		{key, "PATCH /repositories/{}", active, "", `{"active":true,"Active":true}`, 422, "Active"},
		{key, "PATCH /repositories/{}", active, "", `{"active":true,"` + strings.Repeat("a", 100) + `":1}`, 422, "body"},
		{key, "PATCH /repositories/{}", active, "", big, 413, ""},
		{user, "GET /repositories/{}/settings", active, "", "", 200, ""},
		{user, "GET /repositories/{}/settings", "nothing", "", "", 404, ""},
		{key, "GET /repositories/{}/settings", active, "", "", 403, ""},
	} {
		target := strings.Replace(c.target, "{}", c.id, 1)
		if c.query != "" {
			target += "?" + c.query
		}
		a := c.as.do(target, c.body)
		require.Equal(t, c.status, a.status, "%s %.60s as %s: %+v", target, c.body, c.as.credential, a.Error)
		if c.status == http.StatusOK {
			covered[c.target] = true
			continue
		}
		require.Equal(t, codes[c.status], a.Error.Code, target)
		if c.detail != "" {
			require.Contains(t, a.Error.Details, c.detail, target)
		}
		require.Equal(t, c.status == 429, a.header.Get("Retry-After") != "", target)
	}
	for _, op := range operations {
		require.True(t, covered[op.method+" "+op.path], op.path)
	}
	require.Len(t, operations, 18)
}

func TestElsewhere(t *testing.T) {
	c := newWorld(t, Config{}).as("acme", credentialUser)
	for _, path := range []string{"/", "/v1/agent/findings", "/findings/", "//findings", "/executions/", "/executions//agent-events", "/findings/../findings", "/executions/%2e%2e/x"} {
		require.Equal(t, 404, c.do("GET "+path, "").status, path)
	}
	require.Equal(t, 404, c.do("GET /executions/../findings", "").status, "no redirect")
	require.Equal(t, 200, c.do("GET /%66indings", "").status)
	a := c.do("DELETE /repositories/x", "")
	require.Equal(t, 405, a.status)
	require.Equal(t, "GET, PATCH", a.header.Get("Allow"))
	require.Equal(t, 405, c.do("GET "+pathReview, "").status)
}

func TestConditionalRequests(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as("acme", credentialUser)
	run := c.start(pathReview, "checkout").ID
	for _, target := range []string{"GET /executions", "GET /executions/" + run, "GET /executions/" + run + "/agent-events", "GET /repositories", "GET /findings"} {
		c.header = nil
		tag := c.do(target, "").header.Get("ETag")
		require.NotEmpty(t, tag, target)
		c.header = http.Header{"If-None-Match": {`"other", ` + strings.TrimPrefix(tag, "W/")}}
		a := c.do(target, "")
		require.Equal(t, http.StatusNotModified, a.status, target)
		require.Equal(t, tag, a.header.Get("ETag"))
		c.header = http.Header{"If-None-Match": {`"other"`}}
		require.Equal(t, http.StatusOK, c.do(target, "").status, target)
	}
	target := "GET /executions/" + run + "/agent-events"
	c.header = nil
	tag := c.do(target, "").header.Get("ETag")
	w.clock.move(time.Second)
	c.header = http.Header{"If-None-Match": {tag}}
	require.Equal(t, http.StatusOK, c.do(target, "").status, "there are new events")
	require.Empty(t, c.do("POST "+pathReview, "").header.Get("ETag"))
}

// TestPages walks through the pages of both lists by their links.
func TestPages(t *testing.T) {
	w := newWorld(t, Config{RepositoryLimit: 7})
	c := w.as("acme", credentialUser)
	for name, r := range c.repositories() {
		get[gotRepository](c, "PATCH /repositories/"+r.ID, `{"active":true}`)
		c.start(pathReview, name)
	}
	w.clock.move(time.Minute)
	for target, want := range map[string]int{"/executions?limit=3&executionType=review": 7, "/findings?page_size=4&severity=critical,high,medium,low": len(get[[]gotFinding](c, "GET /findings", ""))} {
		seen := map[string]bool{}
		previous := ""
		for next := target; next != ""; {
			a := c.do("GET "+next, "")
			require.Equal(t, 200, a.status, next)
			require.Equal(t, want, *a.Meta.Total)
			if previous != "" {
				require.Equal(t, previous, a.Links["prev"])
			}
			previous = a.Links["self"]
			for _, item := range get[[]gotRun](c, "GET "+next, "") {
				require.False(t, seen[item.ID], "repeated")
				seen[item.ID] = true
			}
			next = a.Links["next"]
		}
		require.Len(t, seen, want)
		require.Greater(t, want, 4)
	}
	a := c.do("GET /executions?offset=500", "")
	require.Equal(t, "[]", string(a.Data))
	require.Equal(t, "/executions?limit=50&offset=0", a.Links["prev"])
}

func TestFindingsMatchTheSummary(t *testing.T) {
	w := newWorld(t, Config{RepositoryLimit: 7})
	c := w.as("acme", credentialUser)
	empty := get[gotSummary](c, "GET /findings/summary", "")
	require.Zero(t, empty.Total)
	for name, r := range c.repositories() {
		get[gotRepository](c, "PATCH /repositories/"+r.ID, `{"active":true}`)
		c.start(pathReview, name)
	}
	w.clock.move(time.Minute)
	summary := get[gotSummary](c, "GET /findings/summary", "")
	all := get[[]gotFinding](c, "GET /findings?page_size=100", "")
	require.Len(t, all, summary.Total)
	for _, s := range severities {
		found := get[[]gotFinding](c, "GET /findings?page_size=100&severity="+s, "")
		require.Len(t, found, summary.BySeverity[s])
		require.NotEmpty(t, found, s)
		for _, f := range found {
			require.Equal(t, s, f.Severity)
		}
	}
	for _, s := range categories {
		found := get[[]gotFinding](c, "GET /findings?page_size=100&category="+strings.ReplaceAll(s, " ", "+"), "")
		require.Len(t, found, summary.ByCategory[s])
		require.NotEmpty(t, found, s)
	}
	for name, r := range c.repositories() {
		detailed := get[gotRepository](c, "GET /repositories/"+r.ID, "")
		require.Equal(t, name == "batch-archive", len(detailed.ActiveFindings) == 0, name)
	}
}
