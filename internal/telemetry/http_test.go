// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"assay/internal/receive"
	"assay/internal/wire"
)

const (
	remoteTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	remoteParent = "00-" + remoteTrace + "-00f067aa0ba902b7-01"
)

// attributes returns the attributes of a span as texts.
func attributes(of []attribute.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range of {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

// routes is a handler that sets the pattern while it serves, like the REST API.
func routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/services/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	mux.HandleFunc("POST /fails", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mux.HandleFunc("GET /hints", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
		_ = http.NewResponseController(w).Flush()
	})
	mux.HandleFunc("GET /aborts", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := r.WithContext(r.Context())
		defer func() { r.Pattern = inner.Pattern }()
		mux.ServeHTTP(w, inner)
	})
}

func TestMiddleware(t *testing.T) {
	for _, c := range []struct {
		method, target string
		headers        map[string]string
		name           string // of the span; "": none
		attributes     map[string]string
		failed         bool
		series         string // labels on /metrics
	}{
		{
			method: "GET", target: "/api/v1/services/17?email=someone@example.com", name: "GET /api/v1/services/{id}",
			attributes: map[string]string{"http.route": "/api/v1/services/{id}", "url.path": "/api/v1/services/17", "http.response.status_code": "200"},
			series:     `http_request_method="GET",http_response_status_code="200",http_route="/api/v1/services/{id}",network_protocol_version="1.1",url_scheme="http"`,
		},
		{
			method: "POST", target: "/fails", name: "POST /fails", failed: true,
			attributes: map[string]string{"http.route": "/fails", "url.path": "/fails", "http.response.status_code": "502", "error.type": "502"},
			series:     `error_type="502",http_request_method="POST",http_response_status_code="502",http_route="/fails",network_protocol_version="1.1",url_scheme="http"`,
		},
		{
			method: "GET", target: "/hints", name: "GET /hints",
			attributes: map[string]string{"http.route": "/hints", "url.path": "/hints", "http.response.status_code": "204"},
			series:     `http_request_method="GET",http_response_status_code="204",http_route="/hints",network_protocol_version="1.1",url_scheme="http"`,
		},
		{
			method: "GET", target: "/aborts", name: "GET /aborts", failed: true,
			attributes: map[string]string{"http.route": "/aborts", "url.path": "/aborts", "error.type": "aborted"},
			series:     `error_type="aborted",http_request_method="GET",http_route="/aborts",network_protocol_version="1.1",url_scheme="http"`,
		},
		{
			method: "GET", target: "/users/someone%40example.com/%ff", name: "GET",
			attributes: map[string]string{"url.path": "/users/[redacted]/\uFFFD", "http.response.status_code": "404"},
			series:     `http_request_method="GET",http_response_status_code="404",network_protocol_version="1.1",url_scheme="http"`,
		},
		{
			method: "INVENTED", target: "/" + strings.Repeat("a", 2*maxPath), name: "HTTP",
			attributes: map[string]string{"http.request.method": "_OTHER", "url.path": "/" + strings.Repeat("a", maxPath-1), "http.response.status_code": "404"},
			series:     `http_request_method="_OTHER",http_response_status_code="404",network_protocol_version="1.1",url_scheme="http"`,
		},
		{method: "GET", target: "/livez", series: `http_request_method="GET",http_response_status_code="200",http_route="/livez",network_protocol_version="1.1",url_scheme="http"`},
	} {
		t.Run(c.method+" "+c.target[:min(len(c.target), 20)], func(t *testing.T) {
			own, spans := startTraced(t)
			h := own.Middleware(routes())
			r := httptest.NewRequest(c.method, c.target, nil)
			r.Header.Set("Authorization", "Bearer assay_sk_Ab3dEf_0123456789abcdef0123456789abcdef")
			if c.failed && c.method == "GET" {
				require.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(httptest.NewRecorder(), r) })
			} else {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			body, _ := scrape(t, own, "")
			require.Contains(t, body, "\nhttp_server_request_duration_seconds_count{"+c.series+"} 1\n")
			require.Regexp(t, `(?m)^http_server_active_requests\{.*\} 0$`, body)

			if c.name == "" {
				require.Empty(t, spans.Ended())
				return
			}
			require.Len(t, spans.Ended(), 1)
			s := spans.Ended()[0]
			require.Equal(t, c.name, s.Name())
			require.Equal(t, trace.SpanKindServer, s.SpanKind())
			require.False(t, s.Parent().IsValid())
			want := map[string]string{"http.request.method": c.method, "url.scheme": "http", "network.protocol.version": "1.1"}
			maps.Copy(want, c.attributes)
			require.Equal(t, want, attributes(s.Attributes()))
			status := codes.Unset
			if c.failed {
				status = codes.Error
			}
			require.Equal(t, status, s.Status().Code)
		})
	}
}

