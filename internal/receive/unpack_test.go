// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"context"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"assay/internal/wire/wiretest"
)

// unpackBody decompresses a body under a context.
func unpackBody(t *testing.T, ctx context.Context, packed []byte, enc encoding) ([]byte, error) {
	t.Helper()
	u, err := newUnpacker(64 << 20)
	require.NoError(t, err)
	l, err := newBudget(1<<30, 1<<30, 1).begin(0, func(error) {})
	require.NoError(t, err)
	l.identify("org")
	defer l.end()
	src, err := l.buffer(t.Context(), int64(len(packed)))
	require.NoError(t, err)
	src.b = append(src.b, packed...)
	out, err := u.unpack(ctx, l, src, enc)
	if err != nil {
		return nil, err
	}
	return out.b, nil
}

// TestGunzipStops: when its context ends, decompressing ends within a buffer of packed
// bytes, also while nothing comes out.
func TestGunzipStops(t *testing.T) {
	var member bytes.Buffer
	require.NoError(t, gzip.NewWriter(&member).Close())
	packed := bytes.Repeat(member.Bytes(), (1<<20)/member.Len())
	out, err := unpackBody(t, t.Context(), packed, gzipped)
	require.NoError(t, err)
	require.Empty(t, out)
	ctx := &wiretest.EndingContext{Context: t.Context(), Checks: 10}
	_, err = unpackBody(t, ctx, packed, gzipped)
	require.ErrorIs(t, err, context.Canceled)
	require.GreaterOrEqual(t, ctx.Checks, -10, "it goes on no further")
	outcome, _ := classify(err)
	require.Equal(t, Canceled, outcome)
}

// TestZstdBlocks: what cannot be interrupted has a bound.
func TestZstdBlocks(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	frame := z.EncodeAll([]byte("x"), nil)
	out, err := unpackBody(t, t.Context(), bytes.Repeat(frame, zstdMaxBlocks), zstandard)
	require.NoError(t, err)
	require.Len(t, out, zstdMaxBlocks)
	_, err = unpackBody(t, t.Context(), bytes.Repeat(frame, zstdMaxBlocks+1), zstandard)
	require.ErrorIs(t, err, errBlocks)
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}
	out, err = unpackBody(t, t.Context(), append(bytes.Repeat(skippable, 2*zstdMaxBlocks), frame...), zstandard)
	require.NoError(t, err)
	require.Equal(t, "x", string(out))
}
