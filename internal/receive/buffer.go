// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"math/bits"
	"sync"
)

// Buffer sizes are powers of two from minBuffer to maxPooled, which are pooled, and multiples of maxPooled above. The
// larger ones are left to the garbage collector, so that a few very large requests do not leave very large buffers
// behind.
const (
	minBuffer = 64 << 10
	maxPooled = 4 << 20
)

var pools [7]sync.Pool // of *buffer, by size

// buffer holds bytes. Its capacity is charged to a reservation.
type buffer struct {
	b []byte
}

// bufferSize returns the capacity of a buffer for n bytes.
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

// pool returns the pool for buffers of the given size, or nil if that size is not pooled.
func pool(size int64) *sync.Pool {
	if size > maxPooled || size != bufferSize(size) {
		return nil
	}
	return &pools[bits.Len64(uint64(size/minBuffer))-1]
}

// buffer returns an empty buffer for at least n bytes, charged to r.
func (r *reservation) buffer(ctx context.Context, n int64) (*buffer, error) {
	size := bufferSize(n)
	if err := r.take(ctx, size); err != nil {
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

// free releases b, which must not be used afterwards. b may be nil.
func (r *reservation) free(b *buffer) {
	if b == nil {
		return
	}
	r.most = max(r.most, int64(len(b.b)))
	size := int64(cap(b.b))
	if p := pool(size); p != nil {
		p.Put(b)
	}
	r.give(size)
}

// grow returns a buffer with the content of b and room for at least n bytes. It frees b, even on errors.
func (r *reservation) grow(ctx context.Context, b *buffer, n int64) (*buffer, error) {
	defer r.free(b)
	grown, err := r.buffer(ctx, n)
	if err != nil {
		return nil, err
	}
	grown.b = append(grown.b, b.b...)
	return grown, nil
}

// nextSize returns the new size of a full buffer of size bytes. guess is the expected final size, and limit the
// maximum. A buffer grows at most eightfold per step, so announcing a large body costs little memory.
func nextSize(size, guess, limit int64) int64 {
	return min(max(2*size, min(guess, 8*size)), limit)
}
