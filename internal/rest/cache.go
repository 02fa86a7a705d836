// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"container/list"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// defaultCacheTTL leaves most of the 5 seconds in which a change made on the
	// command line has to show to everything else that takes time.
	defaultCacheTTL = time.Second

	cacheBytes = 32 << 20 // of all pages
	pageBytes  = 2 << 20  // of one; a larger one is not kept
)

// cache keeps encoded pages for a short time. A page is never older than the time
// to live, counted from before the store was read. What asks for a page that is
// being made waits for it. A key has to name everything that a page depends on,
// the organization first. It may be used concurrently.
type cache struct {
	ttl   time.Duration
	limit int // bytes
	now   func() time.Time

	mu      sync.Mutex
	bytes   int
	pages   map[string]*list.Element // of *cached
	recent  list.List                // the page used last comes first
	flights map[string]*flight
}

// cached is a page in the cache.
type cached struct {
	key  string
	at   time.Time
	page *rendered
}

// size counts the page twice: it is kept packed as well.
func (c *cached) size() int {
	const overhead = 512
	return 2*len(c.page.begin) + len(c.page.links) + len(c.key) + overhead
}

// flight is a page being made. What others read of it is written before done is
// closed.
type flight struct {
	at   time.Time
	done chan struct{}

	page  *rendered
	err   error
	ended bool // by the end of the request that made it, or a panic: no answer for others
}

func newCache(ttl time.Duration, now func() time.Time) *cache {
	return &cache{ttl: ttl, limit: cacheBytes, now: now, pages: map[string]*list.Element{}, flights: map[string]*flight{}}
}

// kept returns what read does, rendered and from the cache where it can. An
// operation whose pages are kept depends on nothing but the organization and its
// parameters, which params names.
func (s *server) kept(ctx context.Context, op operation, c *call, params url.Values, read func(context.Context) (any, *page, error)) (any, *page, error) {
	if s.cache == nil || op.Volatile || (op.Method != "" && op.Method != http.MethodGet) {
		return read(ctx)
	}
	var revision uint64
	if s.cfg.Revision != nil {
		revision = s.cfg.Revision(c.Principal.OrganizationID)
	}
	key := strings.Join([]string{c.Principal.OrganizationID, strconv.FormatUint(revision, 10), op.ID, c.Request.URL.EscapedPath(), params.Encode()}, "\n")
	page, err := s.cache.get(ctx, key, func(ctx context.Context) (*rendered, error) {
		data, pg, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return render(data, pg)
	})
	return page, nil, err
}

// get returns the page of a key, made by read where there is none. Errors are not
// kept, but whoever waited for the same page gets the same error.
func (c *cache) get(ctx context.Context, key string, read func(context.Context) (*rendered, error)) (*rendered, error) {
	for {
		page, f, mine := c.find(key)
		switch {
		case page != nil:
			return page, nil
		case mine:
			return c.fill(ctx, key, f, read)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !f.ended {
			return f.page, f.err
		}
	}
}

// find returns a page, or else a flight: one to wait for, or a new one that is the
// caller's to make.
func (c *cache) find(key string) (page *rendered, f *flight, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if e := c.pages[key]; e != nil {
		if p := e.Value.(*cached); c.fresh(p.at, now) {
			c.recent.MoveToFront(e)
			return p.page, nil, false
		}
	}
	if f := c.flights[key]; f != nil && c.fresh(f.at, now) {
		return nil, f, false
	}
	f = &flight{at: now, done: make(chan struct{}), ended: true}
	c.flights[key] = f
	return nil, f, true
}

// fresh tells whether what was read at a time may still be shown. A clock that was
// set back makes it stale.
func (c *cache) fresh(at, now time.Time) bool {
	age := now.Sub(at)
	return age >= 0 && age < c.ttl
}

// fill makes the page of a flight.
func (c *cache) fill(ctx context.Context, key string, f *flight, read func(context.Context) (*rendered, error)) (*rendered, error) {
	defer func() {
		c.land(key, f)
		close(f.done)
	}()
	page, err := read(ctx)
	f.page, f.err = page, err
	f.ended = err != nil && ctx.Err() != nil
	return page, err
}

// land keeps the page of a flight that has ended.
func (c *cache) land(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[key] == f {
		delete(c.flights, key)
	}
	if old := c.pages[key]; old != nil && old.Value.(*cached).at.After(f.at) {
		return // a later flight was faster
	}
	if f.page != nil {
		p := &cached{key: key, at: f.at, page: f.page}
		if p.size() > pageBytes {
			return
		}
		if old := c.pages[key]; old != nil {
			c.drop(old)
		}
		c.pages[key] = c.recent.PushFront(p)
		c.bytes += p.size()
	}
	now := c.now()
	for last := c.recent.Back(); last != nil; last = c.recent.Back() {
		if c.bytes <= c.limit && c.fresh(last.Value.(*cached).at, now) {
			break
		}
		c.drop(last)
	}
}

func (c *cache) drop(e *list.Element) {
	p := c.recent.Remove(e).(*cached)
	delete(c.pages, p.key)
	c.bytes -= p.size()
}
