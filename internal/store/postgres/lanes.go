// SPDX-License-Identifier: Apache-2.0

package postgres

import "context"

// lane is what a transaction is for. Some lanes may have any number of callers, and those
// wait for each other rather than for a connection, so that the pool, which serves
// first who came first, always has one for the other lanes.
type lane int

const (
	// ownWork is what this process does of its own accord: commits, leases, scoring,
	// expiry. Each is done by one goroutine, so the lane needs no bound.
	ownWork lane = iota
	// lookups are what taking telemetry in asks: API keys, journals, whether the store
	// is there.
	lookups
	// loads are those of the lookups that may take long: they always leave room for
	// another one, and are among the pages where there are less than six connections.
	loads
	// pages are everything else: what people and programs read and change.
	pages
)

// reserved is how many connections are only for a lane, ownWork or the lookups, where there
// are enough of them.
const reserved = 3

// lanes hold a slot for each transaction under way, nil for no bound.
type lanes [pages + 1]chan struct{}

// newLanes shares connections out.
func newLanes(conns int) (ls lanes) {
	own := min(max(conns/3, 1), reserved)
	ls[lookups] = make(chan struct{}, own)
	ls[pages] = make(chan struct{}, max(conns-2*own, 1))
	if own > 1 {
		ls[loads] = make(chan struct{}, own-1)
	} else {
		ls[loads] = ls[pages]
	}
	return ls
}

// enter waits until a lane has room. The caller calls leave when its transaction has
// ended.
func (ls *lanes) enter(ctx context.Context, l lane) (leave func(), err error) {
	slots := ls[l]
	if slots == nil {
		return func() {}, nil
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l != loads || cap(ls[lookups]) == 1 {
		return func() { <-slots }, nil
	}
	leaveLookups, err := ls.enter(ctx, lookups) // a load is one
	if err != nil {
		<-slots
		return nil, err
	}
	return func() { leaveLookups(); <-slots }, nil
}
