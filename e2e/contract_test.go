// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"assay/internal/assaytest"
	"assay/internal/llm/llmtest"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
)

// endpoint is a row of the document's endpoint tables, with the statuses of its status table. A status of 500
// is tested only for rows that name it. A forwarded operation can also answer 502 and 503.
type endpoint struct {
	op       string
	user     bool // "Key: no (403)": only a user's token is accepted
	agent    bool // forwarded to the agent
	admin    bool // requires a key with the scope admin
	statuses []int
}

// endpoints are all rows in the order of the document.
var endpoints = []endpoint{
	{op: "GET /v1/services", statuses: []int{200, 400, 401, 403}},
	{op: "GET /v1/services/{id}", statuses: []int{200, 401, 403, 404}},
	{op: "GET /v1/services/{id}/insights", statuses: []int{200, 400, 401, 403, 404}},
	{op: "GET /v1/insights", statuses: []int{200, 400, 401, 403, 500}},
	{op: "GET /v1/insights/{id}", statuses: []int{200, 400, 401, 403, 404, 500}},
	{op: "GET /v1/insights/{id}/summary", statuses: []int{200, 400, 401, 403, 404, 500, 503}},
	{op: "GET /v1/organization", statuses: []int{200, 401, 403, 500}},
	{op: "GET /v1/analytics/log-volume", statuses: []int{200, 400, 401, 403, 502, 503}},
	{op: "GET /v1/analytics/services", statuses: []int{200, 400, 401, 403, 500}},
	{op: "GET /v1/agent/admin/installations", agent: true, user: true, statuses: []int{200, 401, 403, 502, 503}},
	{op: "POST /v1/agent/codebase/partner/migrate/execute", agent: true, statuses: []int{200, 401, 403, 502, 503}},
	{op: "GET /v1/agent/codebase/findings", agent: true, statuses: []int{200, 400, 401, 403, 502, 503}},
	{op: "POST /v1/agent/codebase/fix/execute", agent: true, statuses: []int{200, 401, 502, 503}},
	{op: "POST /v1/agent/codebase/instrumentation/execute", agent: true, statuses: []int{200, 401, 502, 503}},
	{op: "POST /v1/agent/codebase/review/execute", agent: true, statuses: []int{200, 401, 502, 503}},
	{op: "GET /v1/agent/executions", agent: true, statuses: []int{200, 401, 403, 502, 503}},
	{op: "GET /v1/agent/executions/{execution_id}", agent: true, statuses: []int{200, 401, 403, 404, 502, 503}},
	{op: "GET /v1/agent/executions/{execution_id}/agent-events", agent: true, statuses: []int{200, 401, 403, 404, 502, 503}},
	{op: "GET /v1/agent/findings", agent: true, statuses: []int{200, 400, 401, 403, 502, 503}},
	{op: "GET /v1/agent/findings/summary", agent: true, statuses: []int{200, 401, 403, 502, 503}},
	{op: "POST /v1/agent/onboarding/repos", agent: true, user: true, statuses: []int{200, 400, 401, 403, 409, 502, 503}},
	{op: "POST /v1/agent/onboarding/session", agent: true, user: true, statuses: []int{200, 401, 403, 429, 502, 503}},
	{op: "GET /v1/agent/onboarding/status", agent: true, user: true, statuses: []int{200, 401, 403, 502, 503}},
	{op: "GET /v1/agent/repositories", agent: true, statuses: []int{200, 401, 403, 502, 503}},
	{op: "GET /v1/agent/repositories/{repository_id}", agent: true, statuses: []int{200, 401, 403, 404, 502, 503}},
	{op: "PATCH /v1/agent/repositories/{repository_id}", agent: true, statuses: []int{200, 400, 401, 403, 404, 409, 413, 422, 502, 503}},
	{op: "GET /v1/agent/repositories/{repository_id}/settings", agent: true, user: true, statuses: []int{200, 401, 403, 502, 503}},
}

// additions are the operations that are not in the document.
var additions = []endpoint{
	{op: "GET /v1/services/search", statuses: []int{200, 400, 401, 403}},
	{op: "GET /v1/services/grouped", statuses: []int{200, 400, 401, 403}},
	{op: "GET /v1/services/{id}/versions", statuses: []int{200, 400, 401, 403, 404}},
	{op: "GET /v1/webhooks", statuses: []int{200, 400, 401, 403}},
	{op: "POST /v1/webhooks", admin: true, statuses: []int{201, 400, 401, 403, 409}},
	{op: "GET /v1/webhooks/{id}", statuses: []int{200, 401, 403, 404}},
	{op: "PUT /v1/webhooks/{id}", admin: true, statuses: []int{200, 400, 401, 403, 404}},
	{op: "DELETE /v1/webhooks/{id}", admin: true, statuses: []int{200, 401, 403, 404}},
	{op: "POST /v1/webhooks/{id}/test", admin: true, statuses: []int{200, 401, 403, 404}},
	{op: "GET /v1/webhooks/{id}/deliveries", statuses: []int{200, 400, 401, 403, 404}},
	{op: "GET /v1/webhooks/{id}/deliveries/{delivery_id}", statuses: []int{200, 401, 403, 404}},
	{op: "GET /v1/api-keys", admin: true, statuses: []int{200, 400, 401, 403}},
	{op: "POST /v1/api-keys", admin: true, statuses: []int{201, 400, 401, 403}},
	{op: "DELETE /v1/api-keys/{id}", admin: true, statuses: []int{200, 401, 403, 404}},
	{op: "POST /v1/agent/executions/{execution_id}/cancel", agent: true, statuses: []int{200, 403, 404}},
	{op: "GET /v1/agent/executions/{execution_id}/patch", agent: true, statuses: []int{200, 403, 404}},
	{op: "POST /v1/agent/onboarding/installations", agent: true, statuses: []int{200, 403, 422}},
	{op: "DELETE /v1/agent/onboarding/installations/{installation_id}", agent: true, statuses: []int{200, 403, 404}},
	{op: "PATCH /v1/agent/repositories/{repository_id}/findings/{finding_id}", agent: true, statuses: []int{200, 404, 422}},
	{op: "PUT /v1/agent/repositories/{repository_id}/settings", agent: true, user: true, statuses: []int{200, 403, 404, 422}},
}

// contractServices is the number of services: enough for every default and limit.
const contractServices = 120

// contract is a running server with all features configured, and its API description.
type contract struct {
	*daemon
	described *description

	user      string // token of a user of the first organization
	admin     string // token of an administrator of it
	stranger  string // token of a user of an unknown organization
	reader    string // key with the scope read
	agentOnly string

	service restService
	insight restInsight

	webhook, delivery string // ids

	code                  string // directory of the repositories
	repository, execution string // ids of the agent's resources
}

