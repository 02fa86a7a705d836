// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
)

const unknownID = "00000000-0000-4000-8000-000000000000"

func (s *suite) TestOrganizations(t *testing.T) {
	ctx := s.ctx()
	require.NoError(t, s.Ping(ctx))
	a := &assay.Organization{Name: "beta", ExternalID: "ext-1", Tier: assay.TierPro}
	require.NoError(t, s.CreateOrganization(ctx, a))
	require.Len(t, a.ID, 36)
	require.Equal(t, micro(s.clock.now()), a.CreatedAt)
	b := &assay.Organization{Name: "alpha", Tier: assay.TierFree}
	require.NoError(t, s.CreateOrganization(ctx, b))
	c := &assay.Organization{Name: "gamma", Tier: assay.TierFree}
	require.NoError(t, s.CreateOrganization(ctx, c), "two without an external id")

	code(t, assay.CodeConflict, s.CreateOrganization(ctx, &assay.Organization{Name: "beta", Tier: assay.TierFree}))
	code(t, assay.CodeConflict, s.CreateOrganization(ctx, &assay.Organization{Name: "delta", ExternalID: "ext-1", Tier: assay.TierFree}))
	code(t, assay.CodeInvalid, s.CreateOrganization(ctx, &assay.Organization{Name: "delta", Tier: "gold"}))

	require.Equal(t, a, must(s.FindOrganizationByID(ctx, a.ID))(t))
	require.Equal(t, a, must(s.FindOrganizationByName(ctx, "beta"))(t))
	for _, id := range []string{unknownID, "", "no id"} {
		code(t, assay.CodeNotFound, errOf(s.FindOrganizationByID(ctx, id)))
	}
	code(t, assay.CodeNotFound, errOf(s.FindOrganizationByName(ctx, "delta")))
	require.Equal(t, a, must(s.FindOrganizationByExternalID(ctx, "ext-1"))(t))
	for _, external := range []string{"", "ext-2", "beta"} {
		code(t, assay.CodeNotFound, errOf(s.FindOrganizationByExternalID(ctx, external)))
	}

	require.NoError(t, s.SetOrganizationExternalID(ctx, b.ID, "ext-3"))
	code(t, assay.CodeConflict, s.SetOrganizationExternalID(ctx, c.ID, "ext-3"))
	code(t, assay.CodeNotFound, s.SetOrganizationExternalID(ctx, unknownID, "ext-4"))
	require.Equal(t, b.ID, must(s.FindOrganizationByExternalID(ctx, "ext-3"))(t).ID)
	for _, none := range []string{b.ID, c.ID} {
		require.NoError(t, s.SetOrganizationExternalID(ctx, none, ""))
	}

	require.Equal(t, []*assay.Organization{b, a, c}, must(s.FindOrganizations(ctx))(t))
	require.ElementsMatch(t, []string{a.ID, b.ID, c.ID}, must(s.OrganizationIDs(ctx))(t))

	require.NoError(t, s.SetOrganizationTier(ctx, a.ID, assay.TierEnterprise))
	code(t, assay.CodeNotFound, s.SetOrganizationTier(ctx, unknownID, assay.TierPro))
	code(t, assay.CodeInvalid, s.SetOrganizationTier(ctx, a.ID, "gold"))
	score, at := 63.855421686746988, epoch.Add(time.Minute)
	require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, a.ID, &score, at))
	code(t, assay.CodeNotFound, s.SaveOrganizationScore(ctx, delta.Fence{}, unknownID, &score, at))
	got := must(s.FindOrganizationByID(ctx, a.ID))(t)
	require.Equal(t, assay.TierEnterprise, got.Tier)
	require.Equal(t, &score, got.Score)
	require.Equal(t, micro(at), got.ScoreUpdatedAt)
	for later, kept := range map[time.Duration]time.Duration{time.Second: 0, time.Hour: time.Hour} {
		require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, a.ID, &score, at))
		require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, a.ID, &score, at.Add(later)))
		require.Equal(t, micro(at.Add(kept)), must(s.FindOrganizationByID(ctx, a.ID))(t).ScoreUpdatedAt, "the same score keeps its time for an hour")
	}
	require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, a.ID, nil, at))
	got = must(s.FindOrganizationByID(ctx, a.ID))(t)
	require.Nil(t, got.Score)
	require.Zero(t, got.ScoreUpdatedAt)
}

