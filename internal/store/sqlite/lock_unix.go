// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file until it is closed. It does not wait for another holder.
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

// giveTo changes the owner of a file that root has created to the owner of another file,
// so that the server, which rarely runs as root, can open it. For other users it does
// nothing.
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
