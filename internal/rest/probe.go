// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"assay"
)

// Check is the result of a readiness check.
type Check struct {
	Name string // one word, such as store
	Note string // a remark on a passed check; "" for none
	Err  error  // nil: the check passed
}

// probeResult is the response of a probe that passed.
type probeResult struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"` // results by name
}

// probe registers a path that reports the results of checks, and 503 if one fails. Probes
// need no credential, so the causes of errors are logged and not sent.
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
		_ = x.succeed(x.r.Context(), probeResult{"ok", found}, nil, false) // strings: cannot fail
	})
	s.mux.HandleFunc(path, func(_ http.ResponseWriter, r *http.Request) {
		methodNotAllowed(exchangeOf(r.Context()), http.MethodGet)
	})
}

// metricsPath is the path of the metrics.
const metricsPath = "/metrics"

// metrics registers the path of the metrics.
func (s *server) metrics() {
	s.mux.HandleFunc("GET "+metricsPath, func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		principal, err := s.authorize(ctx, x, assay.ScopeRead)
		if err != nil {
			x.fail(err)
			return
		}
		x.Header().Set("Cache-Control", "no-store")
		s.cfg.Metrics(principal.OrganizationID).ServeHTTP(x, r)
	})
	s.mux.HandleFunc(metricsPath, func(_ http.ResponseWriter, r *http.Request) {
		methodNotAllowed(exchangeOf(r.Context()), http.MethodGet)
	})
}

// text returns the public result of a check: ok, an optional note, or the reason for the
// failure without its cause.
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
