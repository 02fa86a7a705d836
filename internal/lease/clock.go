// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"sync"
	"time"
)

// jitter is by how much the store's clock may seem to be off what is known of it
// before that is corrected.
const jitter = 5 * time.Millisecond

// clock tells the store's time. It goes by the time that has passed here, which no
// change of the local wall clock touches, and by how far the store was off that when
// it was last asked.
type clock struct {
	wall    func() time.Time     // the local wall clock
	elapsed func() time.Duration // since some moment, never set
	start   time.Time            // what the wall clock showed when elapsed was 0

	mu     sync.RWMutex
	offset time.Duration // of the store's time from start plus elapsed
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

// skew returns how far the store's clock is ahead of the local wall clock as that
// stands now.
func (c *clock) skew() time.Duration {
	c.mu.RLock()
	asked := c.asked
	c.mu.RUnlock()
	if !asked {
		return 0
	}
	return c.now().Sub(c.wall().Round(0))
}

// set notes that the store's clock showed now at some moment between before and
// after. The middle of the two is off by half the way at most, so what agrees with
// what is known within that changes nothing.
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
