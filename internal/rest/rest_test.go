// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
)

// endpoints are the operations on stored data, whose responses have an entity tag.
func endpoints(f *fixture) map[string]string {
	return map[string]string{
		"services":         "/api/v1/services",
		"service":          "/api/v1/services/" + f.services[0].ID,
		"service insights": "/api/v1/services/" + f.services[0].ID + "/insights",
		"service search":   "/api/v1/services/search?q=o",
		"service groups":   "/api/v1/services/grouped",
		"service versions": "/api/v1/services/" + f.services[0].ID + "/versions",
		"insights":         "/api/v1/insights",
		"insight":          "/api/v1/insights/" + f.insights[0].ID,
		"organization":     "/api/v1/organization",
	}
}

// readEndpoints are endpoints and the operations that read other sources.
func readEndpoints(f *fixture) map[string]string {
	all := endpoints(f)
	all["summary"] = "/api/v1/insights/" + f.insights[0].ID + "/summary"
	all["log volume"] = "/api/v1/analytics/log-volume"
	all["service analytics"] = "/api/v1/analytics/services"
	return all
}

func TestEveryOperationIsTested(t *testing.T) {
	f := newFixture(t)
	require.Len(t, f.h.doc.operations, len(readEndpoints(f))+len(f.agentOperations())+len(webhookOperations)+len(apiKeyOperations))
}

func TestGolden(t *testing.T) {
	f := newFixture(t)
	for name, target := range map[string]string{
		"service.json":          "/api/v1/services/" + f.services[0].ID,
		"services.json":         "/api/v1/services?limit=2&offset=1",
		"service-groups.json":   "/api/v1/services/grouped?limit=1&sort=name-asc",
		"service-search.json":   "/api/v1/services/search?q=CHECK&limit=1",
		"service-versions.json": "/api/v1/services/" + f.services[0].ID + "/versions?limit=1",
		"insight.json":          "/api/v1/insights/" + f.insights[catalog.RES005].ID, // missing_service_name
		"organization.json":     "/api/v1/organization",
		"summary.json":          "/api/v1/insights/" + f.insights[0].ID + "/summary",
		"log-volume.json":       "/api/v1/analytics/log-volume",
		"analytics.json":        "/api/v1/analytics/services",
		"webhooks.json":         "/api/v1/webhooks",
		"deliveries.json":       "/api/v1/webhooks/" + hookID + "/deliveries",
		"api-keys.json":         "/api/v1/api-keys?limit=2",
		"error.json":            "/api/v1/insights?limit=0&offset=x&sort=name",
	} {
		t.Run(name, func(t *testing.T) {
			a := f.serve(t, inTrace(t, httptest.NewRequest("GET", target, nil), "4bf92f3577b34da6a3ce929d0e0e4736"))
			var v map[string]any
			require.NoError(t, json.Unmarshal(a.Body.Bytes(), &v))
			if d, ok := v["data"].(map[string]any); ok {
				if it, ok := d["insight_type"].(map[string]any); ok {
					// The texts belong to the catalog and have their own tests.
					require.NotEmpty(t, it["description"])
					require.NotEmpty(t, it["remediation_instructions"])
					it["description"], it["remediation_instructions"] = "...", "..."
				}
			}
			var out bytes.Buffer
			enc := json.NewEncoder(&out)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			require.NoError(t, enc.Encode(v))
			golden(t, name, out.Bytes())
		})
	}
}

func TestCredentialCheckedFirst(t *testing.T) {
	f := newFixture(t)
	for name, target := range readEndpoints(f) {
		t.Run(name, func(t *testing.T) {
			for header, want := range map[string]struct {
				status int
				code   assay.Code
			}{
				"":               {401, assay.CodeMissingCredentials},
				"Bearer a.b.c":   {401, assay.CodeInvalidToken},
				"Bearer nothing": {401, assay.CodeInvalidAPIKey},
				"Bearer away":    {503, assay.CodeUnavailable},
				ingester:         {403, assay.CodeForbidden},
			} {
				// All other parameters are wrong as well, but are checked later.
				a := f.do(t, "GET", target+"?limit=x", "Authorization", header).fails(t, want.status, want.code)
				if want.status == 401 {
					require.Equal(t, "Bearer", a.Header().Get("WWW-Authenticate"))
				}
				if want.status == 503 {
					require.Equal(t, "5", a.Header().Get("Retry-After"))
					require.NotContains(t, a.Body.String(), "10.1.2.3")
					require.Contains(t, f.log.String(), "10.1.2.3")
				}
			}
			f.get(t, target).ok(t)
			f.do(t, "GET", target, "Authorization", person).ok(t)
		})
	}
	r := httptest.NewRequest("GET", "/api/v1/organization", nil)
	r.Header["Authorization"] = []string{reader, reader}
	f.serve(t, r).fails(t, 401, assay.CodeInvalidAPIKey)
}

