// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"
	"time"
)

const (
	maxFailures = 10              // consecutive failures that open the circuit of an organization
	openFor     = 5 * time.Second // time until a probe is allowed
	maxCircuits = 10_000          // organizations whose last call failed; beyond it, an arbitrary circuit is evicted
)

// breaker is a circuit breaker with a circuit for each organization, because the calls of an organization can make the
// backend fail. It is safe for concurrent use.
type breaker struct {
	mu       sync.Mutex
	circuits map[string]*circuit // of the organizations whose last call failed
}

// circuit is the state of one organization.
type circuit struct {
	failures int       // consecutive; maxFailures or more: the circuit is open
	retryAt  time.Time // when the next probe is allowed
	probing  bool      // a probe is in flight
}

// verdict is the state of the backend according to a call.
type verdict int

const (
	verdictUnknown verdict = iota // the call did not reach the backend
	verdictAlive
	verdictFailed
)

// change is a transition of the circuit.
type change int

const (
	circuitSame change = iota
	circuitOpened
	circuitClosed
)

// begin admits a call of an organization, or returns the delay before the next attempt. The caller must report the end
// of an admitted call with the value of probe that begin returned.
func (b *breaker) begin(organization string, now time.Time) (probe bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[organization]
	if c == nil || c.failures < maxFailures {
		return false, 0
	}
	if c.probing || now.Before(c.retryAt) {
		return false, max(c.retryAt.Sub(now), time.Second)
	}
	c.probing = true
	return true, 0
}

// end reports the end of a call. A successful call closes the circuit, even if it began before the circuit opened. A
// failed call that began before the circuit opened does not extend the open state.
func (b *breaker) end(organization string, now time.Time, probe bool, v verdict) change {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[organization]
	if c != nil && probe {
		c.probing = false
	}
	switch v {
	case verdictAlive:
		delete(b.circuits, organization)
		if c != nil && c.failures >= maxFailures {
			return circuitClosed
		}
	case verdictFailed:
		if c == nil {
			c = b.add(organization)
		}
		c.failures++
		opens := c.failures == maxFailures
		if opens || probe {
			c.retryAt = now.Add(openFor)
		}
		if opens {
			return circuitOpened
		}
	}
	return circuitSame
}

// add adds the circuit of an organization, and evicts others beyond maxCircuits.
func (b *breaker) add(organization string) *circuit {
	if b.circuits == nil {
		b.circuits = make(map[string]*circuit)
	}
	for id := range b.circuits {
		if len(b.circuits) < maxCircuits {
			break
		}
		delete(b.circuits, id)
	}
	c := new(circuit)
	b.circuits[organization] = c
	return c
}
