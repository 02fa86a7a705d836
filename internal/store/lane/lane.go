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
	// OwnWork is what this process does of its own accord: commits and leases. Each is
	// done by one goroutine, so the lane has no bound.
	OwnWork Lane = iota
	// Lookups are what taking telemetry in asks: API keys, journals, the health of the
	// store.
	Lookups
	// Loads are lookups that may take long, such as quotas: they always leave room for
	// another lookup, and are among the pages where there are fewer than six connections.
	Loads
	// Scoring is scoring organizations and expiring data. It always leaves room for the
	// own work, and is among the pages where there are fewer than six connections.
	Scoring
	// Pages are everything else: what people and programs read and change.
	Pages
)

// reserved is how many connections are only for the own work, scoring included, and how
// many only for the lookups, where there are enough of them.
const reserved = 3

// Lanes admits transactions to connections. The pool, which serves its callers in order or
// at random, then always has a connection for every lane. Lanes may be used concurrently.
type Lanes struct {
	lanes [Pages + 1]*fair.Semaphore // nil for no bound
	nest  bool                       // a load is a lookup as well
}

// New shares a number of connections out.
func New(conns int) *Lanes {
	lookups, loads, pages := sizes(conns)
	ls := &Lanes{nest: loads > 0}
	ls.lanes[Lookups] = fair.NewSemaphore(lookups, lookups)
	ls.lanes[Pages] = fair.NewSemaphore(pages, (pages+1)/2)
	ls.lanes[Loads], ls.lanes[Scoring] = ls.lanes[Pages], ls.lanes[Pages]
	if loads > 0 {
		ls.lanes[Loads], ls.lanes[Scoring] = fair.NewSemaphore(loads, loads), fair.NewSemaphore(loads, loads)
	}
	return ls
}

// sizes returns how many transactions the lanes have room for. There is as much room for
// scoring as for loads; 0 means that both are among the pages.
func sizes(conns int) (lookups, loads, pages int) {
	own := min(max(conns/3, 1), reserved)
	return own, own - 1, max(conns-2*own, 1)
}

// Enter waits until a lane has room, or returns the cause of the end of ctx. Of the pages,
// one organization has at most half, rounded up; requests without an organization count as
// one. The caller calls leave when its transaction has ended, and enters no other lane
// before.
func (ls *Lanes) Enter(ctx context.Context, l Lane) (leave func(), err error) {
	s := ls.lanes[l]
	if s == nil {
		return func() {}, nil
	}
	key := Key(ctx, l)
	if err := s.Acquire(ctx, key); err != nil {
		return nil, err
	}
	if l != Loads || !ls.nest {
		return func() { s.Release(key) }, nil
	}
	leaveLookups, err := ls.Enter(ctx, Lookups)
	if err != nil {
		s.Release(key)
		return nil, err
	}
	return func() { leaveLookups(); s.Release(key) }, nil
}

// Key returns the key by which transactions of a lane take turns: that of the organization
// of ctx.
func Key(ctx context.Context, l Lane) string {
	return string(rune('0'+l)) + assay.OrganizationOf(ctx)
}
