// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// target returns a path that the operation answers.
func (o *agentOperation) target() string {
	return "/api/v1/agent" + strings.NewReplacer("{execution_id}", "run-1", "{repository_id}", "repo-1").Replace(o.path)
}

// body returns one that the operation takes.
func (o *agentOperation) body() string {
	if o.method == http.MethodPatch {
		return "{}"
	}
	return ""
}

// call sends a request with a body.
func (f *fixture) call(t testing.TB, method, target, body, authorization string, headers ...string) *answer {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return f.serve(t, r)
}

// TestAgentTable compares the table with the one of the interface's description.
func TestAgentTable(t *testing.T) {
	want := `
GET /admin/installations - users
POST /codebase/partner/migrate/execute -
GET /codebase/findings executionId,status
POST /codebase/fix/execute -
POST /codebase/instrumentation/execute -
POST /codebase/review/execute -
GET /executions limit,offset,status,repositoryId,executionType
GET /executions/{execution_id} -
GET /executions/{execution_id}/agent-events afterSeq,limit
GET /findings severity,category,page,page_size
GET /findings/summary -
POST /onboarding/repos - users
POST /onboarding/session - users
GET /onboarding/status - users
GET /repositories -
GET /repositories/{repository_id} -
PATCH /repositories/{repository_id} -
GET /repositories/{repository_id}/settings - users
`
	var got strings.Builder
	got.WriteByte('\n')
	for _, o := range agentOperations {
		names := make([]string, len(o.params))
		for i, p := range o.params {
			names[i] = p.Name
		}
		line := o.method + " " + o.path + " " + strings.Join(names, ",")
		if len(names) == 0 {
			line += "-"
		}
		if o.callers == users {
			line += " users"
		}
		got.WriteString(line + "\n")
	}
	require.Equal(t, want, got.String())
}

func TestAgentOperations(t *testing.T) {
	f := newFixture(t)
	var calls []*assay.AgentCall
	f.h.cfg.Agent = agentFunc(func(_ context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
		calls = append(calls, c)
		return &assay.AgentAnswer{Data: []byte(`{"id":"run-1"}`)}, nil
	})
	for _, o := range agentOperations {
		t.Run(o.id, func(t *testing.T) {
			calls = nil
			f.call(t, o.method, o.target(), o.body(), "").fails(t, 401, assay.CodeMissingCredentials)
			f.call(t, o.method, o.target(), o.body(), "Bearer nothing").fails(t, 401, assay.CodeInvalidAPIKey)
			f.call(t, o.method, o.target(), o.body(), "Bearer a.b.c").fails(t, 401, assay.CodeInvalidToken)
			f.call(t, o.method, o.target(), o.body(), ingester).fails(t, 403, assay.CodeForbidden)
			key := f.call(t, o.method, o.target(), o.body(), reader)
			if o.callers == users {
				key.fails(t, 403, assay.CodeForbidden)
				require.Empty(t, calls)
			} else {
				require.JSONEq(t, `{"id":"run-1"}`, string(key.ok(t).Data))
				require.Len(t, calls, 1)
				require.Equal(t, "key:reader", calls[0].Caller.Subject)
			}
			calls = nil
			a := f.call(t, o.method, o.target(), o.body(), person).ok(t)
			require.Equal(t, "private, no-cache", a.Header().Get("Cache-Control"))
			require.Contains(t, a.Header().Values("Vary"), "Authorization")
			require.Equal(t, "auth0|person", calls[0].Caller.Subject)
			require.Equal(t, orgID, calls[0].Caller.OrganizationID)
			require.Equal(t, o.id, calls[0].Operation)
			require.Equal(t, o.method, calls[0].Method)
			require.Equal(t, strings.TrimPrefix(o.target(), "/api/v1/agent"), calls[0].Path)
			require.Equal(t, a.Meta.TraceID, calls[0].TraceID)
			if o.method == http.MethodGet {
				calls = nil
				head := f.call(t, http.MethodHead, o.target(), "", person)
				require.Equal(t, 200, head.Code)
				require.Equal(t, a.Header().Get("Content-Length"), head.Header().Get("Content-Length"))
				require.Equal(t, "GET", calls[0].Method)
			}
		})
	}
}

