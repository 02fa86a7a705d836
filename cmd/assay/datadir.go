// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The names in the data directory, beside those that begin with that of the store.
const (
	storeFile        = "assay.db"
	metricsDir       = "metrics"
	bootstrapKeyFile = "bootstrap-key"
)

// closed is what a file or directory must not allow: anything to its group or others.
const closed = 0o077

// protect keeps the data directory to its owner: what the process makes from now on, and
// what is there already. Files in it that are none of assay's are left alone, and so is the
// mode of the directory beside such files, unless they are closed. The caller can go on
// after an error, which says what stays open.
func (c *storeConfig) protect() error {
	maskFiles()
	root, err := os.OpenRoot(c.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	foreign := false
	for _, e := range entries {
		name := e.Name()
		if e.Type()&fs.ModeSymlink != 0 {
			continue // its mode is that of what it leads to, which is elsewhere
		}
		if strings.HasPrefix(strings.TrimPrefix(name, "."), storeFile) || strings.HasPrefix(name, bootstrapKeyFile) || name == metricsDir {
			errs = append(errs, fs.WalkDir(root.FS(), name, func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return shut(root, path, e)
			}))
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().Perm()&closed != 0 {
			foreign = true
		}
	}
	if !foreign {
		info, err := root.Stat(".")
		if err == nil {
			err = shut(root, ".", fs.FileInfoToDirEntry(info))
		}
		// The root of a volume belongs to the system that mounted it.
		if !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// shut takes the rights of group and others from a file or directory.
func shut(root *os.Root, path string, e fs.DirEntry) error {
	info, err := e.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist): // such as the log of a store that was closed
		return nil
	case err != nil:
		return err
	case info.Mode().Perm()&closed == 0, !info.Mode().IsRegular() && !info.IsDir():
		return nil
	}
	if err := root.Chmod(path, info.Mode().Perm()&^closed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeBootstrapKey writes a key to the data directory, in a file that its owner alone
// can read, in place of one of an earlier store.
func (c *storeConfig) writeBootstrapKey(key string) (err error) {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.DataDir, bootstrapKeyFile+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = fmt.Fprintln(f, key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.bootstrapKeyPath())
}

// bootstrapKeyPath is where a key that was made is, once it is.
func (c *storeConfig) bootstrapKeyPath() string { return filepath.Join(c.DataDir, bootstrapKeyFile) }
