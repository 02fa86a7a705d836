// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/auth"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/fresh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a manager with a worker on a store, and an insight of an organization.
type world struct {
	*Worker
	t       *testing.T
	store   *sqlite.Store
	now     time.Time
	org     string
	insight *assay.Insight
	mu      sync.Mutex
	events  []Event // guarded by mu while Run runs: attempts are observed side by side
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	w := &world{t: t, now: time.Now().UTC().Truncate(time.Microsecond)}
	clock := func() time.Time { return w.now }
	var err error
	w.store, err = sqlite.Open(t.Context(), sqlite.Config{Path: fresh.Path(t), Now: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	w.insight = newOrganization(t, w.store, w.now, "o")
	w.org = w.insight.OrganizationID
	cfg := Config{
		Store: w.store, Insights: w.store, Secret: auth.Secret(strings.Repeat("s", 32)), PrivateHosts: true, UserAgent: "assay/test",
		Render: func(i *assay.Insight) ([]byte, error) {
			return json.Marshal(map[string]any{"id": i.ID, "status": i.Status})
		},
		Observe: func(e Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, Event{Outcome: e.Outcome, Count: e.Count})
		},
		Now: clock, Jitter: func() float64 { return 0 },
	}
	for _, c := range change {
		c(&cfg)
	}
	m, err := NewManager(cfg)
	require.NoError(t, err)
	w.Worker = NewWorker(m)
	return w
}

// newOrganization creates an organization with a service and returns an insight of it, which is not stored.
func newOrganization(t *testing.T, store *sqlite.Store, now time.Time, name string) *assay.Insight {
	t.Helper()
	o := &assay.Organization{Name: name, Tier: assay.TierFree}
	require.NoError(t, store.CreateOrganization(t.Context(), o))
	k := assay.ServiceKey{Name: "checkout"}
	d := new(delta.Delta)
	d.Organization(o.ID).Service(k).Seen(uint64(now.UnixNano()))
	require.NoError(t, store.Commit(t.Context(), now, nil, func([]bool) *delta.Delta { return d }))
	svc, kind := delta.ServiceID(o.ID, k), catalog.RES001.Info().Name
	return &assay.Insight{
		ID: delta.InsightID(svc, kind), OrganizationID: o.ID, Service: assay.Service{ID: svc}, Type: kind,
		TelemetryAt: now, DetectedAt: now, CreatedAt: now, Attributes: map[string]any{"violations_total": int64(1)},
	}
}

// save stores an insight with a status.
func save(t *testing.T, store *sqlite.Store, now time.Time, i *assay.Insight, s assay.InsightStatus) {
	t.Helper()
	i.Status, i.UpdatedAt = s, now
	require.NoError(t, store.SaveScores(t.Context(), delta.Fence{}, i.OrganizationID, []delta.Result{{ServiceID: i.Service.ID, Insights: []*assay.Insight{i}}}))
}

// create creates a webhook and returns it with its secret.
func (w *world) create(url string) (*assay.Webhook, string) {
	w.t.Helper()
	h := &assay.Webhook{OrganizationID: w.org, Name: "hook", URL: url, Enabled: true, MinSeverity: assay.ImpactLow}
	secret, err := w.Create(w.t.Context(), h)
	require.NoError(w.t, err)
	return h, secret
}

func (w *world) set(s assay.InsightStatus) {
	w.t.Helper()
	save(w.t, w.store, w.now, w.insight, s)
}

// step makes the next attempt and reports whether one was due.
func (w *world) step() bool {
	w.t.Helper()
	c, err := w.claim(w.t.Context())
	require.NoError(w.t, err)
	if c != nil {
		w.deliver(w.t.Context(), c)
	}
	return c != nil
}

func (w *world) deliveries(h *assay.Webhook) []*assay.WebhookDelivery {
	w.t.Helper()
	all, _, err := w.Deliveries(w.t.Context(), w.org, h.ID, assay.Page{Limit: 100})
	require.NoError(w.t, err)
	return all
}

// received is a request that a target has received.
type received struct {
	header http.Header
	body   []byte
}

// target is a server that records requests. A handler may outlive the attempt that it answers, so respond and received lock.
type target struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
	answer   http.HandlerFunc
}

