// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"assay/internal/engine"
	"assay/internal/receive"
	"assay/internal/requestid"
	"assay/internal/trace"
	"assay/internal/wire"
)

// The attributes of assay's own metrics.
const (
	transportKey = attribute.Key("transport")
	signalKey    = attribute.Key("signal")
	outcomeKey   = attribute.Key("outcome")
	kindKey      = attribute.Key("kind")
)

// startMetrics creates the instruments and exposes the metrics of reader on /metrics.
func (t *Telemetry) startMetrics(version string, reader *sdkmetric.ManualReader) error {
	t.meter = &meter{Meter: t.meters.Meter(scope, metric.WithInstrumentationVersion(version))}
	t.received = newReceived(t.meter)
	t.outgoing = newOutgoing(t.meter)
	t.http = newHTTPInstruments(t.meter)
	if t.meter.err != nil {
		return fmt.Errorf("create instruments: %w", t.meter.err)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "assay_build_info",
		Help:        "1, labelled with the version that runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, newCollector(reader),
	} {
		if err := t.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// Register adds metrics to /metrics. They are not exported over OTLP.
func (t *Telemetry) Register(c prometheus.Collector) error {
	if err := t.registry.Register(c); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// received holds the counters of OTLP requests. The options of every combination are created in advance,
// because requests are frequent.
type received struct {
	requests metric.Int64Counter
	bytes    metric.Int64Counter
	duration metric.Float64Histogram
	options  map[event]eventOptions
}

// event is the label set of an OTLP request.
type event struct {
	transport receive.Transport
	signal    wire.Signal
	outcome   receive.Outcome
}

type eventOptions struct {
	requests, bytes []metric.AddOption
	duration        []metric.RecordOption
}

func newReceived(m *meter) received {
	r := received{
		requests: m.counter(receiveRequests),
		bytes:    m.counter(receiveIO),
		duration: m.histogram(receiveDuration, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10),
		options:  make(map[event]eventOptions),
	}
	for _, transport := range []receive.Transport{receive.GRPC, receive.HTTP} {
		for _, signal := range []wire.Signal{wire.Traces, wire.Metrics, wire.Logs} {
			for _, outcome := range receive.Outcomes() {
				byTransport, bySignal, byOutcome := transportKey.String(string(transport)), signalKey.String(signal.String()), outcomeKey.String(string(outcome))
				r.options[event{transport, signal, outcome}] = eventOptions{
					requests: []metric.AddOption{metric.WithAttributes(byTransport, bySignal, byOutcome)},
					bytes:    []metric.AddOption{metric.WithAttributes(byTransport, bySignal)},
					duration: []metric.RecordOption{metric.WithAttributes(byTransport)},
				}
			}
		}
	}
	return r
}

// Observe counts an OTLP request without allocating, and logs it if the access log is on.
func (t *Telemetry) Observe(e receive.Event) {
	o, r := t.received.options[event{e.Transport, e.Signal, e.Outcome}], &t.received
	ctx := context.Background()
	r.requests.Add(ctx, 1, o.requests...)
	r.bytes.Add(ctx, e.Received, o.bytes...)
	r.duration.Record(ctx, e.Duration.Seconds(), o.duration...)
	if t.accessLog {
		t.logger.LogAttrs(requestid.NewContext(ctx, e.RequestID), slog.LevelInfo, "OTLP request",
			slog.String("transport", string(e.Transport)), slog.String("signal", e.Signal.String()),
			slog.String("organization_id", e.OrganizationID), slog.String("outcome", string(e.Outcome)),
			slog.Int64("bytes", e.Received), slog.Duration("duration", e.Duration))
	}
}

// Engine is the source of an engine's metrics.
type Engine interface {
	Counters() *engine.Counters
	Traces() trace.Stats
}

// Receiver is the source of a receiver's metrics.
type Receiver interface {
	BytesInFlight() int64
	Requests() int
	Connections(receive.Transport) (open int, closed, refused uint64)
}

// Watch adds the metrics of an engine and a receiver. It must be called once.
func (t *Telemetry) Watch(e Engine, r Receiver) error {
	c := e.Counters()
	count := func(c *atomic.Uint64, attributes ...attribute.KeyValue) observed {
		return observed{func() int64 { return int64(c.Load()) }, attributes}
	}
	value := func(f func() int) observed {
		return observed{func() int64 { return int64(f()) }, nil}
	}
	m := t.meter
	m.observeCounter(requests, count(&c.Requests))
	m.observeCounter(requestsRepeated, count(&c.Repeated))
	m.observeCounter(requestsRefused, count(&c.Refused))
	m.observeCounter(
		records,
		count(&c.Spans, signalKey.String(wire.Traces.String())),
		count(&c.Points, signalKey.String(wire.Metrics.String())),
		count(&c.Records, signalKey.String(wire.Logs.String())),
	)
	m.observeCounter(ingestIO, count(&c.Bytes))
	m.observeCounter(overflowRecords, count(&c.Overflow))

	m.observeUpDownCounter(openTraces, value(func() int { return e.Traces().Traces }))
	m.observeUpDownCounter(openTraceSpans, value(func() int { return e.Traces().Spans }))
	m.observeUpDownCounter(openTraceMemory, value(func() int { return e.Traces().Bytes }))
	m.observeUpDownCounter(openTraceJournal, value(func() int { return e.Traces().JournalBytes }))
	m.observeGauge(traceSamplingRate, func() float64 { return e.Traces().SamplingRate })
	m.observeCounter(traceSpansDropped, observed{func() int64 { return int64(e.Traces().Dropped) }, nil})
	m.observeCounter(tracesUnevaluated, count(&c.Unevaluated))

	m.observeUpDownCounter(receiveInFlight, value(r.Requests))
	m.observeUpDownCounter(receiveMemory, observed{r.BytesInFlight, nil})
	m.observeConnections(r)
	return m.err
}

// observeConnections creates the metrics of a receiver's connections.
func (m *meter) observeConnections(r Receiver) {
	var open, shed []observed
	for _, t := range []receive.Transport{receive.GRPC, receive.HTTP} {
		transport := transportKey.String(string(t))
		open = append(open, observed{func() int64 {
			n, _, _ := r.Connections(t)
			return int64(n)
		}, []attribute.KeyValue{transport}})
		shed = append(shed, observed{func() int64 {
			_, closed, _ := r.Connections(t)
			return int64(closed)
		}, []attribute.KeyValue{transport, outcomeKey.String("closed")}}, observed{func() int64 {
			_, _, refused := r.Connections(t)
			return int64(refused)
		}, []attribute.KeyValue{transport, outcomeKey.String("refused")}})
	}
	m.observeUpDownCounter(receiveConnections, open...)
	m.observeCounter(receiveConnectionsShed, shed...)
}

// WatchReady adds the readiness metric. isReady is called at each scrape and export, concurrently, and must
// return within a few seconds. WatchReady must be called at most once.
func (t *Telemetry) WatchReady(isReady func() bool) error {
	t.meter.observeGauge(ready, func() float64 {
		if isReady() {
			return 1
		}
		return 0
	})
	return t.meter.err
}

// Certificate is the source of a certificate's metrics.
type Certificate interface {
	NotAfter() time.Time
}

// WatchCertificate adds the metric of a certificate. It must be called at most once.
func (t *Telemetry) WatchCertificate(c Certificate) error {
	t.meter.observeGauge(certificateEnd, func() float64 { return float64(c.NotAfter().Unix()) })
	return t.meter.err
}

// Leases is the source of the metrics of a replica's leases.
type Leases interface {
	Held(prefix string) []string
	Skew() time.Duration
}

// WatchLeases adds the metrics of a replica's leases. kinds are the prefixes of lease names. It must be
// called once.
func (t *Telemetry) WatchLeases(l Leases, kinds ...string) error {
	var of []observed
	for _, kind := range kinds {
		of = append(of, observed{func() int64 { return int64(len(l.Held(kind))) }, []attribute.KeyValue{kindKey.String(strings.TrimSuffix(kind, ":"))}})
	}
	t.meter.observeUpDownCounter(leases, of...)
	t.meter.observeGauge(clockSkew, func() float64 { return l.Skew().Seconds() })
	return t.meter.err
}

// scrapeTimeout is the timeout of a scrape.
const scrapeTimeout = 10 * time.Second

const scrapeTimedOut = "Exceeded the timeout of a scrape.\n"

// maxScrapes limits concurrent scrapes of MetricsHandler and of MetricsOf, separately. One organization has at most half
// of the latter.
const maxScrapes = 4

// MetricsHandler serves the metrics in the formats of Prometheus. OpenMetrics and protobuf include the start
// time of counters.
func (t *Telemetry) MetricsHandler() http.Handler {
	options := t.scrapeOptions()
	options.MaxRequestsInFlight = maxScrapes
	scrape := promhttp.HandlerFor(t.registry, options)
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scrape.ServeHTTP(client{w}, r)
	}), scrapeTimeout, scrapeTimedOut)
}

