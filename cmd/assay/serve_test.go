// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/auth"
	"assay/internal/store/sqlite"
	"assay/internal/telemetry"
)

// testKey is the bootstrap key of servers in tests.
const testKey = "assay_sk_Ab3dEf_0123456789abcdef0123456789abcdef"

// testConfig is the configuration of a server on free ports with short intervals.
func testConfig(t *testing.T, dir string) serverConfig {
	t.Helper()
	cfg, err := defaultConfig()
	require.NoError(t, err)
	cfg.HTTPAddress, cfg.OTLPGRPCAddress, cfg.OTLPHTTPAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.DataDir, cfg.BootstrapAPIKey = dir, testKey
	cfg.TraceIdle, cfg.ScoreInterval, cfg.CommitInterval = 100*time.Millisecond, 50*time.Millisecond, 5*time.Millisecond
	return cfg
}

// startServer starts a server in this process and stops it at the end of the test.
func startServer(t *testing.T, cfg serverConfig) (*server, *assaytest.Output) {
	t.Helper()
	var log assaytest.Output
	require.Empty(t, cfg.problems())
	s := newServer(cfg, testTelemetry(t, &log))
	require.NoError(t, s.start(t.Context()))
	t.Cleanup(func() { require.NoError(t, stopServer(s)) })
	return s, &log
}

func testTelemetry(t *testing.T, log io.Writer) *telemetry.Telemetry {
	t.Helper()
	own, err := telemetry.Start(t.Context(), telemetry.Config{Version: version(), Log: log, LogFormat: "text", LogLevel: "debug"})
	require.NoError(t, err)
	return own
}

func stopServer(s *server) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
	defer cancel()
	return s.shutdown(ctx)
}

// requireNoErrors checks that a server logged no error. It skips transactions that timed out, which happens on a busy
// machine.
func requireNoErrors(t *testing.T, log *assaytest.Output) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		require.False(t, strings.Contains(line, "level=ERROR") && !strings.Contains(line, context.DeadlineExceeded.Error()), line)
	}
}

// client returns a client whose connections are closed at the end of the test.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: assaytest.Limit}
}

// get returns the status and body of a GET request with a key, "" for none.
func get(t *testing.T, c *http.Client, url, key string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func describe(r pcommon.Resource, name string) {
	r.Attributes().PutStr("service.name", name)
	r.Attributes().PutStr("service.namespace", "test")
}

// traceRequest returns a request with a span whose parent is missing.
func traceRequest(name string, at time.Time) ptraceotlp.ExportRequest {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	describe(rs.Resource(), name)
	s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1, byte(at.UnixNano()), byte(at.UnixNano() >> 8)})
	s.SetSpanID(pcommon.SpanID{1})
	s.SetParentSpanID(pcommon.SpanID{2})
	s.SetName("GET")
	s.SetKind(ptrace.SpanKindServer)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(at.Add(-time.Second)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(at))
	return ptraceotlp.NewExportRequestFromTraces(td)
}

// metricRequest returns a request with a metric without a unit.
func metricRequest(name string, at time.Time) pmetricotlp.ExportRequest {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	describe(rm.Resource(), name)
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("queue.length")
	p := m.SetEmptyGauge().DataPoints().AppendEmpty()
	p.SetTimestamp(pcommon.NewTimestampFromTime(at))
	p.SetIntValue(3)
	return pmetricotlp.NewExportRequestFromMetrics(md)
}

// logRequest returns a request with a log record without a severity.
func logRequest(name string, at time.Time) plogotlp.ExportRequest {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	describe(rl.Resource(), name)
	r := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	r.SetTimestamp(pcommon.NewTimestampFromTime(at))
	r.Body().SetStr("hello")
	return plogotlp.NewExportRequestFromLogs(ld)
}

