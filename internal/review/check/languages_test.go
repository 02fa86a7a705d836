// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/check"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// TestLanguages runs the source checks on files with comments that name the checks expected on their line.
func TestLanguages(t *testing.T) {
	parser, err := treesitter.New(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, parser.Close(t.Context())) })
	files, err := filepath.Glob("testdata/[Oo]rder.*")
	require.NoError(t, err)
	require.Len(t, files, 3)
	want := regexp.MustCompile(`want: ([a-z -]+)$`)
	for _, path := range files {
		t.Run(path, func(t *testing.T) {
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			file, err := syntax.Parse(t.Context(), parser, path, syntax.LanguageOf(path), source)
			require.NoError(t, err)
			require.False(t, file.Broken)
			var expected, got []string
			for i, line := range strings.Split(string(source), "\n") {
				if m := want.FindStringSubmatch(line); m != nil {
					for id := range strings.FieldsSeq(m[1]) {
						expected = append(expected, fmt.Sprintf("%d %s", i+1, id))
					}
				}
			}
			uses := instrumentation.Find(file, nil)
			for _, c := range check.All() {
				if c.Source == nil || c.Config != nil {
					continue
				}
				c.Source(check.NewPass(c, func(f check.Finding) {
					line := file.LineOf(f.Start)
					got = append(got, fmt.Sprintf("%d %s", line, f.Check.ID))
				}, func(any) {}), uses)
			}
			require.ElementsMatch(t, expected, got)
		})
	}
}
