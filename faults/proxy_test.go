// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"bufio"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is a server that returns the bytes that it receives, and records them.
type echo struct {
	address string
	mu      sync.Mutex
	got     strings.Builder
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{address: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { e.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return e
}

func (e *echo) serve(c net.Conn) {
	defer c.Close()
	for buffer := make([]byte, 1<<10); ; {
		n, err := c.Read(buffer)
		e.mu.Lock()
		e.got.Write(buffer[:n])
		e.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := c.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (e *echo) heard() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got.String()
}

func newProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := NewProxy()
	require.NoError(t, err)
	t.Cleanup(p.Close)
	p.SetTarget(target)
	return p
}

// client is a connection through a proxy.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dial(t *testing.T, p *Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return client{c, t, bufio.NewReader(c)}
}

func (c client) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

func (c client) hear(line string) {
	c.t.Helper()
	got, err := c.r.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, line+"\n", got)
}

// over checks that the connection was reset, and returns the bytes received before.
func (c client) over() string {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	require.Error(c.t, err)
	require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "the connection is still open")
	return string(rest)
}

// requireRefused checks that a new connection is reset, during or after connecting.
func requireRefused(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		return
	}
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	client{c, t, bufio.NewReader(c)}.over()
}

func TestProxyPasses(t *testing.T) {
	e := newEcho(t)
	p := newProxy(t, e.address)
	one, two := dial(t, p), dial(t, p)
	one.say("a")
	one.hear("a")
	two.say("b")
	two.hear("b")

	p.Cut()
	one.over()
	two.over()
	three := dial(t, p)
	three.say("c")
	three.hear("c")

	p.Refuse()
	three.over()
	requireRefused(t, p)
	p.Restore()
	four := dial(t, p)
	four.say("d")
	four.hear("d")

	p.SetTarget("")
	requireRefused(t, p)
	four.say("e")
	four.hear("e")
	require.NoError(t, four.Conn.(*net.TCPConn).CloseWrite())
	_, err := four.r.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the proxy forwards a half-close")
}

// TestProxyHolds checks that bytes sent while traffic is held arrive late and complete.
func TestProxyHolds(t *testing.T) {
	e := newEcho(t)
	p := newProxy(t, e.address)
	c := dial(t, p)
	c.say("a")
	c.hear("a")
	p.Hold()
	c.say("b")
	held := dial(t, p)
	held.say("c")
	require.Equal(t, "a\n", e.heard())
	p.Restore()
	c.hear("b")
	held.hear("c")

	p.Hold()
	c.say("d")
	p.Cut()
	c.over()
	p.Restore()
	p.Delay(time.Millisecond)
	slow := dial(t, p)
	slow.say("e")
	slow.hear("e")
	require.NotContains(t, e.heard(), "d", "the bytes were in flight when the connection was cut")
}

func TestProxyCutsOnce(t *testing.T) {
	e := newEcho(t)
	p := newProxy(t, e.address)
	c := dial(t, p)
	cut := p.CutOnce(Cut{After: []byte("commit"), Answer: true})
	c.say("begin")
	c.hear("begin")
	c.say("commit 1")
	require.Empty(t, c.over())
	<-cut
	require.Equal(t, "begin\ncommit 1\n", e.heard(), "the server has received it")

	cut = p.CutOnce(Cut{Pass: 3})
	c = dial(t, p)
	c.say("commit 2")
	require.True(t, strings.HasPrefix("com", c.over()), "the server may have echoed the bytes that passed")
	<-cut

	c = dial(t, p)
	c.say("commit 3")
	c.hear("commit 3")
	require.NotContains(t, e.heard(), "commit 2")
}
