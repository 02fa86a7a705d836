// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/internal/fair"
	"assay/internal/safetext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is a REST API with one service, for the key "right".
func api(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":"UNAUTHORIZED","message":"no\u202e\u001b","details":{"a":"b"}}}`)
			return
		}
		switch r.URL.RequestURI() {
		case "/api/v1/services?limit=20":
			fmt.Fprintf(w, `{"data":[{"name":"a\u202eb","from":%q}],"meta":{"total":7}}`, r.RemoteAddr)
		case "/api/v1/services/search?limit=5&q=a%26b":
			fmt.Fprint(w, `{"data":[],"meta":{"total":0}}`)
		case "/api/v1/insights?limit=20&service_id=s&status=active":
			fmt.Fprint(w, `{"data":[],"meta":{"total":0}}`)
		case "/api/v1/insights/a%2Fb":
			fmt.Fprint(w, `{"data":{"id":"x"},"meta":{}}`)
		case "/api/v1/agent/findings?page_size=20&severity=high":
			fmt.Fprint(w, `{"data":{"data":[]},"meta":{}}`)
		case "/api/v1/services/large":
			fmt.Fprintf(w, `{"data":"%s"}`, strings.Repeat("x", maxAnswer))
		case "/api/v1/services/text":
			fmt.Fprint(w, `bad gateway`)
		default:
			t.Errorf("unexpected request %s", r.URL.RequestURI())
		}
	})
}

// handler returns a handler for which the API key is the organization.
func handler(s *mcp.Server, cpu *fair.Semaphore) http.Handler {
	return HTTPHandler(s, HTTPConfig{CPU: cpu, Authenticate: func(w http.ResponseWriter, r *http.Request) string {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if key == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return key
	}})
}

// request returns a request with a message.
func request(ctx context.Context, organization string, body io.Reader) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", body)
	r.Header.Set("Authorization", "Bearer "+organization)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

// post sends a message to a handler.
func post(ctx context.Context, h http.Handler, organization, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(ctx, organization, strings.NewReader(body)))
	return w
}

// connect serves a server over HTTP and returns a client with an API key.
func connect(t *testing.T, s *mcp.Server, key string) (*mcp.ClientSession, error) {
	t.Helper()
	server := httptest.NewServer(handler(s, fair.NewCPU(1, time.Now)))
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport = &keyed{client.Transport, key}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: client, DisableStandaloneSSE: true}, nil)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, session.Close()) })
	}
	return session, err
}

// keyed adds a credential to requests.
type keyed struct {
	next http.RoundTripper
	key  string
}

func (k *keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return k.next.RoundTrip(r)
}

// call calls a tool and returns its JSON, or the text of its error. Neither may have hidden characters.
func call(t *testing.T, s *mcp.ClientSession, tool string, arguments any) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), true
	}
	require.Len(t, r.Content, 1)
	text = r.Content[0].(*mcp.TextContent).Text
	for _, c := range text {
		require.False(t, safetext.Hidden(c) && c != '\n' && c != '\t', "%U in %q", c, text)
	}
	if !r.IsError {
		structured, err := json.Marshal(r.StructuredContent)
		require.NoError(t, err)
		require.JSONEq(t, text, string(structured))
	}
	return text, r.IsError
}

type object = map[string]any

