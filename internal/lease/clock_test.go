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

// wall is a settable wall clock.
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

// TestClockOfTheStore: Now follows the store's clock, regardless of the local clock and its changes.
func TestClockOfTheStore(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour, 40 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1)
			c.store.ahead = ahead
			local := new(wall)
			before := lease.New(lease.Config{Store: c.store, Now: local.now})
			require.True(t, local.now().Equal(before.Now()), "local time before the first call of the store")
			require.Zero(t, before.Skew())
			require.NoError(t, before.Renew(t.Context()))
			require.True(t, c.store.time().Equal(before.Now()), "without a name")

			r := c.start(func(c *lease.Config) { c.Now = local.now })
			require.True(t, c.store.time().Equal(r.Now()))
			require.Equal(t, ahead, r.Skew())
			require.True(t, r.Holds("score:0000"))
			require.Equal(t, 1, r.Replicas(), "the one without a name is none")

			local.set(time.Hour)
			require.True(t, c.store.time().Equal(r.Now()), "the local clock was set")
			require.Equal(t, ahead-time.Hour, r.Skew())
			time.Sleep(4 * time.Second)
			require.True(t, c.store.time().Equal(r.Now()))

			// Without the store the estimate continues.
			r.link.set(func(l *link) { l.down = true })
			local.set(-time.Hour)
			time.Sleep(time.Hour)
			require.True(t, c.store.time().Equal(r.Now()))
			require.False(t, r.Holds("score:0000"))

			// Set the store's clock.
			r.link.set(func(l *link) { l.down = false })
			c.store.mu.Lock()
			c.store.ahead -= 20 * time.Minute
			c.store.mu.Unlock()
			time.Sleep(2 * interval)
			require.True(t, c.store.time().Equal(r.Now()))
		})
	}
}

// TestClockOnTheWay: the estimate is the midpoint of the round trip. A deviation that the round trip explains does
// not change it.
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
			{4 * time.Millisecond, 0, 0},                                                 // 8 ms exceed the jitter
			{400 * time.Millisecond, time.Second, -400 * time.Millisecond},               // explained by the round trip
			{400 * time.Millisecond, time.Second, 0},                                     // 800 ms exceed the round trip
			{-400 * time.Millisecond, 100 * time.Millisecond, 0},                         // a shorter round trip
			{3 * time.Millisecond, 10 * time.Millisecond, -3 * time.Millisecond},         // jitter
			{-3 * time.Millisecond, 10 * time.Millisecond, 0},                            // and back
			{-11 * time.Millisecond, 10 * time.Millisecond, 0},                           // exceeds the jitter
			{-10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},       // half the round trip plus jitter
			{-90 * time.Millisecond, 100 * time.Millisecond, time.Duration(0)},           // exceeds both
			{time.Hour, 100 * time.Millisecond, 0},                                       // a jump
			{-24 * time.Hour, 2500 * time.Millisecond, 0},                                // another jump
			{1200 * time.Millisecond, 2500 * time.Millisecond, -1200 * time.Millisecond}, // explained by the round trip
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

// TestLog: each condition is logged once.
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
			r.link.set(func(l *link) { l.down = true })
			time.Sleep(time.Minute)
			require.Equal(t, i+1, count("cannot be renewed"))
			require.Equal(t, i, count("again"))
			r.link.set(func(l *link) { l.down = false })
			time.Sleep(time.Minute)
			require.Equal(t, i+1, count("again"))
		}
		require.Equal(t, 1, count("store_ahead_by"))
		r.link.set(func(l *link) { l.down = true })
		r.stop()
		require.Equal(t, 1, count("failed to release"))
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