// TestAuthenticate: handlers outside the API respond like an operation, and share its rate limit.
func TestAuthenticate(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.RateLimit = 2 })
	outside := func(authorization string) (*assay.Principal, *answer) {
		got := &answer{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Header.Set("Authorization", authorization)
		return (&API{f.h}).Authenticate(got, r), got
	}
	for _, header := range []string{"", "Bearer a.b.c", "Bearer nothing", "Bearer away"} {
		want := f.do(t, "GET", "/api/v1/organization", "Authorization", header)
		principal, got := outside(header)
		require.Nil(t, principal)
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), got))
		require.Equal(t, want.Code, got.Code)
		require.Equal(t, want.Header(), got.Header())
		require.Equal(t, want.Error, got.Error)
		require.Equal(t, want.Meta.Timestamp, got.Meta.Timestamp)
		require.Regexp(t, `^[0-9a-f]{32}$`, got.Meta.TraceID)
	}
	require.Contains(t, f.log.String(), "path=/mcp status=503")
	for range 2 {
		principal, got := outside(reader)
		require.Equal(t, orgID, principal.OrganizationID)
		require.Empty(t, got.Header())
	}
	principal, got := outside(reader)
	require.Nil(t, principal)
	require.Equal(t, 429, got.Code)
	require.NotEmpty(t, got.Header().Get("Retry-After"))
	f.get(t, "/api/v1/services").fails(t, 429, assay.CodeRateLimited)
}

func TestForeignAndUnknown(t *testing.T) {
	f := newFixture(t)
	const unknown = "00000000-0000-4000-8000-000000000000"
	for _, c := range []struct {
		target string
		status int
		code   assay.Code
	}{
		{"/services/" + unknown, 404, assay.CodeServiceNotFound},
		{"/services/" + f.services[5].ID, 404, assay.CodeServiceNotFound}, // foreign
		{"/services/nonsense", 404, assay.CodeServiceNotFound},
		{"/services/" + unknown + "/insights", 404, assay.CodeServiceNotFound},
		{"/services/" + f.services[5].ID + "/insights", 404, assay.CodeServiceNotFound},
		{"/services/nonsense/insights", 404, assay.CodeServiceNotFound},
		{"/services/nonsense/insights?limit=x", 400, assay.CodeInvalid}, // malformed before unknown
		{"/insights/" + unknown, 404, assay.CodeInsightNotFound},
		{"/insights/" + f.insights[60].ID, 404, assay.CodeInsightNotFound},
		{"/insights/nonsense", 400, assay.CodeInvalid},
		{"/insights/urn:uuid:" + unknown, 400, assay.CodeInvalid},
		{"/insights/{" + unknown + "}", 400, assay.CodeInvalid},
		{"/insights/" + strings.ReplaceAll(unknown, "-", ""), 400, assay.CodeInvalid},
		{"/insights/" + unknown + "%00", 400, assay.CodeInvalid},
		{"/insights/..%2f" + unknown, 400, assay.CodeInvalid},
		{"/insights/%2e%2e", 400, assay.CodeInvalid},
		{"/insights/" + unknown + "/summary", 404, assay.CodeInsightNotFound},
		{"/insights/" + f.insights[60].ID + "/summary", 404, assay.CodeInsightNotFound},
		{"/insights/nonsense/summary", 400, assay.CodeInvalid},
	} {
		t.Run(c.target, func(t *testing.T) {
			a := f.get(t, strings.NewReplacer("{", "%7B", "}", "%7D").Replace("/api/v1"+c.target)).fails(t, c.status, c.code)
			if c.code == assay.CodeInvalid && !strings.Contains(c.target, "limit") {
				require.Equal(t, map[string]string{"id": "must be a UUID"}, a.Error.Details)
			}
		})
	}
	// A foreign service in the filter selects nothing.
	require.Equal(t, "[]", string(f.get(t, "/api/v1/insights?service_id="+f.services[5].ID).ok(t).Data))
	// The same ids are found by their own organization, whatever the case of the digits.
	f.do(t, "GET", "/api/v1/services/"+strings.ToUpper(f.services[5].ID), "Authorization", stranger).ok(t)
	f.do(t, "GET", "/api/v1/insights/"+strings.ToUpper(f.insights[60].ID), "Authorization", stranger).ok(t)
}

