// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
)

// Limits of a header over HTTP/1.1. Short lines take much more memory and time than their bytes.
const (
	maxLines = 128
	maxRest  = 32 << 10 // bytes of a header with more lines that are read, for the client to read the response
)

// head counts the lines of a header while it arrives.
type head struct {
	lines  int // complete ones, with the request line
	length int // of the next one, without its end
	rest   int // bytes after the last line that is allowed
	ended  bool
}

// next counts the next bytes up to the end of the header. It returns them, in place, without those of lines above the limit,
// and the bytes after the header.
func (h *head) next(p []byte) (kept, after []byte) {
	if h.ended {
		return p, nil
	}
	kept = p[:0]
	for len(p) > 0 && !h.ended {
		line, rest, complete := bytes.Cut(p, []byte("\n"))
		h.length += len(bytes.TrimRight(line, "\r"))
		if line = p[:len(p)-len(rest)]; h.lines <= maxLines || h.length == 0 {
			kept = append(kept, line...)
		} else {
			h.rest += len(line)
		}
		if p = rest; complete {
			if h.ended = h.lines > 0 && h.length == 0; h.lines > 0 || h.length > 0 { // servers skip empty lines after the request before
				h.lines++
			}
			h.length = 0
		}
	}
	return kept, p
}

// HTTPListener is like Listener, for a server of HTTP/1.1 with its handler from Paced or Handler and ConnState. With a
// config, connections use TLS. The lines of a header after the first 128 are not kept, and the request gets status 431.
func (l *Limiter) HTTPListener(of net.Listener, config *tls.Config) net.Listener {
	if config != nil {
		config = config.Clone()
		config.NextProtos = []string{"http/1.1"}
	}
	return &httpListener{l.Listener(of), config}
}

type httpListener struct {
	net.Listener
	config *tls.Config // nil: without TLS
}

// Accept implements net.Listener.
func (l *httpListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	of := c.(*Conn)
	if l.config != nil {
		of.secure = tls.Server(of, l.config)
		c = of.secure
	}
	return &httpConn{Conn: c, of: of}, nil
}

// httpConn is the HTTP/1.1 side of a connection.
type httpConn struct {
	net.Conn // without TLS
	of       *Conn
	head     head
	rest     []byte // received after the end of a header
}

// Read implements net.Conn. It drops the lines of a header above the limit. It does not return bytes after a header together
// with the header, because they may be the next header.
func (c *httpConn) Read(p []byte) (int, error) {
	for {
		n, err := c.receive(p)
		if n == 0 || c.of.begun.Load() {
			return n, err
		}
		kept, after := c.head.next(p[:n])
		c.rest = append(slices.Clone(after), c.rest...)
		n = len(kept)
		if c.head.rest > 0 {
			c.of.truncated.Store(true)
			if c.head.rest > maxRest {
				n = copy(p, "\n") // ends the header
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// CloseWrite is like that of Conn. With TLS, it sends the end of the encrypted data too.
func (c *httpConn) CloseWrite() error {
	err := closeWrite(c.Conn)
	if c.of.secure != nil {
		err = errors.Join(err, c.of.CloseWrite())
	}
	return err
}

// receive returns the rest of the last read, or reads.
func (c *httpConn) receive(p []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && e.Conn != nil {
		_, _ = io.WriteString(e.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nthis address needs https\n") // it may not be HTTP
	}
	return n, err
}

// ConnState is for http.Server.ConnState. It records the end of a request: the next bytes of the connection are the
// next header.
func (*Limiter) ConnState(of net.Conn, state http.ConnState) {
	if c, ok := of.(*httpConn); ok && state == http.StateIdle {
		c.head = head{}
		c.of.begun.Store(false)
	}
}
