// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync"
	"time"

	"assay"
)

// Some things take longer to read of a large organization than a page may take, and
// change little in a while: usage and cost, which are added up over a month, and the
// names of environments.
const (
	memoFresh   = 15 * time.Second // how long they are shown before they are read anew
	memoStale   = 10 * time.Minute // and at most, while that is done or fails
	memoTimeout = 30 * time.Second // of reading
	maxMemo     = 64               // organizations
)

// memo keeps a value for each organization. What is not fresh any more is shown while
// it is read anew, beside requests. It may be used concurrently.
type memo[T any] struct {
	read func(ctx context.Context, organizationID string) (T, error)
	now  func() time.Time

	closing context.Context
	close   context.CancelFunc
	reading sync.WaitGroup

	mu      sync.Mutex
	entries map[string]*memoEntry[T]
	closed  bool
}

// memoEntry is what is known of one organization.
type memoEntry[T any] struct {
	value  T
	at     time.Time      // when value was asked for; zero while there is none
	flight *memoFlight[T] // nil: it is not being read
}

// memoFlight is a read under way. Its results are set before done is closed.
type memoFlight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newMemo[T any](now func() time.Time, read func(context.Context, string) (T, error)) *memo[T] {
	m := &memo[T]{read: read, now: now, entries: map[string]*memoEntry[T]{}}
	m.closing, m.close = context.WithCancel(context.Background())
	return m
}

// Close ends what is being read and waits for it.
func (m *memo[T]) Close() {
	m.close()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.reading.Wait()
}

// get returns what is known, or waits for it as long as ctx says.
func (m *memo[T]) get(ctx context.Context, organizationID string) (T, error) {
	value, f := m.find(organizationID)
	if f == nil {
		return value, nil
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// find returns a value, or a flight to wait for.
func (m *memo[T]) find(organizationID string) (value T, wait *memoFlight[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	e := m.entries[organizationID]
	if e == nil {
		m.makeRoom()
		e = new(memoEntry[T])
		m.entries[organizationID] = e
	}
	age := now.Sub(e.at)
	if (age < 0 || age >= memoFresh) && e.flight == nil {
		m.start(organizationID, e, now)
	}
	if e.at.IsZero() || age < 0 || age >= memoStale {
		return value, e.flight
	}
	return e.value, nil
}

// makeRoom drops the value that is oldest where there are too many.
func (m *memo[T]) makeRoom() {
	if len(m.entries) < maxMemo {
		return
	}
	var oldest string
	for id, e := range m.entries {
		if oldest == "" || e.at.Before(m.entries[oldest].at) {
			oldest = id
		}
	}
	delete(m.entries, oldest)
}

// start reads a value. m.mu is held.
func (m *memo[T]) start(organizationID string, e *memoEntry[T], now time.Time) {
	f := &memoFlight[T]{done: make(chan struct{})}
	e.flight = f
	if m.closed {
		f.err = context.Canceled
		close(f.done)
		return
	}
	m.reading.Go(func() {
		ctx, cancel := context.WithTimeout(m.closing, memoTimeout)
		defer cancel()
		f.value, f.err = m.read(assay.WithOrganization(ctx, organizationID), organizationID)
		m.mu.Lock()
		e.flight = nil
		if f.err == nil {
			e.value, e.at = f.value, now
		}
		m.mu.Unlock()
		close(f.done)
	})
}