func TestUnknownPathsAndMethods(t *testing.T) {
	f := newFixture(t)
	for _, target := range []string{
		"/", "/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/services/", "/api/v2/services",
		"/api/v1/services/x/insights/", "/api/v1//services", "//api/v1/services", "/api/v1/insights//", "/metrics",
		"/apis/v1/services", "/API/v1/services", "/api/v1/Services", "/api/docs/", "/api/docs/x", "/api/schemas/Service.json",
		"/api/openapi-3.0.json", "/livez/", "/v1/services", "/api/v1/services%2f", "/%61pi%2fv1/services",
		"/api/v1/analytics", "/api/v1/insights/x/summary/", "/api/v1/agent", "/api/v1/agent/", "/api/v1/agent/executions/", "/api/v1/agent/executions//agent-events",
		"/api/v1/agent/codebase", "/api/v1/agent/repositories/x/settings/y", "/api/v1/agent/findings%2fsummary",
	} {
		t.Run(target, func(t *testing.T) {
			f.do(t, "GET", target).fails(t, 404, assay.CodeNotFound)
		})
	}
	for _, target := range []string{
		"/api/v1/./services", "/api/v1/../v1/services", "/api/v1/services/..", "/api/v1/agent/executions/.", "/api/v1/agent/executions/%2f", "/api/.",
	} {
		t.Run(target, func(t *testing.T) {
			a := f.get(t, target).fails(t, 400, assay.CodeInvalid)
			require.Contains(t, a.Error.Details, "path")
			if target != "/api/." {
				f.do(t, "GET", target).fails(t, 401, assay.CodeMissingCredentials)
			}
		})
	}
	targets := readEndpoints(f)
	targets["livez"], targets["readyz"] = "/livez", "/readyz"
	targets["json"], targets["yaml"] = "/api/openapi.json", "/api/openapi.yaml"
	targets["docs"], targets["style"] = "/api/docs", "/api/docs/style.css"
	for name, target := range targets {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"} {
			t.Run(method+" "+name, func(t *testing.T) {
				r := httptest.NewRequest("GET", target, nil)
				r.Method = method
				a := &answer{ResponseRecorder: httptest.NewRecorder()}
				f.h.ServeHTTP(a, r)
				require.NoError(t, json.Unmarshal(a.Body.Bytes(), a))
				a.fails(t, 405, assay.CodeMethodNotAllowed)
				require.Equal(t, "GET, HEAD", a.Header().Get("Allow"))
			})
		}
	}
	f.do(t, "POST", "/api/v1/nothing").fails(t, 404, assay.CodeNotFound)

	x := &exchange{ResponseWriter: httptest.NewRecorder(), s: f.h, r: httptest.NewRequest(strings.Repeat("X", 5000), "/", nil)}
	methodNotAllowed(x, "PATCH", "GET", "DELETE")
	require.Equal(t, "DELETE, GET, HEAD, PATCH", x.Header().Get("Allow"))
	require.Less(t, x.ResponseWriter.(*httptest.ResponseRecorder).Body.Len(), 500)
}

func TestPaths(t *testing.T) {
	f := newFixture(t)
	for target, status := range map[string]int{
		"/": 404, "/metrics": 404, "/apis": 404, "/x/../api/v1/services": 400,
		"/api": 404, "/api/": 404, "/api/x": 404, "/api/../x": 400, "/livez": 200, "/readyz": 200, "/api/v1/services": 401, "/api/docs": 200,
	} {
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		require.Equal(t, status, w.Code, target)
	}
	f.cfg.BasePath = "" // the API takes the whole host
	h := New(f.cfg)
	for target, status := range map[string]int{
		"/": 404, "/metrics": 404, "/v1": 404, "/v1/x": 404, "/v1/services": 401, "/v1x": 404, "/livez": 200, "/openapi.json": 200, "/docs": 200, "/docs/style.css": 200, "/docs/x": 404,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		require.Equal(t, status, w.Code, target)
	}
}

func TestBasePath(t *testing.T) {
	for base, target := range map[string]string{
		"":           "/v1/services",
		"/":          "/v1/services",
		"/api/":      "/api/v1/services",
		"deep/er":    "/deep/er/v1/services",
		"/deep/er//": "/deep/er/v1/services",
	} {
		t.Run(base, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.BasePath = base })
			a := f.get(t, target).ok(t)
			require.Equal(t, target+"?limit=50&offset=0", a.Links["self"])
			f.get(t, "/nothing").fails(t, 404, assay.CodeNotFound)
			f.get(t, "/livez").ok(t)
		})
	}
}

