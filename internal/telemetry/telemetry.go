// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"assay/internal/fair"
)

// scope is the name of assay's own instrumentation.
const scope = "assay"

// shutdownTimeout is the timeout of Shutdown for the last export.
const shutdownTimeout = 2 * time.Second

// Config configures a Telemetry. All fields except AccessLog are required.
type Config struct {
	Version   string    // of this program
	Log       io.Writer // writer of the log, exported or not
	LogFormat string    // text or json
	LogLevel  string    // debug, info, warn or error; also applies to exported records
	AccessLog bool      // log every request, REST and OTLP, at level info
}

// Telemetry holds a program's own telemetry. It is safe for concurrent use.
type Telemetry struct {
	logger    *slog.Logger
	accessLog bool
	report    *reporter

	registry *prometheus.Registry
	scrapes  *fair.Semaphore // for scrapes of MetricsOf, by organization
	meters   *sdkmetric.MeterProvider
	meter    *meter
	received received
	outgoing outgoing
	http     httpInstruments

	tracer trace.Tracer // nil: no spans

	shutdowns []func(context.Context) error
}

// Start returns a Telemetry that exports according to the OTEL_ variables of the process. It does not connect
// before there is something to export. It returns an error for an invalid configuration. Unknown values of
// variables are logged and ignored, as OpenTelemetry requires.
//
// It becomes the global error handler and logger of the OpenTelemetry SDK.
func Start(ctx context.Context, cfg Config) (_ *Telemetry, err error) {
	local, level, err := newHandler(cfg.Log, cfg.LogFormat, cfg.LogLevel)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{accessLog: cfg.AccessLog, registry: prometheus.NewRegistry(), scrapes: fair.NewSemaphore(maxScrapes, maxScrapes/2), report: newReporter(slog.New(local), time.Now)}
	otel.SetErrorHandler(t.report)
	otel.SetLogger(logr.New(t.report))
	defer func() {
		if err != nil {
			t.Shutdown(ctx)
		}
	}()

	env := &environment{getenv: os.Getenv, warn: t.report.warn}
	resource, err := newResource(ctx, cfg.Version)
	if err != nil {
		t.report.Handle(err) // the resource holds the valid part
	}

	logs, err := env.logExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export logs: %w", err)
	}
	handlers := []slog.Handler{correlated{local}}
	if logs != nil {
		p := sdklog.NewLoggerProvider(sdklog.WithResource(resource), sdklog.WithProcessor(sdklog.NewBatchProcessor(logs)))
		t.shutdowns = append(t.shutdowns, p.Shutdown)
		handlers = append(handlers, leveled{otelslog.NewHandler(scope, otelslog.WithLoggerProvider(p), otelslog.WithVersion(cfg.Version)), level})
	}
	t.logger = slog.New(cleaned{slog.NewMultiHandler(handlers...)})

	spans, err := env.spanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	if spans != nil {
		p := sdktrace.NewTracerProvider(sdktrace.WithResource(resource), sdktrace.WithBatcher(spans))
		t.shutdowns = append(t.shutdowns, p.Shutdown)
		t.tracer = p.Tracer(scope, trace.WithInstrumentationVersion(cfg.Version))
	}

	metrics, err := env.metricExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	scraped := sdkmetric.NewManualReader()
	options := []sdkmetric.Option{sdkmetric.WithResource(resource), sdkmetric.WithReader(scraped)}
	if metrics != nil {
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
	}
	t.meters = sdkmetric.NewMeterProvider(options...)
	t.shutdowns = append(t.shutdowns, t.meters.Shutdown)
	if metrics != nil { // /metrics has client_golang's
		if err := runtime.Start(runtime.WithMeterProvider(t.meters)); err != nil {
			return nil, fmt.Errorf("measure the runtime: %w", err)
		}
	}
	if err := t.startMetrics(cfg.Version, scraped); err != nil {
		return nil, err
	}
	return t, nil
}

// Logger returns the log. Secrets and personal data are removed from its records. Records of a request have
// its trace id and request id.
func (t *Telemetry) Logger() *slog.Logger { return t.logger }

// Shutdown flushes pending telemetry and ends the export. It returns when ctx ends or after 2 s. Only the log
// remains usable.
func (t *Telemetry) Shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, shutdown := range t.shutdowns {
		wg.Go(func() {
			if err := shutdown(ctx); err != nil {
				t.report.Handle(fmt.Errorf("shut down the export: %w", err))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
