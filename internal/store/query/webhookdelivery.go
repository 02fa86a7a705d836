// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

// deliveriesKept is the retention of completed deliveries.
const deliveriesKept = 7 * 24 * time.Hour

// Statuses of deliveries in their stored form, from 1. Indexes, triggers and statements name 1 and 3.
var deliveryStatuses = []assay.DeliveryStatus{assay.DeliveryPending, assay.DeliverySucceeded, assay.DeliveryFailed}

func deliveryStatus(s assay.DeliveryStatus) int64 {
	return int64(slices.Index(deliveryStatuses, s) + 1)
}

func errNoDelivery() error { return assay.Errorf(assay.CodeNotFound, "no such delivery") }

const selectDeliveries = `
SELECT d.id, o.id, w.id, d.insight, d.event, d.status, d.attempts, d.http_status, d.error, d.created_at, d.completed_at
FROM webhook_deliveries d JOIN webhooks w ON w.webhook = d.webhook JOIN organizations o ON o.org = w.org `

func scanDelivery(r Row) (*assay.WebhookDelivery, error) {
	var d assay.WebhookDelivery
	var event, status int64
	err := r.Scan((*ID)(&d.ID), (*ID)(&d.OrganizationID), (*ID)(&d.WebhookID), (*ID)(&d.InsightID), &event, &status, &d.Attempts, &d.HTTPStatus,
		(*Text)(&d.Error), (*Time)(&d.CreatedAt), (*Time)(&d.CompletedAt))
	if err != nil {
		return nil, err
	}
	if status < 1 || status > int64(len(deliveryStatuses)) {
		return nil, fmt.Errorf("delivery %s: unknown status %d", d.ID, status)
	}
	d.Status = deliveryStatuses[status-1]
	if event != 0 {
		d.Event, err = codec.InsightStatus(event)
	}
	return &d, err
}

// WebhookDeliveries implements assay.WebhookStore.
func (q *Queries) WebhookDeliveries(ctx context.Context, organizationID, webhookID string, page assay.Page) (deliveries []*assay.WebhookDelivery, total int, err error) {
	var webhook int64
	err = q.engine.View(ctx, connpool.Pages, "list the deliveries of a webhook", func(b *Batch) {
		webhook, total, deliveries = 0, 0, nil
		b.Query(func(r Row) error { return r.Scan(&webhook) },
			`SELECT webhook FROM webhooks WHERE id = $1 AND org = (SELECT org FROM organizations WHERE id = $2)`, ID(webhookID), ID(organizationID))
	}, func(b *Batch) {
		b.Query(func(r Row) error { return r.Scan(&total) }, `SELECT count(*) FROM webhook_deliveries WHERE webhook = $1`, webhook)
		b.Query(collect(&deliveries, scanDelivery), selectDeliveries+`WHERE d.webhook = $1 ORDER BY d.seq DESC LIMIT CAST($2 AS bigint) OFFSET CAST($3 AS bigint)`,
			webhook, page.Limit, page.Offset)
	})
	if err == nil && webhook == 0 {
		err = errNoWebhook()
	}
	return pair(deliveries, total, err)
}

// WebhookDelivery implements assay.WebhookStore.
func (q *Queries) WebhookDelivery(ctx context.Context, organizationID, webhookID, id string) (*assay.WebhookDelivery, error) {
	return one(ctx, q, connpool.Pages, "find a delivery", errNoDelivery, scanDelivery, selectDeliveries+`WHERE d.id = $1 AND w.id = $2 AND o.id = $3`,
		ID(id), ID(webhookID), ID(organizationID))
}

// AddTestDelivery implements assay.WebhookStore.
func (q *Queries) AddTestDelivery(ctx context.Context, d *assay.WebhookDelivery) error {
	id, err := checkID(d.ID)
	if err != nil {
		return err
	}
	return q.engine.Update(ctx, connpool.Pages, "store a test delivery", func(tx Tx) error {
		webhook, last, err := q.lockWebhook(ctx, tx, d.OrganizationID, d.WebhookID)
		if err != nil {
			return err
		}
		b := new(Batch)
		b.Exec(`INSERT INTO webhook_deliveries (webhook, seq, id, event, status, attempts, http_status, error, created_at, completed_at)
			VALUES ($1, $2, $3, 0, $4, $5, $6, $7, $8, $9)`,
			webhook, last+1, ID(id), deliveryStatus(d.Status), d.Attempts, d.HTTPStatus, message(d.Error), Micros(d.CreatedAt), Micros(d.CompletedAt))
		if d.Status == assay.DeliverySucceeded {
			b.Exec(`UPDATE webhooks SET failures = 0, failing_since = 0, due_at = CASE WHEN holder IS NOT NULL OR due_at = 0 THEN due_at ELSE $2 END
				WHERE webhook = $1`, webhook, Micros(d.CompletedAt))
		}
		return tx.Send(ctx, b)
	})
}

// webhooksAhead is the number of due webhooks among which a claim chooses.
const webhooksAhead = 1000

// claimableWebhook finds the webhook to claim at the time $1: of the organization with the fewest leases, if these are
// fewer than $2. A lease lasts until due_at, so a webhook whose holder has died is due again.
func (q *Queries) claimableWebhook() string {
	return `WITH due (webhook, org, due_at) AS (SELECT webhook, org, due_at FROM webhooks` + q.sql.Index(`webhooks_due`) + ` WHERE due_at > 0 AND due_at <= $1 ORDER BY due_at LIMIT ` +
		fmt.Sprint(webhooksAhead) + `),
		held (org, n) AS (SELECT org, count(*) FROM webhooks` + q.sql.Index(`webhooks_held`) + ` WHERE holder IS NOT NULL AND due_at > $1 GROUP BY org)
		SELECT due.webhook FROM due LEFT JOIN held ON held.org = due.org WHERE coalesce(held.n, 0) < $2
		ORDER BY coalesce(held.n, 0), due.due_at, due.webhook LIMIT 1`
}