// TestAgentMethods: what the other methods of the paths are answered with.
func TestAgentMethods(t *testing.T) {
	f := newFixture(t)
	for target, allow := range map[string]string{
		"/codebase/fix/execute":    "POST",
		"/findings":                "GET, HEAD",
		"/repositories/repo-1":     "GET, HEAD, PATCH",
		"/onboarding/session":      "POST",
		"/repositories/x/settings": "GET, HEAD",
	} {
		a := f.do(t, "DELETE", "/api/v1/agent"+target).fails(t, 405, assay.CodeMethodNotAllowed)
		require.Equal(t, allow, a.Header().Get("Allow"))
	}
	require.Equal(t, 405, f.do(t, "HEAD", "/api/v1/agent/codebase/fix/execute").Code)
}

// TestAgentRequest: what goes on, and as it came.
func TestAgentRequest(t *testing.T) {
	f := newFixture(t)
	var got *assay.AgentCall
	f.h.cfg.Agent = agentFunc(func(ctx context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		require.Greater(t, time.Until(deadline), 33*time.Second, "longer than the backend may take")
		got = c
		return &assay.AgentAnswer{}, nil
	})
	for target, want := range map[string][2]string{
		"/findings?severity=critical%2Chigh&category=Sensitive%20Data,Volume&page=x": {"/findings", "severity=critical%2Chigh&category=Sensitive%20Data,Volume&page=x"},
		"/executions?limit=1&limit=900&a;b&%zz&+":                                    {"/executions", "limit=1&limit=900&a;b&%zz&+"},
		"/executions/a%20b%3F%252F":                                                  {"/executions/a%20b%3F%252F", ""},
		"/executions/run:1@x/agent-events?afterSeq=-1":                               {"/executions/run:1@x/agent-events", "afterSeq=-1"},
		"/repositories/...":                                                          {"/repositories/...", ""},
		"/repositories/%00%0a":                                                       {"/repositories/%00%0a", ""},
	} {
		f.get(t, "/api/v1/agent"+target).ok(t)
		require.Equal(t, want, [2]string{got.Path, got.Query}, target)
	}
	f.get(t, "/%61pi/v%31/agent/executions/%72un").ok(t)
	require.Equal(t, "/executions/%72un", got.Path, "of another spelling of the root")

	f.call(t, "GET", "/api/v1/agent/findings", "ignored", reader,
		"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "X-Request-Id", "r1", "X-Request-Id", "r2",
		"Accept", "application/json", "User-Agent", "curl/8", "If-None-Match", `"a"`, "If-Modified-Since", "yesterday", "Content-Type", "text/plain",
		"Cookie", "session=secret", "X-Forwarded-For", "203.0.113.9", "Proxy-Authorization", "Basic eDp5", "Range", "bytes=0-1", "Accept-Encoding", "gzip").ok(t)
	require.Equal(t, map[string][]string{
		"Traceparent":  {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"X-Request-Id": {"r1", "r2"}, "Accept": {"application/json"}, "User-Agent": {"curl/8"},
		"If-None-Match": {`"a"`}, "If-Modified-Since": {"yesterday"}, "Content-Type": {"text/plain"},
	}, got.Header, "no credential, no cookie")
	require.Nil(t, got.Body, "a GET has none")

	for body, want := range map[string][]byte{
		"": nil, "null": []byte("null"), ` {"a": 1.0e2} `: []byte(` {"a": 1.0e2} `), `[1,"x"]`: []byte(`[1,"x"]`), "7": []byte("7"),
	} {
		f.call(t, "POST", "/api/v1/agent/codebase/fix/execute", body, reader).ok(t)
		require.Equal(t, want, got.Body, body)
	}
	f.call(t, "PATCH", "/api/v1/agent/repositories/x", " \n{\"a\":true}", reader).ok(t)
	require.Equal(t, " \n{\"a\":true}", string(got.Body))
}

func TestAgentRefusesRequests(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Agent = agentFunc(func(_ context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
			return nil, errors.New("called with " + c.Path)
		})
	})
	for _, c := range []struct {
		method, target, body, detail string
	}{
		{"GET", "/executions/a%2fb", "", "execution_id"},
		{"GET", "/executions/%2Fa", "", "execution_id"},
		{"GET", "/executions/%2e%2E", "", "execution_id"},
		{"GET", "/executions/%2e/agent-events", "", "execution_id"},
		{"GET", "/executions/x%2F..%2Fy/agent-events", "", "execution_id"},
		{"PATCH", "/repositories/..%2f", "{}", "repository_id"},
		{"GET", "/repositories/%2e%2e", "", "repository_id"},
		{"GET", "/executions/..", "", "path"},
		{"GET", "/executions/%2f", "", "path"},
		{"GET", "/executions/%2F/agent-events", "", "path"},
		{"GET", "/executions/../findings", "", "path"},
		{"POST", "/codebase/fix/execute", "{", "body"},
		{"POST", "/codebase/fix/execute", "{} {}", "body"},
		{"POST", "/codebase/fix/execute", " ", "body"},
		{"POST", "/codebase/review/execute", "a=b", "body"},
		{"PATCH", "/repositories/x", "", "body"},
		{"PATCH", "/repositories/x", "\n", "body"},
		{"PATCH", "/repositories/x", "null", "body"},
		{"PATCH", "/repositories/x", "[{}]", "body"},
		{"PATCH", "/repositories/x", `{"a":}`, "body"},
	} {
		t.Run(c.method+" "+c.target+" "+c.body, func(t *testing.T) {
			a := f.call(t, c.method, "/api/v1/agent"+c.target, c.body, reader).fails(t, 400, assay.CodeInvalid)
			require.Len(t, a.Error.Details, 1)
			require.Contains(t, a.Error.Details, c.detail)
		})
	}
}

