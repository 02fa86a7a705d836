// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// zeros returns gzip of n zeros.
func zeros(n int) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	block := make([]byte, 1<<20)
	for ; n > 0; n -= len(block) {
		_, _ = w.Write(block)
	}
	w.Close()
	return b.String()
}

// hostile are ways to answer badly. Those that hang do so until the deadline of
// the phase, which the test lets pass.
var hostile = []struct {
	name    string
	script  func(p *peer, r *rawRequest) bool
	hangs   bool
	code    assay.Code
	outcome Outcome
	failed  bool // as the breaker counts
}{
	{"hangs before the response", func(p *peer, _ *rawRequest) bool { return p.hang() }, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"hangs in the status line", func(p *peer, _ *rawRequest) bool { p.say("HTTP/1.1 2"); return p.hang() }, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"hangs in the header", func(p *peer, _ *rawRequest) bool { p.say("HTTP/1.1 200 OK\r\nETag: "); return p.hang() }, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"hangs before the body", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		return p.hang()
	}, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"hangs in the body", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
		return p.hang()
	}, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"hangs in a chunk", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{")
		return p.hang()
	}, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"hangs in the trailer", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ")
		return p.hang()
	}, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"hangs in the body of a refusal", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 404 x\r\nContent-Length: 100\r\n\r\n{")
		return p.hang()
	}, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"drips", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\n\r\n[")
		for range 100 {
			p.say(" ")
		}
		return p.hang()
	}, true, assay.CodeUpstream, OutcomeTimeout, true},
	{"resets", func(p *peer, _ *rawRequest) bool {
		_ = p.Conn.(*net.TCPConn).SetLinger(0)
		return false
	}, false, assay.CodeUpstream, OutcomeBroken, true},
	{"closes", func(*peer, *rawRequest) bool { return false }, false, assay.CodeUpstream, OutcomeBroken, true},
	{"closes in the header", answersAndCloses("HTTP/1.1 200 OK\r\nA: b"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"half a body", answersAndCloses("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":1}"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"half a chunk", answersAndCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"no last chunk", answersAndCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"chunk of no size", answersAndCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"chunk too large", answersAndCloses("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"a length too small", answersAndCloses("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{\"a\":1}"), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"two lengths", answersAndCloses("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} "), false, assay.CodeUpstream, OutcomeBroken, true},
	{"a length below zero", answersAndCloses("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"half a body without length", answersAndCloses("HTTP/1.1 200 OK\r\n\r\n{\"a\":"), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"not HTTP", answersAndCloses("SSH-2.0-secret\r\n\r\n"), false, assay.CodeUpstream, OutcomeBroken, true},
	{"a header flood", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\n")
		for i := 0; p.say("X-" + strconv.Itoa(i) + ": " + strings.Repeat("x", 1000) + "\r\n"); i++ {
		}
		return false
	}, false, assay.CodeUpstream, OutcomeBroken, true},
	{"a header line without end", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\nX: ")
		for p.say(strings.Repeat("x", 1000)) {
		}
		return false
	}, false, assay.CodeUpstream, OutcomeBroken, true},
	{"a 1xx flood", func(p *peer, _ *rawRequest) bool {
		for p.say("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n") {
		}
		return false
	}, false, assay.CodeUpstream, OutcomeBroken, true},
	{"another protocol", answersAndCloses("HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"a trailer flood", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
		for p.say("X: " + strings.Repeat("x", 1000) + "\r\n") {
		}
		return false
	}, false, assay.CodeUpstream, OutcomeBroken, true},
	{"1 GiB", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
		block := strings.Repeat(" ", 1<<20)
		for range 1 << 10 {
			if !p.say(block) {
				return false
			}
		}
		p.t.hangs <- struct{}{} // it was read to its end
		return false
	}, false, assay.CodeUpstream, OutcomeBackendError, false},
	{"1 GiB of a refusal", func(p *peer, _ *rawRequest) bool {
		p.say("HTTP/1.1 422 x\r\nContent-Length: 1073741824\r\n\r\n")
		for p.say(strings.Repeat(" ", 1<<20)) {
		}
		return false
	}, false, assay.CodeUnprocessable, OutcomeRefused, false},
	{"a gzip bomb", answersAndCloses(rawResponse(200, zeros(64<<20), "Content-Encoding", "gzip")), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"broken gzip", answersAndCloses(rawResponse(200, zeros(1 << 20)[:500], "Content-Encoding", "gzip")), false, assay.CodeUpstream, OutcomeBroken, true},
	{"not gzip", answersAndCloses(rawResponse(200, "{}", "Content-Encoding", "gzip")), false, assay.CodeUpstream, OutcomeBroken, true},
	{"another encoding", answersAndCloses(rawResponse(200, "{}", "Content-Encoding", "br")), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"HTML", answersAndCloses(rawResponse(200, "<html>secret</html>", "Content-Type", "text/html")), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"white space", answersAndCloses(rawResponse(200, "  ")), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"two values", answersAndCloses(rawResponse(200, "{}{}")), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"invalid UTF-8", answersAndCloses(rawResponse(200, "{\"a\":\"\xff\"}")), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"deep JSON", answersAndCloses(rawResponse(200, strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20))), false, assay.CodeUpstream, OutcomeBackendError, false},
	{"not a number", answersAndCloses(rawResponse(200, "NaN")), false, assay.CodeUpstream, OutcomeBackendError, false},
}

