// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/seal"
	"assay/internal/fair"
	"assay/internal/netguard"
	"assay/internal/rules/catalog"
	"assay/internal/safetext"
)

const (
	// sealPurpose separates the cipher key of webhooks' secrets from other keys of the same secret.
	sealPurpose = "assay: secrets of webhooks, AES-256-GCM"

	secretPrefix = "whsec_"
	secretBytes  = 32

	// Tests in flight in this process. An organization has its share when others test too.
	maxTests = 16
)

// Config configures a Manager and a Worker. Fields without a default are required.
type Config struct {
	Store    assay.WebhookStore
	Insights assay.InsightStore
	// Render returns an insight as JSON, as the REST API shows it.
	Render       func(*assay.Insight) ([]byte, error)
	Secret       auth.Secret // encrypts secrets of webhooks; "": none can be created
	PrivateHosts bool        // allow private addresses, and http
	UserAgent    string

	Observe func(Event)      // is called for each attempt; default: none
	Now     func() time.Time // the store's time; default time.Now
	Jitter  func() float64   // in [0, 1); default random
	Logger  *slog.Logger     // default: none
}

// Manager manages the webhooks of organizations. It is safe for concurrent use.
type Manager struct {
	cfg    Config
	box    *seal.Box
	sender *sender
	tests  *fair.Limiter
}

// NewManager returns a manager.
func NewManager(cfg Config) (*Manager, error) {
	box, err := seal.New(cfg.Secret, sealPurpose)
	if err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Observe == nil {
		cfg.Observe = func(Event) {}
	}
	if cfg.Jitter == nil {
		cfg.Jitter = mathrand.Float64
	}
	return &Manager{cfg: cfg, box: box, sender: newSender(cfg.PrivateHosts, cfg.UserAgent), tests: fair.NewLimiter(maxTests)}, nil
}

// List returns an organization's webhooks, oldest first.
func (m *Manager) List(ctx context.Context, organizationID string) ([]*assay.Webhook, error) {
	return m.cfg.Store.Webhooks(ctx, organizationID)
}

// Find returns a webhook of an organization.
func (m *Manager) Find(ctx context.Context, organizationID, id string) (*assay.Webhook, error) {
	return m.cfg.Store.Webhook(ctx, organizationID, id)
}

// Deliveries returns a page of a webhook's deliveries, newest first, and how many there are.
func (m *Manager) Deliveries(ctx context.Context, organizationID, id string, page assay.Page) ([]*assay.WebhookDelivery, int, error) {
	return m.cfg.Store.WebhookDeliveries(ctx, organizationID, id, page)
}

// Delivery returns a delivery of a webhook.
func (m *Manager) Delivery(ctx context.Context, organizationID, webhookID, id string) (*assay.WebhookDelivery, error) {
	return m.cfg.Store.WebhookDelivery(ctx, organizationID, webhookID, id)
}

// Create creates a webhook and returns its secret, which is not shown again.
func (m *Manager) Create(ctx context.Context, w *assay.Webhook) (secret string, err error) {
	if err := m.check(w); err != nil {
		return "", err
	}
	if !m.box.Encrypts() {
		return "", assay.Errorf(assay.CodeUnavailable, "the server has no --secret-key-file to encrypt the secret of a webhook with")
	}
	key := make([]byte, secretBytes)
	rand.Read(key)
	w.ID = uuid.NewString()
	w.Secret = m.box.Seal(nil, w.ID, key)
	if err := m.cfg.Store.CreateWebhook(ctx, w); err != nil {
		return "", err
	}
	m.log(ctx, "created", w.OrganizationID, w.ID)
	return secretPrefix + base64.StdEncoding.EncodeToString(key), nil
}

// Update replaces name, URL, filters and whether the webhook is enabled. Its secret stays.
func (m *Manager) Update(ctx context.Context, w *assay.Webhook) error {
	if err := m.check(w); err != nil {
		return err
	}
	err := m.cfg.Store.UpdateWebhook(ctx, w)
	if err == nil {
		m.log(ctx, "updated", w.OrganizationID, w.ID)
	}
	return err
}

