// SPDX-License-Identifier: Apache-2.0

package fair

import "sync"

// Limiter limits an amount in use, such as calls in flight or bytes of memory, when evicting its holder would cost more
// than exceeding the limit. At the limit it refuses keys that would have to give way (see Shares), and still admits keys
// within their share. With k keys the amount is at most limit * (1 + ln k). It is safe for concurrent use.
type Limiter struct {
	mu     sync.Mutex
	shares *Shares
}

// NewLimiter returns a Limiter with nothing in use.
func NewLimiter(limit int64) *Limiter { return &Limiter{shares: NewShares(limit)} }

// Acquire adds n to the use of a key and reports whether it is admitted. Each admitted amount needs a Release.
func (l *Limiter) Acquire(key string, n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if loser, full := l.shares.GivesWay(key, n); full && loser == key {
		return false
	}
	l.shares.Add(key, n)
	return true
}

// Release subtracts n from the use of a key.
func (l *Limiter) Release(key string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shares.Add(key, -n)
}

// InUse returns the total amount in use.
func (l *Limiter) InUse() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shares.Total()
}
