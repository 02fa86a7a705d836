// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

// crowdedInterval is how often it is logged that connections are at their limit.
const crowdedInterval = time.Minute

// connections are those of one transport, of which there is a limit. Whoever comes when
// it is reached takes the place of a connection without a request: of the organization
// that has the most, the one that was idle for longest. Those on which no credential was
// accepted so far count for one organization, so that whoever opens connections without
// end, with a key or without, closes his own.
type connections struct {
	transport Transport
	most      int
	log       *slog.Logger

	mu      sync.Mutex
	count   int
	open    map[string]*conn      // by the address of the other side
	shares  map[string]*list.List // of *conn by organization, what was used last at the end
	closed  uint64                // to make room
	refused uint64                // for want of room

	logged              time.Time
	closedThen, refThen uint64
}

// conn is one connection. Its methods may be called of nil, which is one that nobody
// counts.
type conn struct {
	net.Conn
	all *connections
	key string // address of the other side

	// Guarded by all.mu.
	organization string // that sent the last request; "" before the first one
	requests     int    // under way
	place        *list.Element
	gone         bool
}

func newConnections(t Transport, most int, log *slog.Logger) *connections {
	return &connections{transport: t, most: most, log: log, open: make(map[string]*conn), shares: make(map[string]*list.List)}
}

// listener accepts connections that are counted.
type listener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.all.add(c); counted != nil {
			return counted, nil
		}
	}
}

// add counts a connection, or closes it where there is no room and returns nil.
func (s *connections) add(of net.Conn) *conn {
	c := &conn{Conn: of, all: s, key: of.RemoteAddr().String()}
	s.mu.Lock()
	var out *conn
	if s.count >= s.most {
		out = s.idlest()
		if out == nil {
			s.refused++
			out, c = c, nil
		} else {
			s.closed++
			s.remove(out)
		}
	}
	if c != nil {
		s.count++
		s.open[c.key] = c
		s.join(c)
	}
	tell := s.crowded(out != nil)
	s.mu.Unlock()
	if out != nil {
		_ = out.Conn.Close() // the other side may have done so
	}
	tell()
	return c
}

// crowded returns what logs that the limit is reached, if it is time for that. Called
// with the lock, it is to be run without.
func (s *connections) crowded(full bool) func() {
	if !full || !s.logged.IsZero() && time.Since(s.logged) < crowdedInterval {
		return func() {}
	}
	closed, refused := s.closed-s.closedThen, s.refused-s.refThen
	s.logged, s.closedThen, s.refThen = time.Now(), s.closed, s.refused
	return func() {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "connections for OTLP are at their limit; new ones take the place of idle ones",
			slog.String("transport", string(s.transport)), slog.Int("limit", s.most), slog.Uint64("closed", closed), slog.Uint64("refused", refused))
	}
}

// idlest returns the connection whose place is taken; nil when all have requests.
func (s *connections) idlest() (idlest *conn) {
	most := 0
	for _, share := range s.shares {
		if share.Len() <= most {
			continue
		}
		for at := share.Front(); at != nil; at = at.Next() {
			if c := at.Value.(*conn); c.requests == 0 {
				idlest, most = c, share.Len()
				break
			}
		}
	}
	return idlest
}

// join puts a connection among those of its organization.
func (s *connections) join(c *conn) {
	share := s.shares[c.organization]
	if share == nil {
		share = list.New()
		s.shares[c.organization] = share
	}
	c.place = share.PushBack(c)
}

func (s *connections) leave(c *conn) {
	share := s.shares[c.organization]
	if share.Remove(c.place); share.Len() == 0 {
		delete(s.shares, c.organization)
	}
}

// remove counts a connection no more.
func (s *connections) remove(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	s.count--
	s.leave(c)
	if s.open[c.key] == c {
		delete(s.open, c.key)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.all.mu.Lock()
	c.all.remove(c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// begin says that a request begins on the connection from an address, which end has to
// end.
func (s *connections) begin(remoteAddr string) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[remoteAddr]
	if c != nil {
		c.use(1)
	}
	return c
}

func (c *conn) end() {
	if c == nil {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.use(-1)
}

func (c *conn) use(more int) {
	c.requests += more
	if !c.gone {
		c.all.shares[c.organization].MoveToBack(c.place)
	}
}

// of says whose request is on the connection.
func (c *conn) of(organization string) {
	if c == nil {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.organization == organization || c.gone {
		return
	}
	c.all.leave(c)
	c.organization = organization
	c.all.join(c)
}

// Connections returns how many connections of a transport are open, and how many were
// closed since the start because there is a limit: idle ones to make room for new ones,
// and new ones that were refused because none was idle.
func (r *Receiver) Connections(t Transport) (open int, closed, refused uint64) {
	s := r.connections[t]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.closed, s.refused
}
