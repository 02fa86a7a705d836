// SPDX-License-Identifier: Apache-2.0

package score_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/delta"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
	"assay/internal/score"
	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/fresh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a scorer with a store and their clock.
type fixture struct {
	*sqlite.Store
	t      *testing.T
	now    time.Time
	org    string
	scorer *score.Scorer
	fail   error  // error of SaveScores
	failed string // the organization for which SaveScores fails; "": all
	stuck  error  // error of Expire
	expiry int    // number of calls of Expire

	mu    sync.Mutex               // guards the fields below: organizations are scored concurrently
	saved int                      // number of saved results
	saves int                      // number of calls of SaveScores
	slow  map[string]chan struct{} // Facts of these organizations blocks until the channel is closed

	counting func(ctx context.Context, organizationID string) (endless bool) // called for each piece of claims; may be nil

	beforeSave, afterSave func() // called once
}

// Expire counts its calls.
func (f *fixture) Expire(ctx context.Context, now time.Time, start, metricStart delta.Bucket) error {
	f.expiry++
	if f.stuck != nil {
		return f.stuck
	}
	return f.Store.Expire(ctx, now, start, metricStart)
}

// SaveScores fails on demand.
func (f *fixture) SaveScores(ctx context.Context, fence delta.Fence, organizationID string, results []delta.Result) error {
	f.mu.Lock()
	f.saves++
	if f.fail != nil && (f.failed == "" || f.failed == organizationID) {
		f.mu.Unlock()
		return f.fail
	}
	before, after := f.beforeSave, f.afterSave
	f.beforeSave, f.afterSave = nil, nil
	f.saved += len(results)
	f.mu.Unlock()
	if before != nil {
		before()
	}
	if after != nil {
		defer after()
	}
	return f.Store.SaveScores(ctx, fence, organizationID, results)
}

// Facts blocks for a slow organization.
func (f *fixture) Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error) {
	f.mu.Lock()
	wait := f.slow[organizationID]
	f.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return f.Store.Facts(ctx, organizationID, serviceIDs, since)
}

// ClaimCounter calls counting for each piece.
func (f *fixture) ClaimCounter(organizationID string, rule catalog.Rule, since delta.Bucket) delta.ClaimCounter {
	return &counter{f.Store.ClaimCounter(organizationID, rule, since), f, organizationID}
}

type counter struct {
	delta.ClaimCounter
	f            *fixture
	organization string
}

func (c *counter) Next(ctx context.Context) (bool, error) {
	if c.f.counting != nil && c.f.counting(ctx, c.organization) {
		return true, ctx.Err()
	}
	return c.ClaimCounter.Next(ctx)
}

