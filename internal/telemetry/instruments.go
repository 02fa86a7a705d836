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

// instruments are all instruments of assay.
var instruments []instrument

func declare(name, prometheus, unit, description string) instrument {
	i := instrument{name, unit, description, prometheus}
	instruments = append(instruments, i)
	return i
}

var (
	receiveRequests        = declare("assay.receive.requests", "assay_receive_requests_total", "{request}", "OTLP requests by transport, signal and outcome.")
	receiveIO              = declare("assay.receive.io", "assay_receive_bytes_total", "By", "Bytes of OTLP bodies as received, compressed or not.")
	receiveDuration        = declare("assay.receive.duration", "assay_receive_duration_seconds", "s", "Time from the arrival of an OTLP request to its response, including the commit.")
	receiveInFlight        = declare("assay.receive.requests_in_flight", "assay_receive_requests_in_flight", "{request}", "OTLP requests in flight.")
	receiveMemory          = declare("assay.receive.memory", "assay_receive_bytes_in_flight", "By", "Memory of OTLP request bodies in flight.")
	receiveConnections     = declare("assay.receive.connections", "assay_receive_connections", "{connection}", "Open OTLP connections.")
	receiveConnectionsShed = declare("assay.receive.connections_shed", "assay_receive_connections_shed_total", "{connection}", "OTLP connections above the limit: open connections that were closed and new ones that were rejected.")

	requests         = declare("assay.requests", "assay_requests_total", "{request}", "OTLP requests acknowledged.")
	requestsRepeated = declare("assay.requests_repeated", "assay_requests_repeated_total", "{request}", "Repeated OTLP requests, which count once.")
	requestsRefused  = declare("assay.requests_refused", "assay_requests_refused_total", "{request}", "OTLP requests that were malformed or could not be committed.")
	records          = declare("assay.records", "assay_records_total", "{record}", "Spans, metric data points and log records evaluated.")
	ingestIO         = declare("assay.ingest.io", "assay_ingest_bytes_total", "By", "Uncompressed OTLP protobuf bytes evaluated.")
	overflowRecords  = declare("assay.overflow_records", "assay_overflow_records_total", "{record}", "Records above an organization's limits, counted for the overflow service.")

	openTraces        = declare("assay.open_traces", "assay_open_traces", "{trace}", "Open traces.")
	openTraceSpans    = declare("assay.open_trace_spans", "assay_open_trace_spans", "{span}", "Spans of open traces in memory.")
	openTraceMemory   = declare("assay.open_trace_memory", "assay_open_trace_bytes", "By", "Memory of open traces.")
	openTraceJournal  = declare("assay.open_trace_journal", "assay_open_trace_journal_bytes", "By", "Size of the trace journal of this process.")
	traceSamplingRate = declare("assay.trace_sampling_rate", "assay_trace_sampling_rate", "1", "Smallest share of traces of an organization that the trace rules evaluate; 1 unless the memory limit is reached.")
	traceSpansDropped = declare("assay.trace_spans_dropped", "assay_trace_spans_dropped_total", "{span}", "Spans dropped by the trace rules at the memory limit.")
	tracesUnevaluated = declare("assay.traces_unevaluated", "assay_traces_unevaluated_total", "{trace}", "Traces dropped because the store repeatedly rejected their verdicts.")

	leases    = declare("assay.leases", "assay_leases", "{lease}", "Leases held by this replica: organizations that it scores, and other work of a single replica.")
	clockSkew = declare("assay.clock.skew", "assay_clock_skew_seconds", "s", "Offset of the store's clock from this machine's clock.")

	agentRequests          = declare("assay.agent.requests", "assay_agent_requests_total", "{request}", "Requests forwarded to the agent backend, by status and outcome.")
	agentDuration          = declare("assay.agent.duration", "assay_agent_duration_seconds", "s", "Duration of forwarded requests.")
	summaryRequests        = declare("assay.summary.requests", "assay_summary_requests_total", "{request}", "Requests for summaries by outcome.")
	summaryCalls           = declare("assay.summary.calls", "assay_summary_calls_total", "{call}", "Calls to the language model by outcome.")
	summaryCallDuration    = declare("assay.summary.call_duration", "assay_summary_call_duration_seconds", "s", "Duration of calls to the language model.")
	webhookDeliveries      = declare("assay.webhook.deliveries", "assay_webhook_deliveries_total", "{attempt}", "Attempts to deliver events to webhooks, and deliveries given up without one, by outcome.")
	webhookAttemptDuration = declare("assay.webhook.attempt_duration", "assay_webhook_attempt_duration_seconds", "s", "Duration of attempts to deliver events to webhooks.")

	ready          = declare("assay.ready", "assay_ready", "1", "Readiness as reported by /readyz: 1 if the server can process requests, otherwise 0.")
	certificateEnd = declare("assay.tls.certificate_expiry_timestamp", "assay_tls_certificate_expiry_timestamp_seconds", "s", "Expiry time of the TLS certificate in use, as Unix time.")

	httpServerDuration = declare("http.server.request.duration", "http_server_request_duration_seconds", "s", "Duration of HTTP server requests.")
	httpServerActive   = declare("http.server.active_requests", "http_server_active_requests", "{request}", "Number of active HTTP server requests.")
	httpClientDuration = declare("http.client.request.duration", "http_client_request_duration_seconds", "s", "Duration of HTTP client requests.")
)

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
