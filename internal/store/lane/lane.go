// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"context"

	"assay"
	"assay/internal/fair"
)

// Lane is the purpose of a transaction.
type Lane int

const (
	// OwnWork is for commits and leases. One goroutine does each of them, so the lane has no
	// limit.
	OwnWork Lane = iota
	// Lookups are for the lookups of ingestion: API keys, journals, the health of the store.
	Lookups
	// Loads are for lookups that may take long, such as quotas. They always leave room for
	// another lookup. With fewer than six connections, they count as pages.
	Loads
	// Scoring is for scoring organizations and expiring data. It always leaves room for
	// OwnWork. With fewer than six connections, it counts as pages.
	Scoring
	// Pages are for all other transactions: reads and changes by users and API clients.
	Pages
)

// reserved is the number of connections for OwnWork and Scoring only, and for Lookups
// only, if there are enough connections.
const reserved = 3

// Lanes admits transactions to connections. The pool, which serves its callers in order
// or at random, then always has a connection for every lane. Lanes is safe for concurrent
// use.
type Lanes struct {
	lanes [Pages + 1]*fair.Semaphore // nil: no limit
	nest  bool                       // a load also counts as a lookup
	cpu   *fair.Semaphore            // for pages; nil: no limit
}

// New returns the lanes of a number of connections. cpu is for a database that runs in this process: a page of an
// organization holds one of its slots. nil means that the database runs elsewhere: a slot must not wait for it.
func New(conns int, cpu *fair.Semaphore) *Lanes {
	lookups, loads, pages := sizes(conns)
	ls := &Lanes{nest: loads > 0, cpu: cpu}
	ls.lanes[Lookups] = fair.NewSemaphore(lookups, lookups)
	ls.lanes[Pages] = fair.NewSemaphore(pages, (pages+1)/2)
	ls.lanes[Loads], ls.lanes[Scoring] = ls.lanes[Pages], ls.lanes[Pages]
	if loads > 0 {
		ls.lanes[Loads], ls.lanes[Scoring] = fair.NewSemaphore(loads, loads), fair.NewSemaphore(loads, loads)
	}
	return ls
}

// ScoringApart reports whether scoring has connections of its own, so that it never waits for a page.
func (ls *Lanes) ScoringApart() bool { return ls.nest }

// sizes returns the limits of the lanes. Scoring has the limit of loads; 0 means that
// both count as pages.
func sizes(conns int) (lookups, loads, pages int) {
	own := min(max(conns/3, 1), reserved)
	return own, own - 1, max(conns-2*own, 1)
}

// Enter waits for room in a lane, or returns the cause of the end of ctx. One
// organization has at most half of the pages, rounded up; requests without an
// organization count as one. The caller must call leave when its transaction has ended,
// and must not enter another lane before.
func (ls *Lanes) Enter(ctx context.Context, l Lane) (leave func(), err error) {
	s := ls.lanes[l]
	if s == nil {
		return func() {}, nil
	}
	key := Key(ctx, l)
	if err := s.Acquire(ctx, key); err != nil {
		return nil, err
	}
	release := func() { s.Release(key) }
	var nested func()
	switch {
	case l == Loads && ls.nest:
		nested, err = ls.Enter(ctx, Lookups)
	case l == Pages:
		nested, err = ls.cpu.Enter(ctx, assay.OrganizationOf(ctx))
	default:
		return release, nil
	}
	if err != nil {
		release()
		return nil, err
	}
	return func() { nested(); release() }, nil
}

// Key returns the key for turns in a lane: the organization of ctx.
func Key(ctx context.Context, l Lane) string {
	return string(rune('0'+l)) + assay.OrganizationOf(ctx)
}