func TestHTTP(t *testing.T) {
	s := New(Config{Version: "test", API: &API{URL: "http://api.invalid/api", Client: &http.Client{Transport: Handler{api(t)}}}})
	_, err := connect(t, s, "")
	require.ErrorContains(t, err, "Unauthorized")
	session, err := connect(t, s, "right")
	require.NoError(t, err)
	tools, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		require.True(t, tool.Annotations.ReadOnlyHint, tool.Name)
	}
	require.Equal(t, "get_insight get_rule get_service list_findings list_insights list_rules list_services", strings.Join(names, " "), "no tool reads files of the server")

	text, failed := call(t, session, "list_services", object{})
	require.False(t, failed, text)
	require.Contains(t, text, `"total":7`)
	require.Contains(t, text, `a\u202eb`, "hidden characters stay escaped")
	require.Contains(t, text, `"from":"127.0.0.1:`)
	for tool, arguments := range map[string]object{
		"get_insight": {"id": "a/b"}, "list_insights": {"service_id": "s"}, "list_findings": {"severity": "high"},
	} {
		text, failed = call(t, session, tool, arguments)
		require.False(t, failed, text)
	}
	text, failed = call(t, session, "list_services", object{"name": "a&b", "limit": 5})
	require.False(t, failed, text)

	for name, c := range map[string]struct {
		tool      string
		arguments object
		want      string
	}{
		"large":            {"get_service", object{"id": "large"}, "more than"},
		"no JSON":          {"get_service", object{"id": "text"}, "status 200 and no JSON"},
		"missing argument": {"get_service", object{}, "id"},
		"unknown argument": {"get_service", object{"id": "x", "file": "/etc/passwd"}, "file"},
		"wrong type":       {"list_services", object{"limit": "many"}, "limit"},
		"unknown tool":     {"review_directory", object{"path": "/"}, "unknown tool"},
		"unknown rule":     {"get_rule", object{"id": "XXX-999"}, "there is no rule"},
	} {
		text, failed = call(t, session, c.tool, c.arguments)
		require.True(t, failed, name)
		require.Contains(t, text, c.want, name)
	}
	stranger, err := connect(t, s, "wrong")
	require.NoError(t, err)
	text, failed = call(t, stranger, "list_services", object{})
	require.True(t, failed)
	require.Equal(t, "UNAUTHORIZED: no\ufffd\ufffd; a b", text)
}

// TestErrors: errors of the API keep their details and do not repeat them.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status              int
		body, authorization string
		want                string
	}{
		{400, `{"error":{"code":"INVALID_PARAMETERS","message":"impact must be x; limit must be y","details":{"limit":"must be y","impact":"must be x"}}}`, "", "INVALID_PARAMETERS: impact must be x; limit must be y"},
		{503, `{"error":{"code":"SERVICE_UNAVAILABLE","message":"not ready","details":{"store":"failed","clock":"ok"}}}`, "", "SERVICE_UNAVAILABLE: not ready; clock ok; store failed"},
		{404, `{"error":{"code":"NOT_FOUND","message":"there is nothing at this path"}}`, "Bearer key", "NOT_FOUND: there is nothing at this path; is --url the root of the API, such as https://HOST/api?"},
		{404, `{"error":{"code":"NOT_FOUND","message":"there is nothing at this path"}}`, "", "NOT_FOUND: there is nothing at this path"},
		{404, `{"error":{"code":"SERVICE_NOT_FOUND","message":"no such service"}}`, "Bearer key", "SERVICE_NOT_FOUND: no such service"},
		{404, `<html>`, "Bearer key", "the API answered with status 404 and no JSON; is --url the root of the API, such as https://HOST/api?"},
		{502, `<html>`, "Bearer key", "the API answered with status 502 and no JSON"},
	} {
		a := &API{URL: "http://api.invalid", Authorization: c.authorization, Client: &http.Client{Transport: Handler{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})}}}
		_, err := a.get(t.Context(), "/v1/services", nil, nil)
		require.EqualError(t, err, c.want)
	}
}

