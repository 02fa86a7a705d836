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
