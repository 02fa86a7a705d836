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