// sendAll sends a request of each signal over gRPC as the service grpc, and over HTTP as the service http,
// whose logs are JSON.
func sendAll(t *testing.T, s *server, at time.Time) {
	t.Helper()
	conn, err := grpc.NewClient(s.grpcAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+testKey)
	_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, traceRequest("grpc", at))
	require.NoError(t, err)
	_, err = pmetricotlp.NewGRPCClient(conn).Export(ctx, metricRequest("grpc", at))
	require.NoError(t, err)
	_, err = plogotlp.NewGRPCClient(conn).Export(ctx, logRequest("grpc", at))
	require.NoError(t, err)

	c := client(t)
	body, err := traceRequest("http", at).MarshalProto()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, post(t, c, s, "traces", "application/x-protobuf", testKey, body))
	body, err = metricRequest("http", at).MarshalProto()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, post(t, c, s, "metrics", "application/x-protobuf", testKey, body))
	body, err = logRequest("http", at).MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, post(t, c, s, "logs", "application/json", testKey, body))
}

func post(t *testing.T, c *http.Client, s *server, signal, contentType, key string, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.otlpHTTPAddr()+"/v1/"+signal, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

// list is a list of the REST API.
type list struct {
	Data []struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		ServiceName string `json:"service_name"`
		Status      string `json:"status"`
		Score       *struct {
			Score     int      `json:"score"`
			Evaluated []string `json:"evaluated_rule_ids"`
		} `json:"instrumentation_score"`
		Type struct {
			RuleID string `json:"instrumentation_score_rule_id"`
		} `json:"insight_type"`
	} `json:"data"`
	Meta struct {
		Total int `json:"total"`
	} `json:"meta"`
}

func getList(t *testing.T, c *http.Client, url string) list {
	t.Helper()
	code, body := get(t, c, url, testKey)
	require.Equal(t, http.StatusOK, code, body)
	var l list
	require.NoError(t, json.Unmarshal([]byte(body), &l))
	return l
}

// failedRules returns the rules of the active insights by service.
func failedRules(t *testing.T, c *http.Client, s *server) map[string][]string {
	t.Helper()
	failed := make(map[string][]string)
	for _, i := range getList(t, c, s.restURL()+"/v1/insights?status=active&limit=100").Data {
		failed[i.ServiceName] = append(failed[i.ServiceName], i.Type.RuleID)
	}
	return failed
}

var wantFailed = []string{"RES-001", "RES-007", "SPA-002", "MET-002", "LOG-002"}

