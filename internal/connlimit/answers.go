// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net/http"
	"strconv"
)

// A response stays in memory until its client has read it. A client can delay that until
// the server's WriteTimeout, on each of its connections.
const (
	maxAnswers  = 256 << 20 // bytes of large responses that clients have not read
	smallAnswer = 64 << 10  // bytes up to which a response is not counted
)

// answer is a ResponseWriter that counts a large response, by its Content-Length, for the
// organization of the request. An organization above its share gets status 503 instead.
type answer struct {
	http.ResponseWriter
	conn         *Conn
	head         bool   // the request has the method HEAD
	organization string // for which held is counted
	held         int64
	refused      bool
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	h := a.Header()
	size, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err == nil && size > smallAnswer && !a.head && a.held == 0 && !a.hold(size) {
		for _, name := range []string{"Content-Encoding", "Content-Type", "Etag", "Last-Modified"} {
			h.Del(name)
		}
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Length", "0")
		h.Set("Retry-After", "1")
		a.refused, status = true, http.StatusServiceUnavailable
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.refused {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

func (a *answer) hold(size int64) bool {
	l := a.conn.limiter
	l.mu.Lock()
	organization := a.conn.payer
	l.mu.Unlock()
	if !l.answers.Acquire(organization, size) {
		return false
	}
	a.organization, a.held = organization, size
	return true
}

func (a *answer) release() { a.conn.limiter.answers.Release(a.organization, a.held) }
