// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/stretchr/testify/require"
)

// TestRestore restores patches from their diffs.
func TestRestore(t *testing.T) {
	long := strings.Repeat("line\n", 30)
	for name, c := range map[string]struct{ before, after string }{
		"line":               {"a\nb\nc\n", "a\nx\nc\n"},
		"two hunks":          {"a\n" + long + "b\n", "x\n" + long + "y\nz\n"},
		"only line":          {"a\n", "b\n"},
		"no newline":         {"a\nb", "a\nc"},
		"newline added":      {"a\nb", "a\nb\n"},
		"newline removed":    {"a\nb\n", "a\nb"},
		"empty":              {"", "a\nb\n"},
		"emptied":            {"a\nb\n", ""},
		"lines like headers": {"-- x\n++ y\n@@ -1 +1 @@\n\\ z\n", "-- y\n++ x\n@@ -2 +1 @@\n\\ w\n"},
		"CRLF":               {"a\r\nb\r\n", "a\r\nc\r\n"},
		"appended":           {long, long + "end\n"},
		"prepended":          {long, "begin\n" + long},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			want := &Patch{}
			for _, path := range []string{"a \"quoted\\ä.txt", "b.txt"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(c.before), 0o600))
				want.Files = append(want.Files, File{Path: path, Before: []byte(c.before), After: []byte(c.after), Edits: udiff.Lines(c.before, c.after)})
			}
			want.Files = append(want.Files, Create("dir/c.txt", []byte("x\n"+c.after)))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			var diff bytes.Buffer
			require.NoError(t, want.Diff(&diff))
			got, err := Restore(root, diff.Bytes())
			require.NoError(t, err, diff.String())
			require.Len(t, got.Files, 3)
			for i, f := range got.Files {
				require.Equal(t, want.Files[i].Path, f.Path)
				require.Equal(t, want.Files[i].Created, f.Created)
				require.Equal(t, string(want.Files[i].After), string(f.After))
			}
			var again bytes.Buffer
			require.NoError(t, got.Diff(&again))
			require.Equal(t, diff.String(), again.String())

			require.NoError(t, os.WriteFile(filepath.Join(dir, "b.txt"), []byte("other\n"), 0o600))
			if c.before != "" {
				_, err = Restore(root, diff.Bytes())
				require.Error(t, err)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "b.txt"), []byte(c.before), 0o600))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o750))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "dir", "c.txt"), nil, 0o600))
			_, err = Restore(root, diff.Bytes())
			require.ErrorIs(t, err, fs.ErrExist, "the patch creates this file")
		})
	}
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	for _, diff := range []string{"--- a/x\n+++ b/../x\n", "--- a/x\n", "x\n", "--- a/x\n+++ \"b\n"} {
		p, err := Restore(root, []byte(diff))
		require.True(t, err != nil || len(p.Files) == 0, diff)
	}
}
