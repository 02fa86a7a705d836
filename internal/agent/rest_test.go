// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/agent"
	"assay/internal/rest"
)

const credential = "Bearer assay_sk_abc123_0123456789abcdef0123456789abcdef"

// server is the API in front of a gateway in front of a backend.
func server(t *testing.T, backend http.Handler) *httptest.Server {
	b := httptest.NewServer(backend)
	t.Cleanup(b.Close)
	g, err := agent.New(agent.Config{
		URL:  b.URL + "/backend",
		Sign: func(context.Context, *assay.Principal) (string, error) { return "signed", nil },
	})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	s := httptest.NewServer(rest.New(rest.Config{
		BasePath: "/api", Agent: g,
		Authenticate: func(_ context.Context, header, _ string) (*assay.Principal, error) {
			if header != credential {
				return nil, assay.Errorf(assay.CodeInvalidAPIKey, "unknown")
			}
			return &assay.Principal{OrganizationID: "org-1", Subject: "user-1", User: true, Scopes: assay.Scopes()}, nil
		},
		Ready: func(context.Context) []rest.Check { return nil },
	}))
	t.Cleanup(s.Close)
	return s
}

// send writes a request as it is, which an http.Client would not.
func send(t *testing.T, s *httptest.Server, method, target, body string, fields ...string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	head := method + " " + target + " HTTP/1.1\r\nHost: assay\r\nConnection: close\r\nAuthorization: " + credential + "\r\n"
	for _, f := range fields {
		head += f + "\r\n"
	}
	_, err = fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(answer)
}

// TestThroughTheAPI: from socket to socket.
func TestThroughTheAPI(t *testing.T) {
	var got *http.Request
	var uri, sent string
	s := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got, uri, sent = r, r.RequestURI, string(body)
		_, _ = io.WriteString(w, `{"data":[{"n":1.50}],"meta":{"total":7},"links":{"next":"https://agent.internal/x?page=2"}}`)
	}))
	for _, target := range []string{
		"/findings?a=1;b=2&c=%zz&d=+%2B&e=&&f=%E2%9C%93",
		"/findings?severity=a&severity=b&category=&category",
		"/findings?q=" + strings.Repeat("%20", 8<<10/3),
		"/executions/a%20b",
		"/executions/%E2%9C%93%c3%a4",
		"/executions/" + strings.Repeat("x", 512) + "/agent-events?afterSeq=17",
	} {
		status, body := send(t, s, "GET", "/api/v1/agent"+target, "", "Cookie: session=secret", "X-Api-Key: secret", "X-Forwarded-For: 203.0.113.9")
		require.Equal(t, 200, status, body)
		require.Equal(t, "/backend"+target, uri)
		require.Equal(t, "Bearer signed", got.Header.Get("Authorization"))
		require.NotContains(t, fmt.Sprint(got.Header), "secret")
		require.NotContains(t, fmt.Sprint(got.Header), "assay_sk_")
		require.NotContains(t, fmt.Sprint(got.Header), "203.0.113.9")
		var envelope struct {
			Data  json.RawMessage
			Meta  struct{ Total int }
			Links map[string]string
		}
		require.NoError(t, json.Unmarshal([]byte(body), &envelope))
		require.Equal(t, `[{"n":1.50}]`, string(envelope.Data))
		require.Equal(t, 7, envelope.Meta.Total)
		path, _, _ := strings.Cut(target, "?")
		require.Equal(t, "/api/v1/agent"+path+"?page=2", envelope.Links["next"], "a path of the API")
	}
	status, _ := send(t, s, "PATCH", "/api/v1/agent/repositories/r", "{ \"active\" : true }")
	require.Equal(t, 200, status)
	require.Equal(t, `{ "active" : true }`, sent)

	got = nil
	for _, id := range []string{"%2F", "a%2fb", "..", ".", "%2e%2e", "%2E", "..%2f..%2fadmin", "..;", `..%5cx`} {
		status, body := send(t, s, "GET", "/api/v1/agent/executions/"+id, "")
		require.Equal(t, 400, status, "%s: %s", id, body)
	}
	require.Nil(t, got)
}

// TestRetryAfterThroughTheAPI: every kept status keeps the delay of the backend.
func TestRetryAfterThroughTheAPI(t *testing.T) {
	var status int
	var after string
	s := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
	}))
	for sent, want := range map[int][2]string{ // with a delay of 7 s, and without one
		200: {}, 400: {"7", ""}, 403: {"7", ""}, 404: {"7", ""}, 409: {"7", ""}, 413: {"7", ""}, 422: {"7", ""}, 429: {"7", "5"}, 503: {"7", "5"},
		401: {}, 410: {}, 500: {}, 504: {},
	} {
		for i, delay := range []string{"7", ""} {
			status, after = sent, delay
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/agent/executions", nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", credential)
			resp, err := s.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want[i], resp.Header.Get("Retry-After"), status)
		}
	}
}

// TestStatusesThroughTheAPI: the table of docs/agent-backend.md.
func TestStatusesThroughTheAPI(t *testing.T) {
	var status int
	var body string
	s := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	for _, c := range []struct {
		status int
		body   string
		want   int
		code   string
	}{
		{200, "{}", 200, ""},
		{201, "[]", 200, ""},
		{204, "", 200, ""},
		{200, "<html>", 502, "UPSTREAM_ERROR"},
		{302, "", 502, "UPSTREAM_ERROR"},
		{304, "", 502, "UPSTREAM_ERROR"},
		{400, "", 400, "INVALID_PARAMETERS"},
		{401, "{}", 502, "UPSTREAM_ERROR"},
		{403, "<html>", 403, "FORBIDDEN"},
		{404, "{}", 404, "NOT_FOUND"},
		{409, `{"error":{"code":"REPOSITORY_LIMIT","message":"the plan allows 5 repositories"}}`, 409, "REPOSITORY_LIMIT"},
		{410, "", 502, "UPSTREAM_ERROR"},
		{413, "", 413, "PAYLOAD_TOO_LARGE"},
		{422, "", 422, "UNPROCESSABLE_ENTITY"},
		{429, "", 429, "RATE_LIMIT_EXCEEDED"},
		{500, `{"error":{"code":"SECRET","message":"stack trace"}}`, 502, "UPSTREAM_ERROR"},
		{503, "", 503, "SERVICE_UNAVAILABLE"},
	} {
		status, body = c.status, c.body
		got, answer := send(t, s, "POST", "/api/v1/agent/codebase/fix/execute", "")
		require.Equal(t, c.want, got, "%d: %s", c.status, answer)
		if c.code != "" {
			require.Contains(t, answer, `"code":"`+c.code+`"`)
			require.NotContains(t, answer, "stack trace")
		}
		if c.status == 409 {
			require.Contains(t, answer, "the plan allows 5 repositories")
		}
		if c.want >= 500 {
			require.Contains(t, answer, "the agent backend", "whose fault it is")
		}
	}
}
