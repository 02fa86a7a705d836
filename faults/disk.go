// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Disk is a directory that can be filled up: a small file system of its own where
// that may be mounted, else one in which a process may write only small files.
type Disk struct {
	Dir     string
	Mounted bool
}

// fileLimit is how long files may be that are written to a disk that is full and is
// no file system of its own.
const fileLimit = 64 << 10

// MountDisk makes a disk of so many bytes below a directory. To mount a file system
// takes a right that root lacks in some containers; the error says so.
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

// Close takes the disk away with all that is on it.
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

// Fill leaves no room on the disk for a process.
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

// Free makes room again.
func (d *Disk) Free(pid int) error {
	if !d.Mounted {
		return limitFiles(pid, unix.RLIM_INFINITY)
	}
	return os.Remove(d.ballast())
}

// limitFiles says how long the files that a process writes may become.
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

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
