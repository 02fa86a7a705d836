// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks a file until it is closed. It does not wait for another holder.
func lockFile(f *os.File, alone bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errTaken
	}
	return err
}

// giveTo does nothing: a file inherits the permissions of its directory.
func giveTo(*os.File, string) error { return nil }

// foreign reports false: only root on Unix opens files that belong to others.
func foreign(string) (bool, error) { return false, nil }