func (s *suite) TestAPIKeys(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	newKey := func(id, org string) *assay.APIKey {
		k := &assay.APIKey{ID: id, OrganizationID: org, Name: "name of " + id, Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeIngest}}
		copy(k.Hash[:], "hash of "+id)
		return k
	}
	a := newKey("bbbbbb", org)
	a.ExpiresAt, a.CreatedBy = micro(epoch.Add(time.Hour)), "key:aaaaaa"
	require.NoError(t, s.CreateAPIKey(ctx, a, assay.APIKeyLimits{}))
	require.Equal(t, micro(s.clock.now()), a.CreatedAt)
	b := newKey("aaaaaa", other)
	b.Scopes = nil
	require.NoError(t, s.CreateAPIKey(ctx, b, assay.APIKeyLimits{}))
	s.clock.advance(-time.Hour)
	c := newKey("cccccc", org)
	require.NoError(t, s.CreateAPIKey(ctx, c, assay.APIKeyLimits{}))
	s.clock.advance(time.Hour)
	code(t, assay.CodeConflict, s.CreateAPIKey(ctx, newKey("aaaaaa", org), assay.APIKeyLimits{}))
	code(t, assay.CodeNotFound, s.CreateAPIKey(ctx, newKey("dddddd", unknownID), assay.APIKeyLimits{}))

	require.Equal(t, a, must(s.FindAPIKey(ctx, "bbbbbb"))(t))
	code(t, assay.CodeNotFound, errOf(s.FindAPIKey(ctx, "BBBBBB")))
	require.Equal(t, []*assay.APIKey{c, b, a}, must(s.FindAPIKeys(ctx, ""))(t), "by creation, then id")
	require.Equal(t, []*assay.APIKey{c, a}, must(s.FindAPIKeys(ctx, org))(t))
	require.Empty(t, must(s.FindAPIKeys(ctx, unknownID))(t))

	require.NoError(t, s.TouchAPIKey(ctx, "bbbbbb", epoch.Add(time.Minute)))
	require.NoError(t, s.TouchAPIKey(ctx, "bbbbbb", epoch))
	require.NoError(t, s.RevokeAPIKey(ctx, "bbbbbb"))
	s.clock.advance(time.Minute)
	require.NoError(t, s.RevokeAPIKey(ctx, "bbbbbb"))
	code(t, assay.CodeNotFound, s.RevokeAPIKey(ctx, "dddddd"))
	got := must(s.FindAPIKey(ctx, "bbbbbb"))(t)
	require.Equal(t, micro(epoch.Add(time.Minute)), got.LastUsedAt, "the newest")
	require.Equal(t, micro(epoch), got.RevokedAt, "the first")
}

// TestAPIKeyPrefix requires that all programs that use the store get the prefix that the first one set.
func (s *suite) TestAPIKeyPrefix(t *testing.T) {
	ctx := s.ctx()
	other := s.handle()
	prefix := func(st Store, given string) string {
		t.Helper()
		return must(st.APIKeyPrefix(ctx, given))(t)
	}
	require.Empty(t, prefix(s, ""))
	require.Empty(t, prefix(other, ""))
	got := [8]string{}
	s.race(len(got), "", func(i int, st Store) (_ bool, err error) {
		got[i], err = st.APIKeyPrefix(ctx, fmt.Sprint("p", i))
		return true, err
	})
	first := prefix(s, "")
	require.NotEmpty(t, first)
	for i := range got {
		require.Equal(t, first, got[i])
	}
	require.Equal(t, first, prefix(other, "another"))
	require.Equal(t, first, prefix(other, ""))
}

func (s *suite) TestAPIKeyPages(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	add := func(id, org string, ends time.Time) {
		k := &assay.APIKey{ID: id, OrganizationID: org, Name: id, ExpiresAt: ends}
		copy(k.Hash[:], id)
		require.NoError(t, s.CreateAPIKey(ctx, k, assay.APIKeyLimits{}))
	}
	list := func(org string, now time.Time, p assay.Page) (ids []string, total, live int) {
		t.Helper()
		page := must(s.FindAPIKeyPage(ctx, org, now, p))(t)
		for _, k := range page.Keys {
			require.Equal(t, org, k.OrganizationID)
			ids = append(ids, k.ID)
		}
		return ids, page.Total, page.Live
	}
	add("page-1", org, time.Time{})
	add("page-2", org, time.Time{})
	s.clock.advance(time.Minute)
	add("page-3", org, epoch.Add(time.Hour))
	add("page-4", org, time.Time{})
	add("page-x", other, time.Time{})
	require.NoError(t, s.RevokeAPIKey(ctx, "page-4"))

	ids, total, live := list(org, epoch.Add(time.Hour-time.Microsecond), assay.Page{Limit: 10})
	require.Equal(t, []string{"page-3", "page-2", "page-1", "page-4"}, ids)
	require.Equal(t, [2]int{4, 3}, [2]int{total, live})
	ids, total, live = list(org, epoch.Add(time.Hour), assay.Page{Limit: 10})
	require.Equal(t, []string{"page-2", "page-1", "page-4", "page-3"}, ids, "from its end on")
	require.Equal(t, [2]int{4, 2}, [2]int{total, live})
	ids, total, _ = list(org, epoch.Add(time.Hour), assay.Page{Limit: 2, Offset: 1})
	require.Equal(t, []string{"page-1", "page-4"}, ids)
	require.Equal(t, 4, total)
	ids, total, _ = list(org, epoch, assay.Page{Limit: 2, Offset: 4})
	require.Empty(t, ids)
	require.Equal(t, 4, total)
	for _, none := range []string{unknownID, ""} {
		ids, total, live = list(none, epoch, assay.Page{Limit: 2})
		require.Empty(t, ids)
		require.Zero(t, total+live)
	}
}

