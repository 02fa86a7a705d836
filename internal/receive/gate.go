// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"slices"
	"sync"
	"time"
)

// gate is a budget of bytes. Requests hold parts of it in leases, and wait where it
// is used up: of those that hold nothing yet the organization that holds least comes
// first, and no organization can hold all of it.
//
// A lease may ask for more while it holds some. Such leases are served before
// new ones, and when every lease that holds something waits for more, so that nobody
// would ever give anything back, the last one that asked is refused. The same holds
// among the leases of an organization that wait for its own share.
type gate struct {
	mu        sync.Mutex
	capacity  int64
	each      int64 // of one organization
	free      int64
	shares    map[string]*share // of the organizations that hold something
	holders   int               // leases that hold something
	growers   []*waiter         // hold something and wait for more
	newcomers []*waiter         // hold nothing
}

// share is what one organization holds.
type share struct {
	bytes   int64
	holders int
	growers int // of the holders
}

type waiter struct {
	lease *lease
	n     int64
	ready chan error // takes the one answer
}

// newGate returns a gate of which one organization can hold three quarters, or as
// much as its largest lease needs.
func newGate(capacity, largest int64) *gate {
	return &gate{
		capacity: capacity, each: min(max(capacity-capacity/4, largest), capacity), free: capacity, shares: make(map[string]*share),
	}
}

func (g *gate) held() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.capacity - g.free
}

// lease is what one request holds. It is not safe for concurrent use.
type lease struct {
	gate         *gate
	organization string        // "" before it is known
	bytes        int64         // held
	share        *share        // of the organization, while the lease holds something
	patience     time.Duration // left for waiting
	waited       time.Duration

	// turn, if set, is given back while the lease waits, so that others can go on and
	// give back what it waits for.
	turn *turn
}

func (g *gate) lease(patience time.Duration) *lease {
	return &lease{gate: g, patience: patience}
}

// take adds n bytes to the lease, or as many as the whole gate has. It returns errBusy
// when they cannot be had within the lease's patience, or the cause of the end of ctx.
func (l *lease) take(ctx context.Context, n int64) error {
	w := l.gate.request(l, n)
	if w == nil {
		return nil
	}
	if l.turn == nil {
		return l.wait(ctx, w)
	}
	l.turn.end()
	if err := l.wait(ctx, w); err != nil {
		return err
	}
	return l.turn.begin(ctx)
}

func (l *lease) wait(ctx context.Context, w *waiter) error {
	began := time.Now()
	defer func() {
		waited := time.Since(began)
		l.waited += waited
		l.patience = max(0, l.patience-waited)
	}()
	timer := time.NewTimer(l.patience)
	defer timer.Stop()
	var err error
	select {
	case err = <-w.ready:
		return err
	case <-timer.C:
		err = errBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if !l.gate.abandon(w) {
		return <-w.ready // was answered meanwhile
	}
	return err
}

// give returns n bytes.
func (l *lease) give(n int64) {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	n = min(n, l.bytes)
	if n <= 0 {
		return
	}
	g.free += n
	l.bytes -= n
	s := l.share
	s.bytes -= n
	if l.bytes == 0 {
		g.holders--
		s.holders--
		l.share = nil
	}
	if s.holders == 0 {
		delete(g.shares, l.organization)
	}
	g.settle()
}

// end returns all bytes.
func (l *lease) end() { l.give(l.bytes) }

// request takes n bytes at once and returns nil, or returns the waiter for them.
func (g *gate) request(l *lease, n int64) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &waiter{lease: l, n: min(n, g.each-l.bytes), ready: make(chan error, 1)}
	if w.n <= 0 {
		return nil
	}
	if l.bytes > 0 {
		l.share.growers++
		g.growers = append(g.growers, w)
	} else {
		g.newcomers = append(g.newcomers, w)
	}
	g.settle()
	select {
	case err := <-w.ready:
		if err == nil {
			return nil
		}
		w.ready <- err
	default:
	}
	return w
}

// abandon stops waiting. It returns false when w has been answered.
func (g *gate) abandon(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := &g.newcomers
	if w.lease.bytes > 0 {
		queue = &g.growers
	}
	i := slices.Index(*queue, w)
	if i < 0 {
		return false
	}
	if w.lease.bytes > 0 {
		w.lease.share.growers--
	}
	*queue = slices.Delete(*queue, i, i+1)
	g.settle()
	return true
}

// settle answers the waiters that can be answered.
func (g *gate) settle() {
	if waits := g.grow(); waits {
		return // what is free is for the growers
	}
	for len(g.newcomers) > 0 {
		i := g.next()
		if i < 0 || g.newcomers[i].n > g.free {
			return
		}
		g.grant(g.newcomers[i])
		g.newcomers = slices.Delete(g.newcomers, i, i+1)
	}
}

// grow serves the growers in order, past those that wait for their organization's
// share, and tells whether one waits for what others hold.
func (g *gate) grow() (waits bool) {
	g.growers = slices.DeleteFunc(g.growers, func(w *waiter) bool {
		if waits || !g.within(w) {
			return false
		}
		if w.n > g.free {
			waits = true
			return false
		}
		w.lease.share.growers--
		g.grant(w)
		return true
	})
	if i := g.stuck(); i >= 0 {
		g.growers[i].lease.share.growers--
		g.growers[i].ready <- errBusy // its lease gives back what it holds, which settles the rest
		g.growers = slices.Delete(g.growers, i, i+1)
	}
	return waits
}

// stuck returns the last of the growers if all leases wait for more, or else of the
// growers of an organization all of whose leases wait and one for its share; or -1.
func (g *gate) stuck() int {
	if len(g.growers) > 0 && len(g.growers) == g.holders {
		return len(g.growers) - 1
	}
	for i, w := range slices.Backward(g.growers) {
		if s := w.lease.share; s.growers == s.holders && !g.within(w) {
			return i
		}
	}
	return -1
}

// within tells whether a waiter would leave its organization within its share.
func (g *gate) within(w *waiter) bool {
	s := w.lease.share
	if s == nil { // a newcomer
		s = g.shares[w.lease.organization]
	}
	return s == nil || s.bytes+w.n <= g.each
}

// next returns the newcomer to be served first, or -1: the first one of an
// organization, which others of it do not overtake.
func (g *gate) next() int {
	first, least := -1, int64(0)
	seen := make(map[string]bool)
	for i, w := range g.newcomers {
		organization := w.lease.organization
		if seen[organization] {
			continue
		}
		seen[organization] = true
		var held int64
		if s := g.shares[organization]; s != nil {
			held = s.bytes
		}
		if (first < 0 || held < least) && g.within(w) {
			first, least = i, held
		}
	}
	return first
}

func (g *gate) grant(w *waiter) {
	l := w.lease
	s := l.share
	if s == nil {
		s = g.shares[l.organization]
	}
	if s == nil {
		s = new(share)
		g.shares[l.organization] = s
	}
	if l.bytes == 0 {
		g.holders++
		s.holders++
		l.share = s
	}
	s.bytes += w.n
	g.free -= w.n
	l.bytes += w.n
	w.ready <- nil
}
