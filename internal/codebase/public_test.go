// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"assay"
	"assay/internal/codebase/source"
)

// Authorize implements Sources.
func (f *fakeSources) Authorize(ctx context.Context, kind string, g source.Grant, callback string) (*source.Connection, error) {
	if callback != "https://agent.example.com/onboarding/callback/"+kind {
		return nil, fmt.Errorf("callback %s", callback)
	}
	if f.busy {
		return nil, assay.Errorf(assay.CodeRateLimited, "too many sources are being connected; try again later")
	}
	if err := g.Take(ctx); err != nil {
		return nil, err
	}
	return f.authorize(kind, g)
}

// Event implements Sources, unless the test has no event.
func (f *fakeSources) Event(kind string, header http.Header, body []byte) (*source.Event, error) {
	if f.event == nil {
		return f.Sources.Event(kind, header, body)
	}
	return f.event(kind, body)
}

// Lost implements Sources.
func (f *fakeSources) Lost(ctx context.Context, i *assay.Installation) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= ownerWait && f.lost == i.OrganizationID
}

// visit requests a public path and returns status and body.
func (w *world) visit(method, target string, form url.Values) (int, string) {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	rec := httptest.NewRecorder()
	w.public.ServeHTTP(rec, r)
	require.Equal(w.t, "no-store", rec.Header().Get("Cache-Control"))
	require.Equal(w.t, "no-referrer", rec.Header().Get("Referrer-Policy"))
	return rec.Code, rec.Body.String()
}

// stateOf returns the state of a new session.
func stateOf(c *client, kind string) string { return stateFor(c, kind, false) }

// stateFor is stateOf for a session with or without write access.
func stateFor(c *client, kind string, write bool) string {
	d := get[sessionData](c, "POST /onboarding/session", fmt.Sprintf(`{"kind":%q,"write":%t}`, kind, write))
	u, err := url.Parse(d.URL)
	require.NoError(c.t, err)
	require.Equal(c.t, kind+".example.com", u.Host)
	state := u.Query().Get("state")
	require.True(c.t, strings.HasPrefix(state, d.ID+"."))
	return state
}

func connectionOf(kind string, names ...string) *source.Connection {
	c := &source.Connection{Provider: kind, ExternalID: "7", Account: kind + ".example.com/mona", OwnerID: 7, Credential: source.Credential{Token: "forge-token", RefreshToken: "forge-refresh"}}
	for _, name := range names {
		c.Repositories = append(c.Repositories, &assay.Repository{FullName: name, URL: "https://" + kind + ".example.com/" + name + ".git", DefaultBranch: "main", Access: "granted"})
	}
	return c
}

func newForgeWorld(t *testing.T) *world {
	w := newWorldWith(t, Config{PublicURL: "https://agent.example.com", RepositoriesURL: issuer + "/repositories", SessionsPerMinute: 100},
		source.KindGitLab, source.KindGitea)
	w.sources.authorize = func(kind string, g source.Grant) (*source.Connection, error) {
		if g.Code != "good" || len(g.Verifier) < 43 {
			return nil, assay.Errorf(assay.CodeUnprocessable, "the source host rejected the authorization")
		}
		return connectionOf(kind, "acme/shop", "acme/cart"), nil
	}
	return w
}

