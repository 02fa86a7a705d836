// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names in the data directory, besides the store's files.
const (
	storeFile        = "assay.db"
	metricsDir       = "metrics" // log volume of versions before the store kept it
	bootstrapKeyFile = "bootstrap-key"
	agentDir         = "agent" // clones, and private directories of git
	// credentialKeyFile is the generated secret that encrypts credentials of source hosts.
	credentialKeyFile = "credential-key"
)

// privateUmask removes all permissions of group and others.
const privateUmask = 0o077

// protect removes the permissions of group and others from existing files in the data directory, and sets the umask
// for new ones. It leaves files of other programs alone. If there are such files and they are not private, it also
// leaves the mode of the directory. An error describes what remains accessible; the caller may continue.
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
			continue // its mode is that of its target, which is elsewhere
		}
		if strings.HasPrefix(strings.TrimPrefix(name, "."), storeFile) || strings.HasPrefix(name, bootstrapKeyFile) || strings.HasPrefix(name, credentialKeyFile) || name == agentDir || name == metricsDir || strings.HasPrefix(name, metricsDir+".") {
			errs = append(errs, fs.WalkDir(root.FS(), name, func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				return makePrivate(root, path, e)
			}))
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().Perm()&privateUmask != 0 {
			foreign = true
		}
	}
	if !foreign {
		info, err := root.Stat(".")
		if err == nil {
			err = makePrivate(root, ".", fs.FileInfoToDirEntry(info))
		}
		// The root directory of a mounted volume may belong to another user.
		if !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// makePrivate removes the permissions of group and others from a file or directory.
func makePrivate(root *os.Root, path string, e fs.DirEntry) error {
	info, err := e.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist): // such as the WAL of a store that was closed meanwhile
		return nil
	case err != nil:
		return err
	case info.Mode().Perm()&privateUmask == 0, !info.Mode().IsRegular() && !info.IsDir():
		return nil
	}
	if err := root.Chmod(path, info.Mode().Perm()&^privateUmask); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeBootstrapKey writes a key to a file in the data directory that only its owner can read. It replaces the file of
// an earlier store.
func (c *storeConfig) writeBootstrapKey(key string) error {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return err
	}
	return writePrivate(c.bootstrapKeyPath(), key+"\n", os.Rename)
}

// writePrivate writes a file that only its owner can read, and that others find complete or not at all. place puts it
// at its path: os.Rename replaces a file that exists, os.Link fails then.
func writePrivate(path, text string, place func(from, to string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if removed := os.Remove(f.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return place(f.Name(), path)
}

// bootstrapKeyPath returns the path of the file for a generated key.
func (c *storeConfig) bootstrapKeyPath() string { return filepath.Join(c.DataDir, bootstrapKeyFile) }
