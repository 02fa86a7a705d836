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

// maxDeflateRatio is how many bytes one byte of deflate can become.
const maxDeflateRatio = 1032

// unpacker decompresses whole bodies, which have arrived, so that nothing of what
// it holds waits for a sender. It may be used concurrently.
type unpacker struct {
	limit int64         // of what comes out
	gzip  sync.Pool     // of *gunzipper
	zstd  *zstd.Decoder // used for DecodeAll alone: no goroutines, and no window beside the output
}

func newUnpacker(limit int64) (*unpacker, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return &unpacker{limit: limit, zstd: d}, nil
}

// unpack returns the decompressed content of packed, and frees it.
func (u *unpacker) unpack(ctx context.Context, l *lease, packed *buffer, enc encoding) (*buffer, error) {
	defer l.free(packed)
	if enc == zstandard {
		return u.unzstd(ctx, l, packed.b)
	}
	return u.gunzip(ctx, l, packed.b)
}

// gunzipper decompresses one body at a time, and fails when the context ends.
type gunzipper struct {
	gzip.Reader
	buffered bufio.Reader
	packed   bytes.Reader
	ctx      context.Context
}

// Reset starts to decompress packed.
func (z *gunzipper) Reset(ctx context.Context, packed []byte) error {
	z.ctx = ctx
	z.packed.Reset(packed)
	z.buffered.Reset(contextReader{z})
	return z.Reader.Reset(&z.buffered)
}

// contextReader reads the packed bytes of a gunzipper, a buffer's worth at a time.
type contextReader struct{ z *gunzipper }

func (r contextReader) Read(p []byte) (int, error) {
	if r.z.ctx.Err() != nil {
		return 0, context.Cause(r.z.ctx)
	}
	return r.z.packed.Read(p)
}

func (u *unpacker) gunzip(ctx context.Context, l *lease, packed []byte) (*buffer, error) {
	z, ok := u.gzip.Get().(*gunzipper)
	if !ok {
		z = new(gunzipper)
	}
	defer func() { // the pooled reader must not keep packed alive
		z.packed.Reset(nil)
		z.ctx = nil
		u.gzip.Put(z)
	}()
	if err := z.Reset(ctx, packed); err != nil {
		return nil, malformed("gzip", err)
	}
	// One byte more, so that the end is seen without growing.
	b, err := l.buffer(ctx, min(gzipSize(packed), u.limit)+1)
	if err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil {
			l.free(b)
			return nil, context.Cause(ctx)
		}
		if len(b.b) == cap(b.b) {
			if b, err = l.grow(ctx, b, nextSize(int64(cap(b.b)), 0, u.limit+1)); err != nil {
				return nil, err
			}
		}
		n, err := z.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		switch {
		case int64(len(b.b)) > u.limit:
			l.free(b)
			return nil, errUnpacked
		case err == io.EOF:
			return b, nil
		case ctx.Err() != nil:
			l.free(b)
			return nil, fmt.Errorf("decompress gzip: %w", context.Cause(ctx))
		case err != nil:
			l.free(b)
			return nil, malformed("gzip", err)
		}
	}
}

// gzipSize returns the size that the last four bytes tell, which is right for a stream of one
// member, or a guess where it cannot be true.
func gzipSize(packed []byte) int64 {
	n := int64(len(packed))
	if n >= 4 {
		if size := int64(binary.LittleEndian.Uint32(packed[n-4:])); size <= n*maxDeflateRatio {
			return size
		}
	}
	return 4 * n
}

// zstdMaxBlock is the most that one block of zstd holds.
const zstdMaxBlock = 128 << 10

// zstdMaxBlocks is how many blocks a body may have. One can take microseconds however
// little it holds, and decompressing a body cannot be interrupted.
const zstdMaxBlocks = 1 << 16

var errBlocks = &refusal{TooLarge, "zstd: too many blocks; send smaller requests"}

func (u *unpacker) unzstd(ctx context.Context, l *lease, packed []byte) (*buffer, error) {
	if len(packed) == 0 {
		return nil, malformed("zstd", io.ErrUnexpectedEOF)
	}
	var h zstd.Header
	if h.Decode(packed) == nil && h.HasFCS && h.FrameContentSize > uint64(u.limit) {
		return nil, errUnpacked // the decoder would call some of these malformed
	}
	// The decoder stays within the capacity, and says that it does not suffice in ways that cannot be told
	// from malformed input. So there is room for one block past the limit.
	bound, blocks := zstdBound(packed)
	if blocks > zstdMaxBlocks {
		return nil, errBlocks
	}
	b, err := l.buffer(ctx, min(bound, u.limit)+zstdMaxBlock+64)
	if err != nil {
		return nil, err
	}
	b.b, err = u.zstd.DecodeAll(packed, b.b)
	switch {
	case int64(len(b.b)) > u.limit, errors.Is(err, zstd.ErrDecoderSizeExceeded):
		err = errUnpacked
	case err != nil:
		err = malformed("zstd", err)
	default:
		return b, nil
	}
	l.free(b)
	return nil, err
}

// zstdBound returns how much the frames in b hold at most and how many blocks they have, from
// what their headers and those of their blocks tell. It stops where b is malformed, as the
// decoder will.
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
			held = int64(min(h.FrameContentSize, 1<<40)) // far over any limit, and far from overflow
		}
		if h.HasCheckSum {
			b = b[min(4, len(b)):]
		}
		size += held
	}
	return size, blocks
}

// malformed says that a body is not what its encoding says.
func malformed(encoding string, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &refusal{Invalid, encoding + ": " + err.Error()}
}