func TestCallback(t *testing.T) {
	w := newForgeWorld(t)
	user := w.as(w.acme, credentialUser)
	require.Equal(t, []string{"gitlab", "gitea", "git", "local"}, get[onboardingData](user, "GET /onboarding/status", "").Kinds)
	first, err := url.Parse(get[sessionData](user, "POST /onboarding/session", "").URL)
	require.NoError(t, err)
	require.Equal(t, "gitlab.example.com", first.Host)
	require.Contains(t, get[sessionData](user, "POST /onboarding/session", `{"kind":"git"}`).URL, issuer+"/repositories/connect?session=")
	for _, kind := range []string{"github", "x", ""} {
		require.Equal(t, http.StatusUnprocessableEntity, user.do("POST /onboarding/session", fmt.Sprintf(`{"kind":%q}`, kind)).status)
	}

	state := stateOf(user, "gitea")
	at := "/onboarding/callback/gitea"
	query := func(state, code string) url.Values { return url.Values{"state": {state}, "code": {code}} }
	for range 2 {
		status, page := w.visit("GET", at+"?"+query(state, `good"><b>`).Encode(), nil)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, page, "<strong>acme</strong>")
		require.Contains(t, page, `value="good&#34;&gt;&lt;b&gt;"`)
	}
	for _, c := range []struct {
		kind, want string
		write      bool
	}{
		{"gitea", "will be able to read the repositories that you have authorized. ", false},
		{"gitea", "will be able to read the repositories that you have authorized, push branches to them and open pull requests. ", true},
		{"gitlab", "will be able to read the repositories that you have authorized, push branches to them and open merge requests. ", true},
	} {
		_, page := w.visit("GET", "/onboarding/callback/"+c.kind+"?"+query(stateFor(user, c.kind, c.write), "good").Encode(), nil)
		require.Contains(t, page, c.want, c.kind)
	}
	require.Empty(t, get[onboardingData](user, "GET /onboarding/status", "").Installations, "opening the page connects nothing")

	// States of another kind, unknown and forged ones, and incomplete requests.
	for target, want := range map[string]int{
		"/onboarding/callback/gitlab?" + query(state, "good").Encode(): 403,
		at + "?" + query(state+"x", "good").Encode():                   403,
		at + "?" + query("", "good").Encode():                          400,
		at + "?" + query(state, "").Encode():                           400,
		at + "?error=access_denied&error_description=<b>":              400,
		at + "?" + query(state, strings.Repeat("x", 3000)).Encode():    400,
		at + "?state=" + state + "&state=" + state + "&code=good":      400,
		at + "?setup_action=request&state=" + state:                    409,
		"/onboarding/callback/github?" + query(state, "good").Encode(): 404,
		"/onboarding/callback/git?" + query(state, "good").Encode():    404,
		"/onboarding/callback/":                                        404,
		"/onboarding/status":                                           404,
		"/repositories":                                                404,
	} {
		status, page := w.visit("GET", target, nil)
		require.Equal(t, want, status, target)
		require.NotContains(t, page, "acme")
		require.NotContains(t, page, "<b>")
	}
	status, _ := w.visit("DELETE", at, nil)
	require.Equal(t, http.StatusMethodNotAllowed, status)

	w.sources.busy = true
	status, page := w.visit("POST", at, query(state, "good"))
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, page, "too many sources")
	w.sources.busy = false
	status, page = w.visit("POST", at, query(state, "good"))
	require.Equal(t, http.StatusOK, status, "the state is still valid")
	require.Contains(t, page, issuer+"/repositories")
	status, _ = w.visit("POST", at, query(state, "good"))
	require.Equal(t, http.StatusForbidden, status, "a state is valid once")
	all := get[installationPage](user, "GET /repositories", "").Data
	require.Len(t, all, 1)
	require.Equal(t, "gitea", all[0].Provider)
	require.Len(t, all[0].Repos, 2)
	require.False(t, all[0].Repos[0].Active)
	stored, err := w.store.Installations(t.Context(), w.acme)
	require.NoError(t, err)
	require.NotContains(t, string(stored[0].Credential), "forge-")
	require.EqualValues(t, 7, stored[0].OwnerID)
	opened, err := w.sources.Open(stored[0])
	require.NoError(t, err)
	require.Equal(t, "forge-refresh", opened.RefreshToken)
	require.NotContains(t, w.log.String(), "good")
	require.NotContains(t, w.log.String(), state)

	// The same account replaces its installation; a repository that is missing now stays without access.
	w.sources.authorize = func(kind string, _ source.Grant) (*source.Connection, error) {
		return connectionOf(kind, "acme/shop"), nil
	}
	status, _ = w.visit("POST", at, query(stateOf(user, "gitea"), "good"))
	require.Equal(t, http.StatusOK, status)
	all = get[installationPage](user, "GET /repositories", "").Data
	require.Len(t, all, 1)
	access := map[string]string{}
	for _, r := range all[0].Repos {
		access[r.FullName] = r.Access
	}
	require.Equal(t, map[string]string{"acme/shop": "granted", "acme/cart": "denied"}, access)

	// A failed authorization uses the state up, too. Expired states are void.
	w.sources.authorize = func(string, source.Grant) (*source.Connection, error) {
		return nil, assay.Errorf(assay.CodeForbidden, "only the owner can connect this")
	}
	state = stateOf(user, "gitlab")
	status, page = w.visit("POST", "/onboarding/callback/gitlab", query(state, "good"))
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, page, "only the owner")
	status, _ = w.visit("GET", "/onboarding/callback/gitlab?"+query(state, "good").Encode(), nil)
	require.Equal(t, http.StatusForbidden, status)
	state = stateOf(user, "gitlab")
	w.clock.move(sessionLife)
	status, _ = w.visit("GET", "/onboarding/callback/gitlab?"+query(state, "good").Encode(), nil)
	require.Equal(t, http.StatusForbidden, status)
	require.Empty(t, get[installationPage](w.as(w.other, credentialUser), "GET /repositories", "").Data)
}

