// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"assay/internal/engine"
	"assay/internal/receive"
	"assay/internal/trace"
)

// Metrics is a registry of assay's own metrics. It may be used concurrently.
type Metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	received *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics returns a registry with the metrics of the process, of the Go
// runtime, of this build and of the receiver.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_receive_requests_total",
			Help: "OTLP requests by transport, signal and what became of them.",
		}, []string{"transport", "signal", "outcome"}),
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_receive_bytes_total",
			Help: "Bytes of OTLP bodies as they were sent, packed or not.",
		}, []string{"transport", "signal"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_receive_duration_seconds",
			Help:    "Time from an OTLP request's arrival to its answer, the commit included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"transport"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "assay_build_info",
		Help:        "1, labelled with the version that runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, m.requests, m.received, m.duration,
	)
	return m
}

// Observe counts an OTLP request.
func (m *Metrics) Observe(e receive.Event) {
	transport, signal := string(e.Transport), e.Signal.String()
	m.requests.WithLabelValues(transport, signal, string(e.Outcome)).Inc()
	m.received.WithLabelValues(transport, signal).Add(float64(e.Received))
	m.duration.WithLabelValues(transport).Observe(e.Duration.Seconds())
}

// Engine is what is shown of an engine.
type Engine interface {
	Counters() *engine.Counters
	Traces() trace.Stats
}

// Receiver is what is shown of a receiver.
type Receiver interface {
	BytesInFlight() int64
	Requests() int
}

// Watch adds the metrics of an engine and a receiver. It must be called once.
func (m *Metrics) Watch(e Engine, r Receiver) {
	c := e.Counters()
	counter := func(name, help string, labels prometheus.Labels, value func() uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value()) }))
	}
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter("assay_requests_total", "OTLP requests acknowledged.", nil, c.Requests.Load)
	counter("assay_requests_repeated_total", "OTLP requests that had been acknowledged before and count once.", nil, c.Repeated.Load)
	counter("assay_requests_refused_total", "OTLP requests that were malformed or could not be committed.", nil, c.Refused.Load)
	const records = "assay_records_total"
	const recordsHelp = "Spans, metric data points and log records judged."
	counter(records, recordsHelp, prometheus.Labels{"signal": "traces"}, c.Spans.Load)
	counter(records, recordsHelp, prometheus.Labels{"signal": "metrics"}, c.Points.Load)
	counter(records, recordsHelp, prometheus.Labels{"signal": "logs"}, c.Records.Load)
	counter("assay_ingest_bytes_total", "Uncompressed OTLP protobuf bytes judged.", nil, c.Bytes.Load)
	counter("assay_overflow_records_total", "Records past an organization's limits, counted for the overflow service.", nil, c.Overflow.Load)

	gauge("assay_open_traces", "Traces waiting for their last span.", func() float64 { return float64(e.Traces().Traces) })
	gauge("assay_open_trace_spans", "Spans of open traces in memory.", func() float64 { return float64(e.Traces().Spans) })
	gauge("assay_open_trace_bytes", "Memory of open traces.", func() float64 { return float64(e.Traces().Bytes) })
	gauge("assay_trace_sampling_rate", "Share of traces that the trace rules look at; 1 unless memory is short.", func() float64 { return e.Traces().SamplingRate })
	counter("assay_trace_spans_dropped_total", "Spans that the trace rules left out for lack of memory.", nil, func() uint64 { return e.Traces().Dropped })

	gauge("assay_receive_requests_in_flight", "OTLP requests being received.", func() float64 { return float64(r.Requests()) })
	gauge("assay_receive_bytes_in_flight", "Memory of the bodies of OTLP requests.", func() float64 { return float64(r.BytesInFlight()) })
}

// scrapeTimeout bounds one scrape.
const scrapeTimeout = 10 * time.Second

// Handler serves the metrics. Failures go to the log.
func (m *Metrics) Handler(logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry,
		ErrorLog:            slog.NewLogLogger(logger.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}
