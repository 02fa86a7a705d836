// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/fair"
)

func TestNewRefusesConfigurations(t *testing.T) {
	sign := func(context.Context, *assay.Principal) (string, error) { return "", nil }
	for url, want := range map[string]string{
		"":                            "has to begin with",
		"backend:8080":                "has to begin with",
		"ftp://backend":               "has to begin with",
		"http://":                     "has no host",
		"https://u:p4ss@backend":      "without user",
		"https://backend/?a=1":        "without user, query",
		"https://backend/#a":          "fragment",
		"https://u:p4ss@back end/%zz": "not a URL",
	} {
		_, err := New(Config{URL: url, Sign: sign})
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "p4ss")
	}
	_, err := New(Config{URL: "http://127.0.0.1"})
	require.ErrorContains(t, err, "Sign")
	_, err = New(Config{URL: "http://127.0.0.1", Sign: sign, CAFile: "testdata/none.pem"})
	require.ErrorContains(t, err, "authority")
	_, err = New(Config{URL: "http://127.0.0.1", Sign: sign, CAFile: "agent_test.go"})
	require.ErrorContains(t, err, "none in agent_test.go")
	_, err = New(Config{URL: "http://127.0.0.1", Sign: sign, CertFile: "testdata/none.pem"})
	require.ErrorContains(t, err, "client certificate")
}

// TestRequest checks the bytes of a request that the backend receives.
func TestRequest(t *testing.T) {
	b := newRawBackend(t, answers(rawResponse(200, "{}")))
	for _, base := range []string{"", "/", "/agent%2Fv2/x", "/base/"} {
		f := newFixture(t, b.url+base)
		prefix := strings.TrimRight(base, "/")
		long := "q=" + strings.Repeat("x%20", 2048)
		for _, target := range []string{
			"/findings",
			"/findings?a=1;b=2&c=%zz&d=+%2B&e=&&f=%E2%9C%93",
			"/findings?a=1&a=2&a=&a&=&",
			"/findings?%",
			"/findings?é=\xff#x?y",
			"/findings?" + long,
			"/executions/a%20b%3F%252F%252e%252e",
			"/executions/%C3%A4%e2%9c%93/agent-events?afterSeq=-1",
			"/executions/run:1@x;v=1,2+3!$&'()*=~_-...",
			"/executions/%72un%00%0a%7F",
			"/executions/" + strings.Repeat("x", 512),
			"/executions/",
		} {
			c := get("")
			c.Path, c.Query, _ = strings.Cut(target, "?")
			_, err := f.Forward(t.Context(), c)
			require.NoError(t, err, target)
			require.Equal(t, "GET "+prefix+target+" HTTP/1.1", b.last(t).line)
		}
	}
}

func TestRequestIsRefused(t *testing.T) {
	b := newRawBackend(t, answers(rawResponse(200, "{}")))
	f := newFixture(t, b.url+"/base")
	for _, target := range []string{
		"", "findings", "*", "http://other/x", "//other/x", "/a//b", "//", "/..", "/../x", "/a/.", "/a/%2e%2E/b", "/a%2fb", "/%2F",
		"/..;x/y", "/%2e%2e%3bx", `/a%5c..%5cb`, "/a b", "/a%zz", "/ä", "/a\nb", "/a?b c", "/a?b\r\nHost: x", "/a?\x00", "/a?\x7f", `/a"b`, "/a{b}",
	} {
		c := get("")
		c.Path, c.Query, _ = strings.Cut(target, "?")
		_, err := f.Forward(t.Context(), c)
		require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err), "%q", target)
	}
	require.Empty(t, b.all())
}

func TestRequestHeader(t *testing.T) {
	b := newRawBackend(t, answers(rawResponse(200, "{}")))
	host := strings.TrimPrefix(b.url, "http://")
	f := newFixture(t, b.url)
	_, err := f.Forward(t.Context(), get("/findings"))
	require.NoError(t, err)
	sent := func() []string {
		lines := strings.Split(strings.TrimSuffix(b.last(t).head, "\r\n"), "\r\n")
		slices.Sort(lines)
		return lines
	}
	require.Equal(t, []string{
		"Accept-Encoding: gzip", "Authorization: Bearer " + token, "Host: " + host,
		"X-Request-Id: 4bf92f3577b34da6a3ce929d0e0e4736",
	}, sent(), "and no User-Agent of net/http")

	c := post("/codebase/fix/execute", `{"a": 1.0}`)
	c.Header = map[string][]string{
		"Accept": {"application/json"}, "Content-Type": {"application/json"}, "User-Agent": {"curl/8"},
		"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "X-Request-Id": {"r1", "r2"},
	}
	_, err = f.Forward(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{
		"Accept-Encoding: gzip", "Accept: application/json", "Authorization: Bearer " + token, "Content-Length: 10", "Content-Type: application/json",
		"Host: " + host, "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "User-Agent: curl/8", "X-Request-Id: r1", "X-Request-Id: r2",
	}, sent())
	require.Equal(t, `{"a": 1.0}`, b.last(t).body)

	_, err = f.Forward(t.Context(), post("/codebase/fix/execute", ""))
	require.NoError(t, err)
	require.Equal(t, "0", b.last(t).header("Content-Length"))
}

