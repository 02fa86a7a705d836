// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

func errNoWebhook() error { return assay.Errorf(assay.CodeNotFound, "no such webhook") }

const selectWebhooks = `
SELECT w.id, o.id, w.name, w.url, w.secret, w.enabled, w.min_weight, w.rules, w.environments, w.created_at, w.updated_at, w.disabled_reason,
	w.failures, w.failing_since
FROM webhooks w JOIN organizations o ON o.org = w.org `

// webhookRow is a webhook as it is scanned.
type webhookRow struct {
	assay.Webhook
	enabled, weight, rules int64
	environments           []byte
}

func (w *webhookRow) dest() []any {
	return []any{
		(*ID)(&w.ID), (*ID)(&w.OrganizationID), (*Text)(&w.Name), (*Text)(&w.URL), &w.Secret, &w.enabled, &w.weight, &w.rules, &w.environments,
		(*Time)(&w.CreatedAt), (*Time)(&w.UpdatedAt), (*Text)(&w.DisabledReason), &w.Failures, (*Time)(&w.FailingSince),
	}
}

func (w *webhookRow) webhook() (*assay.Webhook, error) {
	w.Enabled = w.enabled != 0
	for _, i := range []assay.Impact{assay.ImpactLow, assay.ImpactNormal, assay.ImpactImportant, assay.ImpactCritical} {
		if int64(i.Weight()) == w.weight {
			w.MinSeverity = i
		}
	}
	for n := int64(1); n <= codec.MaxNumber; n++ {
		if w.rules&codec.RuleBit(n) != 0 {
			w.EventTypes = append(w.EventTypes, codec.InsightType(n))
		}
	}
	if err := json.Unmarshal(w.environments, &w.Environments); err != nil {
		return nil, err
	}
	if len(w.Environments) == 0 {
		w.Environments = nil
	}
	return &w.Webhook, nil
}

func scanWebhook(r Row) (*assay.Webhook, error) {
	var w webhookRow
	if err := r.Scan(w.dest()...); err != nil {
		return nil, err
	}
	return w.webhook()
}

// webhookColumns are the columns that callers of the store set.
type webhookColumns struct {
	enabled, weight, rules int64
	environments           []byte
}

func columnsOf(w *assay.Webhook) (c webhookColumns, err error) {
	if err := checkSizes("webhook", assay.MaxWebhookName, w.Name); err != nil {
		return c, err
	}
	if err := checkSizes("webhook", assay.MaxWebhookURL, w.URL); err != nil {
		return c, err
	}
	if err := checkSizes("webhook", assay.MaxCodeTextBytes, append(slices.Clone(w.Environments), string(w.Secret))...); err != nil {
		return c, err
	}
	if c.weight = int64(w.MinSeverity.Weight()); c.weight == 0 {
		return c, assay.Errorf(assay.CodeInvalid, "unknown impact %q", string(w.MinSeverity))
	}
	for _, name := range w.EventTypes {
		if _, known := catalog.ByInsightType(name); !known {
			return c, assay.Errorf(assay.CodeInvalid, "unknown insight type %q", name)
		}
		c.rules |= codec.RuleBit(codec.TypeNumber(name))
	}
	if len(w.Environments) > assay.MaxWebhookEnvironments {
		return c, assay.Errorf(assay.CodeInvalid, "a webhook has at most %d environments", assay.MaxWebhookEnvironments)
	}
	c.enabled = flag(w.Enabled)
	c.environments, err = json.Marshal(append([]string{}, w.Environments...))
	return c, err
}

// CreateWebhook implements assay.WebhookStore.
func (q *Queries) CreateWebhook(ctx context.Context, w *assay.Webhook) error {
	c, err := columnsOf(w)
	if err != nil {
		return err
	}
	id, err := checkID(w.ID)
	if err != nil {
		return err
	}
	created := *w
	err = q.updateOrganization(ctx, "create a webhook", w.OrganizationID, func(tx Tx, org int64, now time.Time) error {
		var n int
		if _, err := get(ctx, tx, []any{&n}, `SELECT count(*) FROM webhooks WHERE org = $1`, org); err != nil {
			return err
		}
		if n >= assay.MaxWebhooks {
			return assay.Errorf(assay.CodeConflict, "the organization has %d webhooks, which is the limit", n)
		}
		created.ID, created.CreatedAt, created.UpdatedAt = id, Stored(now), Stored(now)
		_, err := exec(ctx, tx, `INSERT INTO webhooks (id, org, name, url, secret, enabled, min_weight, rules, environments, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)`,
			ID(id), org, Text(w.Name), Text(w.URL), w.Secret, c.enabled, c.weight, c.rules, c.environments, Micros(now))
		return q.conflict(err, "a webhook with this id exists")
	})
	if err == nil {
		*w = created
	}
	return err
}