// TestCrossOrigin: a page of another site cannot call tools with the credential of a user.
func TestCrossOrigin(t *testing.T) {
	h := handler(New(Config{}), fair.NewCPU(1, time.Now))
	for site, status := range map[string]int{"cross-site": http.StatusForbidden, "same-origin": http.StatusOK, "": http.StatusOK} {
		r := request(t.Context(), "a", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`))
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, "%s: %s", site, w.Body)
		if status == http.StatusOK {
			require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"), "package connlimit counts the response by it")
		}
	}
	w := post(t.Context(), h, "a", `{"jsonrpc":"2.0","id":1,"method":"x","params":"`+strings.Repeat("y", maxRequest)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Equal(t, http.StatusUnauthorized, post(t.Context(), h, "", "{}").Code)
}

// TestOnlyPost: clients ask for a stream with GET, and end a session with DELETE. They do not wait for a turn.
func TestOnlyPost(t *testing.T) {
	cpu := fair.NewSemaphore(1, 1)
	h := handler(New(Config{}), cpu)
	require.NoError(t, cpu.Acquire(t.Context(), "a"))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions} {
		r := request(t.Context(), "a", nil)
		r.Method = method
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
		require.Equal(t, http.MethodPost, w.Header().Get("Allow"), method)
	}
}

// TestMethods: the server answers the methods of tools, and rejects other methods, whose calls may never end.
func TestMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(New(Config{}), fair.NewCPU(1, time.Now))
		for _, version := range []string{"", "2025-06-18", "2025-11-25", "2026-07-28"} {
			for method, params := range map[string]string{
				"subscriptions/listen": `"notifications":{"toolsListChanged":true}`, "logging/setLevel": `"level":"info"`, "resources/list": `"a":1`,
				"resources/subscribe": `"uri":"a:b"`, "prompts/list": `"a":1`, "completion/complete": `"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"a","value":"b"}`,
				"tools/list": `"a":1`, "tools/call": `"name":"list_rules"`,
			} {
				body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `",` +
					`"io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},` + params + `}}`
				r := request(t.Context(), "a", strings.NewReader(body))
				r.Header.Set("Mcp-Method", method)
				r.Header.Set("Mcp-Name", "list_rules")
				if version != "" {
					r.Header.Set("Mcp-Protocol-Version", version)
				}
				w, start := httptest.NewRecorder(), time.Now()
				h.ServeHTTP(w, r)
				require.Zero(t, time.Since(start), "%s of version %q", method, version)
				if strings.HasPrefix(method, "tools/") {
					require.Contains(t, w.Body.String(), `"result"`, "%s of version %q", method, version)
				} else {
					require.NotContains(t, w.Body.String(), `"result"`, "%s of version %q", method, version)
				}
			}
		}
	})
}

const (
	callRule    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_rule","arguments":{"id":"SPA-003"}}}`
	callService = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_service","arguments":{"id":"%s"}}}`
)

// TestMessagesTakeTurns: the work on a message holds a slot of the CPUs, and the API takes one by itself.
func TestMessagesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu := fair.NewSemaphore(2, 1)
		var calls int
		h := handler(New(Config{API: &API{URL: "http://api.invalid", Client: &http.Client{Transport: Handler{
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				organization := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				leave, err := cpu.Enter(r.Context(), organization)
				if err != nil {
					return
				}
				defer leave()
				fmt.Fprint(w, `{"data":{"id":"x"}}`)
			}),
		}}}}), cpu)
		service := fmt.Sprintf(callService, "x")
		require.NoError(t, cpu.Acquire(t.Context(), "a"))
		for _, body := range []string{callRule, service} {
			start := time.Now()
			require.Equal(t, http.StatusServiceUnavailable, post(t.Context(), h, "a", body).Code)
			require.Equal(t, messageTimeout, time.Since(start))
		}
		require.Zero(t, calls)
		require.Contains(t, post(t.Context(), h, "b", callRule).Body.String(), "result")
		require.Contains(t, post(t.Context(), h, "b", service).Body.String(), `{\"id\":\"x\"}`)
		cpu.Release("a")
		for range 3 {
			require.Contains(t, post(t.Context(), h, "a", callRule).Body.String(), "result")
			require.Contains(t, post(t.Context(), h, "a", service).Body.String(), `{\"id\":\"x\"}`)
		}
	})
}

