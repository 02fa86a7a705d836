// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay"
)

var remoteNow = time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.FixedZone("", 3600))

func newTestRemote(t testing.TB, cfg RemoteConfig) *Remote {
	t.Helper()
	cfg.Now = func() time.Time { return remoteNow }
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	r, err := NewRemote(cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// store serves a handler and discards the log of net/http.
func store(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = discardLog
	s.Start()
	t.Cleanup(s.Close)
	return s
}

const (
	vector = `{"status":"success","data":{"resultType":"vector","result":[%s]}}`
	matrix = `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`
)

// answers responds to instant queries with one body and to range queries with another.
func answers(instant, ranged string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/query_range") {
			_, _ = io.WriteString(w, ranged)
			return
		}
		_, _ = io.WriteString(w, instant)
	}
}

func at(severity, value string) string {
	return fmt.Sprintf(`{"metric":{"severity":%q},"value":[1772359200.123,%q]}`, severity, value)
}

func TestRemote(t *testing.T) {
	t.Parallel()
	var asked []url.Values
	s := store(t, func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.ParseForm())
		assert.Equal(t, http.MethodPost, r.Method)
		user, password, ok := r.BasicAuth()
		assert.True(t, ok)
		assert.Equal(t, "user", user)
		assert.Equal(t, "word", password)
		assert.Equal(t, []string{"team"}, r.Header["X-Scope-Orgid"])
		asked = append(asked, r.Form)
		switch r.URL.Path {
		case "/prometheus/api/v1/query":
			// Unknown and missing severities count together before they are rounded.
			_, _ = fmt.Fprintf(w, vector, strings.Join([]string{
				at("INFO", "2.5"), at("WARN", "2.4999"), at("FATAL", "-1"), at("info", "0.25"), `{"metric":{},"value":[1,"0.25"]}`,
			}, ","))
		case "/prometheus/api/v1/query_range":
			_, _ = fmt.Fprintf(w, matrix, `
				{"metric":{"severity":"INFO"},"values":[[1772362740.123,"1"],[1772362800.122,"4"],[1,"9"],[1000000000000,"9"]]},
				{"metric":{"severity":"WARN"},"values":[[1772359260.123,"0.5"],[1772359320.123,"NaN"]]}`)
		default:
			http.NotFound(w, r)
		}
	})
	r := newTestRemote(t, RemoteConfig{
		URL: s.URL + "/prometheus/", Username: "user", Password: "word",
		Headers: map[string]string{"X-Scope-OrgID": "team"}, ScrapeInterval: 15 * time.Second,
	})
	got, err := r.LogVolume(t.Context(), `a"b\`, "1h")
	require.NoError(t, err)

	end := time.Date(2026, 3, 1, 11, 0, 0, 123e6, time.UTC)
	start := end.Add(-time.Hour)
	want := &assay.LogVolume{Period: "1h", Start: start, End: end}
	for i := range 60 {
		want.Series = append(want.Series, assay.LogVolumePoint{Start: start.Add(time.Duration(i) * time.Minute)})
	}
	info, warn, unspecified := assay.SeverityInfo, assay.SeverityWarn, assay.SeverityUnspecified
	want.Counts[info], want.Counts[warn], want.Counts[unspecified] = 3, 2, 1
	want.Series[58].Counts[info], want.Series[59].Counts[info] = 1, 2 // 0.6 and 2.4 of 3
	want.Series[0].Counts[warn] = 2
	want.Series[0].Counts[unspecified] = 1 // without a shape the counts are even; the first one gets the rest
	require.Equal(t, want, got)

	require.Equal(t, []url.Values{{
		"query":   {`sum by (severity) (increase(logs_severity_total{organization_id="a\"b\\"}[1h]))`},
		"time":    {"1772362800.123"},
		"timeout": {"1m0s"},
		"nocache": {"1", "1"},
	}, {
		"query":   {`sum by (severity) (increase(logs_severity_total{organization_id="a\"b\\"}[1m]))`},
		"start":   {"1772359260.123"},
		"end":     {"1772362800.123"},
		"step":    {"60"},
		"timeout": {"1m0s"},
		"nocache": {"1", "1"},
	}}, asked)
}

// TestRemotePeriods queries every period with an empty result, which takes one query.
func TestRemotePeriods(t *testing.T) {
	t.Parallel()
	var asked []string
	s := store(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.FormValue("query"))
		_, _ = fmt.Fprintf(w, vector, "")
	})
	r := newTestRemote(t, RemoteConfig{URL: s.URL})
	var want []string
	for _, p := range assay.LogVolumePeriods() {
		v, err := r.LogVolume(t.Context(), "x", p)
		require.NoError(t, err)
		require.Zero(t, v.Counts.Total())
		require.Len(t, v.Series, 60)
		require.Equal(t, v.Start, v.Series[0].Start)
		require.Equal(t, v.End, v.Series[59].Start.Add(p.Duration()/60))
	}
	for _, window := range []string{"1h", "6h", "12h", "1d", "1w", "30d"} {
		want = append(want, fmt.Sprintf(`sum by (severity) (increase(logs_severity_total{organization_id="x"}[%s]))`, window))
	}
	require.Equal(t, want, asked)
	_, err := r.LogVolume(t.Context(), "x", "1y")
	require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
}

func TestRemoteShapeNeedsFourScrapes(t *testing.T) {
	t.Parallel()
	var window string
	s := store(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/query_range") {
			_, window, _ = strings.Cut(r.FormValue("query"), "[")
		}
		answers(fmt.Sprintf(vector, at("INFO", "1")), fmt.Sprintf(matrix, ""))(w, r)
	})
	r := newTestRemote(t, RemoteConfig{URL: s.URL})
	v, err := r.LogVolume(t.Context(), "x", "1h")
	require.NoError(t, err)
	require.Equal(t, "4m]))", window)
	require.EqualValues(t, 1, v.Series[0].Counts[assay.SeverityInfo])
}

func TestRemoteAuthenticates(t *testing.T) {
	t.Parallel()
	var header atomic.Pointer[http.Header]
	h := func(w http.ResponseWriter, r *http.Request) {
		header.Store(&r.Header)
		if r.Method == http.MethodPost {
			http.Error(w, "GET, please", http.StatusMethodNotAllowed)
			return
		}
		assert.NotEmpty(t, r.URL.Query().Get("query"))
		_, _ = fmt.Fprintf(w, vector, "")
	}
	ask := func(cfg RemoteConfig) http.Header {
		t.Helper()
		_, err := newTestRemote(t, cfg).LogVolume(t.Context(), "x", "1h")
		require.NoError(t, err)
		return *header.Load()
	}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	plain := store(t, h)
	require.Empty(t, ask(RemoteConfig{URL: plain.URL}).Get("Authorization"))
	require.Equal(t, "Bearer token", ask(RemoteConfig{URL: plain.URL, BearerToken: "token"}).Get("Authorization"))
	require.Equal(t, "Bearer from a file", ask(RemoteConfig{URL: plain.URL, BearerTokenFile: file("token", "from a file\n")}).Get("Authorization"))
	require.Equal(t, "Basic dTpwdw==", ask(RemoteConfig{URL: plain.URL, Username: "u", PasswordFile: file("password", "pw\n")}).Get("Authorization"))

	secure := httptest.NewUnstartedServer(http.HandlerFunc(h))
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	ca := file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	cert, key := keyPair(t)
	certFile, keyFile := file("cert.pem", cert), file("key.pem", key)
	ask(RemoteConfig{URL: secure.URL, CAFile: ca, CertFile: certFile, KeyFile: keyFile})
	ask(RemoteConfig{URL: secure.URL, InsecureSkipVerify: true, CertFile: certFile, KeyFile: keyFile})
}

func TestRemoteConfigProblems(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, cfg := range map[string]RemoteConfig{
		"no URL":                    {},
		"no scheme":                 {URL: "localhost:9090"},
		"another scheme":            {URL: "ftp://localhost"},
		"not a URL":                 {URL: "http://%zz" + secret},
		"credentials in the URL":    {URL: "http://user:" + secret + "@localhost"},
		"two credentials":           {URL: "http://localhost", Username: "u", Password: secret, BearerToken: secret},
		"no such certificates":      {URL: "https://localhost", CAFile: "/nowhere/ca.pem"},
		"a certificate and no key":  {URL: "https://localhost", CertFile: "/nowhere/cert.pem"},
		"a header of the client's":  {URL: "http://localhost", Headers: map[string]string{"authorization": secret}},
		"password and its file":     {URL: "http://localhost", Username: "u", Password: secret, PasswordFile: "/nowhere"},
		"bearer token and its file": {URL: "http://localhost", BearerToken: secret, BearerTokenFile: "/nowhere"},
	} {
		_, err := NewRemote(cfg)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), secret, name)
	}
}

// TestRemoteHostile queries servers that are not metrics stores or that misbehave. Each returns CodeUpstream
// within the timeout, and the error text contains nothing of the request or the response.
func TestRemoteHostile(t *testing.T) {
	t.Parallel()
	const leak = "LEAK"
	text := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	raw := func(f func(net.Conn)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // unread data would reset the connection
			c, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				f(c)
				_ = c.Close()
			}
		}
	}
	elsewhere := store(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	good := fmt.Sprintf(vector, at("INFO", "1"))
	const hangs = 100 * time.Millisecond // timeout for servers that never finish a response
	tests := map[string]struct {
		handler http.HandlerFunc
		timeout time.Duration
		message string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, hangs, "in time"},
		"drips": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(time.Millisecond):
				case <-r.Context().Done():
				}
			}
		}, hangs, "in time"},
		"hangs at the second question": {func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "_range") {
				_, _ = io.WriteString(w, good)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, hangs, "in time"},
		"never stops": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, 0, "too long"},
		"too much JSON": {text(200, fmt.Sprintf(vector, strings.Repeat(at("INFO", "1")+",", maxAnswer/40)+at("INFO", "1"))), 0, "too long"},
		"resets":        {raw(func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }), 0, "closed the connection"},
		"hangs up":      {raw(func(net.Conn) {}), 0, "closed the connection"},
		"hangs up early": {raw(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
		}), 0, "closed the connection"},
		"not HTTP":           {raw(func(c net.Conn) { _, _ = io.WriteString(c, leak+" 220 ready\r\n\r\n") }), 0, "failed"},
		"redirects":          {http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP, 0, "status 307"},
		"redirects a login":  {http.RedirectHandler("/login?"+leak, http.StatusFound).ServeHTTP, 0, "status 302"},
		"not modified":       {text(304, ""), 0, "status 304"},
		"unauthorized":       {text(401, leak), 0, "status 401"},
		"forbidden":          {text(403, leak), 0, "status 403"},
		"not found":          {text(404, leak), 0, "status 404"},
		"bad query":          {text(400, `{"status":"error","errorType":"LEAK","error":"LEAK"}`), 0, "status 400"},
		"query fails":        {text(422, `{"status":"error","errorType":"execution","error":"LEAK"}`), 0, "status 422"},
		"too many":           {text(429, leak), 0, "status 429"},
		"error":              {text(500, leak), 0, "status 500"},
		"not implemented":    {text(501, leak), 0, "status 501"},
		"unavailable":        {text(503, leak), 0, "status 503"},
		"error with 200":     {text(200, `{"status":"error","errorType":"LEAK","error":"LEAK"}`), 0, "not a Prometheus"},
		"HTML":               {text(200, "<html>LEAK</html>"), 0, "not a Prometheus"},
		"nothing":            {text(200, ""), 0, "not a Prometheus"},
		"no content":         {text(204, ""), 0, "not a Prometheus"},
		"null":               {text(200, "null"), 0, "not a Prometheus"},
		"list":               {text(200, "[]"), 0, "not a Prometheus"},
		"no data":            {text(200, `{"status":"success"}`), 0, "not a Prometheus"},
		"null data":          {text(200, `{"status":"success","data":null}`), 0, "not a Prometheus"},
		"unknown type":       {text(200, `{"status":"success","data":{"resultType":"LEAK","result":[]}}`), 0, "not a Prometheus"},
		"scalar":             {text(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`), 0, "not a Prometheus"},
		"matrix":             {text(200, fmt.Sprintf(matrix, "")), 0, "not a Prometheus"},
		"text for a vector":  {text(200, `{"status":"success","data":{"resultType":"vector","result":"LEAK"}}`), 0, "not a Prometheus"},
		"null in a vector":   {text(200, fmt.Sprintf(vector, "null")), 0, "not a Prometheus"},
		"value is a number":  {text(200, fmt.Sprintf(vector, `{"metric":{},"value":[1,1]}`)), 0, "not a Prometheus"},
		"value is text":      {text(200, fmt.Sprintf(vector, at("INFO", leak))), 0, "not a Prometheus"},
		"NaN":                {text(200, fmt.Sprintf(vector, at("INFO", "NaN"))), 0, "not a count"},
		"infinite":           {text(200, fmt.Sprintf(vector, at("INFO", "+Inf"))), 0, "not a count"},
		"more than there is": {text(200, fmt.Sprintf(vector, at("INFO", "1e300"))), 0, "not a count"},
		"shape is a vector":  {answers(good, good), 0, "not a Prometheus"},
		"shape is null":      {answers(good, fmt.Sprintf(matrix, "null")), 0, "not a Prometheus"},
		"shape is HTML":      {answers(good, "<html>"), 0, "not a Prometheus"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, test.handler)
			r := newTestRemote(t, RemoteConfig{URL: s.URL, BearerToken: "hunter2", Timeout: test.timeout})
			requireUpstream(t, r, test.message, leak, "hunter2", s.URL)
		})
	}
}