// TestTraceOfARequest checks the trace in the context of the handler.
func TestTraceOfARequest(t *testing.T) {
	var seen trace.SpanContext
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = trace.SpanContextFromContext(r.Context()) })
	get := func(own *Telemetry, traceparent ...string) {
		r := httptest.NewRequest("GET", "/x", nil)
		for _, v := range traceparent {
			r.Header.Add("Traceparent", v)
		}
		own.Middleware(h).ServeHTTP(httptest.NewRecorder(), r)
	}
	own, spans := startTraced(t)
	get(own, remoteParent)
	require.Equal(t, remoteTrace, seen.TraceID().String())
	require.Equal(t, "00f067aa0ba902b7", spans.Ended()[0].Parent().SpanID().String())
	require.True(t, spans.Ended()[0].Parent().IsRemote())
	for _, headers := range [][]string{nil, {"nonsense"}, {remoteParent, remoteParent}} {
		get(own, headers...)
		require.True(t, seen.IsValid())
		require.NotEqual(t, remoteTrace, seen.TraceID().String())
	}

	own, spans = startTraced(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	get(own, remoteParent)
	require.Equal(t, remoteTrace, seen.TraceID().String(), "also when not sampled")
	get(own)
	require.True(t, seen.IsValid())
	require.Empty(t, spans.Ended())

	own = start(t, io.Discard)
	get(own, remoteParent)
	require.False(t, seen.IsValid(), "no traces")
}

// TestTraceparent checks which headers are continued (W3C Trace Context level 1), with and without trace export.
func TestTraceparent(t *testing.T) {
	traced, _ := startTraced(t)
	for header, honoured := range map[string]bool{
		"00-" + remoteTrace + "-00f067aa0ba902b7-01":                  true,
		"00-" + remoteTrace + "-00f067aa0ba902b7-00":                  true,
		"cc-" + remoteTrace + "-00f067aa0ba902b7-01":                  true,
		"cc-" + remoteTrace + "-00f067aa0ba902b7-01-more":             true,
		"cc-" + remoteTrace + "-00f067aa0ba902b7-01more":              false,
		"00-" + remoteTrace + "-00f067aa0ba902b7-01-more":             false,
		"ff-" + remoteTrace + "-00f067aa0ba902b7-01":                  false,
		"00-" + strings.ToUpper(remoteTrace) + "-00f067aa0ba902b7-01": false,
		"00-" + remoteTrace + "-0000000000000000-01":                  false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":     false,
		"00-" + remoteTrace + "-00f067aa0ba902b7":                     false,
		"00-" + remoteTrace + "-00f067aa0ba902b7-0":                   false,
		"00-" + remoteTrace + "-00f067aa0ba902bz-01":                  false,
		"00_" + remoteTrace + "_00f067aa0ba902b7_01":                  false,
		"nonsense":                false,
		strings.Repeat("0", 4096): false,
		"00-" + remoteTrace[:31] + "\xff-00f067aa0ba902b7-01":                                false,
		"00-" + remoteTrace + "-00f067aa0ba902b7-01, 00-" + remoteTrace + "-00f067aa0ba9-01": false,
	} {
		for _, own := range []*Telemetry{traced, start(t, io.Discard)} {
			var seen trace.SpanContext
			r := httptest.NewRequest("GET", "/x", nil)
			r.Header.Set("Traceparent", header)
			own.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				seen = trace.SpanContextFromContext(r.Context())
			})).ServeHTTP(httptest.NewRecorder(), r)
			require.True(t, seen.HasTraceID())
			require.Equal(t, honoured, seen.TraceID().String() == remoteTrace, header)
		}
	}
}

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// unreachable is a network error.
type unreachable struct{ error }

func (unreachable) Timeout() bool { return true }

