// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"assay"
)

const (
	maxDepth    = 256  // directories within directories
	entriesRead = 1000 // entries of a directory that are read at a time
)

// walk calls visit for everything below a directory, in no particular order. visit returns fs.SkipDir to skip a
// directory. walk does not follow links, and reads a directory in parts, since it may have any number of entries. It
// skips directories that it may not read or that no longer exist.
func walk(ctx context.Context, root *os.Root, dir string, depth int, visit func(path string, e fs.DirEntry) error) error {
	if depth > maxDepth {
		return assay.Errorf(assay.CodeUnprocessable, "the directories are nested too deeply")
	}
	f, err := root.Open(dir)
	if err != nil {
		return ignoreUnreadable(err)
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(entriesRead)
		for _, e := range entries {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			path := filepath.Join(dir, e.Name())
			err := visit(path, e)
			switch {
			case errors.Is(err, fs.SkipDir):
				continue
			case err == nil && e.IsDir():
				err = walk(ctx, root, path, depth+1, visit)
			}
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ignoreUnreadable returns err, or nil if err is that this process may not read a file or that the file does not exist.
func ignoreUnreadable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Copy copies the directories and regular files below a directory to an empty directory. It skips .git and files that
// this process may not read, and reads nothing outside of the directory. Beyond a limit for files, directories or
// bytes, it returns an error with a code and a message for callers; 0 is no limit. If ctx ends, it returns the cause of
// ctx.
func Copy(ctx context.Context, from, to *os.Root, l Limits) error {
	l.Files, l.Bytes = cmp.Or(l.Files, math.MaxInt), cmp.Or(l.Bytes, math.MaxInt64-1)
	var files, directories int
	var size int64
	return walk(ctx, from, ".", 0, func(path string, e fs.DirEntry) error {
		if e.Name() == ".git" || !e.IsDir() && !e.Type().IsRegular() {
			return fs.SkipDir
		}
		counter := &files
		if e.IsDir() {
			counter = &directories
		}
		if *counter++; *counter > l.Files {
			return assay.Errorf(assay.CodeUnprocessable, "the directory has more than %d files or directories (--agent-max-files)", l.Files)
		}
		if e.IsDir() {
			return to.Mkdir(path, 0o755)
		}
		n, err := copyFile(ctx, from, to, path, l.Bytes-size)
		if size += n; size > l.Bytes {
			return assay.Errorf(assay.CodeUnprocessable, "the files of the directory have more than %d bytes (--agent-max-clone-size)", l.Bytes)
		}
		return err
	})
}

// copyFile copies at most limit+1 bytes of a file and returns their number.
func copyFile(ctx context.Context, from, to *os.Root, path string, limit int64) (int64, error) {
	in, err := from.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe
	if err != nil {
		return 0, ignoreUnreadable(err)
	}
	defer in.Close()
	info, err := in.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("copy %q: not a regular file", path)
	}
	out, err := to.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(&reader{ctx, in}, limit+1))
	return n, errors.Join(err, out.Close())
}

// reader is an io.Reader that fails after its context ends.
type reader struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
