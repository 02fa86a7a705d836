// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// source makes pages and counts how often.
type source struct {
	mu    sync.Mutex
	reads int
	size  int // bytes of a page, at least
	err   error
}

func (s *source) read(context.Context) (*rendered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	return render(fmt.Sprintf("%d%s", s.reads, strings.Repeat(".", s.size)), nil)
}

func testCache() (*cache, *clock) {
	at := &clock{t: testNow}
	return newCache(time.Second, at.now), at
}

// text returns the page of a key as the source numbered it.
func text(t testing.TB, c *cache, key string, s *source) string {
	t.Helper()
	page, err := c.get(t.Context(), key, s.read)
	require.NoError(t, err)
	return strings.Trim(strings.TrimPrefix(string(page.begin), `{"data":`), `".`)
}

func TestCacheAge(t *testing.T) {
	c, at := testCache()
	s := &source{}
	require.Equal(t, "1", text(t, c, "a", s))
	at.advance(time.Second - 1)
	require.Equal(t, "1", text(t, c, "a", s))
	require.Equal(t, "2", text(t, c, "b", s))
	at.advance(1)
	require.Equal(t, "3", text(t, c, "a", s), "too old")
	require.Len(t, c.pages, 2)
	at.advance(-time.Hour)
	require.Equal(t, "4", text(t, c, "a", s), "from the future")
	at.advance(2 * time.Hour)
	require.Equal(t, "5", text(t, c, "c", s))
	require.Len(t, c.pages, 1, "what is too old takes no memory")
}

// TestCacheAgeOfRead: time that the store took counts.
func TestCacheAgeOfRead(t *testing.T) {
	c, at := testCache()
	s := &source{}
	_, err := c.get(t.Context(), "a", func(ctx context.Context) (*rendered, error) {
		at.advance(999 * time.Millisecond)
		return s.read(ctx)
	})
	require.NoError(t, err)
	require.Equal(t, "1", text(t, c, "a", s))
	at.advance(time.Millisecond)
	require.Equal(t, "2", text(t, c, "a", s))
}

func TestCacheErrors(t *testing.T) {
	c, _ := testCache()
	s := &source{err: errors.New("away")}
	for range 2 {
		_, err := c.get(t.Context(), "a", s.read)
		require.ErrorIs(t, err, s.err)
	}
	s.err = nil
	require.Equal(t, "3", text(t, c, "a", s))
	require.Empty(t, c.flights)
}

func TestCacheBytes(t *testing.T) {
	c, _ := testCache()
	c.limit = 10_000
	s := &source{size: 1000}
	for _, key := range []string{"a", "b", "c"} {
		text(t, c, key, s)
	}
	require.Equal(t, "1", text(t, c, "a", s), "used last now")
	require.Equal(t, "4", text(t, c, "d", s))
	require.LessOrEqual(t, c.bytes, c.limit)
	require.Equal(t, "1", text(t, c, "a", s))
	require.Equal(t, "4", text(t, c, "d", s))
	require.Equal(t, "5", text(t, c, "b", s), "was used longest ago")

	c, _ = testCache()
	s = &source{size: pageBytes}
	require.Equal(t, "1", text(t, c, "large", s))
	require.Equal(t, "2", text(t, c, "large", s), "too large to keep")
	require.Zero(t, c.bytes)
}

// TestCacheAccount: whatever is asked for, the bytes are those of the pages kept.
func TestCacheAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, at := testCache()
		c.limit = 20_000
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at.advance(rapid.SampledFrom([]time.Duration{0, 300 * time.Millisecond, time.Second, -time.Second}).Draw(t, "time"))
			s := &source{size: rapid.IntRange(0, 5000).Draw(t, "size")}
			if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
				s.err = errors.New("away")
			}
			_, _ = c.get(context.Background(), rapid.StringMatching(`[a-h]`).Draw(t, "key"), s.read)
			bytes := 0
			for key, e := range c.pages {
				p := e.Value.(*cached)
				require.Equal(t, key, p.key)
				bytes += p.size()
			}
			require.Equal(t, bytes, c.bytes)
			require.LessOrEqual(t, c.bytes, c.limit)
			require.Equal(t, c.recent.Len(), len(c.pages))
			require.Empty(t, c.flights)
		}
	})
}

// blocked is a read that waits until it is told how to end.
type blocked struct {
	source
	end chan error
}

