// SPDX-License-Identifier: Apache-2.0

package requestid

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	long := strings.Repeat("a", maxLength)
	for _, id := range []string{"r1", "7c474427-c51c-41c7-a562-e5753dbc5119", "Root=1-67891233-abcdef012345678912345678", "a.b_c~d:e/f+g=h@i", long} {
		require.Equal(t, id, Of([]string{id}))
	}
	for _, values := range [][]string{
		nil, {""}, {"a", "b"}, {"a", "a"}, {long + "a"}, {"a b"}, {" a"}, {"a\n"}, {"a\tlevel=ERROR"}, {`a"b`}, {"ä"}, {"\xff"}, {"a,b"}, {"{}"}, {"a\x00"},
	} {
		require.Empty(t, Of(values), "%q", values)
	}
}

func TestNew(t *testing.T) {
	id := New()
	require.Regexp(t, "^[0-9a-f]{32}$", id)
	require.NotEqual(t, id, New())
	require.Equal(t, id, Of([]string{id}), "a generated id is accepted")
}

func TestContext(t *testing.T) {
	require.Empty(t, FromContext(t.Context()))
	require.Equal(t, "r1", FromContext(NewContext(t.Context(), "r1")))
}
