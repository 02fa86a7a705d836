// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/source/gittest"
)

// checkoutLocal checks out a directory below a root.
func checkoutLocal(t *testing.T, root, dir string, limits Limits) (*Checkout, error) {
	s := newSources(t, func(c *Config) { c.Roots, c.Limits = []string{root}, limits })
	return s.Checkout(t.Context(), &assay.Installation{Provider: KindLocal}, &assay.Repository{URL: dir}, Want{}, t.TempDir())
}

// TestLocalRepositories: repositories that use files of a repository outside of the root are rejected.
func TestLocalRepositories(t *testing.T) {
	for name, c := range map[string]struct {
		build   func(t *testing.T, dir, meta, secret string)
		refused bool
	}{
		"commondir": {func(t *testing.T, _, meta, secret string) {
			require.NoError(t, os.WriteFile(filepath.Join(meta, "commondir"), []byte(secret+"\n"), 0o644))
		}, true},
		"alternates": {func(t *testing.T, dir, meta, secret string) {
			require.NoError(t, os.WriteFile(filepath.Join(meta, "objects", "info", "alternates"), []byte(filepath.Join(secret, "objects")+"\n"), 0o644))
			gittest.Git(t, dir, "update-ref", "refs/heads/main", gittest.Git(t, filepath.Dir(secret), "rev-parse", "HEAD"))
		}, true},
		"http-alternates": {func(t *testing.T, _, meta, _ string) {
			require.NoError(t, os.WriteFile(filepath.Join(meta, "objects", "info", "http-alternates"), []byte("http://localhost/\n"), 0o644))
		}, true},
		"objects": {func(t *testing.T, dir, meta, secret string) { replace(t, meta, secret, "objects", "refs") }, true},
		"a pack": {func(t *testing.T, dir, meta, secret string) {
			require.NoError(t, os.RemoveAll(filepath.Join(meta, "objects", "pack")))
			require.NoError(t, os.Symlink(filepath.Join(secret, "objects", "pack"), filepath.Join(meta, "objects", "pack")))
		}, true},
		"a reference": {func(t *testing.T, _, meta, secret string) {
			require.NoError(t, os.Symlink(filepath.Join(secret, "refs", "heads", "main"), filepath.Join(meta, "refs", "heads", "linked")))
		}, true},
		"HEAD":            {func(t *testing.T, _, meta, secret string) { replace(t, meta, secret, "HEAD") }, true},
		"a deep link":     {func(t *testing.T, _, meta, _ string) { deep(t, filepath.Join(meta, "refs", "heads"), maxDepth) }, true},
		"hooks elsewhere": {func(t *testing.T, _, meta, secret string) { replace(t, meta, secret, "hooks") }, false},
		"a hook elsewhere": {func(t *testing.T, _, meta, _ string) {
			require.NoError(t, os.Symlink("/bin/true", filepath.Join(meta, "hooks", "post-commit")))
		}, false},
		"a monitor": {func(t *testing.T, _, meta, _ string) { pipe(t, filepath.Join(meta, "fsmonitor--daemon.ipc")) }, false},
		"a work tree elsewhere": {func(t *testing.T, dir, _, _ string) {
			gittest.Git(t, dir, "worktree", "add", "-q", filepath.Join(t.TempDir(), "w"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			dir := newRepository(t, filepath.Join(root, "r"), map[string]string{"f": "mine"})
			secret := newRepository(t, filepath.Join(t.TempDir(), "secret"), map[string]string{"f": "secret"})
			c.build(t, dir, filepath.Join(dir, ".git"), filepath.Join(secret, ".git"))
			got, err := checkoutLocal(t, root, dir, testLimits)
			if c.refused {
				require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), detail(err))
				require.Regexp(t, "elsewhere|nested too deeply", detail(err))
				return
			}
			require.NoError(t, err, detail(err))
			text, err := os.ReadFile(filepath.Join(got.Dir, "f"))
			require.NoError(t, err)
			require.Equal(t, "mine", string(text))
		})
	}
}

// replace replaces entries of a repository by links to the entries of another repository.
func replace(t *testing.T, meta, other string, names ...string) {
	for _, name := range names {
		require.NoError(t, os.RemoveAll(filepath.Join(meta, name)))
		require.NoError(t, os.Symlink(filepath.Join(other, name), filepath.Join(meta, name)))
	}
}

