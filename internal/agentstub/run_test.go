// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// run reads a run and checks what holds for all of them.
func (c *client) run(id string) gotRun {
	r := get[gotRun](c, "GET /executions/"+id, "")
	require.True(c.t, r.StandIn)
	running := 0
	for i, p := range r.Phases {
		require.Equal(c.t, i+1, p.Order)
		if p.Status == statusRunning {
			running++
			require.Equal(c.t, p.Name, *r.CurrentPhase)
		}
	}
	require.Equal(c.t, r.Status == statusRunning, running == 1)
	for i, e := range r.Events {
		require.Equal(c.t, i+1, e.Seq)
		if i > 0 {
			require.False(c.t, e.CreatedAt.Before(r.Events[i-1].CreatedAt))
		}
	}
	return r
}

// TestReviewThenFix follows two runs of one repository through all their phases.
func TestReviewThenFix(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as("acme", credentialUser)
	review := c.start(pathReview, "checkout").ID
	fix := c.start(pathFix, "checkout").ID
	for _, phase := range phasesOf[kindReview] {
		r := c.run(review)
		require.Equal(t, statusRunning, r.Status)
		require.Equal(t, phase, *r.CurrentPhase)
		require.Nil(t, r.Summary)
		require.Equal(t, statusQueued, c.run(fix).Status)
		require.Empty(t, c.run(fix).Events)
		require.Empty(t, get[[]gotFinding](c, "GET /findings", ""))
		w.clock.move(time.Second)
	}
	r := c.run(review)
	require.Equal(t, statusCompleted, r.Status)
	require.NotEmpty(t, *r.Summary)
	require.Equal(t, "execution.completed", r.Events[len(r.Events)-1].Type)
	found := get[[]gotFinding](c, "GET /codebase/findings?executionId="+review, "")
	require.Len(t, found, r.Result.FindingCount)
	require.NotEmpty(t, found)
	reported := map[string]bool{}
	for _, e := range r.Events {
		if e.Type == "finding.reported" {
			reported[*e.FindingID] = true
		}
	}
	for _, f := range found {
		require.True(t, f.StandIn)
		require.True(t, reported[f.ID])
		require.Equal(t, review, f.ExecutionID)
	}
	require.Len(t, reported, len(found))

	require.Equal(t, statusRunning, c.run(fix).Status)
	w.clock.move(5 * time.Second)
	r = c.run(fix)
	require.Equal(t, statusCompleted, r.Status)
	require.Equal(t, len(found), r.Result.FindingCount)
	require.Contains(t, *r.Result.PullRequestURL, "https://source.example.com/acme-shop/checkout/pull/1")
	require.Empty(t, get[[]gotFinding](c, "GET /findings", ""))
	require.Empty(t, get[[]gotFinding](c, "GET /codebase/findings", ""))
	for _, query := range []string{"status=resolved", "status=all", "status=resolved&executionId=" + review, "status=all&executionId=" + fix} {
		require.Len(t, get[[]gotFinding](c, "GET /codebase/findings?"+query, ""), len(found), query)
	}
	require.Equal(t, fix, *c.repositories()["checkout"].LastExecutionID)

	again := c.start(pathReview, "checkout").ID
	w.clock.move(time.Minute)
	require.Zero(t, c.run(again).Result.FindingCount, "what was fixed stays fixed")
}

func TestFixOfOneFinding(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as("acme", credentialKey)
	review := c.start(pathReview, "storefront").ID
	c.start(pathReview, "checkout")
	w.clock.move(time.Minute)
	found := get[[]gotFinding](c, "GET /codebase/findings?executionId="+review, "")
	require.Greater(t, len(found), 1)
	elsewhere := c.do("POST "+pathFix, fmt.Sprintf(`{"repository_id":%q,"finding_ids":[%q]}`, c.repositories()["checkout"].ID, found[0].ID))
	require.Equal(t, 422, elsewhere.status)
	get[gotRun](c, "POST "+pathFix, fmt.Sprintf(`{"repository_id":%q,"finding_ids":[%q]}`, found[0].RepositoryID, found[0].ID))
	w.clock.move(time.Minute)
	left := get[[]gotFinding](c, "GET /codebase/findings?executionId="+review, "")
	require.Equal(t, found[1:], left)
}

func TestInstrumentationAndMigration(t *testing.T) {
	w := newWorld(t, Config{PartnerOrganizations: []string{EveryOrganization}})
	c := w.as("acme", credentialKey)
	require.Equal(t, "partner", c.repositories()["checkout"].Instrumentation.Status)
	first, second := c.start(pathMigration, "checkout").ID, c.start(pathMigration, "checkout").ID
	instrument := c.start(pathInstrumentation, "storefront").ID
	w.clock.move(time.Minute)
	require.Equal(t, "opencensus", *c.run(first).Result.MigratedFrom)
	require.Nil(t, c.run(second).Result.MigratedFrom, "nothing is left to migrate")
	require.Nil(t, c.run(second).Result.PullRequestURL)
	require.NotNil(t, c.run(instrument).Result.PullRequestURL)
	checkout := c.repositories()["checkout"]
	require.Equal(t, "opentelemetry", checkout.Instrumentation.Status)
	require.Nil(t, checkout.Instrumentation.Partner)
	require.Equal(t, kindMigration, c.run(first).Type)
	require.Len(t, get[[]gotRun](c, "GET /executions?executionType=review,partner-migrate-execute", ""), 2)
	require.Len(t, get[[]gotRun](c, "GET /executions?repositoryId="+checkout.ID, ""), 2)
}

