// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/rules/rulestest"
)

type restDelivery struct {
	ID             string  `json:"id"`
	Status         string  `json:"status"`
	HTTPStatus     *int    `json:"http_status_code"`
	Attempts       int     `json:"attempt_number"`
	Error          string  `json:"error_message"`
	IdempotencyKey string  `json:"idempotency_key"`
	InsightID      *string `json:"insight_id"`
}

// newWebhook creates a webhook for all insights and returns its id and secret.
func (d *daemon) newWebhook(t *testing.T, key, url string) (id, secret string) {
	t.Helper()
	body := fmt.Appendf(nil, `{"name":"e2e","url":%q}`, url)
	a, err := assaytest.Do(t.Context(), d.Client, http.MethodPost, d.REST+"/v1/webhooks", key, body, "Content-Type", "application/json")
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	var made envelope[struct{ ID, Secret string }]
	require.NoError(t, json.Unmarshal(a.Body, &made))
	return made.Data.ID, made.Data.Secret
}

// receiver is a webhook target that verifies deliveries with the Standard Webhooks library.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	verify *standard.Webhook
	status int      // of responses
	ids    []string // ids of deliveries in order of arrival
	events []event
	bad    error
}

type event struct {
	Type      string
	Timestamp time.Time
	Data      map[string]any
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		var e event
		if err == nil {
			err = r.verify.Verify(body, q.Header)
		}
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		if err != nil {
			r.bad = err
		}
		r.ids, r.events = append(r.ids, q.Header.Get("Webhook-Id")), append(r.events, e)
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

// answer sets the status of responses.
func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// seen returns the deliveries and the first error.
func (r *receiver) seen() (ids []string, events []event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids), slices.Clone(r.events), r.bad
}

// TestWebhooks delivers events to a receiver on this machine, across a crash.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	target := newReceiver(t)
	dir := t.TempDir()
	flags := []string{"--bootstrap-api-key", bootstrapKey, "--commit-interval", "10ms", "--score-interval", "200ms", "--trace-idle", "200ms"}
	d := startDaemon(t, dir, append(flags, "--webhook-allow-private-hosts")...)
	hook, secret := d.newWebhook(t, bootstrapKey, target.URL+"/hook?token=1")
	verify, err := standard.NewWebhook(secret)
	require.NoError(t, err)
	target.mu.Lock()
	target.verify = verify
	target.mu.Unlock()
	deliveries := func() (all []restDelivery) {
		all, err := assaytest.List[restDelivery](t.Context(), d.Client, d.REST, bootstrapKey, "/v1/webhooks/"+hook+"/deliveries")
		require.NoError(t, err)
		return all
	}
	pending := func(r restDelivery) bool { return r.Status == "pending" }

	// Each insight becomes active once.
	for _, r := range faulty(rulestest.Attrs("service.name", "cart", "service.version", "1", "deployment.environment.name", "production")) {
		d.mustPost(t, bootstrapKey, r)
	}
	var insights []restInsight
	eventually(t, func() bool {
		insights = d.insights(t, bootstrapKey)
		all := deliveries()
		return len(insights) == faultyRules && len(all) == len(insights) && !slices.ContainsFunc(all, pending)
	}, "not delivered")
	ids, events, err := target.seen()
	require.NoError(t, err)
	delivered := map[any]bool{}
	for _, e := range events {
		require.Equal(t, "insight.active", e.Type)
		require.Equal(t, "active", e.Data["status"])
		delivered[e.Data["id"]] = true
	}
	for _, i := range insights {
		require.True(t, delivered[i.ID])
	}
	for _, r := range deliveries() {
		require.Equal(t, "succeeded", r.Status)
		require.Contains(t, ids, r.IdempotencyKey)
	}

	// A command in another process reactivates an insight. The delivery survives a restart of the server.
	target.answer(http.StatusServiceUnavailable)
	require.Zero(t, d.assay(t, "insight", "mute", insights[0].ID).Code)
	require.Zero(t, d.assay(t, "insight", "unmute", insights[0].ID).Code)
	before := len(ids)
	eventually(t, func() bool {
		all := deliveries()
		return slices.ContainsFunc(all, func(r restDelivery) bool { return pending(r) && r.Error != "" })
	}, "no failed attempt")
	d.Kill()
	target.answer(http.StatusOK)
	d = startDaemon(t, dir, append(flags, "--webhook-allow-private-hosts")...)
	eventually(t, func() bool { return !slices.ContainsFunc(deliveries(), pending) }, "not delivered after a restart")
	ids, events, err = target.seen()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(ids), before+2)
	for i := before; i < len(ids); i++ {
		require.Equal(t, ids[before], ids[i], "the same id in each attempt")
		require.Equal(t, insights[0].ID, events[i].Data["id"])
	}

	test := func() restDelivery {
		a, err := assaytest.Do(t.Context(), d.Client, http.MethodPost, d.REST+"/v1/webhooks/"+hook+"/test", bootstrapKey, nil)
		require.NoError(t, err)
		return decode[restDelivery](t, a).Data
	}
	got := test()
	require.Equal(t, "succeeded", got.Status)
	require.Nil(t, got.InsightID)
	ids, events, err = target.seen()
	require.NoError(t, err)
	require.Equal(t, got.IdempotencyKey, ids[len(ids)-1])
	require.Equal(t, "webhook.test", events[len(events)-1].Type)
	d.stop(t)
	require.NotContains(t, d.Log.String(), strings.TrimPrefix(secret, "whsec_"))
	require.NotContains(t, d.Log.String(), "token=1")

	// Without the operator's permission, no request is sent to this machine.
	d = startDaemon(t, dir, flags...)
	got = test()
	require.Equal(t, "failed", got.Status)
	require.Contains(t, got.Error, "not public")
	require.Nil(t, got.HTTPStatus)
	after, _, _ := target.seen()
	require.Len(t, after, len(ids))
	a, err := assaytest.Do(t.Context(), d.Client, http.MethodPost, d.REST+"/v1/webhooks", bootstrapKey, []byte(`{"name":"n","url":"http://example.com"}`))
	require.NoError(t, err)
	requireError(t, a, 400, "INVALID_PARAMETERS", "url")
}
