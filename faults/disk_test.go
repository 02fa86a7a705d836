// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// diskSize is enough for the stores of the scenarios.
const diskSize = 256 << 20

// TestSQLiteDiskFull fills the disk of a server under load. Ingest is answered with
// 503 meanwhile, and goes on by itself.
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
			t.Logf("not run: %v; the limit of the size of files stands for a full disk", err)
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
		status, _, err := r.ask(s.ctx, bootstrapKey, "/v1/services")
		require.NoError(s, err)
		require.Contains(s, []int{http.StatusOK, http.StatusServiceUnavailable}, status)
		s.Event("ingest is answered with 503, REST with %d; ready: %v", status, s.fleet.Ready(s.ctx, 0))
		ended := time.Now()
		require.NoError(s, d.Free(pid))
		s.ready(0, ended)
	}
	p := plan{load: l.load, every: in(300*time.Millisecond, time.Second), idle: "1s", fleet: cfg}
	if d.Mounted {
		// What SQLite has of the disk it uses again: later it can go on for a while.
		p.before = func(s *scenario) {
			pid = s.fleet.Replicas[0].running().cmd.Process.Pid
			fill(s)
		}
		p.breaks = func(s *scenario) {
			s.awaitUnavailable(0)
			free(s)
		}
	} else {
		p.breaks = func(s *scenario) {
			pid = s.fleet.Replicas[0].running().cmd.Process.Pid
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

// awaitUnavailable waits until some more requests were answered with 503 than before.
func (s *scenario) awaitUnavailable(before uint64) {
	s.Helper()
	require.NoError(s, await(s.ctx, settleLimit, often, func() error {
		if s.unavailable() < before+3 {
			return errors.New("ingest goes on with a full disk")
		}
		return nil
	}))
}

// unavailable returns how many requests were answered with 503, or the like of gRPC.
func (s *scenario) unavailable() uint64 {
	causes := s.ledger.Causes()
	return causes["503"] + causes["Unavailable"]
}