type installationPage = page[installationData]

// TestCallbackTurns: states that are not valid, which any client can make up, do not take turns at the store with other
// work.
func TestCallbackTurns(t *testing.T) {
	w := newForgeWorld(t)
	values := url.Values{"state": {"made-up"}, "code": {"good"}}
	w.visit("GET", "/onboarding/callback/gitea?"+values.Encode(), nil)
	w.visit("POST", "/onboarding/callback/gitea", values)
	values.Set("state", stateOf(w.as(w.acme, credentialUser), "gitea"))
	w.visit("POST", "/onboarding/callback/gitea", values)
	require.Equal(t, []string{assay.Anonymous, assay.Anonymous, assay.Anonymous, w.acme}, w.store.seen)
}

// TestCallbackRace has one of many requests use a state.
func TestCallbackRace(t *testing.T) {
	w := newForgeWorld(t)
	var authorized atomic.Int64
	w.sources.authorize = func(kind string, _ source.Grant) (*source.Connection, error) {
		authorized.Add(1)
		return connectionOf(kind, "acme/shop"), nil
	}
	state := stateOf(w.as(w.acme, credentialUser), "gitea")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := httptest.NewRequest("POST", "/onboarding/callback/gitea", strings.NewReader(url.Values{"state": {state}, "code": {"good"}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w.public.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	all.Wait()
	require.EqualValues(t, 1, authorized.Load())
}

// hook sends a webhook.
func (w *world) hook(kind, body string, header ...string) (int, webhookData) {
	r := httptest.NewRequest("POST", "/webhooks/"+kind, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	w.public.ServeHTTP(rec, r)
	var answer struct {
		Data webhookData `json:"data"`
	}
	require.NoError(w.t, json.Unmarshal(rec.Body.Bytes(), &answer), rec.Body.String())
	return rec.Code, answer.Data
}

func TestWebhooks(t *testing.T) {
	w := newForgeWorld(t)
	user := w.as(w.acme, credentialUser)
	w.visit("POST", "/onboarding/callback/gitlab", url.Values{"state": {stateOf(user, "gitlab")}, "code": {"good"}})
	repositories := get[installationPage](user, "GET /repositories", "").Data[0].Repos
	for _, r := range repositories {
		if r.FullName == "acme/shop" {
			get[activation](user, "PATCH /repositories/"+r.ID, `{"is_active":true}`)
		}
	}
	// Another organization has a repository of this name as kind git: it is another one.
	w.as(w.other, credentialUser).activate("https://gitlab.example.com/acme/shop")

	commit := func(n int) string { return fmt.Sprintf("%040x", n) }
	push := func(name, ref, commit string) string {
		return fmt.Sprintf(`{"object_kind":"push","ref":%q,"after":%q,"project":{"path_with_namespace":%q,"default_branch":"main"}}`, ref, commit, name)
	}
	token := []string{"X-Gitlab-Token", "hook-secret"}
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		want       webhookData
	}{
		{"no signature", push("acme/shop", "refs/heads/main", commit(1)), nil, 401, webhookData{}},
		{"other signature", push("acme/shop", "refs/heads/main", commit(1)), []string{"X-Gitlab-Token", "x"}, 401, webhookData{}},
		{"no JSON", "x", token, 400, webhookData{}},
		{"too large", `"` + strings.Repeat("x", maxWebhook) + `"`, token, 413, webhookData{}},
		{"another branch", push("acme/shop", "refs/heads/feature", commit(1)), token, 200, webhookData{"handled", 0}},
		{"a tag", push("acme/shop", "refs/tags/main", commit(1)), token, 200, webhookData{"handled", 0}},
		{"an inactive repository", push("acme/cart", "refs/heads/main", commit(1)), token, 200, webhookData{"handled", 0}},
		{"an unknown repository", push("acme/none", "refs/heads/main", commit(1)), token, 200, webhookData{"handled", 0}},
		{"another event", `{"object_kind":"issue"}`, token, 200, webhookData{"ignored", 0}},
		{"a push", push("acme/shop", "refs/heads/main", commit(1)), token, 200, webhookData{"handled", 1}},
		{"a replay", push("acme/shop", "refs/heads/main", commit(1)), token, 200, webhookData{"repeated", 0}},
		{"a push while a review is pending", push("acme/shop", "refs/heads/main", commit(2)), token, 200, webhookData{"handled", 0}},
	} {
		status, got := w.hook("gitlab", c.body, c.header...)
		require.Equal(t, c.status, status, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	runs := get[page[runData]](user, "GET /executions", "").Data
	require.Len(t, runs, 1)
	require.Equal(t, assay.TriggerPush, runs[0].Trigger)
	require.Nil(t, runs[0].Ref)
	require.Empty(t, get[page[runData]](w.as(w.other, credentialUser), "GET /executions", "").Data)

	// The commit that was reviewed needs no other review, however often its push is sent.
	r, err := w.store.ClaimRun(t.Context(), "worker", 10*time.Second)
	require.NoError(t, err)
	repo, err := w.store.Repository(t.Context(), w.acme, r.RepositoryID)
	require.NoError(t, err)
	repo.ReviewedCommit, r.Commit = commit(3), commit(3)
	require.NoError(t, w.store.SaveReview(t.Context(), "worker", r, repo, nil))
	r.Status = assay.RunCompleted
	require.NoError(t, w.store.UpdateRun(t.Context(), "worker", r, nil))
	status, got := w.hook("gitlab", push("acme/shop", "refs/heads/main", commit(3)), token...)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, webhookData{"handled", 0}, got)

	for _, path := range []string{"github", "git", "", "gitlab/x"} {
		status, _ := w.hook(path, "{}", token...)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	code, _ := w.visit("GET", "/webhooks/gitlab", nil)
	require.Equal(t, http.StatusMethodNotAllowed, code)
	require.NotContains(t, w.log.String(), "hook-secret")
}

// TestPublicTraceID: every response in JSON to a request without a token has the trace id of the request.
func TestPublicTraceID(t *testing.T) {
	w := newForgeWorld(t)
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceID, err := trace.TraceIDFromHex(id)
	require.NoError(t, err)
	inTrace := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID}))
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/onboarding/callback/nope", 404},
		{"DELETE", "/webhooks/github", 404},
		{"POST", "/webhooks/github", 404},
		{"GET", "/webhooks/gitlab", 405},
		{"POST", "/webhooks/gitlab", 401},
	} {
		for ctx, want := range map[context.Context]string{t.Context(): "^[0-9a-f]{32}$", inTrace: "^" + id + "$"} {
			rec := httptest.NewRecorder()
			w.public.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, c.method, c.target, strings.NewReader("{}")))
			require.Equal(t, c.status, rec.Code, c.target)
			var answer struct{ Meta meta }
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &answer), c.target)
			require.Regexp(t, want, answer.Meta.TraceID, c.target)
		}
	}
}

