// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"math/bits"
	"sync"
)

// Buffers come in powers of two from minBuffer to maxPooled, which are pooled,
// and in whole multiples of maxPooled above, which are left to the garbage collector: a few
// giant requests must not leave giant buffers behind.
const (
	minBuffer = 64 << 10
	maxPooled = 4 << 20
)

var pools [7]sync.Pool // of *buffer, by power of two above minBuffer

// buffer holds bytes whose capacity is paid for by a lease.
type buffer struct {
	b []byte
}

// bufferSize returns the capacity of the buffer that holds n bytes.
func bufferSize(n int64) int64 {
	switch {
	case n <= minBuffer:
		return minBuffer
	case n <= maxPooled:
		return 1 << bits.Len64(uint64(n-1))
	default:
		return (n + maxPooled - 1) / maxPooled * maxPooled
	}
}

// pool returns the pool of buffers of a size, or nil where they are not pooled.
func pool(size int64) *sync.Pool {
	if size > maxPooled || size != bufferSize(size) {
		return nil
	}
	return &pools[bits.Len64(uint64(size/minBuffer))-1]
}

// buffer returns an empty buffer for at least n bytes, paid for by l.
func (l *lease) buffer(ctx context.Context, n int64) (*buffer, error) {
	size := bufferSize(n)
	if err := l.take(ctx, size); err != nil {
		return nil, err
	}
	if p := pool(size); p != nil {
		if b, ok := p.Get().(*buffer); ok {
			b.b = b.b[:0]
			return b, nil
		}
	}
	return &buffer{b: make([]byte, 0, size)}, nil
}

// free gives b back, which must not be used any more. A nil b is nothing.
func (l *lease) free(b *buffer) {
	if b == nil {
		return
	}
	size := int64(cap(b.b))
	if p := pool(size); p != nil {
		p.Put(b)
	}
	l.give(size)
}

// grow returns a buffer with the content of b and room for at least n bytes. It frees b,
// also when it fails.
func (l *lease) grow(ctx context.Context, b *buffer, n int64) (*buffer, error) {
	defer l.free(b)
	grown, err := l.buffer(ctx, n)
	if err != nil {
		return nil, err
	}
	grown.b = append(grown.b, b.b...)
	return grown, nil
}

// nextSize returns how large a full buffer of size bytes becomes, given the guess of how much
// there will be in the end and a limit on it. A guess is believed up to eight times of
// what is there, so that announcing much costs little memory.
func nextSize(size, guess, limit int64) int64 {
	return min(max(2*size, min(guess, 8*size)), limit)
}
