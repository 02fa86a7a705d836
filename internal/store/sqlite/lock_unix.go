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

// giveTo changes the owner of a file that root has created to the owner of its directory,
// so that the server, which rarely runs as root, can open it. For other users it does
// nothing.
func giveTo(f *os.File, dir string) error {
	owner, err := ownerOf(dir)
	if err != nil || owner == nil {
		return err
	}
	if err := f.Chown(int(owner.Uid), int(owner.Gid)); !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

// foreign reports whether root runs the program, and another user owns a directory. That
// user could replace files in it by links to files of root.
func foreign(dir string) (bool, error) {
	owner, err := ownerOf(dir)
	return owner != nil && owner.Uid != 0, err
}

// ownerOf returns the owner of a directory if root runs the program.
func ownerOf(dir string) (*syscall.Stat_t, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	return owner, nil
}