// TestSlowWebhooks: senders whose bodies do not end leave room for others, also if they have many addresses.
func TestSlowWebhooks(t *testing.T) {
	w := newForgeWorld(t)
	var slow sync.WaitGroup
	defer slow.Wait()
	end := make(chan struct{})
	defer close(end)
	send := func(address string, body io.Reader) int {
		r := httptest.NewRequest("POST", "/webhooks/gitlab", body)
		r.RemoteAddr = address
		r.Header.Set("X-Gitlab-Token", "hook-secret")
		rec := httptest.NewRecorder()
		w.public.ServeHTTP(rec, r)
		return rec.Code
	}
	events := 0
	event := func(address string) int {
		events++
		return send(address, strings.NewReader(fmt.Sprintf(`{"object_kind":"issue","n":%d}`, events)))
	}
	sendSlowly := func(address string, size int) {
		reading := make(chan struct{}, 1)
		slow.Go(func() {
			send(address, io.MultiReader(strings.NewReader(strings.Repeat("x", size)), &slowBody{reading, end}))
		})
		<-reading
	}
	const proxy = "203.0.113.1:1"
	for range 2 * maxBodies / maxWebhook {
		sendSlowly(proxy, 100)
	}
	require.Equal(t, http.StatusOK, event(proxy), "bodies that have not arrived")
	for n := range maxBodies / maxWebhook {
		sendSlowly(fmt.Sprintf("203.0.113.%d:1", 2+n), maxWebhook-1000)
	}
	require.Equal(t, http.StatusOK, event("[2001:db8::1]:1"), "an address within its share")
	require.Equal(t, http.StatusServiceUnavailable, send("203.0.113.2:1", strings.NewReader(strings.Repeat("x", maxWebhook))))
}