func TestProbes(t *testing.T) {
	const host = "10.1.2.3"
	f := newFixture(t)
	f.do(t, "POST", "/readyz").fails(t, 405, assay.CodeMethodNotAllowed)
	require.JSONEq(t, `{"status":"ok"}`, string(f.do(t, "GET", "/livez").ok(t).Data))
	require.JSONEq(t, `{"status":"ok"}`, string(f.do(t, "GET", "/readyz").ok(t).Data), "nothing to look at")
	for name, c := range map[string]struct {
		checks []Check
		want   map[string]string
		ready  bool
	}{
		"well": {[]Check{{Name: "store"}, {Name: "clock", Note: "2h ahead"}}, map[string]string{"store": "ok", "clock": "ok: 2h ahead"}, true},
		"down": {
			[]Check{{Name: "store", Err: errors.New("dial tcp " + host + ":5432: refused")}, {Name: "clock"}},
			map[string]string{"store": "failed: not available", "clock": "ok"},
			false,
		},
		"told": {
			[]Check{{Name: "intake", Note: "ignored", Err: assay.Errorf(assay.CodeUnavailable, "shutting down")}},
			map[string]string{"intake": "failed: shutting down"},
			false,
		},
		"caused": {
			[]Check{{Name: "store", Err: assay.Errorf(assay.CodeUnavailable, "ping: %w", errors.New(host))}},
			map[string]string{"store": "failed: not available"},
			false,
		},
		"two": {
			[]Check{{Name: "store", Err: fmt.Errorf("%s: %w", host, context.DeadlineExceeded)}, {Name: "intake", Err: assay.Errorf(assay.CodeUnavailable, "shutting down")}},
			map[string]string{"store": "failed: no answer in time", "intake": "failed: shutting down"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(cfg *Config) { cfg.Ready = func(context.Context) []Check { return c.checks } })
			if c.ready {
				var got probeResult
				require.NoError(t, json.Unmarshal(f.do(t, "GET", "/readyz").ok(t).Data, &got))
				require.Equal(t, probeResult{"ok", c.want}, got)
				require.Empty(t, f.log.String())
				return
			}
			a := f.do(t, "GET", "/readyz").fails(t, 503, assay.CodeUnavailable)
			require.Equal(t, c.want, a.Error.Details)
			require.NotEmpty(t, a.Header().Get("Retry-After"))
			require.NotContains(t, a.Body.String(), host)
			for _, check := range c.checks {
				if check.Err != nil {
					require.Contains(t, f.log.String(), check.Err.Error())
				}
			}
			f.do(t, "GET", "/livez").ok(t)
		})
	}
	f = newFixture(t, func(c *Config) {
		c.Ready = func(ctx context.Context) []Check {
			<-ctx.Done()
			return []Check{{Name: "store", Err: ctx.Err()}}
		}
	})
	synctest.Test(t, func(t *testing.T) { f.do(t, "GET", "/readyz").fails(t, 503, assay.CodeUnavailable) })
}

func TestStoreErrors(t *testing.T) {
	secret := errors.New("pq: password for assay@10.1.2.3 refused")
	for name, c := range map[string]struct {
		err    error
		status int
		code   assay.Code
		logged bool
	}{
		"away":      {assay.Errorf(assay.CodeUnavailable, "find: %w", secret), 503, assay.CodeUnavailable, true},
		"late":      {fmt.Errorf("find: %w: %w", context.DeadlineExceeded, secret), 503, assay.CodeUnavailable, true},
		"plain":     {secret, 500, assay.CodeInternal, true},
		"internal":  {assay.Errorf(assay.CodeInternal, "find: %w", secret), 500, assay.CodeInternal, true},
		"internal2": {assay.Errorf(assay.CodeInternal, "%s", secret.Error()), 500, assay.CodeInternal, true},
		"no code":   {&assay.Error{Message: secret.Error()}, 500, assay.CodeInternal, true},
		"odd code":  {&assay.Error{Code: "ODD", Message: secret.Error()}, 500, assay.CodeInternal, true},
		"upstream":  {assay.Errorf(assay.CodeUpstream, "query: %w", secret), 502, assay.CodeUpstream, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.FindServicesFn = func(context.Context, string, assay.Page) ([]*assay.Service, int, error) { return nil, 0, c.err }
			f.FindServiceByIDFn = func(context.Context, string, string) (*assay.Service, error) { return nil, c.err }
			f.FindInsightsFn = func(context.Context, assay.InsightFilter) ([]*assay.Insight, int, error) { return nil, 0, c.err }
			f.FindInsightByIDFn = func(context.Context, string, string) (*assay.Insight, error) { return nil, c.err }
			f.FindOrganizationByIDFn = func(context.Context, string) (*assay.Organization, error) { return nil, c.err }
			for _, target := range endpoints(f) {
				f.log.Reset()
				w := httptest.NewRecorder()
				r := httptest.NewRequest("GET", target, nil)
				r.Header.Set("Authorization", reader)
				f.h.ServeHTTP(w, r)
				a := &answer{ResponseRecorder: w}
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), a))
				a.fails(t, c.status, c.code)
				require.NotContains(t, w.Body.String(), "password")
				require.NotEmpty(t, a.Error.Message)
				require.Contains(t, f.log.String(), "password")
				require.Contains(t, f.log.String(), a.Meta.TraceID)
				require.Equal(t, c.status == 503, w.Header().Get("Retry-After") != "")
			}
		})
	}
	// A message without a cause is meant for people.
	f := newFixture(t)
	f.FindOrganizationByIDFn = func(context.Context, string) (*assay.Organization, error) {
		return nil, assay.Errorf(assay.CodeUnavailable, "the metrics store is not configured")
	}
	require.Equal(t, "the metrics store is not configured", f.get(t, "/api/v1/organization").fails(t, 503, assay.CodeUnavailable).Error.Message)
}

