// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"assay/internal/agent"
	"assay/internal/summary"
	"assay/internal/webhook"
)

// outgoing holds the instruments for requests to other systems.
type outgoing struct {
	agentRequests    metric.Int64Counter
	agentDuration    metric.Float64Histogram
	summaryRequests  metric.Int64Counter
	summaryCalls     metric.Int64Counter
	summaryCallTimes metric.Float64Histogram
	webhooks         metric.Int64Counter
	webhookTimes     metric.Float64Histogram
}

func newOutgoing(m *meter) outgoing {
	return outgoing{
		agentRequests:    m.counter(agentRequests),
		agentDuration:    m.histogram(agentDuration, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		summaryRequests:  m.counter(summaryRequests),
		summaryCalls:     m.counter(summaryCalls),
		summaryCallTimes: m.histogram(summaryCallDuration, .5, 1, 2, 5, 10, 20, 30),
		webhooks:         m.counter(webhookDeliveries),
		webhookTimes:     m.histogram(webhookAttemptDuration, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10),
	}
}

const (
	operationKey = attribute.Key("operation")
	statusKey    = attribute.Key("status")
)

// ObserveAgent counts a request that was forwarded to the agent backend.
func (t *Telemetry) ObserveAgent(e agent.Event) {
	ctx := context.Background()
	operation, outcome := operationKey.String(e.Operation), outcomeKey.String(string(e.Outcome))
	t.outgoing.agentRequests.Add(ctx, 1, metric.WithAttributes(operation, outcome, statusKey.Int(e.Status)))
	t.outgoing.agentDuration.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(operation, outcome))
}

// ObserveSummary counts a request for a summary.
func (t *Telemetry) ObserveSummary(o summary.Outcome) {
	t.outgoing.summaryRequests.Add(context.Background(), 1, metric.WithAttributes(outcomeKey.String(string(o))))
}

// ObserveSummaryCall counts a call to the language model.
func (t *Telemetry) ObserveSummaryCall(o summary.CallOutcome, d time.Duration) {
	ctx := context.Background()
	t.outgoing.summaryCalls.Add(ctx, 1, metric.WithAttributes(outcomeKey.String(string(o))))
	t.outgoing.summaryCallTimes.Record(ctx, d.Seconds())
}

// ObserveWebhook counts deliveries of webhooks.
func (t *Telemetry) ObserveWebhook(e webhook.Event) {
	ctx := context.Background()
	outcome := metric.WithAttributes(outcomeKey.String(string(e.Outcome)))
	t.outgoing.webhooks.Add(ctx, int64(e.Count), outcome)
	if e.Duration > 0 {
		t.outgoing.webhookTimes.Record(ctx, e.Duration.Seconds(), outcome)
	}
}
