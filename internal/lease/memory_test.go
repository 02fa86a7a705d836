// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// memory is a store in memory.
type memory struct {
	calls atomic.Int64

	mu     sync.Mutex
	ahead  time.Duration // offset of its clock
	leases map[string]row
}

type row struct {
	holder  string
	expires time.Time
}

var errUnavailable = errors.New("store unavailable")

// now returns the store's time. The caller holds mu.
func (m *memory) now() time.Time { return time.Now().Round(0).Add(m.ahead) }

func (m *memory) AcquireLeases(_ context.Context, holder string, names []string, ttl time.Duration) ([]string, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls.Add(1)
	if m.leases == nil {
		m.leases = make(map[string]row)
	}
	now := m.now()
	var held []string
	for _, name := range names {
		if r := m.leases[name]; r.holder == holder || !now.Before(r.expires) {
			m.leases[name] = row{holder, now.Add(ttl)}
			held = append(held, name)
		}
	}
	if ttl <= 0 {
		held = nil
	}
	return held, now, nil
}

func (m *memory) ReleaseLeases(_ context.Context, holder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls.Add(1)
	for name, r := range m.leases {
		if r.holder == holder {
			delete(m.leases, name)
		}
	}
	return nil
}

func (m *memory) LeaseNames(_ context.Context, prefix string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls.Add(1)
	var names []string
	for name, r := range m.leases {
		if strings.HasPrefix(name, prefix) && m.now().Before(r.expires) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// time returns the store's time.
func (m *memory) time() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now()
}

// take assigns a lease to a holder unconditionally.
func (m *memory) take(name, holder string, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[name] = row{holder, m.now().Add(ttl)}
}

func (m *memory) holderOf(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.leases[name]; m.now().Before(r.expires) {
		return r.holder
	}
	return ""
}

// link is a connection to the store with injectable faults.
type link struct {
	*memory

	mu   sync.Mutex
	down bool          // every call fails without effect
	lost bool          // every result is lost
	hung bool          // calls end only with their context
	slow time.Duration // duration of a call, half of it before the effect
}

func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (l *link) call(ctx context.Context, do func() error) error {
	l.mu.Lock()
	down, lost, hung, slow := l.down, l.lost, l.hung, l.slow
	l.mu.Unlock()
	if hung {
		<-ctx.Done()
		return ctx.Err()
	}
	if down {
		return errUnavailable
	}
	time.Sleep(slow / 2)
	err := do()
	time.Sleep(slow / 2)
	if lost {
		return errUnavailable
	}
	return err
}

func (l *link) AcquireLeases(ctx context.Context, holder string, names []string, ttl time.Duration) (held []string, now time.Time, err error) {
	err = l.call(ctx, func() (err error) {
		held, now, err = l.memory.AcquireLeases(ctx, holder, names, ttl)
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return held, now, nil
}

func (l *link) ReleaseLeases(ctx context.Context, holder string) error {
	return l.call(ctx, func() error { return l.memory.ReleaseLeases(ctx, holder) })
}

func (l *link) LeaseNames(ctx context.Context, prefix string) (names []string, err error) {
	err = l.call(ctx, func() (err error) {
		names, err = l.memory.LeaseNames(ctx, prefix)
		return err
	})
	return names, err
}
