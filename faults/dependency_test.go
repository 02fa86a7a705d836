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

// dependency is a server that replicas send requests to: a metrics store, an identity provider, a language
// model or an agent backend. It answers correctly until misbehaving is set. Then each request gets the next kind of
// misbehaviour.
type dependency struct {
	*httptest.Server
	good        http.Handler
	bad         []http.HandlerFunc
	misbehaving atomic.Bool
	badRequests atomic.Uint64 // requests while it misbehaves
	closed      chan struct{}
}

// newDependency starts a server. The handlers in more are kinds of misbehaviour in addition to the common
// ones.
func newDependency(t *testing.T, good http.Handler, more ...http.HandlerFunc) *dependency {
	n := &dependency{good: good, closed: make(chan struct{})}
	all := n.misbehaviours()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == "drips" && !*long {
			continue // the gateway to the agent backend waits for 15 s
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
func (n *dependency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !n.misbehaving.Load() {
		n.good.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // without it the server does not notice that its client has disconnected
	n.bad[n.badRequests.Add(1)%uint64(len(n.bad))](w, r)
}

// misbehaviours returns the kinds of misbehaviour that apply to any server. Write errors are ignored: the
// client may have disconnected.
func (n *dependency) misbehaviours() map[string]http.HandlerFunc {
	body := func(contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, text)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "misbehaving", code) }
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

// wait waits for d and returns true. It returns false if the client disconnects or the test ends before.
func (n *dependency) wait(r *http.Request, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
	case <-n.closed:
	}
	return false
}

// sever writes a raw response and resets the connection.
func sever(w http.ResponseWriter, answer string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, answer)
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// noise is an endless reader of random bytes.
type noise struct{}

func (noise) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(rand.Uint32())
	}
	return len(p), nil
}
