// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"encoding/binary"
	"net"
	"time"

	"golang.org/x/net/http2"
)

// smallRead is the maximum number of bytes of a read besides the rest of a DATA frame. The server handles their frames
// before the next read.
const smallRead = 512

// frame is a position in a sequence of HTTP/2 frames.
type frame struct {
	head [frameHead]byte // of the current frame, or of the next one
	got  int             // bytes of the next head
	left int             // bytes of the preface or of a payload that are yet to come
	kind http2.FrameType // of the payload
}

// preface is the kind of the bytes before the first frame. No frame type is as large.
const preface http2.FrameType = 0xff

// frameHead is the size of the head of a frame: its length in three bytes, type, flags and stream. Source: RFC 9113,
// section 4.1.
const frameHead = 9

// next passes the bytes of a head or of a payload in p. It returns their number, and whether a head is complete.
func (f *frame) next(p []byte) (n int, head bool) {
	if f.left > 0 {
		n = min(f.left, len(p))
		f.left -= n
		return n, false
	}
	n = copy(f.head[f.got:], p)
	if f.got += n; f.got < frameHead {
		return n, false
	}
	f.got = 0
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	f.kind = http2.FrameType(f.head[3])
	return n, true
}

func (f *frame) flags() http2.Flags { return http2.Flags(f.head[4]) }

// ends reports whether a frame of the server ends its stream.
func (f *frame) ends() bool {
	switch f.kind {
	case http2.FrameHeaders, http2.FrameData:
		return f.flags().Has(http2.FlagDataEndStream) // the same bit for both
	}
	return f.kind == http2.FrameRSTStream
}

func (f *frame) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1) }

// framed is the HTTP/2 side of a connection. Only its reader and its writer use it.
type framed struct {
	net.Conn // without TLS
	of       *Conn
	calls    *calls

	in      frame
	headers int // bytes of HEADERS that have no cost yet, fewer than headerPart
	out     frame
}

// Framed returns the HTTP/2 side of a connection of a server. content is c itself, or the TLS connection on it. Reads
// wait while the organization of c has sent more frames than its rate allows on all of its connections, 512 KiB a second
// for each processor: a frame counts as 32 bytes and its size, without the payload of DATA and with a sixteenth of that
// of HEADERS, which begins a request and counts as another 96 bytes. Connections without an organization share an
// eighth of such a rate. Connections from one address that several organizations have used share a full rate. Each
// connection also has a small rate of its own.
//
// The end of a response without an organization waits instead of the next request, which may have one: see Conn.renew.
//
// The connection is closed when a request takes longer than the limit, including its response.
func (c *Conn) Framed(content net.Conn, limit time.Duration) net.Conn {
	c.framed = true
	return &framed{
		Conn: content, of: c, in: frame{left: len(http2.ClientPreface), kind: preface},
		calls: &calls{of: c, limit: limit, began: make(map[uint32]time.Time)},
	}
}

// Read implements net.Conn.
func (f *framed) Read(p []byte) (int, error) {
	most := smallRead
	if f.in.kind == http2.FrameData {
		most += f.in.left
	}
	n, err := f.Conn.Read(p[:min(len(p), most)])
	cost := f.cost(p[:n])
	if n > 0 && (n < fewBytes || !f.of.identified()) {
		cost += readCost
	}
	f.of.pace(cost, nil)
	return n, err
}

// Write implements net.Conn.
func (f *framed) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n, head := f.out.next(rest)
		if rest = rest[n:]; head && f.out.ends() {
			f.calls.end(f.out.stream())
			f.of.renew()
		}
	}
	return f.Conn.Write(p)
}

// Close implements net.Conn.
func (f *framed) Close() error {
	f.calls.stop()
	return f.Conn.Close()
}

// cost returns the cost of the next bytes of the connection.
func (f *framed) cost(p []byte) (cost int) {
	for len(p) > 0 {
		payload := f.in.left > 0
		n, head := f.in.next(p)
		p = p[n:]
		switch {
		case payload && f.in.kind == http2.FrameData:
		case payload && f.in.kind == http2.FrameHeaders:
			f.headers += n
			cost, f.headers = cost+f.headers/headerPart, f.headers%headerPart
		default:
			cost += n
		}
		if head {
			f.calls.received(&f.in)
			if cost += frameCost; f.in.kind == http2.FrameHeaders {
				cost += headersCost
			}
		}
	}
	return cost
}