// TestClaimsInPieces: organizations whose claims take endlessly do not delay another one. Each piece is counted with a
// CPU, on behalf of its organization. The first score is not saved before the claims are counted.
func TestClaimsInPieces(t *testing.T) {
	f := newFixture(t)
	endless := make(map[string]bool)
	for i := range 8 { // more than are scored concurrently
		f.org = f.organization(fmt.Sprint("endless ", i))
		f.seen("a", catalog.RES001, true)
		endless[f.org] = true
	}
	f.org = f.organization("other")
	f.claim("a", catalog.MET003, 1, 1)
	f.claim("b", catalog.MET003, 1, 2)
	cpu := fair.NewSemaphore(1, 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.counting = func(ctx context.Context, organizationID string) bool {
		if cpu.Acquire(ended, organizationID) == nil {
			t.Error("counts without a CPU")
		}
		if got := assay.OrganizationOf(ctx); got != organizationID {
			t.Errorf("counts claims of %s on behalf of %q", organizationID, got)
		}
		return endless[organizationID]
	}
	s := score.New(score.Config{Store: f, CPU: cpu, Now: func() time.Time { return f.now }, Interval: time.Microsecond}) // one piece in a round
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	for _, value := range []uint64{1, 1, 3} {
		f.claim("c", catalog.MET003, 1, value)
		f.seen("c", catalog.RES001, true)
		require.Eventually(t, func() bool { return f.score("c") != nil && len(f.score("c").FailedRuleIDs) == 2 }, time.Minute, time.Millisecond)
	}
	stop()
	running.Wait()
	for _, name := range []string{"a", "b"} {
		history, err := f.ScoreHistory(t.Context(), f.org, f.id(name), time.Time{})
		require.NoError(t, err)
		for _, s := range history {
			require.Contains(t, s.FailedRuleIDs, "MET-003", "before the claims were counted")
		}
	}
	for id := range endless {
		services, _, err := f.FindServices(t.Context(), id, assay.Page{Limit: 10})
		require.NoError(t, err)
		require.Nil(t, services[0].Score)
	}
}

// TestClaimsBehindRequests: claims are counted in few turns of the CPU, behind the requests of the same organization.
func TestClaimsBehindRequests(t *testing.T) {
	const pieces = 2000
	f := newFixture(t)
	f.seen("a", catalog.RES001, true)
	cpu := fair.NewSemaphore(1, 1)
	n, requests, seen, turns := 0, 0, -1, 0 // guarded by cpu
	f.counting = func(context.Context, string) bool {
		if n++; requests != seen {
			seen = requests
			turns++
		}
		return n <= pieces
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil && cpu.Acquire(ctx, f.org) == nil {
			requests++
			cpu.Release(f.org)
		}
	})
	s := score.New(score.Config{Store: f, CPU: cpu, Now: func() time.Time { return f.now }})
	require.NoError(t, s.Round(ctx))
	require.NotNil(t, f.score("a"))
	require.NoError(t, cpu.Acquire(t.Context(), f.org))
	stop()
	cpu.Release(f.org)
	running.Wait()
	require.Greater(t, n, pieces)
	require.Less(t, turns, pieces/10)
}