func requireUpstream(t *testing.T, r *Remote, message string, secrets ...string) {
	t.Helper()
	_, err := r.LogVolume(t.Context(), "x", "24h")
	require.Error(t, err)
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
	require.ErrorContains(t, err, message)
	var reported *assay.Error
	require.ErrorAs(t, err, &reported)
	for _, secret := range secrets {
		require.NotContains(t, fmt.Sprint(err, reported.Message, reported.Err), secret)
	}
}

func TestRemoteOutOfReach(t *testing.T) {
	t.Parallel()
	requireUpstream(t, newTestRemote(t, RemoteConfig{URL: "http://127.0.0.1:1"}), "cannot be reached")
	require.ErrorContains(t, broken(&net.DNSError{Err: "no such host", Name: "store.invalid", IsNotFound: true}), "cannot be reached")

	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = discardLog
	secure.StartTLS()
	t.Cleanup(secure.Close)
	requireUpstream(t, newTestRemote(t, RemoteConfig{URL: secure.URL}), "certificate is not accepted")
	requireUpstream(t, newTestRemote(t, RemoteConfig{URL: strings.Replace(secure.URL, "https", "http", 1)}), "status 400")
	plain := store(t, http.NotFound)
	requireUpstream(t, newTestRemote(t, RemoteConfig{URL: strings.Replace(plain.URL, "http", "https", 1)}), "failed")
	requireUpstream(t, newTestRemote(t, RemoteConfig{URL: plain.URL, BearerTokenFile: "/nowhere/token"}), "failed")
}