func TestStatusesCoverEveryCode(t *testing.T) {
	require.Len(t, statuses, 16)
	for code, status := range statuses {
		require.NotEmpty(t, http.StatusText(status), code)
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.FindServicesFn = func(ctx context.Context, _ string, _ assay.Page) ([]*assay.Service, int, error) {
			<-ctx.Done()
			return nil, 0, ctx.Err()
		}
		start := time.Now()
		f.get(t, "/api/v1/services").fails(t, 503, assay.CodeUnavailable)
		require.Equal(t, requestTimeout, time.Since(start))
	})
}

// TestEncodingTakesTurns: a response is encoded while its organization holds a slot of the CPUs.
func TestEncodingTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu := fair.NewSemaphore(2, 1)
		f := newFixture(t, func(c *Config) {
			c.CPU = cpu
			c.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) { return &assay.AgentAnswer{}, nil })
		})
		require.NoError(t, cpu.Acquire(t.Context(), orgID))
		start := time.Now()
		f.get(t, "/api/v1/services").fails(t, 503, assay.CodeUnavailable)
		require.Equal(t, requestTimeout, time.Since(start))
		f.do(t, "GET", "/api/v1/services", "Authorization", stranger).ok(t)
		f.do(t, "GET", "/livez").ok(t)
		start = time.Now()
		f.get(t, "/api/v1/agent/executions").fails(t, 503, assay.CodeUnavailable)
		require.Equal(t, slowTimeout, time.Since(start))
		cpu.Release(orgID)
		for range 3 {
			f.get(t, "/api/v1/services").ok(t)
			f.get(t, "/api/v1/agent/executions").ok(t)
		}
	})
}

// TestDecodingTakesTurns: bodies are decoded while their organization holds a slot of the CPUs.
func TestDecodingTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu := fair.NewSemaphore(2, 1)
		f := newFixture(t, func(c *Config) { c.CPU = cpu })
		require.NoError(t, cpu.Acquire(t.Context(), orgID))
		for request, timeout := range map[string]time.Duration{
			"POST /api/v1/api-keys": requestTimeout, "POST /api/v1/webhooks": requestTimeout, "PUT " + hookPath: requestTimeout,
			"POST /api/v1/agent/codebase/fix/execute": slowTimeout,
		} {
			method, path, _ := strings.Cut(request, " ")
			start := time.Now()
			f.call(t, method, path, "[", reader).fails(t, 503, assay.CodeUnavailable)
			require.Equal(t, timeout, time.Since(start), request)
			f.call(t, method, path, "[", stranger).fails(t, 400, assay.CodeInvalid)
		}
		cpu.Release(orgID)
		f.call(t, "POST", "/api/v1/api-keys", "[", reader).fails(t, 400, assay.CodeInvalid)
	})
}

// TestBodiesAreCounted: the API holds a number of bytes of bodies, by the length that a request announces.
func TestBodiesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		end, ended := io.Pipe()
		var senders sync.WaitGroup
		send := func(n int, length int64) {
			for range n {
				r := httptest.NewRequest("POST", "/api/v1/api-keys", end)
				r.Header.Set("Authorization", reader)
				r.ContentLength = length
				senders.Go(func() { f.h.ServeHTTP(httptest.NewRecorder(), r) })
			}
			synctest.Wait()
		}
		send(maxBodies/maxObject-1, -1)
		send(maxObject/1024-1, 1024)
		f.call(t, "POST", "/api/v1/api-keys", strings.Repeat(" ", 1025), reader).fails(t, 503, assay.CodeUnavailable)
		f.call(t, "POST", "/api/v1/api-keys", "[", reader).fails(t, 400, assay.CodeInvalid)
		f.call(t, "POST", "/api/v1/api-keys", strings.Repeat(" ", maxObject), stranger).fails(t, 400, assay.CodeInvalid)
		require.NoError(t, ended.Close())
		senders.Wait()
		require.Zero(t, f.h.bodies.InUse())
		r := httptest.NewRequest("POST", "/api/v1/api-keys", iotest.ErrReader(io.ErrUnexpectedEOF))
		r.Header.Set("Authorization", reader)
		r.ContentLength = maxObject + 1
		f.serve(t, r).fails(t, 413, assay.CodeTooLarge) // unread
	})
}

