// SPDX-License-Identifier: Apache-2.0

//go:build unix

package review

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGitEnds includes a named pipe in the configuration, to which nothing is written.
func TestGitEnds(t *testing.T) {
	dir := tree(t, map[string]string{"a.go": code("span()")})
	runGit(t, dir, "init", "-q")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	runGit(t, dir, "config", "include.path", pipe)
	g := git{root: dir, timeout: 100 * time.Millisecond}
	var failed gitError
	require.ErrorAs(t, g.filters(t.Context()), &failed)
	require.ErrorContains(t, failed, "git config did not finish within 100ms")
}