func answersAndCloses(response string) func(*peer, *rawRequest) bool {
	return func(p *peer, _ *rawRequest) bool {
		p.say(response)
		return false
	}
}

func TestHostileBackend(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			b := newRawBackend(t, c.script)
			f := newFixture(t, b.url)
			err := f.forward(t, b, get("/x"), c.hangs)
			require.Equal(t, c.code, assay.ErrorCode(err))
			require.NotContains(t, err.(*failure).public.Message, "secret")
			e := f.event(t)
			require.Equal(t, c.outcome, e.Outcome)
			require.Equal(t, c.failed, f.failures() == 1)
			require.Equal(t, DefaultTimeout, f.asked[0])
			require.Subset(t, []time.Duration{DefaultTimeout, DefaultBodyTimeout}, f.asked)
			require.Zero(t, f.memory.InUse())
			require.Zero(t, f.inFlight.InUse())
			require.Empty(t, b.hangs)
		})
	}
}

// forward makes a call; when it hangs, its deadline passes.
func (f *fixture) forward(t *testing.T, b *rawBackend, c *assay.AgentCall, hangs bool) error {
	ended := make(chan error, 1)
	go func() {
		_, err := f.Forward(context.Background(), c)
		ended <- err
	}()
	if hangs {
		select {
		case <-b.hangs:
		case err := <-ended:
			require.Fail(t, "ended early", "%v", err)
		}
		f.expire()
	}
	return <-ended
}

// TestRequestThatIsNotRead: sending has a deadline, too.
func TestRequestThatIsNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f := newFixture(t, "http://"+l.Addr().String())
	ended := make(chan error, 1)
	go func() {
		_, err := f.Forward(context.Background(), post("/x", `"`+strings.Repeat("x", 16<<20)+`"`))
		ended <- err
	}()
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	f.expire()
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(<-ended))
	require.Equal(t, OutcomeTimeout, f.event(t).Outcome)
}

func TestDeadlineOfTheOperation(t *testing.T) {
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool { return p.hang() })
	f := newFixture(t, b.url)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := f.Forward(ctx, get("/x"))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.Equal(t, OutcomeUnreachable, f.event(t).Outcome)
	require.Equal(t, 1, f.failures())
}