// TestContract sends requests for every row of the tables of the user's document to a running server, and
// validates every response against the published description.
func TestContract(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t)
	provider := startIssuer(t)
	dir := t.TempDir()
	code := t.TempDir()
	for _, name := range []string{"one", "two", "three"} {
		newRepository(t, filepath.Join(code, name))
	}
	c := &contract{code: code, repository: "repo-1", execution: "exec-1", daemon: startDaemon(t, dir, append(provider.flags(),
		"--agent-local-root", code, "--agent-max-repositories", "2", "--agent-path-alias", "codebase-agent", "--webhook-allow-private-hosts",
		"--bootstrap-api-key", bootstrapKey, "--commit-interval", "10ms", "--score-interval", "200ms", "--trace-idle", "200ms",
		"--summary-provider", "openai", "--summary-url", model.URL, "--summary-model", "stub", "--summary-api-key", "sk-e2e", "--log-level", "debug")...)}
	require.Zero(t, c.assay(t, "organization", "create", "named", "--external-id", "org-named", "--tier", "enterprise").Code)
	c.described = c.describe(t)
	c.user = provider.token(t, "org-named")
	c.admin = provider.token(t, "org-named", administrator)
	c.stranger = provider.token(t, "")
	c.reader = c.newKey(t, "--scopes", "read")
	c.agentOnly = c.newKey(t, "--scopes", "agent")
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	c.webhook, _ = c.newWebhook(t, bootstrapKey, target.URL)
	c.fill(t)
	t.Run("the description has the document's operations", func(t *testing.T) {
		var want []string
		for _, e := range slices.Concat(endpoints, additions) {
			want = append(want, e.op)
		}
		require.ElementsMatch(t, want, c.described.operations())
	})
	t.Run("credentials", c.testCredentials)
	t.Run("services", c.testServices)
	t.Run("service lists", c.testServiceLists)
	t.Run("insights", c.testInsights)
	t.Run("service insights", c.testServiceInsights)
	t.Run("organization", c.testOrganization)
	t.Run("log volume", c.testLogVolume)
	t.Run("analytics", c.testAnalytics)
	t.Run("summary", func(t *testing.T) { c.testSummary(t, model) })
	t.Run("agent operations", c.testAgent)
	t.Run("webhooks", c.testWebhooks)
	t.Run("API keys", c.testAPIKeys)
	t.Run("limits of requests", c.testLimits)
	t.Run("not configured", func(t *testing.T) { c.testNotConfigured(t, dir, provider) })
	t.Run("internal errors", func(t *testing.T) { c.testInternal(t, dir) })
	t.Run("the log has no credentials", func(t *testing.T) {
		c.stop(t)
		log := c.Log.String()
		require.NotEmpty(t, log)
		for _, credential := range []string{bootstrapKey, c.reader, c.agentOnly, c.user, c.admin, c.stranger, "sk-e2e"} {
			require.NotContains(t, log, credential)
			require.NotContains(t, log, credential[max(0, len(credential)-16):], "the end of the key") // shorter ends are in random ids
		}
		require.NotContains(t, log, "Bearer ")
	})
	if t.Failed() {
		return
	}
	t.Logf("responses validated against the description, by operation and status:\n%s", c.described.table())
	for _, e := range slices.Concat(endpoints, additions) {
		for _, status := range e.statuses {
			require.Positive(t, c.described.seen[e.op][status], "no response of %s with status %d", e.op, status)
		}
	}
}

// fill sends telemetry until there are services, scores and insights of every status.
func (c *contract) fill(t *testing.T) {
	t.Helper()
	for i := range contractServices {
		resource := rulestest.Attrs("service.name", fmt.Sprintf("service-%03d", i), "service.namespace", "shop", "service.version", "1.0.0",
			"deployment.environment.name", []string{"production", "staging"}[i%2])
		for _, r := range faulty(resource) {
			c.mustPost(t, bootstrapKey, r)
		}
	}
	ready := func() bool {
		services, err := assaytest.List[restService](t.Context(), c.Client, c.REST, bootstrapKey, "/v1/services")
		require.NoError(t, err)
		return len(services) == contractServices && !slices.ContainsFunc(services, func(s restService) bool {
			return s.Score == nil || !slices.Contains(s.Score.Evaluated, "SPA-005")
		}) && *getAs[[]restInsight](t, c.daemon, bootstrapKey, "/v1/insights?limit=1").Meta.Total == faultyRules*contractServices
	}
	eventually(t, ready, "the telemetry is not evaluated")
	c.service = getAs[[]restService](t, c.daemon, bootstrapKey, "/v1/services?limit=1").Data[0]
	c.insight = getAs[[]restInsight](t, c.daemon, bootstrapKey, "/v1/insights?limit=1&service_id="+c.service.ID).Data[0]
	muted := getAs[[]restInsight](t, c.daemon, bootstrapKey, "/v1/insights?limit=2&service_id="+c.service.ID).Data[1].ID
	require.Zero(t, c.assay(t, "insight", "mute", muted, "--reason", "known").Code)
	eventually(t, func() bool {
		return getAs[restInsight](t, c.daemon, bootstrapKey, "/v1/insights/"+muted).Data.Status == "muted"
	}, "not muted")
	eventually(t, func() bool {
		found := getAs[[]restDelivery](t, c.daemon, bootstrapKey, "/v1/webhooks/"+c.webhook+"/deliveries?limit=1").Data
		if len(found) > 0 {
			c.delivery = found[0].ID
		}
		return c.delivery != ""
	}, "no delivery")
}

// call sends a request with a credential, "" for none, and validates the response against the description.
func (c *contract) call(t *testing.T, method, path, credential, body string, headers ...string) *answered {
	t.Helper()
	return c.callAt(t, c.daemon, method, path, credential, body, headers...)
}

// callAt is like call for another server with the same description.
func (c *contract) callAt(t *testing.T, d *daemon, method, path, credential, body string, headers ...string) *answered {
	t.Helper()
	if credential != "" {
		headers = append(headers, "Authorization", "Bearer "+credential)
	}
	if body != "" {
		headers = append(headers, "Content-Type", "application/json")
	}
	a, err := d.ask(t.Context(), method, d.REST+path, []byte(body), headers...)
	require.NoError(t, err)
	u, err := url.Parse(d.REST + path)
	require.NoError(t, err)
	require.NoError(t, c.described.check(method, u, a))
	require.NotContains(t, string(a.Body), "goroutine ", "a stack trace")
	return a
}

// fails sends a GET request that must fail.
func (c *contract) fails(t *testing.T, path string, status int, code string, details ...string) {
	t.Helper()
	requireError(t, c.call(t, http.MethodGet, path, bootstrapKey, ""), status, code, details...)
}

// list sends a GET request for a list.
func (c *contract) list(t *testing.T, path string) envelope[[]map[string]any] {
	t.Helper()
	return decode[[]map[string]any](t, c.call(t, http.MethodGet, path, bootstrapKey, ""))
}

func decode[T any](t *testing.T, a *answered) envelope[T] {
	t.Helper()
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	var e envelope[T]
	require.NoError(t, json.Unmarshal(a.Body, &e))
	return e
}

// pathOf replaces the parameters of an operation's path by ids and adds the query that it requires.
func (c *contract) pathOf(op string) (method, path string) {
	method, path, _ = strings.Cut(op, " ")
	id := c.service.ID
	switch {
	case strings.Contains(path, "/insights/{id}"):
		id = c.insight.ID
	case strings.Contains(path, "/webhooks/{id}"):
		id = c.webhook
	case strings.Contains(path, "/api-keys/{id}"):
		id = keyID(c.reader)
	case strings.HasSuffix(path, "/search"):
		path += "?q=service"
	}
	return method, strings.NewReplacer("{id}", id, "{delivery_id}", c.delivery, "{execution_id}", c.execution, "{repository_id}", c.repository).Replace(path)
}

// bodyOf returns a valid body for operations of a method.
func bodyOf(method string) string {
	if method == http.MethodPatch {
		return `{"is_active":true}`
	}
	return ""
}

