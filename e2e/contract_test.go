// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"assay/internal/rules/rulestest"
	"assay/internal/summary/summarytest"
)

// endpoint is a row of the document's endpoint tables, with the statuses that its
// status table has for it. A 500 is asked of the rows alone that name it, and a
// forwarded operation also answers 502 and 503.
type endpoint struct {
	op       string
	user     bool // "Key: no (403)": only a user's token is accepted
	agent    bool // forwarded
	statuses []int
}

// endpoints are all rows, in the document's order.
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

// The telemetry of the contract test: enough services for every default and limit.
const contractServices = 120

// contract is a running server with everything configured, and its description.
type contract struct {
	*daemon
	described *description

	user      string // token of a user of the first organization
	stranger  string // token of a user of no organization that is known
	reader    string // keys with one scope
	agentOnly string

	service restService
	insight restInsight

	repository, execution string // ids at the agent backend
}

// TestContract drives a running server through every row of the tables of the
// user's document, and holds every answer against the published description.
func TestContract(t *testing.T) {
	t.Parallel()
	model := summarytest.New(t)
	provider := startIssuer(t)
	dir := t.TempDir()
	backend := freeAddress(t)
	c := &contract{repository: "repo-1", execution: "exec-1", daemon: startDaemon(t, dir, append(provider.flags(),
		"--agent-backend-url", "http://"+backend,
		"--bootstrap-api-key", bootstrapKey, "--commit-interval", "10ms", "--score-interval", "200ms", "--trace-idle", "200ms",
		"--summary-provider", "openai", "--summary-url", model.URL, "--summary-model", "stub", "--summary-api-key", "sk-e2e", "--log-level", "debug")...)}
	require.Zero(t, c.assay(t, "organization", "create", "named", "--external-id", "org-named").code)
	c.described = c.describe(t)
	c.user = provider.token(t, "org-named")
	c.stranger = provider.token(t, "")
	c.reader = c.newKey(t, "--scopes", "read")
	c.agentOnly = c.newKey(t, "--scopes", "agent")
	c.fill(t)
	startStub(t, backend, c.daemon)

	t.Run("the description has the document's operations", func(t *testing.T) {
		var want []string
		for _, e := range endpoints {
			want = append(want, e.op)
		}
		require.ElementsMatch(t, want, c.described.operations())
	})
	t.Run("credentials", c.testCredentials)
	t.Run("services", c.testServices)
	t.Run("insights", c.testInsights)
	t.Run("service insights", c.testServiceInsights)
	t.Run("organization", c.testOrganization)
	t.Run("log volume", c.testLogVolume)
	t.Run("analytics", c.testAnalytics)
	t.Run("summary", func(t *testing.T) { c.testSummary(t, model) })
	t.Run("agent operations", c.testAgent)
	t.Run("limits of requests", c.testLimits)
	t.Run("not configured", func(t *testing.T) { c.testNotConfigured(t, dir, provider) })
	t.Run("internal errors", func(t *testing.T) { c.testInternal(t, dir) })
	t.Run("no credential is in the log", func(t *testing.T) {
		c.stop(t)
		log := c.read(t, c.log)
		require.NotEmpty(t, log)
		for _, credential := range []string{bootstrapKey, c.reader, c.agentOnly, c.user, c.stranger, "sk-e2e"} {
			require.NotContains(t, log, credential)
			require.NotContains(t, log, credential[len(credential)-6:], "its end")
		}
		require.NotContains(t, log, "Bearer ")
	})
	if t.Failed() {
		return
	}
	t.Logf("answers checked against the description, by operation and status:\n%s", c.described.table())
	for _, e := range endpoints {
		for _, status := range e.statuses {
			require.Positive(t, c.described.seen[e.op][status], "%s has not answered %d", e.op, status)
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
		services := getAs[[]restService](t, c.daemon, bootstrapKey, "/v1/services?limit=100").Data
		return len(services) == 100 && !slices.ContainsFunc(services, func(s restService) bool {
			return s.Score == nil || !slices.Contains(s.Score.Evaluated, "SPA-005")
		}) && *getAs[[]restInsight](t, c.daemon, bootstrapKey, "/v1/insights?limit=1").Meta.Total >= 5*contractServices
	}
	eventually(t, time.Minute, ready, "the telemetry is not judged")
	c.service = getAs[[]restService](t, c.daemon, bootstrapKey, "/v1/services?limit=1").Data[0]
	c.insight = getAs[[]restInsight](t, c.daemon, bootstrapKey, "/v1/insights?limit=1&service_id="+c.service.ID).Data[0]
	muted := getAs[[]restInsight](t, c.daemon, bootstrapKey, "/v1/insights?limit=2&service_id="+c.service.ID).Data[1].ID
	require.Zero(t, c.assay(t, "insight", "mute", muted, "--reason", "known").code)
	eventually(t, soon, func() bool {
		return getAs[restInsight](t, c.daemon, bootstrapKey, "/v1/insights/"+muted).Data.Status == "muted"
	}, "not muted")
}

// call does a request with a credential, "" for none, and checks the answer
// against the description.
func (c *contract) call(t *testing.T, method, path, credential, body string, headers ...string) *answered {
	t.Helper()
	return c.callAt(t, c.daemon, method, path, credential, body, headers...)
}

// callAt is call at another server of the same description.
func (c *contract) callAt(t *testing.T, d *daemon, method, path, credential, body string, headers ...string) *answered {
	t.Helper()
	if credential != "" {
		headers = append(headers, "Authorization", "Bearer "+credential)
	}
	if body != "" {
		headers = append(headers, "Content-Type", "application/json")
	}
	a, err := d.ask(t.Context(), method, d.rest+path, []byte(body), headers...)
	require.NoError(t, err)
	u, err := url.Parse(d.rest + path)
	require.NoError(t, err)
	require.NoError(t, c.described.check(method, u, a))
	require.NotContains(t, string(a.body), "goroutine ", "a stack trace")
	return a
}

// fails does a GET that has to fail.
func (c *contract) fails(t *testing.T, path string, status int, code string, details ...string) {
	t.Helper()
	requireError(t, c.call(t, http.MethodGet, path, bootstrapKey, ""), status, code, details...)
}

// list does a GET of a list.
func (c *contract) list(t *testing.T, path string) envelope[[]map[string]any] {
	t.Helper()
	return decode[[]map[string]any](t, c.call(t, http.MethodGet, path, bootstrapKey, ""))
}

func decode[T any](t *testing.T, a *answered) envelope[T] {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	var e envelope[T]
	require.NoError(t, json.Unmarshal(a.body, &e))
	return e
}

// pathOf fills in the ids of an operation's path.
func (c *contract) pathOf(op string) (method, path string) {
	method, path, _ = strings.Cut(op, " ")
	id := c.service.ID
	if strings.Contains(path, "/insights/{id}") {
		id = c.insight.ID
	}
	return method, strings.NewReplacer("{id}", id, "{execution_id}", c.execution, "{repository_id}", c.repository).Replace(path)
}

// bodyOf is a body that the operation of a method accepts.
func bodyOf(method string) string {
	if method == http.MethodPatch {
		return `{"active":true}`
	}
	return ""
}

// testCredentials checks the section Authentication for every operation.
func (c *contract) testCredentials(t *testing.T) {
	ingest := c.newKey(t, "--scopes", "ingest")
	for _, e := range endpoints {
		method, path := c.pathOf(e.op)
		body := bodyOf(method)
		for _, bad := range []struct{ credential, code string }{
			{"", "MISSING_CREDENTIALS"},
			{"assay_sk_nobody_" + strings.Repeat("0", 32), "INVALID_API_KEY"},
			{c.user + "x", "INVALID_TOKEN"},
		} {
			a := c.call(t, method, path, bad.credential, body)
			requireError(t, a, 401, bad.code)
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
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
		// A user's token is accepted on every operation. The user belongs to another
		// organization, which has none of these resources.
		want := 200
		switch {
		case e.agent && method != http.MethodGet: // tried with the bodies that it takes below
			continue
		case strings.Contains(path, c.execution), strings.Contains(path, c.repository):
			want = 404
		case strings.Contains(path, c.service.ID), strings.Contains(path, c.insight.ID):
			want = 404
		}
		require.Equal(t, want, c.call(t, method, path, c.user, body).status, e.op)
	}
}

// testLimit checks a limit of 1 to 100 with a default.
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
	Total      int
	Severities []struct {
		Severity string
		Count    int
		Percent  float64
	}
	Series []struct {
		Timestamp time.Time
		Counts    map[string]int
	}
}

// requireVolume checks that a log volume is one of the counts, by severity.
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
		require.Empty(t, a.header.Get("ETag"), "computed anew")
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
	require.Greater(t, all.TotalBytes, listed, "services past the limit count for the total")
	require.Empty(t, decode[analytics](t, c.call(t, http.MethodGet, path, c.user, "")).Data.Services)
}