// Delete deletes a webhook with its deliveries.
func (m *Manager) Delete(ctx context.Context, organizationID, id string) error {
	err := m.cfg.Store.DeleteWebhook(ctx, organizationID, id)
	if err == nil {
		m.log(ctx, "deleted", organizationID, id)
	}
	return err
}

// log logs a change, which decides where an organization's data goes. The log has no URL.
func (m *Manager) log(ctx context.Context, change, organizationID, id string) {
	m.cfg.Logger.InfoContext(ctx, "webhook changed", "change", change, "organization_id", organizationID, "webhook", id)
}

// Test sends a test event at once, ahead of pending deliveries, and returns the completed delivery. A failure is a
// result, not an error.
func (m *Manager) Test(ctx context.Context, organizationID, id string) (*assay.WebhookDelivery, error) {
	w, err := m.cfg.Store.Webhook(ctx, organizationID, id)
	if err != nil {
		return nil, err
	}
	if !m.tests.Acquire(organizationID, 1) {
		return nil, assay.Errorf(assay.CodeRateLimited, "too many webhooks are being tested")
	}
	defer m.tests.Release(organizationID, 1)
	now := m.cfg.Now().UTC().Truncate(time.Microsecond)
	d := &assay.WebhookDelivery{
		ID: uuid.NewString(), OrganizationID: organizationID, WebhookID: id, Status: assay.DeliverySucceeded, Attempts: 1, CreatedAt: now,
	}
	data, err := json.Marshal(map[string]string{"webhook_config_id": id})
	if err != nil {
		return nil, err
	}
	o := m.attempt(ctx, w, d, eventTest, data)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if d.HTTPStatus, d.Error = o.status, o.problem; d.Error != "" {
		d.Status = assay.DeliveryFailed
	}
	d.CompletedAt = m.cfg.Now().UTC().Truncate(time.Microsecond)
	return d, m.cfg.Store.AddTestDelivery(ctx, d)
}

// check returns CodeInvalid with an entry for each invalid field.
func (m *Manager) check(w *assay.Webhook) error {
	details := map[string]string{}
	printable := func(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, safetext.Hidden) }
	if w.Name = strings.TrimSpace(w.Name); w.Name == "" || len(w.Name) > assay.MaxWebhookName || !printable(w.Name) {
		details["name"] = fmt.Sprintf("must have 1 to %d bytes, without invisible characters", assay.MaxWebhookName)
	}
	if problem := m.checkURL(w.URL); problem != "" {
		details["url"] = problem
	}
	if w.MinSeverity.Weight() == 0 {
		details["min_severity"] = "must be one of Critical, Important, Normal, Low"
	}
	for _, name := range w.EventTypes {
		if _, known := catalog.ByInsightType(name); !known {
			details["event_types"] = "must be ids of insight types"
		}
	}
	if len(w.Environments) > assay.MaxWebhookEnvironments || slices.ContainsFunc(w.Environments, func(e string) bool { return len(e) > 256 || !printable(e) }) {
		details["environments"] = fmt.Sprintf("must be at most %d names of at most 256 bytes, without invisible characters", assay.MaxWebhookEnvironments)
	}
	if len(details) > 0 {
		return assay.Invalid(details)
	}
	slices.Sort(w.EventTypes)
	w.EventTypes = slices.Compact(w.EventTypes)
	return nil
}

// checkURL returns the error in a URL. The addresses of a name are checked at each connection, since they can change.
func (m *Manager) checkURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > assay.MaxWebhookURL || u.Hostname() == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Sprintf("must be an absolute URL of at most %d ASCII characters", assay.MaxWebhookURL)
	case u.Scheme != "https" && (u.Scheme != "http" || !m.cfg.PrivateHosts):
		return "must begin with https://"
	case u.User != nil:
		return "must not hold a user name or password"
	case u.Fragment != "":
		return "must not have a fragment"
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !m.cfg.PrivateHosts && !netguard.Public(a) {
		return "must not be a private address"
	}
	return ""
}
