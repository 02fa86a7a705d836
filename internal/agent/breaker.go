// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"
	"time"
)

const (
	maxFailures = 10              // in a row; they open the circuit
	openFor     = 5 * time.Second // until a call is let through to see
)

// breaker is a circuit breaker. Its zero value is closed. It may be used concurrently.
type breaker struct {
	mu       sync.Mutex
	failures int       // in a row; maxFailures or more: the circuit is open
	retryAt  time.Time // when a probe may go through
	probing  bool      // one is on its way
}

// verdict is what a call tells about the backend.
type verdict int

const (
	verdictUnknown verdict = iota // the call did not get far enough
	verdictAlive
	verdictFailed
)

// change is what the end of a call did to the circuit.
type change int

const (
	circuitSame change = iota
	circuitOpened
	circuitClosed
)

// begin admits a call, or returns how long to wait. The end of a call that was
// admitted must be reported with the probe that begin returned.
func (b *breaker) begin(now time.Time) (probe bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < maxFailures {
		return false, 0
	}
	if b.probing || now.Before(b.retryAt) {
		return false, max(b.retryAt.Sub(now), time.Second)
	}
	b.probing = true
	return true, 0
}

// end reports the end of a call. One that began before the circuit opened and
// succeeds after it closes it too; one that fails does not keep it open for longer.
func (b *breaker) end(now time.Time, probe bool, v verdict) change {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	open := b.failures >= maxFailures
	switch v {
	case verdictAlive:
		b.failures = 0
		if open {
			return circuitClosed
		}
	case verdictFailed:
		b.failures++
		opens := b.failures == maxFailures
		if opens || probe {
			b.retryAt = now.Add(openFor)
		}
		if opens {
			return circuitOpened
		}
	}
	return circuitSame
}