func TestTokenIsForTheCaller(t *testing.T) {
	b := newRawBackend(t, answers(rawResponse(200, "{}")))
	f := newFixture(t, b.url, func(c *Config) {
		c.Sign = func(_ context.Context, p *assay.Principal) (string, error) {
			if p.Subject == "key:broken" {
				return "", assay.Errorf(assay.CodeUnavailable, "no signing key: %w", errors.New("store is away"))
			}
			return "for-" + p.Subject, nil
		}
	})
	for _, subject := range []string{"key:a", "key:b"} {
		c := get("/findings")
		c.Caller = &assay.Principal{Subject: subject}
		_, err := f.Forward(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, "Bearer for-"+subject, b.last(t).header("Authorization"))
	}
	c := get("/findings")
	c.Caller = &assay.Principal{Subject: "key:broken"}
	for range 2 * maxFailures {
		_, err := f.Forward(t.Context(), c)
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
		require.Equal(t, OutcomeUnsigned, f.event(t).Outcome, "which is not the backend's fault")
	}
	require.Len(t, b.all(), 2)
}

// TestRetry counts how often a request arrives.
func TestRetry(t *testing.T) {
	for name, c := range map[string]struct {
		call   *assay.AgentCall
		script func(p *peer) bool
		want   int
		code   assay.Code
	}{
		"GET on a new connection":            {get("/x"), func(*peer) bool { return false }, 2, assay.CodeUpstream},
		"POST on a new connection":           {post("/x", "{}"), func(*peer) bool { return false }, 1, assay.CodeUpstream},
		"empty POST on a new connection":     {post("/x", ""), func(*peer) bool { return false }, 1, assay.CodeUpstream},
		"GET after a byte":                   {get("/x"), func(p *peer) bool { p.say("H"); return false }, 1, assay.CodeUpstream},
		"GET after half a body":              {get("/x"), func(p *peer) bool { p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"); return false }, 1, assay.CodeUpstream},
		"GET with a status":                  {get("/x"), func(p *peer) bool { return p.say(rawResponse(500, "{}")) }, 1, assay.CodeUpstream},
		"GET that works on the next attempt": {get("/x"), nil, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRawBackend(t, func(p *peer, _ *rawRequest) bool {
				switch {
				case c.script != nil:
					return c.script(p)
				case len(p.t.all()) == 1: // each request has a connection, and a goroutine, of its own
					return false
				}
				return p.say(rawResponse(200, "{}"))
			})
			f := newFixture(t, b.url)
			_, err := f.Forward(t.Context(), c.call)
			require.Equal(t, c.code, assay.ErrorCode(err))
			require.Len(t, b.all(), c.want)
			require.Len(t, f.events, 1)
		})
	}
}

// TestRetryOnKeptConnections: net/http alone would try one after the other.
func TestRetryOnKeptConnections(t *testing.T) {
	const kept = 5
	for method, want := range map[string]int{http.MethodGet: 2, http.MethodPost: 1, http.MethodPatch: 1} {
		t.Run(method, func(t *testing.T) {
			together := make(chan struct{}, kept)
			all := make(chan struct{})
			b := newRawBackend(t, func(p *peer, _ *rawRequest) bool {
				if p.num > 1 {
					return false
				}
				together <- struct{}{}
				<-all
				return p.say(rawResponse(200, "{}"))
			})
			f := newFixture(t, b.url)
			errs := make(chan error, kept)
			for range kept {
				go func() {
					_, err := f.Forward(context.Background(), get("/x"))
					errs <- err
				}()
			}
			for range kept {
				<-together
			}
			close(all)
			for range kept {
				require.NoError(t, <-errs)
			}
			c := post("/x", "{}")
			c.Method = method
			_, err := f.Forward(t.Context(), c)
			require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
			require.Equal(t, OutcomeBroken, f.event(t).Outcome)
			require.Len(t, b.all(), kept+want)
		})
	}
}

func TestCircuit(t *testing.T) {
	var status int
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool { return p.say(rawResponse(status, "{}")) })
	f := newFixture(t, b.url)
	call := func(s int) error {
		status = s
		_, err := f.Forward(t.Context(), get("/x"))
		return err
	}
	for range maxFailures - 1 {
		require.Equal(t, assay.CodeUpstream, assay.ErrorCode(call(500)))
	}
	require.NoError(t, call(200), "which ends the row")
	for _, s := range []int{500, 501, 502, 503, 504, 599, 500, 500, 500} {
		require.Error(t, call(s))
	}
	require.Equal(t, assay.CodeNotFound, assay.ErrorCode(call(404)), "which ends the row, too")
	for range maxFailures {
		require.Error(t, call(500))
	}
	sent := len(b.all())
	err := call(200)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.Equal(t, openFor, retryOf(t, err))
	require.Equal(t, OutcomeOpenCircuit, f.event(t).Outcome)
	f.pass(openFor - time.Second)
	require.Equal(t, time.Second, retryOf(t, call(200)))
	require.Len(t, b.all(), sent, "nothing was sent")

	f.pass(time.Second)
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(call(500)), "the probe")
	require.Equal(t, openFor, retryOf(t, call(200)))
	require.Len(t, b.all(), sent+1)
	f.pass(openFor)
	require.NoError(t, call(200))
	require.NoError(t, call(200))
	require.Equal(t, 1, strings.Count(f.log.String(), "refused until"))
	require.Equal(t, 1, strings.Count(f.log.String(), "answers again"))
}

