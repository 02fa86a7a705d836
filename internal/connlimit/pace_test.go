// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"assay"
)

// own is the cost of the first requests of a connection that do not wait.
const own = int(ownBurst/time.Second) * ownRate

// TestPace: the connections of an organization share its rate limit of frames and requests. The connections without an
// organization share a lower one, which also counts bytes, after the first requests of each. Telemetry is not limited.
func TestPace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // the rate depends on it
	const each = 256 << 10                          // bytes of a connection's frames
	pings := written(t, func(f *http2.Framer) error {
		for range each / (9 + 8) {
			if err := f.WritePing(false, [8]byte{}); err != nil {
				return err
			}
		}
		return nil
	})
	telemetry := written(t, func(f *http2.Framer) error {
		for range each / (16 << 10) {
			if err := f.WriteData(1, false, make([]byte, 16<<10)); err != nil {
				return err
			}
		}
		return nil
	})
	overFrames := func(sent []byte) func(*testing.T, *Conn) {
		return func(t *testing.T, c *Conn) {
			n, err := io.Copy(io.Discard, struct{ io.Reader }{c.Framed(stream{Reader: bytes.NewReader(sent)}, time.Minute)})
			assert.NoError(t, err)
			assert.Len(t, sent, int(n))
		}
	}
	const requests = 3000
	overHTTP := func(t *testing.T, c *Conn) {
		served, organization := 0, c.organization
		h := c.limiter.Paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			served++
			if organization != "" {
				c.Identify(organization)
				assert.NoError(t, c.Turn(t.Context(), organization))
			}
		}))
		for range requests {
			h.ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: c.peer})
		}
		assert.Equal(t, requests, served)
	}
	all := len(http2.ClientPreface) + each/(9+8)*(9+8+frameCost) // the cost of pings
	for _, c := range []struct {
		name          string
		organizations []string // of the connections
		client        func(t *testing.T, c *Conn)
		cost          int // for the organization that waits longest
		rate          int
	}{
		{"frames of one organization", []string{"a", "a", "a", "a"}, overFrames(pings), 4 * all, rate},
		{"frames of several organizations", []string{"a", "b", "c", "c"}, overFrames(pings), 2 * all, rate},
		{"frames without an organization", []string{"", "", "a"}, overFrames(pings), 2 * (all + each/smallRead*readCost - own), anonymousRate},
		{"requests of several organizations", []string{"a", "a", "b"}, overHTTP, 2 * requests * requestCost, rate},
		{"requests without a turn", []string{"a", "a", "b"}, func(t *testing.T, c *Conn) {
			organization := c.organization
			h := c.limiter.Paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.Identify(organization) }))
			for range requests {
				h.ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: c.peer})
			}
		}, 2 * requests * requestCost, rate},
		{"requests without an organization", []string{"", "", ""}, overHTTP, 3 * (requests*requestCost - own), anonymousRate},
		{"few requests on each of many connections", make([]string, 1000), func(t *testing.T, c *Conn) {
			for range own / 2 / requestCost {
				c.limiter.Paced(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: c.peer})
			}
		}, 0, rate},
		{"telemetry", []string{"a", "a", "a"}, overFrames(telemetry), 0, rate},
		{"telemetry without an organization", []string{"", "", ""}, overFrames(telemetry), 3 * (len(http2.ClientPreface) + each/(16<<10)*(9+frameCost+readCost) - own), anonymousRate},
		{"bytes without an organization", []string{"", "a"}, func(t *testing.T, c *Conn) {
			c.Conn = stream{Reader: strings.NewReader(strings.Repeat("x", 32<<20))}
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 32<<10))
			assert.NoError(t, err)
			assert.EqualValues(t, 32<<20, n)
		}, 1024*(readCost+32<<10/readPart) - own, anonymousRate},
		{"requests with many header lines", []string{"a"}, func(t *testing.T, c *Conn) {
			h := c.limiter.Paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				c.Identify("a")
				assert.NoError(t, c.Turn(t.Context(), "a"))
			}))
			for range requests {
				h.ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: c.peer, Header: http.Header{"A": make([]string, 1000), "B": {strings.Repeat("x", 15<<10)}}})
			}
		}, requests * (requestCost + 1001*lineCost), rate},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(Config{Limit: 2000})
				began := time.Now()
				var clients sync.WaitGroup
				for i, organization := range c.organizations {
					conn := l.add(&remote{addr: strconv.Itoa(i)})
					conn.Identify(organization)
					clients.Go(func() { c.client(t, conn) })
				}
				clients.Wait()
				perSecond := float64(c.rate * runtime.GOMAXPROCS(0))
				if c.rate == anonymousRate {
					perSecond += float64(ownRate * len(c.organizations))
				}
				want := max(0, time.Duration(float64(c.cost)/perSecond*float64(time.Second))-burst)
				require.InDelta(t, want, time.Since(began), float64(60*time.Millisecond))
			})
		})
	}
}

