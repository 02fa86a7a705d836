// SPDX-License-Identifier: Apache-2.0

// Package assay defines the domain of assay: organizations, the services that send telemetry, their scores and
// insights, API keys, and the errors between packages. It imports only the standard library. All other packages
// exchange these types.
package assay

import "time"

// Signal is an OpenTelemetry signal, as spelled in the REST API.
type Signal string

// The signals.
const (
	SignalTrace  Signal = "trace"
	SignalMetric Signal = "metric"
	SignalLog    Signal = "log"
)

// Limits of an organization. Telemetry beyond them counts for the overflow service.
const (
	DefaultMaxServices    = 10_000 // services per organization
	DefaultMaxMetricNames = 2_000  // metric names per service
)

// The windows of the Instrumentation Score specification.
const (
	DefaultWindow     = 30 * 24 * time.Hour // scoring window
	DefaultWindowStep = time.Hour           // step in which the window moves
	MetricWindow      = 14 * 24 * time.Hour // window of MET-003 and MET-004
)

// Page selects a page of a list.
type Page struct {
	Limit  int // at least 1
	Offset int // items to skip
}
