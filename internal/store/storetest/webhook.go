// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"assay"
	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
)

const deliveryTTL = 30 * time.Second

// webhook creates an enabled webhook. change may modify it first.
func (s *suite) webhook(org string, change func(*assay.Webhook)) *assay.Webhook {
	s.t.Helper()
	w := &assay.Webhook{
		ID: uuid.NewString(), OrganizationID: org, Name: "hook " + odd, URL: "https://example.com/hook", Enabled: true,
		MinSeverity: assay.ImpactLow, Secret: []byte("sealed\x00"),
	}
	if change != nil {
		change(w)
	}
	require.NoError(s.t, s.CreateWebhook(s.ctx(), w))
	return w
}

// setStatus saves an insight with a status, a minute later.
func (s *suite) setStatus(in *assay.Insight, status assay.InsightStatus) {
	s.t.Helper()
	s.clock.advance(time.Minute)
	in.Status, in.UpdatedAt = status, micro(s.clock.now())
	require.NoError(s.t, s.SaveScores(s.ctx(), delta.Fence{}, in.OrganizationID, []delta.Result{{ServiceID: in.Service.ID, Insights: []*assay.Insight{in}}}))
}

// deliveries returns the deliveries of a webhook, oldest first.
func (s *suite) deliveries(w *assay.Webhook) []*assay.WebhookDelivery {
	s.t.Helper()
	newest, total := must2(s.WebhookDeliveries(s.ctx(), w.OrganizationID, w.ID, assay.Page{Limit: assay.MaxDeliveries}))(s.t)
	require.Len(s.t, newest, total)
	var all []*assay.WebhookDelivery
	for i := range newest {
		all = append(all, newest[total-1-i])
	}
	return all
}

// deliver claims the next delivery and completes it.
func (s *suite) deliver(r assay.DeliveryResult) *assay.ClaimedDelivery {
	s.t.Helper()
	c := must(s.ClaimDelivery(s.ctx(), "holder", deliveryTTL, 10))(s.t)
	if c != nil {
		require.NoError(s.t, s.CompleteDelivery(s.ctx(), "holder", &c.Delivery, r))
	}
	return c
}

func (s *suite) TestWebhooks(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	w := s.webhook(org, func(w *assay.Webhook) {
		w.MinSeverity, w.EventTypes, w.Environments = assay.ImpactImportant, []string{catalog.RES001.Info().Name, catalog.RES002.Info().Name}, []string{"", "production ü"}
	})
	require.Equal(t, micro(s.clock.now()), w.CreatedAt)
	found := must(s.Webhook(ctx, org, w.ID))(t)
	require.ElementsMatch(t, w.EventTypes, found.EventTypes)
	found.EventTypes = w.EventTypes
	require.Equal(t, w, found)

	s.clock.advance(time.Minute)
	changed := *w
	changed.Name, changed.URL, changed.Enabled, changed.MinSeverity = "new", "https://example.org", false, assay.ImpactLow
	changed.EventTypes, changed.Environments, changed.Secret = nil, nil, nil
	require.NoError(t, s.UpdateWebhook(ctx, &changed))
	require.Equal(t, w.Secret, changed.Secret, "the secret stays")
	require.Equal(t, w.CreatedAt, changed.CreatedAt)
	require.Equal(t, micro(s.clock.now()), changed.UpdatedAt)
	require.Equal(t, &changed, must(s.Webhook(ctx, org, w.ID))(t))

	// Another organization cannot read or change it.
	foreign := changed
	foreign.OrganizationID = other
	for _, id := range []string{w.ID, unknownID, "no id"} {
		foreign.ID = id
		code(t, assay.CodeNotFound, errOf(s.Webhook(ctx, other, id)))
		code(t, assay.CodeNotFound, s.UpdateWebhook(ctx, &foreign))
		code(t, assay.CodeNotFound, s.DeleteWebhook(ctx, other, id))
		code(t, assay.CodeNotFound, errOf3(s.WebhookDeliveries(ctx, other, id, assay.Page{Limit: 1})))
		code(t, assay.CodeNotFound, errOf(s.WebhookDelivery(ctx, other, id, id)))
		code(t, assay.CodeNotFound, s.AddTestDelivery(ctx, &assay.WebhookDelivery{OrganizationID: other, WebhookID: id, Status: assay.DeliveryFailed}))
	}
	require.Empty(t, must(s.Webhooks(ctx, other))(t))

	for _, bad := range []func(*assay.Webhook){
		func(w *assay.Webhook) { w.MinSeverity = "x" },
		func(w *assay.Webhook) { w.EventTypes = []string{"x"} },
		func(w *assay.Webhook) { w.Environments = make([]string, assay.MaxWebhookEnvironments+1) },
		func(w *assay.Webhook) { w.URL = string(make([]byte, assay.MaxWebhookURL+1)) },
		func(w *assay.Webhook) { w.ID = "no id" },
	} {
		b := changed
		bad(&b)
		code(t, assay.CodeInvalid, s.CreateWebhook(ctx, &b))
	}
	for range assay.MaxWebhooks - 1 {
		s.webhook(org, nil)
	}
	code(t, assay.CodeConflict, s.CreateWebhook(ctx, &assay.Webhook{OrganizationID: org, MinSeverity: assay.ImpactLow, Secret: []byte("x")}))
	all := must(s.Webhooks(ctx, org))(t)
	require.Len(t, all, assay.MaxWebhooks)
	require.Equal(t, &changed, all[0])
	require.NoError(t, s.DeleteWebhook(ctx, org, w.ID))
	code(t, assay.CodeNotFound, s.DeleteWebhook(ctx, org, w.ID))
}