// TestSlowOrganization: a slow organization does not delay others, in this round and later ones.
func TestSlowOrganization(t *testing.T) {
	f := newFixture(t)
	f.slow = make(map[string]chan struct{})
	others := []string{f.org}
	for i := range 3 {
		f.org = f.organization(fmt.Sprint("slow ", i))
		f.seen("a", catalog.RES001, true)
		f.slow[f.org] = make(chan struct{})
	}
	for i := range 10 {
		others = append(others, f.organization(fmt.Sprint("other ", i)))
	}
	s := score.New(score.Config{Store: f, Now: func() time.Time { return f.now }, Interval: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	for _, rule := range []catalog.Rule{catalog.RES001, catalog.RES005} {
		for _, id := range others {
			f.org = id
			f.seen("a", rule, true)
		}
		for _, id := range others {
			f.org = id
			require.Eventually(t, func() bool {
				services, _, err := f.FindServices(ctx, id, assay.Page{Limit: 10})
				return err == nil && services[0].Score != nil && slices.Contains(services[0].Score.FailedRuleIDs, rule.ID())
			}, time.Minute, time.Millisecond)
		}
	}
	cancel()
	running.Wait()
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, now: time.Date(2026, 10, 15, 12, 5, 0, 0, time.UTC)}
	clock := func() time.Time { return f.now }
	var err error
	f.Store, err = sqlite.Open(t.Context(), sqlite.Config{Path: fresh.Path(t), Now: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	f.org = f.organization("org")
	f.scorer = score.New(score.Config{Store: f, Now: clock})
	return f
}

func (f *fixture) organization(name string) string {
	o := &assay.Organization{Name: name, Tier: assay.TierFree}
	require.NoError(f.t, f.CreateOrganization(f.t.Context(), o))
	return o.ID
}

func (f *fixture) round() {
	f.t.Helper()
	require.NoError(f.t, f.scorer.Round(f.t.Context()))
}

// seen commits one observation of a rule at the current time, and a resource that passes RES-005.
func (f *fixture) seen(name string, r catalog.Rule, failed bool) {
	f.commit(name, func(s *delta.Service, b delta.Bucket) {
		s.Counts(b)[catalog.RES005].Observed++
		c := delta.Count{Observed: 1}
		if failed {
			c.Failed = 1
			s.AddExample(r, &delta.Example{TimeUnixNano: s.LastSeen, TraceID: [16]byte{byte(f.now.Second())}, ResourceAttributes: `{"a":"b"}`})
		}
		s.Counts(b)[r].Add(c)
	})
}

func (f *fixture) claim(name string, r catalog.Rule, key, value uint64) {
	f.commit(name, func(s *delta.Service, b delta.Bucket) {
		s.Counts(b)[catalog.RES005].Observed++
		s.AddClaim(delta.Claim{Rule: r, Key: delta.Hash128{High: 1, Low: key}, Value: value}, delta.ClaimFact{Last: b, KeyText: fmt.Sprint("metric", key), ValueText: fmt.Sprint("unit", value)})
	})
}

func (f *fixture) commit(name string, add func(*delta.Service, delta.Bucket)) {
	f.t.Helper()
	d := new(delta.Delta)
	s := d.Organization(f.org).Service(assay.ServiceKey{Name: name})
	at := uint64(f.now.UnixNano())
	s.Seen(at)
	add(s, delta.BucketOf(at, time.Hour))
	require.NoError(f.t, f.Commit(f.t.Context(), f.now, nil, func([]bool) *delta.Delta { return d }))
}

func (f *fixture) id(name string) string {
	return delta.ServiceID(f.org, assay.ServiceKey{Name: name})
}

func (f *fixture) score(name string) *assay.Score {
	f.t.Helper()
	s, err := f.FindServiceByID(f.t.Context(), f.org, f.id(name))
	require.NoError(f.t, err)
	return s.Score
}

func (f *fixture) history(name string) int {
	f.t.Helper()
	rows, err := f.ScoreHistory(f.t.Context(), f.org, f.id(name), time.Time{})
	require.NoError(f.t, err)
	return len(rows)
}

// insight returns a service's insight for a rule, or nil.
func (f *fixture) insight(name string, r catalog.Rule) *assay.Insight {
	f.t.Helper()
	i, err := f.FindInsightByID(f.t.Context(), f.org, delta.InsightID(f.id(name), r.Info().Name))
	if assay.ErrorCode(err) == assay.CodeInsightNotFound {
		return nil
	}
	require.NoError(f.t, err)
	return i
}

func (f *fixture) organizationScore() *float64 {
	f.t.Helper()
	o, err := f.FindOrganizationByID(f.t.Context(), f.org)
	require.NoError(f.t, err)
	return o.Score
}

func number(t *testing.T, v any) int64 {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	var n int64
	require.NoError(t, json.Unmarshal(b, &n))
	return n
}

func TestScores(t *testing.T) {
	f := newFixture(t)
	f.round()
	require.Nil(t, f.organizationScore())

	f.seen("a", catalog.RES001, true)
	f.seen("b", catalog.RES001, false)
	f.round()
	require.Equal(t, 100*40.0/60, f.score("a").Value)
	require.Equal(t, []string{"RES-001", "RES-005"}, f.score("a").EvaluatedRuleIDs)
	require.Equal(t, []string{"RES-001"}, f.score("a").FailedRuleIDs)
	require.Equal(t, f.now, f.score("a").CalculatedAt)
	require.Equal(t, assay.DefaultWindow, f.score("a").Window)
	require.Equal(t, 100.0, f.score("b").Value)
	require.InDelta(t, (100+100*40.0/60)/2, *f.organizationScore(), 1e-9, "the mean of the unrounded scores")

	f.saved = 0
	f.now = f.now.Add(10 * time.Second)
	f.round()
	require.Zero(t, f.saved, "no change, no scoring")
}

func TestServiceWithoutEvaluatedRules(t *testing.T) {
	f := newFixture(t)
	f.commit("idle", func(s *delta.Service, b delta.Bucket) { s.AddUsage(b, delta.Traces, delta.Usage{Items: 1}) })
	f.commit(assay.OverflowService, func(s *delta.Service, b delta.Bucket) {
		s.Counts(b)[catalog.QuotaExceeded] = delta.Count{Observed: 4, Failed: 4}
		s.Counts(b)[catalog.RES005] = delta.Count{Observed: 4}
	})
	f.round()
	require.Nil(t, f.score("idle"), "no score without an evaluated rule")
	require.Nil(t, f.score(assay.OverflowService), "no score for the overflow service")
	require.Nil(t, f.organizationScore())
	require.Equal(t, assay.InsightActive, f.insight(assay.OverflowService, catalog.QuotaExceeded).Status)
}

func TestHistory(t *testing.T) {
	f := newFixture(t)
	f.seen("a", catalog.RES001, false)
	f.round()
	require.Equal(t, 1, f.history("a"))
	for range 5 {
		f.now = f.now.Add(time.Minute)
		f.seen("a", catalog.RES001, false)
		f.round()
	}
	require.Equal(t, 1, f.history("a"), "no new row for the same score in the same hour")
	f.seen("a", catalog.RES001, true)
	f.round()
	require.Equal(t, 2, f.history("a"), "a new row for a change")
	f.now = f.now.Add(time.Hour)
	f.round()
	require.Equal(t, 3, f.history("a"), "a new row in the next hour, also without telemetry")
	f.round()
	require.Equal(t, 3, f.history("a"))
}

func TestInsightLife(t *testing.T) {
	f := newFixture(t)
	r := catalog.RES001
	f.seen("a", r, false)
	f.round()
	require.Nil(t, f.insight("a", r))

	opened := f.now
	f.seen("a", r, true)
	f.round()
	i := f.insight("a", r)
	require.Equal(t, assay.InsightActive, i.Status)
	require.Equal(t, opened, i.CreatedAt)
	require.Equal(t, opened, i.DetectedAt)
	require.Equal(t, opened, i.UpdatedAt)
	require.Equal(t, opened, i.TelemetryAt)
	require.EqualValues(t, 2, number(t, i.Attributes["observations_total"]))
	require.EqualValues(t, 1, number(t, i.Attributes["violations_total"]))
	require.Equal(t, `{"a":"b"}`, i.Attributes["resource_attributes"])
	require.Equal(t, "TRACES", i.Attributes["signal_type"])

	// Evidence is updated at most once a minute. Deferred updates are not lost.
	f.now = opened.Add(59 * time.Second)
	f.seen("a", r, true)
	f.round()
	require.Equal(t, opened, f.insight("a", r).UpdatedAt)
	f.now = opened.Add(60 * time.Second)
	f.round() // no new facts
	i = f.insight("a", r)
	require.Equal(t, f.now, i.UpdatedAt)
	require.EqualValues(t, 2, number(t, i.Attributes["violations_total"]))
	require.Equal(t, opened.Add(59*time.Second), i.TelemetryAt)
	require.NotEmpty(t, i.TraceID)
	require.Equal(t, opened, i.DetectedAt)
	updated := f.now
	f.now = f.now.Add(10 * time.Minute)
	f.round()
	require.Equal(t, updated, f.insight("a", r).UpdatedAt, "unchanged evidence is not updated")

	// The failures leave the window, passing observations stay.
	f.now = opened.Add(29 * 24 * time.Hour)
	f.seen("a", r, false)
	f.round()
	require.Equal(t, assay.InsightActive, f.insight("a", r).Status)
	f.now = opened.Add(30*24*time.Hour + time.Hour)
	f.round()
	i = f.insight("a", r)
	require.Equal(t, assay.InsightArchived, i.Status)
	require.Equal(t, f.now, i.UpdatedAt)
	require.Zero(t, number(t, i.Attributes["violations_total"]))
	require.EqualValues(t, 1, number(t, i.Attributes["observations_total"]), "in the same window")
	require.Equal(t, opened, i.DetectedAt)
	require.Equal(t, 100.0, f.score("a").Value, "the score recovers without new telemetry")

	f.now = f.now.Add(time.Second)
	f.seen("a", r, true)
	f.round()
	i = f.insight("a", r)
	require.Equal(t, assay.InsightActive, i.Status)
	require.Equal(t, f.now, i.DetectedAt, "the same insight is reopened")
	require.Equal(t, opened, i.CreatedAt)
}

// TestClockSetBack: an update in the future delays no further ones.
func TestClockSetBack(t *testing.T) {
	f := newFixture(t)
	f.seen("a", catalog.RES001, true)
	f.round()
	f.now = f.now.Add(-30 * time.Minute)
	f.seen("a", catalog.RES001, true)
	f.round()
	require.EqualValues(t, 2, number(t, f.insight("a", catalog.RES001).Attributes["violations_total"]))
}

func TestWindowPasses(t *testing.T) {
	f := newFixture(t)
	f.seen("a", catalog.RES001, true)
	f.seen("b", catalog.RES001, false)
	f.round()
	f.now = f.now.Add(30*24*time.Hour + 54*time.Minute) // the end of the hour
	f.round()
	require.NotNil(t, f.score("a"))
	f.now = f.now.Add(time.Minute)
	f.round()
	require.Nil(t, f.score("a"), "the window is empty")
	require.Nil(t, f.organizationScore())
	require.Equal(t, assay.InsightArchived, f.insight("a", catalog.RES001).Status)
}

// TestEvidenceDuringExpiry: while the expiry of a new window is in progress, stored evidence stays as it is, for up to a
// minute. Its counts would include the time before the window, and its lists would not.
func TestEvidenceDuringExpiry(t *testing.T) {
	f := newFixture(t)
	r := catalog.MET002
	failing := func(metric string) {
		f.seen("a", r, true)
		f.commit("a", func(s *delta.Service, b delta.Bucket) {
			s.AddItem(delta.Item{Rule: r, List: delta.MetricNames, Text: metric}, b)
		})
	}
	evidence := func() string {
		a := f.insight("a", r).Attributes
		return fmt.Sprint(a["metric_names"], " ", number(t, a["observations_total"]))
	}
	restart := func(later time.Duration) {
		f.now = f.now.Add(later)
		f.scorer = score.New(score.Config{Store: f, Now: func() time.Time { return f.now }})
	}
	failing("old")
	restart(20 * 24 * time.Hour)
	failing("new")
	f.round()
	require.Equal(t, `["new","old"] 2`, evidence())

	restart(20 * 24 * time.Hour)
	f.stuck = errors.New("stuck")
	require.ErrorIs(t, f.scorer.Round(t.Context()), f.stuck)
	require.Equal(t, `["new","old"] 2`, evidence())
	f.stuck = nil
	restart(time.Second)
	f.round()
	require.Equal(t, `["new"] 1`, evidence())

	failing("last")
	restart(20 * 24 * time.Hour)
	f.stuck = errors.New("stuck")
	require.ErrorIs(t, f.scorer.Round(t.Context()), f.stuck)
	require.Equal(t, `["new"] 1`, evidence())
	f.now = f.now.Add(time.Minute)
	require.NoError(t, f.scorer.Round(t.Context()), "expiry pauses after a failure")
	require.Equal(t, `["last"] 2`, evidence())
}

func TestMute(t *testing.T) {
	f := newFixture(t)
	r := catalog.RES001
	f.seen("a", r, true)
	f.round()
	before := f.score("a").Value
	id := f.insight("a", r).ID
	require.NoError(t, f.MuteInsight(t.Context(), id, "known"))
	f.now = f.now.Add(2 * time.Minute)
	f.seen("a", r, true)
	f.round()
	i := f.insight("a", r)
	require.Equal(t, assay.InsightMuted, i.Status, "muted stays muted")
	require.Equal(t, "known", i.MuteReason)
	require.EqualValues(t, 2, number(t, i.Attributes["violations_total"]), "its evidence is still updated")
	require.Equal(t, before, f.score("a").Value, "muting does not change the score")
	require.NoError(t, f.UnmuteInsight(t.Context(), id))
	require.Equal(t, assay.InsightActive, f.insight("a", r).Status)

	require.NoError(t, f.MuteInsight(t.Context(), id, "again"))
	f.now = f.now.Add(31 * 24 * time.Hour)
	f.seen("a", r, false)
	f.round()
	i = f.insight("a", r)
	require.Equal(t, assay.InsightMuted, i.Status, "also without failures")
	require.Zero(t, number(t, i.Attributes["violations_total"]))
	require.EqualValues(t, 1, number(t, i.Attributes["observations_total"]))
	require.NoError(t, f.UnmuteInsight(t.Context(), id))
	f.round()
	require.Equal(t, assay.InsightArchived, f.insight("a", r).Status, "unmuted without a failure it is archived")
}

// TestClaims: claims of one service change the verdicts for others.
func TestClaims(t *testing.T) {
	f := newFixture(t)
	f.claim("a", catalog.MET003, 1, 1)
	f.claim("c", catalog.MET003, 2, 1)
	f.round()
	require.Equal(t, 100.0, f.score("a").Value)
	require.Contains(t, f.score("a").EvaluatedRuleIDs, "MET-003")

	f.now = f.now.Add(time.Minute)
	f.claim("b", catalog.MET003, 1, 2)
	f.saved = 0
	f.round()
	require.Equal(t, 2, f.saved, "b, and a, which sent nothing, but not c")
	require.Equal(t, []string{"MET-003"}, f.score("a").FailedRuleIDs)
	require.Equal(t, []string{"MET-003"}, f.score("b").FailedRuleIDs)
	require.Empty(t, f.score("c").FailedRuleIDs)
	i := f.insight("a", catalog.MET003)
	require.Equal(t, `["metric1"]`, i.Attributes["metric_names"])
	require.Equal(t, `["unit1","unit2"]`, i.Attributes["units"])

	// The older claim leaves the 14-day window, the newer one stays.
	f.now = f.now.Add(10 * 24 * time.Hour)
	f.claim("b", catalog.MET003, 1, 2)
	f.round()
	require.Equal(t, []string{"MET-003"}, f.score("b").FailedRuleIDs)
	f.now = f.now.Add(4*24*time.Hour + time.Hour)
	f.round()
	require.Empty(t, f.score("b").FailedRuleIDs)
	require.Contains(t, f.score("b").EvaluatedRuleIDs, "MET-003")
	require.NotContains(t, f.score("a").EvaluatedRuleIDs, "MET-003")
	require.Equal(t, assay.InsightArchived, f.insight("a", catalog.MET003).Status)
	require.Equal(t, assay.InsightArchived, f.insight("b", catalog.MET003).Status)
}

func TestInstanceClaims(t *testing.T) {
	f := newFixture(t)
	send := func(name string, workload uint64) {
		f.commit(name, func(s *delta.Service, b delta.Bucket) {
			s.Counts(b)[catalog.RES002].Observed++
			s.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: 9}, Value: workload}, delta.ClaimFact{Last: b})
		})
	}
	send("a", 1)
	f.round()
	require.Empty(t, f.score("a").FailedRuleIDs)
	send("b", 2)
	f.round()
	require.Equal(t, []string{"RES-002"}, f.score("a").FailedRuleIDs)
	require.Equal(t, []string{"RES-002"}, f.score("b").FailedRuleIDs)
	f.now = f.now.Add(3 * 24 * time.Hour)
	f.round()
	require.Equal(t, []string{"RES-002"}, f.score("a").FailedRuleIDs, "a conflict lasts as long as it is in the window")
}