// testCredentials checks the section Authentication of the document for every operation.
func (c *contract) testCredentials(t *testing.T) {
	ingest := c.newKey(t, "--scopes", "ingest")
	for _, e := range slices.Concat(endpoints, additions) {
		if e.agent && !slices.ContainsFunc(endpoints, func(other endpoint) bool { return other.op == e.op }) {
			continue // tested below with valid bodies
		}
		method, path := c.pathOf(e.op)
		body := bodyOf(method)
		for _, bad := range []struct{ credential, code string }{
			{"", "MISSING_CREDENTIALS"},
			{"assay_sk_nobody_" + strings.Repeat("0", 32), "INVALID_API_KEY"},
			{c.user + "x", "INVALID_TOKEN"},
		} {
			a := c.call(t, method, path, bad.credential, body)
			requireError(t, a, 401, bad.code)
			require.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"))
		}
		requireError(t, c.call(t, method, path, c.stranger, body), 403, "FORBIDDEN")
		requireError(t, c.call(t, method, path, ingest, body), 403, "FORBIDDEN")
		without := c.agentOnly
		if e.agent {
			without = c.reader
		}
		requireError(t, c.call(t, method, path, without, body), 403, "FORBIDDEN")
		if e.user {
			requireError(t, c.call(t, method, path, bootstrapKey, body), 403, "FORBIDDEN")
		}
		// A user's token is accepted by every operation. The user belongs to another organization, which has
		// none of these resources.
		want := 200
		switch {
		case e.agent && method != http.MethodGet: // tested below with valid bodies
			continue
		case strings.Contains(path, c.execution), strings.Contains(path, c.repository):
			want = 404
		case e.admin:
			want = 403
			require.NotContains(t, []int{401, 403}, c.call(t, method, path, c.admin, body).Status, e.op)
		case strings.Contains(path, c.service.ID), strings.Contains(path, c.insight.ID), strings.Contains(path, c.webhook):
			want = 404
		}
		require.Equal(t, want, c.call(t, method, path, c.user, body).Status, e.op)
	}
}

// testLimit checks a limit of 1 to 100 and its default.
func (c *contract) testLimit(t *testing.T, path string, fallback int, count func(path string) int) {
	t.Helper()
	for query, want := range map[string]int{"": fallback, "limit=": fallback, "limit=1": 1, "limit=100": 100} {
		require.Equal(t, want, count(path+query), query)
	}
	for _, bad := range []string{"0", "101", "-1", "x", "1.5", "99999999999999999999", "%2010"} {
		c.fails(t, path+"limit="+bad, 400, "INVALID_PARAMETERS", "limit")
	}
	c.fails(t, path+"limit=1&limit=1", 400, "INVALID_PARAMETERS", "limit")
}

func (c *contract) testServices(t *testing.T) {
	c.testLimit(t, "/v1/services?", 50, func(path string) int { return len(c.list(t, path).Data) })
	all := append(c.list(t, "/v1/services?limit=100").Data, c.list(t, "/v1/services?limit=100&offset=100").Data...)
	require.Len(t, all, contractServices)
	page := c.list(t, "/v1/services?limit=7&offset=11")
	require.Equal(t, all[11:18], page.Data)
	require.Equal(t, contractServices, *page.Meta.Total)
	require.True(t, *page.Meta.HasMore)
	require.Equal(t, all[:1], c.list(t, "/v1/services?limit=1&offset=0").Data)
	require.Empty(t, c.list(t, "/v1/services?offset=1000").Data)
	c.fails(t, "/v1/services?offset=-1", 400, "INVALID_PARAMETERS", "offset")

	one := decode[map[string]any](t, c.call(t, http.MethodGet, "/v1/services/"+c.service.ID, bootstrapKey, "")).Data
	require.Equal(t, c.service.ID, one["id"])
	for _, id := range []string{unknownID, "x", c.insight.ID} {
		c.fails(t, "/v1/services/"+id, 404, "SERVICE_NOT_FOUND")
	}
}

func (c *contract) testServiceLists(t *testing.T) {
	c.testLimit(t, "/v1/services/search?q=service&", 20, func(path string) int { return len(c.list(t, path).Data) })
	found := c.list(t, "/v1/services/search?q=ICE-00&limit=100")
	require.Len(t, found.Data, 10)
	require.Equal(t, "service-003", found.Data[3]["name"])
	require.Len(t, c.list(t, "/v1/services/search?q=-00&environment=staging").Data, 5)
	require.Len(t, c.list(t, "/v1/services/search?q=-00&namespace=shop").Data, 10)
	require.Empty(t, c.list(t, "/v1/services/search?q=%25").Data)
	require.Empty(t, c.list(t, "/v1/services/search?q=-00&namespace=none").Data)
	require.Len(t, c.list(t, "/v1/services/search?q=-00&offset=9").Data, 1)
	c.fails(t, "/v1/services/search", 400, "INVALID_PARAMETERS", "q")
	c.fails(t, "/v1/services/search?q=", 400, "INVALID_PARAMETERS", "q")

	c.testLimit(t, "/v1/services/grouped?", 50, func(path string) int { return len(c.list(t, path).Data) })
	groups := c.list(t, "/v1/services/grouped?sort=name-desc&limit=3")
	require.Equal(t, contractServices, *groups.Meta.Total)
	require.Equal(t, fmt.Sprintf("service-%03d", contractServices-1), groups.Data[0]["name"])
	require.EqualValues(t, 1, groups.Data[0]["version_count"])
	require.Positive(t, groups.Data[0]["insights_count"])
	require.NotNil(t, groups.Data[0]["instrumentation_score"])
	c.fails(t, "/v1/services/grouped?sort=name", 400, "INVALID_PARAMETERS", "sort")
	for _, sort := range []string{"insights-first", "name-asc", "created-asc", "created-desc"} {
		require.Len(t, c.list(t, "/v1/services/grouped?limit=2&offset=1&sort="+sort).Data, 2)
	}

	versions := c.list(t, "/v1/services/"+c.service.ID+"/versions")
	require.Len(t, versions.Data, 1)
	require.Equal(t, c.service.ID, versions.Data[0]["id"])
	c.fails(t, "/v1/services/"+c.service.ID+"/versions?limit=51", 400, "INVALID_PARAMETERS", "limit")
	for _, id := range []string{unknownID, "x", "search", "grouped"} {
		c.fails(t, "/v1/services/"+id+"/versions", 404, "SERVICE_NOT_FOUND")
	}
}

