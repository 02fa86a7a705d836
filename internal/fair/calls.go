// SPDX-License-Identifier: Apache-2.0

package fair

import "sync"

// Calls limits the calls in flight where ending some would cost more than exceeding the limit:
// past the limit it refuses those of the keys that would have to give way (see Shares), and
// still admits those of keys within their share. Of k keys, there are at most limit * (1 + ln k)
// calls. It may be used concurrently.
type Calls struct {
	mu     sync.Mutex
	shares *Shares
}

// NewCalls returns a Calls without any in flight.
func NewCalls(limit int) *Calls { return &Calls{shares: NewShares(int64(limit))} }

// Begin reports whether a call of a key is admitted. If it is, End ends it.
func (c *Calls) Begin(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if loser, full := c.shares.GivesWay(key, 1); full && loser == key {
		return false
	}
	c.shares.Add(key, 1)
	return true
}

// End ends a call of a key.
func (c *Calls) End(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shares.Add(key, -1)
}

// Len returns the number of calls in flight.
func (c *Calls) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.shares.Total())
}
