// SPDX-License-Identifier: Apache-2.0

// Package assay holds the domain of assay: organizations, the services that
// send telemetry, their scores and insights, API keys, and the errors that
// cross package borders. It imports nothing but the standard library; every
// other package speaks to its neighbours in these types.
package assay

import "time"

// Signal is one of the three OpenTelemetry signals, in the spelling that the
// REST API uses for insight types.
type Signal string

// The signals.
const (
	SignalTrace  Signal = "trace"
	SignalMetric Signal = "metric"
	SignalLog    Signal = "log"
)

// Limits of an organization. Past them telemetry counts for the overflow
// service.
const (
	DefaultMaxServices    = 10_000 // services per organization
	DefaultMaxMetricNames = 2_000  // metric names per service
)

// The windows of the Instrumentation Score specification.
const (
	DefaultWindow     = 30 * 24 * time.Hour // what a score looks back on
	DefaultWindowStep = time.Hour           // the window moves in such steps
	MetricWindow      = 14 * 24 * time.Hour // what MET-003 and MET-004 look back on
)

// Page selects a part of a list.
type Page struct {
	Limit  int // at least 1
	Offset int // items to skip
}
