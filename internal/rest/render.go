// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// rendered is the body of a success without its meta, which is new in every
// response. It may be used concurrently and must not be changed.
type rendered struct {
	begin []byte // {"data":...
	links []byte // ,"links":..., empty for a single resource
	page  *page  // nil for a single resource

	tagOnce sync.Once
	tagText string

	gzipOnce sync.Once
	packed   []byte // begin, without an end
	checksum uint32 // of begin
}

func render(data any, pg *page) (*rendered, error) {
	r := &rendered{page: pg}
	var err error
	if r.begin, err = encoded(`{"data":`, data); err != nil {
		return nil, err
	}
	if pg != nil {
		if r.links, err = encoded(`,"links":`, pg.links); err != nil {
			return nil, err
		}
	}
	return r, nil
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// encoded returns v as JSON with something before it, in no more memory than that
// takes.
func encoded(before string, v any) ([]byte, error) {
	const kept = 1 << 20 // bytes; a larger buffer is not used again
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	b.WriteString(before)
	err := encode(b, v)
	text := bytes.Clone(b.Bytes())
	if b.Cap() <= kept {
		buffers.Put(b)
	}
	return text, err
}

// tag returns the entity tag. It covers everything but meta, so that it is the same
// on every replica.
func (r *rendered) tag() string {
	r.tagOnce.Do(func() { r.tagText = entityTag(r.begin, r.links, r.page) })
	return r.tagText
}

// entityTag is weak, because meta and the encoding differ between responses that
// share it.
func entityTag(data, links []byte, pg *page) string {
	h := sha256.New()
	h.Write(data)
	h.Write(links)
	if pg != nil {
		h.Write(strconv.AppendInt(nil, int64(pg.total), 10))
	}
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`
}

// end returns what follows begin in one response.
func (r *rendered) end(m Meta) ([]byte, error) {
	var meta any = m
	if r.page != nil {
		meta = ListMeta{Meta: m, Total: r.page.total, HasMore: r.page.hasMore}
	}
	var b bytes.Buffer
	b.WriteString(`,"meta":`)
	if err := encode(&b, meta); err != nil {
		return nil, err
	}
	b.Write(r.links)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// gzip returns begin and end as one gzip member. begin is packed once; end, which is
// short, follows it as it is, in stored blocks (RFC 1951, 3.2.4).
func (r *rendered) gzip(end []byte) [][]byte {
	r.gzipOnce.Do(func() {
		r.packed, r.checksum = pack(r.begin, false), crc32.ChecksumIEEE(r.begin)
	})
	const longest = 1<<16 - 1 // bytes of a stored block
	tail := make([]byte, 0, len(end)+5*(len(end)/longest+1)+8)
	for rest := end; ; {
		n := min(len(rest), longest)
		last := byte(0)
		if n == len(rest) {
			last = 1
		}
		tail = append(tail, last)
		tail = binary.LittleEndian.AppendUint16(tail, uint16(n))
		tail = binary.LittleEndian.AppendUint16(tail, ^uint16(n))
		tail = append(tail, rest[:n]...)
		if rest = rest[n:]; last == 1 {
			break
		}
	}
	tail = binary.LittleEndian.AppendUint32(tail, crc32.Update(r.checksum, crc32.IEEETable, end))
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(r.begin)+len(end))) // modulo 2^32, as RFC 1952 says
	return [][]byte{r.packed, tail}
}

var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// pack returns body in gzip: a whole member, or one that other blocks have to end.
func pack(body []byte, whole bool) []byte {
	var packed bytes.Buffer
	zw := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(zw)
	zw.Reset(&packed)
	_, _ = zw.Write(body) // into memory: cannot fail
	if whole {
		_ = zw.Close()
	} else {
		_ = zw.Flush() // ends on a byte
	}
	return packed.Bytes()
}
