// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Script makes what one simulated service sends, for a driver that has its own idea
// of when and how. It must not be used concurrently.
type Script struct {
	member    *member
	generator *generator
}

// Scripts returns a script for each of the Services, in their order. What they make
// follows from seed, but for the order of attributes.
func Scripts(seed uint64) []*Script {
	all := make([]*Script, len(fleet))
	for i := range fleet {
		all[i] = &Script{&fleet[i], newGenerator(seed + uint64(i))}
	}
	return all
}

// Service returns whose script it is.
func (s *Script) Service() Service { return s.member.Service }

// Past returns what the service has sent before a moment. What it promises to fail
// needs that and one Round.
func (s *Script) Past(now time.Time) Telemetry {
	b := newBatch()
	s.generator.past(s.member, now, b)
	return Telemetry{b.traces, b.metrics, b.logs}
}

// Round returns what the service sends at a moment.
func (s *Script) Round(at time.Time) Telemetry {
	b := newBatch()
	s.member.emit(s.generator, at, b)
	return Telemetry{b.traces, b.metrics, b.logs}
}

// Telemetry is what a service sends together; any part may be empty.
type Telemetry struct {
	Traces  ptrace.Traces
	Metrics pmetric.Metrics
	Logs    plog.Logs
}
