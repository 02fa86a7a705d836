// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"assay"
)

// Check is what was found of one thing that has to be well for requests to be served.
type Check struct {
	Name string // one word, such as store
	Note string // what is worth knowing though it is well; "" for nothing
	Err  error  // nil: it is well
}

// probeResult is the answer of a probe that is well.
type probeResult struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"` // what was found, by name
}

// probe registers a path that says what checks find, and 503 when something is not well.
// Everybody may ask, so the causes of errors go to the log alone.
func (s *server) probe(path string, checks func(context.Context) []Check) {
	s.mux.HandleFunc("GET "+path, func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		found := make(map[string]string)
		var errs []error
		for _, c := range checks(ctx) {
			found[c.Name] = c.text()
			if c.Err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", c.Name, c.Err))
			}
		}
		if len(errs) > 0 {
			x.fail(&assay.Error{Code: assay.CodeUnavailable, Message: "not ready", Details: found, Err: errors.Join(errs...)})
			return
		}
		x.succeed(probeResult{"ok", found}, nil, false)
	})
	s.mux.HandleFunc(path, func(_ http.ResponseWriter, r *http.Request) {
		methodNotAllowed(exchangeOf(r.Context()), http.MethodGet)
	})
}

// metricsPath is where the metrics are.
const metricsPath = "/metrics"

// metrics registers the path of the metrics.
func (s *server) metrics() {
	s.mux.HandleFunc("GET "+metricsPath, func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		who, err := s.authorize(ctx, x, assay.ScopeRead)
		if err != nil {
			x.fail(err)
			return
		}
		x.Header().Set("Cache-Control", "no-store")
		s.cfg.Metrics(who.OrganizationID).ServeHTTP(x, r)
	})
	s.mux.HandleFunc(metricsPath, func(_ http.ResponseWriter, r *http.Request) {
		methodNotAllowed(exchangeOf(r.Context()), http.MethodGet)
	})
}

// text says what was found: ok, perhaps with a note, or why it failed, as far as
// everybody may know.
func (c Check) text() string {
	var e *assay.Error
	switch {
	case c.Err == nil && c.Note == "":
		return "ok"
	case c.Err == nil:
		return "ok: " + c.Note
	case errors.As(c.Err, &e) && e.Err == nil && e.Message != "":
		return "failed: " + e.Message
	case errors.Is(c.Err, context.DeadlineExceeded):
		return "failed: no answer in time"
	default:
		return "failed: not available"
	}
}
