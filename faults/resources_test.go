// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"fmt"

	"github.com/stretchr/testify/require"
)

// resourceMetrics are of what a process must not use ever more of.
var resourceMetrics = []string{"go_goroutines", "process_open_fds"}

// resources reads them, a replica after the other.
func (s *scenario) resources() (values []float64) {
	s.Helper()
	for i := range s.fleet.Replicas {
		for _, name := range resourceMetrics {
			v, err := s.fleet.Metric(s.ctx, i, name)
			require.NoError(s, err)
			values = append(values, v)
		}
	}
	return values
}

// notGrown waits until replicas that were not restarted use about as much as before.
// What differs is connections that are kept for the next request.
func (s *scenario) notGrown(before []float64) {
	s.Helper()
	const slack = 40
	var now []float64
	s.check(await(s.ctx, settleLimit, seldom, func() error {
		now = s.resources()
		for i := range now {
			if now[i] > before[i]+slack {
				return fmt.Errorf("%v of each replica were %v and are %v", resourceMetrics, before, now)
			}
		}
		return nil
	}))
	s.Event("%v of each replica were %v and are %v", resourceMetrics, before, now)
}