// TestFailedRound: a later round completes a failed one.
func TestFailedRound(t *testing.T) {
	f := newFixture(t)
	f.claim("a", catalog.MET003, 1, 1)
	f.round()
	f.claim("b", catalog.MET003, 1, 2)
	f.fail = errors.New("disk full")
	require.ErrorIs(t, f.scorer.Round(t.Context()), f.fail)
	f.fail = nil
	f.round()
	require.Equal(t, []string{"MET-003"}, f.score("a").FailedRuleIDs, "also for a service changed only by another's claim")
	require.Equal(t, []string{"MET-003"}, f.score("b").FailedRuleIDs)
}

// TestFailureOfOne: a failure of one organization, or of expiry, does not prevent scoring the others.
func TestFailureOfOne(t *testing.T) {
	f := newFixture(t)
	first, second := f.org, f.organization("second")
	f.seen("a", catalog.RES001, true)
	f.org = second
	f.seen("b", catalog.RES001, true)
	f.stuck = errors.New("a row that cannot be read")
	f.fail, f.failed = assay.Errorf(assay.CodeUnavailable, "too many rows: %w", context.DeadlineExceeded), first
	err := f.scorer.Round(t.Context())
	require.ErrorIs(t, err, f.stuck)
	require.ErrorIs(t, err, f.fail)
	require.NotNil(t, f.score("b"))
	require.NotNil(t, f.organizationScore())
	f.org = first
	require.Nil(t, f.score("a"))

	f.stuck, f.fail = nil, nil
	f.round()
	require.NotNil(t, f.score("a"))
	require.Equal(t, 1, f.expiry, "not retried yet")
	f.now = f.now.Add(5 * time.Minute)
	f.round()
	require.Equal(t, 2, f.expiry, "retried later")

	// No more work is started with an unavailable store.
	for i := range 20 {
		f.org = f.organization(fmt.Sprint("another ", i))
		f.seen("a", catalog.RES002, true)
	}
	f.fail, f.failed = assay.Errorf(assay.CodeUnavailable, "away"), ""
	saves := f.saves
	require.ErrorIs(t, f.scorer.Round(t.Context()), f.fail)
	require.LessOrEqual(t, f.saves, saves+4)
}

