// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instrument is one of assay's own metrics: its OpenTelemetry name and its name on /metrics. The latter
// follows the Prometheus conversion, except for names with bytes in the middle: a unit in an OpenTelemetry
// name is wrong (MET-005).
type instrument struct {
	name, unit, description string
	prometheus              string
}

var (
	receiveRequests = instrument{
		"assay.receive.requests", "{request}", "OTLP requests by transport, signal and outcome.",
		"assay_receive_requests_total",
	}
	receiveIO = instrument{
		"assay.receive.io", "By", "Bytes of OTLP bodies as received, compressed or not.",
		"assay_receive_bytes_total",
	}
	receiveDuration = instrument{
		"assay.receive.duration", "s", "Time from the arrival of an OTLP request to its response, including the commit.",
		"assay_receive_duration_seconds",
	}
	receiveInFlight = instrument{
		"assay.receive.requests_in_flight", "{request}", "OTLP requests in flight.",
		"assay_receive_requests_in_flight",
	}
	receiveMemory = instrument{
		"assay.receive.memory", "By", "Memory of OTLP request bodies in flight.",
		"assay_receive_bytes_in_flight",
	}
	receiveConnections = instrument{
		"assay.receive.connections", "{connection}", "Open OTLP connections.",
		"assay_receive_connections",
	}
	receiveConnectionsShed = instrument{
		"assay.receive.connections_shed", "{connection}", "OTLP connections above the limit: open connections that were closed and new ones that were rejected.",
		"assay_receive_connections_shed_total",
	}

	requests = instrument{
		"assay.requests", "{request}", "OTLP requests acknowledged.",
		"assay_requests_total",
	}
	requestsRepeated = instrument{
		"assay.requests_repeated", "{request}", "Repeated OTLP requests, which count once.",
		"assay_requests_repeated_total",
	}
	requestsRefused = instrument{
		"assay.requests_refused", "{request}", "OTLP requests that were malformed or could not be committed.",
		"assay_requests_refused_total",
	}
	records = instrument{
		"assay.records", "{record}", "Spans, metric data points and log records evaluated.",
		"assay_records_total",
	}
	ingestIO = instrument{
		"assay.ingest.io", "By", "Uncompressed OTLP protobuf bytes evaluated.",
		"assay_ingest_bytes_total",
	}
	overflowRecords = instrument{
		"assay.overflow_records", "{record}", "Records above an organization's limits, counted for the overflow service.",
		"assay_overflow_records_total",
	}

	openTraces = instrument{
		"assay.open_traces", "{trace}", "Open traces.",
		"assay_open_traces",
	}
	openTraceSpans = instrument{
		"assay.open_trace_spans", "{span}", "Spans of open traces in memory.",
		"assay_open_trace_spans",
	}
	openTraceMemory = instrument{
		"assay.open_trace_memory", "By", "Memory of open traces.",
		"assay_open_trace_bytes",
	}
	openTraceJournal = instrument{
		"assay.open_trace_journal", "By", "Size of the trace journal of this process.",
		"assay_open_trace_journal_bytes",
	}
	traceSamplingRate = instrument{
		"assay.trace_sampling_rate", "1", "Smallest share of traces of an organization that the trace rules evaluate; 1 unless the memory limit is reached.",
		"assay_trace_sampling_rate",
	}
	traceSpansDropped = instrument{
		"assay.trace_spans_dropped", "{span}", "Spans dropped by the trace rules at the memory limit.",
		"assay_trace_spans_dropped_total",
	}
	tracesUnevaluated = instrument{
		"assay.traces_unevaluated", "{trace}", "Traces dropped because the store repeatedly rejected their verdicts.",
		"assay_traces_unevaluated_total",
	}

	leases = instrument{
		"assay.leases", "{lease}", "Leases held by this replica: organizations that it scores, and other work of a single replica.",
		"assay_leases",
	}
	clockSkew = instrument{
		"assay.clock.skew", "s", "Offset of the store's clock from this machine's clock.",
		"assay_clock_skew_seconds",
	}

	agentRequests = instrument{
		"assay.agent.requests", "{request}", "Requests forwarded to the agent backend, by status and outcome.",
		"assay_agent_requests_total",
	}
	agentDuration = instrument{
		"assay.agent.duration", "s", "Duration of forwarded requests.",
		"assay_agent_duration_seconds",
	}
	summaryRequests = instrument{
		"assay.summary.requests", "{request}", "Requests for summaries by outcome.",
		"assay_summary_requests_total",
	}
	summaryCalls = instrument{
		"assay.summary.calls", "{call}", "Calls to the language model by outcome.",
		"assay_summary_calls_total",
	}
	summaryCallDuration = instrument{
		"assay.summary.call_duration", "s", "Duration of calls to the language model.",
		"assay_summary_call_duration_seconds",
	}
	webhookDeliveries = instrument{
		"assay.webhook.deliveries", "{attempt}", "Attempts to deliver events to webhooks, and deliveries given up without one, by outcome.",
		"assay_webhook_deliveries_total",
	}
	webhookAttemptDuration = instrument{
		"assay.webhook.attempt_duration", "s", "Duration of attempts to deliver events to webhooks.",
		"assay_webhook_attempt_duration_seconds",
	}

	ready = instrument{
		"assay.ready", "1", "Readiness as reported by /readyz: 1 if the server can process requests, otherwise 0.",
		"assay_ready",
	}
	certificateEnd = instrument{
		"assay.tls.certificate_expiry_timestamp", "s", "Expiry time of the TLS certificate in use, as Unix time.",
		"assay_tls_certificate_expiry_timestamp_seconds",
	}

	httpServerDuration = instrument{
		"http.server.request.duration", "s", "Duration of HTTP server requests.",
		"http_server_request_duration_seconds",
	}
	httpServerActive = instrument{
		"http.server.active_requests", "{request}", "Number of active HTTP server requests.",
		"http_server_active_requests",
	}
	httpClientDuration = instrument{
		"http.client.request.duration", "s", "Duration of HTTP client requests.",
		"http_client_request_duration_seconds",
	}
)