func TestAgentBodyIsBounded(t *testing.T) {
	f := newFixture(t)
	chunked := func(body io.Reader) *answer {
		r := httptest.NewRequest("POST", "/api/v1/agent/codebase/fix/execute", body)
		r.Header.Set("Authorization", reader)
		r.ContentLength = -1
		return f.serve(t, r)
	}
	longest := `"` + strings.Repeat("x", maxBody-2) + `"`
	chunked(strings.NewReader(longest)).ok(t)
	chunked(strings.NewReader(longest+" ")).fails(t, 413, assay.CodeTooLarge)
	f.call(t, "POST", "/api/v1/agent/codebase/fix/execute", longest+" ", reader).fails(t, 413, assay.CodeTooLarge)
	a := chunked(iotest.ErrReader(errors.New("secret")))
	a.fails(t, 400, assay.CodeInvalid)
	require.NotContains(t, a.Body.String(), "secret")
}

func TestAgentAnswers(t *testing.T) {
	total := int64(112)
	for name, c := range map[string]struct {
		answer assay.AgentAnswer
		body   string // without meta
		total  bool
	}{
		"object":  {assay.AgentAnswer{Data: []byte(`{"a":"<&>","n":1.50}`)}, `{"data":{"a":"<&>","n":1.50}`, false},
		"nothing": {assay.AgentAnswer{}, `{"data":null`, false},
		"list":    {assay.AgentAnswer{Data: []byte(`[1]`), Total: &total}, `{"data":[1]`, true},
		"links":   {assay.AgentAnswer{Data: []byte(`[]`), Links: []byte(`{"next":"/x?y=1"}`)}, `{"data":[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(cfg *Config) {
				cfg.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) { return &c.answer, nil })
			})
			a := f.get(t, "/api/v1/agent/executions").ok(t)
			require.True(t, strings.HasPrefix(a.Body.String(), c.body), "%s", a.Body)
			require.Equal(t, c.total, a.Meta.Total != nil)
			require.Equal(t, c.answer.Links != nil, a.Links != nil)
			require.Empty(t, a.Header().Get("ETag"))
		})
	}
}

func TestAgentValidators(t *testing.T) {
	f := newFixture(t)
	for tag, want := range map[string]string{`"abc"`: `W/"abc"`, `W/"abc"`: `W/"abc"`, "": ""} {
		for _, same := range []bool{false, true} {
			f.h.cfg.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) {
				return &assay.AgentAnswer{NotModified: same, ETag: tag, LastModified: "Sat, 21 Nov 2026 09:30:00 GMT"}, nil
			})
			a := f.get(t, "/api/v1/agent/repositories", "If-None-Match", `"abc"`)
			require.Equal(t, same, a.Code == http.StatusNotModified)
			require.Equal(t, want, a.Header().Get("ETag"))
			require.Equal(t, "Sat, 21 Nov 2026 09:30:00 GMT", a.Header().Get("Last-Modified"))
		}
	}
}

// TestAgentRefusals: the backend's own refusals, which any operation may answer with.
func TestAgentRefusals(t *testing.T) {
	for status, code := range map[int]assay.Code{
		400: assay.CodeInvalid, 403: assay.CodeForbidden, 404: assay.CodeNotFound, 409: assay.CodeConflict,
		413: assay.CodeTooLarge, 422: assay.CodeUnprocessable, 429: assay.CodeRateLimited,
	} {
		f := newFixture(t, func(c *Config) {
			c.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) {
				return nil, &retryError{&assay.Error{Code: code, Message: "the plan says no", Details: map[string]string{"plan": "free"}}, time.Minute}
			})
		})
		for _, o := range agentOperations {
			a := f.call(t, o.method, o.target(), o.body(), person).fails(t, status, code)
			require.Equal(t, FailureError{Code: code, Message: "the plan says no", Details: map[string]string{"plan": "free"}}, a.Error)
			require.Equal(t, status == 429, a.Header().Get("Retry-After") == "60")
		}
	}
}

// namedRefusal has the backend's own code.
type namedRefusal struct {
	error
	code string
}

func (r *namedRefusal) Unwrap() error       { return r.error }
func (r *namedRefusal) BackendCode() string { return r.code }

func TestAgentRefusalsKeepTheirCodes(t *testing.T) {
	for own, want := range map[string]assay.Code{"REPOSITORY_LIMIT": "REPOSITORY_LIMIT", "": assay.CodeConflict} {
		f := newFixture(t, func(c *Config) {
			c.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) {
				return nil, &namedRefusal{assay.Errorf(assay.CodeConflict, "the plan says no"), own}
			})
		})
		f.call(t, "PATCH", "/api/v1/agent/repositories/x", "{}", reader).fails(t, 409, want)
	}
}

// FuzzAgentPath: what goes on is what was sent, and cannot leave its place.
func FuzzAgentPath(f *testing.F) {
	for _, id := range []string{"run-1", "a%20b", "%2e%2e", "..", "a%2fb", "%252e%252e", "%00", "x;y=1", "a?b", "ä", "%c3%a4", "{id}"} {
		f.Add(id)
	}
	var got *assay.AgentCall
	x := newFixture(f, func(c *Config) {
		c.Agent = agentFunc(func(_ context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
			got = c
			return &assay.AgentAnswer{}, nil
		})
	})
	f.Fuzz(func(t *testing.T, id string) {
		u, err := url.ParseRequestURI("/api/v1/agent/executions/" + id + "/agent-events")
		if err != nil {
			return
		}
		got = nil
		r := httptest.NewRequest("GET", "/", nil)
		r.URL, r.RequestURI = u, u.RequestURI()
		r.Header.Set("Authorization", reader)
		w := httptest.NewRecorder()
		x.h.ServeHTTP(w, r)
		if got == nil {
			require.Contains(t, []int{400, 404, 413}, w.Code)
			return
		}
		require.Equal(t, u.EscapedPath(), "/api/v1/agent"+got.Path)
		require.Equal(t, u.RawQuery, got.Query)
		for segment := range strings.SplitSeq(got.Path, "/") {
			plain, err := url.PathUnescape(segment)
			require.NoError(t, err)
			require.NotContains(t, []string{".", ".."}, plain)
			require.NotContains(t, plain, "/")
		}
	})
}
