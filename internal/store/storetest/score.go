// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/assaytest/selection"
	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
)

func (s *suite) TestScores(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	a := s.seen(org, named("a"), catalog.RES001, true)
	b := s.seen(org, named("b"), catalog.RES001, false)
	save := func(results ...delta.Result) {
		t.Helper()
		require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, results))
	}
	mean, n := must2(s.OrganizationMean(ctx, org))(t)
	require.Zero(t, n)
	require.Zero(t, mean)

	revA, revB := s.facts(org, a).Revision, s.facts(org, b).Revision
	first := score(63.855421686746988)
	first.CalculatedAt = micro(epoch.Add(-time.Hour))
	s.seen(org, named("b"), catalog.RES001, false)
	save(delta.Result{ServiceID: a, Revision: revA, Score: first, NewRow: true}, delta.Result{ServiceID: b, Revision: revB, Score: score(100)})
	require.Equal(t, []string{b}, s.unscored(org), "its facts changed since")
	require.Equal(t, first, must(s.FindServiceByID(ctx, org, a))(t).Score)
	require.Equal(t, first, s.facts(org, a).Service.Score)
	page, _ := must2(s.FindServices(ctx, org, assay.Page{Limit: 10}))(t)
	require.Equal(t, first, page[0].Score)
	mean, n = must2(s.OrganizationMean(ctx, org))(t)
	require.Equal(t, 2, n)
	require.InDelta(t, (63.855421686746988+100)/2, mean, 1e-12)

	// An older result does not undo a newer mark.
	save(delta.Result{ServiceID: b, Revision: s.facts(org, b).Revision, Score: score(100), NewRow: true})
	require.Empty(t, s.unscored(org))
	save(delta.Result{ServiceID: b, Revision: revB, Score: score(100)})
	require.Empty(t, s.unscored(org))

	second := score(0)
	second.EvaluatedRuleIDs, second.FailedRuleIDs = []string{}, []string{}
	save(delta.Result{ServiceID: a, Revision: revA, Score: second, NewRow: true})
	third := score(20)
	save(delta.Result{ServiceID: a, Revision: revA, Score: third})
	require.Equal(t, []*assay.Score{first, second}, must(s.ScoreHistory(ctx, org, a, time.Time{}))(t))
	require.Equal(t, []*assay.Score{second}, must(s.ScoreHistory(ctx, org, a, micro(epoch)))(t))
	code(t, assay.CodeServiceNotFound, errOf(s.ScoreHistory(ctx, org, unknownID, time.Time{})))

	save(delta.Result{ServiceID: a, Revision: revA})
	require.Nil(t, must(s.FindServiceByID(ctx, org, a))(t).Score)
	mean, n = must2(s.OrganizationMean(ctx, org))(t)
	require.Equal(t, 1, n)
	require.Equal(t, 100.0, mean)

	save(delta.Result{ServiceID: unknownID, Revision: 1, Score: score(1), NewRow: true}) // forgotten meanwhile
	save()
	code(t, assay.CodeNotFound, s.SaveScores(ctx, delta.Fence{}, unknownID, nil))

	// All or nothing.
	bad := score(1)
	bad.FailedRuleIDs = []string{"XYZ-001"}
	require.Error(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: a, Score: score(7)}, {ServiceID: b, Score: bad}}))
	require.Nil(t, must(s.FindServiceByID(ctx, org, a))(t).Score)
}

