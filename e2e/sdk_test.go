// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"assay/internal/assaytest"
)

// TestSDK runs instrumented programs with the OpenTelemetry SDK and its exporters against a server with
// default settings: a well and a badly instrumented program over each transport. Scores and insights must
// appear within 15 s.
func TestSDK(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey)
	for name, exporters := range map[string]func(context.Context, *testing.T, *daemon) (sdktrace.SpanExporter, sdkmetric.Exporter, sdklog.Exporter){
		"grpc": grpcExporters, "http": httpExporters,
	} {
		for kind, attributes := range map[string][]attribute.KeyValue{
			"good":   {attribute.String("service.instance.id", "627cc493-f310-47de-96bd-71410b7dec09"), attribute.String("deployment.environment.name", "test")},
			"faulty": {attribute.String("service.criticality", "urgent")},
		} {
			service := kind + "-" + name
			r, err := resource.New(t.Context(), resource.WithTelemetrySDK(), resource.WithProcessRuntimeName(), resource.WithProcessRuntimeVersion(),
				resource.WithAttributes(append(attributes, attribute.String("service.name", service), attribute.String("service.version", "1.0.0"))...))
			require.NoError(t, err)
			spans, metrics, logs := exporters(t.Context(), t, d)
			p := &instrumented{
				spans:   sdktrace.NewTracerProvider(sdktrace.WithResource(r), sdktrace.WithBatcher(spans)),
				metrics: sdkmetric.NewMeterProvider(sdkmetric.WithResource(r), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics))),
				logs:    sdklog.NewLoggerProvider(sdklog.WithResource(r), sdklog.WithProcessor(sdklog.NewBatchProcessor(logs))),
			}
			if kind == "good" {
				p.serveRequests(t)
			} else {
				p.misbehave(t)
			}
			require.NoError(t, p.end())
		}
	}

	sent := time.Now()
	// Rules on whole traces follow after 30 s without new spans.
	want := []string{"RES-001", "RES-006", "RES-007", "SPA-004", "SPA-006", "MET-002", "MET-005", "MET-006", "LOG-002"}
	slices.Sort(want)
	evaluated := []string{"RES-005", "SPA-003", "SPA-004", "MET-001", "MET-004", "LOG-003", "SDK-001"}
	for _, name := range []string{"grpc", "http"} {
		eventually(t, func() bool {
			good := d.service(t, bootstrapKey, "good-"+name)
			return good != nil && good.Score != nil && !slices.ContainsFunc(evaluated, func(rule string) bool { return !slices.Contains(good.Score.Evaluated, rule) }) &&
				len(d.failedRules(t, bootstrapKey, "faulty-"+name)) >= len(want)
		}, "%s: not all signals are scored", name)
		good := d.service(t, bootstrapKey, "good-"+name)
		require.Equal(t, 100, good.Score.Score, d.failedRules(t, bootstrapKey, "good-"+name))
		require.Equal(t, "Excellent", good.Score.Category)
		require.Equal(t, []any{"test", "1.0.0"}, []any{good.Environment, good.Version})
		failed := d.failedRules(t, bootstrapKey, "faulty-"+name)
		slices.Sort(failed)
		require.Equal(t, want, failed)
		require.Less(t, d.service(t, bootstrapKey, "faulty-"+name).Score.Score, 75)
	}
	t.Logf("complete %v after the programs exited", time.Since(sent).Round(100*time.Millisecond))
}

func grpcExporters(ctx context.Context, t *testing.T, d *daemon) (sdktrace.SpanExporter, sdkmetric.Exporter, sdklog.Exporter) {
	t.Helper()
	headers := map[string]string{"authorization": "Bearer " + bootstrapKey}
	spans, err := otlptrace.New(ctx, otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(d.OTLPGRPC), otlptracegrpc.WithInsecure(), otlptracegrpc.WithHeaders(headers), otlptracegrpc.WithCompressor("gzip")))
	require.NoError(t, err)
	metrics, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(d.OTLPGRPC), otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithHeaders(headers))
	require.NoError(t, err)
	logs, err := otlploggrpc.New(ctx, otlploggrpc.WithEndpoint(d.OTLPGRPC), otlploggrpc.WithInsecure(), otlploggrpc.WithHeaders(headers))
	require.NoError(t, err)
	return spans, metrics, logs
}

