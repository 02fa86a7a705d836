// SPDX-License-Identifier: Apache-2.0

package gittree

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzCheck reads the output of ls-tree, whose paths are those of a repository, in pieces of any size. The result
// depends on no piece, and a tree that is accepted is within the limits.
func FuzzCheck(f *testing.F) {
	const blob = "100644 blob 8a1218a1024a212bb3db30becd860315f9f3ac52"
	f.Add(blob+"       5\ta/main.go\x00"+blob+"    12\tb\t\n\x00", 7)
	f.Add("160000 commit 8a1218a1024a212bb3db30becd860315f9f3ac52       -\tmodule\x00", 1)
	f.Add(blob+" 9223372036854775807\ta\x00"+blob+" 9223372036854775807\tb\x00", 100)
	f.Add(blob+"      -1\ta\x00\x00", 3)
	const tree = "040000 tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904       -\t"
	f.Add(tree+"a\x00"+blob+"       5\ta/b\x00", 9)
	f.Add(tree+"a\x00"+tree+"a/b\x00"+tree+"a/b/c\x00"+tree+"a/b/c/d\x00", 9)
	f.Fuzz(func(t *testing.T, text string, size int) {
		whole := &Check{Bytes: 100, Files: 3}
		n, err := whole.Write([]byte(text))
		require.LessOrEqual(t, n, len(text))
		pieces := &Check{Bytes: 100, Files: 3}
		var pieceErr error
		for rest := text; rest != "" && pieceErr == nil; {
			piece := rest[:min(max(size, 1), len(rest))]
			_, pieceErr = pieces.Write([]byte(piece))
			rest = rest[len(piece):]
		}
		require.Equal(t, err, pieceErr)
		if err != nil {
			return
		}
		require.Equal(t, len(text), n)
		require.Equal(t, whole, pieces)
		require.Equal(t, strings.Count(text, "\x00"), whole.files+whole.directories)
		require.LessOrEqual(t, whole.files, whole.Files)
		require.LessOrEqual(t, whole.directories, whole.Files)
		require.LessOrEqual(t, whole.bytes, whole.Bytes)
		require.GreaterOrEqual(t, whole.bytes, int64(0))
	})
}