func TestFailedRun(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as("acme", credentialKey)
	get[gotRepository](c, "PATCH /repositories/"+c.repositories()["batch-archive"].ID, `{"active":true}`)
	id := c.start(pathReview, "batch-archive").ID
	w.clock.move(time.Second)
	r := c.run(id)
	require.Equal(t, statusFailed, r.Status)
	require.NotEmpty(t, *r.Error)
	require.Nil(t, r.Result)
	require.Equal(t, statusFailed, r.Phases[0].Status)
	require.Equal(t, statusSkipped, r.Phases[1].Status)
	require.Equal(t, "execution.failed", r.Events[len(r.Events)-1].Type)
	require.Len(t, get[[]gotRun](c, "GET /executions?status=failed", ""), 1)
}

// TestBounds makes more runs than are remembered.
func TestBounds(t *testing.T) {
	w := newWorld(t, Config{MaxRuns: 3})
	c := w.as("acme", credentialKey)
	var ids []string
	for range 3 {
		ids = append(ids, c.start(pathReview, "checkout").ID)
	}
	full := c.do("POST "+pathReview, "")
	require.Equal(t, 429, full.status)
	require.Equal(t, "4", full.header.Get("Retry-After"))
	w.clock.move(4 * time.Second)
	ids = append(ids, c.start(pathReview, "storefront").ID)
	require.Equal(t, 404, c.do("GET /executions/"+ids[0], "").status, "the oldest that has ended is forgotten")
	require.Len(t, get[[]gotRun](c, "GET /executions", ""), 3)
	require.Equal(t, statusRunning, c.run(ids[1]).Status)

	w.clock.move(time.Minute)
	for range 3 {
		c.start(pathReview, "storefront")
		w.clock.move(time.Minute)
	}
	require.Nil(t, c.repositories()["checkout"].LastExecutionID, "it is forgotten")
}

func TestOrganizationsAreForgotten(t *testing.T) {
	w := newWorld(t, Config{MaxOrganizations: 2})
	a, b, c := w.as("a", credentialKey), w.as("b", credentialKey), w.as("c", credentialKey)
	id := a.start(pathReview, "checkout").ID
	other := b.start(pathReview, "checkout").ID
	a.run(id)
	c.repositories()
	a.run(id)
	require.Equal(t, 404, b.do("GET /executions/"+other, "").status, "the one that was not used for longest")
}

// TestIsolation sees that what one organization does changes nothing for another.
func TestIsolation(t *testing.T) {
	w := newWorld(t, Config{})
	a, b := w.as("a", credentialUser), w.as("b", credentialUser)
	reads := []string{
		"GET /admin/installations", "GET /codebase/findings?status=all", "GET /executions", "GET /findings",
		"GET /findings/summary", "GET /onboarding/status", "GET /repositories",
	}
	before := map[string]string{}
	for _, r := range reads {
		before[r] = string(b.do(r, "").Data)
	}
	run := a.start(pathReview, "checkout").ID
	for range DefaultSessionsPerMinute {
		get[gotOnboarding](a, "POST /onboarding/session", "")
	}
	get[gotOnboarding](a, "POST /onboarding/repos", fmt.Sprintf(`{"repository_ids":[%q]}`, a.repositories()["ingress"].ID))
	w.clock.move(30 * time.Second)
	require.Equal(t, statusCompleted, a.run(run).Status)
	for _, r := range reads {
		require.Equal(t, before[r], string(b.do(r, "").Data), r)
	}
	require.Equal(t, 200, b.do("POST /onboarding/session", "").status)
	for name, r := range a.repositories() {
		require.NotEqual(t, r.ID, b.repositories()[name].ID)
	}
}

