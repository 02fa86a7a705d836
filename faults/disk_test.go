// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"assay/internal/assaytest"
)

// Disk is a directory that can be filled up. It is a separate file system where mounting is allowed.
// Elsewhere a full disk is simulated by limiting the size of the files that a process writes.
type Disk struct {
	Dir     string
	Mounted bool
}

// fileLimit is the maximum size of a file in bytes on a full Disk that is not mounted.
const fileLimit = 64 << 10

// MountDisk creates a disk of size bytes below parent. Mounting a file system needs a capability that root
// lacks in some containers: it returns an error there.
func MountDisk(parent string, size int64) (*Disk, error) {
	d := &Disk{Dir: filepath.Join(parent, "disk"), Mounted: true}
	if err := os.Mkdir(d.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", d.Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size="+strconv.FormatInt(size, 10)); err != nil {
		return nil, errors.Join(fmt.Errorf("mount a file system: %w", err), os.Remove(d.Dir))
	}
	return d, nil
}

// Close unmounts the disk and discards its content.
func (d *Disk) Close() error {
	if !d.Mounted {
		return nil
	}
	if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", d.Dir, err)
	}
	return os.Remove(d.Dir)
}

func (d *Disk) ballast() string { return filepath.Join(d.Dir, "ballast") }

// Fill uses up the disk space of a process.
func (d *Disk) Fill(pid int) error {
	if !d.Mounted {
		return limitFiles(pid, fileLimit)
	}
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, zeros{})
	if !errors.Is(err, unix.ENOSPC) {
		return errors.Join(fmt.Errorf("fill %s: %w", d.Dir, err), f.Close())
	}
	return f.Close()
}

// Free releases the disk space that Fill used up.
func (d *Disk) Free(pid int) error {
	if !d.Mounted {
		return limitFiles(pid, unix.RLIM_INFINITY)
	}
	return os.Remove(d.ballast())
}

// limitFiles limits the size of the files that a process writes.
func limitFiles(pid int, size uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &old); err != nil {
		return fmt.Errorf("read the limits of process %d: %w", pid, err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(size, old.Max), Max: old.Max}, nil); err != nil {
		return fmt.Errorf("limit the files of process %d: %w", pid, err)
	}
	return nil
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

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