// instruments are all instruments of assay.
var instruments = []instrument{
	receiveRequests, receiveIO, receiveDuration, receiveInFlight, receiveMemory, receiveConnections, receiveConnectionsShed,
	requests, requestsRepeated, requestsRefused, records, ingestIO, overflowRecords,
	openTraces, openTraceSpans, openTraceMemory, openTraceJournal, traceSamplingRate, traceSpansDropped, tracesUnevaluated,
	leases, clockSkew,
	agentRequests, agentDuration, summaryRequests, summaryCalls, summaryCallDuration, webhookDeliveries, webhookAttemptDuration,
	ready, certificateEnd,
	httpServerDuration, httpServerActive, httpClientDuration,
}

// meter creates instruments and collects the errors.
type meter struct {
	metric.Meter
	err error
}

func made[T any](m *meter, v T, err error) T {
	m.err = errors.Join(m.err, err)
	return v
}

func (m *meter) counter(i instrument) metric.Int64Counter {
	c, err := m.Int64Counter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description))
	return made(m, c, err)
}

func (m *meter) upDownCounter(i instrument) metric.Int64UpDownCounter {
	c, err := m.Int64UpDownCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description))
	return made(m, c, err)
}

func (m *meter) histogram(i instrument, bounds ...float64) metric.Float64Histogram {
	h, err := m.Float64Histogram(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description), metric.WithExplicitBucketBoundaries(bounds...))
	return made(m, h, err)
}

// observeCounter creates a counter for a count of another package. labels are pairs of key and value.
func (m *meter) observeCounter(i instrument, of ...observed) {
	_, err := m.Int64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description), metric.WithInt64Callback(callback(of)))
	m.err = errors.Join(m.err, err)
}

// observeUpDownCounter creates a sum that can decrease, for a value of another package.
func (m *meter) observeUpDownCounter(i instrument, of ...observed) {
	_, err := m.Int64ObservableUpDownCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description), metric.WithInt64Callback(callback(of)))
	m.err = errors.Join(m.err, err)
}

// observeGauge creates a gauge for a value of another package.
func (m *meter) observeGauge(i instrument, value func() float64) {
	_, err := m.Float64ObservableGauge(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(value())
			return nil
		}))
	m.err = errors.Join(m.err, err)
}

// observed is a value that is read at each collection.
type observed struct {
	value      func() int64
	attributes []attribute.KeyValue
}

func callback(of []observed) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		for _, v := range of {
			o.Observe(v.value(), metric.WithAttributes(v.attributes...))
		}
		return nil
	}
}