func (c *contract) testWebhooks(t *testing.T) {
	do := func(method, path, body string) *answered {
		return c.call(t, method, "/v1/webhooks"+path, bootstrapKey, body)
	}
	get, post, put, remove := http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	require.Len(t, c.list(t, "/v1/webhooks").Data, 1)
	require.Empty(t, c.list(t, "/v1/webhooks?offset=1").Data)
	c.fails(t, "/v1/webhooks?limit=0", 400, "INVALID_PARAMETERS", "limit")
	for body, details := range map[string][]string{
		"":                     {"body"},
		"[]":                   {"body"},
		`{}`:                   {"name", "url"},
		`{"name":1,"url":"x"}`: {"name"},
		`{"name":"n","url":"ftp://example.com","min_severity":"high","event_types":["RES-001"],"environments":["\u0000"]}`: {"url", "min_severity", "event_types", "environments"},
	} {
		requireError(t, do(post, "", body), 400, "INVALID_PARAMETERS", details...)
	}
	requireError(t, do(put, "/"+c.webhook, `{"name":""}`), 400, "INVALID_PARAMETERS", "name")

	// The insight type equals the one in the list of insights.
	typeID := c.list(t, "/v1/insights?limit=1").Data[0]["insight_type"].(map[string]any)["id"].(string)
	made := do(post, "", `{"name":"other","url":"https://example.com/x","is_enabled":false,"min_severity":"Critical","event_types":["`+typeID+`"],"environments":["staging"]}`)
	require.Equal(t, 201, made.Status, "%s", made.Body)
	var created envelope[map[string]any]
	require.NoError(t, json.Unmarshal(made.Body, &created))
	require.Regexp(t, `^whsec_[0-9A-Za-z+/]{43}=$`, created.Data["secret"])
	delete(created.Data, "secret")
	other := "/" + created.Data["id"].(string)
	require.Equal(t, created.Data, decode[map[string]any](t, do(get, other, "")).Data)
	changed := decode[map[string]any](t, do(put, other, `{"event_types":[]}`)).Data
	require.Empty(t, changed["event_types"])
	require.Equal(t, []any{"staging"}, changed["environments"])
	require.Equal(t, "https://example.com/...", decode[map[string]any](t, c.call(t, get, "/v1/webhooks"+other, c.reader, "")).Data["url"])

	test := decode[restDelivery](t, do(post, "/"+c.webhook+"/test", "")).Data
	require.Equal(t, "succeeded", test.Status)
	require.Equal(t, test, decode[restDelivery](t, do(get, "/"+c.webhook+"/deliveries/"+test.ID, "")).Data)
	deliveries := c.list(t, "/v1/webhooks/"+c.webhook+"/deliveries?limit=1")
	require.Equal(t, test.ID, deliveries.Data[0]["id"])
	require.Greater(t, *deliveries.Meta.Total, 1)
	c.fails(t, "/v1/webhooks/"+c.webhook+"/deliveries?limit=101", 400, "INVALID_PARAMETERS", "limit")

	// A user with the admin claim manages the webhooks of its organization.
	var theirs envelope[map[string]any]
	require.NoError(t, json.Unmarshal(c.call(t, post, "/v1/webhooks", c.admin, `{"name":"n","url":"https://example.com/y"}`).Body, &theirs))
	at := "/v1/webhooks/" + theirs.Data["id"].(string)
	require.Equal(t, "m", decode[map[string]any](t, c.call(t, put, at, c.admin, `{"name":"m"}`)).Data["name"])
	require.Equal(t, "https://example.com/y", decode[map[string]any](t, c.call(t, get, at, c.admin, "")).Data["url"])
	requireError(t, c.call(t, put, at, c.user, `{"name":"m"}`), 403, "FORBIDDEN")
	requireError(t, c.call(t, get, at, bootstrapKey, ""), 404, "NOT_FOUND")
	require.Equal(t, 200, c.call(t, remove, at, c.admin, "").Status)

	for range 10 - 2 {
		c.newWebhook(t, bootstrapKey, "https://example.com")
	}
	requireError(t, do(post, "", `{"name":"n","url":"https://example.com"}`), 409, "CONFLICT")
	require.Equal(t, 200, do(remove, other, "").Status)
	for _, id := range []string{unknownID, "x", other[1:], c.service.ID} {
		for _, o := range []struct{ method, path, body string }{
			{get, "", ""}, {put, "", "{}"}, {remove, "", ""}, {post, "/test", ""}, {get, "/deliveries", ""}, {get, "/deliveries/" + test.ID, ""},
		} {
			requireError(t, do(o.method, "/"+id+o.path, o.body), 404, "NOT_FOUND")
		}
	}
	requireError(t, do(get, "/"+c.webhook+"/deliveries/x", ""), 404, "NOT_FOUND")
}

func (c *contract) testAPIKeys(t *testing.T) {
	const path = "/v1/api-keys"
	get, post, remove := http.MethodGet, http.MethodPost, http.MethodDelete
	first := decode[[]map[string]any](t, c.call(t, get, path+"?limit=1", bootstrapKey, ""))
	require.Len(t, first.Data, 1)
	require.Greater(t, *first.Meta.Total, 3)
	c.fails(t, path+"?limit=101&offset=-1", 400, "INVALID_PARAMETERS", "limit", "offset")
	for body, details := range map[string][]string{
		"": {"body"},
		`{"description":"","scopes":["root"],"expires_in":0}`: {"description", "scopes", "expires_in"},
		`{"description":1}`:                {"description"},
		`{"description":"n","scopes":[]}`:  {"scopes"},
		`{"description":"n\u0000"}`:        {"description"},
		`{"description":"n","scopes":"x"}`: {"scopes"},
	} {
		requireError(t, c.call(t, post, path, bootstrapKey, body), 400, "INVALID_PARAMETERS", details...)
	}
	create := func(credential, body string, status int) map[string]any {
		t.Helper()
		made := c.call(t, post, path, credential, body)
		require.Equal(t, status, made.Status, "%s", made.Body)
		var e envelope[map[string]any]
		require.NoError(t, json.Unmarshal(made.Body, &e))
		return e.Data
	}
	key := func(made map[string]any) string {
		t.Helper()
		text, _ := made["key"].(string)
		require.Regexp(t, `^assay_sk_[A-Za-z0-9]{6}_[0-9a-f]{32}$`, text)
		return text
	}

	// A key without explicit scopes has the scope read only.
	made := create(bootstrapKey, `{"description":"reads","expires_in":3600}`, 201)
	require.Equal(t, []any{"read"}, made["scopes"])
	require.Equal(t, "key:"+keyID(bootstrapKey), made["created_by"])
	require.Equal(t, "assay_sk_"+made["id"].(string)+"_***", made["key_preview"])
	require.Equal(t, true, made["is_active"])
	reads := key(made)
	require.Equal(t, 200, c.call(t, get, "/v1/organization", reads, "").Status)
	requireError(t, c.call(t, get, path, reads, ""), 403, "FORBIDDEN")
	delete(made, "key")
	listed := decode[[]map[string]any](t, c.call(t, get, path+"?limit=1", bootstrapKey, "")).Data[0]
	delete(made, "last_seen_at")
	delete(listed, "last_seen_at")
	require.Equal(t, made, listed, "the newest first")

	// A key cannot grant a scope that it does not have.
	narrow := key(create(bootstrapKey, `{"description":"administers","scopes":["admin","read"]}`, 201))
	for _, body := range []string{`{"description":"n","scopes":["ingest"]}`, `{"description":"n","scopes":["read","agent","ingest","admin"]}`} {
		requireError(t, c.call(t, post, path, narrow, body), 403, "FORBIDDEN")
	}
	other := key(create(narrow, `{"description":"administers too","scopes":["admin"]}`, 201))
	require.Equal(t, 200, c.call(t, get, path, other, "").Status)
	requireError(t, c.call(t, post, path, other, `{"description":"n"}`), 403, "FORBIDDEN")

	// So can a user with the admin claim, who cannot send telemetry.
	require.Equal(t, "user-of-org-named", create(c.admin, `{"description":"n","scopes":["ingest"]}`, 201)["created_by"])
	sent, err := c.post(t.Context(), c.admin, wire.Logs, nil)
	require.NoError(t, err)
	require.Equal(t, 403, sent.Status)
	commands := c.assay(t, "key", "list", "--format", "json").Stdout
	require.Contains(t, commands, `"created_by": "user-of-org-named"`)
	require.Contains(t, commands, `"created_by": "key:`+keyID(bootstrapKey)+`"`)

	// A revoked key is rejected and remains in the list.
	for range 2 {
		require.Equal(t, 200, c.call(t, remove, path+"/"+keyID(reads), narrow, "").Status)
	}
	eventually(t, func() bool { return c.call(t, get, "/v1/organization", reads, "").Status == 401 }, "the key is still accepted")
	for _, k := range decode[[]map[string]any](t, c.call(t, get, path+"?limit=100", bootstrapKey, "")).Data {
		require.NotContains(t, k, "key")
		if k["id"] == keyID(reads) {
			require.Equal(t, false, k["is_active"])
			listed = nil
		}
	}
	require.Nil(t, listed)
	for _, id := range []string{"zzzzzz", "x", unknownID} {
		requireError(t, c.call(t, remove, path+"/"+id, bootstrapKey, ""), 404, "NOT_FOUND")
	}
}

