// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// calls holds the open HTTP/2 streams of a connection. It closes the connection when one is open for longer than the
// limit: the server has responded by then, but the client may not accept the response, for which it controls the window,
// and each call keeps its headers in memory. A nil *calls does nothing.
type calls struct {
	of    *Conn
	limit time.Duration

	mu    sync.Mutex
	last  uint32               // the highest stream so far
	began map[uint32]time.Time // by stream
	timer *time.Timer          // of check; nil: no stream has been open since the last check
}

// received records the head of a frame from the client.
func (c *calls) received(f *frame) {
	if c == nil {
		return
	}
	switch f.kind {
	case http2.FrameHeaders:
		c.begin(f.stream())
	case http2.FrameRSTStream:
		c.end(f.stream())
	}
}

func (c *calls) begin(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stream <= c.last { // trailers
		return
	}
	c.last, c.began[stream] = stream, time.Now()
	if c.timer == nil {
		c.timer = time.AfterFunc(c.limit, c.check)
	}
}

func (c *calls) end(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.began, stream)
}

// check closes the connection if a stream has been open for the limit.
func (c *calls) check() {
	c.mu.Lock()
	c.timer = nil
	var oldest time.Time
	for _, began := range c.began {
		if oldest.IsZero() || began.Before(oldest) {
			oldest = began
		}
	}
	left := c.limit - time.Since(oldest)
	if !oldest.IsZero() && left > 0 {
		c.timer = time.AfterFunc(left, c.check)
	}
	c.mu.Unlock()
	if !oldest.IsZero() && left <= 0 {
		_ = c.of.Close() // the client may have closed it
	}
}

// stop ends the checks.
func (c *calls) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.began)
	if c.timer != nil {
		c.timer.Stop()
	}
}