// giveUp gives up the pending deliveries of a webhook $1 at the time $2 for the reason $3.
const giveUp = `UPDATE webhook_deliveries SET status = 3, error = $3, completed_at = $2 WHERE webhook = $1 AND status = 1`

const errDeliveryDisabled = "given up: the webhook was disabled"

// UpdateWebhook implements assay.WebhookStore.
func (q *Queries) UpdateWebhook(ctx context.Context, w *assay.Webhook) error {
	c, err := columnsOf(w)
	if err != nil {
		return err
	}
	var updated *assay.Webhook
	err = q.updateAt(ctx, connpool.Pages, "update a webhook", func(tx Tx, now time.Time) error {
		webhook, _, err := q.lockWebhook(ctx, tx, w.OrganizationID, w.ID)
		if err != nil {
			return err
		}
		b := new(Batch)
		if !w.Enabled {
			b.Exec(giveUp, webhook, Micros(now), Text(errDeliveryDisabled))
		}
		// An attempt that is under way keeps its lease: the next delivery follows it.
		b.Exec(`UPDATE webhooks SET name = $2, url = $3, enabled = $4, min_weight = $5, rules = $6, environments = $7, updated_at = $8,
				disabled_reason = $9, failures = 0, failing_since = 0, due_at = CASE WHEN holder IS NOT NULL THEN due_at ELSE `+dueAfter(`$8`)+` END
			WHERE webhook = $1`, webhook, Text(w.Name), Text(w.URL), c.enabled, c.weight, c.rules, c.environments, Micros(now), Text(""))
		b.Query(into(&updated, scanWebhook), selectWebhooks+`WHERE w.webhook = $1`, webhook)
		return tx.Send(ctx, b)
	})
	if err == nil {
		*w = *updated
	}
	return err
}

// dueAfter returns the expression for due_at: a time if a delivery of webhooks is pending.
func dueAfter(at string) string {
	return `CASE WHEN EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook = webhooks.webhook AND d.status = 1) THEN CAST(` + at + ` AS bigint) ELSE 0 END`
}

// lockWebhook locks a webhook of an organization.
func (q *Queries) lockWebhook(ctx context.Context, tx Tx, organizationID, id string) (webhook, lastSeq int64, err error) {
	err = need(ctx, tx, errNoWebhook, []any{&webhook, &lastSeq},
		`SELECT webhook, last_seq FROM webhooks WHERE id = $1 AND org = (SELECT org FROM organizations WHERE id = $2)`+q.sql.LockRows, ID(id), ID(organizationID))
	return webhook, lastSeq, err
}

// DeleteWebhook implements assay.WebhookStore.
func (q *Queries) DeleteWebhook(ctx context.Context, organizationID, id string) error {
	return q.update(ctx, connpool.Pages, "delete a webhook", errNoWebhook,
		`DELETE FROM webhooks WHERE id = $1 AND org = (SELECT org FROM organizations WHERE id = $2)`, ID(id), ID(organizationID))
}

// Webhooks implements assay.WebhookStore.
func (q *Queries) Webhooks(ctx context.Context, organizationID string) ([]*assay.Webhook, error) {
	return list(ctx, q, connpool.Pages, "list webhooks", scanWebhook, selectWebhooks+`WHERE o.id = $1 ORDER BY w.webhook`, ID(organizationID))
}

// Webhook implements assay.WebhookStore.
func (q *Queries) Webhook(ctx context.Context, organizationID, id string) (*assay.Webhook, error) {
	return one(ctx, q, connpool.Pages, "find a webhook", errNoWebhook, scanWebhook, selectWebhooks+`WHERE w.id = $1 AND o.id = $2`, ID(id), ID(organizationID))
}