// TestClocksDiffer: nothing expires after the store's clock has jumped, and scoring continues.
func TestClocksDiffer(t *testing.T) {
	f := newFixture(t)
	var skew time.Duration
	var log bytes.Buffer
	s := score.New(score.Config{
		Store: f, Now: func() time.Time { return f.now.Add(skew) }, Skew: func() time.Duration { return skew }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	round := func() {
		t.Helper()
		require.NoError(t, s.Round(t.Context()))
	}
	f.seen("a", catalog.RES001, true)
	round()
	require.Equal(t, 1, f.expiry)
	f.now = f.now.Add(time.Hour)
	for _, skew = range []time.Duration{40 * 24 * time.Hour, -40 * 24 * time.Hour, time.Hour + time.Second} {
		log.Reset()
		f.saved = 0
		f.seen("a", catalog.RES001, true)
		round()
		round()
		require.Equal(t, 1, f.saved, "it is scored")
		require.Equal(t, 1, f.expiry, "nothing expires")
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "logged once per step of the window")
		require.Contains(t, log.String(), "store_ahead_by="+skew.String())
	}
	skew = time.Hour
	round()
	require.Equal(t, 2, f.expiry)
	require.NotNil(t, f.score("a"))
}

func TestFailedDeferredUpdate(t *testing.T) {
	f := newFixture(t)
	f.seen("a", catalog.RES001, true)
	f.round()
	f.now = f.now.Add(30 * time.Second)
	f.seen("a", catalog.RES001, true)
	f.round() // too soon to update the evidence
	f.now = f.now.Add(30 * time.Second)
	f.fail = errors.New("disk full")
	require.Error(t, f.scorer.Round(t.Context()))
	f.fail = nil
	f.now = f.now.Add(10 * time.Second)
	f.round()
	require.EqualValues(t, 2, number(t, f.insight("a", catalog.RES001).Attributes["violations_total"]))
}

func TestRestart(t *testing.T) {
	f := newFixture(t)
	f.claim("a", catalog.MET003, 1, 1)
	f.claim("b", catalog.MET003, 1, 2)
	f.round()
	organization, err := f.FindOrganizationByID(t.Context(), f.org)
	require.NoError(t, err)
	f.now = f.now.Add(time.Minute)
	f.scorer = score.New(score.Config{Store: f, Now: func() time.Time { return f.now }})
	f.round()
	again, err := f.FindOrganizationByID(t.Context(), f.org)
	require.NoError(t, err)
	require.Equal(t, organization, again)
	require.Equal(t, []string{"MET-003"}, f.score("a").FailedRuleIDs)
	require.Equal(t, 1, f.history("a"), "scoring again does not add a row")
}

func TestManyServicesAndOrganizations(t *testing.T) {
	f := newFixture(t)
	other := f.organization("other")
	for i := range 1100 { // more than one chunk
		f.seen(fmt.Sprint("s", i), catalog.RES001, i%2 == 0)
	}
	f.org = other
	f.seen("x", catalog.RES001, true)
	f.round()
	require.InDelta(t, 100*40.0/60, *f.organizationScore(), 1e-9)
	all, err := f.FindOrganizations(t.Context())
	require.NoError(t, err)
	require.InDelta(t, (100+100*40.0/60)/2, *all[0].Score, 1e-9)
	require.Equal(t, 1100, all[0].ServicesCount)
}

func TestRunEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	f.seen("a", catalog.RES001, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	s := score.New(score.Config{Store: f, Interval: time.Millisecond, Now: func() time.Time { return f.now }})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	require.Eventually(t, func() bool {
		i, _, err := f.FindServices(t.Context(), f.org, assay.Page{Limit: 1})
		return err == nil && i[0].Score != nil
	}, time.Minute, 5*time.Millisecond)
	cancel()
	<-done
}

// TestOrganizationHistory: an organization's score has a history, even without changes.
func TestOrganizationHistory(t *testing.T) {
	f := newFixture(t)
	begin := f.now
	f.seen("a", catalog.RES001, false)
	for range 3 * 6 {
		f.round()
		f.now = f.now.Add(10 * time.Minute)
	}
	f.seen("a", catalog.RES001, true)
	f.round()
	points, err := f.FindOrganizationScores(t.Context(), f.org, assay.SeriesRange{Start: begin, End: f.now, Points: 3})
	require.NoError(t, err)
	require.Len(t, points, 3)
	require.Equal(t, []float64{100, 100}, []float64{points[0].Value, points[1].Value})
	require.Equal(t, *f.organizationScore(), points[2].Value)
	stats, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(4), stats.Table("organization_scores").Rows, "once an hour, the last one with the change")
}