// TestOutbox requires one delivery for each change to active or archived and each webhook that the insight matches, in
// the transaction of the change.
func (s *suite) TestOutbox(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	svc := s.seen(org, assay.ServiceKey{Name: "a", Environment: "production"}, catalog.RES001, true)
	info := catalog.RES001.Info()
	above := map[assay.Impact]assay.Impact{assay.ImpactLow: assay.ImpactNormal, assay.ImpactNormal: assay.ImpactImportant, assay.ImpactImportant: assay.ImpactCritical}[info.Impact]
	require.NotEmpty(t, above)
	all := s.webhook(org, nil)
	matching := s.webhook(org, func(w *assay.Webhook) {
		w.MinSeverity, w.EventTypes, w.Environments = info.Impact, []string{info.Name}, []string{"staging", "production"}
	})
	others := []*assay.Webhook{
		s.webhook(org, func(w *assay.Webhook) { w.MinSeverity = above }),
		s.webhook(org, func(w *assay.Webhook) { w.EventTypes = []string{catalog.RES002.Info().Name} }),
		s.webhook(org, func(w *assay.Webhook) { w.Environments = []string{"staging", ""} }),
		s.webhook(org, func(w *assay.Webhook) { w.Enabled = false }),
		s.webhook(other, nil),
	}
	in := s.insight(org, svc, catalog.RES001)
	want := []assay.InsightStatus{assay.InsightActive}
	check := func() {
		t.Helper()
		for _, w := range []*assay.Webhook{all, matching} {
			var got []assay.InsightStatus
			ids := map[string]bool{}
			for _, d := range s.deliveries(w) {
				got = append(got, d.Event)
				ids[d.ID] = true
				require.Equal(t, d, must(s.WebhookDelivery(ctx, org, w.ID, d.ID))(t))
				require.Equal(t, &assay.WebhookDelivery{
					ID: d.ID, OrganizationID: org, WebhookID: w.ID, InsightID: in.ID, Event: d.Event, Status: assay.DeliveryPending, CreatedAt: d.CreatedAt,
				}, d)
				require.EqualValues(t, 4, uuid.MustParse(d.ID).Version())
			}
			require.Equal(t, want, got)
			require.Len(t, ids, len(got))
		}
		for _, w := range others {
			require.Empty(t, s.deliveries(w))
		}
	}
	check()
	s.setStatus(in, assay.InsightActive) // evidence alone
	check()
	s.setStatus(in, assay.InsightArchived)
	want = append(want, assay.InsightArchived)
	check()
	newest := s.deliveries(all)[1]
	require.Equal(t, in.UpdatedAt, newest.CreatedAt)
	require.NoError(t, s.MuteInsight(ctx, in.ID, ""))
	check()
	require.NoError(t, s.UnmuteInsight(ctx, in.ID)) // the window has a failure
	want = append(want, assay.InsightActive)
	check()

	// A transaction that fails leaves no delivery.
	in.Status = assay.InsightArchived
	lost := s.SaveScores(ctx, delta.Fence{Lease: "none", Holder: "nobody"}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{in}}})
	require.ErrorIs(t, lost, delta.ErrLeaseLost)
	check()
}