// TestAPIKeyLimits requires that concurrent calls create no more keys than a limit, and that revoked and expired keys
// and those of other organizations do not count as live.
func (s *suite) TestAPIKeyLimits(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	var ids atomic.Int64
	create := func(st Store, org string, ends time.Time, limits assay.APIKeyLimits) error {
		k := &assay.APIKey{ID: fmt.Sprintf("%06d", ids.Add(1)), OrganizationID: org, Name: "limited", ExpiresAt: ends}
		copy(k.Hash[:], k.ID)
		return st.CreateAPIKey(ctx, k, limits)
	}
	three := assay.APIKeyLimits{Live: 3}
	require.NoError(t, create(s.Store, other, time.Time{}, three)) // 000001
	require.NoError(t, create(s.Store, org, time.Time{}, three))
	require.NoError(t, create(s.Store, org, epoch.Add(time.Hour), three))
	require.Equal(t, 1, s.race(8, assay.CodeConflict, func(_ int, st Store) (bool, error) {
		return true, create(st, org, time.Time{}, three)
	}))
	require.ErrorIs(t, create(s.Store, org, time.Time{}, three), assay.ErrTooManyAPIKeys)
	require.NoError(t, create(s.Store, other, time.Time{}, three))
	require.NoError(t, s.RevokeAPIKey(ctx, "000002"))
	require.NoError(t, create(s.Store, org, time.Time{}, three))
	s.clock.advance(time.Hour)
	require.NoError(t, create(s.Store, org, time.Time{}, three))
	require.ErrorIs(t, create(s.Store, org, time.Time{}, three), assay.ErrTooManyAPIKeys)
	require.NoError(t, create(s.Store, org, time.Time{}, assay.APIKeyLimits{}))
	require.ErrorIs(t, create(s.Store, org, time.Time{}, assay.APIKeyLimits{All: 6}), assay.ErrTooManyAPIKeys)
	require.NoError(t, create(s.Store, org, time.Time{}, assay.APIKeyLimits{All: 7}))

	live := must(s.FindLiveAPIKeys(ctx, s.clock.now()))(t)
	count := map[string]int{}
	for _, k := range live {
		require.True(t, k.Live(s.clock.now()))
		require.Equal(t, must(s.FindAPIKey(ctx, k.ID))(t), k)
		count[k.OrganizationID]++
	}
	require.Equal(t, map[string]int{org: 5, other: 2}, count)
}

