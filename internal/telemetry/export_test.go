// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"assay/internal/receive"
	"assay/internal/wire"
)

// taken is the telemetry that an OTLP receiver received.
type taken struct {
	mu            sync.Mutex
	authorization []string
	traces        []ptrace.Traces
	metrics       []pmetric.Metrics
	logs          []plog.Logs
}

func (x *taken) take(authorization string, f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.authorization = append(x.authorization, authorization)
	f()
}

// overHTTP returns the URL of a receiver over HTTP.
func (x *taken) overHTTP(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		x.take(r.Header.Get("Authorization"), func() {
			switch r.URL.Path {
			case "/v1/traces":
				q := ptraceotlp.NewExportRequest()
				if q.UnmarshalProto(body) == nil {
					x.traces = append(x.traces, q.Traces())
				}
			case "/v1/metrics":
				q := pmetricotlp.NewExportRequest()
				if q.UnmarshalProto(body) == nil {
					x.metrics = append(x.metrics, q.Metrics())
				}
			case "/v1/logs":
				q := plogotlp.NewExportRequest()
				if q.UnmarshalProto(body) == nil {
					x.logs = append(x.logs, q.Logs())
				}
			}
		})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The receivers over gRPC.
type (
	takenTraces struct {
		*taken
		ptraceotlp.UnimplementedGRPCServer
	}
	takenMetrics struct {
		*taken
		pmetricotlp.UnimplementedGRPCServer
	}
	takenLogs struct {
		*taken
		plogotlp.UnimplementedGRPCServer
	}
)

func authorization(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("authorization"), ", ")
}

func (x *takenTraces) Export(ctx context.Context, q ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	x.take(authorization(ctx), func() { x.traces = append(x.traces, q.Traces()) })
	return ptraceotlp.NewExportResponse(), nil
}

func (x *takenMetrics) Export(ctx context.Context, q pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	x.take(authorization(ctx), func() { x.metrics = append(x.metrics, q.Metrics()) })
	return pmetricotlp.NewExportResponse(), nil
}

func (x *takenLogs) Export(ctx context.Context, q plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	x.take(authorization(ctx), func() { x.logs = append(x.logs, q.Logs()) })
	return plogotlp.NewExportResponse(), nil
}

// overGRPC returns the URL of a receiver over gRPC.
func (x *taken) overGRPC(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(s, &takenTraces{taken: x})
	pmetricotlp.RegisterGRPCServer(s, &takenMetrics{taken: x})
	plogotlp.RegisterGRPCServer(s, &takenLogs{taken: x})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return "http://" + l.Addr().String()
}

// TestExport exports a request, a log record within it and the telemetry of OTLP requests to a receiver, over
// either protocol.
func TestExport(t *testing.T) {
	for protocol, serve := range map[string]func(*taken, *testing.T) string{
		protocolGRPC: (*taken).overGRPC,
		protocolHTTP: (*taken).overHTTP,
	} {
		t.Run(protocol, func(t *testing.T) {
			var got taken
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", serve(&got, t))
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20opaque")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.namespace=shop,deployment.environment.name=staging")
			var log bytes.Buffer
			own := start(t, &log)
			own.Observe(receive.Event{Transport: receive.GRPC, Signal: wire.Traces, Outcome: receive.Accepted, Received: 77})
			own.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				r.Pattern = "GET /x"
				own.Logger().With("a", 1).WithGroup("g").DebugContext(r.Context(), "below the level")
				own.Logger().ErrorContext(r.Context(), "not found: someone@example.com", "error", errors.New("a\xffb"), "n", 3)
			})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
			own.Shutdown(t.Context())

			line := lastLine(t, &log)
			span := got.traces[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
			require.Equal(t, "GET /x", span.Name())
			require.Equal(t, span.TraceID().String(), line["trace_id"])

			require.Len(t, got.logs, 1)
			records := got.logs[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
			require.Equal(t, 1, records.Len())
			record := records.At(0)
			require.Equal(t, "not found: [redacted]", record.Body().AsString())
			require.Equal(t, plog.SeverityNumberError, record.SeverityNumber())
			require.Equal(t, "ERROR", record.SeverityText())
			require.Equal(t, span.TraceID(), record.TraceID())
			require.Equal(t, span.SpanID(), record.SpanID())
			require.NotZero(t, record.Timestamp())
			require.Contains(t, record.Attributes().AsRaw(), "n")

			units := map[string]string{}
			scopes := got.metrics[0].ResourceMetrics().At(0).ScopeMetrics()
			for i := range scopes.Len() {
				for j := range scopes.At(i).Metrics().Len() {
					m := scopes.At(i).Metrics().At(j)
					units[m.Name()] = m.Unit()
					if m.Name() == receiveIO.name {
						p := m.Sum().DataPoints().At(0)
						require.Equal(t, int64(77), p.IntValue())
						require.Equal(t, map[string]any{"transport": "grpc", "signal": "traces"}, p.Attributes().AsRaw())
					}
				}
			}
			require.Equal(t, "By", units["assay.receive.io"])
			require.Equal(t, "s", units["http.server.request.duration"])
			require.Equal(t, "By", units["go.memory.used"])

			require.Equal(t, []string{"Bearer opaque", "Bearer opaque", "Bearer opaque"}, got.authorization)
			for _, r := range []pcommon.Resource{
				got.traces[0].ResourceSpans().At(0).Resource(),
				got.metrics[0].ResourceMetrics().At(0).Resource(),
				got.logs[0].ResourceLogs().At(0).Resource(),
			} {
				a := r.Attributes().AsRaw()
				require.Equal(t, "assay", a["service.name"])
				require.Equal(t, "1.2.3", a["service.version"])
				require.Equal(t, "shop", a["service.namespace"])
				require.Equal(t, "staging", a["deployment.environment.name"])
				require.Regexp(t, `^[0-9a-f-]{36}$`, a["service.instance.id"])
				require.Regexp(t, `^go1\.`, a["process.runtime.version"])
				require.NotContains(t, a, "process.command_args")
			}
		})
	}
}

