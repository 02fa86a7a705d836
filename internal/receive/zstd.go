// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	grpcencoding "google.golang.org/grpc/encoding"
)

// The gRPC library refuses calls whose grpc-encoding has no registered compressor, and has none for zstd. This
// compressor is visible to all clients and servers of the process. The Receiver decompresses messages itself.
func init() { grpcencoding.RegisterCompressor(new(zstdCompressor)) }

// zstdMaxWindow limits the memory of a decoder. The zstd specification recommends that decoders support this size.
const zstdMaxWindow = 8 << 20

type zstdCompressor struct {
	writers sync.Pool // of *zstdWriter
}

func (*zstdCompressor) Name() string { return "zstd" }

func (c *zstdCompressor) Compress(w io.Writer) (io.WriteCloser, error) {
	z, ok := c.writers.Get().(*zstdWriter)
	if !ok {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdMaxWindow/16))
		if err != nil {
			return nil, err
		}
		z = &zstdWriter{Encoder: encoder, pool: &c.writers}
	}
	z.Reset(w)
	return z, nil
}

func (c *zstdCompressor) Decompress(r io.Reader) (io.Reader, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdMaxWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

type zstdWriter struct {
	*zstd.Encoder
	pool *sync.Pool
}

func (z *zstdWriter) Close() error {
	defer z.pool.Put(z)
	return z.Encoder.Close()
}