func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	stranger := newTLSBackend(t, nil, func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		url     string
		connect time.Duration
	}{
		"refused":                   {"http://127.0.0.1:1", time.Minute},
		"no such host":              {"http://backend.invalid", time.Minute},
		"no TLS handshake":          {"https://" + silent.Addr().String(), time.Millisecond},
		"certificate of a stranger": {stranger.URL, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.url, func(cfg *Config) { cfg.ConnectTimeout = c.connect })
			_, err := f.Forward(t.Context(), get("/x"))
			require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
			require.Equal(t, defaultRetry, retryOf(t, err))
			require.Equal(t, "the agent backend cannot be reached", err.(*failure).public.Message)
			require.Greater(t, len(err.Error()), len(err.(*failure).public.Message), "the log has the cause")
			require.Equal(t, Event{Operation: "list-findings", Method: "GET", Outcome: OutcomeUnreachable}, f.event(t))
			require.Equal(t, 1, f.failures())
		})
	}
}

// TestStatuses: every status, without a body.
func TestStatuses(t *testing.T) {
	var status int
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool {
		return p.say(rawResponse(status, "", "Location", "/elsewhere", "Retry-After", "7"))
	})
	f := newFixture(t, b.url)
	kept := map[int]assay.Code{
		400: assay.CodeInvalid, 403: assay.CodeForbidden, 404: assay.CodeNotFound, 409: assay.CodeConflict,
		413: assay.CodeTooLarge, 422: assay.CodeUnprocessable, 429: assay.CodeRateLimited, 503: assay.CodeUnavailable,
	}
	for status = 200; status < 600; status++ {
		clear(f.breaker.circuits)
		sent := len(b.all())
		a, err := f.Forward(t.Context(), get("/x"))
		require.Len(t, b.all(), sent+1, "%d: nothing is followed", status)
		require.Equal(t, status, f.event(t).Status)
		require.Equal(t, status >= 500, f.failures() == 1, status)
		switch code := kept[status]; {
		case status < 300:
			require.NoError(t, err, status)
			require.Equal(t, &assay.AgentAnswer{}, a, status)
		case code != "":
			require.Equal(t, code, assay.ErrorCode(err), status)
			require.Equal(t, 7*time.Second, retryOf(t, err))
			require.NotEmpty(t, err.(*failure).public.Message)
		default:
			require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err), status)
		}
	}
}

