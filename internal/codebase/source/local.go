// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay"
	"assay/internal/safetext"
)

// local is the kind local: directories below the roots that the operator allows.
type local struct {
	roots []string // absolute paths without symbolic links
	git   *git
}

func newLocal(roots []string, g *git) (*local, error) {
	l := &local{git: g}
	for _, root := range roots {
		resolved, err := resolveDir(root)
		if err != nil {
			return nil, fmt.Errorf("--agent-local-root: %w", err)
		}
		l.roots = append(l.roots, resolved)
	}
	return l, nil
}

// resolveDir returns the absolute path of a directory without symbolic links.
func resolveDir(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", path)
	}
	return path, err
}

// open returns a directory below a root, and its path without links. The error does not reveal whether a directory that
// is not below a root exists. The caller closes the directory.
func (l *local) open(path string) (*os.Root, string, error) {
	if filepath.IsAbs(path) {
		if resolved, err := resolveDir(path); err == nil {
			for _, root := range l.roots {
				if rel, err := filepath.Rel(root, resolved); err == nil && filepath.IsLocal(rel) && !inGitDir(rel) {
					if dir, err := openBelow(root, rel); err == nil {
						return dir, resolved, nil
					}
				}
			}
		}
	}
	return nil, "", unprocessable("url", "must be the absolute path of a directory that the server allows (--agent-local-root)")
}

// openBelow opens a directory by its path below a root. It fails if an element of the path is a link, even if the
// element is replaced concurrently.
func openBelow(root, path string) (*os.Root, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		info, err := dir.Lstat(name)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", name)
		}
		var next *os.Root
		if err == nil {
			next, err = dir.OpenRoot(name)
		}
		_ = dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
		if now, err := dir.Stat("."); err != nil || !os.SameFile(info, now) {
			_ = dir.Close()
			return nil, fmt.Errorf("%s was replaced", name)
		}
	}
	return dir, nil
}

// inGitDir reports whether a path is in a .git directory, which may contain credentials.
func inGitDir(path string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".git")
}

// Connect implements Host. For a directory that is not a repository, it returns the repositories in it, or else the
// directory itself.
func (l *local) Connect(_ context.Context, r *Request) (*Connection, error) {
	if !r.Credential.empty() {
		return nil, unprocessable("token", "is not for local directories")
	}
	root, dir, err := l.open(r.URL)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if len(dir) > 256 {
		return nil, unprocessable("url", "must have at most 256 bytes")
	}
	c := &Connection{Provider: KindLocal, Account: dir}
	found := []string{dir}
	if !isGit(root, ".") {
		repositories, err := repositoriesIn(root, dir)
		if err != nil {
			return nil, err
		}
		if len(repositories) > 0 {
			found = repositories
		}
	}
	for _, path := range found {
		c.Repositories = append(c.Repositories, &assay.Repository{FullName: filepath.Base(path), URL: path, Access: "granted"})
	}
	return c, nil
}

// repositoriesIn returns the paths of the git repositories that are directly below a directory.
func repositoriesIn(root *os.Root, dir string) (paths []string, err error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, unprocessable("url", "cannot be read by the server")
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(entriesRead)
		for _, e := range entries {
			if e.IsDir() && isGit(root, e.Name()) {
				paths = append(paths, filepath.Join(dir, e.Name()))
			}
		}
		if len(paths) > assay.MaxRepositories {
			return nil, unprocessable("url", fmt.Sprintf("has more than %d repositories", assay.MaxRepositories))
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(paths)
			return paths, nil
		}
		if err != nil {
			return nil, unprocessable("url", "cannot be read by the server")
		}
	}
}

// isGit reports whether a directory is the top of a git repository. A file or link named .git does not count, since it
// may refer to a repository elsewhere.
func isGit(root *os.Root, dir string) bool {
	info, err := root.Lstat(filepath.Join(dir, ".git"))
	return err == nil && info.IsDir()
}

// foreign are the files of a repository that make git read another repository.
var foreign = []string{"commondir", "objects/info/alternates", "objects/info/http-alternates"}

// unread are the directories of a repository that git does not read for a clone. Links are common in hooks.
var unread = []string{"hooks", "modules", "lfs", "annex"}

// selfContained returns an error if the repository in a directory refers git to files outside it.
func selfContained(ctx context.Context, root *os.Root) error {
	meta, err := root.OpenRoot(".git")
	if err != nil {
		return err
	}
	defer meta.Close()
	return walk(ctx, meta, ".", 0, func(path string, e fs.DirEntry) error {
		name := filepath.ToSlash(path)
		switch {
		case slices.Contains(unread, name):
			return fs.SkipDir
		case slices.Contains(foreign, name) || e.Type()&fs.ModeSymlink != 0:
			return assay.Errorf(assay.CodeUnprocessable, "the repository has files elsewhere (.git/%s), which the agent does not read", safetext.Printable(name, ""))
		}
		return nil
	})
}

// Checkout implements Host. It clones a git repository, so that only committed files are reviewed, and copies any other
// directory. The directory may change concurrently.
func (l *local) Checkout(ctx context.Context, r *assay.Repository, c Credential, want Want, dir string) (*Checkout, error) {
	root, path, err := l.open(r.URL) // links may have changed since Connect
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if !isGit(root, ".") {
		return l.copy(ctx, root, filepath.Join(dir, "files"))
	}
	if err := selfContained(ctx, root); err != nil {
		return nil, err
	}
	escaped := (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	if !strings.HasPrefix(escaped, "/") {
		escaped = "/" + escaped
	}
	return l.git.checkout(ctx, &remote{scheme: "file", path: escaped}, c, want, dir)
}

// copy copies a directory that is not a git repository.
func (l *local) copy(ctx context.Context, from *os.Root, files string) (*Checkout, error) {
	if err := os.Mkdir(files, 0o700); err != nil {
		return nil, err
	}
	to, err := os.OpenRoot(files)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	if err := Copy(ctx, from, to, l.git.cfg.Limits); err != nil {
		return nil, fmt.Errorf("copy the directory: %w", err)
	}
	return &Checkout{Dir: files}, nil
}