// TestExported checks the variables that enable the export and select its protocol.
func TestExported(t *testing.T) {
	for name, c := range map[string]struct {
		env      map[string]string
		signal   string // default TRACES
		want     string
		warnings int
	}{
		"nothing said":             {want: ""},
		"endpoint":                 {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, want: protocolHTTP},
		"endpoint of the signal":   {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, want: protocolHTTP},
		"endpoint of another one":  {env: map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://x"}, want: ""},
		"exporter alone":           {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, want: protocolHTTP},
		"exporters":                {env: map[string]string{"OTEL_TRACES_EXPORTER": "console, otlp"}, want: protocolHTTP, warnings: 1},
		"none":                     {env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, want: ""},
		"blank":                    {env: map[string]string{"OTEL_TRACES_EXPORTER": " ", "OTEL_EXPORTER_OTLP_ENDPOINT": ""}, want: ""},
		"unknown exporter":         {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, want: "", warnings: 1},
		"prometheus":               {signal: "METRICS", env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, want: ""},
		"prometheus and otlp":      {signal: "METRICS", env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus,otlp"}, want: protocolHTTP},
		"prometheus for traces":    {env: map[string]string{"OTEL_TRACES_EXPORTER": "prometheus"}, want: "", warnings: 1},
		"disabled":                 {env: map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, want: ""},
		"not disabled":             {env: map[string]string{"OTEL_SDK_DISABLED": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, want: protocolHTTP},
		"gRPC":                     {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, want: protocolGRPC},
		"protocol of the signal":   {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, want: protocolHTTP},
		"JSON":                     {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, want: protocolJSON},
		"JSON where there is none": {signal: "LOGS", env: map[string]string{"OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, want: protocolHTTP, warnings: 1},
		"unknown protocol":         {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "udp"}, want: protocolHTTP, warnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			warnings := 0
			e := &environment{getenv: func(name string) string { return c.env[name] }, warn: func(string, ...any) { warnings++ }}
			if c.signal == "" {
				c.signal = "TRACES"
			}
			known := []string{protocolGRPC, protocolHTTP}
			if c.signal == "TRACES" {
				known = append(known, protocolJSON)
			}
			require.Equal(t, c.want, e.protocol(c.signal, known...))
			require.Equal(t, c.warnings, warnings)
		})
	}
}

// TestNothingIsExportedByDefault sets no variables.
func TestNothingIsExportedByDefault(t *testing.T) {
	own := start(t, io.Discard)
	require.Nil(t, own.tracer)
	require.Len(t, own.shutdowns, 1, "the metrics for /metrics")
	r, err := newResource(t.Context(), "1.2.3")
	require.NoError(t, err)
	require.Contains(t, r.Attributes(), attribute.String("deployment.environment.name", "unspecified"))
}

// TestShutdownTimeout shuts down with a receiver that does not respond.
func TestShutdownTimeout(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{}, 8)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer s.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	own := start(t, io.Discard)
	own.Logger().Info("to be exported")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived // logs or metrics: an exporter that has not begun to shut down when the context ends never does
		<-arrived
		cancel()
	}()
	own.Shutdown(ctx)
	require.Error(t, ctx.Err())
}

// TestBadConfiguration sets a value that an exporter rejects.
func TestBadConfiguration(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", new(taken).overGRPC(t))
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "broken")
	t.Setenv("OTEL_TRACES_SAMPLER", "sometimes")
	var log output
	own, err := Start(t.Context(), Config{Version: "1.2.3", Log: &log, LogFormat: "text", LogLevel: "info"})
	require.NoError(t, err)
	own.Shutdown(t.Context())
	require.Contains(t, log.String(), "parse headers")
	require.Contains(t, log.String(), "invalid OTEL_EXPORTER_OTLP_HEADERS\"")
	require.NotContains(t, log.String(), "hunter2")
	require.Contains(t, log.String(), "describe this process")
	require.Contains(t, log.String(), "sometimes")
}
