// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net"

	"golang.org/x/net/http2"
)

// smallRead is the maximum number of bytes of a read besides the rest of a DATA frame. The server handles their frames
// before the next read.
const smallRead = 512

// framed is the HTTP/2 side of a connection. Only its reader uses it.
type framed struct {
	net.Conn // without TLS
	of       *Conn

	head    [frameHead]byte // of the next frame
	got     int             // bytes of head
	left    int             // bytes of the preface or of a payload that have not been read
	kind    http2.FrameType // of the payload
	headers int             // bytes of HEADERS that have no cost yet, fewer than framePart
}

// preface is the kind of what precedes the first frame. No frame type is as large.
const preface http2.FrameType = 0xff

// frameHead is the size of the head of a frame: its length in three bytes, type, flags and stream. Source: RFC 9113,
// section 4.1.
const frameHead = 9

// Framed returns the HTTP/2 side of a connection of a server. content is c itself, or what TLS decrypts of it. Reads
// wait while the organization of c has sent more frames than its rate allows on all of its connections, 512 KiB a second
// for each processor: a frame counts as 32 bytes and its size, without the payload of DATA and with a quarter of that
// of HEADERS, which begins a request and counts as another 96 bytes. Connections without an organization share an
// eighth of such a rate, and each has a small rate of its own.
func (c *Conn) Framed(content net.Conn) net.Conn {
	return &framed{Conn: content, of: c, left: len(http2.ClientPreface), kind: preface}
}

// Read implements net.Conn.
func (f *framed) Read(p []byte) (int, error) {
	most := smallRead
	if f.kind == http2.FrameData && f.of.identified() {
		most += f.left
	}
	n, err := f.Conn.Read(p[:min(len(p), most)])
	cost := f.cost(p[:n])
	if n > 0 && n < fewBytes {
		cost += readCost
	}
	f.of.pace(cost, nil)
	return n, err
}

// cost returns what the next bytes of the connection cost.
func (f *framed) cost(p []byte) (cost int) {
	for len(p) > 0 {
		if f.left == 0 {
			n := copy(f.head[f.got:], p)
			f.got, p, cost = f.got+n, p[n:], cost+n
			if f.got < len(f.head) {
				return cost
			}
			f.got = 0
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			cost += frameCost
			if f.kind = http2.FrameType(f.head[3]); f.kind == http2.FrameHeaders {
				cost += headersCost
			}
		}
		n := min(f.left, len(p))
		f.left, p = f.left-n, p[n:]
		switch f.kind {
		case http2.FrameData:
		case http2.FrameHeaders:
			f.headers += n
			cost, f.headers = cost+f.headers/framePart, f.headers%framePart
		default:
			cost += n
		}
	}
	return cost
}