func newTarget(t *testing.T) *target {
	s := &target{answer: func(http.ResponseWriter, *http.Request) {}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, received{r.Header, body})
		answer := s.answer
		s.mu.Unlock()
		answer(rw, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// respond replaces what answers the next requests.
func (s *target) respond(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = h
}

// received returns the requests so far.
func (s *target) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func status(code int) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
}

// TestStandardWebhooks verifies deliveries with the library of the specification.
func TestStandardWebhooks(t *testing.T) {
	w, s := newWorld(t), newTarget(t)
	h, secret := w.create(s.URL + "/hook?a=b")
	require.True(t, strings.HasPrefix(secret, "whsec_"))
	require.NotContains(t, string(h.Secret), secret)
	verify, err := standard.NewWebhook(secret)
	require.NoError(t, err)
	w.set(assay.InsightActive)
	w.set(assay.InsightArchived)
	require.True(t, w.step())
	require.True(t, w.step())
	require.False(t, w.step())
	test, err := w.Test(t.Context(), w.org, h.ID)
	require.NoError(t, err)
	require.Equal(t, assay.DeliverySucceeded, test.Status)
	require.Len(t, s.received(), 3)
	for i, want := range []struct{ event, status string }{{eventActive, "active"}, {eventArchived, "archived"}, {eventTest, ""}} {
		r := s.received()[i]
		require.NoError(t, verify.Verify(r.body, r.header))
		require.Error(t, verify.Verify(append(r.body, ' '), r.header))
		var got struct {
			Type      string
			Timestamp time.Time
			Data      struct{ ID, Status string }
		}
		require.NoError(t, json.Unmarshal(r.body, &got))
		require.Equal(t, want.event, got.Type)
		require.Equal(t, w.now, got.Timestamp)
		require.Equal(t, want.status, got.Data.Status)
		require.Equal(t, "application/json", r.header.Get("Content-Type"))
		require.Equal(t, w.deliveries(h)[2-i].IdempotencyKey(), r.header.Get("Webhook-Id"))
	}
	require.Equal(t, []Event{{Outcome: Succeeded, Count: 1}, {Outcome: Succeeded, Count: 1}}, w.events)
}

// TestRetries: an attempt that fails is repeated with backoff and the same id, before the next delivery, for a day.
func TestRetries(t *testing.T) {
	w, s := newWorld(t), newTarget(t)
	h, _ := w.create(s.URL)
	s.respond(status(500))
	w.set(assay.InsightActive)
	w.set(assay.InsightArchived)
	for began, failures := w.now, 0; w.now.Sub(began) < giveUpAfter; failures++ {
		require.True(t, w.step())
		w.now = w.now.Add(backoff(failures, 0, 0) - time.Microsecond)
		require.False(t, w.step())
		w.now = w.now.Add(time.Microsecond)
	}
	ids := map[string]bool{}
	for _, r := range s.received() {
		ids[r.header.Get("Webhook-Id")] = true
	}
	require.Len(t, ids, 1, "the next delivery waits")
	require.True(t, w.step())
	all := w.deliveries(h)
	require.Equal(t, assay.DeliveryFailed, all[1].Status)
	require.Equal(t, 500, all[1].HTTPStatus)
	require.Equal(t, "the target answered with status 500", all[1].Error)
	require.Equal(t, assay.DeliveryPending, all[0].Status)

	s.respond(status(204))
	w.now = w.now.Add(maxBackoff)
	require.True(t, w.step())
	require.Equal(t, assay.DeliverySucceeded, w.deliveries(h)[0].Status)
	require.Contains(t, w.events, Event{Outcome: GivenUp, Count: 1})
}

// TestDisable: a webhook is disabled after days of failures, and at once by status 410.
func TestDisable(t *testing.T) {
	w, s := newWorld(t), newTarget(t)
	s.respond(status(503))
	h, _ := w.create(s.URL)
	for began := w.now; w.now.Sub(began) <= disableAfter; w.now = w.now.Add(2 * time.Hour) {
		next := map[assay.InsightStatus]assay.InsightStatus{assay.InsightActive: assay.InsightArchived}[w.insight.Status]
		if next == "" {
			next = assay.InsightActive
		}
		w.set(next)
		require.True(t, w.step())
	}
	found, err := w.Find(t.Context(), w.org, h.ID)
	require.NoError(t, err)
	require.False(t, found.Enabled)
	require.Contains(t, found.DisabledReason, "the target answered with status 503")
	require.False(t, w.step())

	found.Enabled = true
	require.NoError(t, w.Update(t.Context(), found))
	s.respond(status(410))
	w.set(assay.InsightActive)
	w.set(assay.InsightArchived)
	require.True(t, w.step())
	found, err = w.Find(t.Context(), w.org, h.ID)
	require.NoError(t, err)
	require.Equal(t, "the target answered with status 410", found.DisabledReason)
	for _, d := range w.deliveries(h) {
		require.Equal(t, assay.DeliveryFailed, d.Status)
	}
}

// TestHostileTargets: no response of a target leaves more than a short message.
func TestHostileTargets(t *testing.T) {
	w, s := newWorld(t), newTarget(t)
	other := newTarget(t)
	h, _ := w.create(s.URL)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
		}, "redirects are not followed"},
		"long body": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(400)
			_, _ = rw.Write([]byte(strings.Repeat("secret", 1<<20)))
		}, "the target answered with status 400"},
		"long header": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X", strings.Repeat("secret", maxHeader))
		}, "the connection to the target failed"},
		"no response": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "the connection to the target failed"},
	} {
		s.respond(c.answer)
		d, err := w.Test(t.Context(), w.org, h.ID)
		require.NoError(t, err, name)
		require.Equal(t, assay.DeliveryFailed, d.Status, name)
		require.Contains(t, d.Error, c.want, name)
		require.NotContains(t, d.Error, "secret")
		require.NotContains(t, d.Error, "127.0.0.1")
	}
	require.Empty(t, other.received())

	closed := newTarget(t)
	closed.Close()
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	for url, want := range map[string]string{
		closed.URL: "the connection to the target failed",
		tls.URL:    "the certificate of the target is not valid",
		strings.Replace(s.URL, "http", "https", 1): "the target does not speak TLS",
	} {
		h, _ := w.create(url)
		d, err := w.Test(t.Context(), w.org, h.ID)
		require.NoError(t, err)
		require.Contains(t, d.Error, want, url)
	}
}

