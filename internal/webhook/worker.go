// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"assay"
	"assay/internal/delta"
)

// The schedule of attempts.
const (
	firstBackoff = 5 * time.Second // doubled by each failure of the webhook in a row
	maxBackoff   = time.Hour
	giveUpAfter  = 24 * time.Hour     // an attempt that fails later than this after its event is the last one
	disableAfter = 3 * 24 * time.Hour // of failures in a row
)

// Bounds of a process.
const (
	slots           = 64 // attempts in flight
	perOrganization = 4  // of them for one organization, in all processes
	sharedSlots     = 48 // with more attempts in flight, an organization gets a slot only if it has none
	leaseTime       = 3 * AttemptTimeout
	poll            = time.Second
)

// Types of events.
const (
	eventActive   = "insight.active"
	eventArchived = "insight.archived"
	eventTest     = "webhook.test"
)

// Outcome is the result of an attempt, for metrics.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Retried   Outcome = "retried"  // it failed and is attempted again
	GivenUp   Outcome = "given_up" // it failed for the last time
	Evicted   Outcome = "evicted"  // given up without an attempt: newer ones filled the queue
	Skipped   Outcome = "skipped"  // given up without an attempt: the insight no longer exists
)

// Event describes deliveries with an outcome.
type Event struct {
	Outcome  Outcome
	Count    int
	Duration time.Duration // of the attempt; 0 if there was none
}

// Worker delivers the deliveries in the outbox.
type Worker struct {
	*Manager
	wake chan struct{}
	free chan struct{} // a token for each free slot
}

// NewWorker returns a worker that Run starts. It uses the manager's configuration.
func NewWorker(m *Manager) *Worker {
	return &Worker{Manager: m, wake: make(chan struct{}, 1), free: make(chan struct{}, slots)}
}

// Run delivers until ctx ends. Attempts in flight then end too, and another process may repeat them at once. Without a
// secret, Run leaves deliveries to other processes.
func (w *Worker) Run(ctx context.Context) {
	if !w.box.Encrypts() {
		<-ctx.Done()
		return
	}
	var attempts sync.WaitGroup
	defer attempts.Wait()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case w.free <- struct{}{}:
		}
		c, err := w.claim(ctx)
		if err != nil && ctx.Err() == nil {
			w.cfg.Logger.ErrorContext(ctx, "failed to claim a delivery", "error", err)
		}
		if c != nil {
			attempts.Go(func() {
				defer func() {
					<-w.free
					select {
					case w.wake <- struct{}{}:
					default:
					}
				}()
				w.deliver(ctx, c)
			})
			continue
		}
		<-w.free
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-ticker.C:
		}
	}
}

// claimed is a delivery with its lease.
type claimed struct {
	*assay.ClaimedDelivery
	holder string    // unique, so that an attempt that was overtaken cannot end the lease of a later one
	ends   time.Time // of the lease, counted from before the claim
}

// claim returns the next delivery that is due, nil if there is none.
func (w *Worker) claim(ctx context.Context) (*claimed, error) {
	c := claimed{holder: rand.Text(), ends: time.Now().Add(leaseTime)}
	most := perOrganization
	if len(w.free) > sharedSlots {
		most = 1
	}
	var err error
	if c.ClaimedDelivery, err = w.cfg.Store.ClaimDelivery(ctx, c.holder, leaseTime, most); err != nil || c.ClaimedDelivery == nil {
		return nil, err
	}
	return &c, nil
}

// deliver makes one attempt and stores its result.
func (w *Worker) deliver(ctx context.Context, c *claimed) {
	ctx = assay.WithOrganization(ctx, c.Webhook.OrganizationID)
	ctx, cancel := context.WithDeadline(ctx, c.ends) // a process that was suspended meanwhile must not send
	defer cancel()
	logger := w.cfg.Logger.With("webhook", c.Webhook.ID, "organization_id", c.Webhook.OrganizationID, "delivery", c.Delivery.ID)
	if c.Evicted > 0 {
		logger.WarnContext(ctx, "deliveries given up: the queue of the webhook is full", "count", c.Evicted)
		w.cfg.Observe(Event{Outcome: Evicted, Count: c.Evicted})
	}
	in, err := w.cfg.Insights.FindInsightByID(ctx, c.Webhook.OrganizationID, c.Delivery.InsightID)
	switch assay.ErrorCode(err) {
	case "":
	case assay.CodeInsightNotFound:
		w.skip(ctx, logger, c, "given up: the insight no longer exists")
		return
	default:
		if !w.interrupted(ctx, logger, c) {
			logger.ErrorContext(ctx, "failed to read the insight of a delivery", "error", err) // the lease ends
		}
		return
	}
	in.Status = c.Delivery.Event // it may have changed since
	data, err := w.cfg.Render(in)
	if err != nil {
		logger.ErrorContext(ctx, "failed to render an insight", "error", err)
		w.skip(ctx, logger, c, "given up: the insight cannot be encoded")
		return
	}
	event := eventActive
	if c.Delivery.Event == assay.InsightArchived {
		event = eventArchived
	}
	began := time.Now()
	o := w.attempt(ctx, &c.Webhook, &c.Delivery, event, data)
	if o.status == 0 && w.interrupted(ctx, logger, c) {
		return
	}
	result, outcome := w.nextState(c, o)
	w.complete(ctx, logger, c, result, Event{Outcome: outcome, Count: 1, Duration: time.Since(began)})
}

