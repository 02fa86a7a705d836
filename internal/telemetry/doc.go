// SPDX-License-Identifier: Apache-2.0

// Package telemetry is what assay tells about itself: its log, its traces and its
// metrics. Metrics are recorded through the OpenTelemetry API alone and come out
// twice, on /metrics and over OTLP. What goes out over OTLP, and where to, is said
// by the OTEL_ variables of the process; without them nothing does.
//
// Receiving OTLP and judging it make metrics and, when they fail, log records,
// never spans: sent to itself, assay's telemetry would otherwise bring forth more of it.
//
// Only the programs use this package; other packages get a logger, handlers and
// transports from them, and count for themselves.
package telemetry
