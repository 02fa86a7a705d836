// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"assay"
	"assay/internal/fair"
)

// Clients can send requests without waiting for responses, and HTTP/2 clients also control frames that the server has to
// answer. A few dozen such connections could keep all processors busy. Therefore, each organization has a rate limit
// across its connections, and the connections without an organization share one. A server with two processors that does
// nothing else handles 10,000 small requests a second, some more than the limit of an organization.
const (
	rate          = 1 << 19               // cost a second, for each processor
	anonymousRate = rate / 8              // of the connections without an organization
	burst         = 50 * time.Millisecond // of these rates
	requestCost   = 128                   // of a request over HTTP/1.1
	lineCost      = 1                     // of a line of its header
	frameCost     = 32                    // of an HTTP/2 frame, in addition to its bytes
	headersCost   = requestCost - frameCost
	connCost      = 1024 // of a connection over HTTP/2 with its first request of an organization: the cost that is free on a new one
	readCost      = 16   // of a read without an organization, or of few bytes over HTTP/2
	fewBytes      = 256  // that a read over HTTP/1.1 counts as at least
)

// A connection over HTTP/2, or without an organization, has a small rate of its own. Within this rate, it does not
// wait for other connections. Examples are a client that is about to send a credential, a probe every two seconds, and
// another organization behind the same proxy. The burst is enough for the handshake of TLS and a first request with a
// header of 3 KiB.
const (
	ownRate   = 128             // cost a second
	ownBurst  = 6 * time.Second // of this rate
	renewFrom = 2 * time.Second // of this rate, see Conn.renew
)

// Parts of the bytes that count.
const (
	headerPart  = 16  // of bytes received over HTTP/1.1, except content that a handler reads, and of a HEADERS frame
	readPart    = 32  // of a read without an organization
	contentPart = 128 // of content that a handler reads, which counts like a header
)

// Paced returns a handler for HTTP/1.1 that limits the rate of requests: up to 4,096 a second of an organization for each
// processor, or 512 of the connections without one, and fewer with long headers, small chunks, or bodies that next does
// not read. Requests wait in Turn, or their responses begin later. Without an organization, the first of a connection do not.
func (l *Limiter) Paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		c := l.open[r.RemoteAddr]
		l.mu.Unlock()
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		if c.plain.Swap(true) {
			c.late(usualHeader)
		}
		c.begin()
		defer c.handling.Store(false)
		lines := 0
		for _, values := range r.Header {
			lines += len(values)
		}
		if c.secure != nil {
			state := c.secure.ConnectionState()
			r.TLS = &state
		}
		if r.Body != nil && r.Body != http.NoBody {
			body := r.Body
			r = r.WithContext(r.Context()) // the server keeps the original body
			r.Body = content{body, c}
		}
		// The request does not wait, or pay, for the organization of the one before it: on the connection of a proxy that
		// may have been another one, or none.
		p := &paced{ResponseWriter: w, conn: c, cost: lines * lineCost, ctx: r.Context()}
		defer p.end()
		if c.truncated.Load() {
			p.cost += connCost // more than is free on a new connection
			w.Header().Set("Connection", "close")
			http.Error(p, "the header has too many lines", http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		next.ServeHTTP(p, r)
	})
}

// paced is a ResponseWriter that settles the request before the response begins: a client that has all of a response may
// send the next request, which must not wait for this one.
//
// The response closes the connection if the client has stopped sending, because requests that it has sent before would not
// wait, and if the connection has been evicted.
type paced struct {
	http.ResponseWriter
	conn    *Conn
	cost    int
	ctx     context.Context // of the request
	settled bool
}

// Unwrap is for http.ResponseController.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *paced) WriteHeader(status int) {
	if status >= http.StatusOK {
		p.settle()
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *paced) Write(b []byte) (int, error) {
	p.settle()
	return p.ResponseWriter.Write(b)
}

func (p *paced) settle() {
	if !p.settled {
		p.settled = true
		evicted := p.conn.settle(p.cost, p.ctx.Done())
		if evicted {
			_ = p.conn.SetDeadline(time.Now().Add(maxEnding)) // it may be closed
		}
		if evicted || p.ctx.Err() != nil {
			p.Header().Set("Connection", "close")
		}
	}
}