func (c *contract) testInsights(t *testing.T) {
	c.testLimit(t, "/v1/insights?", 20, func(path string) int { return len(c.list(t, path).Data) })
	require.Equal(t, c.list(t, "/v1/insights?limit=30").Data[10:], c.list(t, "/v1/insights?offset=10").Data, "offset")
	require.Equal(t, c.list(t, "/v1/insights").Data, c.list(t, "/v1/insights?offset=0").Data, "offset 0 by default")
	c.fails(t, "/v1/insights?offset=x", 400, "INVALID_PARAMETERS", "offset")
	total := func(query string) int { return *c.list(t, "/v1/insights?limit=1&"+query).Meta.Total }
	everything := total("")

	field := func(name string) func(map[string]any) any { return func(m map[string]any) any { return m[name] } }
	typeField := func(name string) func(map[string]any) any {
		return func(m map[string]any) any { return m["insight_type"].(map[string]any)[name] }
	}
	for _, f := range []struct {
		parameter, value string
		of               func(map[string]any) any
		oneOf            []any
	}{
		{"service_id", c.service.ID, field("service_id"), []any{c.service.ID}},
		{"status", "active", field("status"), []any{"active"}},
		{"status", "muted", field("status"), []any{"muted"}},
		{"status", "active,muted", field("status"), []any{"active", "muted"}},
		{"signal_type", "trace", typeField("signal_type"), []any{"trace"}},
		{"signal_type", "metric", typeField("signal_type"), []any{"metric"}},
		{"signal_type", "log", typeField("signal_type"), []any{"log"}},
		{"impact", "Critical", typeField("impact"), []any{"Critical"}},
		{"impact", "Important", typeField("impact"), []any{"Important"}},
		{"impact", "Normal", typeField("impact"), []any{"Normal"}},
		{"impact", "Low", typeField("impact"), []any{"Low"}},
		{"impact", "Critical,Low", typeField("impact"), []any{"Critical", "Low"}},
	} {
		found := c.list(t, "/v1/insights?limit=100&"+f.parameter+"="+f.value).Data
		require.NotEmpty(t, found, "%s=%s", f.parameter, f.value)
		for _, i := range found {
			require.Contains(t, f.oneOf, f.of(i))
		}
	}
	require.Zero(t, total("status=archived"))
	require.Equal(t, everything, total("status=active")+total("status=muted"), "all statuses by default")
	for parameter, bad := range map[string]string{
		"service_id": "x", "status": "open", "signal_type": "traces", "impact": "high", "date_from": "yesterday", "date_to": "2026-01-01", "sort": "id",
	} {
		c.fails(t, "/v1/insights?"+parameter+"="+bad, 400, "INVALID_PARAMETERS", parameter)
	}
	created := c.list(t, "/v1/insights?limit=1").Data[0]["created_at"].(string)
	require.Positive(t, total("date_from="+created), "inclusive")
	require.Equal(t, everything, total("date_to="+created), "inclusive")
	require.Equal(t, everything, total("date_from=2020-01-01T00:00:00Z&date_to=2100-01-01T00:00:00Z"))
	require.Zero(t, total("date_to=2020-01-01T00:00:00Z"))
	require.Zero(t, total("date_from=2100-01-01T00:00:00Z"))
	c.fails(t, "/v1/insights?date_from=2026-01-02T00:00:00Z&date_to=2026-01-01T00:00:00Z", 400, "INVALID_PARAMETERS", "date_from")

	weight := func(m map[string]any) string {
		return strconv.Itoa(slices.Index([]string{"Low", "Normal", "Important", "Critical"}, typeField("impact")(m).(string)))
	}
	text := func(of func(map[string]any) any) func(map[string]any) string {
		return func(m map[string]any) string { return of(m).(string) }
	}
	instant := func(name string) func(map[string]any) string {
		return func(m map[string]any) string {
			at, err := time.Parse(time.RFC3339, m[name].(string))
			require.NoError(t, err)
			return at.UTC().Format("2006-01-02T15:04:05.000000")
		}
	}
	for name, of := range map[string]func(map[string]any) string{
		"created_at": instant("created_at"), "detected_ts": instant("detected_ts"), "updated_at": instant("updated_at"),
		"impact": weight, "signal_type": text(typeField("signal_type")),
	} {
		for _, prefix := range []string{"%2B", "+", "", "-"} {
			found := c.list(t, "/v1/insights?limit=100&sort="+prefix+name).Data
			require.True(t, slices.IsSortedFunc(found, func(a, b map[string]any) int {
				order := strings.Compare(of(a), of(b))
				if prefix == "-" {
					order = -order
				}
				if order == 0 {
					order = strings.Compare(a["id"].(string), b["id"].(string))
				}
				return order
			}), "sort=%s%s", prefix, name)
		}
	}
	require.Equal(t, c.list(t, "/v1/insights?sort=-created_at").Data, c.list(t, "/v1/insights").Data, "the default order")

	one := decode[map[string]any](t, c.call(t, http.MethodGet, "/v1/insights/"+c.insight.ID, bootstrapKey, "")).Data
	require.Equal(t, c.insight.ID, one["id"])
	c.fails(t, "/v1/insights/"+unknownID, 404, "INSIGHT_NOT_FOUND")
	c.fails(t, "/v1/insights/x", 400, "INVALID_PARAMETERS", "id")
}

func (c *contract) testServiceInsights(t *testing.T) {
	path := "/v1/services/" + c.service.ID + "/insights"
	every := c.list(t, path+"?status=active,archived,muted").Data
	active := c.list(t, path).Data
	require.Len(t, active, len(every)-1, "only active ones by default")
	for _, i := range active {
		require.Equal(t, "active", i["status"])
	}
	require.Len(t, c.list(t, path+"?status=muted").Data, 1)
	require.Empty(t, c.list(t, path+"?status=archived").Data)
	require.Equal(t, active[1:3], c.list(t, path+"?limit=2&offset=1").Data)
	link, err := url.Parse(c.list(t, path).Links["self"])
	require.NoError(t, err)
	require.Equal(t, "50", link.Query().Get("limit"))
	require.Equal(t, "0", link.Query().Get("offset"))
	for parameter, bad := range map[string]string{"limit": "0", "offset": "-1", "status": "all"} {
		c.fails(t, path+"?"+parameter+"="+bad, 400, "INVALID_PARAMETERS", parameter)
	}
	c.fails(t, path+"?limit=101", 400, "INVALID_PARAMETERS", "limit")
	require.Len(t, c.list(t, path+"?limit=100").Data, len(active))
	for _, id := range []string{unknownID, "x"} {
		c.fails(t, "/v1/services/"+id+"/insights", 404, "SERVICE_NOT_FOUND")
	}
}

func (c *contract) testOrganization(t *testing.T) {
	o := decode[restOrganization](t, c.call(t, http.MethodGet, "/v1/organization", bootstrapKey, "")).Data
	require.Equal(t, "default", o.Name)
	require.Equal(t, contractServices, o.ServicesCount)
	named := decode[restOrganization](t, c.call(t, http.MethodGet, "/v1/organization", c.user, "")).Data
	require.Equal(t, "named", named.Name)
	require.Nil(t, named.Score)
}

// severities are in the order of the API, each with a severity number.
var severities = []struct {
	name   string
	number int32
}{
	{"TRACE", 1}, {"DEBUG", 5}, {"INFO", 9}, {"WARN", 13}, {"ERROR", 17}, {"FATAL", 24}, {"UNSPECIFIED", 0},
}

type restLogVolume struct {
	Period     string
	Start, End time.Time
	Total      int `json:"total_count"`
	Severities []struct {
		Severity string `json:"severity_text"`
		Count    int    `json:"record_count"`
		Percent  float64
	}
	Series []struct {
		Timestamp time.Time
		Counts    map[string]int
	}
}

