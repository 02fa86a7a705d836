// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/rules/catalog"
)

const (
	hookID     = "3c0de4a5-8b7f-4a55-9f0e-0d1c2b3a4f5e"
	deliveryID = "7d9b2c51-0a4e-4d3b-8f6a-5e4d3c2b1a09"
	hookPath   = "/api/v1/webhooks/" + hookID
)

// webhookOperations are the operations of webhooks and the scopes that they need.
var webhookOperations = []struct {
	method, path string
	scope        assay.Scope
}{
	{"GET", "/api/v1/webhooks", assay.ScopeRead},
	{"POST", "/api/v1/webhooks", assay.ScopeAdmin},
	{"GET", hookPath, assay.ScopeRead},
	{"PUT", hookPath, assay.ScopeAdmin},
	{"POST", hookPath + "/test", assay.ScopeAdmin},
	{"GET", hookPath + "/deliveries", assay.ScopeRead},
	{"GET", hookPath + "/deliveries/" + deliveryID, assay.ScopeRead},
	{"DELETE", hookPath, assay.ScopeAdmin},
}

// hooks is an assay.WebhookManager with one webhook and one delivery.
type hooks struct {
	hook     *assay.Webhook // nil: deleted
	delivery assay.WebhookDelivery
}

func newHooks() *hooks {
	return &hooks{
		hook: &assay.Webhook{
			ID: hookID, OrganizationID: orgID, Name: "on call", URL: "https://example.com/hooks/token?a=b", Enabled: true, MinSeverity: assay.ImpactNormal,
			EventTypes: []string{catalog.RES005.Info().Name}, Environments: []string{"production"}, Secret: []byte("sealed"),
			CreatedAt: testNow.Add(-time.Hour), UpdatedAt: testNow, Failures: 3, FailingSince: testNow,
		},
		delivery: assay.WebhookDelivery{
			ID: deliveryID, OrganizationID: orgID, WebhookID: hookID, InsightID: unknownID, Event: assay.InsightActive, Status: assay.DeliveryFailed,
			Attempts: 2, HTTPStatus: 500, Error: "the target answered with status 500", CreatedAt: testNow.Add(-time.Minute), CompletedAt: testNow,
		},
	}
}

const unknownID = "00000000-0000-4000-8000-000000000000"

func (h *hooks) Find(_ context.Context, org, id string) (*assay.Webhook, error) {
	if h.hook == nil || org != orgID || id != hookID {
		return nil, assay.Errorf(assay.CodeNotFound, "no such webhook")
	}
	found := *h.hook
	return &found, nil
}

func (h *hooks) List(ctx context.Context, org string) ([]*assay.Webhook, error) {
	if found, err := h.Find(ctx, org, hookID); err == nil {
		return []*assay.Webhook{found}, nil
	}
	return nil, nil
}

func (h *hooks) Create(_ context.Context, w *assay.Webhook) (string, error) {
	if err := h.check(w); err != nil {
		return "", err
	}
	w.ID, w.CreatedAt, w.UpdatedAt = hookID, testNow, testNow
	h.hook = w
	return "whsec_secret", nil
}

func (h *hooks) Update(ctx context.Context, w *assay.Webhook) error {
	if _, err := h.Find(ctx, w.OrganizationID, w.ID); err != nil {
		return err
	}
	if err := h.check(w); err != nil {
		return err
	}
	h.hook = w
	return nil
}

func (h *hooks) check(w *assay.Webhook) error {
	if w.Name == "" || len(w.EventTypes) > 0 && w.EventTypes[0] == "" {
		return &assay.Error{Code: assay.CodeInvalid, Message: "not valid", Details: map[string]string{"checked": "by the manager"}}
	}
	return nil
}

func (h *hooks) Delete(ctx context.Context, org, id string) error {
	_, err := h.Find(ctx, org, id)
	if err == nil {
		h.hook = nil
	}
	return err
}

func (h *hooks) Test(ctx context.Context, org, id string) (*assay.WebhookDelivery, error) {
	_, err := h.Find(ctx, org, id)
	return &assay.WebhookDelivery{ID: deliveryID, OrganizationID: org, WebhookID: id, Status: assay.DeliverySucceeded, Attempts: 1, HTTPStatus: 204, CreatedAt: testNow, CompletedAt: testNow}, err
}

func (h *hooks) Deliveries(ctx context.Context, org, id string, page assay.Page) ([]*assay.WebhookDelivery, int, error) {
	_, err := h.Find(ctx, org, id)
	return pageOf([]*assay.WebhookDelivery{&h.delivery}, page), 1, err
}

func (h *hooks) Delivery(ctx context.Context, org, id, delivery string) (*assay.WebhookDelivery, error) {
	_, err := h.Find(ctx, org, id)
	if err == nil && delivery != deliveryID {
		err = assay.Errorf(assay.CodeNotFound, "no such delivery")
	}
	return &h.delivery, err
}

