// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
)

// TestSQLiteKilled kills one server repeatedly while traces open and close.
func TestSQLiteKilled(t *testing.T) {
	parallel(t)
	kills := in(3, 20)
	l := loads.get(t, in(8, 120), false)
	run(t, plan{load: l.load, every: in(250*time.Millisecond, time.Second), idle: "1s", breaks: func(s *scenario) {
		for i := range kills {
			s.after(float64(i+1) / float64(kills+1))
			s.kill(0)
		}
	}}, l.reference)
}

// TestSQLiteOpenTraces kills a server while it has received only one half of some traces.
func TestSQLiteOpenTraces(t *testing.T) {
	parallel(t)
	kills := in(2, 10)
	l := loads.get(t, in(8, 60), true)
	run(t, plan{load: l.load, every: in(200*time.Millisecond, time.Second), breaks: func(s *scenario) {
		for i := range kills {
			s.after(float64(i+1) / float64(kills+1))
			s.kill(0)
		}
	}}, l.reference)
}

// TestSQLiteTerminated terminates a server with SIGTERM under load and restarts it.
func TestSQLiteTerminated(t *testing.T) {
	parallel(t)
	times := in(2, 10)
	l := loads.get(t, in(8, 60), true)
	run(t, plan{load: l.load, every: in(200*time.Millisecond, time.Second), breaks: func(s *scenario) {
		for i := range times {
			s.after(float64(i+1) / float64(times+1))
			s.terminate(0)
		}
	}}, l.reference)
}

// TestClientsCutOff breaks the network between clients and a server: during a request, during its response,
// and completely.
func TestClientsCutOff(t *testing.T) {
	parallel(t)
	cuts := in(6, 200)
	l := loads.get(t, in(8, 60), false)
	run(t, plan{load: l.load, every: in(250*time.Millisecond, time.Second), idle: "1s", breaks: func(s *scenario) {
		r := s.fleet.Replicas[0]
		proxies := []*Proxy{r.OTLPHTTP, r.OTLPGRPC}
		s.after(0.1)
		before := s.resources()
		for i := range cuts {
			s.after(float64(i) / float64(cuts+1))
			p := proxies[i/2%2]
			c := Cut{Pass: 40 * i % 400}
			if c.Answer = i%2 == 1; c.Answer {
				c.Pass = 0
			}
			cut := p.CutOnce(c)
			select {
			case <-cut:
				s.Fault("cut", "cut a connection, during the response: %v", c.Answer)
			case <-time.After(assaytest.Limit):
				require.Fail(s, "no request is sent")
			}
		}
		for _, p := range proxies {
			p.Hold()
		}
		s.Fault("hold", "held all traffic")
		<-time.After(in(time.Second, attemptTimeout+time.Second))
		for _, p := range proxies {
			p.Restore()
		}
		s.Event("restored traffic")
		s.after(1)
		s.notGrown(before)
	}}, l.reference)
}