// failures returns the consecutive failures of the organization that get and post send for.
func (f *fixture) failures() int {
	if c := f.breaker.circuits["org-1"]; c != nil {
		return c.failures
	}
	return 0
}

// TestCircuitOfAnOrganization: an organization whose calls make the backend fail has its own circuit.
func TestCircuitOfAnOrganization(t *testing.T) {
	b := newRawBackend(t, func(p *peer, r *rawRequest) bool {
		if strings.Contains(r.line, "/fails") {
			return p.say(rawResponse(500, "{}"))
		}
		return p.say(rawResponse(200, "{}"))
	})
	f := newFixture(t, b.url)
	for range maxFailures {
		_, err := f.Forward(t.Context(), get("/fails"))
		require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
	}
	_, err := f.Forward(t.Context(), get("/x"))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	other := get("/x")
	other.Caller.OrganizationID = "org-2"
	_, err = f.Forward(t.Context(), other)
	require.NoError(t, err)
	require.Len(t, f.breaker.circuits, 1)
}

// TestCircuitsAreBounded: the memory for circuits is limited.
func TestCircuitsAreBounded(t *testing.T) {
	var b breaker
	for i := range maxCircuits + 10 {
		b.end(fmt.Sprint(i), time.Time{}, false, verdictFailed)
	}
	require.Len(t, b.circuits, maxCircuits)
	b.end("no circuit", time.Time{}, true, verdictUnknown)
	require.Len(t, b.circuits, maxCircuits)
}

// TestProbe: one at a time, and one whose caller goes proves nothing.
func TestProbe(t *testing.T) {
	hang := true
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool {
		if hang {
			return p.hang()
		}
		return p.say(rawResponse(200, "{}"))
	})
	f := newFixture(t, b.url)
	f.breaker.add("org-1").failures = maxFailures
	f.breaker.circuits["org-1"].retryAt = f.now
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := f.Forward(ctx, get("/x"))
		ended <- err
	}()
	<-b.hangs
	_, err := f.Forward(t.Context(), get("/x"))
	require.Equal(t, OutcomeOpenCircuit, f.event(t).Outcome)
	require.Equal(t, time.Second, retryOf(t, err))
	leave()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, OutcomeCanceled, f.event(t).Outcome)
	hang = false
	_, err = f.Forward(t.Context(), get("/x"))
	require.NoError(t, err, "the next probe")
}