// TestOrganizationInContext: stores share connections by the organization of the context.
func TestOrganizationInContext(t *testing.T) {
	f := newFixture(t)
	var got string
	f.FindServicesFn = func(ctx context.Context, _ string, _ assay.Page) ([]*assay.Service, int, error) {
		got = assay.OrganizationOf(ctx)
		return nil, 0, nil
	}
	require.Equal(t, 200, f.get(t, "/api/v1/services").Code)
	require.Equal(t, orgID, got)
}

func TestPanics(t *testing.T) {
	f := newFixture(t)
	f.FindServicesFn = func(context.Context, string, assay.Page) ([]*assay.Service, int, error) { panic("secret of the house") }
	a := f.get(t, "/api/v1/services").fails(t, 500, assay.CodeInternal)
	require.NotContains(t, a.Body.String(), "secret")
	require.Contains(t, f.log.String(), "secret of the house")
	require.Contains(t, f.log.String(), "TestPanics", "the stack")
	require.Contains(t, f.log.String(), a.Meta.TraceID)

	f.FindServicesFn = func(context.Context, string, assay.Page) ([]*assay.Service, int, error) { panic(http.ErrAbortHandler) }
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { f.get(t, "/api/v1/services") })

	// After the start of the response, the connection is closed.
	x := &exchange{ResponseWriter: httptest.NewRecorder(), s: f.h, r: httptest.NewRequest("GET", "/", nil)}
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		defer x.recover()
		_, _ = x.Write([]byte("half"))
		panic("late")
	})
}

func TestUnencodableIsInternal(t *testing.T) {
	f := newFixture(t)
	f.insights[0].Attributes = map[string]any{"ratio": math.NaN()}
	a := f.get(t, "/api/v1/insights/"+f.insights[0].ID).fails(t, 500, assay.CodeInternal)
	require.Empty(t, a.Header().Get("ETag"))
	require.Contains(t, f.log.String(), "NaN")
}

func TestOversized(t *testing.T) {
	f := newFixture(t)
	r := httptest.NewRequest("GET", "/api/v1/services", strings.NewReader("x"))
	r.Header.Set("Authorization", reader)
	r.ContentLength = maxObject + 1
	require.Contains(t, f.serve(t, r).fails(t, 413, assay.CodeTooLarge).Error.Message, fmt.Sprint(maxObject))
	f.get(t, "/api/v1/services?x="+strings.Repeat("y", maxTarget)).fails(t, 413, assay.CodeTooLarge)
	f.do(t, "GET", "/api/v1/services?x="+strings.Repeat("y", maxTarget)).fails(t, 401, assay.CodeMissingCredentials)
	f.get(t, "/api/v1/services?x="+strings.Repeat("y", maxTarget/2)).ok(t)
}

func TestRemoteAddress(t *testing.T) {
	var got []string
	f := newFixture(t, func(c *Config) {
		c.Authenticate = func(_ context.Context, authorization, remoteAddr string) (*assay.Principal, error) {
			got = append(got, authorization, remoteAddr)
			return nil, assay.WithRetryAfter(assay.Errorf(assay.CodeRateLimited, "too many"), 1500*time.Millisecond)
		}
	})
	a := f.do(t, "GET", "/api/v1/services", "Authorization", "x", "X-Forwarded-For", "203.0.113.9").fails(t, 429, assay.CodeRateLimited)
	require.Equal(t, "2", a.Header().Get("Retry-After"))
	require.Equal(t, []string{"x", "192.0.2.1:1234"}, got, "the address of the connection")
}

func TestRateLimit(t *testing.T) {
	now := testNow
	f := newFixture(t, func(c *Config) {
		c.RateLimit = 3
		c.Now = func() time.Time { return now }
	})
	for range 3 {
		f.get(t, "/api/v1/services").ok(t)
	}
	a := f.get(t, "/api/v1/services").fails(t, 429, assay.CodeRateLimited)
	require.Equal(t, "20", a.Header().Get("Retry-After"))
	f.get(t, "/api/v1/services?limit=x").fails(t, 429, assay.CodeRateLimited)
	f.do(t, "GET", "/api/v1/services").fails(t, 401, assay.CodeMissingCredentials)
	f.do(t, "GET", "/api/v1/services", "Authorization", stranger).ok(t) // its own bucket
	f.do(t, "GET", "/livez").ok(t)
	now = now.Add(19 * time.Second)
	a = f.get(t, "/api/v1/services").fails(t, 429, assay.CodeRateLimited)
	require.Equal(t, "1", a.Header().Get("Retry-After"))
	now = now.Add(time.Second)
	f.get(t, "/api/v1/services").ok(t)
	f.get(t, "/api/v1/services").fails(t, 429, assay.CodeRateLimited)
	now = now.Add(time.Hour)
	for range 3 {
		f.get(t, "/api/v1/services").ok(t)
	}
	f.get(t, "/api/v1/services").fails(t, 429, assay.CodeRateLimited)
	now = now.Add(-time.Hour) // a clock that steps back changes nothing
	f.get(t, "/api/v1/services").fails(t, 429, assay.CodeRateLimited)
}

