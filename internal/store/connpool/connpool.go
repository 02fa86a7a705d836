// SPDX-License-Identifier: Apache-2.0

package connpool

import (
	"context"

	"assay"
	"assay/internal/fair"
)

// Pool is a share of the connections, for transactions of one purpose.
type Pool int

const (
	// OwnWork is for commits and leases. One goroutine does each of them, so the pool has no
	// limit.
	OwnWork Pool = iota
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

// Pools admits transactions to the connections of a database handle, which serves its callers
// in order or at random, so that a connection is left for every pool. Pools is safe for
// concurrent use.
type Pools struct {
	pools [Pages + 1]*fair.Semaphore // nil: no limit
	nest  bool                       // a load also counts as a lookup
	cpu   *fair.Semaphore            // for pages; nil: no limit
}

// New divides a number of connections into pools. cpu is for a database that runs in this process: a page of an
// organization holds one of its slots. nil means that the database runs elsewhere: a slot must not wait for it.
func New(conns int, cpu *fair.Semaphore) *Pools {
	lookups, loads, pages := sizes(conns)
	ps := &Pools{nest: loads > 0, cpu: cpu}
	ps.pools[Lookups] = fair.NewSemaphore(lookups, lookups)
	ps.pools[Pages] = fair.NewSemaphore(pages, (pages+1)/2)
	ps.pools[Loads], ps.pools[Scoring] = ps.pools[Pages], ps.pools[Pages]
	if loads > 0 {
		ps.pools[Loads], ps.pools[Scoring] = fair.NewSemaphore(loads, loads), fair.NewSemaphore(loads, loads)
	}
	return ps
}

// ScoringApart reports whether scoring has connections of its own, so that it never waits for a page.
func (ps *Pools) ScoringApart() bool { return ps.nest }

// sizes returns the limits of the pools. Scoring has the limit of loads; 0 means that
// both count as pages.
func sizes(conns int) (lookups, loads, pages int) {
	own := min(max(conns/3, 1), reserved)
	return own, own - 1, max(conns-2*own, 1)
}

// Enter waits for room in a pool, or returns the cause of the end of ctx. One
// organization has at most half of the pages, rounded up; requests without an
// organization count as one. The caller must call leave when its transaction has ended,
// and must not enter another pool before.
func (ps *Pools) Enter(ctx context.Context, pool Pool) (leave func(), err error) {
	s := ps.pools[pool]
	if s == nil {
		return func() {}, nil
	}
	key := Key(ctx, pool)
	if err := s.Acquire(ctx, key); err != nil {
		return nil, err
	}
	release := func() { s.Release(key) }
	var nested func()
	switch {
	case pool == Loads && ps.nest:
		nested, err = ps.Enter(ctx, Lookups)
	case pool == Pages:
		nested, err = ps.cpu.Enter(ctx, assay.OrganizationOf(ctx))
	default:
		return release, nil
	}
	if err != nil {
		release()
		return nil, err
	}
	return func() { nested(); release() }, nil
}

// Key returns the key for turns in a pool: the organization of ctx.
func Key(ctx context.Context, pool Pool) string {
	return string(rune('0'+pool)) + assay.OrganizationOf(ctx)
}
