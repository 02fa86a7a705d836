// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net/http"
	"runtime"
	"time"
)

// Clients of HTTP/1.1 can send requests, and those of HTTP/2 also frames that ask for an answer, without waiting for
// responses. Some tens of connections that send them faster than the server can refuse them would take the processors
// from all other clients. So each organization has a rate on all its connections together, and the connections without
// an organization share one. Two processors that do nothing else handle 10,000 small requests a second, which is less
// than the rate of an organization.
const (
	rate          = 1 << 20               // cost a second, for each processor
	anonymousRate = rate / 8              // of the connections without an organization
	burst         = 50 * time.Millisecond // of these rates
	requestCost   = 128                   // of a request over HTTP/1.1
	frameCost     = 32                    // of an HTTP/2 frame, in addition to its bytes
	headersCost   = requestCost - frameCost
	free          = 2 << 10 // cost of a connection without an organization that is not charged to anonymousRate
)

// Paced returns a handler for HTTP/1.1 that delays requests above the rate of their organization, 8,192 requests a
// second for each processor. Connections without an organization share a rate of 1,024; the first 16 requests of each
// do not wait.
func (l *Limiter) Paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		c := l.open[r.RemoteAddr]
		l.mu.Unlock()
		if c != nil {
			c.pace(requestCost, r.Context().Done())
		}
		next.ServeHTTP(w, r)
	})
}

// pace charges a cost and waits until the rate of the organization allows it. It returns early when the connection is
// closed, when its first request is identified and when done is closed.
func (c *Conn) pace(cost int, done <-chan struct{}) {
	if cost == 0 {
		return
	}
	wait := c.limiter.pay(c, cost)
	if wait <= 0 {
		return
	}
	turn := time.NewTimer(wait)
	defer turn.Stop()
	known := c.known
	if c.identity() != "" {
		known = nil
	}
	select {
	case <-turn.C:
	case <-known:
	case <-c.gone:
	case <-done:
	}
}

// pay charges a cost to the organization of a connection and returns how long the connection has to wait.
func (l *Limiter) pay(c *Conn, cost int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	perSecond := rate
	if c.organization == "" {
		if c.free -= cost; c.free >= 0 {
			return 0
		}
		c.free, perSecond = 0, anonymousRate
	}
	now := time.Now()
	paid := l.paid[c.organization]
	if earliest := now.Add(-burst); paid.Before(earliest) {
		paid = earliest
	}
	paid = paid.Add(time.Duration(cost) * time.Second / time.Duration(perSecond*runtime.GOMAXPROCS(0)))
	l.paid[c.organization] = paid
	return paid.Sub(now)
}

// identity returns the organization of the last request, "" before the first one.
func (c *Conn) identity() string {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	return c.organization
}
