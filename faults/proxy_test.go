// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dialTimeout is the timeout for connecting to the target.
const dialTimeout = 5 * time.Second

// Proxy is a TCP proxy on 127.0.0.1 that simulates network faults. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	target   string        // "": reset connections
	refusing bool          // reset connections
	delay    time.Duration // delay of every chunk
	held     chan struct{} // closed when traffic resumes; nil if it is not held
	armed    []*Cut
	links    map[*link]struct{}
}

// Cut describes the byte at which a connection is cut.
type Cut struct {
	After  []byte // cut only a connection whose client has sent this; nil: any
	Pass   int    // number of bytes to pass before the cut
	Answer bool   // count bytes of the server's response, not of the client
	done   chan struct{}
}

// NewProxy starts a proxy that resets all connections until it has a target.
func NewProxy() (*Proxy, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	p := &Proxy{listener: l, ctx: ctx, cancel: cancel, links: make(map[*link]struct{})}
	p.running.Go(p.accept)
	return p, nil
}

// Address returns the address to connect to.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close resets all connections and stops the proxy.
func (p *Proxy) Close() {
	p.cancel()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// SetTarget sets the target of new connections. With "" they are reset.
func (p *Proxy) SetTarget(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = address
}

// Cut resets all connections and accepts new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Refuse resets all connections, existing and new, until Restore.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refusing = true
	p.mu.Unlock()
	p.Cut()
}

// Hold stops all traffic silently until Restore. Held bytes are then delivered late, as after a network
// outage that TCP survives.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Delay delays every chunk until Restore.
func (p *Proxy) Delay(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Restore ends Refuse, Hold and Delay.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing, p.delay = false, 0
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// CutOnce cuts the first connection that matches c. The returned channel is closed after the cut.
func (p *Proxy) CutOnce(c Cut) <-chan struct{} {
	c.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, &c)
	return c.done
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // the client has disconnected
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	if p.refusing {
		target = ""
	}
	p.mu.Unlock()
	l := &link{proxy: p, client: client, ended: make(chan struct{})}
	defer l.reset()
	if target == "" {
		return
	}
	// Delay connecting, too, while traffic is held.
	if !p.pass(l) {
		return
	}
	d := net.Dialer{Timeout: dialTimeout}
	server, err := d.DialContext(p.ctx, "tcp", target)
	if err != nil {
		return
	}
	l.server = server
	p.mu.Lock()
	closing := p.ctx.Err() != nil
	p.links[l] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	if closing {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(client, server, false) })
	both.Go(func() { l.pump(server, client, true) })
	both.Wait()
}

// pass waits until traffic may pass. It returns false if the link ends before.
func (p *Proxy) pass(l *link) bool {
	for {
		p.mu.Lock()
		held, delay := p.held, p.delay
		p.mu.Unlock()
		var late <-chan time.Time
		switch {
		case held != nil:
		case delay > 0:
			late = time.After(delay)
		default:
			return p.ctx.Err() == nil
		}
		select {
		case <-held: // a delay may follow
		case <-late:
			return p.ctx.Err() == nil
		case <-l.ended:
			return false
		case <-p.ctx.Done():
			return false
		}
	}
}

// takeCut removes and returns the first armed cut that matches chunk.
func (p *Proxy) takeCut(chunk []byte) *Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.armed {
		if c.After == nil || bytes.Contains(chunk, c.After) {
			p.armed = append(p.armed[:i:i], p.armed[i+1:]...)
			return c
		}
	}
	return nil
}

// link is a client's connection and the connection to the target.
type link struct {
	proxy          *Proxy
	client, server net.Conn // server is nil until it is connected

	once  sync.Once
	ended chan struct{}

	mu         sync.Mutex
	pendingCut *Cut // cut to apply to the next response
}

// reset resets both connections. Bytes in flight are lost.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.ended)
		for _, c := range []net.Conn{l.client, l.server} {
			if t, ok := c.(*net.TCPConn); ok && t != nil {
				_ = t.SetLinger(0) // it may be closed already
				_ = t.Close()
			}
		}
	})
}

// pump copies bytes in one direction until one side ends or the link is cut.
func (l *link) pump(from, to net.Conn, answer bool) {
	chunk := make([]byte, 16<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			if !l.proxy.pass(l) || !l.move(to, chunk[:n], answer) {
				l.reset()
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF): // the other direction continues
			if t, ok := to.(*net.TCPConn); ok {
				_ = t.CloseWrite() // it may be closed already
			}
			return
		default:
			l.reset()
			return
		}
	}
}

// move writes a chunk, or the part of it that a cut lets pass. It returns false when the link must be reset.
func (l *link) move(to net.Conn, chunk []byte, answer bool) bool {
	var cut *Cut
	if answer {
		l.mu.Lock()
		cut = l.pendingCut
		l.mu.Unlock()
	} else if c := l.proxy.takeCut(chunk); c != nil {
		if c.Answer {
			l.mu.Lock()
			l.pendingCut = c // before the server receives the request
			l.mu.Unlock()
		} else {
			cut = c
		}
	}
	if cut == nil {
		_, err := to.Write(chunk)
		return err == nil
	}
	_, _ = to.Write(chunk[:min(cut.Pass, len(chunk))]) // the peer may have disconnected
	close(cut.done)
	return false
}

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
