// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"time"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// Script generates the telemetry of one simulated service for a driver with its own schedule and transport. It is not
// safe for concurrent use.
type Script struct {
	member    *member
	generator *generator
}

// Scripts returns a script for each of the Services, in their order. Their output is determined by seed.
func Scripts(seed uint64) []*Script {
	all := make([]*Script, len(fleet))
	for i := range fleet {
		all[i] = &Script{&fleet[i], newGenerator(seed + uint64(i))}
	}
	return all
}

// Service returns the service of the script.
func (s *Script) Service() Service { return s.member.Service }

// Past returns the telemetry that the service sent before now. Past and one Round together fail the documented rules.
func (s *Script) Past(now time.Time) Telemetry {
	b := newBatch()
	s.generator.past(s.member, now, b)
	return b.Telemetry
}

// Round returns the telemetry that the service sends at a time.
func (s *Script) Round(at time.Time) Telemetry {
	b := newBatch()
	s.member.emit(s.generator, at, b)
	return b.Telemetry
}

// Telemetry is the telemetry that a service sends together. Each part may be empty.
type Telemetry struct {
	Traces  *coltracepb.ExportTraceServiceRequest
	Metrics *colmetricspb.ExportMetricsServiceRequest
	Logs    *collogspb.ExportLogsServiceRequest
}
