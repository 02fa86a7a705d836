// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"assay/internal/fair"
)

// fullInterval is the minimum time between two calls of Config.Full.
const fullInterval = time.Minute

// Config configures a Limiter.
type Config struct {
	Limit int // maximum open connections

	// Full, if set, is called when the limit is reached, at most once a minute, with the numbers of connections
	// closed and refused since the last call.
	Full func(closed, refused uint64)
}

// Limiter limits connections. It is safe for concurrent use.
type Limiter struct {
	cfg Config

	mu      sync.Mutex
	open    map[string]*Conn      // by remote address
	shares  *fair.Shares          // connections by organization
	conns   map[string]*list.List // of *Conn by organization, most recently used last
	unknown map[netip.Prefix]int  // connections without an organization, by fair.AddressOf
	answers *fair.Limiter         // bytes of large responses by organization
	paid    map[string]time.Time  // by key of a rate: when it has caught up with its requests and frames
	sweep   int                   // number of these keys at which the ones without a debt are forgotten
	ending  int                   // connections that were closed to make room, after their response
	closed  uint64                // to make room
	refused uint64                // for lack of room

	called                  time.Time // last call of cfg.Full
	closedThen, refusedThen uint64
}

// Conn is one connection. It is safe for concurrent use. A nil *Conn is a connection that is not counted; its methods
// do nothing. Read returns no data while a Write is in progress: a client that does not read responses cannot send
// more requests, which HTTP/2 servers would keep in memory.
type Conn struct {
	net.Conn
	limiter *Limiter
	peer    string // remote address
	address netip.Prefix
	framed  bool // its HTTP/2 side counts what is received; set after the handshake
	writing sync.Mutex

	gone  chan struct{} // closed with removed
	known chan struct{} // closed when the connection has its first organization

	plain    atomic.Bool  // serves HTTP/1.1
	handling atomic.Bool  // over HTTP/1.1: a handler runs
	between  atomic.Int64 // over HTTP/1.1: bytes received since the last request
	overhead atomic.Int64 // bytes received and not charged, without the content of bodies that a handler has read

	// Over HTTP/1.1.
	secure    *tls.Conn   // nil without TLS
	begun     atomic.Bool // the header of a request has arrived, and the request has not ended
	truncated atomic.Bool // the header had too many lines

	// Guarded by limiter.mu.
	organization string // that the connection counts for: of the last request with one; "" before it
	turned       bool   // over HTTP/1.1: the request has been charged in Turn
	first        bool   // its first request with an organization has not had its turn
	shared       bool   // requests of several organizations have used it
	payer        string // over HTTP/1.1: organization of the request in flight, or of the last one; "" if it has none yet
	owed         int    // over HTTP/1.1: by the next request without an organization
	responding   bool   // over HTTP/1.1: a response waits
	ending       bool   // counts in limiter.ending
	requests     int    // in flight
	place        *list.Element
	removed      bool
	paid         time.Time // when the connection's own rate has caught up
}

// New returns a Limiter without connections.
func New(cfg Config) *Limiter {
	return &Limiter{
		cfg: cfg, open: make(map[string]*Conn), shares: fair.NewShares(int64(cfg.Limit)), conns: make(map[string]*list.List), unknown: make(map[netip.Prefix]int),
		answers: fair.NewLimiter(maxAnswers), paid: make(map[string]time.Time),
	}
}

// Listener returns l with limited connections.
func (l *Limiter) Listener(of net.Listener) net.Listener { return &listener{of, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// exhausted marks an error of Accept as temporary: the system has no memory or no epoll watch for a connection. Servers
// retry after temporary errors and stop after other errors.
type exhausted struct{ error }

func (e exhausted) Unwrap() error { return e.error }
func (exhausted) Timeout() bool   { return false }
func (exhausted) Temporary() bool { return true }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS) {
			return nil, exhausted{err}
		}
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(smallAnswer) // otherwise up to megabytes of responses wait in it; fails if closed
		}
		if counted := l.limiter.add(c); counted != nil {
			return counted, nil
		}
	}
}

// Handler returns a handler that is Paced and marks the connections of its requests as in use. Responses above 64 KiB
// that clients have not read take at most about 256 MiB. An organization above its share gets status 503. Identify sets
// the organization of a request.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return l.Paced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := l.Begin(r.RemoteAddr)
		defer c.End()
		if c != nil {
			a := &answer{ResponseWriter: w, conn: c, head: r.Method == http.MethodHead}
			defer a.release()
			w = a
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connKey{}, c)))
	}))
}

type connKey struct{}

// Identify sets the organization of the request with this context, after its credential has been accepted, and waits for
// its turn like Conn.Turn. Outside of a Handler it does nothing.
func Identify(ctx context.Context, organization string) error {
	c, _ := ctx.Value(connKey{}).(*Conn)
	c.Identify(organization)
	return c.Turn(ctx, organization)
}

// Begin begins a request on the connection with the given remote address and returns the connection, or nil. End ends
// the request.
func (l *Limiter) Begin(remoteAddr string) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[remoteAddr]
	if c != nil {
		c.use(1)
	}
	return c
}