func (b *blocked) read(ctx context.Context) (*rendered, error) {
	select {
	case err := <-b.end:
		if err != nil {
			return nil, err
		}
		return b.source.read(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestCacheTogether(t *testing.T) {
	// together starts n requests for one page and waits until all of them wait.
	together := func(ctx context.Context, c *cache, b *blocked, n int) chan error {
		errs := make(chan error, n)
		for range n {
			go func() {
				_, err := c.get(ctx, "a", b.read)
				errs <- err
			}()
		}
		synctest.Wait()
		return errs
	}
	t.Run("one read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := testCache()
			b := &blocked{end: make(chan error, 1)}
			errs := together(t.Context(), c, b, 10)
			b.end <- nil
			for range 10 {
				require.NoError(t, <-errs)
			}
			require.Equal(t, 1, b.reads)
		})
	})
	t.Run("one error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := testCache()
			b := &blocked{end: make(chan error, 1)}
			errs := together(t.Context(), c, b, 10)
			away := errors.New("away")
			b.end <- away
			for range 10 {
				require.ErrorIs(t, <-errs, away)
			}
		})
	})
	t.Run("who reads goes away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := testCache()
			b := &blocked{end: make(chan error, 1)}
			gone, leave := context.WithCancel(t.Context())
			first := together(gone, c, b, 1)
			others := together(t.Context(), c, b, 5)
			leave()
			require.ErrorIs(t, <-first, context.Canceled)
			synctest.Wait()
			b.end <- nil
			for range 5 {
				require.NoError(t, <-others)
			}
			require.Equal(t, 1, b.reads)
		})
	})
	t.Run("who waits goes away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := testCache()
			b := &blocked{end: make(chan error, 1)}
			first := together(t.Context(), c, b, 1)
			gone, leave := context.WithCancel(t.Context())
			other := together(gone, c, b, 1)
			leave()
			require.ErrorIs(t, <-other, context.Canceled)
			b.end <- nil
			require.NoError(t, <-first)
		})
	})
	t.Run("who reads panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := testCache()
			b := &blocked{end: make(chan error, 1)}
			fall, fell := make(chan struct{}), make(chan any, 1)
			go func() {
				defer func() { fell <- recover() }()
				_, _ = c.get(t.Context(), "a", func(context.Context) (*rendered, error) { <-fall; panic("oh") })
			}()
			synctest.Wait()
			others := together(t.Context(), c, b, 3)
			close(fall)
			require.Equal(t, "oh", <-fell)
			b.end <- nil
			for range 3 {
				require.NoError(t, <-others)
			}
			require.Equal(t, 1, b.reads)
			require.Empty(t, c.flights)
		})
	})
	t.Run("a read that takes too long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, at := testCache()
			slow, fast := &blocked{end: make(chan error, 1)}, &source{}
			first := together(t.Context(), c, slow, 1)
			at.advance(time.Second)
			require.Equal(t, "1", text(t, c, "a", fast), "does not wait for what will be too old")
			slow.end <- nil
			require.NoError(t, <-first)
			require.Equal(t, "1", text(t, c, "a", fast), "the older read does not replace the newer one")
			require.Equal(t, 1, fast.reads)
			require.Empty(t, c.flights)
		})
	})
}

// cachedFixture serves with a cache, and counts what reaches the store.
func cachedFixture(t *testing.T, change ...func(*Config)) (*fixture, *clock, *int) {
	at := &clock{t: testNow}
	f := newFixture(t, append(change, func(c *Config) { c.CacheTTL, c.Now = 0, at.now })...)
	reads := 0
	list, org := f.store.FindServicesFn, f.store.FindOrganizationByIDFn
	f.store.FindServicesFn = func(ctx context.Context, id string, p assay.Page) ([]*assay.Service, int, error) {
		reads++
		return list(ctx, id, p)
	}
	f.store.FindOrganizationByIDFn = func(ctx context.Context, id string) (*assay.Organization, error) {
		reads++
		return org(ctx, id)
	}
	return f, at, &reads
}

func TestCached(t *testing.T) {
	f, at, reads := cachedFixture(t)
	first := f.get(t, "/api/v1/services?limit=2").ok(t)
	at.advance(500 * time.Millisecond)
	second := f.get(t, "/api/v1/services?limit=2").ok(t)
	require.Equal(t, 1, *reads)
	require.Equal(t, first.Data, second.Data)
	require.Equal(t, first.Links, second.Links)
	require.Equal(t, first.Meta.Total, second.Meta.Total)
	require.Equal(t, first.Header().Get("ETag"), second.Header().Get("ETag"))
	require.NotEqual(t, first.Meta.Timestamp, second.Meta.Timestamp, "meta is new")
	require.NotEqual(t, first.Meta.TraceID, second.Meta.TraceID, "meta is new")

	for _, target := range []string{"/api/v1/services?limit=2&x=1", "/api/v1/services?x&limit=%32&offset="} {
		require.Equal(t, first.Data, f.get(t, target).ok(t).Data)
	}
	require.Equal(t, http.StatusNotModified, f.get(t, "/api/v1/services?limit=2", "If-None-Match", first.Header().Get("ETag")).Code)
	f.do(t, http.MethodHead, "/api/v1/services?limit=2", "Authorization", reader)
	require.Equal(t, 1, *reads, "the same page")

	require.NotEqual(t, first.Data, f.get(t, "/api/v1/services?limit=3").ok(t).Data)
	require.NotEqual(t, first.Data, f.get(t, "/api/v1/services?limit=2&offset=2").ok(t).Data)
	require.Equal(t, 3, *reads, "other pages")

	at.advance(500 * time.Millisecond)
	f.get(t, "/api/v1/services?limit=2").ok(t)
	require.Equal(t, 4, *reads, "a second has passed")
}