// MetricsOf serves the same metrics as MetricsHandler without the series of organizations other than id.
// Series without an organization are totals. Scrapes wait while too many are in progress.
func (t *Telemetry) MetricsOf(organizationID string) http.Handler {
	scrape := promhttp.HandlerFor(ofOrganization{t.registry, organizationID}, t.scrapeOptions())
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.scrapes.Acquire(r.Context(), organizationID) != nil {
			return // the scrape has ended
		}
		defer t.scrapes.Release(organizationID)
		scrape.ServeHTTP(client{w}, r)
	}), scrapeTimeout, scrapeTimedOut)
}

// client is the client of a scrape. Once it has gone, promhttp would log an error for each metric.
type client struct{ http.ResponseWriter }

func (c client) Write(b []byte) (int, error) {
	_, _ = c.ResponseWriter.Write(b)
	return len(b), nil
}

func (t *Telemetry) scrapeOptions() promhttp.HandlerOpts {
	return promhttp.HandlerOpts{
		Registry:          t.registry,
		ErrorLog:          slog.NewLogLogger(t.logger.Handler(), slog.LevelError),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,

		EnableOpenMetricsTextCreatedSamples: true,
	}
}

// organizationLabel is the label of per-organization series.
const organizationLabel = "organization_id"

// ofOrganization filters out the series of other organizations.
type ofOrganization struct {
	prometheus.Gatherer
	id string
}

// Gather implements prometheus.Gatherer.
func (g ofOrganization) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		f.Metric = slices.DeleteFunc(f.Metric, func(m *dto.Metric) bool {
			return slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == organizationLabel && l.GetValue() != g.id })
		})
		return len(f.Metric) == 0
	}), err
}