// TestPaceOfSharedConnections: the requests of an organization do not wait for the rate of another one, or of none, whose
// requests came over the same connection before, such as that of a proxy, nor pay for them.
func TestPaceOfSharedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 3})
		flood, anonymous, proxy := l.add(&remote{addr: "1"}), l.add(&remote{addr: "3"}), l.add(&remote{addr: "2"})
		flood.Identify("a")
		proxy.Identify("a")
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var flooding sync.WaitGroup
		flooding.Go(func() { flood.pace(10*rate*runtime.GOMAXPROCS(0), ctx.Done()) })
		flooding.Go(func() { anonymous.pace(10*anonymousRate*runtime.GOMAXPROCS(0), ctx.Done()) })
		synctest.Wait()
		rest := func(bytes int) { // of the body of a request, received after the response
			proxy.Conn = stream{Reader: strings.NewReader(strings.Repeat("x", bytes))}
			_, err := io.Copy(io.Discard, struct{ io.Reader }{proxy})
			require.NoError(t, err)
		}
		waits := func(organization string) bool {
			proxy.Conn = stream{Reader: strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\n\r\n")}
			_, err := proxy.Read(make([]byte, 4<<10))
			require.NoError(t, err)
			l.Paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				require.Zero(t, time.Since(began))
				if organization != "" {
					proxy.Identify(organization)
					require.NoError(t, proxy.Turn(t.Context(), organization))
				}
			})).ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: "2"})
			return time.Since(began) > 0
		}
		require.False(t, waits("b"))
		debt := l.paid["b"]
		for range own / requestCost / 2 {
			require.False(t, waits(""), "rejected requests")
		}
		rest(256 << 10)
		require.Equal(t, debt, l.paid["b"])
		require.False(t, waits("b"))
		debt = l.paid["b"]
		rest(20 << 10)
		require.Equal(t, debt, l.paid["b"])
		require.False(t, waits("c"))
		require.True(t, l.paid["b"].After(debt))
		require.Equal(t, requestCost+usualHeader/headerPart, int(l.paid["c"].Sub(began.Add(-burst))*rate*time.Duration(runtime.GOMAXPROCS(0))/time.Second)+1)
		require.True(t, waits("a"))
		require.GreaterOrEqual(t, time.Since(began), maxWait/2)
		cancel()
		flooding.Wait()
	})
}

// TestResponse: a request without an organization waits before its response, and pays for what came after the one before.
// More than the rest of a body waits itself.
func TestResponse(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // the rate depends on it
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 2})
		client := l.add(&remote{addr: "1"})
		began := time.Now()
		var responded time.Duration
		request := func() {
			l.Paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				_, _ = w.Write(nil)
				responded = time.Since(began)
			})).ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: "1"})
			require.Equal(t, responded, time.Since(began))
		}
		send := func(bytes int) {
			client.Conn = stream{Reader: strings.NewReader(strings.Repeat("x", bytes))}
			_, err := io.Copy(io.Discard, struct{ io.Reader }{client})
			require.NoError(t, err)
		}
		request()
		send(256 << 10)
		require.Zero(t, time.Since(began))
		request()
		total := requestCost + 256<<10/headerPart
		require.InDelta(t, duration(total, anonymousRate*runtime.GOMAXPROCS(0))-burst, responded, float64(5*time.Millisecond))
		began = time.Now()
		send(32 << 20)
		require.Greater(t, time.Since(began), 10*time.Second)
	})
}