// TestRuleStates: the states of a service's rules match its score.
func TestRuleStates(t *testing.T) {
	f := newFixture(t)
	f.seen("a", catalog.RES001, true)
	f.seen("a", catalog.SPA001, false)
	f.claim("a", catalog.MET003, 1, 1)
	f.claim("a", catalog.MET003, 2, 1)
	f.claim("b", catalog.MET003, 2, 2)
	f.round()
	r := score.Reader{Store: f.Store, Window: assay.DefaultWindow, Step: time.Hour, Now: func() time.Time { return f.now }}
	states, err := r.RuleStates(t.Context(), f.org, f.id("a"))
	require.NoError(t, err)
	require.Len(t, states, catalog.Scored)
	var evaluated, failed []string
	for _, s := range states {
		switch s.State {
		case score.Failed:
			failed = append(failed, s.Rule.ID())
			evaluated = append(evaluated, s.Rule.ID())
		case score.Passed:
			evaluated = append(evaluated, s.Rule.ID())
		}
	}
	require.Equal(t, f.score("a").EvaluatedRuleIDs, evaluated)
	require.Equal(t, f.score("a").FailedRuleIDs, failed)
	require.Equal(t, score.RuleState{Rule: catalog.MET003, State: score.Failed, Observed: 2, Failed: 1}, states[catalog.MET003])
	require.Equal(t, score.RuleState{Rule: catalog.RES001, State: score.Failed, Observed: 1, Failed: 1}, states[catalog.RES001])

	_, err = r.RuleStates(t.Context(), f.org, "00000000-0000-4000-8000-000000000000")
	require.Equal(t, assay.CodeServiceNotFound, assay.ErrorCode(err))
}