// TestRemoteHangsForMany sends many concurrent queries to a store that hangs. A few wait for the store, the
// others in the queue, and all get an error.
func TestRemoteHangsForMany(t *testing.T) {
	t.Parallel()
	s := store(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	h, err := newHTTPClient(RemoteConfig{})
	require.NoError(t, err)
	questions := &counting{RoundTripper: h.Transport}
	c, err := newClient(s.URL, &http.Client{Transport: questions})
	require.NoError(t, err)
	r := newRemote(RemoteConfig{Timeout: 300 * time.Millisecond}, c, h)
	defer r.Close()
	var g sync.WaitGroup
	for range 10 * remoteQueries {
		g.Go(func() {
			_, err := r.LogVolume(t.Context(), "x", "1h")
			assert.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
		})
	}
	g.Wait()
	require.Positive(t, questions.most)
	require.LessOrEqual(t, questions.most, remoteQueries/2, "of one organization; others have the rest")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.LogVolume(ctx, "x", "1h")
	require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
}

// counting counts the exchanges that wait for a response.
type counting struct {
	http.RoundTripper
	mu        sync.Mutex
	now, most int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.add(1)
	defer c.add(-1)
	return c.RoundTripper.RoundTrip(r)
}

func (c *counting) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

// stub responds to every query with the same body.
type stub []byte

func (stub) URL(ep string, _ map[string]string) *url.URL { return &url.URL{Path: ep} }

func (s stub) Do(context.Context, *http.Request) (*http.Response, []byte, error) {
	return &http.Response{StatusCode: http.StatusOK}, s, nil
}

var _ api.Client = stub(nil)

// FuzzRemoteAnswer parses arbitrary responses: the result is a consistent volume or CodeUpstream.
func FuzzRemoteAnswer(f *testing.F) {
	for _, body := range []string{
		fmt.Sprintf(vector, at("INFO", "2.5")),
		fmt.Sprintf(vector, at("WARN", "9007199254740993")+","+at("", "-0")),
		fmt.Sprintf(vector, ""),
		fmt.Sprintf(matrix, `{"metric":{"severity":"INFO"},"values":[[1772359140.123,"1"],[1e300,"-Inf"]]}`),
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"1","buckets":[[0,"1","2","1"]]}]}]}}`,
		`{"status":"error"}`, "null", "",
	} {
		f.Add([]byte(body), []byte(fmt.Sprintf(matrix, "")))
	}
	f.Fuzz(func(t *testing.T, instant, ranged []byte) {
		r := newRemote(RemoteConfig{Now: func() time.Time { return remoteNow }}, both{stub(instant), stub(ranged)}, nil)
		v, err := r.LogVolume(t.Context(), "x", "7d")
		if err != nil {
			require.Equal(t, assay.CodeUpstream, assay.ErrorCode(err))
			return
		}
		var sum assay.SeverityCounts
		for _, p := range v.Series {
			sum.Add(&p.Counts)
		}
		require.Equal(t, v.Counts, sum)
	})
}

// both responds differently to instant and range queries.
type both struct{ instant, ranged stub }

func (b both) URL(ep string, args map[string]string) *url.URL { return b.instant.URL(ep, args) }

func (b both) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	if strings.HasSuffix(r.URL.Path, "_range") {
		return b.ranged.Do(ctx, r)
	}
	return b.instant.Do(ctx, r)
}

var discardLog = log.New(io.Discard, "", 0)

// keyPair returns a certificate that signed itself, and its key, in PEM.
func keyPair(t testing.TB) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}