func TestCallersWhoGoDoNotOpenTheCircuit(t *testing.T) {
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool { return p.hang() })
	f := newFixture(t, b.url)
	for range 2 * maxFailures {
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := f.Forward(ctx, get("/x"))
			ended <- err
		}()
		<-b.hangs
		leave()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func TestTooManyInFlight(t *testing.T) {
	const limit = 3
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool { return p.hang() })
	f := newFixture(t, b.url, func(c *Config) { c.MaxInFlight = limit })
	ended := make(chan error, limit+1)
	for range limit {
		go func() {
			_, err := f.Forward(context.Background(), get("/x"))
			ended <- err
		}()
	}
	for range limit {
		<-b.hangs
	}
	_, err := f.Forward(t.Context(), get("/x"))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.Equal(t, time.Second, retryOf(t, err))
	require.Equal(t, OutcomeTooMany, f.event(t).Outcome)
	go func() { // of an organization that has none
		other := get("/x")
		other.Caller.OrganizationID = "org-2"
		_, err := f.Forward(context.Background(), other)
		ended <- err
	}()
	<-b.hangs
	f.expire()
	for range limit + 1 {
		require.Equal(t, assay.CodeUpstream, assay.ErrorCode(<-ended))
	}
	require.Zero(t, f.inFlight.InUse())
}

func TestMemoryIsBounded(t *testing.T) {
	large := `"` + strings.Repeat("x", 2*smallBody) + `"`
	body := large
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool { return p.say(rawResponse(200, body)) })
	f := newFixture(t, b.url)
	require.True(t, f.memory.Acquire("org-1", maxMemory-smallBody))
	_, err := f.Forward(t.Context(), get("/x"))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.Equal(t, OutcomeTooMany, f.event(t).Outcome)
	require.EqualValues(t, maxMemory-smallBody, f.memory.InUse(), "given back")
	other := get("/x")
	other.Caller.OrganizationID = "org-2"
	_, err = f.Forward(t.Context(), other)
	require.NoError(t, err, "another organization is within its share")
	body = "{}"
	_, err = f.Forward(t.Context(), get("/x"))
	require.NoError(t, err, "small ones go on")
	f.memory.Release("org-1", maxMemory-smallBody)
	body = large
	a, err := f.Forward(t.Context(), get("/x"))
	require.NoError(t, err)
	require.Equal(t, large, string(a.Data))
	require.Zero(t, f.memory.InUse(), "given back")
}

func TestAudit(t *testing.T) {
	b := newRawBackend(t, answers(rawResponse(409, `{"error":{"code":"X","message":"secret-answer"}}`)))
	f := newFixture(t, b.url)
	_, err := f.Forward(t.Context(), get("/findings"))
	require.Error(t, err)
	require.Empty(t, f.log.String(), "a GET changes nothing")
	c := post("/repositories/repo-1", `{"secret-body":1}`)
	c.Operation, c.Method, c.Query = "update-repository", http.MethodPatch, "secret=query"
	_, err = f.Forward(t.Context(), c)
	require.Error(t, err)
	line := f.log.String()
	for _, want := range []string{
		`msg="agent operation"`, "operation=update-repository", "method=PATCH", "path=/repositories/repo-1", "subject=key:abc123",
		"organization_id=org-1", "status=409", "outcome=refused", "duration=0s", "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
	} {
		require.Contains(t, line, want)
	}
	require.Equal(t, 1, strings.Count(line, "\n"))
	require.NotContains(t, line, "secret")
	require.NotContains(t, line, token)
	require.Equal(t, Event{Operation: "update-repository", Method: "PATCH", Status: 409, Outcome: OutcomeRefused}, f.event(t))

	c.Path = "/" + strings.Repeat("x", 10_000)
	_, err = f.Forward(t.Context(), c)
	require.Error(t, err)
	require.Less(t, f.log.Len(), 2_000)
}

// retryOf returns when an error says to try again.
func retryOf(t testing.TB, err error) time.Duration {
	t.Helper()
	var r interface{ RetryAfter() time.Duration }
	require.ErrorAs(t, err, &r)
	return r.RetryAfter()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestParsingInTurn: a response is parsed when the organization has a slot of the CPUs. Without one in time, the call
// fails, but the backend has not failed.
func TestParsingInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu := fair.NewSemaphore(1, 1)
		f := newFixture(t, "http://backend", func(c *Config) {
			c.CPU = cpu
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"x":1}`)), Request: r}, nil
			})
		})
		ended := make(chan error, 1)
		forward := func() {
			_, err := f.Forward(context.Background(), get("/x"))
			ended <- err
		}
		require.NoError(t, cpu.Acquire(t.Context(), "org-2"))
		go forward()
		synctest.Wait()
		require.Empty(t, ended)
		f.expire()
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(<-ended))
		require.Equal(t, OutcomeTooMany, f.event(t).Outcome)
		go forward()
		synctest.Wait()
		require.Empty(t, ended)
		cpu.Release("org-2")
		require.NoError(t, <-ended)
	})
}