// TestPaceOfSharedFrames is TestPaceOfSharedConnections for HTTP/2.
func TestPaceOfSharedFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 2})
		flood, proxy := l.add(&remote{addr: "1"}), l.add(&remote{addr: "2"})
		flood.Identify("a")
		proxy.Identify("a")
		proxy.Identify("b")
		ctx, cancel := context.WithCancel(t.Context())
		var flooding sync.WaitGroup
		flooding.Go(func() { flood.pace(10*rate*runtime.GOMAXPROCS(0), ctx.Done()) })
		synctest.Wait()
		began := time.Now()
		requests := written(t, func(f *http2.Framer) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 100), EndHeaders: true})
		})
		proxy.Identify("a")
		_, err := proxy.Framed(stream{Reader: bytes.NewReader(requests)}, time.Minute).Read(make([]byte, 4<<10))
		require.NoError(t, err)
		require.NoError(t, proxy.Turn(t.Context(), "b"))
		require.Zero(t, time.Since(began))
		require.NoError(t, proxy.Turn(t.Context(), "a"))
		require.GreaterOrEqual(t, time.Since(began), maxWait/2)
		cancel()
		flooding.Wait()

		// Connections of other addresses have rates of their own.
		for address, waits := range map[string]bool{"192.0.2.1:1": true, "192.0.2.1:2": true, "192.0.2.2:1": false} {
			l.paid[sharedConns+"192.0.2.1/32"] = time.Now().Add(time.Second)
			conn := l.add(&remote{addr: address})
			conn.Identify("a")
			conn.Identify("b")
			began := time.Now()
			conn.pace(own+1, nil)
			require.Equal(t, waits, time.Since(began) > 0, address)
		}
	})
}

// TestRatesAreForgotten: the memory for rates does not grow with all keys that have ever been used.
func TestRatesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 1})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.chargeTo("debt", 60*rate, rate)
		for i := range 10_000 {
			l.chargeTo(strconv.Itoa(i), 1, rate)
			time.Sleep(burst / 10)
			require.Less(t, len(l.paid), 200)
		}
		wait, _ := l.chargeTo("debt", 1, rate)
		require.Negative(t, wait, "an old debt")
	})
}

// TestRenew: calls without an organization wait at their end, so that the next one on their connection, such as that of a
// proxy, does not wait for them, nor for other connections.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 2})
		flood, proxy := l.add(&remote{addr: "1"}), l.add(&remote{addr: "2"})
		ctx, cancel := context.WithCancel(t.Context())
		var flooding sync.WaitGroup
		flooding.Go(func() { flood.pace(10*anonymousRate*runtime.GOMAXPROCS(0), ctx.Done()) })
		synctest.Wait()
		call := func(do func(*http2.Framer) error) []byte {
			return written(t, do)[len(http2.ClientPreface):]
		}
		inner := &duplex{Reader: strings.NewReader(http2.ClientPreface)}
		server := proxy.Framed(inner, time.Minute)
		_, err := io.Copy(io.Discard, struct{ io.Reader }{server})
		require.NoError(t, err)
		var longest time.Duration
		for stream := uint32(1); stream < 40; stream += 2 {
			began := time.Now()
			inner.Reader = bytes.NewReader(call(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: make([]byte, 3000), EndHeaders: true, EndStream: true})
			}))
			_, err := io.Copy(io.Discard, struct{ io.Reader }{server})
			require.NoError(t, err)
			require.Zero(t, time.Since(began))
			_, err = server.Write(call(func(f *http2.Framer) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, EndStream: true})
			}))
			require.NoError(t, err)
			longest = max(longest, time.Since(began))
		}
		require.GreaterOrEqual(t, longest, maxWait/2)
		cancel()
		flooding.Wait()
	})
}

// TestTurn: requests of an organization on new connections wait for its rate as well. Those whose clients do not wait are
// not handled, and the next ones do not wait for them.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 10_000})
		perSecond := rate * runtime.GOMAXPROCS(0) / requestCost
		var served atomic.Int32
		request := func(n int) (conn *Conn, turn func(context.Context) error) {
			conn = l.add(&remote{addr: strconv.Itoa(n)})
			return conn, func(ctx context.Context) (err error) {
				l.Paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					conn.Identify("a")
					if err = conn.Turn(ctx, "a"); err == nil {
						served.Add(1)
					}
				})).ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: conn.peer})
				return err
			}
		}
		n := 0
		began := time.Now()
		for range perSecond {
			conn, turn := request(n)
			require.NoError(t, turn(t.Context()))
			require.NoError(t, conn.Close())
			n++
		}
		require.InDelta(t, time.Second-burst, time.Since(began), float64(20*time.Millisecond))
		served.Store(0)
		began = time.Now()
		var clients sync.WaitGroup
		for range perSecond {
			conn, turn := request(n)
			n++
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			clients.Go(func() {
				if err := turn(ctx); err != nil {
					assert.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
				}
				assert.NoError(t, conn.Close())
			})
		}
		clients.Wait()
		require.InDelta(t, perSecond/100, served.Load(), float64(perSecond/50))
		_, turn := request(n)
		require.NoError(t, turn(t.Context()))
		require.Less(t, time.Since(began), 100*time.Millisecond)
	})
}