// TestDeliveryOrder requires that a webhook's next delivery follows only when the former has succeeded or is given up.
func (s *suite) TestDeliveryOrder(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	svc := s.seen(org, named("a"), catalog.RES001, true)
	w := s.webhook(org, nil)
	require.Nil(t, s.deliver(assay.DeliveryResult{}))
	in := s.insight(org, svc, catalog.RES001)
	s.setStatus(in, assay.InsightArchived)
	s.setStatus(in, assay.InsightActive)
	events := s.deliveries(w)

	retry := s.clock.now().Add(time.Minute)
	first := s.deliver(assay.DeliveryResult{Status: assay.DeliveryPending, HTTPStatus: 500, Error: "again", RetryAt: retry})
	require.Equal(t, events[0].ID, first.Delivery.ID)
	require.Equal(t, 1, first.Delivery.Attempts)
	require.Equal(t, w.Secret, first.Webhook.Secret)
	require.Nil(t, s.deliver(assay.DeliveryResult{}), "it is not due")
	found := must(s.Webhook(ctx, org, w.ID))(t)
	require.Equal(t, 1, found.Failures)
	require.Equal(t, micro(s.clock.now()), found.FailingSince)
	s.clock.advance(time.Minute)
	second := s.deliver(assay.DeliveryResult{Status: assay.DeliverySucceeded, HTTPStatus: 204})
	require.Equal(t, events[0].ID, second.Delivery.ID)
	require.Equal(t, 2, second.Delivery.Attempts)
	require.Equal(t, 1, second.Webhook.Failures)
	done := s.deliveries(w)[0]
	require.Equal(t, assay.DeliverySucceeded, done.Status)
	require.Equal(t, 204, done.HTTPStatus)
	require.Empty(t, done.Error)
	require.Equal(t, micro(s.clock.now()), done.CompletedAt)

	released := s.deliver(assay.DeliveryResult{Status: assay.DeliveryPending, Skipped: true})
	require.Equal(t, events[1].ID, released.Delivery.ID, "it is due at once")
	third := s.deliver(assay.DeliveryResult{Status: assay.DeliveryFailed, Error: "gone", Skipped: true})
	require.Equal(t, events[1].ID, third.Delivery.ID)
	require.Zero(t, third.Webhook.Failures)
	last := s.deliver(assay.DeliveryResult{Status: assay.DeliveryFailed, Error: "down", Disable: "failed for days"})
	require.Equal(t, events[2].ID, last.Delivery.ID)
	found = must(s.Webhook(ctx, org, w.ID))(t)
	require.False(t, found.Enabled)
	require.Equal(t, "failed for days", found.DisabledReason)
	s.setStatus(in, assay.InsightArchived)
	require.Nil(t, s.deliver(assay.DeliveryResult{}))
	found.Enabled = true
	require.NoError(t, s.UpdateWebhook(ctx, found))
	require.Empty(t, found.DisabledReason)
	require.Zero(t, found.Failures)

	// Disabling a webhook gives up its pending deliveries.
	s.setStatus(in, assay.InsightActive)
	found.Enabled = false
	require.NoError(t, s.UpdateWebhook(ctx, found))
	all := s.deliveries(w)
	require.Equal(t, assay.DeliveryFailed, all[len(all)-1].Status)
	require.Nil(t, s.deliver(assay.DeliveryResult{}))

	// A successful test makes pending deliveries due immediately.
	found.Enabled = true
	require.NoError(t, s.UpdateWebhook(ctx, found))
	s.setStatus(in, assay.InsightArchived)
	require.NotNil(t, s.deliver(assay.DeliveryResult{Status: assay.DeliveryPending, RetryAt: s.clock.now().Add(time.Hour)}))
	test := &assay.WebhookDelivery{
		ID: uuid.NewString(), OrganizationID: org, WebhookID: w.ID, Status: assay.DeliverySucceeded, Attempts: 1, HTTPStatus: 200,
		CreatedAt: micro(s.clock.now()), CompletedAt: micro(s.clock.now()),
	}
	require.NoError(t, s.AddTestDelivery(ctx, test))
	require.Equal(t, test, must(s.WebhookDelivery(ctx, org, w.ID, test.ID))(t))
	require.NotNil(t, s.deliver(assay.DeliveryResult{Status: assay.DeliverySucceeded}))

	// Completed deliveries are kept for a week.
	s.clock.advance(8 * 24 * time.Hour)
	s.setStatus(in, assay.InsightActive)
	require.NoError(t, s.Expire(ctx, s.clock.now(), 0, 0))
	require.Len(t, s.deliveries(w), 1)
	require.NoError(t, s.DeleteWebhook(ctx, org, w.ID))
	require.Zero(t, s.rows()["webhook_deliveries"])
}