// requireVolume checks that a log volume has the counts, by severity.
func requireVolume(t *testing.T, v restLogVolume, counts []int) {
	t.Helper()
	total := 0
	sums := map[string]int{}
	for _, p := range v.Series {
		require.Len(t, p.Counts, len(severities))
		for name, n := range p.Counts {
			sums[name] += n
		}
	}
	for i, s := range severities {
		require.Equal(t, s.name, v.Severities[i].Severity)
		require.Equal(t, counts[i], v.Severities[i].Count, "%s in %s", s.name, v.Period)
		require.Equal(t, counts[i], sums[s.name], "the series of %s", s.name)
		total += counts[i]
	}
	require.Equal(t, total, v.Total)
}

func (c *contract) testLogVolume(t *testing.T) {
	path := "/v1/analytics/log-volume"
	for query, want := range map[string]struct {
		period string
		length time.Duration
	}{
		"":            {"24h", 24 * time.Hour},
		"?period=":    {"24h", 24 * time.Hour},
		"?period=1h":  {"1h", time.Hour},
		"?period=6h":  {"6h", 6 * time.Hour},
		"?period=12h": {"12h", 12 * time.Hour},
		"?period=24h": {"24h", 24 * time.Hour},
		"?period=7d":  {"7d", 7 * 24 * time.Hour},
		"?period=30d": {"30d", 30 * 24 * time.Hour},
	} {
		a := c.call(t, http.MethodGet, path+query, bootstrapKey, "")
		v := decode[restLogVolume](t, a).Data
		require.Equal(t, want.period, v.Period)
		require.Equal(t, want.length, v.End.Sub(v.Start))
		require.WithinDuration(t, time.Now(), v.End, time.Minute)
		require.InDelta(t, 60, len(v.Series), 2, "points")
		require.WithinDuration(t, v.Start, v.Series[0].Timestamp, 0)
		requireVolume(t, v, []int{0, 0, 0, 0, 0, 0, contractServices}) // one record each, without a severity
		require.Empty(t, a.Header.Get("ETag"), "computed anew")
	}
	require.Equal(t, 100.0, decode[restLogVolume](t, c.call(t, http.MethodGet, path, bootstrapKey, "")).Data.Severities[6].Percent)
	for _, bad := range []string{"2h", "24H", "1d", "all", "24h&period=24h"} {
		c.fails(t, path+"?period="+bad, 400, "INVALID_PARAMETERS", "period")
	}
	requireVolume(t, decode[restLogVolume](t, c.call(t, http.MethodGet, path, c.user, "")).Data, make([]int, len(severities)))
}

func (c *contract) testAnalytics(t *testing.T) {
	path := "/v1/analytics/services"
	type analytics struct {
		TotalBytes int     `json:"total_bytes"`
		TotalCost  float64 `json:"total_cost"`
		Services   []map[string]any
	}
	read := func(path string) analytics {
		return decode[analytics](t, c.call(t, http.MethodGet, path, bootstrapKey, "")).Data
	}
	c.testLimit(t, path+"?", 50, func(path string) int { return len(read(path).Services) })
	all := read(path + "?limit=100")
	require.Positive(t, all.TotalBytes)
	listed := 0
	for _, s := range all.Services {
		sum := 0.0
		for _, signal := range []string{"traces", "metrics", "logs"} {
			require.EqualValues(t, 1, s[signal+"_count"], signal)
			sum += s[signal+"_bytes"].(float64)
		}
		require.Equal(t, sum, s["total_bytes"])
		require.EqualValues(t, 1, s["active_series"])
		listed += int(sum)
		latest := s["latest_version"].(map[string]any)
		require.Equal(t, s["id"], latest["id"])
		require.Equal(t, "1.0.0", latest["version"])
		require.LessOrEqual(t, s["avoidable_cost"], s["estimated_cost"])
	}
	require.Greater(t, all.TotalBytes, listed, "the total includes the services beyond the limit")
	require.Empty(t, decode[analytics](t, c.call(t, http.MethodGet, path, c.user, "")).Data.Services)
}

func (c *contract) testSummary(t *testing.T, model *llmtest.Server) {
	path := "/v1/insights/" + c.insight.ID + "/summary"
	type summary struct {
		InsightID   string    `json:"insight_id"`
		Content     string    `json:"content"`
		Model       string    `json:"model"`
		GeneratedAt time.Time `json:"generated_at"`
		Cached      bool      `json:"cached"`
	}
	before := len(model.Requests())
	first := decode[summary](t, c.call(t, http.MethodGet, path, bootstrapKey, "")).Data
	require.Equal(t, c.insight.ID, first.InsightID)
	require.NotEmpty(t, first.Content)
	require.NotEmpty(t, first.Model)
	require.WithinDuration(t, time.Now(), first.GeneratedAt, time.Minute)
	require.False(t, first.Cached)
	second := decode[summary](t, c.call(t, http.MethodGet, path, bootstrapKey, "")).Data
	require.True(t, second.Cached)
	second.Cached = false
	require.Equal(t, first, second)
	require.Equal(t, before+1, len(model.Requests()))
	c.fails(t, "/v1/insights/x/summary", 400, "INVALID_PARAMETERS", "id")
	c.fails(t, "/v1/insights/"+unknownID+"/summary", 404, "INSIGHT_NOT_FOUND")
}

// agentPage is a list of the agent API.
type agentPage[T any] struct {
	Data       []T
	Pagination struct {
		Total   int
		HasMore bool
	}
}

