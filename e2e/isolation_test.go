// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/llm/llmtest"
	"assay/internal/rules/rulestest"
)

// tenant is an organization of the isolation test and its private data.
type tenant struct {
	credentials []string // keys and tokens
	marks       []string // its name and the ids in its responses
	services    []string
	insights    []string
	webhooks    []string
	keys        []string // ids of API keys
	logs        int      // records of each severity that it sent
}

// tenantServices is the number of services of each tenant: three, and one that sends only logs.
const tenantServices = 4

// TestOrganizationsAreIsolated sends the same telemetry for two organizations. Both request all resources,
// including those of the other organization, with keys and with tokens.
func TestOrganizationsAreIsolated(t *testing.T) {
	t.Parallel()
	model := llmtest.New(t)
	provider := startIssuer(t)
	d := startDaemon(t, t.TempDir(), append(provider.flags(),
		"--bootstrap-api-key", bootstrapKey, "--commit-interval", "10ms", "--score-interval", "200ms", "--trace-idle", "200ms",
		"--summary-provider", "openai", "--summary-url", model.URL, "--summary-model", "stub")...)
	described := d.describe(t)
	at := time.Now()
	var telemetry []rulestest.Request
	for _, name := range []string{"cart", "checkout", "search"} {
		telemetry = append(telemetry, faulty(rulestest.Attrs("service.name", name, "service.version", "1", "deployment.environment.name", "production"))...)
	}
	tenants := []*tenant{{logs: 2}, {logs: 3}}
	for i, x := range tenants {
		name := fmt.Sprintf("tenant-%d", i)
		r := d.assay(t, "organization", "create", name, "--external-id", "ext-"+name)
		require.Zero(t, r.Code, r.Stderr)
		x.credentials = []string{d.newKey(t, "--organization", name, "--scopes", "read,agent,ingest,admin"), provider.token(t, "ext-"+name)}
		webhook, _ := d.newWebhook(t, x.credentials[0], "https://localhost/"+name)
		x.webhooks = []string{webhook}
		spare := keyID(d.newKey(t, "--organization", name)) // can be revoked
		x.keys = []string{spare}
		for _, q := range telemetry {
			d.mustPost(t, x.credentials[0], q)
		}
		d.mustPost(t, x.credentials[0], logsOf("logger", x.logs, at))
		x.marks = []string{name, webhook, spare, keyID(x.credentials[0])}
	}
	for _, x := range tenants {
		key := x.credentials[0]
		eventually(t, func() bool {
			services := getAs[[]restService](t, d, key, "/v1/services").Data
			for _, s := range services {
				if s.Score == nil {
					return false
				}
			}
			return len(services) == tenantServices && len(d.insights(t, key)) >= 3*6
		}, "not evaluated")
		for _, s := range getAs[[]map[string]any](t, d, key, "/v1/services").Data {
			id := s["id"].(string)
			x.services = append(x.services, id)
			x.marks = append(x.marks, id, s["organization_id"].(string))
		}
		for _, i := range d.insights(t, key) {
			x.insights = append(x.insights, i.ID)
		}
		x.marks = append(x.marks, x.insights...)
	}
	ids := append(append(append([]string{unknownID, "exec-1"}, tenants[0].services...), tenants[1].services...), append(tenants[0].insights, tenants[1].insights...)...)
	ids = append(ids, tenants[0].webhooks[0], tenants[1].webhooks[0], tenants[0].keys[0], tenants[1].keys[0])

	rapid.Check(t, func(r *rapid.T) {
		asker := rapid.IntRange(0, 1).Draw(r, "asker")
		mine, theirs := tenants[asker], tenants[1-asker]
		op := rapid.SampledFrom(described.operations()).Draw(r, "operation")
		method, path, _ := strings.Cut(op, " ")
		for strings.Contains(path, "{") {
			from, to := strings.Index(path, "{"), strings.Index(path, "}")
			path = path[:from] + rapid.SampledFrom(ids).Draw(r, "id") + path[to+1:]
		}
		query := url.Values{}
		for name, values := range map[string][]string{
			"service_id": ids, "limit": {"1", "7", "50"}, "offset": {"0", "3", "50"}, "status": {"active", "archived,muted", "active,archived,muted"},
			"sort": {"-created_at", "impact", "signal_type"}, "impact": {"Critical", "Low,Normal"}, "signal_type": {"trace", "log"}, "period": {"1h", "30d"},
			"organization_id": theirs.marks, "org_id": theirs.marks, "tenant": theirs.marks,
		} {
			if rapid.Bool().Draw(r, name) {
				query.Set(name, rapid.SampledFrom(values).Draw(r, name))
			}
		}
		credential := rapid.SampledFrom(mine.credentials).Draw(r, "credential")
		headers := []string{"Authorization", "Bearer " + credential}
		for _, name := range []string{"X-Scope-OrgID", "X-Organization-Id"} {
			headers = append(headers, name, rapid.SampledFrom(theirs.marks).Draw(r, name))
		}
		var body []byte
		if method != http.MethodGet {
			body = []byte(`{}`)
			headers = append(headers, "Content-Type", "application/json")
		}
		target := d.REST + path + "?" + query.Encode()
		a, err := d.ask(t.Context(), method, target, body, headers...)
		require.NoError(r, err)
		u, err := url.Parse(target)
		require.NoError(r, err)
		require.NoError(r, described.check(method, u, a))
		// Links repeat the request. No other field may have data of the other organization.
		var answer map[string]json.RawMessage
		require.NoError(r, json.Unmarshal(a.Body, &answer))
		seen := string(answer["data"]) + string(answer["error"]) + string(answer["meta"])
		for _, mark := range theirs.marks {
			require.NotContains(r, seen, mark, "%s %s", method, target)
		}
		foreign := slices.Concat(theirs.services, theirs.insights, theirs.webhooks)
		if strings.HasPrefix(path, "/v1/api-keys/") {
			foreign = append(foreign, theirs.keys...) // malformed ids for other resources
		}
		for _, id := range foreign {
			if strings.Contains(path, id) && !strings.HasPrefix(path, "/v1/agent/") {
				want := http.StatusNotFound
				if credential != mine.credentials[0] && slices.ContainsFunc(additions, func(e endpoint) bool { return e.admin && e.op == op }) {
					want = http.StatusForbidden // checked before the id
				}
				require.Equal(r, want, a.Status, "%s %s", method, target)
			}
		}
	})

	for _, x := range tenants {
		for _, credential := range x.credentials {
			v := getAs[restLogVolume](t, d, credential, "/v1/analytics/log-volume?period=1h").Data
			counts := make([]int, len(severities))
			for i := range counts {
				counts[i] = x.logs
			}
			counts[len(counts)-1] += 3 // one of each service
			requireVolume(t, v, counts)
			require.Equal(t, tenantServices, *getAs[[]restService](t, d, credential, "/v1/services").Meta.Total)
		}
	}
	require.NotEqual(t, tenants[0].insights[0], tenants[1].insights[0])
}