// TestPaceEnds: a connection does not wait any longer after it is closed, after its first request is identified, or
// after its request has been canceled.
func TestPaceEnds(t *testing.T) {
	for name, end := range map[string]func(c *Conn, cancel func()){
		"closed":     func(c *Conn, _ func()) { _ = c.Close() },
		"identified": func(c *Conn, _ func()) { c.Identify("a") },
		"canceled":   func(_ *Conn, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := New(Config{Limit: 1}).add(&remote{addr: "client"})
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				time.AfterFunc(time.Second, func() { end(conn, cancel) })
				conn.pace(3*anonymousRate*runtime.GOMAXPROCS(0), ctx.Done())
				require.Equal(t, time.Second, time.Since(began))
				conn.pace(0, nil) // telemetry, or the end of the connection
				require.Equal(t, time.Second, time.Since(began))
			})
		})
	}
}

// TestDebt: what others wait for without an organization does not delay the first requests of a connection, nor regular
// ones, and nothing after they have closed their connections.
func TestDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 1000})
		var flood []*Conn
		var waiting sync.WaitGroup
		for i := range 50 {
			conn := l.add(&remote{addr: strconv.Itoa(i)})
			flood = append(flood, conn)
			waiting.Go(func() { conn.pace(60*rate, nil) })
		}
		synctest.Wait()
		began := time.Now()
		client := l.add(&remote{addr: "client"})
		client.pace(own, nil)
		require.Zero(t, time.Since(began))
		for range 50 {
			time.Sleep(time.Second)
			began = time.Now()
			client.pace(ownRate, nil)
			require.Zero(t, time.Since(began))
		}
		for _, conn := range flood {
			require.NoError(t, conn.Close())
		}
		waiting.Wait()
		began = time.Now()
		client.pace(2, nil)
		require.Zero(t, time.Since(began))

		// Requests whose clients close their connections are not charged, and no wait is longer than maxWait.
		gone, cancel := context.WithCancel(t.Context())
		for i := range 50 {
			conn := l.add(&remote{addr: "gone " + strconv.Itoa(i)})
			waiting.Go(func() { conn.pace(60*rate, gone.Done()) })
		}
		synctest.Wait()
		client.pace(own, nil)
		require.GreaterOrEqual(t, time.Since(began), maxWait/2)
		require.Less(t, time.Since(began), maxWait)
		cancel()
		waiting.Wait()
		began = time.Now()
		client.pace(own, nil)
		require.Less(t, time.Since(began), time.Second)
	})
}

// duplex is the server side of a connection whose client has sent some bytes and reads every response.
type duplex struct {
	remote
	io.Reader
}

func (d *duplex) Read(p []byte) (int, error)     { return d.Reader.Read(p) }
func (*duplex) Write(p []byte) (int, error)      { return len(p), nil }
func (*duplex) LocalAddr() net.Addr              { return address("server") }
func (*duplex) SetDeadline(time.Time) error      { return nil }
func (*duplex) SetReadDeadline(time.Time) error  { return nil }
func (*duplex) SetWriteDeadline(time.Time) error { return nil }

// one is a listener with one connection, until it is closed.
type one struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *one) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*one) Addr() net.Addr { return address("server") }

