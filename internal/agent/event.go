// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"assay"
)

// Outcome says how a call ended, and so whose fault it was when it failed.
type Outcome string

// The outcomes.
const (
	OutcomeOK           Outcome = "ok"
	OutcomeRefused      Outcome = "refused"       // by the backend, with a status that is passed on
	OutcomeBackendError Outcome = "backend_error" // a status or a body that cannot be passed on
	OutcomeTimeout      Outcome = "timeout"
	OutcomeBroken       Outcome = "broken"       // the exchange ended early, or was not HTTP
	OutcomeUnreachable  Outcome = "unreachable"  // no connection, or none in time
	OutcomeOpenCircuit  Outcome = "open_circuit" // not sent: the backend kept failing
	OutcomeTooMany      Outcome = "too_many"     // too many calls at once, or too much memory in their answers
	OutcomeUnsigned     Outcome = "unsigned"     // not sent: no token could be made
	OutcomeCanceled     Outcome = "canceled"     // the caller went away
)

// Outcomes returns all of them.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeOK, OutcomeRefused, OutcomeBackendError, OutcomeTimeout, OutcomeBroken,
		OutcomeUnreachable, OutcomeOpenCircuit, OutcomeTooMany, OutcomeUnsigned, OutcomeCanceled,
	}
}

// Event is a call that has ended. All but its duration have few values.
type Event struct {
	Operation string // such as list-findings
	Method    string
	Status    int // of the backend's response, 0 for none
	Outcome   Outcome
	Duration  time.Duration
}

// maxLoggedPath is how many bytes of a path the audit log shows.
const maxLoggedPath = 256

// record tells of a call that has ended, and logs who changed what.
func (g *Gateway) record(ctx context.Context, c *assay.AgentCall, r *result, d time.Duration) {
	if g.cfg.Observe != nil {
		g.cfg.Observe(Event{Operation: c.Operation, Method: c.Method, Status: r.status, Outcome: r.outcome, Duration: d})
	}
	if c.Method == http.MethodGet {
		return
	}
	attrs := []slog.Attr{
		slog.String("operation", c.Operation),
		slog.String("method", c.Method),
		slog.String("path", c.Path[:min(len(c.Path), maxLoggedPath)]),
	}
	if c.Caller != nil {
		attrs = append(attrs, slog.String("subject", c.Caller.Subject), slog.String("organization_id", c.Caller.OrganizationID))
	}
	if r.status != 0 {
		attrs = append(attrs, slog.Int("status", r.status))
	}
	attrs = append(attrs,
		slog.String("outcome", string(r.outcome)),
		slog.Duration("duration", d),
		slog.String("trace_id", c.TraceID))
	g.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "agent operation", attrs...)
}