// slowBody is a body that ends when end is closed. It notes that it is read.
type slowBody struct {
	reading chan<- struct{}
	end     <-chan struct{}
}

func (b *slowBody) Read([]byte) (int, error) {
	select {
	case b.reading <- struct{}{}:
	default:
	}
	<-b.end
	return 0, io.EOF
}

// TestInstallationEvents follows an installation that the source host changes, in both organizations that have it.
func TestInstallationEvents(t *testing.T) {
	w := newForgeWorld(t)
	for _, organization := range []string{w.acme, w.other} {
		w.visit("POST", "/onboarding/callback/gitea", url.Values{"state": {stateOf(w.as(organization, credentialUser), "gitea")}, "code": {"good"}})
	}
	var event *source.Event
	w.sources.event = func(string, []byte) (*source.Event, error) { return event, nil }
	n := 0
	send := func(e *source.Event) {
		t.Helper()
		n++
		event = e
		status, got := w.hook("gitea", fmt.Sprint(n))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "handled", got.Status)
	}
	state := func(organization string) (string, map[string]string) {
		t.Helper()
		all := get[installationPage](w.as(organization, credentialUser), "GET /repositories", "").Data
		require.Len(t, all, 1)
		access := map[string]string{}
		for _, r := range all[0].Repos {
			access[r.FullName] = r.Access
			require.False(t, r.Active)
		}
		return all[0].Status, access
	}
	for _, step := range []struct {
		event  source.Event
		status string
		access map[string]string
	}{
		{source.Event{Kind: source.EventSuspended, InstallationID: "7"}, "suspended", map[string]string{"acme/shop": "granted", "acme/cart": "granted"}},
		{source.Event{Kind: source.EventRestored, InstallationID: "7"}, "active", map[string]string{"acme/shop": "granted", "acme/cart": "granted"}},
		{source.Event{Kind: source.EventDeleted, InstallationID: "8"}, "active", map[string]string{"acme/shop": "granted", "acme/cart": "granted"}},
		{
			source.Event{Kind: source.EventRepositories, InstallationID: "7", Added: []string{"acme/new", "../x"}, Removed: []string{"acme/cart", "acme/none"}},
			"active",
			map[string]string{"acme/shop": "granted", "acme/cart": "denied", "acme/new": "granted"},
		},
		{source.Event{Kind: source.EventDeleted, InstallationID: "7"}, "failed", map[string]string{"acme/shop": "denied", "acme/cart": "denied", "acme/new": "denied"}},
	} {
		send(&step.event)
		for _, organization := range []string{w.acme, w.other} {
			status, access := state(organization)
			require.Equal(t, step.status, status, step.event.Kind)
			require.Equal(t, step.access, access)
		}
	}
}