// TestPaceBodies: what encodes bodies counts, such as the lines of small chunks, also if the handler does not read them.
// Content that the handler reads does not count.
func TestPaceBodies(t *testing.T) {
	const (
		head    = "POST / HTTP/1.1\r\nHost: x\r\n"
		chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	)
	tiny := chunked + strings.Repeat("1\r\nx\r\n", 16<<10) + "0\r\n\r\n"
	large := chunked + "20000\r\n" + strings.Repeat("x", 128<<10) + "\r\n0\r\n\r\n"
	whole := head + "Content-Length: 131072\r\n\r\n" + strings.Repeat("x", 128<<10)
	readAll := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	ignore := func(http.ResponseWriter, *http.Request) {}
	const least = requestCost + 2*lineCost
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the rate depends on it
	for _, c := range []struct {
		name     string
		request  string
		handler  http.HandlerFunc
		min, max int // cost of a request
	}{
		{"small chunks", tiny, readAll, least + 75<<10/headerPart, least + 84<<10/headerPart},
		{"small chunks that nothing reads", tiny, ignore, least + 90<<10/headerPart, least + 98<<10/headerPart},
		{"large chunks", large, readAll, least, 2 * least},
		{"a body of known length", whole, readAll, least + 120<<10/contentPart/headerPart, least + 130<<10/contentPart/headerPart + headerPart},
		{"a body of known length that nothing reads", whole, ignore, least + 120<<10/headerPart, least + 130<<10/headerPart},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := New(Config{Limit: 1})
				requests := int(20 * burst.Seconds() * rate / float64(c.min)) // the rest of the last body does not count
				inner := &one{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
				inner.conns <- &duplex{remote{addr: "client"}, strings.NewReader(strings.Repeat(c.request, requests))}
				listener := limiter.Listener(inner)
				ended := make(chan struct{})
				srv := &http.Server{
					Handler: limiter.Paced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						conn := limiter.Begin(r.RemoteAddr)
						conn.Identify("a")
						assert.NoError(t, conn.Turn(r.Context(), "a"))
						c.handler(w, r)
					})),
					ConnState: func(_ net.Conn, s http.ConnState) {
						if s == http.StateClosed {
							close(ended)
						}
					},
				}
				began := time.Now()
				var serving sync.WaitGroup
				serving.Go(func() { _ = srv.Serve(listener) })
				<-ended
				cost := int((time.Since(began)+burst).Seconds()*rate) / requests
				_ = srv.Close()
				serving.Wait()
				require.LessOrEqual(t, cost, c.max)
				require.GreaterOrEqual(t, cost, c.min)
			})
		})
	}
}

// TestHalfClosed: a client that stops sending waits like others for the requests that it has sent before.
func TestHalfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 1})
		l.paid[""] = time.Now().Add(time.Hour) // those after the first ones of the connection wait
		inner := &one{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		inner.conns <- &duplex{remote{addr: "client"}, strings.NewReader(strings.Repeat("GET / HTTP/1.1\r\nHost:\r\n\r\n", 20))}
		handled, ended := 0, make(chan struct{})
		srv := &http.Server{
			Handler: l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ })),
			ConnState: func(c net.Conn, s http.ConnState) {
				if l.ConnState(c, s); s == http.StateClosed {
					close(ended)
				}
			},
		}
		began := time.Now()
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(l.HTTPListener(inner, nil)) })
		<-ended
		if handled > own/requestCost {
			assert.GreaterOrEqual(t, time.Since(began), maxWait/2)
		}
		require.NoError(t, srv.Close())
		serving.Wait()
	})
}

// TestEvictedResponse checks that a waiting response is sent when its connection is evicted, for a limited number of
// connections at a time, and that such a connection does not stay open for its client.
func TestEvictedResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8 // one connection that ends
		l := New(Config{Limit: limit})
		var conns [2]*Conn
		var clients [2]*remote
		var answers [2]*httptest.ResponseRecorder
		var handling sync.WaitGroup
		for i := range conns {
			clients[i], answers[i] = &remote{addr: strconv.Itoa(i)}, httptest.NewRecorder()
			conns[i] = l.add(clients[i])
			conns[i].pace(own, nil)
		}
		for i := range limit - 2 {
			l.add(&remote{addr: fmt.Sprint("idle ", i)})
		}
		l.paid[""] = time.Now().Add(time.Hour)
		began := time.Now()
		for i, w := range answers {
			handling.Go(func() {
				l.Paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })).
					ServeHTTP(w, &http.Request{RemoteAddr: strconv.Itoa(i)})
			})
		}
		synctest.Wait()
		require.Zero(t, answers[0].Body.Len())
		require.NotNil(t, l.add(&remote{addr: "new"}))
		require.NotNil(t, l.add(&remote{addr: "newer"}))
		require.True(t, clients[1].closed, "above the limit")
		handling.Wait()
		require.Zero(t, time.Since(began))
		require.Equal(t, "ok", answers[0].Body.String())
		require.Equal(t, "close", answers[0].Header().Get("Connection"))
		require.False(t, clients[0].closed, "before the response")
		require.Equal(t, began.Add(maxEnding), clients[0].until)
		open, closed, _ := l.Stats()
		require.Equal(t, limit, open)
		require.EqualValues(t, 2, closed)
		require.NoError(t, conns[0].Close())
		require.Zero(t, l.ending)
	})
}