func (s *suite) TestServices(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	keys := []assay.ServiceKey{
		{Name: "a", Environment: "prod", Version: "1"},
		{Name: "a", Environment: "prod", Version: "2"},
		{Name: "a", Environment: "test", Version: "1"},
		{Name: "a", Environment: "test", Version: "1", Namespace: "shop"},
		{Name: "Z"},
		{Name: " "},
		{Name: "nul \x00 byte", Namespace: "not \xff UTF-8"},
		{Name: "ä", Version: "\U0001F600"},
	}
	for _, k := range keys {
		s.seen(org, k, catalog.RES001, false)
	}
	s.seen(s.organization(), named("foreign"), catalog.RES001, false)
	var want []string
	slices.SortFunc(keys, func(a, b assay.ServiceKey) int {
		return slices.Compare([]string{a.Name, a.Environment, a.Version, delta.ServiceID(org, a)}, []string{b.Name, b.Environment, b.Version, delta.ServiceID(org, b)})
	})
	for _, k := range keys {
		want = append(want, delta.ServiceID(org, k))
	}
	for _, size := range []int{1, 3, 100} {
		got := paged(t, size, len(keys), func(p assay.Page) ([]*assay.Service, int, error) { return s.FindServices(ctx, org, p) })
		require.Equal(t, want, lists.Map(got, func(svc *assay.Service) string { return svc.ID }), "pages of %d", size)
	}
	for _, k := range keys {
		id := delta.ServiceID(org, k)
		svc := must(s.FindServiceByID(ctx, org, id))(t)
		require.Equal(t, &assay.Service{
			ID: id, OrganizationID: org, ServiceKey: k,
			FirstSeenAt: micro(epoch.Add(-time.Hour)), LastSeenAt: micro(epoch.Add(-time.Hour)),
			CreatedAt: micro(epoch), UpdatedAt: micro(epoch),
		}, svc)
	}
	require.ElementsMatch(t, keys, must(s.KnownServices(ctx, org))(t))
	require.Equal(t, len(keys), must(s.FindOrganizationByID(ctx, org))(t).ServicesCount)

	for _, id := range []string{unknownID, "", "x"} {
		code(t, assay.CodeServiceNotFound, errOf(s.FindServiceByID(ctx, org, id)))
		page, total := must2(s.FindServices(ctx, id, assay.Page{Limit: 10}))(t)
		require.Empty(t, page)
		require.Zero(t, total)
	}
}

// TestIsolation requests the data of one organization with the id of another.
func (s *suite) TestIsolation(t *testing.T) {
	ctx := s.ctx()
	mine, theirs := s.organization(), s.organization()
	key := named("same")
	svc := s.seen(mine, key, catalog.RES001, true)
	foreign := s.seen(theirs, key, catalog.RES001, true)
	require.NotEqual(t, svc, foreign)
	in := s.insight(mine, svc, catalog.RES001)

	code(t, assay.CodeServiceNotFound, errOf(s.FindServiceByID(ctx, theirs, svc)))
	code(t, assay.CodeInsightNotFound, errOf(s.FindInsightByID(ctx, theirs, in.ID)))
	code(t, assay.CodeServiceNotFound, errOf(s.ScoreHistory(ctx, theirs, svc, time.Time{})))
	found, total := must2(s.FindInsights(ctx, assay.InsightFilter{OrganizationID: theirs, ServiceID: svc, Page: assay.Page{Limit: 10}}))(t)
	require.Empty(t, found)
	require.Zero(t, total)
	fs := must(s.Facts(ctx, theirs, []string{svc, foreign}, 0))(t)
	require.Len(t, fs, 1)
	require.Equal(t, foreign, fs[0].Service.ID)
	require.Equal(t, []string{foreign}, must(s.UnscoredServices(ctx, theirs, true))(t))

	require.NoError(t, s.SaveScores(ctx, delta.Fence{}, theirs, []delta.Result{{ServiceID: svc, Revision: 99, Score: score(1), NewRow: true}}))
	require.Nil(t, must(s.FindServiceByID(ctx, mine, svc))(t).Score, "another organization's score")
	s.commit(one(mine, key, func(f *delta.Service) { f.AddUsage(bucket(epoch), delta.Logs, delta.Usage{Items: 1, Bytes: 1}) }))
	require.Contains(t, s.usage(mine), svc)
	require.Empty(t, s.usage(theirs))
}

// insight stores an active insight of a service.
func (s *suite) insight(org, svc string, r catalog.Rule) *assay.Insight {
	s.t.Helper()
	in := newInsight(org, svc, r)
	require.NoError(s.t, s.SaveScores(s.ctx(), delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{in}}}))
	return in
}

func newInsight(org, svc string, r catalog.Rule) *assay.Insight {
	return &assay.Insight{
		ID: delta.InsightID(svc, r.Info().Name), OrganizationID: org, Service: assay.Service{ID: svc},
		Type: r.Info().Name, Status: assay.InsightActive,
		TraceID: "0102030405060708090a0b0c0d0e0f10", TelemetryAt: micro(epoch.Add(-time.Hour)),
		DetectedAt: micro(epoch), CreatedAt: micro(epoch), UpdatedAt: micro(epoch),
		Attributes: map[string]any{"signal_type": "TRACES", "violations_total": int64(1)},
	}
}

// score makes a score with an id of its own.
func score(value float64) *assay.Score {
	return &assay.Score{
		ID: uuid.NewString(), Value: value,
		EvaluatedRuleIDs: []string{"RES-001", "RES-005", "SPA-006"}, FailedRuleIDs: []string{"RES-001"},
		CalculatedAt: micro(epoch), Window: assay.DefaultWindow, CreatedAt: micro(epoch),
	}
}
