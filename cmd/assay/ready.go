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
	// checkTimeout limits a readiness check.
	checkTimeout = 2 * time.Second
	// checkInterval is how long a result is cached. The endpoint needs no credential, and a check writes to the store.
	checkInterval = time.Second
	// behindLimit is how long requests may wait without any commit. Requests that have waited about twice as long are
	// rejected with a retryable error.
	behindLimit = 5 * time.Second
	// refusedLimit is how long the server reports a store as unavailable after a failed commit, if no further request
	// shows that it is available again.
	refusedLimit = 5 * time.Second
	// skewNoted is the minimum difference between the clocks of store and server that is reported.
	skewNoted = time.Second
)

// readiness caches the result of the last check.
type readiness struct {
	mu    sync.Mutex
	at    time.Time
	found []rest.Check
}

// ready returns the readiness checks with their results.
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
		// The client may disconnect while other requests wait for the same result.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		r.found = s.look(ctx)
		r.at = time.Now()
	}
	return append([]rest.Check{intake}, r.found...)
}

// isReady reports for /metrics whether the server is ready, within about checkTimeout.
func (s *server) isReady() bool {
	return !slices.ContainsFunc(s.ready(context.Background()), func(c rest.Check) bool { return c.Err != nil })
}

// look runs the checks.
func (s *server) look(ctx context.Context) []rest.Check {
	return []rest.Check{
		{Name: "store", Err: s.store.Ping(ctx)},
		s.checkSchema(ctx),
		s.checkCommits(),
		s.checkClock(),
		s.checkTraces(),
	}
}

// checkSchema checks whether a newer version has migrated the store to a schema that this version does not support.
func (s *server) checkSchema(ctx context.Context) rest.Check {
	schema, err := s.store.Schema(ctx)
	if err != nil {
		return rest.Check{Name: "schema", Err: err}
	}
	if err := schema.Check(); err != nil {
		return rest.Check{Name: "schema", Err: assay.Errorf(assay.CodeUnavailable, "%s", err.Error())}
	}
	if schema.Version > schema.Known {
		return rest.Check{Name: "schema", Note: fmt.Sprintf("the store has version %d, newer than version %d of this program, which supports it", schema.Version, schema.Known)}
	}
	return rest.Check{Name: "schema"}
}

func (s *server) checkCommits() rest.Check {
	c := rest.Check{Name: "commits"}
	if ago, refused := s.engine.Refused(); refused && ago < refusedLimit {
		c.Err = assay.Errorf(assay.CodeUnavailable, "the last commit to the store failed, %v ago", ago.Truncate(time.Second))
	}
	if behind := s.engine.Behind(); behind > behindLimit {
		c.Err = assay.Errorf(assay.CodeUnavailable, "requests are waiting, and nothing was committed for %v", behind.Truncate(time.Second))
	}
	return c
}

// checkClock reports a clock difference. Evaluation, expiry and display use the store's clock, so a difference does
// not make the server unready.
func (s *server) checkClock() rest.Check {
	return rest.Check{Name: "clock", Note: clockNote(s.replica.Skew())}
}

// clockNote describes how far the store's clock is ahead. It returns "" if the difference is small.
func clockNote(skew time.Duration) string {
	if skew.Abs() < skewNoted {
		return ""
	}
	where := "ahead"
	if skew < 0 {
		where = "behind"
	}
	note := fmt.Sprintf("the store's clock is %v %s and is authoritative", skew.Abs().Truncate(time.Second), where)
	if skew.Abs() > score.MaxSkew {
		note += "; expiry is suspended"
	}
	return note
}

// checkTraces reports that traces are not evaluated yet. Spans are accepted meanwhile.
func (s *server) checkTraces() rest.Check {
	c := rest.Check{Name: "traces"}
	if s.engine.Recovering() {
		c.Note = "recovering open traces of an earlier process"
	}
	return c
}