func (s *suite) TestInsightStatus(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	key := assay.ServiceKey{Namespace: "n", Name: "a", Environment: "e", Version: "v"}
	svc := s.seen(org, key, catalog.SPA006, true)
	in := newInsight(org, svc, catalog.SPA006)
	in.Attributes = map[string]any{
		"signal_type": "TRACES", "resource_attributes": `{"a":"<b> & \u2028 ü"}`, "observations_total": int64(1 << 62), "violations_total": int64(-1),
		"sampling_rate": 0.125, "whole": 1.0, "large": uint64(1 << 63), "tiny": 1e-9, "yes": true, "nul": "a\x00b", "": "",
	}
	save := func(in *assay.Insight) {
		t.Helper()
		require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Revision: 1, Insights: []*assay.Insight{in}}}))
	}
	find := func() *assay.Insight {
		t.Helper()
		got := must(s.FindInsightByID(ctx, org, in.ID))(t)
		require.Equal(t, got, must(s.FindInsightByID(ctx, "", in.ID))(t))
		require.Equal(t, []*assay.Insight{got}, s.facts(org, svc).Insights)
		return got
	}
	active := func() int {
		t.Helper()
		o := must(s.FindOrganizationByID(ctx, org))(t)
		return o.ActiveInsightsCount
	}
	save(in)
	want := *in
	service := must(s.FindServiceByID(ctx, org, svc))(t)
	want.Service = *service
	require.Equal(t, &want, find())
	require.Equal(t, 1, active())

	// Archived, then active again.
	in.Status, in.UpdatedAt = assay.InsightArchived, micro(epoch.Add(time.Minute))
	save(in)
	want.Status, want.UpdatedAt = in.Status, in.UpdatedAt
	require.Equal(t, &want, find())
	require.Zero(t, active())
	in.Status, in.UpdatedAt, in.DetectedAt = assay.InsightActive, micro(epoch.Add(2*time.Minute)), micro(epoch.Add(2*time.Minute))
	in.TraceID, in.TelemetryAt, in.CreatedAt = "", micro(epoch), micro(epoch.Add(time.Hour))
	in.Attributes = map[string]any{"violations_total": int64(7)}
	save(in)
	want = *in
	want.Service, want.CreatedAt = *service, micro(epoch) // the creation time does not change
	require.Equal(t, &want, find())
	require.Equal(t, 1, active())

	s.clock.advance(time.Hour)
	require.NoError(t, s.MuteInsight(ctx, in.ID, "known"))
	want.Status, want.MuteReason, want.UpdatedAt = assay.InsightMuted, "known", micro(s.clock.now())
	require.Equal(t, &want, find())
	require.Zero(t, active())
	require.NoError(t, s.MuteInsight(ctx, in.ID, "known well"))
	want.MuteReason = "known well"
	require.Equal(t, &want, find())

	for _, id := range []string{unknownID, "", "x"} {
		code(t, assay.CodeInsightNotFound, s.MuteInsight(ctx, id, ""))
		code(t, assay.CodeInsightNotFound, s.UnmuteInsight(ctx, id))
		code(t, assay.CodeInsightNotFound, errOf(s.FindInsightByID(ctx, org, id)))
	}
	for name, attributes := range map[string]map[string]any{"list": {"a": []string{"b"}}, "nil": {"a": nil}} {
		bad := newInsight(org, svc, catalog.RES001)
		bad.Attributes = attributes
		require.Error(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{bad}}}), name)
	}
	bad := newInsight(org, svc, catalog.RES001)
	bad.Type = "no such type"
	require.Error(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{bad}}}))
}

// TestMuteRace mutes and unmutes between the scorer's read and write.
func (s *suite) TestMuteRace(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	svc := s.seen(org, named("a"), catalog.RES001, true)
	for _, tc := range []struct {
		name          string
		stored, saved assay.InsightStatus
		want          assay.InsightStatus
	}{
		{"muted meanwhile, active before", assay.InsightMuted, assay.InsightActive, assay.InsightMuted},
		{"muted meanwhile, archived before", assay.InsightMuted, assay.InsightArchived, assay.InsightMuted},
		{"muted all along", assay.InsightMuted, assay.InsightMuted, assay.InsightMuted},
		{"unmuted meanwhile, failing", assay.InsightActive, assay.InsightMuted, assay.InsightActive},
		{"unmuted meanwhile, not failing", assay.InsightArchived, assay.InsightMuted, assay.InsightArchived},
		{"never muted", assay.InsightActive, assay.InsightArchived, assay.InsightArchived},
	} {
		in := newInsight(org, svc, catalog.RES001)
		if tc.stored == assay.InsightMuted {
			s.insight(org, svc, catalog.RES001)
			require.NoError(t, s.MuteInsight(ctx, in.ID, "because"))
		} else {
			require.NoError(t, s.UnmuteInsight(ctx, in.ID))
			in.Status = tc.stored
			require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{in}}}))
		}
		in.Status, in.MuteReason, in.TraceID = tc.saved, "stale", "00"
		require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{in}}}))
		got := must(s.FindInsightByID(ctx, org, in.ID))(t)
		require.Equal(t, tc.want, got.Status, tc.name)
		require.Equal(t, "00", got.TraceID, "%s: the evidence is stored all the same", tc.name)
		reason := ""
		if tc.want == assay.InsightMuted {
			reason = "because"
		}
		require.Equal(t, reason, got.MuteReason, tc.name)
	}
}

