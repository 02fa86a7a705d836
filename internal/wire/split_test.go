// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestSplit(t *testing.T) {
	var body []byte
	entry := func(b ...byte) { body = protowire.AppendBytes(protowire.AppendTag(body, 1, protowire.BytesType), b) }
	unknown := func() { body = protowire.AppendVarint(protowire.AppendTag(body, 77, protowire.VarintType), 300) }
	for i := range 5 {
		unknown()
		entry(make([]byte, 100*i)...)
	}
	unknown()
	for entries, want := range map[int][]int{1: {1, 1, 1, 1, 1}, 2: {2, 2, 1}, 4: {4, 1}, 5: {5}, 9: {5}} {
		parts, err := Split(body, entries, 100)
		require.NoError(t, err)
		require.Equal(t, body, bytes.Join(parts, nil))
		var got []int
		for _, p := range parts {
			r, err := Request(p)
			require.NoError(t, err)
			got = append(got, r.Len())
		}
		require.Equal(t, want, got, entries)
	}
	cut, err := Split(body, 1, 2)
	require.NoError(t, err)
	require.Len(t, cut, 2)
	_, err = Split(body[:len(body)-3], 2, 100)
	require.True(t, errors.As(err, new(*Error)))
	parts, err := Split(nil, 2, 100)
	require.NoError(t, err)
	require.Equal(t, [][]byte{nil}, parts)
}

// FuzzSplit checks that the concatenated parts are the request, and that each part is readable.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("\n\x00\n\x00\n\x01a"), 2)
	f.Fuzz(func(t *testing.T, body []byte, entries int) {
		if entries < 1 {
			return
		}
		parts, err := Split(body, entries, 100)
		if err != nil {
			return
		}
		require.True(t, bytes.Equal(body, bytes.Join(parts, nil)))
		for _, p := range parts {
			r, err := Request(p)
			require.NoError(t, err)
			require.LessOrEqual(t, len(parts), 100)
			require.True(t, r.Len() <= entries || len(parts) > 1)
		}
	})
}
