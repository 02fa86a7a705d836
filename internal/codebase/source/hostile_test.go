// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/source/gittest"
)

func asError(err error, target **assay.Error) bool { return errors.As(err, target) }

// store writes an object without validation and returns its id.
func store(t *testing.T, dir, kind string, content io.Reader) string {
	t.Helper()
	cmd := exec.Command("git", "hash-object", "--literally", "-w", "--stdin", "-t", kind)
	cmd.Dir, cmd.Stdin = dir, content
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// entry is an entry of a tree object.
func entry(t *testing.T, mode, name, id string) string {
	t.Helper()
	var raw [20]byte
	for i := range raw {
		for _, c := range id[2*i : 2*i+2] {
			raw[i] = raw[i]<<4 | byte(strings.IndexRune("0123456789abcdef", c))
		}
	}
	return mode + " " + name + "\x00" + string(raw[:])
}

// commitTree makes a tree the commit of the branch main.
func commitTree(t *testing.T, dir, tree string) {
	t.Helper()
	commit := store(t, dir, "commit", strings.NewReader("tree "+tree+"\nauthor a <a@example.com> 1 +0000\ncommitter a <a@example.com> 1 +0000\n\nx\n"))
	gittest.Git(t, dir, "update-ref", "refs/heads/main", commit)
}

// TestHostileRepositories: checkouts of repositories that try to escape or to exhaust the machine fail or have no
// effect.
func TestHostileRepositories(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside") // the subtests end before it
	blob := func(dir, text string) string { return store(t, dir, "blob", strings.NewReader(text)) }
	for name, c := range map[string]struct {
		build func(t *testing.T, dir string)
		want  string // of the error, "" for success
	}{
		"links": {func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "etc")))
			require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
			require.NoError(t, os.Symlink("../../../../outside", filepath.Join(dir, "up")))
			gittest.Commit(t, dir, nil)
		}, ""},
		"hooks and filters": {func(t *testing.T, dir string) {
			run := "touch " + outside
			gittest.Commit(t, dir, map[string]string{
				".gitattributes": "* filter=evil diff=evil merge=evil\n*.x ident\n",
				".gitconfig":     "[filter \"evil\"]\n\tsmudge = " + run + "\n",
				"hooks/x":        "y",
			})
			gittest.Git(t, dir, "config", "filter.evil.smudge", run)
			gittest.Git(t, dir, "config", "core.fsmonitor", run)
			gittest.Git(t, dir, "config", "uploadpack.packObjectsHook", run)
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "hooks", "post-checkout"), []byte("#!/bin/sh\n"+run+"\n"), 0o755))
		}, ""},
		"a submodule that runs a command": {func(t *testing.T, dir string) {
			gittest.Commit(t, dir, map[string]string{".gitmodules": "[submodule \"s\"]\n\tpath = s\n\turl = -x\n\tupdate = !touch " + outside + "\n"})
		}, "rejects"},
		"a submodule": {func(t *testing.T, dir string) {
			id := blob(dir, "x")
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", "f", id)+entry(t, "160000", "s", strings.Repeat("1", 40))))
			commitTree(t, dir, tree)
		}, ""},
		"case and odd names": {func(t *testing.T, dir string) {
			gittest.Commit(t, dir, map[string]string{"A": "1", "a": "2", "\xff\xfe": "3", "a\nb": "4", strings.Repeat("l", 250): "5", "-": "6", "con": "7"})
		}, ""},
		".git in a tree": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", ".git", blob(dir, "gitdir: /etc"))))
			commitTree(t, dir, tree)
		}, "rejects"},
		".GIT in a tree": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", ".GIT", blob(dir, "x"))))
			commitTree(t, dir, tree)
		}, "rejects"},
		"a path that goes up": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", "../../up", blob(dir, "x"))))
			commitTree(t, dir, tree)
		}, "rejects"},
		"a directory that goes up": {func(t *testing.T, dir string) {
			inner := store(t, dir, "tree", strings.NewReader(entry(t, "100644", "up", blob(dir, "x"))))
			commitTree(t, dir, store(t, dir, "tree", strings.NewReader(entry(t, "40000", "..", inner))))
		}, "rejects"},
		"a name that is too long": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", strings.Repeat("l", 300), blob(dir, "x"))))
			commitTree(t, dir, tree)
		}, "too long"},
		"a path without end": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", "f", blob(dir, "x"))))
			for range 60 {
				tree = store(t, dir, "tree", strings.NewReader(entry(t, "40000", strings.Repeat("d", 200), tree)))
			}
			commitTree(t, dir, tree)
		}, "too long"},
		"a bomb of trees": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", "f", blob(dir, "x"))))
			for range 10 {
				var b strings.Builder
				for _, d := range "0123456789" {
					b.WriteString(entry(t, "40000", string(d), tree))
				}
				tree = store(t, dir, "tree", strings.NewReader(b.String()))
			}
			commitTree(t, dir, tree)
		}, "more than 1000 directories"},
		"a bomb of empty trees": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(""))
			for range 6 {
				var b strings.Builder
				for _, d := range "0123456789" {
					b.WriteString(entry(t, "40000", string(d), tree))
				}
				tree = store(t, dir, "tree", strings.NewReader(b.String()))
			}
			commitTree(t, dir, store(t, dir, "tree", strings.NewReader(entry(t, "100644", "f", blob(dir, "x"))+entry(t, "40000", "z", tree))))
		}, "more than 1000 directories"},
		"many files": {func(t *testing.T, dir string) {
			id := blob(dir, "x")
			var b strings.Builder
			for n := range 1001 {
				b.WriteString(entry(t, "100644", fmt.Sprintf("%04d", n), id))
			}
			commitTree(t, dir, store(t, dir, "tree", strings.NewReader(b.String())))
		}, "more than 1000 files"},
		"a bomb of paths": {func(t *testing.T, dir string) {
			tree := store(t, dir, "tree", strings.NewReader(entry(t, "100644", "f", blob(dir, "x"))))
			for range 20 {
				tree = store(t, dir, "tree", strings.NewReader(entry(t, "40000", "d", tree)))
			}
			var b strings.Builder
			for n := range 100 {
				b.WriteString(entry(t, "40000", fmt.Sprintf("%02d", n), tree))
			}
			commitTree(t, dir, store(t, dir, "tree", strings.NewReader(b.String())))
		}, "more than 1000 directories"},
		"a bomb of zeros": {func(t *testing.T, dir string) {
			id := store(t, dir, "blob", io.LimitReader(zeros{}, 64<<20))
			commitTree(t, dir, store(t, dir, "tree", strings.NewReader(entry(t, "100644", "zeros", id))))
		}, "more than 8388608 bytes"},
		"a large pack": {func(t *testing.T, dir string) {
			noise := make([]byte, 12<<20)
			x := uint32(1)
			for i := range noise {
				x ^= x << 13
				x ^= x >> 17
				x ^= x << 5
				noise[i] = byte(x)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644))
			gittest.Commit(t, dir, nil)
		}, "larger than the limit"},
		"no commit": {func(t *testing.T, dir string) { gittest.Git(t, dir, "update-ref", "-d", "refs/heads/main") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			dir := newRepository(t, filepath.Join(root, "r"), map[string]string{"f": "x"})
			c.build(t, dir)
			s := newSources(t, func(cfg *Config) { cfg.Roots = []string{root} })
			to := t.TempDir()
			got, err := s.Checkout(t.Context(), &assay.Installation{Provider: KindLocal}, &assay.Repository{URL: dir}, Want{}, to)
			if name == "no commit" {
				require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), detail(err))
				return
			}
			if c.want != "" {
				require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err), detail(err))
				require.Contains(t, detail(err), c.want, "%v", err)
			} else {
				require.NoError(t, err, detail(err))
				require.NoError(t, filepath.WalkDir(got.Dir, func(path string, d fs.DirEntry, err error) error {
					require.Zero(t, d.Type()&^fs.ModeDir, path)
					return err
				}))
			}
			require.NoFileExists(t, outside)
			for _, entry := range []string{"up", ".git"} {
				require.NoFileExists(t, filepath.Join(to, entry))
			}
		})
	}
}