// deep makes nested directories.
func deep(t *testing.T, dir string, depth int) {
	require.NoError(t, os.MkdirAll(dir+strings.Repeat("/d", depth), 0o755))
}

// pipe makes a file that is neither regular nor a directory.
func pipe(t *testing.T, path string) {
	out, err := exec.Command("mkfifo", path).CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestOpenBelow: a directory that becomes a link after its path was resolved is not opened.
func TestOpenBelow(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "a", ".git"), 0o755))
	require.NoError(t, os.Symlink("a", filepath.Join(root, "inside")))
	require.NoError(t, os.Symlink(filepath.Join("a", ".git"), filepath.Join(root, "meta")))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(root, "outside")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o644))
	for path, ok := range map[string]bool{".": true, "a": true, "a/.git": true, "inside": false, "inside/.git": false, "meta": false, "outside": false, "file": false, "none": false} {
		dir, err := openBelow(root, path)
		require.Equal(t, ok, err == nil, "%s: %v", path, err)
		if err == nil {
			require.NoError(t, dir.Close())
		}
	}
}

// TestLocalCopy: the copy of a directory that is not a repository contains its readable directories and regular files.
func TestLocalCopy(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "d")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", ".git"), 0o755))
	for name, text := range map[string]string{"run.sh": "#!/bin/sh\n", "sub/a.go": "package a\n", "sub/.git/config": "token"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(dir, "linked")))
	pipe(t, filepath.Join(dir, "pipe"))
	got, err := checkoutLocal(t, root, dir, testLimits)
	require.NoError(t, err, detail(err))
	var names []string
	require.NoError(t, filepath.WalkDir(got.Dir, func(path string, d fs.DirEntry, err error) error {
		if path != got.Dir {
			names = append(names, strings.TrimPrefix(path, got.Dir+"/"))
		}
		return err
	}))
	require.Equal(t, []string{"run.sh", "sub", "sub/a.go"}, names)
	want, err := os.Stat(filepath.Join(dir, "run.sh")) // 0o755 without the umask
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(got.Dir, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, want.Mode(), info.Mode())
}

// TestLocalLimits: the limits of a clone apply to a directory that is not a repository.
func TestLocalLimits(t *testing.T) {
	for name, c := range map[string]struct {
		build  func(t *testing.T, dir string)
		limits Limits
		want   string // of the error, "" for success
	}{
		"files":       {func(t *testing.T, dir string) { empty(t, dir, 11) }, Limits{Bytes: 100, Files: 10}, "more than 10 files"},
		"no more":     {func(t *testing.T, dir string) { empty(t, dir, 10) }, Limits{Bytes: 100, Files: 10}, ""},
		"directories": {func(t *testing.T, dir string) { deep(t, dir, 11) }, Limits{Bytes: 100, Files: 10}, "more than 10 files or directories"},
		"depth":       {func(t *testing.T, dir string) { deep(t, dir, maxDepth+1) }, Limits{Bytes: 100, Files: 1000}, "nested too deeply"},
		"bytes": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 60), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), make([]byte, 41), 0o644))
		}, Limits{Bytes: 100, Files: 10}, "more than 100 bytes"},
		"a sparse file": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o644))
			require.NoError(t, os.Truncate(filepath.Join(dir, "a"), 1<<40))
		}, Limits{Bytes: 100, Files: 10}, "more than 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			c.build(t, root)
			c.limits.Time = time.Minute
			_, err := checkoutLocal(t, root, root, c.limits)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), detail(err))
			require.Contains(t, detail(err), c.want)
		})
	}
}

// empty makes empty files.
func empty(t *testing.T, dir string, n int) {
	for i := range n {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644))
	}
}

// TestCopyEnds: canceling the context ends a copy in the middle of a file.
func TestCopyEnds(t *testing.T) {
	dirs := [2]string{t.TempDir(), t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(dirs[0], "sparse"), nil, 0o644))
	require.NoError(t, os.Truncate(filepath.Join(dirs[0], "sparse"), 1<<40))
	var roots [2]*os.Root
	for i, dir := range dirs {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		roots[i] = root
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cancelled")
	ended := make(chan error, 1)
	go func() { ended <- Copy(ctx, roots[0], roots[1], Limits{}) }()
	require.Eventually(t, func() bool {
		info, err := os.Stat(filepath.Join(dirs[1], "sparse"))
		return err == nil && info.Size() > 0
	}, time.Minute, time.Millisecond)
	cancel(cause)
	require.ErrorIs(t, <-ended, cause)
}
