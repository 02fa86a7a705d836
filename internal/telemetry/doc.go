// SPDX-License-Identifier: Apache-2.0

// Package telemetry provides assay's own log, traces and metrics. Metrics are recorded with the OpenTelemetry
// API and exported twice, on /metrics and over OTLP. The OTEL_ environment variables configure the OTLP
// export; without them nothing is exported.
//
// Receiving and evaluating OTLP produces metrics and, on failure, log records, but no spans: if assay sends
// telemetry to itself, the telemetry must not produce more telemetry.
//
// Only the programs import this package. They pass loggers, handlers and transports to the other packages,
// which maintain their own counters.
package telemetry
