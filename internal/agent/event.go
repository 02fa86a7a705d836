// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"assay"
)

// Outcome is the result of a call. For a failure it includes which side failed.
type Outcome string

// Outcomes.
const (
	OutcomeOK           Outcome = "ok"
	OutcomeRefused      Outcome = "refused"       // refused by the backend with a status that is passed on
	OutcomeBackendError Outcome = "backend_error" // a status or a body that cannot be passed on
	OutcomeTimeout      Outcome = "timeout"
	OutcomeBroken       Outcome = "broken"       // the exchange ended early, or was not HTTP
	OutcomeUnreachable  Outcome = "unreachable"  // no connection within the timeout
	OutcomeOpenCircuit  Outcome = "open_circuit" // not sent: the circuit is open
	OutcomeTooMany      Outcome = "too_many"     // too many calls in flight, or too much memory in their responses
	OutcomeUnsigned     Outcome = "unsigned"     // not sent: no token could be made
	OutcomeCanceled     Outcome = "canceled"     // the caller disconnected
)

// Event describes a call that has ended. All fields except the duration have few distinct values.
type Event struct {
	Operation string // such as list-findings
	Method    string
	Status    int // of the backend's response; 0 if there is none
	Outcome   Outcome
	Duration  time.Duration
}

// maxLoggedPath is the maximum number of bytes of a path in the audit log.
const maxLoggedPath = 256

// record reports a call that has ended, and writes the audit log of changes.
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
