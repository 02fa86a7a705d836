// SPDX-License-Identifier: Apache-2.0

package paging

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay"
)

// TestPartOf checks that a page is the same from either end, and that at most half of the list is skipped.
func TestPartOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]int, rapid.IntRange(0, 40).Draw(t, "total"))
		for i := range list {
			list[i] = i
		}
		p := assay.Page{Limit: rapid.IntRange(1, 50).Draw(t, "limit"), Offset: rapid.OneOf(rapid.IntRange(0, 50), rapid.Just(1<<53-1)).Draw(t, "offset")}
		from := min(p.Offset, len(list))
		want := slices.Clone(list[from:min(from+p.Limit, len(list))])

		part := PartOf(p, len(list))
		require.LessOrEqual(t, part.Offset, len(list)/2)
		if part.Reversed {
			slices.Reverse(list)
		}
		got := slices.Clone(list[part.Offset : part.Offset+part.Limit])
		if part.Reversed {
			slices.Reverse(got)
		}
		require.Equal(t, append([]int{}, want...), append([]int{}, got...))
	})
}
