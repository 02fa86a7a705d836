// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"slices"
	"sync"
	"time"
)

// gate is a budget of bytes. Requests hold parts of it in leases, and wait in the
// order in which they came where it is used up.
//
// A lease may ask for more while it holds some. Such leases are served before
// new ones, and when every lease that holds something waits for more, so that nobody
// would ever give anything back, the last one that asked is refused.
type gate struct {
	mu        sync.Mutex
	capacity  int64
	free      int64
	holders   int       // leases that hold something
	growers   []*waiter // hold something and wait for more
	newcomers []*waiter // hold nothing
}

type waiter struct {
	lease *lease
	n     int64
	ready chan error // takes the one answer
}

func newGate(capacity int64) *gate { return &gate{capacity: capacity, free: capacity} }

func (g *gate) held() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.capacity - g.free
}

// lease is what one request holds. It is not safe for concurrent use.
type lease struct {
	gate     *gate
	bytes    int64         // held
	patience time.Duration // left for waiting
	waited   time.Duration
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
	g.free += n
	l.bytes -= n
	if n > 0 && l.bytes == 0 {
		g.holders--
	}
	g.settle()
}

// end returns all bytes.
func (l *lease) end() { l.give(l.bytes) }

// request takes n bytes at once and returns nil, or returns the waiter for them.
func (g *gate) request(l *lease, n int64) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	n = min(n, g.capacity-l.bytes)
	if len(g.growers) == 0 && (l.bytes > 0 || len(g.newcomers) == 0) && n <= g.free {
		g.grant(l, n)
		return nil
	}
	w := &waiter{lease: l, n: n, ready: make(chan error, 1)}
	if l.bytes > 0 {
		g.growers = append(g.growers, w)
	} else {
		g.newcomers = append(g.newcomers, w)
	}
	g.settle()
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
	*queue = slices.Delete(*queue, i, i+1)
	g.settle()
	return true
}

// settle answers the waiters that can be answered.
func (g *gate) settle() {
	g.growers = g.serve(g.growers)
	if len(g.growers) == 0 {
		g.newcomers = g.serve(g.newcomers)
		return
	}
	if last := len(g.growers) - 1; last+1 == g.holders {
		g.growers[last].ready <- errBusy
		g.growers = slices.Delete(g.growers, last, last+1)
	}
}

func (g *gate) serve(queue []*waiter) []*waiter {
	n := 0
	for n < len(queue) && queue[n].n <= g.free {
		g.grant(queue[n].lease, queue[n].n)
		queue[n].ready <- nil
		n++
	}
	return slices.Delete(queue, 0, n)
}

func (g *gate) grant(l *lease, n int64) {
	if n > 0 && l.bytes == 0 {
		g.holders++
	}
	g.free -= n
	l.bytes += n
}