// TestPrivateTargets: without the operator's permission no request reaches an address that is not public.
func TestPrivateTargets(t *testing.T) {
	w, s := newWorld(t, func(c *Config) { c.PrivateHosts = false }), newTarget(t)
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	h, _ := w.create("https://localhost" + port)
	d, err := w.Test(t.Context(), w.org, h.ID)
	require.NoError(t, err)
	require.Contains(t, d.Error, "not public")
	require.Equal(t, d.Error, describe(t.Context(), &net.DNSError{Name: "intranet", Server: "10.0.0.1", IsNotFound: true}),
		"names of private networks are not revealed")
	require.Empty(t, s.received())
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25eth0]", "169.254.169.254", "10.0.0.1"} {
		h.URL = "https://" + host + port
		require.ErrorContains(t, w.Update(t.Context(), h), "must not be a private address", host)
	}
	for _, url := range []string{"", "x", "http://example.com", "ftp://example.com", "https://", "https://u:p@example.com", "https://example.com/#x", "https://example.com/ x", "https://" + strings.Repeat("x", assay.MaxWebhookURL)} {
		_, err := w.Create(t.Context(), &assay.Webhook{OrganizationID: w.org, Name: "x", URL: url, MinSeverity: assay.ImpactLow})
		require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err), url)
	}
}

func TestCreateChecks(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Secret = "" })
	_, err := w.Create(t.Context(), &assay.Webhook{
		OrganizationID: w.org, Name: "a\u202eb", URL: "x", MinSeverity: "x", EventTypes: []string{"x"}, Environments: []string{"\x00"},
	})
	var e *assay.Error
	require.ErrorAs(t, err, &e)
	require.Len(t, e.Details, 5)
	_, err = w.Create(t.Context(), &assay.Webhook{OrganizationID: w.org, Name: "x", URL: "https://example.com", MinSeverity: assay.ImpactLow})
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "there is no secret key")
}

// TestRun starts the worker, stops it during an attempt, and has another process continue.
func TestRun(t *testing.T) {
	w, s := newWorld(t), newTarget(t)
	h, _ := w.create(s.URL)
	w.set(assay.InsightActive)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s.respond(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	w.Run(ctx)
	close(release)
	require.Equal(t, assay.DeliveryPending, w.deliveries(h)[0].Status)
	require.Empty(t, w.events)
	found, err := w.Find(t.Context(), w.org, h.ID)
	require.NoError(t, err)
	require.Zero(t, found.Failures, "an interrupted attempt is no failure of the target")
	s.respond(status(200))

	// The lease is released. A process that was suspended until the end of its lease sends nothing.
	late, err := w.claim(t.Context())
	require.NoError(t, err)
	late.ends = time.Now()
	w.deliver(t.Context(), late)
	require.Len(t, s.received(), 1)
	require.False(t, w.step(), "the lease lasts")
	w.now = w.now.Add(leaseTime)
	require.True(t, w.step())
	require.Equal(t, assay.DeliverySucceeded, w.deliveries(h)[0].Status)
	require.Len(t, s.received(), 2)
	require.Equal(t, s.received()[0].header.Get("Webhook-Id"), s.received()[1].header.Get("Webhook-Id"))
	require.Equal(t, s.received()[0].body, s.received()[1].body)
}

// TestNoSecret: a worker without a secret claims no delivery.
func TestNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewManager(Config{}) // a claim would use the store
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go NewWorker(m).Run(ctx)
		synctest.Wait()
		stop()
	})
}

