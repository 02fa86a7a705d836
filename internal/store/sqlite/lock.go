// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"assay"
)

// lockSuffix is what the name of the lock file has more than the database's.
const lockSuffix = ".lock"

// errTaken says that another process has a file locked.
var errTaken = errors.New("the file is locked")

// lock locks the file beside a database that tells whether it is in use: whoever has
// the database open shares the lock, and Restore, which puts another file in its place,
// needs it alone. SQLite's own locks are on the file that is replaced, so whoever opened
// that in between would write to a file that has no name any more. Closing the file ends
// the lock. It is nil where the file system has no locks.
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

// openOwned opens a file, which it makes if need be, as one of whom the directory belongs to.
func openOwned(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err == nil {
		if err := giveTo(path, filepath.Dir(path)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	if !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0o600)
}
