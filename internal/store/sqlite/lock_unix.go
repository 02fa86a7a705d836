// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlite

import (
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