// TestStoredFiles: attributes of a repository do not make files larger than their objects.
func TestStoredFiles(t *testing.T) {
	root := t.TempDir()
	text := strings.Repeat("$Id$\n", 100)
	dir := newRepository(t, filepath.Join(root, "r"), nil)
	blob := func(text string) string { return store(t, dir, "blob", strings.NewReader(text)) }
	commitTree(t, dir, store(t, dir, "tree", strings.NewReader(
		entry(t, "100644", ".gitattributes", blob("[attr]bomb text eol=crlf ident working-tree-encoding=UTF-32LE\nplain bomb\n"))+entry(t, "100644", "plain", blob(text)))))
	s := newSources(t, func(cfg *Config) { cfg.Roots = []string{root} })
	got, err := s.Checkout(t.Context(), &assay.Installation{Provider: KindLocal}, &assay.Repository{URL: dir}, Want{}, t.TempDir())
	require.NoError(t, err, detail(err))
	written, err := os.ReadFile(filepath.Join(got.Dir, "plain"))
	require.NoError(t, err)
	require.Equal(t, text, string(written))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestLocal(t *testing.T) {
	root := t.TempDir()
	one := newRepository(t, filepath.Join(root, "many", "one"), map[string]string{"f": "x"})
	newRepository(t, filepath.Join(root, "many", "two"), map[string]string{"f": "x"})
	plain := filepath.Join(root, "plain")
	require.NoError(t, os.MkdirAll(plain, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(plain, "f"), []byte("x"), 0o644))
	secret := newRepository(t, filepath.Join(t.TempDir(), "secret"), map[string]string{"f": "x"})
	require.NoError(t, os.Symlink(secret, filepath.Join(root, "link")))
	worktree := filepath.Join(root, "worktree")
	require.NoError(t, os.MkdirAll(worktree, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(worktree, ".git"), []byte("gitdir: "+filepath.Join(secret, ".git")+"\n"), 0o644))

	s := newSources(t, func(c *Config) { c.Roots = []string{root} })
	names := func(path string) (all []string) {
		c, err := s.Connect(t.Context(), &Request{Kind: KindLocal, URL: path})
		require.NoError(t, err, detail(err))
		require.Equal(t, path, c.Account)
		for _, r := range c.Repositories {
			all = append(all, r.FullName)
		}
		return all
	}
	require.Equal(t, []string{"one", "two"}, names(filepath.Join(root, "many")))
	require.Equal(t, []string{"one"}, names(one))
	require.Equal(t, []string{"plain"}, names(plain))
	require.Equal(t, []string{"worktree"}, names(worktree))

	for _, path := range []string{"", ".", "plain", secret, filepath.Join(root, "link"), filepath.Join(root, "..") + "/", root + "x", filepath.Join(root, "none"), "/", filepath.Join(plain, "f"), filepath.Join(one, ".git"), filepath.Join(one, ".git", "refs")} {
		_, err := s.Connect(t.Context(), &Request{Kind: KindLocal, URL: path})
		require.Contains(t, detail(err), "url must be", path)
		_, err = s.Checkout(t.Context(), &assay.Installation{Provider: KindLocal}, &assay.Repository{URL: path}, Want{}, t.TempDir())
		require.Contains(t, detail(err), "url must be", path)
	}
	for _, path := range []string{plain, worktree} {
		to := t.TempDir()
		got, err := s.Checkout(t.Context(), &assay.Installation{Provider: KindLocal}, &assay.Repository{URL: path}, Want{}, to)
		require.NoError(t, err)
		require.Equal(t, &Checkout{Dir: filepath.Join(to, "files")}, got)
		require.NoFileExists(t, filepath.Join(got.Dir, ".git"))
	}
	_, err := New(Config{Roots: []string{filepath.Join(root, "none")}})
	require.ErrorContains(t, err, "--agent-local-root")
}

// TestConnectLimit: organizations with hosts that do not answer do not block other organizations.
func TestConnectLimit(t *testing.T) {
	for _, c := range []struct {
		slow, each int // organizations, and their connections under test
		by         string
		wait       time.Duration
		refused    bool
	}{
		{1, maxOwnConnects, "slow-0", connectTimeout, false},
		{1, maxOwnConnects, "other", 0, false},
		{4, 1, "other", 0, false},
		{4, 1, "slow-0", 0, false},
		{4, maxOwnConnects, "other", 0, false},
		{maxConnects - 1, 1, "other", 0, false},
		{maxConnects, 1, "other", connectTimeout, false},
		{maxConnects / maxOwnConnects, maxOwnConnects, "other", connectTimeout, false},
		{maxConnects / maxOwnConnects, 2 * maxOwnConnects, "other", connectTimeout, false},
		{1, 2 * maxOwnConnects, "slow-0", connectWait, true},
		{2 * maxConnects, 1, "other", connectWait, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSources(t, func(c *Config) {
				c.Forges = map[string]ForgeConfig{KindGitea: {URL: "https://192.0.2.1", ClientID: "client"}}
			})
			begin := time.Now()
			ctx, end := context.WithCancel(t.Context())
			slow := func(ctx context.Context) (*Connection, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			var all sync.WaitGroup
			for n := range c.slow {
				for range c.each {
					all.Go(func() { _, _ = s.try(ctx, "slow-"+strconv.Itoa(n), context.DeadlineExceeded, slow) })
				}
			}
			synctest.Wait()
			taken := errors.New("taken")
			_, err := s.Authorize(t.Context(), KindGitea, Grant{Organization: c.by, Take: func(context.Context) error { return taken }}, "")
			require.Equal(t, c.wait, time.Since(begin), "%+v", c)
			if !c.refused {
				require.ErrorIs(t, err, taken, "%+v", c)
			} else {
				require.Equal(t, assay.CodeRateLimited, assay.ErrorCode(err), "%+v: %v", c, err)
				// The organization that waits is next.
				all.Go(func() {
					_, err = s.try(t.Context(), c.by, nil, func(context.Context) (*Connection, error) { return nil, taken })
				})
				synctest.Wait()
				end()
				all.Wait()
				require.Equal(t, taken, err, "%+v", c)
			}
			end()
			all.Wait()
		})
	}
}
