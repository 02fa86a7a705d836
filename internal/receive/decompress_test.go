// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"assay/internal/wire/wiretest"
)

// decompressBody decompresses a body with a context.
func decompressBody(t *testing.T, ctx context.Context, compressed []byte, enc encoding) ([]byte, error) {
	t.Helper()
	u, err := newDecompressor(64 << 20)
	require.NoError(t, err)
	l, err := newBudget(1<<30, 1<<30, 1).begin(0, func(error) {})
	require.NoError(t, err)
	l.identify("org")
	defer l.end()
	src, err := l.buffer(t.Context(), int64(len(compressed)))
	require.NoError(t, err)
	src.b = append(src.b, compressed...)
	out, err := u.decompress(ctx, l, src, enc)
	if err != nil {
		return nil, err
	}
	return out.b, nil
}

// TestGunzipStops: decompression ends within one buffer of compressed bytes after its context has ended, even while
// it produces no output.
func TestGunzipStops(t *testing.T) {
	var member bytes.Buffer
	require.NoError(t, gzip.NewWriter(&member).Close())
	compressed := bytes.Repeat(member.Bytes(), (1<<20)/member.Len())
	out, err := decompressBody(t, t.Context(), compressed, gzipped)
	require.NoError(t, err)
	require.Empty(t, out)
	for _, checks := range []int{0, 1, 2, 10} { // the first are made while the header is read
		ctx := &wiretest.EndingContext{Context: t.Context(), Checks: checks}
		_, err = decompressBody(t, ctx, compressed, gzipped)
		require.ErrorIs(t, err, context.Canceled)
		require.GreaterOrEqual(t, ctx.Checks, -10, "stops soon")
		outcome, _ := classify(err)
		require.Equal(t, Canceled, outcome, "the sender has to repeat the request")
	}
}

// TestSparseGzip: a large gzip body has to have content. Small ones need not. Those that do not compress have.
func TestSparseGzip(t *testing.T) {
	var whole bytes.Buffer
	random := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for level := gzip.HuffmanOnly; level <= gzip.BestCompression; level++ {
		whole.Reset()
		z, err := gzip.NewWriterLevel(&whole, level)
		require.NoError(t, err)
		_, err = z.Write(random)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		out, err := decompressBody(t, t.Context(), whole.Bytes(), gzipped)
		require.NoError(t, err)
		require.True(t, bytes.Equal(out, random), "level %d", level)
	}

	whole.Reset()
	require.NoError(t, gzip.NewWriter(&whole).Close())
	head, tail := whole.Bytes()[:10], whole.Bytes()[10:]
	for _, c := range []struct {
		block string // stored
		size  int    // of the body
		error string
	}{
		{"\x00\x00\x00\xff\xff", minSparse - 100, ""},
		{"\x00\x00\x00\xff\xff", 2 * minSparse, errSparse.Error()},
		{"\x00\x02\x00\xfd\xffab", minSparse - 100, "checksum"},
		{"\x00\x02\x00\xfd\xffab", 2 * minSparse, errSparse.Error()},
	} {
		body := append(append(bytes.Clone(head), strings.Repeat(c.block, c.size/len(c.block))...), tail...)
		_, err := decompressBody(t, t.Context(), body, gzipped)
		if c.error == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.error)
			outcome, _ := classify(err)
			require.Equal(t, Invalid, outcome)
		}
	}
}

// TestZstdBlocks: the number of blocks is limited, because zstd decompression cannot be interrupted.
func TestZstdBlocks(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	frame := z.EncodeAll([]byte("x"), nil)
	out, err := decompressBody(t, t.Context(), bytes.Repeat(frame, zstdMaxBlocks), zstandard)
	require.NoError(t, err)
	require.Len(t, out, zstdMaxBlocks)
	_, err = decompressBody(t, t.Context(), bytes.Repeat(frame, zstdMaxBlocks+1), zstandard)
	require.ErrorIs(t, err, errBlocks)
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}
	out, err = decompressBody(t, t.Context(), append(bytes.Repeat(skippable, 2*zstdMaxBlocks), frame...), zstandard)
	require.NoError(t, err)
	require.Equal(t, "x", string(out))
}

// TestMalformed checks that errors have the offset at which decompression failed.
func TestMalformed(t *testing.T) {
	var member bytes.Buffer
	gz := gzip.NewWriter(&member)
	_, err := gz.Write(bytes.Repeat([]byte("x"), 100))
	require.NoError(t, err)
	require.NoError(t, gz.Close())
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	frame := z.EncodeAll(bytes.Repeat([]byte("x"), 100), nil)
	for _, c := range []struct {
		body []byte
		enc  encoding
		want string
	}{
		{nil, gzipped, "byte 0: gzip: unexpected EOF"},
		{[]byte("no gzip at all"), gzipped, "byte 0: gzip: "},
		{append(member.Bytes(), "more"...), gzipped, "byte 100: gzip: "},
		{nil, zstandard, "byte 0: zstd: unexpected EOF"},
		{append(frame, "more"...), zstandard, "byte 100: zstd: "},
	} {
		_, err := decompressBody(t, t.Context(), c.body, c.enc)
		outcome, message := classify(err)
		require.Equal(t, Invalid, outcome)
		require.True(t, strings.HasPrefix(message, c.want), message)
	}
}