// TestLostInstallations: an organization whose user no longer owns the account learns of no new repositories and pushes.
func TestLostInstallations(t *testing.T) {
	w := newForgeWorld(t)
	user := map[string]*client{w.acme: w.as(w.acme, credentialUser), w.other: w.as(w.other, credentialUser)}
	for _, c := range user {
		w.visit("POST", "/onboarding/callback/gitea", url.Values{"state": {stateOf(c, "gitea")}, "code": {"good"}})
		for _, r := range get[installationPage](c, "GET /repositories", "").Data[0].Repos {
			get[activation](c, "PATCH /repositories/"+r.ID, `{"is_active":true}`)
		}
	}
	push := func(name string) source.Event {
		return source.Event{Kind: source.EventPush, Repository: name, Branch: "main", Default: "main", Commit: strings.Repeat("a", 40)}
	}
	for n, step := range []struct {
		lost        string
		event       source.Event
		runs        int
		acme, other string // repositories with access, and the number of runs
	}{
		{w.acme, push("acme/shop"), 1, "[acme/cart acme/shop] 0", "[acme/cart acme/shop] 1"},
		{w.acme, source.Event{Kind: source.EventRepositories, InstallationID: "7", Added: []string{"acme/secret"}, Removed: []string{"acme/cart"}}, 0, "[acme/shop] 0", "[acme/secret acme/shop] 1"},
		{"", push("acme/shop"), 1, "[acme/shop] 1", "[acme/secret acme/shop] 1"},
		{"", source.Event{Kind: source.EventRepositories, InstallationID: "7", Added: []string{"acme/new"}}, 0, "[acme/new acme/shop] 1", "[acme/new acme/secret acme/shop] 1"},
	} {
		w.sources.lost = step.lost
		w.sources.event = func(string, []byte) (*source.Event, error) { return &step.event, nil }
		status, got := w.hook("gitea", fmt.Sprint(n))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, webhookData{"handled", step.runs}, got, n)
		for organization, want := range map[string]string{w.acme: step.acme, w.other: step.other} {
			var names []string
			for _, r := range get[installationPage](user[organization], "GET /repositories", "").Data[0].Repos {
				if r.Access == assay.AccessGranted {
					names = append(names, r.FullName)
				}
			}
			require.Equal(t, want, fmt.Sprint(names, " ", len(get[page[runData]](user[organization], "GET /executions", "").Data)), n)
		}
	}
}

// TestDeliveries remembers a bounded number of deliveries.
func TestDeliveries(t *testing.T) {
	h := newWebhooks()
	id := func(n int) (d [32]byte) {
		d[0], d[1], d[2] = byte(n), byte(n>>8), 1
		return d
	}
	for n := range 3 * maxDeliveries {
		h.remember(id(n))
		h.remember(id(n))
		require.True(t, h.handled(id(n)))
	}
	require.Len(t, h.known, maxDeliveries)
	require.False(t, h.handled(id(0)))
}
