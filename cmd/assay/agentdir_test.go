// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAbandonedClones: clones of a replica that does not start again under its name are removed, and those of replicas
// that run are not.
func TestAbandonedClones(t *testing.T) {
	work := filepath.Join(t.TempDir(), "[work]")
	now := time.Now()
	make := func(name string, age time.Duration) string {
		dir := filepath.Join(work, name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "files"), 0o700))
		require.NoError(t, os.Chtimes(dir, now.Add(-age), now.Add(-age)))
		return dir
	}
	require.NoError(t, removeAbandoned(work, now), "it does not exist")
	kept := []string{make("of-running/runs/run-1", time.Hour), make("of-running/commands/git-1", 0), make("other/runs/run-1", 72*time.Hour)}
	gone := []string{make("of-killed/runs/run-1", 25*time.Hour), make("of-killed/commands/git-1", 25*time.Hour)}
	require.NoError(t, removeAbandoned(work, now.Add(-abandonedAfter)))
	for _, dir := range kept {
		require.DirExists(t, filepath.Join(dir, "files"))
	}
	for _, dir := range gone {
		require.NoDirExists(t, dir)
	}
}