func TestTransport(t *testing.T) {
	for name, c := range map[string]struct {
		method, url string
		answer      func(*http.Request) (*http.Response, error)
		readErr     string
		span        string
		attributes  map[string]string
		failed      bool
	}{
		"ok": {
			method: "POST", url: "https://me:hunter2@api.example.com/v1/chat?key=secret", span: "POST",
			answer: respond(200, "{}"),
			attributes: map[string]string{
				"http.request.method": "POST", "url.full": "https://api.example.com/v1/chat",
				"server.address": "api.example.com", "server.port": "443",
				"http.response.status_code": "200", "network.protocol.version": "2",
			},
		},
		"refused by the other side": {
			url: "http://[::1]:9090/api/someone@example.com", span: "GET", failed: true,
			answer: respond(429, "no"),
			attributes: map[string]string{
				"http.request.method": "GET", "url.full": "http://[::1]:9090/api/%5Bredacted%5D",
				"server.address": "::1", "server.port": "9090",
				"http.response.status_code": "429", "network.protocol.version": "2", "error.type": "429",
			},
		},
		"no body": {
			url: "http://h/", span: "GET",
			answer: func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 204, Proto: "HTTP/1.0", Body: http.NoBody}, nil
			},
			attributes: map[string]string{
				"http.request.method": "GET", "url.full": "http://h/", "server.address": "h", "server.port": "80",
				"http.response.status_code": "204", "network.protocol.version": "1.0",
			},
		},
		"timeout": {
			url: "http://h/", span: "GET", failed: true,
			answer: func(*http.Request) (*http.Response, error) { return nil, unreachable{errors.New("slow")} },
			attributes: map[string]string{
				"http.request.method": "GET", "url.full": "http://h/", "server.address": "h", "server.port": "80", "error.type": "timeout",
			},
		},
		"canceled": {
			url: "http://h/", span: "GET", failed: true,
			answer: func(*http.Request) (*http.Response, error) { return nil, context.Canceled },
			attributes: map[string]string{
				"http.request.method": "GET", "url.full": "http://h/", "server.address": "h", "server.port": "80", "error.type": "canceled",
			},
		},
		"broken off": {
			url: "http://h/", span: "GET", failed: true, readErr: "unexpected EOF",
			answer: func(*http.Request) (*http.Response, error) {
				broken := io.MultiReader(strings.NewReader("{"), roundErr{io.ErrUnexpectedEOF})
				return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", Body: io.NopCloser(broken)}, nil
			},
			attributes: map[string]string{
				"http.request.method": "GET", "url.full": "http://h/", "server.address": "h", "server.port": "80",
				"http.response.status_code": "200", "network.protocol.version": "1.1", "error.type": "*errors.errorString",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			own, spans := startTraced(t)
			ctx, parent := own.tracer.Start(t.Context(), "a request")
			r, err := http.NewRequestWithContext(ctx, c.method, c.url, nil)
			require.NoError(t, err)
			r.Header.Set("Traceparent", remoteParent)
			var sent http.Header
			client := own.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
				sent = r.Header
				return c.answer(r)
			}))
			resp, err := client.RoundTrip(r)
			if err == nil && resp.Body != http.NoBody {
				require.Empty(t, spans.Ended(), "the body is part of it")
				_, err = io.ReadAll(resp.Body)
				if c.readErr != "" {
					require.EqualError(t, err, c.readErr)
				}
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
			}
			parent.End()
			require.Len(t, spans.Ended(), 2)
			s := spans.Ended()[0]
			require.Equal(t, c.span, s.Name())
			require.Equal(t, trace.SpanKindClient, s.SpanKind())
			require.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID())
			require.Equal(t, c.attributes, attributes(s.Attributes()))
			require.Equal(t, c.failed, s.Status().Code == codes.Error)
			require.Equal(t, "00-"+s.SpanContext().TraceID().String()+"-"+s.SpanContext().SpanID().String()+"-01", sent.Get("Traceparent"))
			require.Equal(t, remoteParent, r.Header.Get("Traceparent"), "the request was changed")
			body, _ := scrape(t, own, "")
			require.Regexp(t, `(?m)^http_client_request_duration_seconds_count\{.*server_address="`, body)
		})
	}
}

func respond(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Proto: "HTTP/2.0", Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

type roundErr struct{ error }

func (e roundErr) Read([]byte) (int, error) { return 0, e.error }

// TestTransportBeginsNoTrace sends requests outside of a served request, and without trace export.
func TestTransportBeginsNoTrace(t *testing.T) {
	own, spans := startTraced(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Traceparent"))
	}))
	defer server.Close()
	for _, own := range []*Telemetry{own, start(t, io.Discard)} {
		base := &http.Transport{}
		client := &http.Client{Transport: own.Transport(base)}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		r.Header.Set("Traceparent", remoteParent)
		resp, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, remoteParent, string(body), "the header is the caller's")
		client.CloseIdleConnections() // goleak verifies that the call reaches base
		text, _ := scrape(t, own, "")
		require.Regexp(t, `(?m)^http_client_request_duration_seconds_count\{http_request_method="GET",http_response_status_code="200",.*\} 1$`, text)
	}
	require.Empty(t, spans.Ended())
	require.Same(t, http.DefaultTransport, own.Transport(nil).(*transport).base)
}

