// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"assay"
	"assay/internal/rest"
	"assay/internal/score"
)

const (
	// checkTimeout bounds a look at whether the server is ready.
	checkTimeout = 2 * time.Second
	// checkInterval is for how long what was found is told again: everybody may ask, and
	// asking writes to the store.
	checkInterval = time.Second
	// behindLimit is how long nothing may be committed while requests wait. Those that
	// have waited for about twice as long are told to come again.
	behindLimit = 5 * time.Second
	// refusedLimit is for how long a store that takes nothing is believed not to, when
	// nobody sends anything that would show the contrary.
	refusedLimit = 5 * time.Second
	// skewNoted is from when on it is told that the clocks of store and server differ.
	skewNoted = time.Second
)

// readiness is what was found the last time somebody asked.
type readiness struct {
	mu    sync.Mutex
	at    time.Time
	found []rest.Check
}

// ready tells whether requests can be served.
func (s *server) ready(ctx context.Context) []rest.Check {
	intake := rest.Check{Name: "intake"}
	if s.draining.Load() {
		intake.Err = assay.Errorf(assay.CodeUnavailable, "shutting down")
		return []rest.Check{intake} // the store may be closed
	}
	r := &s.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.at) >= checkInterval {
		// Whoever asked may leave; others wait for the answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		r.found = s.look(ctx)
		r.at = time.Now()
	}
	return append([]rest.Check{intake}, r.found...)
}

// isReady tells it for /metrics, within about checkTimeout.
func (s *server) isReady() bool {
	return !slices.ContainsFunc(s.ready(context.Background()), func(c rest.Check) bool { return c.Err != nil })
}

// look looks at what the server needs.
func (s *server) look(ctx context.Context) []rest.Check {
	return []rest.Check{
		{Name: "store", Err: s.store.Ping(ctx)},
		s.checkSchema(ctx),
		s.checkCommits(),
		s.checkClock(),
		s.checkTraces(),
	}
}

// checkSchema looks whether a newer program has migrated the store to what this one
// cannot work with.
func (s *server) checkSchema(ctx context.Context) rest.Check {
	schema, err := s.store.Schema(ctx)
	if err != nil {
		return rest.Check{Name: "schema", Err: err}
	}
	if err := schema.Check(); err != nil {
		return rest.Check{Name: "schema", Err: assay.Errorf(assay.CodeUnavailable, "%s", err.Error())}
	}
	if schema.Version > schema.Known {
		return rest.Check{Name: "schema", Note: fmt.Sprintf("version %d of the store is newer than %d of this program, which can work with it", schema.Version, schema.Known)}
	}
	return rest.Check{Name: "schema"}
}

func (s *server) checkCommits() rest.Check {
	c := rest.Check{Name: "commits"}
	if ago, refused := s.engine.Refused(); refused && ago < refusedLimit {
		c.Err = assay.Errorf(assay.CodeUnavailable, "the store took nothing the last time, %v ago", ago.Truncate(time.Second))
	}
	if behind := s.engine.Behind(); behind > behindLimit {
		c.Err = assay.Errorf(assay.CodeUnavailable, "requests wait, and nothing was committed for %v", behind.Truncate(time.Second))
	}
	return c
}

// checkClock tells of clocks that differ. Nothing that is judged, expired or shown goes by
// that of this machine, so it is no reason not to serve.
func (s *server) checkClock() rest.Check {
	return rest.Check{Name: "clock", Note: clockNote(s.replica.Skew())}
}

// clockNote says by how much the store's clock is ahead, "" when that is no matter.
func clockNote(skew time.Duration) string {
	if skew.Abs() < skewNoted {
		return ""
	}
	where := "ahead"
	if skew < 0 {
		where = "behind"
	}
	note := fmt.Sprintf("that of the store is %v %s, and is the one that counts", skew.Abs().Truncate(time.Second), where)
	if skew.Abs() > score.MaxSkew {
		note += "; what left the window is not deleted meanwhile"
	}
	return note
}

// checkTraces tells that no trace is judged yet. Spans are taken meanwhile.
func (s *server) checkTraces() rest.Check {
	c := rest.Check{Name: "traces"}
	if s.engine.Recovering() {
		c.Note = "looking for those that a former process left open"
	}
	return c
}
