// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"assay"
)

// Usage, cost and the names of environments change slowly, and reading them for a large organization takes longer than
// a page may take. They are therefore cached.
const (
	memoFresh   = 15 * time.Second // age from which a value is read again
	memoStale   = 10 * time.Minute // maximum age while the reading is in progress or fails
	memoTimeout = 30 * time.Second // of reading
	maxMemo     = 64               // organizations
)

// memo caches a value for each organization. It returns a stale value while it reads a new one in the background. It
// is safe for concurrent use.
type memo[T any] struct {
	read func(ctx context.Context, organizationID string) (T, error)
	now  func() time.Time

	closing context.Context
	close   context.CancelFunc
	flights singleflight.Group // by organization
	reading sync.WaitGroup

	mu      sync.Mutex
	entries map[string]memoEntry[T]
	closed  bool
}

// memoEntry is the cached value of one organization.
type memoEntry[T any] struct {
	value T
	at    time.Time // when reading it began
}

func newMemo[T any](now func() time.Time, read func(context.Context, string) (T, error)) *memo[T] {
	m := &memo[T]{read: read, now: now, entries: map[string]memoEntry[T]{}}
	m.closing, m.close = context.WithCancel(context.Background())
	return m
}

// Close cancels reads and waits for them to end.
func (m *memo[T]) Close() {
	m.close()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.reading.Wait()
}

// get returns the value of an organization, or waits for it until ctx ends.
func (m *memo[T]) get(ctx context.Context, organizationID string) (value T, err error) {
	m.mu.Lock()
	e, known := m.entries[organizationID]
	m.mu.Unlock()
	age := m.now().Sub(e.at)
	if known && age >= 0 && age < memoFresh {
		return e.value, nil
	}
	flight := m.flights.DoChan(organizationID, func() (any, error) { return m.load(organizationID) })
	if known && age >= 0 && age < memoStale {
		return e.value, nil
	}
	select {
	case r := <-flight:
		value, _ = r.Val.(T)
		return value, r.Err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// load reads a value and keeps it.
func (m *memo[T]) load(organizationID string) (value T, err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return value, context.Canceled
	}
	m.reading.Add(1)
	m.mu.Unlock()
	defer m.reading.Done()
	at := m.now()
	ctx, cancel := context.WithTimeout(m.closing, memoTimeout)
	defer cancel()
	value, err = m.read(assay.WithOrganization(ctx, organizationID), organizationID)
	if err == nil {
		m.keep(organizationID, memoEntry[T]{value, at})
	}
	return value, err
}

// keep stores a value. If the cache is full, keep evicts the oldest one.
func (m *memo[T]) keep(organizationID string, e memoEntry[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.entries[organizationID]; !known && len(m.entries) >= maxMemo {
		oldest, at := "", e.at
		for id, other := range m.entries {
			if oldest == "" || other.at.Before(at) {
				oldest, at = id, other.at
			}
		}
		delete(m.entries, oldest)
	}
	m.entries[organizationID] = e
}