// testAgent checks the agent's operations with repositories on this machine.
func (c *contract) testAgent(t *testing.T) {
	key := func(method, path, body string) *answered {
		return c.call(t, method, "/v1/agent"+path, bootstrapKey, body)
	}
	user := func(method, path, body string) *answered { return c.call(t, method, "/v1/agent"+path, c.user, body) }
	get, post, patch, put := http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut
	type repository struct {
		ID     string
		Active bool `json:"is_active"`
	}
	type installation struct {
		ID    string
		Repos []repository
	}
	type connected struct {
		Installation installation
		Repositories []repository
	}

	// Sources.
	connect := "/onboarding/installations"
	all := `{"kind":"local","url":` + strconv.Quote(c.code) + `}`
	requireError(t, c.call(t, post, "/v1/agent"+connect, c.agentOnly, all), 403, "FORBIDDEN")
	requireError(t, c.call(t, http.MethodDelete, "/v1/agent"+connect+"/"+unknownID, c.agentOnly, ""), 403, "FORBIDDEN")
	made := decode[connected](t, key(post, connect, all)).Data // a key with the scope admin
	require.Len(t, made.Repositories, 3)
	requireCode(t, user(post, connect, `{"kind":"local","url":"/etc"}`), 422)
	requireCode(t, user(post, connect, `{"kind":"git","url":"https://127.0.0.1/a"}`), 422)
	theirs := decode[connected](t, user(post, connect, all)).Data
	mine := decode[agentPage[installation]](t, key(get, "/repositories", "")).Data.Data[0].Repos
	require.Equal(t, made.Repositories, mine)
	c.repository = mine[0].ID
	on := `{"repo_id":"` + c.repository + `"}`

	// Repositories.
	at := "/repositories/" + c.repository
	requireCode(t, key(post, "/codebase/review/execute", on), 409)
	require.Equal(t, 200, key(patch, at, `{"is_active":true}`).Status)
	require.Equal(t, 200, key(patch, "/repositories/"+mine[1].ID, `{"is_active":true}`).Status)
	requireCode(t, key(patch, "/repositories/"+mine[2].ID, `{"is_active":true}`), 409)
	requireError(t, key(patch, at, `{"is_active":`), 400, "INVALID_PARAMETERS", "body")
	requireError(t, key(patch, at, `[1]`), 400, "INVALID_PARAMETERS", "body")
	requireCode(t, key(patch, "/repositories/none", `{"is_active":true}`), 404)
	requireCode(t, key(patch, at, `{"is_active":"yes"}`), 422)
	require.Equal(t, 200, key(patch, at, `{"is_active":true}`+strings.Repeat(" ", 1<<19)).Status)
	requireError(t, key(patch, at, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`), 413, "PAYLOAD_TOO_LARGE")
	require.Equal(t, 200, key(get, at, "").Status)
	require.Equal(t, 404, key(get, "/repositories/none", "").Status)
	settings := "/repositories/" + theirs.Repositories[0].ID + "/settings"
	require.Equal(t, 200, user(get, settings, "").Status)
	require.Equal(t, 200, user(put, settings, `{"ignore":["vendor/**"]}`).Status)
	requireCode(t, user(put, settings, `{"ignore":"x"}`), 422)
	requireCode(t, user(put, at+"/settings", `{}`), 404)
	requireError(t, key(put, at+"/settings", `{}`), 403, "FORBIDDEN")

	// Runs, their findings and events.
	type scheduled struct{ ExecutionID string }
	type run struct {
		Execution struct{ Status, CommitSha string }
		Phases    []struct{ State string }
		Events    []struct{ EventName string }
		Result    struct {
			Count int `json:"finding_count"`
		}
	}
	review := func(call func(string, string, string) *answered) string {
		return decode[scheduled](t, call(post, "/codebase/review/execute", on)).Data.ExecutionID
	}
	c.execution = review(key)
	var shown run
	eventually(t, func() bool {
		shown = decode[run](t, key(get, "/executions/"+c.execution, "")).Data
		return !slices.Contains([]string{"pending", "running"}, shown.Execution.Status)
	}, "the run does not end")
	require.Equal(t, "completed", shown.Execution.Status, "%+v", shown)
	require.Len(t, shown.Phases, 4)
	require.Len(t, shown.Events, 8)
	require.Len(t, shown.Execution.CommitSha, 40)
	require.Positive(t, shown.Result.Count)
	type finding struct {
		ID      string `json:"finding_id"`
		Fixable bool   `json:"fixable"`
	}
	found := decode[agentPage[finding]](t, key(get, "/codebase/findings?status=active&executionId="+c.execution, "")).Data
	require.Equal(t, shown.Result.Count, found.Pagination.Total)
	fixable := ""
	for _, f := range found.Data {
		if f.Fixable {
			fixable = f.ID
		}
	}
	require.NotEmpty(t, fixable)
	dismiss := at + "/findings/" + found.Data[0].ID
	require.Equal(t, 200, key(patch, dismiss, `{"dismissed":true,"dismissed_reason":"known"}`).Status)
	require.Equal(t, 200, key(patch, dismiss, `{"dismissed":false}`).Status)
	requireCode(t, key(patch, dismiss, `{"dismissed":1}`), 422)
	requireCode(t, key(patch, at+"/findings/none", `{"dismissed":true}`), 404)
	fix := decode[scheduled](t, key(post, "/codebase/fix/execute", `{"repo_id":"`+c.repository+`","finding_ids":["`+fixable+`"]}`)).Data.ExecutionID
	eventually(t, func() bool {
		return decode[run](t, key(get, "/executions/"+fix, "")).Data.Execution.Status == "completed"
	}, "the fix does not end")
	require.Contains(t, string(key(get, "/executions/"+fix+"/patch", "").Body), "--- a/")
	requireCode(t, key(get, "/executions/"+c.execution+"/patch", ""), 404)
	requireError(t, c.call(t, get, "/v1/agent/executions/"+fix+"/patch", c.reader, ""), 403, "FORBIDDEN")
	require.Equal(t, 200, key(post, "/codebase/instrumentation/execute", `{"repo_id":"`+c.repository+`","type":"minimum"}`).Status)
	require.Equal(t, 200, key(post, "/executions/"+c.execution+"/cancel", "").Status, "no effect: it has ended")
	requireError(t, c.call(t, post, "/v1/agent/executions/"+c.execution+"/cancel", c.reader, ""), 403, "FORBIDDEN")
	requireCode(t, user(post, "/executions/"+c.execution+"/cancel", ""), 404)
	type listed struct{ ExecutionID, ExecutionType, TriggerSource string }
	list := func(query string) agentPage[listed] {
		return decode[agentPage[listed]](t, key(get, "/executions"+query, "")).Data
	}
	requested := func(runs []listed) (types []string) { // without scheduled runs, which can start at any time
		for _, r := range runs {
			if r.TriggerSource == "manual" {
				types = append(types, r.ExecutionType)
			}
		}
		return types
	}
	require.Equal(t, []string{"instrumentation", "fix", "review"}, requested(list("").Data))
	require.Equal(t, []string{"review"}, requested(list("?executionType=review,partner-migrate-execute&status=completed&repositoryId="+c.repository).Data))
	others := "?executionType=fix,instrumentation"
	require.Equal(t, 2, list(others).Pagination.Total)
	page := list(others + "&limit=1&offset=1")
	require.Equal(t, []string{"fix"}, requested(page.Data))
	require.False(t, page.Pagination.HasMore)
	require.True(t, list(others+"&limit=1").Pagination.HasMore)
	type events struct {
		Events    []struct{ Seq int }
		LatestSeq int
	}
	timeline := "/executions/" + c.execution + "/agent-events"
	first := decode[events](t, key(get, timeline, "")).Data
	require.Len(t, first.Events, 8)
	require.Equal(t, first.Events[2:4], decode[events](t, key(get, timeline+"?afterSeq=1&limit=2", "")).Data.Events)
	require.Empty(t, decode[events](t, key(get, timeline+"?afterSeq="+strconv.Itoa(first.LatestSeq), "")).Data.Events)
	require.Equal(t, 404, key(get, "/executions/none", "").Status)
	require.Equal(t, 404, key(get, "/executions/none/agent-events", "").Status)
	require.Equal(t, 404, user(get, timeline, "").Status, "another organization's")

	for _, status := range []string{"active", "resolved", "all"} {
		require.Equal(t, 200, key(get, "/codebase/findings?status="+status+"&executionId="+c.execution, "").Status)
	}
	requireCode(t, key(get, "/codebase/findings?status=open", ""), 400)
	require.Equal(t, 200, key(get, "/findings?severity=critical,high&category=Sensitive%20Data,Volume&page=1&page_size=100", "").Status)
	requireCode(t, key(get, "/findings?page_size=101", ""), 400)
	require.Equal(t, 200, key(get, "/findings", "").Status)
	require.Equal(t, 200, key(get, "/findings/summary", "").Status)

	// Operations for users.
	require.Equal(t, 200, user(get, "/admin/installations", "").Status)
	require.Equal(t, 200, user(get, "/onboarding/status", "").Status)
	session := user(post, "/onboarding/session", "")
	require.Equal(t, 200, session.Status)
	eventually(t, func() bool { // on a busy machine the limit of ten a minute grows meanwhile
		session = user(post, "/onboarding/session", "")
		return session.Status != 200
	}, "sessions are not limited")
	requireCode(t, session, 429)
	require.NotEmpty(t, session.Header.Get("Retry-After"))
	requireCode(t, user(post, "/onboarding/repos", `{"repository_ids":[]}`), 400)
	chosen := `{"repository_ids":["` + theirs.Repositories[0].ID + `"]}`
	require.Equal(t, 200, user(post, "/onboarding/repos", chosen).Status)
	requireCode(t, user(post, "/onboarding/repos", chosen), 409)
	requireCode(t, key(post, "/codebase/partner/migrate/execute", on), 403)
	require.Equal(t, 200, user(post, "/codebase/partner/migrate/execute", `{"repo_id":"`+theirs.Repositories[0].ID+`"}`).Status)
	require.Equal(t, 200, user(http.MethodDelete, connect+"/"+theirs.Installation.ID, "").Status)
	requireCode(t, user(http.MethodDelete, connect+"/"+theirs.Installation.ID, ""), 404)
	alias := c.get(t, bootstrapKey, "/v1/codebase-agent"+timeline)
	require.Equal(t, decode[events](t, key(get, timeline, "")).Data, decode[events](t, alias).Data)

	for _, e := range endpoints {
		method, path := c.pathOf(e.op)
		if !e.agent {
			continue
		}
		if strings.Contains(e.op, "{") {
			for _, id := range []string{"a%2Fb", "%2e%2e", "."} {
				bad := strings.NewReplacer(c.execution, id, c.repository, id).Replace(path)
				require.Equal(t, 400, c.call(t, method, bad, c.user, bodyOf(method)).Status, bad)
			}
		}
		for _, other := range []string{"DELETE", "PUT"} {
			if other == "PUT" && strings.HasSuffix(path, "/settings") {
				continue
			}
			requireError(t, c.call(t, other, path, bootstrapKey, ""), 405, "METHOD_NOT_ALLOWED")
		}
	}
	c.fails(t, "/v1/agent/nothing", 404, "NOT_FOUND")

	// A conditional request of a client with a current copy.
	cached := c.call(t, get, "/v1/agent"+timeline, bootstrapKey, "", "If-None-Match", key(get, timeline, "").Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, cached.Status)
}

// requireCode checks that a response is an error with a status and any code.
func requireCode(t *testing.T, a *answered, status int) {
	t.Helper()
	require.Equal(t, status, a.Status, "%s", a.Body)
	var e restError
	require.NoError(t, json.Unmarshal(a.Body, &e))
	require.NotEmpty(t, e.Error.Code)
	require.NotEmpty(t, e.Error.Message)
}

func (c *contract) testLimits(t *testing.T) {
	requireError(t, c.call(t, http.MethodGet, "/v1/services?x="+strings.Repeat("x", 12<<10), bootstrapKey, ""), 413, "PAYLOAD_TOO_LARGE")
	for _, e := range slices.Concat(endpoints, additions) {
		method, path := c.pathOf(e.op)
		if e.agent || e.admin || method != http.MethodGet || strings.Contains(path, "/webhooks") {
			continue // other methods of the path have operations of their own
		}
		a := c.call(t, http.MethodPost, path, bootstrapKey, "{}")
		requireError(t, a, 405, "METHOD_NOT_ALLOWED")
		require.Equal(t, "GET, HEAD", a.Header.Get("Allow"))
		head := c.call(t, http.MethodHead, path, bootstrapKey, "")
		require.Equal(t, 200, head.Status, path)
		require.Empty(t, head.Body)
	}
}

// testNotConfigured starts servers on the same store with features that are missing or broken.
func (c *contract) testNotConfigured(t *testing.T, dir string, provider *issuer) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "goroutine 1 [running]: secret-of-the-store", http.StatusInternalServerError)
	}))
	defer broken.Close()
	model := llmtest.New(t)
	model.Always(llmtest.Reply{Status: http.StatusServiceUnavailable})

	bare := startDaemon(t, dir, "--metrics-store", "none", "--rate-limit", "3")
	requireError(t, c.callAt(t, bare, http.MethodGet, "/v1/analytics/log-volume", bootstrapKey, ""), 503, "SERVICE_UNAVAILABLE")
	requireError(t, c.callAt(t, bare, http.MethodGet, "/v1/insights/"+c.insight.ID+"/summary", bootstrapKey, ""), 503, "SERVICE_UNAVAILABLE")
	require.Equal(t, 200, c.callAt(t, bare, http.MethodGet, "/v1/organization", bootstrapKey, "").Status)
	var limited *answered
	eventually(t, func() bool { // on a busy machine the limit grows meanwhile
		limited = c.callAt(t, bare, http.MethodGet, "/v1/organization", bootstrapKey, "")
		return limited.Status != 200
	}, "requests are not limited")
	requireError(t, limited, 429, "RATE_LIMIT_EXCEEDED")
	require.NotEmpty(t, limited.Header.Get("Retry-After"))
	bare.stop(t)

	bare = startDaemon(t, dir, append(provider.flags(), "--metrics-store", "none", "--agent", "none")...)
	for _, e := range endpoints {
		if method, path := c.pathOf(e.op); e.agent {
			a := c.callAt(t, bare, method, path, c.user, bodyOf(method))
			requireError(t, a, 503, "SERVICE_UNAVAILABLE")
			require.NotEmpty(t, a.Header.Get("Retry-After"))
		}
	}
	bare.stop(t)

	faulty := startDaemon(t, dir, append(provider.flags(), "--metrics-store", broken.URL, "--agent-backend-url", broken.URL,
		"--summary-provider", "openai", "--summary-url", model.URL, "--summary-model", "other", "--summary-api-key", "sk-e2e", "--summary-timeout", "3s")...)
	volume := c.callAt(t, faulty, http.MethodGet, "/v1/analytics/log-volume", bootstrapKey, "")
	requireError(t, volume, 502, "UPSTREAM_ERROR")
	require.NotContains(t, string(volume.Body), "secret-of-the-store")
	summary := c.callAt(t, faulty, http.MethodGet, "/v1/insights/"+c.insight.ID+"/summary", bootstrapKey, "")
	requireError(t, summary, 503, "SERVICE_UNAVAILABLE")
	require.NotEmpty(t, summary.Header.Get("Retry-After"))
	for i, e := range slices.DeleteFunc(slices.Clone(endpoints), func(e endpoint) bool { return !e.agent }) {
		method, path := c.pathOf(e.op)
		if i > 0 && i%8 == 0 { // stay below ten consecutive failures, which open the gateway's circuit breaker
			faulty.stop(t)
			faulty = startDaemon(t, dir, append(provider.flags(), "--metrics-store", "none", "--agent-backend-url", broken.URL)...)
		}
		a := c.callAt(t, faulty, method, path, c.user, bodyOf(method))
		requireError(t, a, 502, "UPSTREAM_ERROR")
		require.NotContains(t, string(a.Body), "secret-of-the-store")
	}
	faulty.stop(t)
}

// testInternal hides tables of the store.
func (c *contract) testInternal(t *testing.T, dir string) {
	restore := hideTables(t, dir, "insights", "services", "insight_counts")
	defer func() { require.NoError(t, restore(context.WithoutCancel(t.Context()))) }()
	for _, path := range []string{
		"/v1/insights?limit=3", "/v1/insights/" + c.insight.ID, "/v1/insights/" + c.insight.ID + "/summary", "/v1/organization", "/v1/analytics/services?limit=3",
	} {
		// A cache may still answer for a moment.
		eventually(t, func() bool {
			return c.call(t, http.MethodGet, path, bootstrapKey, "").Status == http.StatusInternalServerError
		}, "%s does not fail", path)
		a := c.call(t, http.MethodGet, path, bootstrapKey, "")
		requireError(t, a, 500, "INTERNAL_ERROR")
		require.NotContains(t, string(a.Body), "table")
	}
}

// newRepository creates a git repository with an instrumentation defect.
func newRepository(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"context"

	"go.opentelemetry.io/otel"
)

func handle(ctx context.Context, id string) {
	_, span := otel.Tracer("shop").Start(ctx, "order "+id)
	defer span.End()
}
`), 0o644))
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "--all"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message=x"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// logsOf returns a request with n distinct records of each severity.
func logsOf(service string, n int, at time.Time) rulestest.Request {
	var records []*logspb.LogRecord
	for i := range n {
		for _, s := range severities {
			records = append(records, rulestest.Log(fmt.Sprintf("record %d", i), func(r *logspb.LogRecord) {
				r.SeverityNumber, r.TimeUnixNano = logspb.SeverityNumber(s.number), rulestest.Nano(at)
			}))
		}
	}
	return rulestest.LogsRequest(rulestest.Logs(rulestest.Service(service), records...))
}