// TestDeliveryLeases: another holder takes over when a lease ends, and an organization has a bounded number of leases.
func (s *suite) TestDeliveryLeases(t *testing.T) {
	ctx := s.ctx()
	b := s.handle()
	many, few := s.organization(), s.organization()
	a, c := s.seen(many, named("a"), catalog.RES001, true), s.seen(few, named("a"), catalog.RES001, true)
	for range 3 {
		s.webhook(many, nil)
	}
	s.insight(many, a, catalog.RES001)
	s.webhook(few, nil)
	s.insight(few, c, catalog.RES001)
	claim := func(st Store, holder, want string) *assay.ClaimedDelivery {
		t.Helper()
		got := must(st.ClaimDelivery(ctx, holder, deliveryTTL, 2))(t)
		if want == "" {
			require.Nil(t, got)
			return nil
		}
		require.NotNil(t, got)
		require.Equal(t, want, got.Webhook.OrganizationID)
		return got
	}
	first := claim(s, "A", many)
	claim(b, "B", few)
	claim(b, "B", many)
	claim(s, "A", "")
	s.clock.advance(deliveryTTL)
	var taken *assay.ClaimedDelivery
	for range 4 {
		next := must(b.ClaimDelivery(ctx, "B", deliveryTTL, 10))(t)
		require.NotNil(t, next)
		if next.Webhook.ID == first.Webhook.ID {
			taken = next
		}
	}
	require.Nil(t, must(b.ClaimDelivery(ctx, "B", deliveryTTL, 10))(t))
	require.Equal(t, first.Delivery.ID, taken.Delivery.ID)
	require.Equal(t, 2, taken.Delivery.Attempts)
	done := assay.DeliveryResult{Status: assay.DeliverySucceeded}
	require.ErrorIs(t, s.CompleteDelivery(ctx, "A", &first.Delivery, done), delta.ErrLeaseLost)
	require.NoError(t, s.CompleteDelivery(ctx, "B", &taken.Delivery, done))
	require.ErrorIs(t, s.CompleteDelivery(ctx, "B", &taken.Delivery, done), delta.ErrLeaseLost)
	code(t, assay.CodeInvalid, s.CompleteDelivery(ctx, "B", &taken.Delivery, assay.DeliveryResult{}))
}

