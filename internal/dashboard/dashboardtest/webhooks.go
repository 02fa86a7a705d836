// SPDX-License-Identifier: Apache-2.0

package dashboardtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/assaytest/selection"
)

// Ids of a World's webhooks. The second one is disabled.
const (
	WebhookID         = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e11"
	DisabledWebhookID = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e12"
)

// Webhooks implements assay.WebhookManager.
type Webhooks struct {
	Hooks []*assay.Webhook
	Sent  []*assay.WebhookDelivery // newest first
	Err   error                    // error of Create, Update and Test; nil for none

	mu sync.Mutex
}

// newWebhooks returns two webhooks. The first one has deliveries of an insight.
func newWebhooks(insight string) *Webhooks {
	delivery := func(id string, event assay.InsightStatus, status assay.DeliveryStatus, code, attempts int, problem string, ago time.Duration) *assay.WebhookDelivery {
		d := &assay.WebhookDelivery{
			ID: "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e2" + id, OrganizationID: OrganizationID, WebhookID: WebhookID, InsightID: insight, Event: event, Status: status,
			HTTPStatus: code, Attempts: attempts, Error: problem, CreatedAt: Now.Add(-ago),
		}
		if event == "" {
			d.InsightID = ""
		}
		return d
	}
	return &Webhooks{
		Hooks: []*assay.Webhook{
			{
				ID: WebhookID, OrganizationID: OrganizationID, Name: "on call", URL: "https://hooks.example.com/assay?token=4f2a", Enabled: true, MinSeverity: assay.ImpactImportant,
				EventTypes: []string{"missing_service_name"}, Environments: []string{"production"}, CreatedAt: Now.Add(-20 * 24 * time.Hour), UpdatedAt: Now.Add(-24 * time.Hour),
				Failures: 2, FailingSince: Now.Add(-20 * time.Minute),
			},
			{
				ID: DisabledWebhookID, OrganizationID: OrganizationID, Name: "chat", URL: "https://chat.example.com/incoming", MinSeverity: assay.ImpactLow,
				DisabledReason: "every attempt failed since 2026-11-16T08:00:00Z; the last one: the target answered with status 503", CreatedAt: Now.Add(-40 * 24 * time.Hour), UpdatedAt: Now.Add(-24 * time.Hour),
			},
		},
		Sent: []*assay.WebhookDelivery{
			delivery("1", assay.InsightArchived, assay.DeliveryPending, 0, 2, "the target did not answer within 10s", 20*time.Minute),
			delivery("2", "", assay.DeliverySucceeded, 204, 1, "", time.Hour),
			delivery("3", assay.InsightActive, assay.DeliverySucceeded, 200, 3, "", 5*time.Hour),
			delivery("4", assay.InsightActive, assay.DeliveryFailed, 500, 31, "the target answered with status 500", 50*time.Hour),
		},
	}
}

func (h *Webhooks) find(organizationID, id string) (int, error) {
	i := slices.IndexFunc(h.Hooks, func(w *assay.Webhook) bool { return w.ID == id && w.OrganizationID == organizationID })
	if i < 0 {
		return 0, assay.Errorf(assay.CodeNotFound, "no such webhook")
	}
	return i, nil
}

// List implements assay.WebhookManager.
func (h *Webhooks) List(_ context.Context, organizationID string) ([]*assay.Webhook, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.Hooks), func(w *assay.Webhook) bool { return w.OrganizationID != organizationID }), nil
}

// Find implements assay.WebhookManager.
func (h *Webhooks) Find(_ context.Context, organizationID, id string) (*assay.Webhook, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, err := h.find(organizationID, id)
	if err != nil {
		return nil, err
	}
	w := *h.Hooks[i]
	return &w, nil
}

// Create implements assay.WebhookManager.
func (h *Webhooks) Create(_ context.Context, w *assay.Webhook) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Err != nil {
		return "", h.Err
	}
	if !strings.HasPrefix(w.URL, "https://") {
		return "", &assay.Error{Code: assay.CodeInvalid, Message: "not valid", Details: map[string]string{"url": "must begin with https://"}}
	}
	w.ID, w.CreatedAt, w.UpdatedAt = "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e13", Now, Now
	h.Hooks = append(h.Hooks, w)
	return "whsec_5f0e7c2b9a1d48367b6e0c1f2a3d4e5f", nil
}

// Update implements assay.WebhookManager.
func (h *Webhooks) Update(_ context.Context, w *assay.Webhook) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, err := h.find(w.OrganizationID, w.ID)
	if err != nil || h.Err != nil {
		return h.Err
	}
	w.DisabledReason, w.Failures = "", 0
	h.Hooks[i] = w
	return nil
}

// Delete implements assay.WebhookManager.
func (h *Webhooks) Delete(_ context.Context, organizationID, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, err := h.find(organizationID, id)
	if err == nil {
		h.Hooks = slices.Delete(h.Hooks, i, i+1)
	}
	return err
}

// Test implements assay.WebhookManager.
func (h *Webhooks) Test(_ context.Context, organizationID, id string) (*assay.WebhookDelivery, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Err != nil {
		return nil, h.Err
	}
	d := &assay.WebhookDelivery{
		ID: "5f0a7a52-1d5c-4f39-9d1d-7f4f6a3a9e20", OrganizationID: organizationID, WebhookID: id, Status: assay.DeliveryFailed, Attempts: 1,
		Error: "the certificate of the target is not valid", CreatedAt: Now, CompletedAt: Now,
	}
	h.Sent = slices.Insert(h.Sent, 0, d)
	return d, nil
}

// Deliveries implements assay.WebhookManager.
func (h *Webhooks) Deliveries(_ context.Context, organizationID, id string, page assay.Page) ([]*assay.WebhookDelivery, int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(h.Sent), func(d *assay.WebhookDelivery) bool {
		return d.OrganizationID != organizationID || d.WebhookID != id
	})
	return selection.Page(all, page), len(all), nil
}

// Delivery implements assay.WebhookManager.
func (h *Webhooks) Delivery(_ context.Context, _, _, id string) (*assay.WebhookDelivery, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.Sent {
		if d.ID == id {
			return d, nil
		}
	}
	return nil, assay.Errorf(assay.CodeNotFound, "no such delivery")
}
