// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Limits of an exported commit.
const (
	maxExportedBytes = 1 << 30
	maxExportedFiles = 100_000
)

// Export writes the files of a commit below a directory of a repository to the new directory to. It changes nothing in
// the repository and executes nothing of it. index is the path of a temporary file.
func Export(ctx context.Context, dir, ref, to, index string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	index, err := filepath.Abs(index)
	if err != nil {
		return err
	}
	g := git{root: dir, env: []string{"GIT_INDEX_FILE=" + index}}
	if err := g.filters(ctx); err != nil {
		return err
	}
	commit, err := g.commit(ctx, ref)
	if err != nil {
		return err
	}
	prefix, err := g.output(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return err
	}
	tree := commit + ":" + strings.TrimSuffix(strings.TrimSuffix(string(prefix), "\n"), "/")
	if err := g.run(ctx, exportable, "ls-tree", "-r", "-l", "-z", "--full-tree", tree); err != nil {
		return err
	}
	if _, err := g.output(ctx, "read-tree", tree); err != nil {
		return err
	}
	repository, err := g.output(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return err
	}
	_, err = g.output(ctx, "--git-dir="+strings.TrimSuffix(string(repository), "\n"), "--work-tree="+to, "checkout-index", "--all", "--quiet")
	return err
}

// exportable reads a list of `git ls-tree -l -z` and returns an error if the files are too many or too large.
func exportable(r io.Reader) error {
	list := bufio.NewReaderSize(r, 64<<10)
	var files, size int64
	for {
		entry, err := list.ReadSlice(0)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return gitError{fmt.Errorf("read the files of a commit: %w", err)}
		}
		// mode, type, object, size and, after a tab, the path
		head, _, _ := strings.Cut(string(entry), "\t")
		if fields := strings.Fields(head); len(fields) == 4 {
			n, _ := strconv.ParseInt(fields[3], 10, 64) // "-" for a submodule
			size += max(n, 0)
		}
		if files++; files > maxExportedFiles || size > maxExportedBytes {
			return gitError{fmt.Errorf("the commit has more than %d files, or more than %d bytes", maxExportedFiles, maxExportedBytes)}
		}
	}
}