func TestWebhookOperations(t *testing.T) {
	const body = `{"name":"n","url":"https://example.com"}`
	for _, o := range webhookOperations {
		t.Run(o.method+" "+o.path, func(t *testing.T) {
			f := newFixture(t)
			f.call(t, o.method, o.path, body, "").fails(t, 401, assay.CodeMissingCredentials)
			f.call(t, o.method, o.path, body, ingester).fails(t, 403, assay.CodeForbidden)
			if o.scope == assay.ScopeAdmin {
				f.call(t, o.method, o.path, body, person).fails(t, 403, assay.CodeForbidden)
			} else {
				require.Equal(t, 200, f.call(t, o.method, o.path, "", person).Code)
			}
			if strings.Contains(o.path, hookID) {
				f.call(t, o.method, o.path, body, stranger).fails(t, 404, assay.CodeNotFound)
				f.call(t, o.method, strings.Replace(o.path, hookID, "nonsense", 1), body, reader).fails(t, 404, assay.CodeNotFound)
				f.call(t, o.method, strings.Replace(o.path, hookID, unknownID, 1), body, reader).fails(t, 404, assay.CodeNotFound)
			}
			if strings.Contains(o.path, deliveryID) {
				f.call(t, o.method, strings.Replace(o.path, deliveryID, "nonsense", 1), body, reader).fails(t, 404, assay.CodeNotFound)
			}
			f.h.cfg.Webhooks = nil
			f.call(t, o.method, o.path, body, reader).fails(t, 503, assay.CodeUnavailable)
			f = newFixture(t)
			want := http.StatusOK
			if o.method == "POST" && strings.HasSuffix(o.path, "/webhooks") {
				want = http.StatusCreated
			}
			require.Equal(t, want, f.call(t, o.method, o.path, body, reader).Code)
		})
	}
}

// TestWebhookScopes: a key that cannot read insights cannot have them delivered.
func TestWebhookScopes(t *testing.T) {
	const body = `{"url":"https://example.com"}`
	f := newFixture(t, func(c *Config) {
		c.Authenticate = func(context.Context, string, string) (*assay.Principal, error) {
			return &assay.Principal{OrganizationID: orgID, Scopes: []assay.Scope{assay.ScopeAdmin, assay.ScopeIngest}}, nil
		}
	})
	f.call(t, "POST", "/api/v1/webhooks", body, reader).fails(t, 403, assay.CodeForbidden)
	f.call(t, "PUT", hookPath, body, reader).fails(t, 403, assay.CodeForbidden)
	require.Equal(t, 200, f.call(t, "POST", hookPath+"/test", "", reader).Code)
	require.Equal(t, 200, f.call(t, "DELETE", hookPath, "", reader).Code)
}

func TestWebhookFields(t *testing.T) {
	f := newFixture(t)
	var got Webhook
	read := func(a *answer) Webhook {
		t.Helper()
		got = Webhook{}
		require.NoError(t, json.Unmarshal(a.Data, &got))
		return got
	}
	type5, _ := catalog.ByInsightType(catalog.RES005.Info().Name)
	id := type5.TypeID()

	// The secret is in the response to the creation only, and the URL is for administrators.
	created := f.call(t, "POST", "/api/v1/webhooks", `{"name":"n","url":"https://example.com/x","unknown":1}`, reader)
	require.Equal(t, Webhook{
		ID: hookID, Name: "n", URL: "https://example.com/x", IsEnabled: true, MinSeverity: "Low", EventTypes: []string{}, Environments: []string{},
		CreatedAt: timestamp(testNow), UpdatedAt: timestamp(testNow), Secret: "whsec_secret",
	}, read(created))
	require.NotContains(t, f.get(t, hookPath).Body.String(), "secret")
	require.Equal(t, "https://example.com/...", read(f.call(t, "GET", hookPath, "", person)).URL)
	require.Contains(t, f.call(t, "GET", "/api/v1/webhooks", "", person).Body.String(), `"https://example.com/..."`)

	// Fields that the body does not have stay.
	a := f.call(t, "PUT", hookPath, `{"is_enabled":false,"event_types":["`+id+`"],"environments":["a","b"],"min_severity":"Critical"}`, reader)
	require.Equal(t, "n", read(a).Name)
	require.Equal(t, []string{id}, got.EventTypes)
	require.False(t, got.IsEnabled)
	read(f.call(t, "PUT", hookPath, `{"name":"m"}`, reader))
	require.Equal(t, []string{id}, got.EventTypes)
	require.Equal(t, []string{"a", "b"}, got.Environments)
	require.Equal(t, "Critical", got.MinSeverity)
	require.NotContains(t, a.Body.String(), "secret")

	for body, want := range map[string][2]string{
		"":                              {"body", "must be a JSON object"},
		"x":                             {"body", "must be a JSON object"},
		"null":                          {"body", "must be a JSON object"},
		"[]":                            {"body", "must be a JSON object"},
		`{"name":1}`:                    {"name", "must be a string"},
		`{"event_types":[1]}`:           {"event_types", "must be an array of strings"},
		`{"is_enabled":"yes"}`:          {"is_enabled", "must be true or false"},
		`{"name":""}`:                   {"checked", "by the manager"},
		`{"event_types":["x"]}`:         {"checked", "by the manager"},
		`{"event_types":["RES-005"]}`:   {"checked", "by the manager"},
		`{"name":"x","environments":1}`: {"environments", "must be an array of strings"},
	} {
		a := f.call(t, "PUT", hookPath, body, reader).fails(t, 400, assay.CodeInvalid)
		require.Equal(t, map[string]string{want[0]: want[1]}, a.Error.Details, body)
	}
	f.call(t, "PUT", "/api/v1/webhooks/"+unknownID, "[]", reader).fails(t, 400, assay.CodeInvalid)
	f.call(t, "PUT", hookPath, strings.Repeat(" ", maxObject+1), reader).fails(t, 413, assay.CodeTooLarge)
	require.Equal(t, "null", string(f.call(t, "DELETE", hookPath, "", reader).Data))
	f.get(t, hookPath).fails(t, 404, assay.CodeNotFound)
}