// TestPollingLosesNothing polls runs by afterSeq while time passes in steps of any
// length, also backwards, and other runs begin. It is below HTTP, because it asks a lot.
func TestPollingLosesNothing(t *testing.T) {
	cfg := Config{MaxRuns: 100, Phase: time.Second}
	rapid.Check(t, func(rt *rapid.T) {
		now := newClock().now
		o := newOrganization("acme", 5, now)
		do := func(op func(*call) (response, error), id string, query url.Values) any {
			o.settle(now)
			a, err := op(&call{cfg: &cfg, organization: o, ids: []string{id}, query: query})
			require.NoError(rt, err)
			return a.data
		}
		polled := map[string][]event{}
		var ids []string
		poll := func(id string, limit int) int {
			after := 0
			if n := len(polled[id]); n > 0 {
				after = polled[id][n-1].Seq
			}
			page := do(listEvents, id, url.Values{"afterSeq": {strconv.Itoa(after)}, "limit": {strconv.Itoa(limit)}}).([]event)
			require.LessOrEqual(rt, len(page), limit)
			polled[id] = append(polled[id], page...)
			return len(page)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(rt *rapid.T) {
				if len(ids) < 20 {
					kind := rapid.SampledFrom(runKinds).Draw(rt, "kind")
					ids = append(ids, do(execute(kind), "", nil).(detailedRun).ID)
				}
			},
			"wait": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(-300, 3000).Draw(rt, "milliseconds")) * time.Millisecond)
			},
			"poll": func(rt *rapid.T) {
				if len(ids) > 0 {
					poll(rapid.SampledFrom(ids).Draw(rt, "run"), rapid.IntRange(1, 9).Draw(rt, "limit"))
				}
			},
		})
		now = now.Add(5 * time.Minute)
		for _, id := range ids {
			for poll(id, 7) > 0 {
			}
			r := do(getRun, id, nil).(detailedRun)
			require.Equal(rt, r.Events, polled[id])
			require.Equal(rt, statusCompleted, r.Status)
			for i, e := range polled[id] {
				require.Equal(rt, i+1, e.Seq)
			}
		}
	})
}

// TestConcurrentPolling has clients of one organization start and poll runs at the
// same time.
func TestConcurrentPolling(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.as("acme", credentialKey)
	ids := []string{c.start(pathReview, "checkout").ID, c.start(pathReview, "storefront").ID}
	got := make([][]gotEvent, 8)
	var clients sync.WaitGroup
	for i := range got {
		clients.Go(func() {
			after := 0
			for {
				page := get[[]gotEvent](c, "GET /executions/"+ids[i%2]+"/agent-events?limit=3&afterSeq="+strconv.Itoa(after), "")
				for _, e := range page {
					got[i] = append(got[i], e)
					after = e.Seq
					if e.Type == "execution.completed" {
						return
					}
				}
				w.clock.move(50 * time.Millisecond)
				if i == 0 && len(page) > 0 {
					get[gotRun](c, "POST "+pathFix, "")
				}
			}
		})
	}
	clients.Wait()
	for i := range got {
		require.Equal(t, c.run(ids[i%2]).Events, got[i])
	}
}

func TestOnboarding(t *testing.T) {
	w := newWorld(t, Config{RepositoryLimit: 4, SessionsPerMinute: 2})
	c := w.as("acme", credentialUser)
	status := func() gotOnboarding { return get[gotOnboarding](c, "GET /onboarding/status", "") }
	s := status()
	require.True(t, s.StandIn)
	require.Equal(t, onboardingNotStarted, s.State)
	require.Equal(t, 7, s.Repositories.Total)
	require.Equal(t, 2, s.Repositories.Active)
	require.Equal(t, 4, s.Repositories.Limit)

	first := get[gotOnboarding](c, "POST /onboarding/session", "")
	require.Regexp(t, `^https://source\.example\.com/apps/.+\?state=session-`, *first.InstallationURL)
	require.Equal(t, onboardingInProgress, status().State)
	require.Equal(t, first.InstallationURL, status().InstallationURL)
	w.clock.move(20 * time.Second)
	second := get[gotOnboarding](c, "POST /onboarding/session", "")
	require.NotEqual(t, first.InstallationURL, second.InstallationURL)
	limited := c.do("POST /onboarding/session", "")
	require.Equal(t, 429, limited.status)
	require.Equal(t, "40", limited.header.Get("Retry-After"))
	w.clock.move(40 * time.Second)
	require.Equal(t, 200, c.do("POST /onboarding/session", "").status)
	w.clock.move(sessionLife)
	require.Equal(t, onboardingNotStarted, status().State, "the session has expired")

	repos := c.repositories()
	done := get[gotOnboarding](c, "POST /onboarding/repos", fmt.Sprintf(`{"repository_ids":[%q,%q]}`, repos["ingress"].ID, repos["checkout"].ID))
	require.Equal(t, onboardingCompleted, done.State)
	require.Equal(t, 3, done.Repositories.Active)
	require.True(t, c.repositories()["ingress"].Active)
	require.Equal(t, onboardingCompleted, status().State)
}

func TestRepositoryLimit(t *testing.T) {
	w := newWorld(t, Config{RepositoryLimit: 1})
	c := w.as("acme", credentialKey)
	repos := c.repositories()
	require.True(t, repos["storefront"].Active)
	require.False(t, repos["checkout"].Active, "no more than the limit from the start")
	set := func(name string, active bool) int {
		return c.do("PATCH /repositories/"+repos[name].ID, fmt.Sprintf(`{"active":%t}`, active)).status
	}
	require.Equal(t, 409, set("checkout", true))
	require.Equal(t, 200, set("storefront", true), "it is active already")
	require.Equal(t, 200, set("storefront", false))
	require.Equal(t, 409, c.do("POST "+pathReview, "").status, "no repository is active")
	require.Equal(t, 200, set("checkout", true))
	require.Equal(t, 409, set("storefront", true))
}
