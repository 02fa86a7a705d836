// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay"
)

// local is the kind local: directories below the operator's roots.
type local struct {
	roots []string // resolved
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

// allowed returns the resolved path of a directory below a root. The error is the same for a directory that does not
// exist and for one that is elsewhere.
func (l *local) allowed(path string) (string, error) {
	if filepath.IsAbs(path) {
		if resolved, err := resolveDir(path); err == nil {
			for _, root := range l.roots {
				if rel, err := filepath.Rel(root, resolved); err == nil && filepath.IsLocal(rel) && !inGitDir(rel) {
					return resolved, nil
				}
			}
		}
	}
	return "", unprocessable("url", "must be the absolute path of a directory that the server allows (--agent-local-root)")
}

// inGitDir reports whether a path leads into the directory of a repository's metadata, which may have credentials.
func inGitDir(path string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".git")
}

// Connect implements Host. A directory of repositories gives all of them.
func (l *local) Connect(_ context.Context, r *Request) (*Connection, error) {
	if !r.Credential.empty() {
		return nil, unprocessable("token", "is not for local directories")
	}
	dir, err := l.allowed(r.URL)
	if err != nil {
		return nil, err
	}
	if len(dir) > 256 {
		return nil, unprocessable("url", "must have at most 256 bytes")
	}
	c := &Connection{Provider: KindLocal, Account: dir}
	found := []string{dir}
	if !isGit(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, unprocessable("url", "cannot be read by the server")
		}
		var repositories []string
		for _, e := range entries {
			if child := filepath.Join(dir, e.Name()); e.IsDir() && isGit(child) {
				repositories = append(repositories, child)
			}
		}
		if len(repositories) > assay.MaxRepositories {
			return nil, unprocessable("url", fmt.Sprintf("has more than %d repositories", assay.MaxRepositories))
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

// isGit reports whether a directory is the top of a git repository. The repository itself has to be there: a file or
// link .git may lead to one elsewhere.
func isGit(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil && info.IsDir()
}

// Checkout implements Host. It clones a git repository, so that files that are not committed are not reviewed, and the
// directory may change meanwhile. Another directory is read in place.
func (l *local) Checkout(ctx context.Context, r *assay.Repository, c Credential, want Want, dir string) (*Checkout, error) {
	path, err := l.allowed(r.URL) // again: links may have changed since
	if err != nil {
		return nil, err
	}
	if !isGit(path) {
		return &Checkout{Dir: path}, nil
	}
	escaped := (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	if !strings.HasPrefix(escaped, "/") {
		escaped = "/" + escaped
	}
	return l.git.checkout(ctx, &remote{scheme: "file", path: escaped}, c, want, dir)
}
