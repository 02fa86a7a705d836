// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// agentOperations returns the operations of the agent backend.
func (f *fixture) agentOperations() []*operation {
	return slices.DeleteFunc(slices.Clone(f.h.doc.operations), func(o *operation) bool { return o.Tags[0] != tagAgent })
}

// target returns a path of the operation.
func (o *operation) target() string {
	return "/api" + strings.NewReplacer("{execution_id}", "run-1", "{repository_id}", "repo-1", "{finding_id}", "otel-1", "{installation_id}", "installation-1").Replace(o.path)
}

// body returns a valid body for the operation.
func (o *operation) body() string {
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

// TestAgentTable compares the table with the one of the interface's description, and its additions.
func TestAgentTable(t *testing.T) {
	want := `
GET /admin/installations - users
GET /codebase/findings executionId,status
POST /codebase/fix/execute -
POST /codebase/instrumentation/execute -
POST /codebase/partner/migrate/execute -
POST /codebase/review/execute -
GET /executions limit,offset,status,repositoryId,executionType
GET /executions/{execution_id} -
GET /executions/{execution_id}/agent-events afterSeq,limit
POST /executions/{execution_id}/cancel -
GET /executions/{execution_id}/patch -
GET /findings severity,category,page,page_size
GET /findings/summary -
POST /onboarding/installations - administrators
DELETE /onboarding/installations/{installation_id} - administrators
POST /onboarding/repos - users
POST /onboarding/session - users
GET /onboarding/status - users
GET /repositories -
GET /repositories/{repository_id} -
PATCH /repositories/{repository_id} -
PATCH /repositories/{repository_id}/findings/{finding_id} -
GET /repositories/{repository_id}/settings - users
PUT /repositories/{repository_id}/settings - users
`
	var got strings.Builder
	got.WriteByte('\n')
	for _, o := range newFixture(t).agentOperations() {
		var names []string
		for _, p := range o.Parameters {
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
		line := o.method + " " + strings.TrimPrefix(o.path, agentRoot) + " " + strings.Join(names, ",")
		if len(names) == 0 {
			line += "-"
		}
		if o.usersOnly() {
			line += " users"
		}
		if o.Administrators {
			line += " administrators"
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
	for _, o := range f.agentOperations() {
		t.Run(o.ID, func(t *testing.T) {
			calls = nil
			f.call(t, o.method, o.target(), o.body(), "").fails(t, 401, assay.CodeMissingCredentials)
			f.call(t, o.method, o.target(), o.body(), "Bearer nothing").fails(t, 401, assay.CodeInvalidAPIKey)
			f.call(t, o.method, o.target(), o.body(), "Bearer a.b.c").fails(t, 401, assay.CodeInvalidToken)
			f.call(t, o.method, o.target(), o.body(), ingester).fails(t, 403, assay.CodeForbidden)
			key := f.call(t, o.method, o.target(), o.body(), reader)
			if o.usersOnly() {
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
			require.Equal(t, o.ID, calls[0].Operation)
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

// TestAgentAdministrators: connecting sources needs a user, or a key with the scope admin.
func TestAgentAdministrators(t *testing.T) {
	f := newFixture(t)
	f.h.cfg.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) { return &assay.AgentAnswer{}, nil })
	authenticate := f.h.cfg.Authenticate
	f.h.cfg.Authenticate = func(ctx context.Context, header, remote string) (*assay.Principal, error) {
		principal, err := authenticate(ctx, header, remote)
		if err == nil && header == reader {
			principal.Scopes = assay.DefaultScopes()
		}
		return principal, err
	}
	f.call(t, "POST", "/api/v1/agent/onboarding/installations", "{}", reader).fails(t, 403, assay.CodeForbidden)
	f.call(t, "DELETE", "/api/v1/agent/onboarding/installations/x", "", reader).fails(t, 403, assay.CodeForbidden)
	f.call(t, "POST", "/api/v1/agent/codebase/review/execute", "{}", reader).ok(t)
	f.call(t, "POST", "/api/v1/agent/onboarding/installations", "{}", person).ok(t)
}

// TestAgentAlias serves the operations at a second path.
func TestAgentAlias(t *testing.T) {
	var calls []*assay.AgentCall
	f := newFixture(t, func(c *Config) {
		c.AgentAlias = "other"
		c.Agent = agentFunc(func(_ context.Context, call *assay.AgentCall) (*assay.AgentAnswer, error) {
			calls = append(calls, call)
			return &assay.AgentAnswer{}, nil
		})
	})
	for _, root := range []string{"agent", "other"} {
		f.get(t, "/api/v1/"+root+"/executions/run%201?limit=1").ok(t)
		f.call(t, "POST", "/api/v1/"+root+"/findings", "{}", reader).fails(t, 405, assay.CodeMethodNotAllowed)
	}
	require.Equal(t, "/executions/run%201", calls[0].Path)
	require.Equal(t, calls[0].Path, calls[1].Path)
	require.Equal(t, calls[0].Operation, calls[1].Operation)
}

// TestAgentMethods checks the responses to other methods of the paths.
func TestAgentMethods(t *testing.T) {
	f := newFixture(t)
	for target, allow := range map[string]string{
		"/codebase/fix/execute":    "POST",
		"/findings":                "GET, HEAD",
		"/repositories/repo-1":     "GET, HEAD, PATCH",
		"/onboarding/session":      "POST",
		"/repositories/x/settings": "GET, HEAD, PUT",
	} {
		a := f.do(t, "DELETE", "/api/v1/agent"+target).fails(t, 405, assay.CodeMethodNotAllowed)
		require.Equal(t, allow, a.Header().Get("Allow"))
	}
	require.Equal(t, 405, f.do(t, "HEAD", "/api/v1/agent/codebase/fix/execute").Code)
}

// TestAgentRequest checks the forwarded request.
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
		{"POST", "/codebase/review/execute", "{\"a\":\"\xff\"}", "body"},
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

// TestAgentBodiesThatDoNotEnd checks that the number of incomplete bodies is limited, and that those of one
// organization leave room for another's.
func TestAgentBodiesThatDoNotEnd(t *testing.T) {
	f := newFixture(t)
	end, ended := io.Pipe()
	var senders sync.WaitGroup
	send := func(authorization string, body io.Reader) *answer {
		r := httptest.NewRequest("POST", "/api/v1/agent/codebase/fix/execute", body)
		r.Header.Set("Authorization", authorization)
		r.ContentLength = -1
		return f.serve(t, r)
	}
	begun := make(chan struct{})
	for range maxBodies / maxBody {
		senders.Go(func() {
			r := httptest.NewRequest("POST", "/api/v1/agent/codebase/fix/execute", io.MultiReader(&signal{begun: begun}, end))
			r.Header.Set("Authorization", reader)
			r.ContentLength = -1
			f.h.ServeHTTP(httptest.NewRecorder(), r)
		})
		<-begun
	}
	send(reader, strings.NewReader("{}")).fails(t, 503, assay.CodeUnavailable)
	f.get(t, "/api/v1/agent/executions").ok(t)
	send(stranger, strings.NewReader("{}")).ok(t)
	require.NoError(t, ended.Close())
	senders.Wait()
	send(reader, strings.NewReader("{}")).ok(t)
}

// signal is an empty body that signals when it is read.
type signal struct{ begun chan<- struct{} }

func (s *signal) Read([]byte) (int, error) {
	s.begun <- struct{}{}
	return 0, io.EOF
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
		"no link": {assay.AgentAnswer{Data: []byte(`[]`), Links: []byte(`{"next":null,"docs":"https://example.com"}`)}, `{"data":[]`, false},
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

// TestAgentLinks: no link of the backend leads away from the operation that was called.
func TestAgentLinks(t *testing.T) {
	for links, want := range map[string]map[string]string{
		`{}`: {},
		`{"self":"/executions?offset=50&limit=5","next":"?offset=100","prev":"executions"}`: {
			"self": "PATH?limit=5&offset=50", "next": "PATH?offset=100", "prev": "PATH",
		},
		`{"first":"https://evil.example/x?page=1","last":"//evil.example?page=9","next":"javascript:alert(1)","prev":"https://user:pass@evil.example:1/?a=%22%3Cb"}`: {
			"first": "PATH?page=1", "last": "PATH?page=9", "next": "PATH", "prev": "PATH?a=%22%3Cb",
		},
		`{"next":"\\evil?x=1#y","docs":"/elsewhere","related":{"href":"https://evil.example"}}`: {"next": "PATH?x=1"},
		`{"self":5,"first":null,"last":["/x"],"next":"http://[bad","prev":"/x?a=%zz"}`:          {"prev": "PATH"},
		`{"next":"/x?a=` + strings.Repeat("x", maxTarget) + `"}`:                                {},
	} {
		f := newFixture(t, func(cfg *Config) {
			cfg.AgentAlias = "helper"
			cfg.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) {
				return &assay.AgentAnswer{Data: []byte(`[]`), Links: []byte(links)}, nil
			})
		})
		for _, path := range []string{"/api/v1/agent/executions", "/api/v1/helper/executions", "/api/v1/agent/executions/a%20b/agent-events"} {
			own := map[string]string{}
			for name, link := range want {
				own[name] = strings.Replace(link, "PATH", path, 1)
			}
			require.Equal(t, own, f.get(t, path+"?offset=5").ok(t).Links, links)
		}
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

// TestAgentRefusals checks the backend's own errors, which any operation may return.
func TestAgentRefusals(t *testing.T) {
	for status, code := range map[int]assay.Code{
		400: assay.CodeInvalid, 403: assay.CodeForbidden, 404: assay.CodeNotFound, 409: assay.CodeConflict,
		413: assay.CodeTooLarge, 422: assay.CodeUnprocessable, 429: assay.CodeRateLimited,
	} {
		f := newFixture(t, func(c *Config) {
			c.Agent = agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) {
				return nil, assay.WithRetryAfter(&assay.Error{Code: code, Message: "the plan says no", Details: map[string]string{"plan": "free"}}, time.Minute)
			})
		})
		for _, o := range f.agentOperations() {
			a := f.call(t, o.method, o.target(), o.body(), person).fails(t, status, code)
			require.Equal(t, FailureError{Code: code, Message: "the plan says no", Details: map[string]string{"plan": "free"}}, a.Error)
			require.Equal(t, "60", a.Header().Get("Retry-After"))
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

// FuzzAgentPath: the forwarded path equals the sent one and stays below the root of the
// agent.
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
