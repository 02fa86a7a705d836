// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/lease"
)

// wall is a clock on a wall, which people set.
type wall struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (w *wall) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

func (w *wall) set(ahead time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = ahead
}

// TestClockOfTheStore goes by the store's clock, however far the local one is off,
// and not by what is done to the local one.
func TestClockOfTheStore(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour, 40 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1)
			c.store.ahead = ahead
			local := new(wall)
			before := lease.New(lease.Config{Store: c.store, Now: local.now})
			require.True(t, local.now().Equal(before.Now()), "the local time until the store is asked")
			require.Zero(t, before.Skew())

			r := c.start(func(c *lease.Config) { c.Now = local.now })
			require.True(t, c.store.time().Equal(r.Now()))
			require.Equal(t, ahead, r.Skew())
			require.True(t, r.Holds("score:0000"))

			local.set(time.Hour)
			require.True(t, c.store.time().Equal(r.Now()), "somebody set the local clock")
			require.Equal(t, ahead-time.Hour, r.Skew())
			time.Sleep(4 * time.Second)
			require.True(t, c.store.time().Equal(r.Now()))

			// Without the store it goes on as it was.
			r.link.set(func(l *link) { l.away = true })
			local.set(-time.Hour)
			time.Sleep(time.Hour)
			require.True(t, c.store.time().Equal(r.Now()))
			require.False(t, r.Holds("score:0000"))

			// Somebody set the store's clock.
			r.link.set(func(l *link) { l.away = false })
			c.store.mu.Lock()
			c.store.ahead -= 20 * time.Minute
			c.store.mu.Unlock()
			time.Sleep(2 * interval)
			require.True(t, c.store.time().Equal(r.Now()))
		})
	}
}

// TestClockOnTheWay takes the middle of the way to the store and back, and changes
// nothing that the way explains.
func TestClockOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 0)
		c.store.ahead = time.Hour
		r := c.start(func(c *lease.Config) { c.Interval = time.Hour })
		off := func() time.Duration { return r.Now().Sub(c.store.time()) }
		require.Zero(t, off())
		r.link.set(func(l *link) { l.slow = time.Second })
		require.NoError(t, r.Renew(t.Context()))
		require.Zero(t, off())

		for _, drift := range []struct {
			by, slow, off time.Duration
		}{
			{4 * time.Millisecond, 0, -4 * time.Millisecond},                             // jitter
			{4 * time.Millisecond, 0, 0},                                                 // 8 ms are more
			{400 * time.Millisecond, time.Second, -400 * time.Millisecond},               // may be the way
			{400 * time.Millisecond, time.Second, 0},                                     // 800 ms cannot be
			{-400 * time.Millisecond, 100 * time.Millisecond, 0},                         // a shorter way
			{3 * time.Millisecond, 10 * time.Millisecond, -3 * time.Millisecond},         // jitter
			{-3 * time.Millisecond, 10 * time.Millisecond, 0},                            // and back
			{-11 * time.Millisecond, 10 * time.Millisecond, 0},                           // no jitter
			{-10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},       // jitter of half the way and 5 ms
			{-90 * time.Millisecond, 100 * time.Millisecond, time.Duration(0)},           // too much
			{time.Hour, 100 * time.Millisecond, 0},                                       // a jump
			{-24 * time.Hour, 2500 * time.Millisecond, 0},                                // and another
			{1200 * time.Millisecond, 2500 * time.Millisecond, -1200 * time.Millisecond}, // may be the way
		} {
			r.link.set(func(l *link) { l.slow = drift.slow })
			c.store.mu.Lock()
			c.store.ahead += drift.by
			c.store.mu.Unlock()
			require.NoError(t, r.Renew(t.Context()))
			require.Equal(t, drift.off, off(), "%+v", drift)
		}
	})
}

// TestLog tells of what an operator should know, once.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var text bytes.Buffer
		c := newCluster(t, 1)
		c.store.ahead = 2 * time.Hour
		r := c.start(func(c *lease.Config) {
			c.Logger = slog.New(slog.NewTextHandler(writer{&mu, &text}, nil))
		})
		count := func(what string) int {
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(text.String(), what)
		}
		time.Sleep(time.Minute)
		require.Equal(t, 1, count("store_ahead_by=2h0m0s"))
		require.Zero(t, count("cannot be renewed"))
		for i := range 2 {
			r.link.set(func(l *link) { l.away = true })
			time.Sleep(time.Minute)
			require.Equal(t, i+1, count("cannot be renewed"))
			require.Equal(t, i, count("again"))
			r.link.set(func(l *link) { l.away = false })
			time.Sleep(time.Minute)
			require.Equal(t, i+1, count("again"))
		}
		require.Equal(t, 1, count("store_ahead_by"))
		r.link.set(func(l *link) { l.away = true })
		r.stop()
		require.Equal(t, 1, count("not released"))
	})
}

type writer struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}
