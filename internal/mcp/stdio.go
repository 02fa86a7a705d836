// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// drainTimeout limits the wait for responses after the end of the input.
const drainTimeout = 30 * time.Second

// Stdio returns a transport with one message per line. At the end of the input, its connection waits for the responses
// to all requests. The transport of the SDK cancels them instead, so `printf ... | assay mcp` would print nothing.
func Stdio(in io.Reader, out io.Writer) mcp.Transport {
	return stdio{mcp.IOTransport{Reader: io.NopCloser(in), Writer: openWriter{out}}}
}

// openWriter is an io.WriteCloser whose Close does nothing.
type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

type stdio struct{ mcp.IOTransport }

// Connect implements mcp.Transport.
func (t stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &stdioConn{Connection: c, answered: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

type stdioConn struct {
	mcp.Connection
	pending  atomic.Int64  // requests without a response
	answered chan struct{} // has an element after a response

	close  sync.Once
	closed chan struct{}
}

// Read implements mcp.Connection.
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.pending.Add(1)
	}
	if errors.Is(err, io.EOF) {
		c.drain(ctx)
	}
	return m, err
}

// drain waits for the responses to pending requests.
func (c *stdioConn) drain(ctx context.Context) {
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	for c.pending.Load() > 0 {
		select {
		case <-c.answered:
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		case <-timeout.C:
			return
		}
	}
}

// Write implements mcp.Connection.
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.pending.Add(-1)
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// Close implements mcp.Connection.
func (c *stdioConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
