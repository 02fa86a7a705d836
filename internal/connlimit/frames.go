// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net"

	"golang.org/x/net/http2"
)

// firstRead is the number of bytes that are read at a time while a connection sends little telemetry. The server handles
// them before it reads again.
const firstRead = 1 << 10

// framed is the HTTP/2 side of a connection. Only its reader uses it.
type framed struct {
	net.Conn // without TLS
	of       *Conn

	head      [frameHead]byte // of the next frame
	got       int             // bytes of head
	left      int             // bytes of the preface or of a payload that have not been read
	data      bool            // the payload is that of a DATA frame
	telemetry bool            // most of the last read
}

// frameHead is the size of the head of a frame: its length in three bytes, type, flags and stream. Source: RFC 9113,
// section 4.1.
const frameHead = 9

// Framed returns the HTTP/2 side of a connection of a server. content is c itself, or the TLS connection on it. Reads
// wait while the organization of c is above its rate, 1 MiB a second for each processor, which all of its connections
// share. A frame costs its size, without the payload of DATA, plus 32 bytes, and the headers of a request another 96
// bytes. Connections without an organization share an eighth of that rate after their first 2 KiB, and the payload of
// their DATA frames counts, too.
func (c *Conn) Framed(content net.Conn) net.Conn {
	return &framed{Conn: content, of: c, left: len(http2.ClientPreface)}
}

// Read implements net.Conn.
func (f *framed) Read(p []byte) (int, error) {
	anonymous := f.of.identity() == ""
	if anonymous || !f.telemetry {
		p = p[:min(len(p), firstRead)]
	}
	n, err := f.Conn.Read(p)
	cost := f.cost(p[:n], anonymous)
	f.telemetry = cost < n
	f.of.pace(cost, nil)
	return n, err
}

// cost returns what the next bytes of the connection cost. The payload of DATA costs nothing unless it is counted.
func (f *framed) cost(p []byte, counted bool) (cost int) {
	for len(p) > 0 {
		if f.left == 0 {
			n := copy(f.head[f.got:], p)
			f.got, p, cost = f.got+n, p[n:], cost+n
			if f.got < len(f.head) {
				return cost
			}
			f.got = 0
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			frame := http2.FrameType(f.head[3])
			f.data = frame == http2.FrameData
			cost += frameCost
			if frame == http2.FrameHeaders {
				cost += headersCost
			}
		}
		n := min(f.left, len(p))
		if f.left, p = f.left-n, p[n:]; !f.data || counted {
			cost += n
		}
	}
	return cost
}
