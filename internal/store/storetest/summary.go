// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

func (s *suite) TestSummaries(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	svc := s.seen(org, named("a"), catalog.RES001, true)
	in := s.insight(org, svc, catalog.RES001)
	sibling := s.insight(org, svc, catalog.RES005)
	key := assay.SummaryKey{OrganizationID: org, InsightID: in.ID, Evidence: [32]byte{1}, Model: "m", PromptVersion: 1}
	want := &assay.InsightSummary{InsightID: in.ID, Content: "## Why\n\nä \U0001F600 `<x>`", Model: "m", GeneratedAt: micro(epoch), Cached: true}
	missing := func(k assay.SummaryKey) {
		t.Helper()
		code(t, assay.CodeNotFound, errOf(s.FindSummary(ctx, k)))
	}
	missing(key)
	require.NoError(t, s.SaveSummary(ctx, key, &assay.InsightSummary{InsightID: in.ID, Content: want.Content, Model: "m", GeneratedAt: epoch}))
	require.Equal(t, want, must(s.FindSummary(ctx, key))(t))

	with := func(change func(*assay.SummaryKey)) assay.SummaryKey {
		k := key
		change(&k)
		return k
	}
	for _, k := range []assay.SummaryKey{
		with(func(k *assay.SummaryKey) { k.Evidence[31] = 1 }),
		with(func(k *assay.SummaryKey) { k.Model = "M" }),
		with(func(k *assay.SummaryKey) { k.PromptVersion = 2 }),
		with(func(k *assay.SummaryKey) { k.OrganizationID = other }),
		with(func(k *assay.SummaryKey) { k.OrganizationID = "" }),
		with(func(k *assay.SummaryKey) { k.InsightID = sibling.ID }),
		with(func(k *assay.SummaryKey) { k.InsightID = "x" }),
	} {
		missing(k)
	}
	for _, k := range []assay.SummaryKey{
		with(func(k *assay.SummaryKey) { k.OrganizationID = other }),
		with(func(k *assay.SummaryKey) { k.InsightID = unknownID }),
		with(func(k *assay.SummaryKey) { k.InsightID = "x" }),
	} {
		code(t, assay.CodeInsightNotFound, s.SaveSummary(ctx, k, want))
	}

	// An insight has one summary: a new one replaces it.
	changed := with(func(k *assay.SummaryKey) { k.Evidence[0], k.Model, k.PromptVersion = 2, "n", 2 })
	newer := &assay.InsightSummary{InsightID: in.ID, Content: "newer", Model: "n", GeneratedAt: micro(epoch.Add(time.Hour)), Cached: true}
	require.NoError(t, s.SaveSummary(ctx, changed, newer))
	missing(key)
	require.NoError(t, s.SaveSummary(ctx, with(func(k *assay.SummaryKey) { k.InsightID = sibling.ID }), want))
	require.Equal(t, newer, must(s.handle().FindSummary(ctx, changed))(t))
	require.EqualValues(t, 2, s.rows()["summaries"])

	// The summary stays when the insight changes, and is deleted with the insight.
	again := newInsight(org, svc, catalog.RES001)
	again.Status = assay.InsightArchived
	require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{again}}}))
	require.Equal(t, newer, must(s.FindSummary(ctx, changed))(t))
	s.clock.advance(365 * 24 * time.Hour)
	now := bucket(s.clock.now())
	s.expire(now-10*24*3600, now-10*24*3600)
	require.Zero(t, s.rows()["insights"])
	require.Zero(t, s.rows()["summaries"])
	missing(changed)
	code(t, assay.CodeInsightNotFound, s.SaveSummary(ctx, changed, newer))
}

func (s *suite) TestSummaryCalls(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	day := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
	take := func(org string, at time.Time, limit int) bool {
		t.Helper()
		return must(s.TakeSummaryCall(ctx, org, at, limit))(t)
	}
	require.False(t, take(org, day, 0))
	require.True(t, take(org, day, 2))
	require.True(t, take(org, day.Add(24*time.Hour-time.Nanosecond), 2), "the same day to its end")
	require.False(t, take(org, day.Add(time.Hour).In(time.FixedZone("", -8*3600)), 2), "the day is UTC's")
	require.True(t, take(org, day, 3), "a refused call does not count")
	require.False(t, take(org, day, 3))
	require.True(t, take(other, day, 1), "each organization has its own")

	// A replica with a clock slightly ahead does not delete the day of the others.
	require.True(t, take(org, day.Add(24*time.Hour), 1))
	require.False(t, take(org, day.Add(24*time.Hour), 1))
	require.False(t, take(org, day, 3))
	for n := range 10 {
		require.True(t, take(org, day.AddDate(0, 0, 10+n), 1))
	}
	require.EqualValues(t, 2+1, s.rows()["summary_calls"], "two days and the other organization's")

	code(t, assay.CodeNotFound, errOf(s.TakeSummaryCall(ctx, unknownID, day, 1)))

	// Concurrent callers on two handles share the remaining calls.
	const limit, callers = 7, 20
	require.Equal(t, limit, s.race(callers, "", func(_ int, st Store) (bool, error) {
		return st.TakeSummaryCall(ctx, other, day.AddDate(1, 0, 0), limit)
	}))
}