// TestDeliveryRace has two handles claim at the same time, while insights change: a webhook has one delivery in flight,
// and all of them in their order.
func (s *suite) TestDeliveryRace(t *testing.T) {
	const webhooks, changes, workers = 3, 20, 4
	org := s.organization()
	svc := s.seen(org, named("a"), catalog.RES001, true)
	hooks := make(map[string]*assay.Webhook)
	for range webhooks {
		w := s.webhook(org, nil)
		hooks[w.ID] = w
	}
	in := s.insight(org, svc, catalog.RES001)
	stores := []Store{s.Store, s.handle()}
	var (
		mu       sync.Mutex
		inFlight = make(map[string]bool)
		order    = make(map[string][]string)
		done     int
	)
	group, ctx := errgroup.WithContext(s.ctx())
	for i := range workers {
		st, holder := stores[i%len(stores)], fmt.Sprint(i)
		group.Go(func() error {
			for {
				mu.Lock()
				all := done == webhooks*(changes+1)
				mu.Unlock()
				if all {
					return nil
				}
				c, err := st.ClaimDelivery(ctx, holder, deliveryTTL, webhooks)
				if err != nil {
					return err
				}
				if c == nil {
					runtime.Gosched()
					continue
				}
				mu.Lock()
				if inFlight[c.Webhook.ID] {
					err = fmt.Errorf("webhook %s has two deliveries in flight", c.Webhook.ID)
				}
				inFlight[c.Webhook.ID] = true
				order[c.Webhook.ID] = append(order[c.Webhook.ID], c.Delivery.ID)
				mu.Unlock()
				if err != nil {
					return err
				}
				runtime.Gosched()
				mu.Lock()
				inFlight[c.Webhook.ID] = false
				done++
				mu.Unlock()
				if err := st.CompleteDelivery(ctx, holder, &c.Delivery, assay.DeliveryResult{Status: assay.DeliverySucceeded}); err != nil {
					return err
				}
			}
		})
	}
	for i := range changes {
		in.Status = []assay.InsightStatus{assay.InsightArchived, assay.InsightActive}[i%2]
		require.NoError(t, s.SaveScores(s.ctx(), delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{in}}}))
	}
	require.NoError(t, group.Wait())
	for id, w := range hooks {
		want := lists.Map(s.deliveries(w), func(d *assay.WebhookDelivery) string { return d.ID })
		require.Equal(t, want, order[id])
	}
}

// TestDeliveryLimits: a full queue gives up its oldest deliveries, and the next claim reports how many.
func (s *suite) TestDeliveryLimits(t *testing.T) {
	org := s.organization()
	w := s.webhook(org, nil)
	// Each transaction changes the insights of many services.
	const services, beyond = 500, 3
	d := new(delta.Delta)
	for i := range services {
		d.Organization(org).Service(named(fmt.Sprint(i))).Seen(uint64(epoch.UnixNano()))
	}
	s.commit(d)
	status := assay.InsightActive
	change := func(n int) {
		t.Helper()
		s.clock.advance(time.Minute)
		var results []delta.Result
		for i := range n {
			svc := delta.ServiceID(org, named(fmt.Sprint(i)))
			in := newInsight(org, svc, catalog.RES001)
			in.Status, in.UpdatedAt = status, micro(s.clock.now())
			results = append(results, delta.Result{ServiceID: svc, Insights: []*assay.Insight{in}})
		}
		require.NoError(t, s.SaveScores(s.ctx(), delta.Fence{}, org, results))
		status = map[assay.InsightStatus]assay.InsightStatus{assay.InsightActive: assay.InsightArchived, assay.InsightArchived: assay.InsightActive}[status]
	}
	for range assay.MaxPendingDeliveries / services {
		change(services)
	}
	change(beyond)
	all := s.deliveries(w)
	require.Len(t, all, assay.MaxPendingDeliveries+beyond)
	for i, d := range all {
		require.Equal(t, i < beyond, d.Status == assay.DeliveryFailed, i)
	}
	c := s.deliver(assay.DeliveryResult{Status: assay.DeliverySucceeded})
	require.Equal(t, beyond, c.Evicted)
	require.Equal(t, all[beyond].ID, c.Delivery.ID)
	require.Zero(t, s.deliver(assay.DeliveryResult{Status: assay.DeliverySucceeded}).Evicted)

	for range assay.MaxDeliveries/services + 1 {
		change(services)
	}
	require.Len(t, s.deliveries(w), assay.MaxDeliveries)
}
