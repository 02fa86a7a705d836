// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// neighbour is a server that replicas ask: a metrics store, an identity provider, a
// model, an agent backend. It answers well until it is told to misbehave; then every
// request meets the next kind of misbehaviour.
type neighbour struct {
	*httptest.Server
	good   http.Handler
	bad    []http.HandlerFunc
	lies   atomic.Bool
	asked  atomic.Uint64 // while it misbehaves
	closed chan struct{}
}

// newNeighbour starts a server, which also knows ways to misbehave that only its kind
// has.
func newNeighbour(t *testing.T, good http.Handler, more ...http.HandlerFunc) *neighbour {
	n := &neighbour{good: good, closed: make(chan struct{})}
	all := n.misbehaviours()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == "drips" && !*long {
			continue // the gateway to the agent backend bears it for 15 s
		}
		n.bad = append(n.bad, all[name])
	}
	n.bad = append(n.bad, more...)
	n.Server = httptest.NewServer(n)
	t.Cleanup(func() {
		close(n.closed)
		n.Close()
	})
	return n
}

// ServeHTTP implements http.Handler.
func (n *neighbour) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !n.lies.Load() {
		n.good.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // or the server would not see that its client has gone
	n.bad[n.asked.Add(1)%uint64(len(n.bad))](w, r)
}

// misbehaviours are what any server can do to its clients. What is written may go to
// nobody.
func (n *neighbour) misbehaviours() map[string]http.HandlerFunc {
	body := func(contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, text)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "of a neighbour", code) }
	}
	return map[string]http.HandlerFunc{
		"hangs":        func(_ http.ResponseWriter, r *http.Request) { n.wait(r, time.Hour) },
		"empty":        body("application/json", ""),
		"HTML":         body("text/html", "<html><h1>Sign in</h1></html>"),
		"another JSON": body("application/json", `{"status":"success","data":{"result":"none"},"keys":"none","choices":7,"issuer":"another"}`),
		"deep JSON":    body("application/json", string(bytes.Repeat([]byte("["), 200_000))),
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.CopyN(w, noise{}, 4<<10)
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for _, err := io.WriteString(w, `{"data":"`); err == nil; _, err = w.Write(bytes.Repeat([]byte("x"), 64<<10)) {
			}
		},
		"drips": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for n.wait(r, 50*time.Millisecond) {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
			}
		},
		"half": func(w http.ResponseWriter, _ *http.Request) {
			sever(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"data\":")
		},
		"resets":  func(w http.ResponseWriter, _ *http.Request) { sever(w, "") },
		"refuses": status(http.StatusUnauthorized),
		"is busy": status(http.StatusTooManyRequests),
		"fails":   status(http.StatusInternalServerError),
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
	}
}

// wait returns after a time, true, or when the client or the test has gone.
func (n *neighbour) wait(r *http.Request, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
	case <-n.closed:
	}
	return false
}

// sever answers with bytes and resets the connection.
func sever(w http.ResponseWriter, answer string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, answer)
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// noise is random bytes without end.
type noise struct{}

func (noise) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(rand.Uint32())
	}
	return len(p), nil
}