func TestNotModified(t *testing.T) {
	b := newRawBackend(t, func(p *peer, r *rawRequest) bool {
		return p.say(rawResponse(http.StatusNotModified, "", "ETag", `"v1"`, "Last-Modified", "Sat, 21 Nov 2026 09:30:00 GMT"))
	})
	f := newFixture(t, b.url)
	for _, name := range []string{"If-None-Match", "If-Modified-Since"} {
		c := get("/x")
		c.Header[name] = []string{`W/"v1"`}
		a, err := f.Forward(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, &assay.AgentAnswer{NotModified: true, ETag: `"v1"`, LastModified: "Sat, 21 Nov 2026 09:30:00 GMT"}, a)
		require.Equal(t, `W/"v1"`, b.last(t).header(name))
	}
	_, err := f.Forward(t.Context(), get("/x"))
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	var details []string
	for i := range 100 {
		details = append(details, fmt.Sprintf(`"d%d":"x"`, i))
	}
	general := refusals[409].message
	for body, want := range map[string]struct {
		message, code string
		details       map[string]string
	}{
		`{"error":{"code":"REPOSITORY_LIMIT","message":"the plan says no","details":{"plan":"free"}},"meta":{}}`: {"the plan says no", "REPOSITORY_LIMIT", map[string]string{"plan": "free"}},
		`{"error":{"message":"no"}}`:                                                           {"no", "", nil},
		`{"error":{"code":7,"message":"no","details":[1]}}`:                                    {"no", "", nil},
		`{"error":{"code":"<script>","message":"no","details":{"a":1,"b":{},"c":"d","":"e"}}}`: {"no", "", map[string]string{"c": "d"}},
		`{"error":{"code":"Repo-limit.1","message":"\ud800\u0000","details":null}}`:            {"\ufffd\x00", "Repo-limit.1", nil},
		`{"error":{"code":"A","message":""}}`:                                                  {general, "", nil},
		`{"error":{"code":"A","message":5}}`:                                                   {general, "", nil},
		`{"error":"no"}`:                                                                       {general, "", nil},
		`{"Error":{"Message":"no"}}`:                                                           {general, "", nil},
		`{"message":"no"}`:                                                                     {general, "", nil},
		`[]`:                                                                                   {general, "", nil},
		``:                                                                                     {general, "", nil},
		`<html>no</html>`:                                                                      {general, "", nil},
		"{\"error\":{\"message\":\"\xff\"}}":                                                   {general, "", nil},
		`{"error":{"message":"` + long + `"}}`:                                                 {strings.Repeat("é", maxMessage/2) + "…", "", nil},
	} {
		b := newRawBackend(t, answersAndCloses(rawResponse(409, body)))
		f := newFixture(t, b.url)
		_, err := f.Forward(t.Context(), post("/x", ""))
		e := err.(*failure)
		require.Equal(t, &assay.Error{Code: assay.CodeConflict, Message: want.message, Details: want.details}, e.public, body)
		require.Equal(t, want.code, e.BackendCode(), body)
	}
	err := refusal(400, []byte(`{"error":{"message":"m","details":{`+strings.Join(details, ",")+`}}}`), 0).(*failure)
	require.Len(t, err.public.Details, maxDetails)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for field, want := range map[string]time.Duration{
		"": defaultRetry, "0": 0, "120": 2 * time.Minute, " 7 ": 7 * time.Second, "-1": defaultRetry, "1.5": defaultRetry, "soon": defaultRetry,
		"99999999": maxRetry, "99999999999999999999999": maxRetry,
		"Sat, 21 Nov 2026 09:31:00 GMT": time.Minute, "Sat, 21 Nov 2026 09:00:00 GMT": 0, "Sat, 21 Nov 2099 09:00:00 GMT": maxRetry,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {field}}, now, defaultRetry), field)
	}
	require.Equal(t, time.Hour, retryAfter(http.Header{
		"Retry-After": {"Sat, 21 Nov 2026 12:00:00 GMT"}, "Date": {"Sat, 21 Nov 2026 11:00:00 GMT"},
	}, now, defaultRetry), "by the backend's clock")
}

func TestAnswers(t *testing.T) {
	total := func(n int64) *int64 { return &n }
	for body, want := range map[string]assay.AgentAnswer{
		``:                          {},
		`null`:                      {Data: []byte(`null`)},
		` {"a": 1.50} `:             {Data: []byte(` {"a": 1.50} `)},
		`[1,"<&>"]`:                 {Data: []byte(`[1,"<&>"]`)},
		`"text"`:                    {Data: []byte(`"text"`)},
		`123456789012345678901e400`: {Data: []byte(`123456789012345678901e400`)},
		`{"a":1,"a":2}`:             {Data: []byte(`{"a":1,"a":2}`)},
		`{"data":1}`:                {Data: []byte(`{"data":1}`)},
		`{"Data":1,"META":{}}`:      {Data: []byte(`{"Data":1,"META":{}}`)},
		`{"meta":{},"links":{}}`:    {Data: []byte(`{"meta":{},"links":{}}`)},
		`[{"data":1,"meta":{}}]`:    {Data: []byte(`[{"data":1,"meta":{}}]`)},
		` { "data" : [ 1 , {"data":2} ] , "meta" : { "total" : 112 } , "links" : {"next":"/x?y=1"} } `: {Data: []byte(`[ 1 , {"data":2} ]`), Total: total(112), Links: []byte(`{"next":"/x?y=1"}`)},
		`{"data":"]}\"\\","meta":{}}`:                      {Data: []byte(`"]}\"\\"`)},
		`{"d\u0061ta":1,"meta":null}`:                      {Data: []byte(`1`)},
		`{"data":null,"links":{}}`:                         {Data: []byte(`null`), Links: []byte(`{}`)},
		`{"data":1,"links":["a"]}`:                         {Data: []byte(`1`)},
		`{"data":1,"links":"a","meta":"b"}`:                {Data: []byte(`1`)},
		`{"data":1,"data":2,"meta":{"total":1}}`:           {Data: []byte(`2`), Total: total(1)},
		`{"data":1,"meta":{"total":0}}`:                    {Data: []byte(`1`), Total: total(0)},
		`{"data":1,"meta":{"total":-1}}`:                   {Data: []byte(`1`)},
		`{"data":1,"meta":{"total":"5"}}`:                  {Data: []byte(`1`)},
		`{"data":1,"meta":{"total":1.5}}`:                  {Data: []byte(`1`)},
		`{"data":1,"meta":{"total":99999999999999999999}}`: {Data: []byte(`1`)},
		`{"data":1,"meta":{"total":5,"total":null}}`:       {Data: []byte(`1`)},
	} {
		b := newRawBackend(t, answersAndCloses(rawResponse(200, body)))
		f := newFixture(t, b.url)
		a, err := f.Forward(t.Context(), get("/x"))
		require.NoError(t, err, body)
		require.Equal(t, &want, a, body)
		require.Equal(t, Event{Operation: "list-findings", Method: "GET", Status: 200, Outcome: OutcomeOK}, f.event(t))
	}
}

