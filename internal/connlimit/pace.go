// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net/http"
	"runtime"
	"time"
)

// Clients can send requests without waiting for responses, and HTTP/2 clients also control frames that the server has to
// answer. A few dozen such connections could keep all processors busy. Therefore, each organization has a rate limit
// across its connections, and the connections without an organization share one. An idle server with two processors
// handles 10,000 small requests a second, which is below the limit of an organization.
const (
	rate          = 1 << 20               // cost a second, for each processor
	anonymousRate = rate / 8              // of the connections without an organization
	burst         = 50 * time.Millisecond // of these rates
	maxWait       = 5 * time.Second       // further cost is dropped, so that a flood delays no request after its end
	requestCost   = 128                   // of a request over HTTP/1.1
	lineCost      = 1                     // of a line of its header
	frameCost     = 32                    // of an HTTP/2 frame, in addition to its bytes
	headersCost   = requestCost - frameCost
	readCost      = 16      // of a read without an organization
	free          = 4 << 10 // cost that a connection may have without an organization before it shares the rate
)

// Parts of the bytes that count.
const (
	headerPart = 16 // of the header of a request over HTTP/1.1
	framePart  = 8  // of a HEADERS frame
	readPart   = 32 // of a read without an organization
)

// Paced returns a handler for HTTP/1.1 that delays requests while the organization of their connection, or the
// connections without an organization, have sent more than their rate: up to 8,192 requests a second for each
// processor, or 1,024, and fewer with long headers. The first requests of a connection do not wait.
func (l *Limiter) Paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		c := l.open[r.RemoteAddr]
		l.mu.Unlock()
		cost := requestCost
		for name, values := range r.Header {
			for _, value := range values {
				cost += lineCost + (len(name)+len(value))/headerPart
			}
		}
		if c != nil {
			c.pace(cost, r.Context().Done())
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
	wait, known := c.limiter.pay(c, cost)
	if wait <= 0 {
		return
	}
	turn := time.NewTimer(wait)
	defer turn.Stop()
	select {
	case <-turn.C:
	case <-known:
	case <-c.gone:
	case <-done:
	}
}

// pay charges a cost to the organization of a connection. It returns how long the connection has to wait, and the
// channel whose close ends the wait early, nil for a connection with an organization.
func (l *Limiter) pay(c *Conn, cost int) (wait time.Duration, known <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	perSecond := rate
	if c.organization == "" {
		if c.free -= cost; c.free >= 0 {
			return 0, nil
		}
		c.free, perSecond, known = 0, anonymousRate, c.known
	}
	now := time.Now()
	paid := l.paid[c.organization]
	if earliest := now.Add(-burst); paid.Before(earliest) {
		paid = earliest
	}
	paid = paid.Add(time.Duration(cost) * time.Second / time.Duration(perSecond*runtime.GOMAXPROCS(0)))
	if latest := now.Add(maxWait); paid.After(latest) {
		paid = latest
	}
	l.paid[c.organization] = paid
	return paid.Sub(now), known
}

// identity returns the organization of the last request, "" before the first one.
func (c *Conn) identity() string {
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	return c.organization
}
