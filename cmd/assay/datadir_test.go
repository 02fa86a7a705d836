// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/wire"
)

// modes returns the permissions of a directory and everything below it.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server has removed it
		}
		require.NoError(t, err)
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		found[name] = info.Mode()
		return nil
	}))
	return found
}

// TestDataDirIsClosed checks that no file in a server's directory is accessible to group or others, whatever
// the umask and the previous permissions.
func TestDataDirIsClosed(t *testing.T) {
	old := syscall.Umask(0) // inherited by the server
	t.Cleanup(func() { syscall.Umask(old) })
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o755))
	run := func() {
		d := serveBinary(t, dir)
		key := createdKey(t, dir)
		body, err := logRequest("a", time.Now()).MarshalProto()
		require.NoError(t, err)
		r, err := assaytest.Post(t.Context(), d.Client, d.OTLPHTTP, key, wire.Logs, body)
		require.NoError(t, err)
		require.Equal(t, 200, r.Status)
		running := modes(t, dir)
		require.Contains(t, running, "assay.db-wal")
		requireClosed(t, running)
		require.NoError(t, d.Stop())
		left := modes(t, dir)
		require.Contains(t, left, "assay.db")
		requireClosed(t, left)
	}
	run()
	// Like an earlier installation, with permissions of a common umask.
	for name, mode := range modes(t, dir) {
		open := fs.FileMode(0o644)
		if mode.IsDir() {
			open = 0o755
		}
		require.NoError(t, os.Chmod(filepath.Join(dir, name), open))
	}
	run()
	require.Zero(t, call{}.run("key", "create", "--name", "x", "--data-dir", dir).code)
	require.Zero(t, call{}.run("store", "backup", filepath.Join(dir, "copy.db"), "--data-dir", dir).code)
	requireClosed(t, modes(t, dir))
}

func requireClosed(t *testing.T, found map[string]fs.FileMode) {
	t.Helper()
	for name, mode := range found {
		want := fs.FileMode(0o600)
		if mode.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, mode.Perm(), name)
	}
}

// TestProtectSkipsForeignDirectory checks that the permissions of a directory with other files, such as one named
// by mistake, do not change.
func TestProtectSkipsForeignDirectory(t *testing.T) {
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
	dir, elsewhere := t.TempDir(), t.TempDir()
	make := func(name string, mode fs.FileMode) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, mode))
	}
	make("assay.db", 0o644)
	make(".assay.db.1.partial", 0o644)
	make("metrics/tsdb/wal/0", 0o666)
	make("metrics.imported-20261122T025900Z/lock", 0o666)
	make("metrics-of-others/file", 0o644)
	make("script", 0o755)
	make("sub/file", 0o644)
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "f"), nil, 0o644))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "f"), filepath.Join(dir, "assay.db-wal")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "metrics", "link")))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(elsewhere, 0o755))
	c := storeConfig{DataDir: dir}
	require.NoError(t, c.protect())
	found := modes(t, dir)
	for name, want := range map[string]fs.FileMode{
		".": 0o755, "script": 0o755, "sub": 0o755, "sub/file": 0o644,
		"assay.db": 0o600, ".assay.db.1.partial": 0o600, "metrics": 0o700, "metrics/tsdb": 0o700, "metrics/tsdb/wal/0": 0o600,
		"metrics.imported-20261122T025900Z": 0o700, "metrics.imported-20261122T025900Z/lock": 0o600, "metrics-of-others/file": 0o644,
	} {
		require.Equal(t, want, found[name].Perm(), name)
	}
	require.Equal(t, map[string]fs.FileMode{".": fs.ModeDir | 0o755, "f": 0o644}, modes(t, elsewhere), "links are not followed")

	// Without the other files its permissions are restricted.
	require.NoError(t, os.Chmod(filepath.Join(dir, "script"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "metrics-of-others"), 0o700))
	require.NoError(t, c.protect())
	require.Equal(t, fs.FileMode(0o700), modes(t, dir)["."].Perm())
	require.NoError(t, (&storeConfig{DataDir: filepath.Join(dir, "missing")}).protect())
}

// TestBootstrapKeyOfAnEarlierStore checks that the key file is replaced and not written through a link.
func TestBootstrapKeyOfAnEarlierStore(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("x"), 0o644))
	require.NoError(t, os.Symlink(other, filepath.Join(dir, bootstrapKeyFile)))
	c := storeConfig{DataDir: dir}
	require.NoError(t, c.writeBootstrapKey("the key"))
	require.Equal(t, fs.FileMode(0o600), modes(t, dir)[bootstrapKeyFile])
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "x", string(text))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// TestKeyFileNotWritable checks that the server does not create a key that it cannot write to a file, and
// creates it at the next start.
func TestKeyFileNotWritable(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, bootstrapKeyFile), 0o700))
	r := runBinary(t, "", "serve", "--data-dir", dir, "--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--bootstrap-api-key-file")
	require.NotRegexp(t, printedKey, r.stdout+r.stderr)
	require.NoError(t, os.Remove(filepath.Join(dir, bootstrapKeyFile)))
	d := serveBinary(t, dir)
	code, _ := get(t, client(t), d.REST+"/v1/organization", createdKey(t, dir))
	require.Equal(t, 200, code)
}