func TestEntityTag(t *testing.T) {
	f := newFixture(t)
	now := testNow
	f.h.cfg.Now = func() time.Time { now = now.Add(time.Second); return now }
	replica := newFixture(t)
	for name, target := range endpoints(f) {
		t.Run(name, func(t *testing.T) {
			a := f.get(t, target).ok(t)
			tag := a.Header().Get("ETag")
			require.Regexp(t, `^W/"[0-9a-f]{32}"$`, tag)
			require.Equal(t, "private, no-cache", a.Header().Get("Cache-Control"))
			require.Contains(t, a.Header().Values("Vary"), "Authorization")
			require.Equal(t, tag, f.get(t, target).Header().Get("ETag"), "does not depend on the time")
			require.Equal(t, tag, replica.get(t, target).Header().Get("ETag"), "nor on the replica")
			require.Equal(t, tag, f.get(t, target, "Accept-Encoding", "gzip").Header().Get("ETag"))

			for value, status := range map[string]int{
				tag:                                  304,
				strings.TrimPrefix(tag, "W/"):        304,
				"*":                                  304,
				`"other", ` + tag:                    304,
				`"with, comma",` + tag + `, "third"`: 304,
				", ," + tag:                          304,
				`"other"`:                            200,
				tag[:len(tag)-1]:                     200,
				strings.Trim(tag, `W/"`):             200,
				`"` + tag + `"`:                      200,
				"nonsense":                           200,
				strings.ToLower(tag):                 200,
				`W/"`:                                200,
			} {
				for _, method := range []string{"GET", "HEAD"} {
					a := f.do(t, method, target, "Authorization", reader, "If-None-Match", value)
					require.Equal(t, status, a.Code, "%s %s", method, value)
					require.Equal(t, tag, a.Header().Get("ETag"))
				}
			}
			// The credential comes before the tag.
			f.do(t, "GET", target, "If-None-Match", "*").fails(t, 401, assay.CodeMissingCredentials)
		})
	}
	r := httptest.NewRequest("GET", "/api/v1/organization", nil)
	r.Header = http.Header{"Authorization": {reader}, "If-None-Match": {`"a"`, f.get(t, "/api/v1/organization").Header().Get("ETag")}}
	require.Equal(t, 304, f.serve(t, r).Code)

	// Another page, total, or resource is another tag.
	tags := map[string]bool{}
	for _, target := range []string{"/api/v1/services", "/api/v1/services?limit=2", "/api/v1/services?limit=3", "/api/v1/services?offset=9"} {
		tags[f.get(t, target).Header().Get("ETag")] = true
	}
	f.orgs[0].ServicesCount++
	tags[f.get(t, "/api/v1/organization").Header().Get("ETag")] = true
	tags[replica.get(t, "/api/v1/organization").Header().Get("ETag")] = true
	require.Len(t, tags, 6)
	f.get(t, "/api/v1/insights/"+f.services[0].ID, "If-None-Match", "*").fails(t, 404, assay.CodeInsightNotFound)
}

func TestHead(t *testing.T) {
	f := newFixture(t)
	for _, target := range readEndpoints(f) {
		for _, encoding := range []string{"", "gzip"} {
			get := f.get(t, target, "Accept-Encoding", encoding)
			head := f.do(t, "HEAD", target, "Authorization", reader, "Accept-Encoding", encoding)
			require.Equal(t, http.StatusOK, head.Code)
			for _, h := range []http.Header{get.Header(), head.Header()} {
				if h.Get("Content-Encoding") != "" {
					h.Del("Content-Length") // meta has the time and an id
				}
			}
			require.Equal(t, get.Header(), head.Header())
		}
	}
	a := f.do(t, "HEAD", "/api/v1/services")
	require.Equal(t, 401, a.Code)
	require.Equal(t, "Bearer", a.Header().Get("WWW-Authenticate"))
	require.Equal(t, 404, f.do(t, "HEAD", "/nothing").Code)
	require.Equal(t, 200, f.do(t, "HEAD", "/readyz").Code)
}

