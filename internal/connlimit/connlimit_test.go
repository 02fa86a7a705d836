// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// remote is the server side of a connection from an address.
type remote struct {
	net.Conn
	addr   string
	closed bool
	until  time.Time // deadline
}

func (r *remote) RemoteAddr() net.Addr { return address(r.addr) }

func (r *remote) Close() error {
	r.closed = true
	return nil
}

func (r *remote) SetDeadline(t time.Time) error {
	r.until = t
	return nil
}

type address string

func (a address) Network() string { return "test" }
func (a address) String() string  { return string(a) }

// crowd holds connections by name.
type crowd struct {
	*Limiter
	all map[string]*remote
}

func newCrowd(limit int) *crowd {
	return &crowd{New(Config{Limit: limit}), make(map[string]*remote)}
}

// connect reports whether the connection was accepted.
func (c *crowd) connect(name string) bool {
	c.all[name] = &remote{addr: name}
	return c.add(c.all[name]) != nil
}

// begin begins a request of an organization.
func (c *crowd) begin(name, organization string) *Conn {
	on := c.Begin(name)
	on.Identify(organization)
	return on
}

// send makes one request on a connection.
func (c *crowd) send(name, organization string) { c.begin(name, organization).End() }

func (c *crowd) isOpen() (names []string) {
	for name, r := range c.all {
		if !r.closed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestIdle: the organization with the most connections loses the one that has been idle for longest.
func TestIdle(t *testing.T) {
	c := newCrowd(5)
	for i := range 3 {
		require.True(t, c.connect(fmt.Sprint("a", i)))
		c.send(fmt.Sprint("a", i), "a")
	}
	require.True(t, c.connect("b0"))
	c.send("b0", "b")
	require.True(t, c.connect("new"))
	c.send("a0", "a")
	c.send("unknown", "a")

	require.True(t, c.connect("b1"))
	require.Equal(t, []string{"a0", "a2", "b0", "b1", "new"}, c.isOpen(), "a has most connections")
	c.send("b1", "b")
	busy := c.Begin("b0")
	require.True(t, c.connect("x1"))
	require.True(t, c.connect("x2"))
	require.Len(t, c.isOpen(), 5)
	require.Contains(t, c.isOpen(), "b0", "it has a request")
	require.Contains(t, c.isOpen(), "x2", "the newest one is kept")
	for i := range 50 { // connections without a credential close each other
		require.True(t, c.connect(fmt.Sprint("y", i)))
	}
	require.Contains(t, c.isOpen(), "y49")
	require.Equal(t, []string{"a0", "a2", "b0", "b1", "y49"}, c.isOpen())
	c.send("y49", "late")
	for i := range 50 {
		require.True(t, c.connect(fmt.Sprint("z", i)))
	}
	require.Contains(t, c.isOpen(), "y49", "has a credential")
	busy.End()
	open, closed, refused := c.Stats()
	require.Equal(t, 5, open)
	require.EqualValues(t, 103, closed)
	require.Zero(t, refused)
}

// TestBusy: requests are interrupted only on connections of an organization above its share, newest first, or without
// a credential, oldest first.
func TestBusy(t *testing.T) {
	c := newCrowd(4)
	for _, name := range []string{"a1", "a2", "a3", "b1"} {
		require.True(t, c.connect(name))
		c.begin(name, name[:1])
	}
	require.True(t, c.connect("new1"))
	require.Equal(t, []string{"a1", "a2", "b1", "new1"}, c.isOpen())
	c.Begin("new1")
	require.True(t, c.connect("new2"))
	require.Equal(t, []string{"a1", "a2", "b1", "new2"}, c.isOpen(), "a is above its share")
	c.begin("new2", "c")
	require.True(t, c.connect("new3"))
	c.begin("new3", "d")
	require.Equal(t, []string{"a1", "b1", "new2", "new3"}, c.isOpen())
	require.False(t, c.connect("new4"), "each organization has one connection, in use")
	require.True(t, c.all["new4"].closed)
	c.open["new2"].End()
	require.True(t, c.connect("new5"), "replaces an idle one")
	require.Equal(t, []string{"a1", "b1", "new3", "new5"}, c.isOpen())
	_, closed, refused := c.Stats()
	require.EqualValues(t, 4, closed)
	require.EqualValues(t, 1, refused)
}

// TestSlowBodies: a new connection without a credential does not give way to another one before older ones with
// requests.
func TestSlowBodies(t *testing.T) {
	c := newCrowd(3)
	for _, name := range []string{"slow1", "slow2", "new1"} {
		require.True(t, c.connect(name))
	}
	c.Begin("slow1")
	c.Begin("slow2")
	require.True(t, c.connect("new2"))
	require.True(t, c.connect("new3"))
	require.Equal(t, []string{"new2", "new3", "slow2"}, c.isOpen())
}

// TestAddresses: of connections without a credential, those of the address with the most give way.
func TestAddresses(t *testing.T) {
	c := newCrowd(4)
	for _, name := range []string{"192.0.2.1:1", "198.51.100.1:1", "[2001:db8::1]:1", "[2001:db8::2]:1"} {
		require.True(t, c.connect(name))
	}
	for i := 2; i < 50; i++ {
		require.True(t, c.connect(fmt.Sprint("192.0.2.1:", i)))
	}
	require.Equal(t, []string{"192.0.2.1:48", "192.0.2.1:49", "198.51.100.1:1", "[2001:db8::2]:1"}, c.isOpen())
}

// TestUnreadData: the system keeps little for a client that does not read, and nothing after a write has timed out.
func TestUnreadData(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := New(Config{Limit: 1}).Listener(inner)
	defer listener.Close()
	client, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.(*net.TCPConn).SetReadBuffer(4<<10))
	server, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, server.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	n, err := server.Write(make([]byte, 64<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Less(t, n, 1<<20)
	require.NoError(t, server.Close())
	_, err = io.Copy(io.Discard, client)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// TestProxy: a connection counts for the organization of its last request.
func TestProxy(t *testing.T) {
	c := newCrowd(2)
	require.True(t, c.connect("proxy"))
	c.send("proxy", "a")
	c.send("proxy", "b")
	c.Begin("proxy").End() // credential not accepted
	require.Zero(t, c.shares.Held("a"))
	require.EqualValues(t, 1, c.shares.Held("b"))
	require.True(t, c.connect("other"))
	c.send("other", "c")
	require.EqualValues(t, 1, c.shares.Held("c"))

	// An organization that fills the limit loses its own connections before that of the proxy.
	for _, use := range []func(name, organization string){c.send, func(name, organization string) { c.begin(name, organization) }} {
		c = newCrowd(4)
		require.True(t, c.connect("proxy"))
		c.send("proxy", "b")
		c.send("proxy", "a")
		for i := range 10 {
			require.True(t, c.connect(fmt.Sprint("a", i)))
			use(fmt.Sprint("a", i), "a")
		}
		require.Contains(t, c.isOpen(), "proxy")
		require.Len(t, c.isOpen(), 4)
	}
}

// TestModel runs connections and requests of greedy and modest organizations at random. The counts match the open
// connections. An organization within its share loses no connection, except an idle one when no organization has more
// than one.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		l := New(Config{Limit: limit})
		type conn struct {
			*Conn
			remote *remote
			busy   int
		}
		var conns []*conn
		var last int
		pick := func(t *rapid.T) *conn {
			if len(conns) == 0 {
				t.Skip("no connection")
			}
			return rapid.SampledFrom(conns).Draw(t, "connection")
		}
		count := func() map[string]int {
			n := make(map[string]int)
			for _, c := range conns {
				n[c.organization]++
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"connect": func(t *rapid.T) {
				last++
				before := count()
				keys := len(before)
				if before[""] == 0 {
					keys++
				}
				r := &remote{addr: fmt.Sprint(last)}
				c := l.add(r)
				if c == nil {
					require.True(t, r.closed)
					require.Zero(t, before[""])
					require.Greater(t, keys, limit)
					return
				}
				conns = slices.DeleteFunc(conns, func(c *conn) bool {
					if c.remote.closed && c.organization != "" {
						require.True(t, before[c.organization] > limit/keys || keys > limit && c.busy == 0, "closed within its share")
					}
					return c.remote.closed
				})
				conns = append(conns, &conn{c, r, 0})
			},
			"begin": func(t *rapid.T) {
				c := pick(t)
				require.Same(t, c.Conn, l.Begin(c.peer))
				c.busy++
				if rapid.Bool().Draw(t, "accepted") {
					c.Identify(rapid.SampledFrom([]string{"a", "a", "a", "b", "b", "c", "d"}).Draw(t, "organization"))
				}
			},
			"end": func(t *rapid.T) {
				if c := pick(t); c.busy > 0 {
					c.busy--
					c.End()
				}
			},
			"close": func(t *rapid.T) {
				c := pick(t)
				require.NoError(t, c.Close())
				require.NoError(t, c.Close())
				c.Identify("a")
				conns = slices.DeleteFunc(conns, func(o *conn) bool { return o == c })
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, len(conns), limit)
				require.EqualValues(t, len(conns), l.shares.Total())
				require.Len(t, l.open, len(conns))
				before := count()
				require.Len(t, l.conns, len(before))
				for organization, n := range before {
					require.EqualValues(t, n, l.shares.Held(organization))
					require.Equal(t, n, l.conns[organization].Len())
				}
			},
		})
	})
}

