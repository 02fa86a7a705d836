// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"sync"
	"time"
)

// jitter is the deviation between the store's clock and its estimate up to which the estimate is not corrected.
const jitter = 5 * time.Millisecond

// clock estimates the store's time from the local monotonic clock, which changes of the wall clock do not affect, and
// the offset measured at the last call of the store.
type clock struct {
	wall    func() time.Time     // local wall clock
	elapsed func() time.Duration // local monotonic clock
	start   time.Time            // wall clock when elapsed was 0

	mu     sync.RWMutex
	offset time.Duration // store's time minus (start plus elapsed)
	asked  bool
}

func newClock(wall func() time.Time, elapsed func() time.Duration) *clock {
	return &clock{wall: wall, elapsed: elapsed, start: wall().Round(0).Add(-elapsed())}
}

func (c *clock) now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.start.Add(c.elapsed() + c.offset)
}

// skew returns how far the store's clock is currently ahead of the local wall clock.
func (c *clock) skew() time.Duration {
	c.mu.RLock()
	asked := c.asked
	c.mu.RUnlock()
	if !asked {
		return 0
	}
	return c.now().Sub(c.wall().Round(0))
}

// set records that the store's clock returned now at a time between before and after. The midpoint is off by at most
// half of the round trip, so an estimate within that range is kept.
func (c *clock) set(now time.Time, before, after time.Duration) {
	half := (after - before) / 2
	offset := now.Sub(c.start.Add(before + half))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked && (offset-c.offset).Abs() <= half+jitter {
		return
	}
	c.offset, c.asked = offset, true
}