func TestGzip(t *testing.T) {
	f := newFixture(t)
	const large, small = "/api/v1/insights?limit=100", "/api/v1/organization"
	plain := f.get(t, large).Body.Bytes()
	for accept, want := range map[string]bool{
		"gzip": true, "GZIP": true, "br, gzip": true, "deflate, gzip;q=0.1": true, "zstd, gzip": true,
		"gzip;q=1.0, identity; q=0.5": true, "gzip ; q=0.5": true, "gzip;q=0.5, *;q=0": true,
		"": false, "identity": false, "br": false, "gzip;q=0": false, "gzip;q=0.000": false, "*;q=0": false,
		"*, gzip;q=0": false, "gzip;q=x": false, "gzip;q=-1": false, "gzippy": false, ",,;": false,
	} {
		a := f.get(t, large, "Accept-Encoding", accept).ok(t)
		require.Equal(t, want, a.Header().Get("Content-Encoding") == "gzip", accept)
		if want {
			require.Less(t, a.Body.Len(), len(plain)/2)
			zr, err := gzip.NewReader(a.Body)
			require.NoError(t, err)
			body, err := io.ReadAll(zr)
			require.NoError(t, err)
			var got, wanted struct{ Data, Links any }
			require.NoError(t, json.Unmarshal(body, &got))
			require.NoError(t, json.Unmarshal(plain, &wanted))
			require.Equal(t, wanted, got)
		}
	}
	require.Empty(t, f.get(t, small, "Accept-Encoding", "gzip").Header().Get("Content-Encoding"), "a small body")
}

func TestOverTheWire(t *testing.T) {
	f := newFixture(t)
	srv := httptest.NewServer(f.h)
	defer srv.Close()
	client := srv.Client()
	defer client.CloseIdleConnections()
	for _, method := range []string{"GET", "HEAD"} {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+"/api/v1/insights?limit=100", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", reader)
		resp, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, method == "GET", len(body) > 0)
	}
}

func TestUnknownInsightType(t *testing.T) {
	f := newFixture(t)
	f.insights[0].Type, f.insights[0].Attributes = "from_a_newer_version", nil
	var got struct {
		InsightType InsightType `json:"insight_type"`
		Attributes  map[string]any
	}
	require.NoError(t, json.Unmarshal(f.get(t, "/api/v1/insights/"+f.insights[0].ID).ok(t).Data, &got))
	require.Equal(t, "from_a_newer_version", got.InsightType.Name)
	require.Equal(t, map[string]any{}, got.Attributes)
}

func TestScoreWithoutWindow(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Window = 48 * time.Hour })
	f.services[0].Score.Window = 0
	f.services[0].Score.EvaluatedRuleIDs = nil
	a := f.get(t, "/api/v1/services/"+f.services[0].ID).ok(t)
	require.Contains(t, string(a.Data), `"calculation_window_seconds":172800,"evaluated_rule_ids":[]`)
}

func TestServiceWithoutRecords(t *testing.T) {
	f := newFixture(t)
	x := f.services[0]
	x.FirstSeenAt, x.LastSeenAt = time.Time{}, time.Time{}
	var got Service
	require.NoError(t, json.Unmarshal(f.get(t, "/api/v1/services/"+x.ID).ok(t).Data, &got))
	require.Equal(t, got.CreatedAt, got.FirstSeenAt)
	require.Equal(t, got.CreatedAt, got.LastSeenAt)
}

// TestTiers: the plans list what the agent allows them.
func TestTiers(t *testing.T) {
	f := newFixture(t)
	all := []string{"services", "insights", "insight_summaries", "log_volume", "service_analytics", "codebase_agent"}
	for tier, features := range map[assay.Tier][]string{assay.TierFree: all, assay.TierPro: all, assay.TierEnterprise: append(all, "partner_migration")} {
		f.orgs[0].Tier, f.orgs[0].Score = tier, nil
		var o struct {
			Tier struct {
				Name                string
				Features            []string
				AllowedInsightTypes *[]string `json:"allowed_insight_types"`
			}
			Score *OrganizationScore
		}
		require.NoError(t, json.Unmarshal(f.get(t, "/api/v1/organization").ok(t).Data, &o))
		require.Equal(t, string(tier), o.Tier.Name)
		require.Equal(t, features, o.Tier.Features)
		require.Nil(t, o.Tier.AllowedInsightTypes)
		require.Nil(t, o.Score)
	}
}

func TestPatternIsVisibleOutside(t *testing.T) {
	f := newFixture(t)
	r := httptest.NewRequest("GET", "/api/v1/services/x", nil)
	f.serve(t, r).fails(t, 401, assay.CodeMissingCredentials)
	require.Equal(t, "GET /api/v1/services/{id}", r.Pattern)
}

func TestInvalidUTF8(t *testing.T) {
	f := newFixture(t)
	f.services[0].Name = "caf\xe9<&>"
	a := f.get(t, "/api/v1/services/"+f.services[0].ID).ok(t)
	require.Contains(t, string(a.Data), `"caf\ufffd<&>"`) // encoding/json escapes the replacement character
}