// TestFull: Full is called at most once per interval.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][2]uint64
		c := newCrowd(2)
		c.cfg.Full = func(closed, refused uint64) { calls = append(calls, [2]uint64{closed, refused}) }
		c.connect("a")
		c.connect("b")
		require.Empty(t, calls)
		c.connect("c")
		require.Equal(t, [][2]uint64{{1, 0}}, calls)
		for i := range 10 {
			c.connect(fmt.Sprint(i))
		}
		require.Len(t, calls, 1)
		time.Sleep(fullInterval)
		c.begin("8", "a")
		c.begin("9", "b")
		require.False(t, c.connect("d"))
		require.Equal(t, [][2]uint64{{1, 0}, {10, 1}}, calls)
	})
}

// TestUnfinishedHeaders: 6,000 connections with unfinished headers stay within the limit. Neither existing nor new
// clients lose a response.
func TestUnfinishedHeaders(t *testing.T) {
	const limit, attackers = 64, 6000
	l := New(Config{Limit: limit})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if organization := r.Header.Get("Authorization"); organization != "" {
			if Identify(r.Context(), organization) != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "ok")
	}))}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l.Listener(inner)) }()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		return c
	}
	get := func(c net.Conn, answers *bufio.Reader) {
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: modest\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "ok", string(body))
	}
	client := dial()
	answers := bufio.NewReader(client)
	get(client, answers)
	var conns []net.Conn
	for i := range attackers {
		c := dial()
		conns = append(conns, c)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Long: unfinished")
		open, _, _ := l.Stats()
		require.LessOrEqual(t, open, limit)
		if i%100 == 0 || i == attackers-1 { // a late connection is accepted after all before it
			get(client, answers)
			late := dial()
			get(late, bufio.NewReader(late))
			require.NoError(t, late.Close())
		}
	}
	for _, c := range append(conns, client) {
		_ = c.Close()
	}
	require.NoError(t, srv.Shutdown(context.Background()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	open, closed, refused := l.Stats()
	require.Zero(t, open)
	require.GreaterOrEqual(t, closed, uint64(attackers-limit))
	require.Zero(t, refused)
}

// failing fails to accept once for each error.
type failing struct {
	net.Listener
	errs []error
}

func (l *failing) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return l.Listener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("epoll_ctl", err)}
}

// TestExhaustedSystem: a server goes on when the system has no memory for a connection.
func TestExhaustedSystem(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() {
		served <- srv.Serve(New(Config{Limit: 1}).Listener(&failing{inner, []error{syscall.ENOSPC, syscall.ENOMEM, syscall.ENOBUFS}}))
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + inner.Addr().String())
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.NoError(t, srv.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	_, err = New(Config{Limit: 1}).Listener(&failing{inner, []error{syscall.EBADF}}).Accept()
	require.ErrorIs(t, err, syscall.EBADF)
	var temporary exhausted
	require.NotErrorAs(t, err, &temporary, "a server ends")
}
