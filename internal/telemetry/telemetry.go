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
)

// scope names assay's own instrumentation.
const scope = "assay"

// shutdownTimeout bounds how long Shutdown waits for whoever takes the telemetry.
const shutdownTimeout = 2 * time.Second

// Config of a Telemetry. All fields but AccessLog are required.
type Config struct {
	Version   string    // of this program
	Log       io.Writer // takes the log, whether it is exported or not
	LogFormat string    // text or json
	LogLevel  string    // debug, info, warn or error; also of what is exported
	AccessLog bool      // log every request, REST and OTLP, at level info
}

// Telemetry is what a program tells about itself. It may be used concurrently.
type Telemetry struct {
	logger    *slog.Logger
	accessLog bool
	report    *reporter

	registry *prometheus.Registry
	scrapes  chan struct{} // one for each scrape of MetricsOf
	meters   *sdkmetric.MeterProvider
	meter    *meter
	received received
	outgoing outgoing
	http     httpInstruments

	tracer trace.Tracer // nil: there are no spans

	shutdowns []func(context.Context) error
}

// Start returns a Telemetry that exports what the OTEL_ variables of the process
// ask for. It connects to nobody before there is something to send. Errors are
// about the configuration; values of variables that mean nothing to it are logged
// and left out of account, as OpenTelemetry demands.
//
// It becomes the error handler and the logger of the OpenTelemetry SDK, which has
// one of each in a process.
func Start(ctx context.Context, cfg Config) (_ *Telemetry, err error) {
	local, level, err := newHandler(cfg.Log, cfg.LogFormat, cfg.LogLevel)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{accessLog: cfg.AccessLog, registry: prometheus.NewRegistry(), scrapes: make(chan struct{}, maxScrapes), report: newReporter(slog.New(local), time.Now)}
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
		t.report.Handle(err) // what could be read is in the resource
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
	if metrics != nil { // /metrics has those of client_golang
		if err := runtime.Start(runtime.WithMeterProvider(t.meters)); err != nil {
			return nil, fmt.Errorf("measure the runtime: %w", err)
		}
	}
	if err := t.startMetrics(cfg.Version, scraped); err != nil {
		return nil, err
	}
	return t, nil
}

// Logger returns the log. What looks like a secret or personal data is taken out
// of its records; those of a request carry its trace id and its request id.
func (t *Telemetry) Logger() *slog.Logger { return t.logger }

// Shutdown sends what has not been sent yet and ends the export. It gives up when
// ctx ends, at the latest after 2 s. Only the log goes on being written.
func (t *Telemetry) Shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, shutdown := range t.shutdowns {
		wg.Go(func() {
			if err := shutdown(ctx); err != nil {
				t.report.Handle(fmt.Errorf("end the export: %w", err))
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