// TestMessagesOfAnOrganization: an organization has a limited number of messages in progress, and their end is that of
// their requests. Messages that have not arrived do not count.
func TestMessagesOfAnOrganization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		h := handler(New(Config{API: &API{URL: "http://api.invalid", Client: &http.Client{Transport: Handler{
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				<-r.Context().Done()
			}),
		}}}}), fair.NewCPU(1, time.Now))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		begin := func(n int, organization string, body io.Reader) {
			for range n {
				wg.Go(func() { h.ServeHTTP(httptest.NewRecorder(), request(ctx, organization, body)) })
			}
			synctest.Wait()
		}
		endless, end := io.Pipe()
		begin(2*maxMessages, "c", endless)
		for _, organization := range []string{"a", "a", "b"} {
			for range maxMessagesEach {
				begin(1, organization, strings.NewReader(fmt.Sprintf(callService, "x")))
			}
		}
		require.EqualValues(t, 2*maxMessagesEach, calls.Load())
		begin(1, "c", strings.NewReader(fmt.Sprintf(callService, "x")))
		require.EqualValues(t, maxMessages, calls.Load(), "all messages that are in progress")
		cancel()
		require.NoError(t, end.Close())
		wg.Wait()
		require.Contains(t, post(t.Context(), h, "a", callRule).Body.String(), "result")
	})
}

// TestStdio writes requests to a server and ends its input before the server has answered.
func TestStdio(t *testing.T) {
	const requests = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_rule","arguments":{"id":"RES-001"}}}
{"jsonrpc":"2.0","id":3,"method":"nothing"}
`
	var out bytes.Buffer
	err := New(Config{}).Run(t.Context(), Stdio(strings.NewReader(requests), &out))
	require.True(t, err == nil || errors.Is(err, io.EOF), "%v", err)
	answers := map[int]string{}
	for line := range strings.Lines(out.String()) {
		var a struct{ ID int }
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		answers[a.ID] = line
	}
	require.Contains(t, answers[1], `"protocolVersion"`)
	require.Contains(t, answers[2], "service.instance.id")
	require.Contains(t, answers[3], `"error"`)
}

// TestBatch: messages come one at a time, whatever version of the protocol a client names.
func TestBatch(t *testing.T) {
	h := handler(New(Config{}), fair.NewCPU(1, time.Now))
	for body, status := range map[string]int{
		`[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}]`: http.StatusBadRequest,
		" \r\n\t[]": http.StatusBadRequest,
		"\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`:            http.StatusOK,
		strings.Repeat(" ", maxRequest) + `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`: http.StatusRequestEntityTooLarge,
	} {
		r := request(t.Context(), "a", strings.NewReader(body))
		r.Header.Set("Mcp-Protocol-Version", "2025-03-26")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, "%.80s: %s", body, w.Body)
	}
}

const code = `package shop

import (
	"context"

	"go.opentelemetry.io/otel"
)

func order(ctx context.Context, id string) {
	_, span := otel.Tracer("shop").Start(ctx, %s)
	span.End()
}
`