// TestStopAfterResponse: the result of an attempt that was answered before the worker stopped is saved.
func TestStopAfterResponse(t *testing.T) {
	w, s := newWorld(t), newTarget(t)
	h, _ := w.create(s.URL)
	w.set(assay.InsightActive)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := w.claim(ctx)
	require.NoError(t, err)
	w.cfg.Store = stopping{w.store, cancel}
	w.deliver(ctx, c)
	require.Equal(t, assay.DeliverySucceeded, w.deliveries(h)[0].Status)
	require.Len(t, w.events, 1)
	require.Len(t, s.received(), 1)
}

// stopping is a store during whose CompleteDelivery the worker is stopped.
type stopping struct {
	assay.WebhookStore
	stop context.CancelFunc
}

func (s stopping) CompleteDelivery(ctx context.Context, holder string, d *assay.WebhookDelivery, r assay.DeliveryResult) error {
	s.stop()
	return s.WebhookStore.CompleteDelivery(ctx, holder, d, r)
}

// deliverBeside runs the worker until it has delivered an insight to a target while n attempts wait. It then stops the
// worker and returns a channel that is closed when the worker has ended, which it does when the attempts have.
func (w *world) deliverBeside(n int, waiting <-chan struct{}, in *assay.Insight, to *target) (done <-chan struct{}) {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	answered, ended := make(chan struct{}), make(chan struct{})
	to.respond(func(http.ResponseWriter, *http.Request) { close(answered) })
	go func() {
		w.Run(ctx)
		close(ended)
	}()
	for range n {
		<-waiting
	}
	save(w.t, w.store, w.now, in, assay.InsightActive)
	<-answered
	return ended
}

// TestSlowTargets: targets that do not answer keep an organization's attempts, and delay those of no other one.
func TestSlowTargets(t *testing.T) {
	w, slow, fast := newWorld(t), newTarget(t), newTarget(t)
	release, waiting := make(chan struct{}), make(chan struct{}, slots)
	slow.respond(func(http.ResponseWriter, *http.Request) {
		waiting <- struct{}{}
		<-release
	})
	for range assay.MaxWebhooks {
		w.create(slow.URL)
	}
	w.set(assay.InsightActive)
	other := newOrganization(t, w.store, w.now, "other")
	_, err := w.Create(t.Context(), &assay.Webhook{OrganizationID: other.OrganizationID, Name: "hook", URL: fast.URL, Enabled: true, MinSeverity: assay.ImpactLow})
	require.NoError(t, err)
	done := w.deliverBeside(perOrganization, waiting, other, fast)
	close(release)
	<-done
}

// TestManySlowTargets: many organizations with targets that do not answer leave slots to one without an attempt.
func TestManySlowTargets(t *testing.T) {
	w, slow, fast := newWorld(t), newTarget(t), newTarget(t)
	release, waiting := make(chan struct{}), make(chan struct{}, slots)
	slow.respond(func(http.ResponseWriter, *http.Request) {
		waiting <- struct{}{}
		<-release
	})
	hook := func(organization, url string) {
		_, err := w.Create(t.Context(), &assay.Webhook{OrganizationID: organization, Name: "hook", URL: url, Enabled: true, MinSeverity: assay.ImpactLow})
		require.NoError(t, err)
	}
	const hostile = slots / perOrganization
	for i := range hostile {
		o := newOrganization(t, w.store, w.now, "hostile "+strconv.Itoa(i))
		for range perOrganization {
			hook(o.OrganizationID, slow.URL)
		}
		save(t, w.store, w.now, o, assay.InsightActive)
	}
	other := newOrganization(t, w.store, w.now, "other")
	hook(other.OrganizationID, fast.URL)
	done := w.deliverBeside(sharedSlots, waiting, other, fast)
	close(release)
	<-done
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		failures   int
		retryAfter time.Duration
		jitter     float64
		want       time.Duration
	}{
		{0, 0, 0, firstBackoff / 2},
		{0, 0, 1, firstBackoff},
		{3, 0, 1, 40 * time.Second},
		{10, 0, 1, maxBackoff},
		{1 << 40, 0, 0.5, maxBackoff * 3 / 4},
		{0, time.Minute, 0, time.Minute},
		{0, 100 * time.Hour, 0, maxBackoff},
	} {
		require.Equal(t, c.want, backoff(c.failures, c.retryAfter, c.jitter))
	}
}
