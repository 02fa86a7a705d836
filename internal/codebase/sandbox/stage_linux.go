// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageArgument is the first argument of a child of root that becomes an unprivileged user and executes bubblewrap.
const stageArgument = "agent-stage"

const (
	stageDir = "/tmp"
	nobodyID = 65534
)

// staged returns the path at which runStage makes file i visible.
func staged(i int) string { return filepath.Join(stageDir, strconv.Itoa(i)) }

// runStage makes files visible in stageDir, for an unprivileged user that may be unable to reach their paths. The
// process has its own mount namespace. Then it switches to that user and executes a program.
func runStage(text string, argv []string) error {
	var paths []string
	if err := json.Unmarshal([]byte(text), &paths); err != nil {
		return fmt.Errorf("decode the files: %w", err)
	}
	fds := make([]int, len(paths)) // first, because some may be below stageDir
	for i, path := range paths {
		var err error
		if fds[i], err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", stageDir, "tmpfs", 0, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("mount %s: %w", stageDir, err)
	}
	for i, fd := range fds {
		if err := stageFile(fd, staged(i)); err != nil {
			return fmt.Errorf("mount %s: %w", paths[i], err)
		}
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setgid(nobodyID); err != nil {
		return fmt.Errorf("drop the group: %w", err)
	}
	if err := syscall.Setuid(nobodyID); err != nil {
		return fmt.Errorf("drop the user: %w", err)
	}
	return fmt.Errorf("execute %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

func stageFile(fd int, path string) error {
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	var err error
	if info.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), path, "", unix.MS_BIND|unix.MS_REC, "")
}