// end settles the request, or charges the bytes that have arrived since.
func (p *paced) end() {
	p.settle()
	p.conn.late(0)
}

// maxEnding is the time for the response on an evicted connection, and for reading the rest of the request's body.
const maxEnding = time.Second

// Turn waits until the rate of an organization allows a request in flight. It returns an error with CodeUnavailable when
// ctx ends or the connection is closed before.
func (c *Conn) Turn(ctx context.Context, organization string) error {
	if c == nil {
		return nil
	}
	if wait, refund := c.limiter.charge(c, organization); c.wait(wait, nil, ctx.Done(), refund) {
		return nil
	}
	return &assay.Error{Code: assay.CodeUnavailable, Message: "the organization sends too many requests", Err: ctx.Err()}
}

// charge charges a request in flight to an organization. It returns how long to wait and a function that refunds the
// charge. Over HTTP/2, reads have already waited for the request, except for the first request of a connection and requests
// on connections that several organizations have used.
func (l *Limiter) charge(c *Conn, organization string) (wait time.Duration, refund func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := c.first
	c.first = false
	switch {
	case c.plain.Load():
		c.turned = true
		return l.chargeTo(organization, requestCost, rate)
	case first:
		return l.chargeTo(organization, connCost, rate)
	case c.shared:
		return l.chargeTo(organization, headersCost, rate)
	}
	return 0, nil
}

// content is the body of a request over HTTP/1.1.
type content struct {
	io.ReadCloser
	conn *Conn
}

// Read implements io.Reader.
func (b content) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.conn.overhead.Add(int64(n/contentPart - n))
	return n, err
}

// maxAhead is the number of bytes that a connection can receive before the handler reads them: a record of TLS and the buffers
// of readers.
const maxAhead = 32 << 10

// settle charges a request over HTTP/1.1 before its response. A request that has waited in Turn does not wait again.
// Other requests wait now. It reports whether the connection has been evicted.
func (c *Conn) settle(cost int, done <-chan struct{}) (evicted bool) {
	cost += c.received()
	c.limiter.mu.Lock()
	turned := c.turned
	if c.payer == "" {
		cost, c.owed = cost+c.owed, 0
	}
	c.responding = true
	c.limiter.mu.Unlock()
	if turned {
		c.limiter.pay(c, cost)
	} else {
		c.pace(requestCost+cost, done)
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.responding = false
	return c.removed
}

// begin begins a request over HTTP/1.1.
func (c *Conn) begin() {
	c.begun.Store(true)
	c.handling.Store(true)
	c.between.Store(0)
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.payer, c.turned = "", false
}

// Bytes received between two requests over HTTP/1.1.
const (
	usualHeader = 8 << 10   // up to which they are taken for the header of the second
	maxBetween  = 320 << 10 // that wait for nothing: net/http reads 256 KiB of a body that the handler has not read
)

// late charges the bytes received over HTTP/1.1 after the response to a request, such as the rest of its body, beyond some
// bytes of the next request. It does not wait: the next request may be of another organization. Without an
// organization, the next request of that kind pays.
func (c *Conn) late(next int64) {
	bytes := c.overhead.Load() - next
	if bytes <= 0 {
		return
	}
	c.overhead.Add(-bytes)
	cost := int(bytes / headerPart)
	l := c.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.payer == "" {
		c.owed += cost
	} else {
		l.chargeTo(c.payer, cost, rate)
	}
}

// received returns the cost of the bytes that a connection has received over HTTP/1.1 besides the content of bodies, such as
// headers, the lines between chunks, and the bodies of refused requests.
func (c *Conn) received() int {
	if c.overhead.Load() <= 0 {
		return 0
	}
	return int(c.overhead.Swap(0) / headerPart)
}

// pace charges a cost and waits until the rate of the organization allows it. It returns early when the connection is
// closed, when its first request is identified and when done is closed.
func (c *Conn) pace(cost int, done <-chan struct{}) {
	if cost <= 0 {
		return
	}
	wait, known, refund := c.limiter.pay(c, cost)
	c.wait(wait, known, done, refund)
}

// wait waits for a duration and returns true. When one of the channels or the connection is closed before, it calls refund
// and returns false.
func (c *Conn) wait(wait time.Duration, known, done <-chan struct{}, refund func()) bool {
	if wait <= 0 {
		return true
	}
	turn := time.NewTimer(wait)
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-known:
	case <-c.gone:
	case <-done:
	}
	refund()
	return false
}