// awaitVerdicts waits until the services of sendAll are evaluated.
func awaitVerdicts(t *testing.T, c *http.Client, s *server) {
	t.Helper()
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		failed := failedRules(t, c, s)
		require.ElementsMatch(ct, wantFailed, failed["grpc"])
		require.ElementsMatch(ct, wantFailed, failed["http"])
	}, assaytest.Limit, 50*time.Millisecond)
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	s, log := startServer(t, testConfig(t, dir))
	require.Empty(t, s.createdKey, "a key was given")
	sendAll(t, s, now)
	c := client(t)
	awaitVerdicts(t, c, s)

	services := getList(t, c, s.restURL()+"/v1/services")
	require.Equal(t, 2, services.Meta.Total)
	for _, svc := range services.Data {
		require.NotNil(t, svc.Score)
		require.Contains(t, svc.Score.Evaluated, "SPA-002")
		require.Positive(t, svc.Score.Score)
	}

	t.Run("other endpoints", func(t *testing.T) {
		code, body := get(t, c, s.rootURL()+"/", "", "Accept", "application/json")
		require.Equal(t, http.StatusOK, code)
		require.JSONEq(t, `{"name":"assay","version":"`+version()+`","api":"/api/v1","openapi":"/api/openapi.json","docs":"/api/docs","jwks":"/.well-known/jwks.json"}`, body)
		for path, want := range map[string]int{
			"/livez": 200, "/readyz": 200, "/api/openapi.json": 200, "/api/docs": 200, "/.well-known/jwks.json": 200, "/metrics": 200,
			"/api/v1/organization": 401, "/nothing": 404, "/api/v1/nothing": 404, "/metrics/x": 404,
		} {
			code, body := get(t, c, s.rootURL()+path, "")
			require.Equal(t, want, code, path)
			if code >= 400 {
				require.True(t, json.Valid([]byte(body)), body)
			}
		}
	})

	t.Run("metrics", func(t *testing.T) {
		_, body := get(t, c, s.metricsURL(), "")
		for _, want := range []string{
			"\nassay_requests_total 6\n",
			"\nassay_records_total{signal=\"traces\"} 2\n",
			"\nassay_records_total{signal=\"metrics\"} 2\n",
			"\nassay_records_total{signal=\"logs\"} 2\n",
			"\nassay_receive_requests_total{outcome=\"accepted\",signal=\"logs\",transport=\"http\"} 1\n",
			"\nassay_receive_requests_total{outcome=\"accepted\",signal=\"traces\",transport=\"grpc\"} 1\n",
			"\nassay_trace_sampling_rate 1\n",
			"\nassay_open_traces 0\n",
			"\nassay_build_info{", "\ngo_goroutines ", "\nprocess_open_fds ",
		} {
			require.Contains(t, body, want)
		}
	})

	t.Run("rejected requests", func(t *testing.T) {
		require.Equal(t, http.StatusUnauthorized, post(t, c, s, "traces", "application/json", testKey[:len(testKey)-1]+"0", []byte("{}")))
		require.Equal(t, http.StatusBadRequest, post(t, c, s, "traces", "application/x-protobuf", testKey, []byte("no protobuf")))
	})

	t.Run("commands while it runs", func(t *testing.T) {
		id := getList(t, c, s.restURL()+"/v1/insights?limit=1").Data[0].ID
		r := call{}.run("insight", "mute", id, "--reason", "known", "--data-dir", dir)
		require.Zero(t, r.code, r.stderr)
		require.Eventually(t, func() bool {
			_, body := get(t, c, s.restURL()+"/v1/insights/"+id, testKey)
			return strings.Contains(body, `"status":"muted"`)
		}, assaytest.Limit, 50*time.Millisecond)
		require.Contains(t, call{}.run("insight", "list", "--status", "muted", "--data-dir", dir).stdout, id)
		for _, c := range []struct {
			args   []string
			reason string
		}{{nil, "known"}, {[]string{"--reason", "accepted"}, "accepted"}, {[]string{"--reason", ""}, ""}, {nil, ""}} {
			require.Zero(t, call{}.run(append([]string{"insight", "mute", id, "--data-dir", dir}, c.args...)...).code)
			require.Contains(t, call{}.run("insight", "list", "--status", "muted", "--format", "json", "--data-dir", dir).stdout, fmt.Sprintf(`"mute_reason": %q`, c.reason))
		}
		r = call{}.run("insight", "unmute", id, "--data-dir", dir)
		require.Equal(t, "the insight "+id+" is active\n", r.stderr)
	})

	require.NoError(t, stopServer(s))
	require.NoError(t, stopServer(s), "a second time")
	require.NotContains(t, log.String(), testKey)
	requireNoErrors(t, log)

	t.Run("restart", func(t *testing.T) {
		restarted, log := startServer(t, testConfig(t, dir))
		require.Contains(t, log.String(), "bootstrap API key is not used")
		awaitVerdicts(t, c, restarted)
		sendAll(t, restarted, now)
		_, body := get(t, c, restarted.metricsURL(), "")
		require.Contains(t, body, "\nassay_requests_repeated_total 6\n", "the same bytes within minutes")
	})
}

func TestKeysCreatedByCommand(t *testing.T) {
	dir := t.TempDir()
	s, _ := startServer(t, testConfig(t, dir))
	c := client(t)
	r := call{}.run("key", "create", "--name", "reader", "--scopes", "read", "--data-dir", dir)
	require.Zero(t, r.code, r.stderr)
	key := strings.TrimSpace(r.stdout)
	code, _ := get(t, c, s.restURL()+"/v1/organization", key)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, http.StatusForbidden, post(t, c, s, "logs", "application/json", key, []byte("{}")))

	id := strings.Split(key, "_")[2]
	require.Zero(t, call{}.run("key", "revoke", id, "--data-dir", dir).code)
	require.Eventually(t, func() bool {
		code, _ := get(t, c, s.restURL()+"/v1/organization", key)
		return code == http.StatusUnauthorized
	}, assaytest.Limit, 100*time.Millisecond)
}