func (c *contract) testSummary(t *testing.T, model *summarytest.Server) {
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

// testAgent checks the forwarded operations against the stand-in for their backend.
func (c *contract) testAgent(t *testing.T) {
	key := func(method, path, body string) *answered {
		return c.call(t, method, "/v1/agent"+path, bootstrapKey, body)
	}
	user := func(method, path, body string) *answered { return c.call(t, method, "/v1/agent"+path, c.user, body) }
	get, post, patch := http.MethodGet, http.MethodPost, http.MethodPatch
	type resource struct {
		ID           string
		Active       bool
		Status       string
		Repositories []resource
		Seq          int
	}
	repositories := func(call func(string, string, string) *answered) (all []resource) {
		for _, i := range decode[[]resource](t, call(get, "/repositories", "")).Data {
			all = append(all, i.Repositories...)
		}
		require.NotEmpty(t, all)
		return all
	}
	mine := repositories(key)
	c.repository = mine[slices.IndexFunc(mine, func(r resource) bool { return r.Active })].ID
	on := `{"repository_id":"` + c.repository + `"}`

	// Runs, their findings and events.
	c.execution = decode[resource](t, key(post, "/codebase/review/execute", on)).Data.ID
	var run resource
	eventually(t, time.Minute, func() bool {
		run = decode[resource](t, key(get, "/executions/"+c.execution, "")).Data
		return run.Status == "completed"
	}, "the run is not over")
	for _, kind := range []string{"fix", "instrumentation"} {
		require.Equal(t, 200, key(post, "/codebase/"+kind+"/execute", on).status, kind)
	}
	all := decode[[]resource](t, key(get, "/executions", ""))
	require.Len(t, all.Data, 3)
	require.Equal(t, 3, *all.Meta.Total)
	require.Len(t, decode[[]resource](t, key(get, "/executions?limit=1&offset=1", "")).Data, 1)
	require.Len(t, decode[[]resource](t, key(get, "/executions?executionType=review,partner-migrate-execute&status=completed&repositoryId="+c.repository, "")).Data, 1)
	events := "/executions/" + c.execution + "/agent-events"
	timeline := decode[[]resource](t, key(get, events, "")).Data
	require.Greater(t, len(timeline), 4)
	require.Equal(t, timeline[2:4], decode[[]resource](t, key(get, events+"?afterSeq="+strconv.Itoa(timeline[1].Seq)+"&limit=2", "")).Data)
	require.Empty(t, decode[[]resource](t, key(get, events+"?afterSeq="+strconv.Itoa(timeline[len(timeline)-1].Seq), "")).Data)
	require.Equal(t, 404, key(get, "/executions/none", "").status)
	require.Equal(t, 404, key(get, "/executions/none/agent-events", "").status)
	require.Equal(t, 404, user(get, events, "").status, "another organization's")

	for _, status := range []string{"active", "resolved", "all"} {
		require.Equal(t, 200, key(get, "/codebase/findings?status="+status+"&executionId="+c.execution, "").status)
	}
	requireCode(t, key(get, "/codebase/findings?status=open", ""), 400)
	require.Equal(t, 200, key(get, "/findings?severity=critical,high&category=Sensitive%20Data,Volume&page=1&page_size=100", "").status)
	requireCode(t, key(get, "/findings?page_size=101", ""), 400)
	require.Equal(t, 200, key(get, "/findings", "").status)
	require.Equal(t, 200, key(get, "/findings/summary", "").status)

	// Repositories.
	repository := "/repositories/" + c.repository
	require.Equal(t, 200, key(get, repository, "").status)
	require.Equal(t, 404, key(get, "/repositories/none", "").status)
	require.Equal(t, 200, user(get, "/repositories/"+repositories(user)[0].ID+"/settings", "").status)
	require.Equal(t, 200, key(patch, repository, `{"active":false}`).status)
	require.Equal(t, 200, key(patch, repository, `{"active":true}`).status)
	requireError(t, key(patch, repository, `{"active":`), 400, "INVALID_PARAMETERS", "body")
	requireError(t, key(patch, repository, `[1]`), 400, "INVALID_PARAMETERS", "body")
	requireCode(t, key(patch, "/repositories/none", `{"active":true}`), 404)
	requireCode(t, key(patch, repository, `{"active":"yes"}`), 422)
	requireCode(t, key(patch, repository, `{"active":true,"x":"`+strings.Repeat("x", 70<<10)+`"}`), 413)
	requireError(t, key(patch, repository, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`), 413, "PAYLOAD_TOO_LARGE")
	conflict := 0
	for _, r := range mine {
		if a := key(patch, "/repositories/"+r.ID, `{"active":true}`); a.status == 409 {
			conflict++
		}
	}
	require.Positive(t, conflict, "the limit of active repositories")

	// What belongs to users.
	require.Equal(t, 200, user(get, "/admin/installations", "").status)
	require.Equal(t, 200, user(get, "/onboarding/status", "").status)
	session := user(post, "/onboarding/session", "")
	require.Equal(t, 200, session.status)
	for range 10 {
		session = user(post, "/onboarding/session", "")
	}
	requireCode(t, session, 429)
	require.NotEmpty(t, session.header.Get("Retry-After"))
	requireCode(t, user(post, "/onboarding/repos", `{"repository_ids":[]}`), 400)
	chosen := `{"repository_ids":["` + repositories(user)[0].ID + `"]}`
	require.Equal(t, 200, user(post, "/onboarding/repos", chosen).status)
	requireCode(t, user(post, "/onboarding/repos", chosen), 409)
	requireCode(t, key(post, "/codebase/partner/migrate/execute", ""), 403)
	require.Equal(t, 200, user(post, "/codebase/partner/migrate/execute", "").status)

	for _, e := range endpoints {
		method, path := c.pathOf(e.op)
		if !e.agent {
			continue
		}
		if strings.Contains(e.op, "{") {
			for _, id := range []string{"a%2Fb", "%2e%2e", "."} {
				bad := strings.NewReplacer(c.execution, id, c.repository, id).Replace(path)
				require.Equal(t, 400, c.call(t, method, bad, c.user, bodyOf(method)).status, bad)
			}
		}
		for _, other := range []string{"DELETE", "PUT"} {
			requireError(t, c.call(t, other, path, bootstrapKey, ""), 405, "METHOD_NOT_ALLOWED")
		}
	}
	c.fails(t, "/v1/agent/nothing", 404, "NOT_FOUND")

	// A client that has it already.
	first := key(get, events, "")
	again := c.call(t, get, "/v1/agent"+events, bootstrapKey, "", "If-None-Match", first.header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.status)
}

// requireCode checks that an answer is an error of a status, whatever its code.
func requireCode(t *testing.T, a *answered, status int) {
	t.Helper()
	require.Equal(t, status, a.status, "%s", a.body)
	var e restError
	require.NoError(t, json.Unmarshal(a.body, &e))
	require.NotEmpty(t, e.Error.Code)
	require.NotEmpty(t, e.Error.Message)
}

func (c *contract) testLimits(t *testing.T) {
	requireError(t, c.call(t, http.MethodGet, "/v1/services?x="+strings.Repeat("x", 12<<10), bootstrapKey, ""), 413, "PAYLOAD_TOO_LARGE")
	for _, e := range endpoints[:9] {
		_, path := c.pathOf(e.op)
		a := c.call(t, http.MethodPost, path, bootstrapKey, "{}")
		requireError(t, a, 405, "METHOD_NOT_ALLOWED")
		require.Equal(t, "GET, HEAD", a.header.Get("Allow"))
		head := c.call(t, http.MethodHead, path, bootstrapKey, "")
		require.Equal(t, 200, head.status, path)
		require.Empty(t, head.body)
	}
}

// testNotConfigured starts servers that lack something, or have it broken, on the
// same store.
func (c *contract) testNotConfigured(t *testing.T, dir string, provider *issuer) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "goroutine 1 [running]: secret-of-the-store", http.StatusInternalServerError)
	}))
	defer broken.Close()
	model := summarytest.New(t)
	model.Always(summarytest.Reply{Status: http.StatusServiceUnavailable})

	bare := startDaemon(t, dir, "--metrics-store", "none", "--rate-limit", "3")
	requireError(t, c.callAt(t, bare, http.MethodGet, "/v1/analytics/log-volume", bootstrapKey, ""), 503, "SERVICE_UNAVAILABLE")
	requireError(t, c.callAt(t, bare, http.MethodGet, "/v1/insights/"+c.insight.ID+"/summary", bootstrapKey, ""), 503, "SERVICE_UNAVAILABLE")
	require.Equal(t, 200, c.callAt(t, bare, http.MethodGet, "/v1/organization", bootstrapKey, "").status)
	limited := c.callAt(t, bare, http.MethodGet, "/v1/organization", bootstrapKey, "")
	requireError(t, limited, 429, "RATE_LIMIT_EXCEEDED")
	require.NotEmpty(t, limited.header.Get("Retry-After"))
	bare.stop(t)

	bare = startDaemon(t, dir, append(provider.flags(), "--metrics-store", "none")...)
	for _, e := range endpoints {
		if method, path := c.pathOf(e.op); e.agent {
			a := c.callAt(t, bare, method, path, c.user, bodyOf(method))
			requireError(t, a, 503, "SERVICE_UNAVAILABLE")
			require.NotEmpty(t, a.header.Get("Retry-After"))
		}
	}
	bare.stop(t)

	faulty := startDaemon(t, dir, append(provider.flags(), "--metrics-store", broken.URL, "--agent-backend-url", broken.URL,
		"--summary-provider", "openai", "--summary-url", model.URL, "--summary-model", "other", "--summary-api-key", "sk-e2e", "--summary-timeout", "3s")...)
	volume := c.callAt(t, faulty, http.MethodGet, "/v1/analytics/log-volume", bootstrapKey, "")
	requireError(t, volume, 502, "UPSTREAM_ERROR")
	require.NotContains(t, string(volume.body), "secret-of-the-store")
	summary := c.callAt(t, faulty, http.MethodGet, "/v1/insights/"+c.insight.ID+"/summary", bootstrapKey, "")
	requireError(t, summary, 503, "SERVICE_UNAVAILABLE")
	require.NotEmpty(t, summary.header.Get("Retry-After"))
	for i, e := range slices.DeleteFunc(slices.Clone(endpoints), func(e endpoint) bool { return !e.agent }) {
		method, path := c.pathOf(e.op)
		if i > 0 && i%8 == 0 { // before ten failures in a row have the gateway spare the backend
			faulty.stop(t)
			faulty = startDaemon(t, dir, append(provider.flags(), "--metrics-store", "none", "--agent-backend-url", broken.URL)...)
		}
		a := c.callAt(t, faulty, method, path, c.user, bodyOf(method))
		requireError(t, a, 502, "UPSTREAM_ERROR")
		require.NotContains(t, string(a.body), "secret-of-the-store")
	}
	faulty.stop(t)
}

// testInternal takes tables away from the store.
func (c *contract) testInternal(t *testing.T, dir string) {
	restore := hideTables(t, dir, "insights", "services", "insight_counts")
	defer func() { require.NoError(t, restore(context.WithoutCancel(t.Context()))) }()
	for _, path := range []string{
		"/v1/insights?limit=3", "/v1/insights/" + c.insight.ID, "/v1/insights/" + c.insight.ID + "/summary", "/v1/organization", "/v1/analytics/services?limit=3",
	} {
		// What a cache still knows may be answered for a moment.
		eventually(t, soon, func() bool {
			return c.call(t, http.MethodGet, path, bootstrapKey, "").status == http.StatusInternalServerError
		}, "%s does not fail", path)
		a := c.call(t, http.MethodGet, path, bootstrapKey, "")
		requireError(t, a, 500, "INTERNAL_ERROR")
		require.NotContains(t, string(a.body), "table")
	}
}

// freeAddress returns a loopback address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// startStub starts the stand-in for the agent backend of a server.
func startStub(t *testing.T, address string, d *daemon) {
	t.Helper()
	o := decode[restOrganization](t, d.get(t, bootstrapKey, "/v1/organization")).Data
	path, err := program()
	require.NoError(t, err)
	organizations := d.assay(t, "organization", "list", "--format", "json")
	require.Zero(t, organizations.code, organizations.stderr)
	var all []struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(organizations.stdout), &all))
	partners := ""
	for _, other := range all {
		if other.ID != o.ID { // one organization may not migrate
			partners = other.ID
		}
	}
	cmd := exec.Command(path, "agent-stub", "--address", address, "--jwks-url", d.root+"/.well-known/jwks.json", "--partner-organizations", partners)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	eventually(t, time.Minute, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, "the stand-in does not listen")
}

// logsOf returns a request with n records of each severity, all different.
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
