// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"

	"assay"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
)

// Webhook is a target that insights are sent to.
type Webhook struct {
	ID             string   `json:"id"`
	Name           string   `json:"name"`
	URL            string   `json:"url"`
	IsEnabled      bool     `json:"is_enabled"`
	MinSeverity    string   `json:"min_severity"`
	EventTypes     []string `json:"event_types"`
	Environments   []string `json:"environments"`
	DisabledReason string   `json:"disabled_reason"`
	CreatedAt      string   `json:"created_at"`
	UpdatedAt      string   `json:"updated_at"`
	Secret         string   `json:"secret,omitempty"` // only in the response to its creation
}

// WebhookDelivery is an event of a webhook.
type WebhookDelivery struct {
	ID             string  `json:"id"`
	Status         string  `json:"status"`
	HTTPStatusCode *int    `json:"http_status_code"`
	AttemptNumber  int     `json:"attempt_number"`
	ErrorMessage   string  `json:"error_message"`
	IdempotencyKey string  `json:"idempotency_key"`
	InsightID      *string `json:"insight_id"`
	WebhookID      string  `json:"webhook_config_id"`
	OrganizationID string  `json:"organization_id"`
	CreatedAt      string  `json:"created_at"`
	CompletedAt    *string `json:"completed_at"`
}

// webhookInput is the body of a request. Fields that it does not have keep their values.
type webhookInput struct {
	Name         string   `json:"name"`
	URL          string   `json:"url"`
	IsEnabled    bool     `json:"is_enabled"`
	MinSeverity  string   `json:"min_severity"`
	EventTypes   []string `json:"event_types"`
	Environments []string `json:"environments"`
}

// typeID returns the id of an insight type, its name if the catalog does not have it.
func typeID(name string) string {
	if r, ok := catalog.ByInsightType(name); ok {
		return r.TypeID()
	}
	return name
}

// showWebhook returns a webhook as the caller may see it. The URL of a target is often its only credential, so callers
// without the scope admin see its host.
func showWebhook(w *assay.Webhook, principal *assay.Principal) Webhook {
	out := Webhook{
		ID: w.ID, Name: w.Name, URL: w.URL, IsEnabled: w.Enabled, MinSeverity: string(w.MinSeverity), EventTypes: []string{},
		Environments: append([]string{}, w.Environments...), DisabledReason: w.DisabledReason,
		CreatedAt: timestamp(w.CreatedAt), UpdatedAt: timestamp(w.UpdatedAt),
	}
	for _, name := range w.EventTypes {
		out.EventTypes = append(out.EventTypes, typeID(name))
	}
	if !principal.Allows(assay.ScopeAdmin) {
		out.URL = w.HostURL()
	}
	return out
}

func showDelivery(d *assay.WebhookDelivery) WebhookDelivery {
	out := WebhookDelivery{
		ID: d.ID, Status: string(d.Status), AttemptNumber: d.Attempts, ErrorMessage: d.Error, IdempotencyKey: d.IdempotencyKey(),
		WebhookID: d.WebhookID, OrganizationID: d.OrganizationID, CreatedAt: timestamp(d.CreatedAt), CompletedAt: optionalTime(d.CompletedAt),
	}
	if d.HTTPStatus != 0 {
		out.HTTPStatusCode = &d.HTTPStatus
	}
	if d.InsightID != "" {
		out.InsightID = &d.InsightID
	}
	return out
}

// decodeWebhook replaces the fields of a webhook that the body of a request has.
func decodeWebhook(body []byte, w *assay.Webhook) error {
	in := webhookInput{Name: w.Name, URL: w.URL, IsEnabled: w.Enabled, MinSeverity: string(w.MinSeverity), Environments: w.Environments}
	for _, name := range w.EventTypes {
		in.EventTypes = append(in.EventTypes, typeID(name))
	}
	if err := decodeFields(body, &in); err != nil {
		return err
	}
	w.Name, w.URL, w.Enabled, w.MinSeverity, w.Environments, w.EventTypes = in.Name, in.URL, in.IsEnabled, assay.Impact(in.MinSeverity), in.Environments, nil
	names := map[string]string{}
	for _, r := range catalog.All() {
		names[r.TypeID()] = r.Info().Name
	}
	for _, id := range in.EventTypes {
		w.EventTypes = append(w.EventTypes, names[id]) // "" for an unknown one, which is invalid
	}
	return nil
}