// TestKeyPrefixStoredInStore checks that the first program sets the prefix, and that others use it or
// fail.
func TestKeyPrefixStoredInStore(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(t, dir)
	cfg.APIKeyPrefix, cfg.BootstrapAPIKey = "acme-1", ""
	s, _ := startServer(t, cfg)
	require.True(t, strings.HasPrefix(string(s.createdKey), "acme-1_sk_"))
	create := func(dir string, args ...string) result {
		return call{}.run(append([]string{"key", "create", "--name", "reader", "--data-dir", dir}, args...)...)
	}
	for _, args := range [][]string{nil, {"--api-key-prefix", "acme-1"}} {
		r := create(dir, args...)
		require.Zero(t, r.code, r.stderr)
		require.True(t, strings.HasPrefix(r.stdout, "acme-1_sk_"), r.stdout)
		code, _ := get(t, client(t), s.restURL()+"/v1/organization", strings.TrimSpace(r.stdout))
		require.Equal(t, http.StatusOK, code)
	}
	r := create(dir, "--api-key-prefix", "other")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, `have the prefix "acme-1", not "other"; it cannot be changed, so remove the flag`)
	require.NoError(t, stopServer(s))

	cfg.APIKeyPrefix = "assay"
	refused := newServer(cfg, s.own)
	err := refused.start(t.Context())
	require.ErrorContains(t, err, `have the prefix "acme-1", not "assay"`)
	require.ErrorAs(t, err, new(usageError), "a service manager does not start it again")
	cfg.APIKeyPrefix = ""
	restarted, _ := startServer(t, cfg)
	code, _ := get(t, client(t), restarted.restURL()+"/v1/organization", string(s.createdKey))
	require.Equal(t, http.StatusOK, code)

	// Without the flag, the bootstrap key sets the prefix. A command can run before the server.
	cfg = testConfig(t, t.TempDir())
	cfg.BootstrapAPIKey = "acme_sk_abcdef_" + auth.Secret(strings.Repeat("0", 32))
	s, _ = startServer(t, cfg)
	code, _ = get(t, client(t), s.restURL()+"/v1/organization", string(cfg.BootstrapAPIKey))
	require.Equal(t, http.StatusOK, code)
	dir = t.TempDir()
	require.Zero(t, call{}.run("organization", "create", "default", "--data-dir", dir).code)
	require.True(t, strings.HasPrefix(create(dir).stdout, "assay_sk_"))
	require.Equal(t, exitUsage, create(dir, "--api-key-prefix", "acme").code)

	// A store of an earlier version has keys but no prefix.
	dir = t.TempDir()
	require.Zero(t, call{}.run("organization", "create", "default", "--data-dir", dir).code)
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, storeFile)})
	require.NoError(t, err)
	orgs, err := st.FindOrganizations(t.Context())
	require.NoError(t, err)
	require.NoError(t, st.CreateAPIKey(t.Context(), &assay.APIKey{ID: "abcdef", Name: "old", OrganizationID: orgs[0].ID}, assay.APIKeyLimits{}))
	require.NoError(t, st.Close())
	r = create(dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "start a server first")
	require.Zero(t, create(dir, "--api-key-prefix", "acme").code)
	require.True(t, strings.HasPrefix(create(dir).stdout, "acme_sk_"))
}

