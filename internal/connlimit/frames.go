// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net"
	"runtime"
	"time"

	"golang.org/x/net/http2"
)

// HTTP/2 clients send requests, and frames that ask for an answer, without waiting for responses. Some tens of
// connections that send them faster than the server can refuse them would take the processors from all other clients.
// So each organization has a rate for the frames that carry no telemetry, on all its connections together, and the
// connections without an organization have one for all they send. Two processors that do nothing else handle 10,000
// small calls a second, which cost as much as this rate.
const (
	frameRate  = 1 << 20         // cost of frames a second, for each processor
	frameBurst = time.Second / 4 // of that rate
	frameCost  = 32              // of a frame, in addition to its bytes
	callCost   = 96              // of a HEADERS frame, in addition
	firstRead  = 1 << 10         // bytes at a time of a connection without an organization
)

// framed is the HTTP/2 side of a connection. Only its reader uses it.
type framed struct {
	net.Conn // without TLS
	of       *Conn

	head [frameHead]byte // of the next frame
	got  int             // bytes of head
	left int             // bytes of the preface or of a payload that have not been read
	data bool            // the payload is that of a DATA frame
}

// frameHead is the size of the head of a frame: its length in three bytes, type, flags and stream. Source: RFC 9113,
// section 4.1.
const frameHead = 9

// Framed returns the HTTP/2 side of a connection of a server. content is c itself, or what TLS decrypts of it. Reads
// wait while the organization of c has sent more than its rate, 1 MiB a second for each processor, which all of its
// connections share: a frame counts with its size, without the payload of DATA, and 32 bytes more, the header of a
// request with another 96. Connections without an organization share one rate, of which DATA takes its size, too.
func (c *Conn) Framed(content net.Conn) net.Conn {
	return &framed{Conn: content, of: c, left: len(http2.ClientPreface)}
}

// Read implements net.Conn.
func (f *framed) Read(p []byte) (int, error) {
	organization := f.of.identity()
	if organization == "" {
		p = p[:min(len(p), firstRead)]
	}
	n, err := f.Conn.Read(p)
	cost := f.cost(p[:n], organization == "")
	if cost == 0 {
		return n, err
	}
	if wait := f.of.limiter.pay(organization, cost); wait > 0 {
		turn := time.NewTimer(wait)
		select {
		case <-turn.C:
		case <-f.of.gone:
			turn.Stop()
		}
	}
	return n, err
}

// cost returns what the next bytes of the connection cost.
func (f *framed) cost(p []byte, everything bool) (cost int) {
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
				cost += callCost
			}
		}
		n := min(f.left, len(p))
		if f.left, p = f.left-n, p[n:]; !f.data || everything {
			cost += n
		}
	}
	return cost
}

// identity returns the organization of the last request, "" before the first one.
func (c *Conn) identity() string {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	return c.organization
}

// pay returns how long an organization has to wait because of frames of a cost.
func (l *Limiter) pay(organization string, cost int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	paid := l.paid[organization]
	if earliest := now.Add(-frameBurst); paid.Before(earliest) {
		paid = earliest
	}
	paid = paid.Add(time.Duration(cost) * time.Second / time.Duration(frameRate*runtime.GOMAXPROCS(0)))
	l.paid[organization] = paid
	return paid.Sub(now)
}
