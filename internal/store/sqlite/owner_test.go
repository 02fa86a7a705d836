// SPDX-License-Identifier: Apache-2.0

//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
)

// TestOwner checks that files that root creates belong to the owner of the directory, and
// that root does not restore there. For other users, nothing changes.
func TestOwner(t *testing.T) {
	_, path, _ := filled(t, t.TempDir())
	backup := filepath.Join(t.TempDir(), "backup.db")
	_, err := Backup(t.Context(), BackupConfig{Path: path, To: backup})
	require.NoError(t, err)

	uid := os.Geteuid()
	dir := t.TempDir()
	if uid == 0 {
		uid = 65534
		require.NoError(t, os.Chown(dir, uid, uid))
	}
	made := filepath.Join(dir, "made.db")
	require.NoError(t, open(t, Config{Path: made, Migrate: true}).Close())
	restored := filepath.Join(dir, "restored.db")
	_, err = Restore(t.Context(), RestoreConfig{From: backup, Path: restored})
	if os.Geteuid() == 0 {
		require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
		require.NoFileExists(t, restored)
		restored = made
	} else {
		require.NoError(t, err)
	}
	for _, name := range []string{made, made + lockSuffix, restored, restored + lockSuffix} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.EqualValues(t, uid, info.Sys().(*syscall.Stat_t).Uid, name)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}