// TestAnswersAreUnpacked: a compressed response is forwarded uncompressed.
func TestAnswersAreUnpacked(t *testing.T) {
	large := `{"a":"` + strings.Repeat("x", 200<<10) + `"}`
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(large))
	w.Close()
	for name, response := range map[string]string{
		"gzip":    rawResponse(200, packed.String(), "Content-Encoding", "gzip"),
		"plain":   rawResponse(200, large),
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(large)), 16) + "\r\n" + large + "\r\n0\r\nX-Trailer: y\r\n\r\n",
		"closed":  "HTTP/1.0 200 OK\r\n\r\n" + large,
		"hints":   "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + rawResponse(201, large),
	} {
		t.Run(name, func(t *testing.T) {
			b := newRawBackend(t, answersAndCloses(response))
			f := newFixture(t, b.url)
			a, err := f.Forward(t.Context(), get("/x"))
			require.NoError(t, err)
			require.Equal(t, large, string(a.Data))
			require.Zero(t, f.memory.InUse())
		})
	}
}

func TestLongestAnswer(t *testing.T) {
	const limit = 200 << 10
	longest := `"` + strings.Repeat("x", limit-2) + `"`
	body := longest
	b := newRawBackend(t, func(p *peer, _ *rawRequest) bool { p.say(rawResponse(200, body)); return false })
	f := newFixture(t, b.url)
	require.Equal(t, 32<<20, f.maxBody)
	f.maxBody = limit
	a, err := f.Forward(t.Context(), get("/x"))
	require.NoError(t, err)
	require.Len(t, a.Data, limit)
	body += " "
	_, err = f.Forward(t.Context(), get("/x"))
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
}

func TestValidators(t *testing.T) {
	for tag, want := range map[string]string{
		`"abc"`: `"abc"`, `W/"abc"`: `W/"abc"`, `""`: `""`, `abc`: "", `"`: "", `W/`: "", `"a"b"`: "", `"a b"`: "", `w/"a"`: "",
		`"` + strings.Repeat("x", 2000) + `"`: "",
	} {
		b := newRawBackend(t, answersAndCloses(rawResponse(200, "{}", "ETag", tag, "Last-Modified", "yesterday")))
		f := newFixture(t, b.url)
		a, err := f.Forward(t.Context(), get("/x"))
		require.NoError(t, err)
		require.Equal(t, want, a.ETag, tag)
		require.Empty(t, a.LastModified)
	}
}
