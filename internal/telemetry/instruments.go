// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instrument is one of assay's own metrics: as OpenTelemetry has it, and its name
// on /metrics. That is what Prometheus makes of the former, but where it has bytes
// in the middle: a unit in the name is wrong in OpenTelemetry (MET-005).
type instrument struct {
	name, unit, description string
	prometheus              string
}

var (
	receiveRequests = instrument{
		"assay.receive.requests", "{request}", "OTLP requests by transport, signal and what became of them.",
		"assay_receive_requests_total",
	}
	receiveIO = instrument{
		"assay.receive.io", "By", "Bytes of OTLP bodies as they were sent, packed or not.",
		"assay_receive_bytes_total",
	}
	receiveDuration = instrument{
		"assay.receive.duration", "s", "Time from an OTLP request's arrival to its answer, the commit included.",
		"assay_receive_duration_seconds",
	}
	receiveInFlight = instrument{
		"assay.receive.requests_in_flight", "{request}", "OTLP requests being received.",
		"assay_receive_requests_in_flight",
	}
	receiveMemory = instrument{
		"assay.receive.memory", "By", "Memory of the bodies of OTLP requests.",
		"assay_receive_bytes_in_flight",
	}
	receiveConnections = instrument{
		"assay.receive.connections", "{connection}", "Connections for OTLP that are open.",
		"assay_receive_connections",
	}
	receiveConnectionsShed = instrument{
		"assay.receive.connections_shed", "{connection}", "Connections for OTLP past the limit: open ones closed to make room, and new ones refused.",
		"assay_receive_connections_shed_total",
	}

	requests = instrument{
		"assay.requests", "{request}", "OTLP requests acknowledged.",
		"assay_requests_total",
	}
	requestsRepeated = instrument{
		"assay.requests_repeated", "{request}", "OTLP requests that had been acknowledged before and count once.",
		"assay_requests_repeated_total",
	}
	requestsRefused = instrument{
		"assay.requests_refused", "{request}", "OTLP requests that were malformed or could not be committed.",
		"assay_requests_refused_total",
	}
	records = instrument{
		"assay.records", "{record}", "Spans, metric data points and log records judged.",
		"assay_records_total",
	}
	ingestIO = instrument{
		"assay.ingest.io", "By", "Uncompressed OTLP protobuf bytes judged.",
		"assay_ingest_bytes_total",
	}
	overflowRecords = instrument{
		"assay.overflow_records", "{record}", "Records past an organization's limits, counted for the overflow service.",
		"assay_overflow_records_total",
	}

	openTraces = instrument{
		"assay.open_traces", "{trace}", "Traces waiting for their last span.",
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
		"assay.open_trace_journal", "By", "Size of the journal that open traces are in, for whoever comes after this process.",
		"assay_open_trace_journal_bytes",
	}
	traceSamplingRate = instrument{
		"assay.trace_sampling_rate", "1", "Share of traces that the trace rules evaluate, of the organization of which least are; 1 unless memory is short.",
		"assay_trace_sampling_rate",
	}
	traceSpansDropped = instrument{
		"assay.trace_spans_dropped", "{span}", "Spans that the trace rules left out for lack of memory.",
		"assay_trace_spans_dropped_total",
	}
	tracesUnevaluated = instrument{
		"assay.traces_unevaluated", "{trace}", "Traces dropped because the store refused their verdicts several times.",
		"assay_traces_unevaluated_total",
	}

	leases = instrument{
		"assay.leases", "{lease}", "Leases that this replica holds: organizations that it scores and other work that one replica does.",
		"assay_leases",
	}
	clockSkew = instrument{
		"assay.clock.skew", "s", "How far the store's clock is ahead of this machine's.",
		"assay_clock_skew_seconds",
	}

	agentRequests = instrument{
		"assay.agent.requests", "{request}", "Requests forwarded to the agent backend, by its status and what became of them.",
		"assay_agent_requests_total",
	}
	agentDuration = instrument{
		"assay.agent.duration", "s", "Time that forwarded requests took.",
		"assay_agent_duration_seconds",
	}
	summaryRequests = instrument{
		"assay.summary.requests", "{request}", "Requests for summaries by what became of them.",
		"assay_summary_requests_total",
	}
	summaryCalls = instrument{
		"assay.summary.calls", "{call}", "Calls to the language model by what became of them.",
		"assay_summary_calls_total",
	}
	summaryCallDuration = instrument{
		"assay.summary.call_duration", "s", "Time that calls to the language model took.",
		"assay_summary_call_duration_seconds",
	}

	ready = instrument{
		"assay.ready", "1", "Whether requests can be served, as /readyz says: 1, or 0 when not.",
		"assay_ready",
	}
	certificateEnd = instrument{
		"assay.tls.certificate_expiry_timestamp", "s", "When the TLS certificate that is served ends, as Unix time.",
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

// instruments are all of assay's own.
var instruments = []instrument{
	receiveRequests, receiveIO, receiveDuration, receiveInFlight, receiveMemory, receiveConnections, receiveConnectionsShed,
	requests, requestsRepeated, requestsRefused, records, ingestIO, overflowRecords,
	openTraces, openTraceSpans, openTraceMemory, openTraceJournal, traceSamplingRate, traceSpansDropped, tracesUnevaluated,
	leases, clockSkew,
	agentRequests, agentDuration, summaryRequests, summaryCalls, summaryCallDuration,
	ready, certificateEnd,
	httpServerDuration, httpServerActive, httpClientDuration,
}

// meter makes instruments and keeps the errors of that.
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

// observeCounter makes a counter of what another package counts; labels are by
// turns of key and value.
func (m *meter) observeCounter(i instrument, of ...observed) {
	_, err := m.Int64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description), metric.WithInt64Callback(callback(of)))
	m.err = errors.Join(m.err, err)
}

// observeUpDownCounter makes a sum that can fall of what another package keeps.
func (m *meter) observeUpDownCounter(i instrument, of ...observed) {
	_, err := m.Int64ObservableUpDownCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description), metric.WithInt64Callback(callback(of)))
	m.err = errors.Join(m.err, err)
}

// observeGauge makes a gauge of what another package measures.
func (m *meter) observeGauge(i instrument, value func() float64) {
	_, err := m.Float64ObservableGauge(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.description),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(value())
			return nil
		}))
	m.err = errors.Join(m.err, err)
}

// observed is a value that is read when it is wanted.
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
