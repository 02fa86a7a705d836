// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// TestPace: the connections of an organization share its rate limit of frames and requests. The connections without an
// organization share a lower one, which also counts bytes, after the first requests of each. Telemetry is not limited.
func TestPace(t *testing.T) {
	const each = 256 << 10 // bytes of a connection's frames
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
			n, err := io.Copy(io.Discard, struct{ io.Reader }{c.Framed(stream{Reader: bytes.NewReader(sent)})})
			assert.NoError(t, err)
			assert.Len(t, sent, int(n))
		}
	}
	const requests = 3000
	overHTTP := func(t *testing.T, c *Conn) {
		served := 0
		h := c.limiter.Paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
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
		{"frames without an organization", []string{"", "", "a"}, overFrames(pings), 2 * (all - free), anonymousRate},
		{"requests of several organizations", []string{"a", "a", "b"}, overHTTP, 2 * requests * requestCost, rate},
		{"requests without an organization", []string{"", "", ""}, overHTTP, 3 * (requests*requestCost - free), anonymousRate},
		{"few requests on each of many connections", make([]string, 1000), func(t *testing.T, c *Conn) {
			for range free / requestCost {
				c.limiter.Paced(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: c.peer})
			}
		}, 0, rate},
		{"telemetry", []string{"a", "a", "a"}, overFrames(telemetry), 0, rate},
		{"telemetry without an organization", []string{"", "", ""}, overFrames(telemetry), 3 * max(0, len(http2.ClientPreface)+each/(16<<10)*(9+frameCost)-free), anonymousRate},
		{"bytes without an organization", []string{"", "a"}, func(t *testing.T, c *Conn) {
			c.Conn = stream{Reader: strings.NewReader(strings.Repeat("x", 32<<20))}
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 32<<10))
			assert.NoError(t, err)
			assert.EqualValues(t, 32<<20, n)
		}, 1024*(readCost+32<<10/readPart) - free, anonymousRate},
		{"requests with long headers", []string{"a"}, func(t *testing.T, c *Conn) {
			h := c.limiter.Paced(http.NotFoundHandler())
			for range requests {
				h.ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: c.peer, Header: http.Header{"A": make([]string, 1000), "B": {strings.Repeat("x", 15<<10)}}})
			}
		}, requests * (requestCost + 1001*lineCost + (15<<10+1)/headerPart), rate},
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
				want := max(0, time.Duration(float64(c.cost)/perSecond*float64(time.Second))-burst)
				require.InDelta(t, want, time.Since(began), float64(20*time.Millisecond))
			})
		})
	}
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

// TestDebt: earlier requests without an organization delay a request by a few seconds at most. They do not delay the
// first requests of a connection.
func TestDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Limit: 100})
		for i := range 50 {
			l.pay(l.add(&remote{addr: strconv.Itoa(i)}), 60*rate)
		}
		began := time.Now()
		client := l.add(&remote{addr: "client"})
		client.pace(free, nil)
		require.Zero(t, time.Since(began))
		client.pace(1, nil)
		require.Equal(t, maxWait, time.Since(began))
	})
}
