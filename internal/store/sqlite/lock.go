// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"assay"
)

// lockSuffix is the suffix of the lock file's name after the name of the database.
const lockSuffix = ".lock"

// errTaken reports that another process has locked a file.
var errTaken = errors.New("the file is locked")

// lock locks the lock file next to a database. Each process with the database open holds
// the lock shared. Restore, which replaces the database file, needs it exclusively:
// SQLite's own locks are on the file that is replaced, so a process that opened this file
// in between would write to an unlinked file. Closing the returned file releases the
// lock. The file is nil if the file system has no locks.
func lock(path string, alone bool) (*os.File, error) {
	f, err := openOwned(path + lockSuffix)
	if err != nil {
		return nil, assay.Errorf(assay.CodeUnavailable, "sqlite: open the lock file: %w", err)
	}
	err = lockFile(f, alone)
	if err == nil {
		return f, nil
	}
	_ = f.Close() // nothing was written
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, nil
	case errors.Is(err, errTaken) && alone:
		return nil, assay.Errorf(assay.CodeConflict, "sqlite: %s is in use; stop the servers first", path)
	case errors.Is(err, errTaken):
		return nil, assay.Errorf(assay.CodeUnavailable, "sqlite: %s is being replaced by a backup", path)
	default:
		return nil, fmt.Errorf("sqlite: lock %s: %w", f.Name(), err)
	}
}

// openOwned opens a file and creates it if it is missing. The owner of the directory owns
// a new file.
func openOwned(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err == nil {
		if err := giveTo(f, filepath.Dir(path)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	if !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0o600)
}