// renew ends a call over HTTP/2 on a connection without an organization. If the connection has used a third of its own
// burst, renew charges the used part to all connections without an organization, waits for their rate, and restores the
// burst. So a call without a valid credential delays itself, and not the next call on the connection of a proxy.
func (c *Conn) renew() {
	if c.identified() {
		return
	}
	l := c.limiter
	l.mu.Lock()
	used := ownBurst - max(0, time.Since(c.paid))
	if used < renewFrom {
		l.mu.Unlock()
		return
	}
	wait, refund := l.chargeTo("", int(used*ownRate/time.Second), anonymousRate)
	c.paid = time.Time{}
	l.mu.Unlock()
	c.wait(wait, c.known, nil, refund)
}

// pay charges a cost to the organization of a connection, or over HTTP/1.1 to the organization of its request. It
// returns how long the connection has to wait, a channel whose close ends the wait early, or nil, and a function that
// refunds the charge. A connection waits for one charge at a time, so other connections wait at most for one read of each.
func (l *Limiter) pay(c *Conn, cost int) (wait time.Duration, known <-chan struct{}, refund func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, perSecond, organization := time.Now(), rate, c.organization
	switch {
	case c.plain.Load():
		organization = c.payer
	case c.shared:
		organization = sharedConns + fair.AddressOf(c.peer).String()
	}
	anonymous := organization == ""
	if anonymous {
		perSecond = anonymousRate
		if !c.plain.Load() {
			known = c.known
		}
	}
	if anonymous || !c.plain.Load() {
		if paid := charge(c.paid, now, cost, ownRate, ownBurst); !paid.After(now) {
			c.paid = paid
			return 0, nil, nil
		}
	}
	wait, refund = l.chargeTo(organization, cost, perSecond)
	return wait, known, refund
}

// sharedConns and an address are the key of the rate of connections over HTTP/2 that several organizations have used.
const sharedConns = "shared "

// maxWait is the longest wait. A connection waits for one request or read at a time, so thousands of them cause little
// work even if none waits for longer.
const maxWait = 3 * time.Second

// chargeTo charges a cost to the rate with a key, for each processor. It returns how long to wait and a function that refunds
// the charge. The caller holds the lock.
func (l *Limiter) chargeTo(key string, cost, perSecond int) (wait time.Duration, refund func()) {
	now := time.Now()
	l.forget(now)
	perSecond *= runtime.GOMAXPROCS(0)
	before := charge(l.paid[key], now, 0, perSecond, burst)
	paid := before.Add(duration(cost, perSecond))
	if wait = paid.Sub(now); wait > maxWait {
		paid = now.Add(maxWait)
		wait = maxWait/2 + rand.N(maxWait/2) // otherwise all waits would end together
	}
	l.paid[key] = paid
	return wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.paid[key] = l.paid[key].Add(before.Sub(paid))
	}
}

// forget deletes the rates without a debt when there are twice as many rates as after the last time.
func (l *Limiter) forget(now time.Time) {
	if len(l.paid) < l.sweep {
		return
	}
	maps.DeleteFunc(l.paid, func(_ string, paid time.Time) bool { return paid.Before(now.Add(-burst)) })
	l.sweep = 2*len(l.paid) + 100
}

// charge returns when a rate will have caught up with a further cost, given when it has caught up with the previous
// ones.
func charge(paid, now time.Time, cost, perSecond int, burst time.Duration) time.Time {
	if earliest := now.Add(-burst); paid.Before(earliest) {
		paid = earliest
	}
	return paid.Add(duration(cost, perSecond))
}

func duration(cost, perSecond int) time.Duration {
	return time.Duration(cost) * time.Second / time.Duration(perSecond)
}

// identified reports whether the connection has had an organization.
func (c *Conn) identified() bool {
	select {
	case <-c.known:
		return true
	default:
		return false
	}
}
