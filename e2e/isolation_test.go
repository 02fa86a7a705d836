// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/rules/rulestest"
	"assay/internal/summary/summarytest"
)

// tenant is an organization of the isolation test and everything that only it may see.
type tenant struct {
	credentials []string // keys and tokens
	marks       []string // ids that stand in its answers, and its name
	services    []string
	insights    []string
	logs        int // records of each severity that it sent
}

// tenantServices are the services of each tenant: three, and one that sends logs alone.
const tenantServices = 4

// TestOrganizationsAreApart gives two organizations the same telemetry and has
// both ask anything, also for what is the other's, with keys and with tokens.
func TestOrganizationsAreApart(t *testing.T) {
	t.Parallel()
	model := summarytest.New(t)
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
		require.Zero(t, r.code, r.stderr)
		x.credentials = []string{d.newKey(t, "--organization", name), provider.token(t, "ext-"+name)}
		for _, q := range telemetry {
			d.mustPost(t, x.credentials[0], q)
		}
		d.mustPost(t, x.credentials[0], logsOf("logger", x.logs, at))
		x.marks = []string{name}
	}
	for _, x := range tenants {
		key := x.credentials[0]
		eventually(t, time.Minute, func() bool {
			services := getAs[[]restService](t, d, key, "/v1/services").Data
			for _, s := range services {
				if s.Score == nil {
					return false
				}
			}
			return len(services) == tenantServices && len(d.insights(t, key)) >= 3*6
		}, "not judged")
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
			"service_id": ids, "limit": {"1", "7", "100"}, "offset": {"0", "3", "50"}, "status": {"active", "archived,muted", "active,archived,muted"},
			"sort": {"-created_at", "impact", "signal_type"}, "impact": {"Critical", "Low,Normal"}, "signal_type": {"trace", "log"}, "period": {"1h", "30d"},
			"organization_id": theirs.marks, "org_id": theirs.marks, "tenant": theirs.marks,
		} {
			if rapid.Bool().Draw(r, name) {
				query.Set(name, rapid.SampledFrom(values).Draw(r, name))
			}
		}
		headers := []string{"Authorization", "Bearer " + rapid.SampledFrom(mine.credentials).Draw(r, "credential")}
		for _, name := range []string{"X-Scope-OrgID", "X-Organization-Id"} {
			headers = append(headers, name, rapid.SampledFrom(theirs.marks).Draw(r, name))
		}
		var body []byte
		if method != http.MethodGet {
			body = []byte(`{}`)
			headers = append(headers, "Content-Type", "application/json")
		}
		target := d.rest + path + "?" + query.Encode()
		a, err := d.ask(t.Context(), method, target, body, headers...)
		require.NoError(r, err)
		u, err := url.Parse(target)
		require.NoError(r, err)
		require.NoError(r, described.check(method, u, a))
		// Links repeat what was asked for; nothing else may hold what is the other's.
		var answer map[string]json.RawMessage
		require.NoError(r, json.Unmarshal(a.body, &answer))
		seen := string(answer["data"]) + string(answer["error"]) + string(answer["meta"])
		for _, mark := range theirs.marks {
			require.NotContains(r, seen, mark, "%s %s", method, target)
		}
		for _, id := range append(theirs.services, theirs.insights...) {
			if strings.Contains(path, id) && !strings.HasPrefix(path, "/v1/agent/") {
				require.Equal(r, http.StatusNotFound, a.status, "%s %s", method, target)
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
