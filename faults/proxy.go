// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds how long a proxy looks for its target.
const dialTimeout = 5 * time.Second

// Proxy is a TCP proxy on 127.0.0.1 that does to connections what networks do. It may
// be used concurrently.
type Proxy struct {
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	target string        // "": connections are reset at once
	away   bool          // so are they meanwhile
	delay  time.Duration // of every piece
	held   chan struct{} // closed when bytes move again; nil: they move
	armed  []*Cut
	links  map[*link]struct{}
}

// Cut says at which byte a connection is to be cut.
type Cut struct {
	After  []byte // what the client has to have sent before; nil: anything
	Pass   int    // bytes that pass then, before the cut
	Answer bool   // they are of the server's answer, and not the client's own
	done   chan struct{}
}

// NewProxy starts a proxy that resets everything until it has a target.
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

// Address returns where clients connect to.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends all connections and the proxy.
func (p *Proxy) Close() {
	p.cancel()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// SetTarget says where new connections go: "" for nowhere, which resets them.
func (p *Proxy) SetTarget(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = address
}

// Cut resets all connections. New ones pass.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Refuse resets all connections and new ones, until Restore.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.away = true
	p.mu.Unlock()
	p.Cut()
}

// Hold moves no more bytes, without a word to anybody, until Restore: then they
// arrive late, as after a break in a network that TCP outlives.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// Delay has every piece take longer, until Restore.
func (p *Proxy) Delay(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Restore has everything pass again.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away, p.delay = false, 0
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// CutOnce cuts the first connection for which c comes true. The channel is closed
// when that has happened.
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
			continue // that one is gone
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	if p.away {
		target = ""
	}
	p.mu.Unlock()
	l := &link{proxy: p, client: client, ended: make(chan struct{})}
	defer l.reset()
	if target == "" {
		return
	}
	// A connection is not made while nothing moves.
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

// pass waits until bytes may move; false when the link has ended before.
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

// take returns the first cut that is due, and takes it away: one in the client's
// bytes, or one in the answer to them.
func (p *Proxy) take(piece []byte) *Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.armed {
		if c.After == nil || bytes.Contains(piece, c.After) {
			p.armed = append(p.armed[:i:i], p.armed[i+1:]...)
			return c
		}
	}
	return nil
}

// link is a client's connection and that to the target.
type link struct {
	proxy          *Proxy
	client, server net.Conn // server is nil before there is one

	once  sync.Once
	ended chan struct{}

	mu     sync.Mutex
	doomed *Cut // in the next answer
}

// reset ends both connections as a crash would, without a word on what was under way.
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

// pump moves bytes one way until one side ends or the link is cut.
func (l *link) pump(from, to net.Conn, answer bool) {
	piece := make([]byte, 16<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if !l.proxy.pass(l) || !l.move(to, piece[:n], answer) {
				l.reset()
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF): // the other way goes on
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

// move writes a piece, or as much of it as a cut lets pass; false when the link is to
// be reset.
func (l *link) move(to net.Conn, piece []byte, answer bool) bool {
	var cut *Cut
	if answer {
		l.mu.Lock()
		cut = l.doomed
		l.mu.Unlock()
	} else if c := l.proxy.take(piece); c != nil {
		if c.Answer {
			l.mu.Lock()
			l.doomed = c // before the server has the question
			l.mu.Unlock()
		} else {
			cut = c
		}
	}
	if cut == nil {
		_, err := to.Write(piece)
		return err == nil
	}
	_, _ = to.Write(piece[:min(cut.Pass, len(piece))]) // it may be gone before
	close(cut.done)
	return false
}