func (s *server) webhooks() {
	configured := func() error {
		if s.cfg.Webhooks == nil {
			return assay.Errorf(assay.CodeUnavailable, "webhooks are not configured")
		}
		return nil
	}
	read := route{scope: assay.ScopeRead, unknown: assay.CodeNotFound, ready: configured}
	change := route{scope: assay.ScopeAdmin, unknown: assay.CodeNotFound, ready: configured}
	// A webhook delivers insights, so a caller that cannot read them cannot choose its target.
	deliver := route{scope: assay.ScopeAdmin, also: assay.ScopeRead, unknown: assay.CodeNotFound}

	handleList(s, "list-webhooks", read, func(ctx context.Context, c *call) ([]Webhook, int, error) {
		all, err := s.cfg.Webhooks.List(ctx, c.Principal.OrganizationID)
		if err != nil {
			return nil, 0, err
		}
		return lists.Map(pageOf(all, c.page()), func(w *assay.Webhook) Webhook { return showWebhook(w, c.Principal) }), len(all), nil
	})
	handle(s, "create-webhook", deliver, func(ctx context.Context, c *call) (Webhook, error) {
		w := &assay.Webhook{OrganizationID: c.Principal.OrganizationID, Enabled: true, MinSeverity: assay.ImpactLow}
		body, release, err := s.readObject(ctx, c)
		if err != nil {
			return Webhook{}, err
		}
		defer release()
		if err := s.inTurn(ctx, func() error { return decodeWebhook(body, w) }); err != nil {
			return Webhook{}, err
		}
		if err := configured(); err != nil {
			return Webhook{}, err
		}
		secret, err := s.cfg.Webhooks.Create(ctx, w)
		if err != nil {
			return Webhook{}, err
		}
		out := showWebhook(w, c.Principal)
		out.Secret = secret
		return out, nil
	})
	handle(s, "get-webhook", read, func(ctx context.Context, c *call) (Webhook, error) {
		w, err := s.cfg.Webhooks.Find(ctx, c.Principal.OrganizationID, param[string](c.params, "id"))
		if err != nil {
			return Webhook{}, err
		}
		return showWebhook(w, c.Principal), nil
	})
	handle(s, "update-webhook", deliver, func(ctx context.Context, c *call) (Webhook, error) {
		body, release, err := s.readObject(ctx, c)
		if err != nil {
			return Webhook{}, err
		}
		defer release()
		// A malformed body of an unknown webhook is a 400.
		if err := s.inTurn(ctx, func() error { return decodeWebhook(body, &assay.Webhook{}) }); err != nil {
			return Webhook{}, err
		}
		if err := configured(); err != nil {
			return Webhook{}, err
		}
		w, err := s.cfg.Webhooks.Find(ctx, c.Principal.OrganizationID, param[string](c.params, "id"))
		if err != nil {
			return Webhook{}, err
		}
		if err := s.inTurn(ctx, func() error { return decodeWebhook(body, w) }); err != nil {
			return Webhook{}, err
		}
		if err := s.cfg.Webhooks.Update(ctx, w); err != nil {
			return Webhook{}, err
		}
		return showWebhook(w, c.Principal), nil
	})
	handle(s, "delete-webhook", change, func(ctx context.Context, c *call) (any, error) {
		return nil, s.cfg.Webhooks.Delete(ctx, c.Principal.OrganizationID, param[string](c.params, "id"))
	})
	slow := change
	slow.timeout = assay.WebhookTestTime
	handleFound(s, "test-webhook", slow, showDelivery, func(ctx context.Context, c *call) (*assay.WebhookDelivery, error) {
		return s.cfg.Webhooks.Test(ctx, c.Principal.OrganizationID, param[string](c.params, "id"))
	})
	handleList(s, "list-webhook-deliveries", read, func(ctx context.Context, c *call) ([]WebhookDelivery, int, error) {
		found, total, err := s.cfg.Webhooks.Deliveries(ctx, c.Principal.OrganizationID, param[string](c.params, "id"), c.page())
		return lists.Map(found, showDelivery), total, err
	})
	handleFound(s, "get-webhook-delivery", read, showDelivery, func(ctx context.Context, c *call) (*assay.WebhookDelivery, error) {
		return s.cfg.Webhooks.Delivery(ctx, c.Principal.OrganizationID, param[string](c.params, "id"), param[string](c.params, "delivery_id"))
	})
}

// RenderInsight returns an insight as JSON, as list-insights shows it.
func RenderInsight(i *assay.Insight) ([]byte, error) {
	shown := showInsight(i)
	var b bytes.Buffer
	err := shown.encode(&b)
	return b.Bytes(), err
}