// TestNoTracestate serves a caller that sends tracestate.
func TestNoTracestate(t *testing.T) {
	own, _ := startTraced(t)
	var sent http.Header
	client := own.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r.Header
		return respond(200, "")(r)
	}))
	own.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		r, err := http.NewRequestWithContext(in.Context(), http.MethodGet, "http://h/", nil)
		require.NoError(t, err)
		resp, err := client.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	})).ServeHTTP(httptest.NewRecorder(), func() *http.Request {
		r := httptest.NewRequest("GET", "/x", nil)
		r.Header.Set("Traceparent", remoteParent)
		r.Header.Set("Tracestate", "vendor=opaque")
		return r
	}())
	require.Contains(t, sent.Get("Traceparent"), remoteTrace)
	require.NotContains(t, sent, "Tracestate")
}

// TestRequestIDs checks that every request has a trace id and a request id, in its log records and in the
// response, with and without trace export.
func TestRequestIDs(t *testing.T) {
	const mail = "someone@example.com"
	for name, c := range map[string]struct {
		parent   []string
		given    []string
		traceID  string // "": a random one
		id       string // "": the trace id
		inTheLog string // "": id
	}{
		"nothing given":       {},
		"trace":               {parent: []string{remoteParent}, traceID: remoteTrace},
		"two traces":          {parent: []string{remoteParent, remoteParent}},
		"id":                  {given: []string{"r-1"}, id: "r-1"},
		"both":                {parent: []string{remoteParent}, given: []string{"r-1"}, traceID: remoteTrace, id: "r-1"},
		"two ids":             {given: []string{"r-1", "r-2"}},
		"forged line":         {given: []string{"a\tlevel=ERROR"}},
		"personal data":       {given: []string{mail}, id: mail, inTheLog: "[redacted]"},
		"probe with a parent": {parent: []string{remoteParent}, traceID: remoteTrace},
	} {
		for _, traced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/traced=%v", name, traced), func(t *testing.T) {
				var log bytes.Buffer
				own := start(t, &log)
				if traced {
					own.tracer = sdktrace.NewTracerProvider().Tracer(scope)
				}
				var passedOn []string
				h := own.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					passedOn = r.Header.Values("X-Request-Id")
					own.Logger().InfoContext(r.Context(), "work")
				}))
				target := "/work"
				if strings.HasPrefix(name, "probe") {
					target = "/readyz"
				}
				r := httptest.NewRequest("GET", target, nil)
				r.Header["Traceparent"], r.Header["X-Request-Id"] = c.parent, c.given
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				line := lastLine(t, &log)
				require.Regexp(t, "^[0-9a-f]{32}$", line["trace_id"])
				if c.traceID != "" {
					require.Equal(t, c.traceID, line["trace_id"])
				}
				id := cmp.Or(c.id, line["trace_id"].(string))
				require.Equal(t, cmp.Or(c.inTheLog, id), line["request_id"])
				require.Equal(t, []string{id}, w.Header().Values("X-Request-Id"))
				if len(c.given) > 0 {
					require.Equal(t, []string{id}, passedOn, "the next server receives the same id")
				} else {
					require.Empty(t, passedOn)
				}
			})
		}
	}
}

func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	own := start(t, &log)
	get := func() {
		r := httptest.NewRequest("GET", "/api/v1/services/17?email=someone@example.com", nil)
		r.Header.Set("X-Request-Id", "r-1")
		own.Middleware(routes()).ServeHTTP(httptest.NewRecorder(), r)
	}
	event := receive.Event{
		RequestID: "r-2", OrganizationID: "org", Transport: receive.GRPC, Signal: wire.Logs,
		Outcome: receive.Invalid, Received: 100, Duration: time.Second,
	}
	get()
	own.Observe(event)
	require.Empty(t, log.String(), "only if enabled")

	own.accessLog = true
	get()
	line := lastLine(t, &log)
	require.Regexp(t, "^[0-9a-f]{32}$", line["trace_id"])
	for key, want := range map[string]any{
		"level": "INFO", "msg": "request", "request_id": "r-1", "method": "GET",
		"path": "/api/v1/services/17", "route": "/api/v1/services/{id}", "status": 200.0, "bytes": 2.0,
	} {
		require.Equal(t, want, line[key], key)
	}
	own.Observe(event)
	line = lastLine(t, &log)
	for key, want := range map[string]any{
		"level": "INFO", "msg": "OTLP request", "request_id": "r-2", "organization_id": "org",
		"transport": "grpc", "signal": "logs", "outcome": "invalid", "bytes": 100.0, "duration": 1e9,
	} {
		require.Equal(t, want, line[key], key)
	}
}
