// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxDeflateRatio is the maximum compression ratio of deflate.
const maxDeflateRatio = 1032

// decompressor decompresses complete bodies, so nothing it holds waits for a sender. It is safe for concurrent use.
type decompressor struct {
	limit int64         // of uncompressed bytes
	gzip  sync.Pool     // of *gunzipper
	zstd  *zstd.Decoder // only DecodeAll: no goroutines, no window besides the output
}

func newDecompressor(limit int64) (*decompressor, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return &decompressor{limit: limit, zstd: d}, nil
}

// decompress returns the uncompressed content of compressed, and frees compressed.
func (u *decompressor) decompress(ctx context.Context, res *reservation, compressed *buffer, enc encoding) (*buffer, error) {
	defer res.free(compressed)
	if enc == zstandard {
		return u.unzstd(ctx, res, compressed.b)
	}
	return u.gunzip(ctx, res, compressed.b)
}

// gunzipper decompresses one body at a time. It fails when its context ends.
type gunzipper struct {
	gzip.Reader
	buffered   bufio.Reader
	compressed bytes.Reader
	produced   int // bytes
	ctx        context.Context
}

// A deflate block may be large and decompress to almost nothing, which takes many times longer than ordinary blocks.
// After minSparse compressed bytes, four compressed bytes must produce at least three: encoders store incompressible
// data as is.
const minSparse = 1 << 20

var errSparse = errors.New("too many blocks without content")

// Reset prepares z to decompress compressed.
func (z *gunzipper) Reset(ctx context.Context, compressed []byte) error {
	z.ctx, z.produced = ctx, 0
	z.compressed.Reset(compressed)
	z.buffered.Reset(contextReader{z})
	return z.Reader.Reset(&z.buffered)
}

// contextReader reads the compressed bytes of a gunzipper, one buffer at a time.
type contextReader struct{ z *gunzipper }

func (r contextReader) Read(p []byte) (int, error) {
	if r.z.ctx.Err() != nil {
		return 0, context.Cause(r.z.ctx)
	}
	if read := int(r.z.compressed.Size()) - r.z.compressed.Len(); read > minSparse && r.z.produced < read/4*3 {
		return 0, errSparse
	}
	return r.z.compressed.Read(p)
}

func (u *decompressor) gunzip(ctx context.Context, res *reservation, compressed []byte) (*buffer, error) {
	z, ok := u.gzip.Get().(*gunzipper)
	if !ok {
		z = new(gunzipper)
	}
	defer func() { // the pooled reader must not retain compressed
		z.compressed.Reset(nil)
		z.ctx = nil
		u.gzip.Put(z)
	}()
	if err := z.Reset(ctx, compressed); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, malformed("gzip", 0, err)
	}
	// Allocate one byte more, so that the end is found without growing.
	b, err := res.buffer(ctx, min(gzipSize(compressed), u.limit)+1)
	if err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil {
			res.free(b)
			return nil, context.Cause(ctx)
		}
		if len(b.b) == cap(b.b) {
			if b, err = res.grow(ctx, b, nextSize(int64(cap(b.b)), 0, u.limit+1)); err != nil {
				return nil, err
			}
		}
		n, err := z.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		z.produced = len(b.b)
		switch {
		case int64(len(b.b)) > u.limit:
			res.free(b)
			return nil, errUncompressedSize
		case err == io.EOF:
			return b, nil
		case ctx.Err() != nil:
			res.free(b)
			return nil, fmt.Errorf("decompress gzip: %w", context.Cause(ctx))
		case err != nil:
			at := len(b.b)
			res.free(b)
			return nil, malformed("gzip", at, err)
		}
	}
}

// gzipSize returns the size in the last four bytes, which is exact for a stream of one member. If that size is
// impossible, it returns a guess.
func gzipSize(compressed []byte) int64 {
	n := int64(len(compressed))
	if n >= 4 {
		if size := int64(binary.LittleEndian.Uint32(compressed[n-4:])); size <= n*maxDeflateRatio {
			return size
		}
	}
	return 4 * n
}

// zstdMaxBlock is the maximum uncompressed size of a zstd block.
const zstdMaxBlock = 128 << 10

// zstdMaxBlocks limits the blocks of a body. A block can take microseconds even if it is almost empty, and
// decompression cannot be interrupted.
const zstdMaxBlocks = 1 << 16

var errBlocks = &refusal{TooLarge, "zstd: too many blocks; send smaller requests"}

func (u *decompressor) unzstd(ctx context.Context, res *reservation, compressed []byte) (*buffer, error) {
	if len(compressed) == 0 {
		return nil, malformed("zstd", 0, io.ErrUnexpectedEOF)
	}
	var h zstd.Header
	if h.Decode(compressed) == nil && h.HasFCS && h.FrameContentSize > uint64(u.limit) {
		return nil, errUncompressedSize // the decoder would call some of these malformed
	}
	// The decoder stays within the capacity, but its errors for exceeding it look like those for malformed input. So
	// allow one block beyond the limit.
	bound, blocks := zstdBound(compressed)
	if blocks > zstdMaxBlocks {
		return nil, errBlocks
	}
	b, err := res.buffer(ctx, min(bound, u.limit)+zstdMaxBlock+64)
	if err != nil {
		return nil, err
	}
	b.b, err = u.zstd.DecodeAll(compressed, b.b)
	switch {
	case int64(len(b.b)) > u.limit, errors.Is(err, zstd.ErrDecoderSizeExceeded):
		err = errUncompressedSize
	case err != nil:
		err = malformed("zstd", len(b.b), err)
	default:
		return b, nil
	}
	res.free(b)
	return nil, err
}

// zstdBound returns upper bounds for the uncompressed size of the frames in b and the number of their blocks, from
// the frame and block headers. It stops where b is malformed, as the decoder will.
func zstdBound(b []byte) (size int64, blocks int) {
	for len(b) > 0 {
		var h zstd.Header
		if h.Decode(b) != nil {
			return size, blocks
		}
		b = b[min(h.HeaderSize, len(b)):]
		if h.Skippable {
			b = b[min(int(h.SkippableSize), len(b)):]
			continue
		}
		var held int64
		for last := false; !last; {
			if len(b) < 3 {
				return size + held, blocks
			}
			blocks++
			head := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
			last = head&1 != 0
			n := head >> 3
			switch head >> 1 & 3 {
			case 0: // raw
				held += int64(n)
			case 1: // one byte, repeated
				held += int64(n)
				n = 1
			default: // compressed
				held += zstdMaxBlock
			}
			b = b[min(3+n, len(b)):]
		}
		if h.HasFCS {
			held = int64(min(h.FrameContentSize, 1<<40)) // above any limit, without overflow
		}
		if h.HasCheckSum {
			b = b[min(4, len(b)):]
		}
		size += held
	}
	return size, blocks
}

// malformed returns the error for a body that does not match its encoding. at is the number of bytes that could be
// decompressed.
func malformed(encoding string, at int, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &refusal{Invalid, fmt.Sprintf("byte %d: %s: %v", at, encoding, err)}
}
