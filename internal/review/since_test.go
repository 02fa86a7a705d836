// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDiff(t *testing.T) {
	for name, c := range map[string]struct {
		diff string
		want changes
	}{
		"added and removed": {"diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n@@ -3 +3,2 @@ func x() {\n-old\n+new\n+new\n@@ -9,2 +10,0 @@\n-x\n-y\n@@ -20,0 +19 @@\n+z\n", changes{"a.go": {{3, 4}, {11, 10}, {19, 19}}}},
		"content like a header": {
			"--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n--- a/q\n+++ b/q\n+@@ -1 +1 @@\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n",
			changes{"a": {{1, 2}}, "b": {{1, 1}}},
		},
		"quoted":         {"+++ \"b/\\303\\274 \\\"\\n.go\"\n@@ -0,0 +1 @@\n+x\n", changes{"ü \"\n.go": {{1, 1}}}},
		"with a tab":     {"+++ b/a b.go\t\n@@ -0,0 +1 @@\n+x\n", changes{"a b.go": {{1, 1}}}},
		"long line":      {"+++ b/a\n@@ -0,0 +1,2 @@\n+" + strings.Repeat("x", 1<<20) + "\n+y\n+++ b/b\n@@ -1 +1 @@\n", changes{"a": {{1, 2}}, "b": {{1, 1}}}},
		"binary":         {"diff --git a/x b/x\nBinary files a/x and b/x differ\n", changes{}},
		"invalid":        {"@@ -1 +1 @@\n+++ /dev/null\n@@ -1 +1 @@\n+++ c/d\n@@ -1,x +1 @@\n@@ -1 +-1 @@\n@@ -1 1 @@\n@@ -1 +1\n", changes{}},
		"large numbers":  {"+++ b/a\n@@ -1 +99999999999999999999 @@\n@@ -1 +1,2147483648 @@\n", changes{}},
		"without a file": {"@@ -1 +1 @@\n+x\n", changes{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := &since{changes: changes{}, before: map[string]string{}}
			require.NoError(t, parseDiff(strings.NewReader(c.diff), "", got))
			require.Equal(t, c.want, got.changes)
		})
	}
}

func TestParseDiffBelow(t *testing.T) {
	got := &since{changes: changes{}, before: map[string]string{}}
	diff := "--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-x\n+y\n--- a/a.go\n+++ b/sub/b.go\n@@ -2 +2 @@\n-x\n+y\n+++ b/subway/c.go\n@@ -3 +3 @@\n-x\n+y\n" +
		"--- a/sub/d.go\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/sub/e.go\n@@ -0,0 +1 @@\n+x\n"
	require.NoError(t, parseDiff(strings.NewReader(diff), "sub/", got))
	require.Equal(t, changes{"b.go": {{2, 2}}, "e.go": {{1, 1}}}, got.changes)
	require.Equal(t, map[string]string{"b.go": "a.go", "d.go": "sub/d.go"}, got.before)
}

// FuzzDiff checks that ranges are valid ranges of lines.
func FuzzDiff(f *testing.F) {
	f.Add([]byte("--- a/a.go\n+++ b/a.go\n@@ -3 +3,2 @@ func x() {\n-old\n+new\n+new\n"))
	f.Add([]byte("+++ \"b/\\303\\274\"\n@@ -0,0 +1 @@\n"))
	f.Fuzz(func(t *testing.T, diff []byte) {
		s := &since{changes: changes{}, before: map[string]string{}}
		require.NoError(t, parseDiff(bytes.NewReader(diff), "", s))
		for file, ranges := range s.changes {
			require.NotEmpty(t, file)
			for _, r := range ranges {
				require.LessOrEqual(t, r.first, r.last+1)
			}
		}
		for file, before := range s.before {
			require.NotEmpty(t, file)
			require.NotEmpty(t, before)
		}
	})
}
