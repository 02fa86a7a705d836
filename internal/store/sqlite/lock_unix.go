// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file until it is closed, and does not wait for it.
func lockFile(f *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err {
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return errTaken
		default:
			return err
		}
	}
}

// giveTo gives a file that root has made to whom another file belongs, so that the server,
// which seldom is root, can open it. For anybody else it does nothing.
func giveTo(path, like string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}
