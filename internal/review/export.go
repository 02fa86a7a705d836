// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/gittree"
)

// Limits of an exported commit.
const (
	maxExportedBytes = 1 << 30
	maxExportedFiles = 100_000 // files and directories
)

// Export writes the files that a commit has below the directory dir to the new directory to, without conversions. It
// does not change the repository, and executes nothing that the repository configures. scratch is a directory for git's
// own files, which the caller removes.
func Export(ctx context.Context, dir, ref, to, scratch string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	g := git{root: dir}
	commit, err := g.commit(ctx, ref)
	if err != nil {
		return err
	}
	place, err := g.output(ctx, "rev-parse", "--show-object-format", "--show-prefix")
	if err != nil {
		return err
	}
	format, prefix, _ := strings.Cut(string(place), "\n")
	tree := commit + ":" + strings.TrimSuffix(strings.TrimSuffix(prefix, "\n"), "/")
	check := &gittree.Check{Files: maxExportedFiles, Bytes: maxExportedBytes}
	list := func(r io.Reader) error {
		if _, err := io.Copy(check, r); err != nil {
			return gitError{err}
		}
		return nil
	}
	if err := g.run(ctx, list, append(slices.Clip(gittree.List), tree)...); err != nil {
		return err
	}
	// Use a separate repository with the same objects, because its attributes take precedence over those of the commit.
	objects, err := g.output(ctx, "rev-parse", "--git-path", "objects")
	if err != nil {
		return err
	}
	path := strings.TrimSuffix(string(objects), "\n")
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	if scratch, err = filepath.Abs(scratch); err != nil {
		return err
	}
	own := git{root: to, env: []string{"GIT_DIR=" + scratch}}
	if _, err := own.output(ctx, "init", "--quiet", "--template=", "--object-format="+format); err != nil {
		return err
	}
	if err := gittree.WriteAttributes(scratch); err != nil {
		return err
	}
	own.env = append(own.env, "GIT_WORK_TREE=.", "GIT_OBJECT_DIRECTORY="+path)
	if _, err := own.output(ctx, "read-tree", tree); err != nil {
		return err
	}
	_, err = own.output(ctx, "checkout-index", "--all", "--quiet")
	return err
}