func (s *suite) TestUnmute(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	hour := bucket(epoch)
	fail := s.seen(org, named("failing"), catalog.RES001, true)
	fine := s.seen(org, named("fine"), catalog.RES001, false)
	for _, k := range []assay.ServiceKey{named("failing"), named("fine")} {
		s.commit(claim(org, k, catalog.MET003, uint64(len(k.Name)), 1, hour))
		s.commit(claim(org, k, catalog.RES002, uint64(len(k.Name)), 1, hour))
	}
	s.commit(claim(org, named("third"), catalog.MET003, uint64(len("failing")), 2, hour))
	s.commit(claim(org, named("failing"), catalog.RES002, uint64(len("failing")), 2, hour))
	for day := range uint64(15) {
		s.commit(claim(org, named("failing"), catalog.LOG001, delta.KeyDebugDay, day, hour))
		s.commit(claim(org, named("fine"), catalog.LOG001, delta.KeyLogDay, day, hour))
		if day > 0 {
			s.commit(claim(org, named("fine"), catalog.LOG001, delta.KeyDebugDay, day, hour))
		}
	}
	for _, r := range []catalog.Rule{catalog.RES001, catalog.MET003, catalog.RES002, catalog.LOG001} {
		for svc, want := range map[string]assay.InsightStatus{fail: assay.InsightActive, fine: assay.InsightArchived} {
			in := s.insight(org, svc, r)
			require.NoError(t, s.MuteInsight(ctx, in.ID, "because"))
			s.scored(org)
			s.clock.advance(time.Minute)
			require.NoError(t, s.UnmuteInsight(ctx, in.ID))
			got := must(s.FindInsightByID(ctx, org, in.ID))(t)
			require.Equal(t, want, got.Status, r.ID())
			require.Empty(t, got.MuteReason)
			require.Equal(t, micro(s.clock.now()), got.UpdatedAt)
			require.Equal(t, []string{svc}, s.unscored(org), "it is scored in the next round")
			s.clock.advance(time.Minute)
			require.NoError(t, s.UnmuteInsight(ctx, in.ID))
			require.Equal(t, got, must(s.FindInsightByID(ctx, org, in.ID))(t), "it is not muted any more")
		}
	}
	// Claims outside the window are not a failure.
	in := s.insight(org, fail, catalog.MET003)
	s.expire(hour-30*24*3600, hour+3600)
	unmuted := func() assay.InsightStatus {
		t.Helper()
		require.NoError(t, s.MuteInsight(ctx, in.ID, ""))
		require.NoError(t, s.UnmuteInsight(ctx, in.ID))
		got := must(s.FindInsightByID(ctx, org, in.ID))(t)
		return got.Status
	}
	require.Equal(t, assay.InsightArchived, unmuted())
	s.commit(claim(org, named("failing"), catalog.MET003, 7, 1, hour)) // too late
	s.commit(claim(org, named("third"), catalog.MET003, 7, 2, hour+3600))
	require.Equal(t, assay.InsightArchived, unmuted())
	s.commit(claim(org, named("failing"), catalog.MET003, 8, 1, hour+3600))
	s.commit(claim(org, named("third"), catalog.MET003, 8, 2, hour)) // too late
	require.Equal(t, assay.InsightArchived, unmuted())
	s.commit(claim(org, named("third"), catalog.MET003, 8, 2, hour+3600))
	require.Equal(t, assay.InsightActive, unmuted())
}