const spans = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"spans":[
	{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"order","kind":2,"startTimeUnixNano":"1763000000000000000","endTimeUnixNano":"1763000000100000000",
	"attributes":[{"key":"note","value":{"stringValue":"%s"}}]}]}]}]}`

func TestLocal(t *testing.T) {
	s := New(Config{Local: new(Local)})
	clientSide, serverSide := mcp.NewInMemoryTransports()
	serving, err := s.Connect(t.Context(), serverSide, nil)
	require.NoError(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), clientSide, nil)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, session.Close())
		_ = serving.Wait()
	}()

	dir := t.TempDir()
	sub := filepath.Join(dir, "services", "shop")
	require.NoError(t, os.MkdirAll(sub, 0o755))
	write := func(path, text string) string {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "maintenance.auto=false"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	write(filepath.Join(sub, "shop.go"), fmt.Sprintf(code, `"order"`))
	write(filepath.Join(sub, "hid\u202eden.go"), fmt.Sprintf(code, `"order"`))
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message=first")

	text, failed := call(t, session, "verify_change", object{"path": sub})
	require.False(t, failed, text)
	require.Contains(t, text, `"verdict":"same"`)
	write(filepath.Join(sub, "shop.go"), fmt.Sprintf(code, `"order "+id`))
	text, failed = call(t, session, "verify_change", object{"path": sub})
	require.False(t, failed, text)
	require.Contains(t, text, `"verdict":"worse"`)
	require.Contains(t, text, `"check":"span-name-dynamic","file":"shop.go","line":10`)
	require.Equal(t, " M services/shop/shop.go\n", git("status", "--porcelain"), "the repository stays as it is")
	write(filepath.Join(sub, "hid\u202eden.go"), fmt.Sprintf(code, `"order "+id`))
	text, failed = call(t, session, "verify_change", object{"path": sub})
	require.False(t, failed, text)
	require.Contains(t, text, `"file":"hid\u202eden.go"`)
	git("checkout", "--quiet", "services/shop/hid\u202eden.go")

	text, failed = call(t, session, "review_directory", object{"path": dir, "limit": 1})
	require.False(t, failed, text)
	require.Contains(t, text, `"file":"services/shop/shop.go"`)

	clean, leaky := write(filepath.Join(t.TempDir(), "a.json"), fmt.Sprintf(spans, "fine")), write(filepath.Join(t.TempDir(), "b.json"), fmt.Sprintf(spans, "jane.doe@shop.example.com"))
	text, failed = call(t, session, "score_telemetry", object{"files": []string{leaky}})
	require.False(t, failed, text)
	require.Contains(t, text, `"SPA-006"`)
	require.NotContains(t, text, "jane.doe")
	text, failed = call(t, session, "verify_change", object{"path": sub, "telemetry_before": []string{leaky}, "telemetry_after": []string{clean}})
	require.False(t, failed, text)
	require.Contains(t, text, `{"service":"shop","rule_id":"SPA-006","before":"failed","after":"passed"}`)
	require.Contains(t, text, `"verdict":"worse"`, "the code is")
	write(filepath.Join(sub, "shop.go"), fmt.Sprintf(code, `"order"`))
	text, failed = call(t, session, "verify_change", object{"path": sub, "telemetry_before": []string{leaky}, "telemetry_after": []string{clean}})
	require.False(t, failed, text)
	require.Contains(t, text, `"verdict":"better"`)

	pipe := filepath.Join(dir, "pipe") // without a writer, for which a reader waits
	require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", pipe).Run())
	for name, c := range map[string]struct {
		tool      string
		arguments object
		want      string
	}{
		"pipe":          {"score_telemetry", object{"files": []string{pipe}}, "not a regular file"},
		"pipe after":    {"verify_change", object{"path": sub, "telemetry_before": []string{clean}, "telemetry_after": []string{pipe}}, "not a regular file"},
		"piped code":    {"review_directory", object{"path": pipe}, "is not a directory"},
		"piped change":  {"verify_change", object{"path": pipe}, "pipe"},
		"no directory":  {"review_directory", object{"path": filepath.Join(dir, "none")}, "no such file"},
		"no commit":     {"verify_change", object{"path": sub, "since": "--help"}, "is not a Git reference"},
		"no repository": {"verify_change", object{"path": t.TempDir()}, "git"},
		"half":          {"verify_change", object{"path": sub, "telemetry_before": []string{leaky}}, "together"},
		"no files":      {"score_telemetry", object{"files": []string{}}, "empty"},
		"hidden":        {"score_telemetry", object{"files": []string{filepath.Join(sub, "hid\u202eden.go")}}, "hid\ufffdden.go"},
		"no telemetry":  {"score_telemetry", object{"files": []string{filepath.Join(sub, "shop.go")}}, "shop.go"},
	} {
		text, failed := call(t, session, c.tool, c.arguments)
		require.True(t, failed, name)
		require.Contains(t, text, c.want, name)
	}
}