func httpExporters(ctx context.Context, t *testing.T, d *daemon) (sdktrace.SpanExporter, sdkmetric.Exporter, sdklog.Exporter) {
	t.Helper()
	endpoint := strings.TrimPrefix(d.OTLPHTTP, "http://")
	headers := map[string]string{"Authorization": "Bearer " + bootstrapKey}
	spans, err := otlptrace.New(ctx, otlptracehttp.NewClient(otlptracehttp.WithEndpoint(endpoint), otlptracehttp.WithInsecure(), otlptracehttp.WithHeaders(headers)))
	require.NoError(t, err)
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(endpoint), otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithHeaders(headers), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	require.NoError(t, err)
	logs, err := otlploghttp.New(ctx, otlploghttp.WithEndpoint(endpoint), otlploghttp.WithInsecure(), otlploghttp.WithHeaders(headers))
	require.NoError(t, err)
	return spans, metrics, logs
}

// instrumented is an instrumented program.
type instrumented struct {
	spans   *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	logs    *sdklog.LoggerProvider
}

// end flushes and shuts down the providers.
func (p *instrumented) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), assaytest.Limit)
	defer cancel()
	return errors.Join(p.spans.Shutdown(ctx), p.metrics.Shutdown(ctx), p.logs.Shutdown(ctx))
}

// serveRequests runs an HTTP server that calls a second one, both with traces, metrics and logs.
func (p *instrumented) serveRequests(t *testing.T) {
	t.Helper()
	tracer := p.spans.Tracer("example.com/shop", trace.WithInstrumentationVersion("1.0.0"))
	meter := p.metrics.Meter("example.com/shop")
	logger := p.logs.Logger("example.com/shop")
	duration, err := meter.Float64Histogram("http.server.request.duration", metric.WithUnit("s"), metric.WithDescription("Duration of HTTP server requests."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.1, 1))
	require.NoError(t, err)
	active, err := meter.Int64UpDownCounter("http.server.active_requests", metric.WithUnit("{request}"))
	require.NoError(t, err)
	_, err = meter.Int64ObservableGauge("process.thread.count", metric.WithUnit("{thread}"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(7); return nil }))
	require.NoError(t, err)

	handler := func(route string, f func(ctx context.Context) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			attributes := metric.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route))
			ctx, span := tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				attribute.String("http.request.method", r.Method), attribute.String("http.route", route), attribute.String("url.path", r.URL.Path)))
			defer span.End()
			active.Add(ctx, 1, attributes)
			defer active.Add(ctx, -1, attributes)
			began := time.Now()
			defer func() { duration.Record(ctx, time.Since(began).Seconds(), attributes) }()
			var record log.Record
			record.SetTimestamp(time.Now())
			record.SetSeverity(log.SeverityInfo)
			record.SetBody(attribute.StringValue("request served"))
			if err := f(ctx); err != nil {
				span.SetStatus(codes.Error, "no stock")
				record.SetSeverity(log.SeverityError)
				w.WriteHeader(http.StatusInternalServerError)
			}
			logger.Emit(ctx, record)
		}
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	call := func(ctx context.Context, path string) error {
		ctx, span := tracer.Start(ctx, "GET", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("http.request.method", "GET")))
		defer span.End()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		if err != nil {
			return err
		}
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
		resp, err := server.Client().Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	mux.HandleFunc("/orders/{id}", handler("/orders/{id}", func(ctx context.Context) error { return call(ctx, "/stock") }))
	mux.HandleFunc("/stock", handler("/stock", func(context.Context) error { return errors.New("empty") }))
	for range 5 {
		resp, err := server.Client().Get(server.URL + "/orders/42")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
}

// misbehave produces telemetry that breaks many rules.
func (p *instrumented) misbehave(t *testing.T) {
	t.Helper()
	ctx, span := p.spans.Tracer("example.com/shop").Start(t.Context(), "GET", trace.WithSpanKind(trace.SpanKindClient))
	span.SetAttributes(attribute.String("customer", "ana.silva@example.com"))
	span.End()
	meter := p.metrics.Meter("example.com/shop")
	noUnit, err := meter.Int64Counter("orders")
	require.NoError(t, err)
	noUnit.Add(ctx, 1)
	inName, err := meter.Float64Histogram("checkout.seconds", metric.WithUnit("s"))
	require.NoError(t, err)
	inName.Record(ctx, 0.1)
	likeAttribute, err := meter.Int64Gauge("http.request.size", metric.WithUnit("By"))
	require.NoError(t, err)
	likeAttribute.Record(ctx, 1)
	var record log.Record
	record.SetTimestamp(time.Now())
	record.SetBody(attribute.StringValue("no severity"))
	p.logs.Logger("example.com/shop").Emit(ctx, record)
}