// TestFindInsights compares pages with a plain filter and sort, for all filters,
// sorts and directions, over insights with many ties.
func (s *suite) TestFindInsights(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	rules := []catalog.Rule{catalog.RES001, catalog.RES005, catalog.SPA001, catalog.SDK001, catalog.MET001, catalog.MET008, catalog.LOG001, catalog.LOG003, catalog.DefaultServiceName}
	var all []*assay.Insight
	for o, id := range []string{org, other} {
		for i := range 4 {
			key := named(fmt.Sprint(i))
			svc := s.seen(id, key, catalog.RES001, true)
			var results []*assay.Insight
			for j, r := range rules {
				n := i*len(rules) + j + o
				in := newInsight(id, svc, r)
				in.Status = []assay.InsightStatus{assay.InsightActive, assay.InsightArchived}[n%2]
				in.CreatedAt = micro(epoch.Add(time.Duration(n%3) * time.Second))
				in.DetectedAt = micro(epoch.Add(time.Duration(n%4) * time.Second))
				in.UpdatedAt = micro(epoch.Add(time.Duration(n%5) * time.Second))
				results = append(results, in)
			}
			require.NoError(t, s.SaveScores(ctx, delta.Fence{}, id, []delta.Result{{ServiceID: svc, Revision: 1, Insights: results}}))
			require.NoError(t, s.MuteInsight(ctx, results[i].ID, "muted"))
			for _, in := range results {
				got := must(s.FindInsightByID(ctx, id, in.ID))(t)
				all = append(all, got)
			}
		}
	}
	want := func(f assay.InsightFilter) []string {
		return lists.Map(selection.Insights(all, &f), func(in *assay.Insight) string { return in.ID })
	}
	filters := []assay.InsightFilter{
		{OrganizationID: org},
		{},
		{OrganizationID: unknownID},
		{OrganizationID: org, ServiceID: delta.ServiceID(org, named("1"))},
		{OrganizationID: org, ServiceID: delta.ServiceID(other, named("1"))},
		{OrganizationID: org, ServiceID: unknownID},
		{OrganizationID: org, Statuses: []assay.InsightStatus{assay.InsightActive}},
		{OrganizationID: org, Statuses: []assay.InsightStatus{assay.InsightMuted, assay.InsightArchived}},
		{OrganizationID: org, Signal: assay.SignalMetric},
		{OrganizationID: org, Impacts: []assay.Impact{assay.ImpactCritical, assay.ImpactLow}},
		{OrganizationID: org, Type: catalog.MET008.Info().Name, Statuses: []assay.InsightStatus{assay.InsightActive}},
		{OrganizationID: org, Type: catalog.SPA001.Info().Name, Impacts: []assay.Impact{assay.ImpactCritical}},
		{OrganizationID: org, Type: "of_another_version"},
		{Type: catalog.RES001.Info().Name},
		{OrganizationID: org, CreatedFrom: micro(epoch.Add(time.Second))},
		{OrganizationID: org, CreatedTo: micro(epoch.Add(time.Second))},
		{OrganizationID: org, CreatedFrom: micro(epoch.Add(time.Second)), CreatedTo: micro(epoch.Add(time.Second))},
		{
			OrganizationID: org, Statuses: []assay.InsightStatus{assay.InsightActive, assay.InsightArchived}, Signal: assay.SignalTrace,
			Impacts: []assay.Impact{assay.ImpactCritical, assay.ImpactNormal}, CreatedFrom: micro(epoch), CreatedTo: micro(epoch.Add(time.Second)),
		},
		{Statuses: []assay.InsightStatus{assay.InsightActive}, Signal: assay.SignalLog},
	}
	for i, f := range filters {
		for _, sort := range []assay.InsightSort{"", assay.SortCreatedAt, assay.SortDetectedAt, assay.SortUpdatedAt, assay.SortImpact, assay.SortSignal} {
			for _, f.Descending = range []bool{false, true} {
				f.Sort = sort
				expected := want(f)
				for _, size := range []int{7, 16, 1000} { // also pages in and around the middle, and cut off by the end
					got := paged(t, size, len(expected), func(p assay.Page) ([]*assay.Insight, int, error) {
						f.Page = p
						return s.FindInsights(ctx, f)
					})
					require.Equal(t, expected, lists.Map(got, func(in *assay.Insight) string { return in.ID }), "filter %d sort %q descending %v pages of %d", i, sort, f.Descending, size)
				}
			}
		}
	}
	page, _ := must2(s.FindInsights(ctx, assay.InsightFilter{OrganizationID: org, Page: assay.Page{Limit: 1}}))(t)
	require.Equal(t, must(s.FindInsightByID(ctx, org, page[0].ID))(t), page[0])
	code(t, assay.CodeInvalid, errOf3(s.FindInsights(ctx, assay.InsightFilter{OrganizationID: org, Sort: "name", Page: assay.Page{Limit: 1}})))
}
