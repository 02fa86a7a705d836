// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
)

// diskSize is large enough for the stores of the scenarios.
const diskSize = 256 << 20

// TestSQLiteDiskFull fills the disk of a server under load. The server answers ingest requests with 503 until
// there is space, and then recovers without a restart.
func TestSQLiteDiskFull(t *testing.T) {
	parallel(t)
	t.Run("limited", func(t *testing.T) {
		parallel(t)
		dir := t.TempDir()
		diskFull(t, &Disk{Dir: dir}, FleetConfig{Data: dir})
	})
	t.Run("mounted", func(t *testing.T) {
		parallel(t)
		dir := t.TempDir()
		d, err := MountDisk(dir, diskSize)
		if err != nil {
			t.Logf("skipped: %v; the subtest \"limited\" covers a full disk", err)
			return
		}
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		diskFull(t, d, FleetConfig{Data: d.Dir})
	})
}

func diskFull(t *testing.T, d *Disk, cfg FleetConfig) {
	times := in(1, 5)
	l := loads.get(t, in(8, 60), false)
	var pid int
	fill := func(s *scenario) {
		require.NoError(s, d.Fill(pid))
		s.Fault("disk full", "the disk is full, mounted: %v", d.Mounted)
	}
	free := func(s *scenario) {
		<-time.After(in(500*time.Millisecond, 5*time.Second))
		r, err := s.fleet.reader(0)
		require.NoError(s, err)
		a, err := assaytest.Do(s.ctx, r.Client, http.MethodGet, r.REST+"/v1/services", bootstrapKey, nil)
		require.NoError(s, err)
		require.Contains(s, []int{http.StatusOK, http.StatusServiceUnavailable}, a.Status)
		s.Event("ingest answers 503, REST answers %d; ready: %v", a.Status, s.fleet.Ready(s.ctx, 0))
		ended := time.Now()
		require.NoError(s, d.Free(pid))
		s.ready(0, ended)
	}
	p := plan{load: l.load, every: in(300*time.Millisecond, time.Second), idle: "1s", fleet: cfg}
	if d.Mounted {
		// Fill the disk before the load: SQLite reuses the pages that it has allocated, and would continue
		// for a while.
		p.before = func(s *scenario) {
			pid = s.fleet.Replicas[0].running().PID()
			fill(s)
		}
		p.breaks = func(s *scenario) {
			s.awaitUnavailable(0)
			free(s)
		}
	} else {
		p.breaks = func(s *scenario) {
			pid = s.fleet.Replicas[0].running().PID()
			for i := range times {
				s.after(float64(i+1) / float64(times+2))
				before := s.unavailable()
				fill(s)
				s.awaitUnavailable(before)
				free(s)
			}
		}
	}
	run(t, p, l.reference)
}

// awaitUnavailable waits until at least three more requests than before were answered with 503.
func (s *scenario) awaitUnavailable(before uint64) {
	s.Helper()
	require.NoError(s, assaytest.Await(s.ctx, assaytest.Limit, assaytest.PollInterval, func() error {
		if s.unavailable() < before+3 {
			return errors.New("ingest succeeds with a full disk")
		}
		return nil
	}))
}

// unavailable returns the number of requests that were answered with 503 or gRPC's UNAVAILABLE.
func (s *scenario) unavailable() uint64 {
	causes := s.ledger.Causes()
	return causes["503"] + causes["Unavailable"]
}
