// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"net/url"
	"time"
)

// Webhook is a target that an organization has insights sent to.
type Webhook struct {
	ID             string // UUID
	OrganizationID string
	Name           string // at most MaxWebhookName bytes
	URL            string // at most MaxWebhookURL bytes; it may hold a token of the target
	Enabled        bool
	MinSeverity    Impact   // of the insights that are sent, and above
	EventTypes     []string // names of insight types; none means all
	Environments   []string // of services; none means all. At most MaxWebhookEnvironments
	CreatedAt      time.Time
	UpdatedAt      time.Time

	// Secret signs deliveries. It is encrypted with the server's secret key.
	Secret []byte

	// The server writes the fields below.

	DisabledReason string    // why the server disabled it, "" otherwise
	Failures       int       // failed attempts since the last success
	FailingSince   time.Time // time of the first of them, zero if there is none
}

// HostURL returns the URL without its path and query, which often hold the only credential of the target.
func (w *Webhook) HostURL() string {
	u, err := url.Parse(w.URL)
	switch {
	case err != nil:
		return "https://..."
	case u.Path == "" && u.RawQuery == "":
		return w.URL
	}
	return u.Scheme + "://" + u.Host + "/..."
}

// DeliveryStatus is the status of a delivery.
type DeliveryStatus string

// The statuses of deliveries.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliverySucceeded DeliveryStatus = "succeeded"
	DeliveryFailed    DeliveryStatus = "failed"
)

// WebhookDelivery is an event of a webhook. A webhook's deliveries are attempted in their order.
type WebhookDelivery struct {
	ID             string // UUID
	OrganizationID string
	WebhookID      string
	InsightID      string        // "" for a test
	Event          InsightStatus // active or archived; "" for a test
	Status         DeliveryStatus
	Attempts       int       // begun ones
	HTTPStatus     int       // of the last response, 0 if there was none
	Error          string    // of the last attempt; a message
	CreatedAt      time.Time // time of the event
	CompletedAt    time.Time // zero while pending
}

// IdempotencyKey returns the webhook-id of the delivery, the same for each attempt.
func (d *WebhookDelivery) IdempotencyKey() string { return "msg_" + d.ID }

// Limits of webhooks. The migrations of the stores contain MaxPendingDeliveries and MaxDeliveries.
const (
	MaxWebhooks            = 10
	MaxWebhookName         = 256
	MaxWebhookURL          = 2048
	MaxWebhookEnvironments = 50
	MaxPendingDeliveries   = 5_000  // of a webhook; beyond, the oldest are given up
	MaxDeliveries          = 10_000 // of a webhook; beyond, the oldest are deleted
)

// ClaimedDelivery is the next delivery of a webhook, whose lease a holder has.
type ClaimedDelivery struct {
	Webhook  Webhook
	Delivery WebhookDelivery // Attempts includes the attempt that follows
	Evicted  int             // deliveries given up since the last claim because the queue was full
}

// DeliveryResult is the result of an attempt.
type DeliveryResult struct {
	Status     DeliveryStatus // pending if it is to be attempted again
	HTTPStatus int
	Error      string
	RetryAt    time.Time // earliest time of the webhook's next attempt; zero: at once
	Skipped    bool      // there was no attempt: the webhook's failures stay as they are
	Disable    string    // why the webhook is to be disabled; its pending deliveries are given up
}

// WebhookManager manages the webhooks of organizations. Errors are the ones of WebhookStore, CodeInvalid with details for
// invalid fields, and CodeUnavailable if secrets cannot be encrypted. It is safe for concurrent use.
type WebhookManager interface {
	// List returns an organization's webhooks, oldest first.
	List(ctx context.Context, organizationID string) ([]*Webhook, error)
	Find(ctx context.Context, organizationID, id string) (*Webhook, error)
	// Create sets the id and the times and returns the secret, which is not shown again.
	Create(ctx context.Context, w *Webhook) (secret string, err error)
	// Update replaces name, URL, filters and whether the webhook is enabled.
	Update(ctx context.Context, w *Webhook) error
	Delete(ctx context.Context, organizationID, id string) error
	// Test sends a test event and returns the completed delivery. It takes at most WebhookTestTime.
	Test(ctx context.Context, organizationID, id string) (*WebhookDelivery, error)
	// Deliveries returns a page of a webhook's deliveries, newest first, and how many there are.
	Deliveries(ctx context.Context, organizationID, id string, page Page) ([]*WebhookDelivery, int, error)
	Delivery(ctx context.Context, organizationID, webhookID, id string) (*WebhookDelivery, error)
}

// WebhookTestTime is the maximum duration of a test: an attempt, and the time to store its result.
const WebhookTestTime = 20 * time.Second

// WebhookStore stores webhooks and their deliveries. The transaction that changes an insight's status to active or
// archived creates a pending delivery for each enabled webhook that the insight matches. All methods are safe for
// concurrent use by any number of processes. Unknown ids and ids of another organization give CodeNotFound.
type WebhookStore interface {
	// CreateWebhook sets the times. The caller sets the id. CodeConflict at MaxWebhooks.
	CreateWebhook(ctx context.Context, w *Webhook) error
	// UpdateWebhook replaces name, URL, filters and whether it is enabled, and sets the times. It clears failures and
	// DisabledReason. A webhook that is not enabled has its pending deliveries given up.
	UpdateWebhook(ctx context.Context, w *Webhook) error
	// DeleteWebhook deletes a webhook with its deliveries.
	DeleteWebhook(ctx context.Context, organizationID, id string) error
	// Webhooks returns an organization's webhooks, oldest first.
	Webhooks(ctx context.Context, organizationID string) ([]*Webhook, error)
	Webhook(ctx context.Context, organizationID, id string) (*Webhook, error)

	// WebhookDeliveries returns a page of a webhook's deliveries, newest first, and how many there are.
	WebhookDeliveries(ctx context.Context, organizationID, webhookID string, page Page) ([]*WebhookDelivery, int, error)
	WebhookDelivery(ctx context.Context, organizationID, webhookID, id string) (*WebhookDelivery, error)
	// AddTestDelivery stores a completed test. A test that succeeded clears the webhook's failures, so that pending
	// deliveries are attempted at once.
	AddTestDelivery(ctx context.Context, d *WebhookDelivery) error

	// ClaimDelivery gives the holder the lease of a webhook whose next attempt is due, for ttl by the store's clock, and
	// returns its oldest pending delivery. Webhooks of organizations with perOrganization leases are left out; those of
	// organizations with fewer leases go first. nil if there is none.
	ClaimDelivery(ctx context.Context, holder string, ttl time.Duration, perOrganization int) (*ClaimedDelivery, error)
	// CompleteDelivery stores the result of an attempt and releases the lease. delta.ErrLeaseLost if another holder has
	// it, or the webhook is deleted.
	CompleteDelivery(ctx context.Context, holder string, d *WebhookDelivery, r DeliveryResult) error
}
