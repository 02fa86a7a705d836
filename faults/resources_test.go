// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
)

// resourceMetrics are the metrics that must not grow.
var resourceMetrics = []string{"go_goroutines", "process_open_fds"}

// resources returns the values of resourceMetrics for all replicas.
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

// notGrown waits until replicas that were not restarted use about as many resources as before. The slack
// allows for idle connections in pools.
func (s *scenario) notGrown(before []float64) {
	s.Helper()
	const slack = 40
	var now []float64
	s.check(assaytest.Await(s.ctx, assaytest.Limit, slowPollInterval, func() error {
		now = s.resources()
		for i := range now {
			if now[i] > before[i]+slack {
				return fmt.Errorf("%v of each replica were %v, are %v", resourceMetrics, before, now)
			}
		}
		return nil
	}))
	s.Event("%v of each replica were %v, are %v", resourceMetrics, before, now)
}