// skip gives up a delivery without an attempt.
func (w *Worker) skip(ctx context.Context, logger *slog.Logger, c *claimed, reason string) {
	w.complete(ctx, logger, c, assay.DeliveryResult{Status: assay.DeliveryFailed, Error: reason, Skipped: true}, Event{Outcome: Skipped, Count: 1})
}

// interrupted reports whether ctx has ended, which leaves an attempt without a result. A worker that stops before the end
// of the lease releases it, so that another process can repeat the attempt at once.
func (w *Worker) interrupted(ctx context.Context, logger *slog.Logger, c *claimed) bool {
	if ctx.Err() != nil && time.Now().Before(c.ends) {
		w.save(ctx, logger, c, assay.DeliveryResult{
			Status: assay.DeliveryPending, HTTPStatus: c.Delivery.HTTPStatus, Error: c.Delivery.Error, Skipped: true,
		})
	}
	return ctx.Err() != nil
}

// save stores the result of an attempt and reports whether it did, also after ctx has been cancelled.
func (w *Worker) save(ctx context.Context, logger *slog.Logger, c *claimed, r assay.DeliveryResult) bool {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.ends)
	defer cancel()
	switch err := w.cfg.Store.CompleteDelivery(ctx, c.holder, &c.Delivery, r); {
	case errors.Is(err, delta.ErrLeaseLost):
		logger.WarnContext(ctx, "another replica took over the delivery")
	case err != nil:
		logger.ErrorContext(ctx, "failed to save a delivery", "error", err)
	default:
		return true
	}
	return false
}

func (w *Worker) complete(ctx context.Context, logger *slog.Logger, c *claimed, r assay.DeliveryResult, e Event) {
	if !w.save(ctx, logger, c, r) {
		return
	}
	w.cfg.Observe(e)
	if r.Disable != "" {
		logger.WarnContext(ctx, "webhook disabled", "reason", r.Disable)
	}
}

// attempt sends an event with data as JSON.
func (m *Manager) attempt(ctx context.Context, w *assay.Webhook, d *assay.WebhookDelivery, event string, data []byte) outcome {
	key, err := m.box.Open(w.ID, w.Secret)
	if err != nil {
		return outcome{problem: "the stored secret cannot be decrypted with the server's secret key; create the webhook again"}
	}
	body, err := json.Marshal(struct {
		Type      string          `json:"type"`
		Timestamp string          `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}{event, d.CreatedAt.UTC().Format(time.RFC3339Nano), data})
	if err != nil {
		return outcome{problem: "the event cannot be encoded"}
	}
	return m.sender.send(ctx, w.URL, d.IdempotencyKey(), m.cfg.Now(), key, body)
}

// nextState returns the state of a delivery after an attempt.
func (w *Worker) nextState(c *claimed, o outcome) (assay.DeliveryResult, Outcome) {
	r := assay.DeliveryResult{Status: assay.DeliverySucceeded, HTTPStatus: o.status, Error: o.problem}
	if o.problem == "" {
		return r, Succeeded
	}
	now := w.cfg.Now()
	r.RetryAt = now.Add(backoff(c.Webhook.Failures, o.retryAfter, w.cfg.Jitter()))
	since := c.Webhook.FailingSince
	switch {
	case o.status == http.StatusGone: // Standard Webhooks: the target wants no more
		r.Disable = "the target answered with status 410"
	case !since.IsZero() && now.Sub(since) >= disableAfter:
		r.Disable = fmt.Sprintf("every attempt failed since %s; the last one: %s", since.UTC().Format(time.RFC3339), o.problem)
	}
	if r.Disable != "" || now.Sub(c.Delivery.CreatedAt) >= giveUpAfter {
		r.Status = assay.DeliveryFailed
		return r, GivenUp
	}
	r.Status = assay.DeliveryPending
	return r, Retried
}

// backoff returns the time until the next attempt after failures in a row before this one: doubled by each, between
// half of it and the whole, and not before the target allows it, within maxBackoff.
func backoff(failures int, retryAfter time.Duration, jitter float64) time.Duration {
	d := maxBackoff
	if failures < 10 { // 5 s * 2^10 is more than an hour
		d = min(firstBackoff<<failures, maxBackoff)
	}
	d = d/2 + time.Duration(jitter*float64(d/2))
	return max(d, min(retryAfter, maxBackoff))
}