// ClaimDelivery implements assay.WebhookStore.
func (q *Queries) ClaimDelivery(ctx context.Context, holder string, ttl time.Duration, perOrganization int) (claimed *assay.ClaimedDelivery, err error) {
	err = q.engine.Chunk(ctx, connpool.Scoring, "claim a delivery", func(tx Tx) error {
		claimed = nil
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for claimable := q.claimableWebhook(); ; {
			var webhook int64
			found, err := get(ctx, tx, []any{&webhook}, claimable, Micros(now), perOrganization)
			if err != nil || !found {
				return err
			}
			if claimed, err = q.claimDelivery(ctx, tx, webhook, now, holder, ttl); err != nil || claimed != nil {
				return err
			}
		}
	})
	return result(claimed, err) // a claim that was not committed is none
}

// claimDelivery claims the oldest pending delivery of a webhook. It returns nil if another holder was faster or none is
// pending.
func (q *Queries) claimDelivery(ctx context.Context, tx Tx, webhook int64, now time.Time, holder string, ttl time.Duration) (*assay.ClaimedDelivery, error) {
	var (
		seq int64
		c   assay.ClaimedDelivery
	)
	due, err := get(ctx, tx, []any{&c.Evicted}, `SELECT evicted FROM webhooks WHERE webhook = $1 AND due_at > 0 AND due_at <= $2`+q.sql.LockRows, webhook, Micros(now))
	if err != nil || !due {
		return nil, err
	}
	found, err := get(ctx, tx, []any{&seq}, `SELECT seq FROM webhook_deliveries WHERE webhook = $1 AND status = 1 ORDER BY seq LIMIT 1`, webhook)
	if err != nil {
		return nil, err
	}
	if !found {
		_, err = exec(ctx, tx, `UPDATE webhooks SET due_at = 0, holder = NULL WHERE webhook = $1`, webhook)
		return nil, err
	}
	b := new(Batch)
	b.Exec(`UPDATE webhooks SET holder = $2, due_at = $3, evicted = 0 WHERE webhook = $1`, webhook, Text(holder), leaseEnd(now, ttl))
	b.Exec(`UPDATE webhook_deliveries SET attempts = attempts + 1 WHERE webhook = $1 AND seq = $2`, webhook, seq)
	b.Query(func(r Row) error {
		w, err := scanWebhook(r)
		if err == nil {
			c.Webhook = *w
		}
		return err
	}, selectWebhooks+`WHERE w.webhook = $1`, webhook)
	b.Query(func(r Row) error {
		d, err := scanDelivery(r)
		if err == nil {
			c.Delivery = *d
		}
		return err
	}, selectDeliveries+`WHERE d.webhook = $1 AND d.seq = $2`, webhook, seq)
	if err := tx.Send(ctx, b); err != nil {
		return nil, err
	}
	return &c, nil
}

// CompleteDelivery implements assay.WebhookStore.
func (q *Queries) CompleteDelivery(ctx context.Context, holder string, d *assay.WebhookDelivery, result assay.DeliveryResult) error {
	status := deliveryStatus(result.Status)
	if status == 0 {
		return assay.Errorf(assay.CodeInvalid, "unknown status %q of a delivery", string(result.Status))
	}
	return q.engine.Chunk(ctx, connpool.Scoring, "save a delivery", func(tx Tx) error {
		var webhook int64
		lost := func() error { return fmt.Errorf("lease of webhook %s: %w", d.WebhookID, delta.ErrLeaseLost) }
		if err := need(ctx, tx, lost, []any{&webhook},
			`SELECT webhook FROM webhooks WHERE id = $1 AND holder = $2`+q.sql.LockRows, ID(d.WebhookID), Text(holder)); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		at, completed, due := Micros(now), int64(0), max(Micros(result.RetryAt), Micros(now))
		if result.Status != assay.DeliveryPending {
			completed = at
		}
		b := new(Batch)
		// A delivery that was given up meanwhile stays so.
		b.Exec(`UPDATE webhook_deliveries SET status = $3, http_status = $4, error = $5, completed_at = $6 WHERE webhook = $1 AND id = $2 AND status = 1`,
			webhook, ID(d.ID), status, result.HTTPStatus, message(result.Error), completed)
		switch {
		case result.Status == assay.DeliverySucceeded:
			b.Exec(`UPDATE webhooks SET failures = 0, failing_since = 0 WHERE webhook = $1`, webhook)
		case !result.Skipped:
			b.Exec(`UPDATE webhooks SET failures = failures + 1, failing_since = CASE failing_since WHEN 0 THEN $2 ELSE failing_since END WHERE webhook = $1`, webhook, at)
		}
		if result.Disable != "" {
			b.Exec(giveUp, webhook, at, Text(errDeliveryDisabled))
			b.Exec(`UPDATE webhooks SET enabled = 0, disabled_reason = $2 WHERE webhook = $1`, webhook, message(result.Disable))
		}
		b.Exec(`UPDATE webhooks SET holder = NULL, due_at = `+dueAfter(`$2`)+` WHERE webhook = $1`, webhook, due)
		return tx.Send(ctx, b)
	})
}
