// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// code is the source code of some services, with the mistakes that their telemetry has.
//
//go:embed all:_repositories
var code embed.FS

// hidden ends the names of Go files in code, which are not part of this program.
const hidden = ".demo"

// WriteRepositories creates a git repository for each service with source code in a directory that does not exist.
// Without git they are plain directories.
func WriteRepositories(ctx context.Context, dir string) error {
	sub, err := fs.Sub(code, "_repositories")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, sub); err != nil {
		return fmt.Errorf("write the repositories: %w", err)
	}
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, hidden); ok && err == nil {
			err = os.Rename(path, name)
		}
		return err
	}); err != nil {
		return fmt.Errorf("rename the files of repositories: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		for _, args := range [][]string{
			{"init", "--quiet", "--initial-branch=main"},
			{"add", "--all"},
			{"-c", "user.name=demo", "-c", "user.email=demo@example.com", "-c", "commit.gpgSign=false", "-c", "maintenance.auto=false", "commit", "--quiet", "--message=" + e.Name()},
		} {
			cmd := exec.CommandContext(ctx, "git", args...)
			cmd.Dir = filepath.Join(dir, e.Name())
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, exec.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("git %s: %w: %s", args[0], err, out)
			}
		}
	}
	return nil
}