func TestKeyCreatedForEmptyStore(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(t, dir)
	cfg.BootstrapAPIKey = ""
	s, log := startServer(t, cfg)
	require.NotEmpty(t, s.createdKey)
	code, body := get(t, client(t), s.restURL()+"/v1/organization", string(s.createdKey))
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"name":"default"`)
	require.NotContains(t, log.String(), string(s.createdKey))
	require.NoError(t, stopServer(s))

	restarted, _ := startServer(t, cfg)
	require.Empty(t, restarted.createdKey)
}

func TestBootstrapAfterInterruptedStart(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	require.Zero(t, call{}.run("organization", "create", "default", "--data-dir", cfg.DataDir).code)
	s, _ := startServer(t, cfg)
	code, _ := get(t, client(t), s.restURL()+"/v1/organization", testKey)
	require.Equal(t, http.StatusOK, code)
}

func TestBootstrapSkipsUsedStore(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	require.Zero(t, call{}.run("organization", "create", "other", "--data-dir", cfg.DataDir).code)
	s, _ := startServer(t, cfg)
	require.Empty(t, s.createdKey)
	code, _ := get(t, client(t), s.restURL()+"/v1/organization", testKey)
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestStartFailsIfAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cfg := testConfig(t, t.TempDir())
	cfg.OTLPHTTPAddress = l.Addr().String()
	s := newServer(cfg, testTelemetry(t, io.Discard))
	require.ErrorContains(t, s.start(t.Context()), "--otlp-http-address: ")
	_, err = os.Stat(cfg.path())
	require.ErrorIs(t, err, os.ErrNotExist, "the store was touched")
}

func TestSeparateMetricsListener(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.MetricsAddress, cfg.BasePath = "127.0.0.1:0", "/"
	s, _ := startServer(t, cfg)
	c := client(t)
	code, body := get(t, c, s.metricsURL(), "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "assay_requests_total 0")
	code, _ = get(t, c, s.rootURL()+"/metrics", "")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = get(t, c, s.rootURL()+"/v1/organization", testKey)
	require.Equal(t, http.StatusOK, code, "the API at the root")
}

func TestMetricsWithAPIAtRoot(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.BasePath = "/"
	s, _ := startServer(t, cfg)
	code, body := get(t, client(t), s.metricsURL(), "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "assay_requests_total 0")
}

// TestTLS replaces the certificate of a server. New connections to every listener get the new one.
func TestTLS(t *testing.T) {
	first, cert, key := selfSigned(t)
	cfg := testConfig(t, t.TempDir())
	cfg.TLSCert, cfg.TLSKey = cert, key
	s, log := startServer(t, cfg)
	require.True(t, strings.HasPrefix(s.restURL(), "https://"))
	works := func(certificate *x509.Certificate) {
		t.Helper()
		pool := x509.NewCertPool()
		pool.AddCert(certificate)
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		defer tr.CloseIdleConnections()
		c := &http.Client{Transport: tr}
		code, _ := get(t, c, s.restURL()+"/v1/organization", testKey)
		require.Equal(t, http.StatusOK, code)
		_, body := get(t, c, s.metricsURL(), "")
		require.Contains(t, body, fmt.Sprintf("\nassay_tls_certificate_expiry_timestamp_seconds %v\n", float64(certificate.NotAfter.Unix())))

		resp, err := c.Post("https://"+s.otlpHTTPAddr()+"/v1/logs", "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)

		conn, err := grpc.NewClient(s.grpcAddr(), grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(pool, "")))
		require.NoError(t, err)
		defer conn.Close()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+testKey)
		_, err = plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequest())
		require.NoError(t, err)
	}
	works(first)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the TLS certificate expires soon") }, assaytest.Limit, 10*time.Millisecond)

	second, newCert, newKey := selfSigned(t)
	require.NoError(t, os.Rename(newCert, cert))
	require.NoError(t, os.Rename(newKey, key))
	s.certificate.Reload(t.Context())
	works(second)
}

func selfSigned(t *testing.T) (certificate *x509.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certificate, certFile, keyFile
}

// TestShutdownFinishesRequests begins a request, stops the server and sends the rest. The request is
// acknowledged, and a restarted server has its telemetry.
func TestShutdownFinishesRequests(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(t, dir)
	s, _ := startServer(t, cfg)
	body, err := logRequest("late", time.Now()).MarshalProto()
	require.NoError(t, err)
	conn, err := net.Dial("tcp", s.otlpHTTPAddr())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n", testKey, len(body))
	_, err = conn.Write(body[:10])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.receiver.Requests() == 1 }, assaytest.Limit, time.Millisecond)

	ended := make(chan error, 1)
	go func() { ended <- stopServer(s) }()
	require.Eventually(t, func() bool { return s.draining.Load() }, assaytest.Limit, time.Millisecond)
	_, err = conn.Write(body[10:])
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 200 "), string(answer))
	require.NoError(t, <-ended)

	restarted, _ := startServer(t, cfg)
	services := getList(t, client(t), restarted.restURL()+"/v1/services")
	require.Equal(t, 1, services.Meta.Total)
	require.Equal(t, "late", services.Data[0].Name)
}

// TestShutdownBesideStalledClient: a client that does not send its request to the end does not make a shutdown fail.
func TestShutdownBesideStalledClient(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	cfg.ShutdownTimeout = 5 * time.Second
	s, _ := startServer(t, cfg)
	conn, err := net.Dial("tcp", s.http.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /api/v1/api-keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", testKey)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1)) // the server reads the body
	require.NoError(t, err)
	require.NoError(t, stopServer(s))
}

func TestKeysAreMasked(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), testKey)
	require.Equal(t, auth.Secret(testKey), cfg.BootstrapAPIKey)
}