// TestCachedRevision: what has changed is shown at once, to whom it belongs.
func TestCachedRevision(t *testing.T) {
	revisions := map[string]uint64{}
	f, _, reads := cachedFixture(t, func(c *Config) {
		c.Revision = func(organizationID string) uint64 { return revisions[organizationID] }
	})
	for range 2 {
		f.get(t, "/api/v1/organization").ok(t)
		f.get(t, "/api/v1/organization", "Authorization", stranger).ok(t)
	}
	require.Equal(t, 2, *reads)
	revisions[orgID]++
	for range 2 {
		f.get(t, "/api/v1/organization").ok(t)
		f.get(t, "/api/v1/organization", "Authorization", stranger).ok(t)
	}
	require.Equal(t, 3, *reads)
}

// TestCachedLinks: a path that is written in another way has other links.
func TestCachedLinks(t *testing.T) {
	f, _, _ := cachedFixture(t)
	id := f.store.services[0].ID
	for _, path := range []string{"/api/v1/services/" + id + "/insights", "/api/v1/services/" + strings.ToUpper(id) + "/insights"} {
		require.Contains(t, f.get(t, path).ok(t).Links["self"], path)
	}
}

// TestCachedForWhom: a page is its organization's alone, and who may not see it gets
// nothing from the cache either.
func TestCachedForWhom(t *testing.T) {
	f, _, reads := cachedFixture(t, func(c *Config) { c.RateLimit = 3 })
	mine := f.get(t, "/api/v1/organization").ok(t)
	theirs := f.get(t, "/api/v1/organization", "Authorization", stranger).ok(t)
	require.NotEqual(t, mine.Data, theirs.Data)
	require.Equal(t, 2, *reads)

	f.get(t, "/api/v1/organization", "Authorization", "").fails(t, http.StatusUnauthorized, assay.CodeMissingCredentials)
	f.get(t, "/api/v1/organization", "Authorization", "Bearer revoked").fails(t, http.StatusUnauthorized, assay.CodeInvalidAPIKey)
	f.get(t, "/api/v1/organization", "Authorization", ingester).fails(t, http.StatusForbidden, assay.CodeForbidden)
	f.get(t, "/api/v1/organization").ok(t)
	f.get(t, "/api/v1/organization").ok(t)
	f.get(t, "/api/v1/organization").fails(t, http.StatusTooManyRequests, assay.CodeRateLimited)
	require.Equal(t, 2, *reads)
}

func TestCachedErrors(t *testing.T) {
	f, _, _ := cachedFixture(t)
	f.store.FindOrganizationByIDFn = func(context.Context, string) (*assay.Organization, error) {
		return nil, assay.Errorf(assay.CodeUnavailable, "the store is away")
	}
	f.get(t, "/api/v1/organization").fails(t, http.StatusServiceUnavailable, assay.CodeUnavailable)
	f.store.FindOrganizationByIDFn = func(context.Context, string) (*assay.Organization, error) {
		return &assay.Organization{ID: orgID, Tier: assay.TierFree}, nil
	}
	f.get(t, "/api/v1/organization").ok(t)
}

func TestNotCached(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"switched off": func(c *Config) { c.CacheTTL = -1 },
		"volatile":     func(*Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, change)
			reads := 0
			op := operation{ID: "test", Volatile: name == "volatile"}
			c := &call{Principal: &assay.Principal{OrganizationID: orgID}, Request: httptest.NewRequest(http.MethodGet, "/x", nil)}
			if name == "volatile" {
				f.h.cache = newCache(time.Second, time.Now)
			}
			for range 2 {
				_, _, err := f.h.kept(t.Context(), op, c, nil, func(context.Context) (any, *page, error) { reads++; return 1, nil, nil })
				require.NoError(t, err)
			}
			require.Equal(t, 2, reads)
		})
	}
	f := newFixture(t, func(c *Config) { c.CacheTTL = 0 })
	require.Equal(t, time.Second, f.h.cache.ttl, "the default")
}

// TestGzipParts: however long its two parts, what is packed apart is one gzip file.
func TestGzipParts(t *testing.T) {
	check := func(t require.TestingT, data string, links int) {
		r, err := render(data, &page{total: 3, links: Links{Self: strings.Repeat("x", links)}})
		require.NoError(t, err)
		end, err := r.end(Meta{})
		require.NoError(t, err)
		zr, err := gzip.NewReader(bytes.NewReader(bytes.Join(r.gzip(end), nil)))
		require.NoError(t, err)
		zr.Multistream(false)
		plain, err := io.ReadAll(zr)
		require.NoError(t, err)
		require.Equal(t, string(r.begin)+string(end), string(plain))
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.String().Draw(t, "data"), rapid.IntRange(0, 1000).Draw(t, "links"))
	})
	check(t, strings.Repeat("0123456789", 30_000), 200_000)
	for links := range 300 { // around the length of a block
		check(t, "", 1<<16-300+links)
	}
}