// Requests returns the number of requests in flight on the connection, 0 for a nil *Conn.
func (c *Conn) Requests() int {
	if c == nil {
		return 0
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	return c.requests
}

// End ends a request on the connection.
func (c *Conn) End() {
	if c == nil {
		return
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.use(-1)
}

// Identify sets the organization of the request in flight.
func (c *Conn) Identify(organization string) {
	if c == nil {
		return
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.payer = organization
	if c.organization == organization || c.removed {
		return
	}
	if c.organization == "" {
		close(c.known)
		c.first = true
	} else {
		c.shared = true
	}
	c.limiter.leave(c)
	c.organization = organization
	c.limiter.join(c)
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		switch {
		case c.plain.Load():
			// The new bytes may be content that a handler is reading.
			if n := int64(max(n, fewBytes)); c.overhead.Add(n)-n <= maxAhead {
				break
			}
			if c.handling.Load() || c.between.Add(maxAhead) > maxBetween {
				c.pace(c.received(), nil)
			} else {
				c.late(0)
			}
		case !c.framed && !c.identified():
			c.pace(readCost+n/readPart, nil)
		}
		c.writing.Lock()   // wait for the Write in progress
		c.writing.Unlock() //nolint:staticcheck // the critical section is empty
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.Conn.Write(p)
	if tcp, ok := c.Conn.(*net.TCPConn); ok && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = tcp.SetLinger(0) // otherwise the system would keep the rest for a client that does not read it
	}
	return n, err
}

// CloseWrite ends the sending side. Servers call it before Close, so that clients can read a response to a request that was
// not read to its end.
func (c *Conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	if c.ending {
		c.ending = false
		c.limiter.ending--
	}
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// Stats returns the number of open connections, and the numbers of connections closed and refused at the limit since
// the start: closed ones made room for new ones, and refused ones found no connection to close.
func (l *Limiter) Stats() (open int, closed, refused uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.shares.Total()), l.closed, l.refused
}

// CloseAll closes all open connections.
func (l *Limiter) CloseAll() {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.open))
	l.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // the client may have closed it
	}
}

// add counts a connection. If there is no room, it closes the connection and returns nil.
func (l *Limiter) add(of net.Conn) *Conn {
	c := &Conn{
		Conn: of, limiter: l, peer: of.RemoteAddr().String(), address: fair.AddressOf(of.RemoteAddr().String()), gone: make(chan struct{}), known: make(chan struct{}),
	}
	l.mu.Lock()
	var evicted *Conn
	organization, full := l.shares.GivesWay("", 1)
	if full {
		if evicted = l.loser(organization); evicted == nil {
			l.refused++
			evicted, c = c, nil
		} else {
			l.closed++
			l.remove(evicted)
			if evicted.responding && l.ending < l.cfg.Limit/8 {
				evicted.ending = true
				l.ending++
				evicted = nil // the response closes the connection
			}
		}
	}
	if c != nil {
		l.open[c.peer] = c
		l.join(c)
	}
	report := l.report(full)
	l.mu.Unlock()
	if evicted != nil {
		_ = evicted.Conn.Close() // the client may have closed it
	}
	report()
	return c
}

// report returns the pending call of Config.Full, or a no-op. Call it without the lock.
func (l *Limiter) report(full bool) func() {
	if !full || l.cfg.Full == nil || !l.called.IsZero() && time.Since(l.called) < fullInterval {
		return func() {}
	}
	closed, refused := l.closed-l.closedThen, l.refused-l.refusedThen
	l.called, l.closedThen, l.refusedThen = time.Now(), l.closed, l.refused
	return func() { l.cfg.Full(closed, refused) }
}

// loser returns the connection to close for a new one of organization, or nil.
func (l *Limiter) loser(organization string) *Conn {
	conns := l.conns[organization]
	if conns == nil {
		// There are at least as many organizations as connections. Close an idle connection of any.
		for _, conns := range l.conns {
			if c := idle(conns); c != nil {
				return c
			}
		}
		return nil
	}
	if organization == "" {
		// Do not prefer an idle connection: it may be new, while older ones wait for bodies that never end.
		most := 0
		for _, n := range l.unknown {
			most = max(most, n)
		}
		at := conns.Front()
		for l.unknown[at.Value.(*Conn).address] < most {
			at = at.Next()
		}
		return at.Value.(*Conn)
	}
	c := idle(conns)
	if c == nil || c.shared {
		for at := conns.Back(); at != nil; at = at.Prev() {
			if own := at.Value.(*Conn); !own.shared {
				return own
			}
		}
	}
	if c == nil {
		c = conns.Back().Value.(*Conn)
	}
	return c
}

// idle returns the least recently used connection without a request, or nil. It returns a connection that several
// organizations have used, such as that of a proxy, only if there is no other: the next request on it may be another's.
func idle(conns *list.List) *Conn {
	var shared *Conn
	for at := conns.Front(); at != nil; at = at.Next() {
		switch c := at.Value.(*Conn); {
		case c.requests > 0:
		case !c.shared:
			return c
		case shared == nil:
			shared = c
		}
	}
	return shared
}

func (c *Conn) use(requests int) {
	c.requests += requests
	if !c.removed {
		c.limiter.conns[c.organization].MoveToBack(c.place)
	}
}

// join counts a connection for its organization.
func (l *Limiter) join(c *Conn) {
	conns := l.conns[c.organization]
	if conns == nil {
		conns = list.New()
		l.conns[c.organization] = conns
	}
	c.place = conns.PushBack(c)
	l.shares.Add(c.organization, 1)
	if c.organization == "" {
		l.unknown[c.address]++
	}
}

func (l *Limiter) leave(c *Conn) {
	conns := l.conns[c.organization]
	if conns.Remove(c.place); conns.Len() == 0 {
		delete(l.conns, c.organization)
	}
	l.shares.Add(c.organization, -1)
	if c.organization != "" {
		return
	}
	if l.unknown[c.address]--; l.unknown[c.address] == 0 {
		delete(l.unknown, c.address)
	}
}

// remove stops counting a connection.
func (l *Limiter) remove(c *Conn) {
	if c.removed {
		return
	}
	c.removed = true
	close(c.gone)
	l.leave(c)
	if l.open[c.peer] == c {
		delete(l.open, c.peer)
	}
}
