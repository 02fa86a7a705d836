// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// usage returns the usage of an organization's services by id.
func (s *suite) usage(org string) map[string]*assay.ServiceUsage {
	s.t.Helper()
	found := must(s.FindUsage(s.ctx(), org))(s.t)
	byID := make(map[string]*assay.ServiceUsage, len(found))
	for _, u := range found {
		byID[u.Service.ID] = u
	}
	require.Len(s.t, byID, len(found))
	return byID
}

func (s *suite) TestUsage(t *testing.T) {
	org := s.organization()
	hour := bucket(epoch)
	send := func(key assay.ServiceKey, b delta.Bucket, items uint64) string {
		s.commit(one(org, key, func(f *delta.Service) {
			f.Seen(uint64(epoch.UnixNano()))
			f.AddUsage(b, delta.Traces, delta.Usage{Items: items, Bytes: 2 * items})
			f.AddUsage(b, delta.Metrics, delta.Usage{Items: 3 * items, Bytes: 4 * items})
			f.AddUsage(b, delta.Logs, delta.Usage{Items: 5 * items, Bytes: 6 * items})
			f.Counts(b)[catalog.RES001].Add(delta.Count{Observed: 7 * items, Failed: items})
			f.Counts(b)[catalog.SPA002].Add(delta.Count{Observed: items, Failed: 1})
		}))
		return delta.ServiceID(org, key)
	}
	want := func(id string, key assay.ServiceKey, items uint64) *assay.ServiceUsage {
		return &assay.ServiceUsage{
			Service: assay.Service{ID: id, OrganizationID: org, ServiceKey: key, FirstSeenAt: micro(epoch), LastSeenAt: micro(epoch)},
			Traces:  assay.SignalUsage{Items: items, Bytes: 2 * items}, Metrics: assay.SignalUsage{Items: 3 * items, Bytes: 4 * items},
			Logs: assay.SignalUsage{Items: 5 * items, Bytes: 6 * items},
		}
	}
	require.Empty(t, s.usage(org))
	require.Empty(t, s.usage(unknownID))
	require.Empty(t, s.usage("x"))

	shop := assay.ServiceKey{Namespace: "shop", Name: "cart", Environment: "prod", Version: "1.2"}
	overflow := named(assay.OverflowService)
	a, b, over := send(shop, hour, 1), send(named("b"), hour-3600, 10), send(overflow, hour, 100)
	send(shop, hour-3600, 4)
	silent := s.seen(org, named("silent"), catalog.RES001, true)
	s.insight(org, silent, catalog.RES001)
	require.Equal(t, map[string]*assay.ServiceUsage{a: want(a, shop, 5), b: want(b, named("b"), 10), over: want(over, overflow, 100)}, s.usage(org))

	// Insights count while they are active.
	muted := s.insight(org, a, catalog.SPA002)
	require.NoError(t, s.MuteInsight(s.ctx(), muted.ID, "known"))
	archived := newInsight(org, a, catalog.MET002)
	archived.Status = assay.InsightArchived
	require.NoError(t, s.SaveScores(s.ctx(), delta.Fence{}, org, []delta.Result{{ServiceID: a, Insights: []*assay.Insight{archived}}}))
	s.insight(org, a, catalog.RES001)
	s.insight(org, b, catalog.LOG001)
	s.insight(org, b, catalog.RES001)
	for day := range uint64(3) {
		s.commit(claim(org, named("b"), catalog.LOG001, delta.KeyLogDay, day, hour))
	}
	s.commit(claim(org, named("b"), catalog.LOG001, delta.KeyDebugDay, 1, hour))
	s.commit(claim(org, shop, catalog.LOG001, delta.KeyLogDay, 1, hour))
	counted := func(r catalog.Rule, observed, failed uint64) assay.InsightUsage {
		return assay.InsightUsage{Type: r.Info().Name, Observed: observed, Failed: failed}
	}
	got := s.usage(org)
	require.Equal(t, []assay.InsightUsage{counted(catalog.RES001, 35, 5)}, got[a].Insights)
	require.ElementsMatch(t, []assay.InsightUsage{counted(catalog.LOG001, 3, 1), counted(catalog.RES001, 70, 10)}, got[b].Insights)
	require.NoError(t, s.UnmuteInsight(s.ctx(), muted.ID))
	require.ElementsMatch(t, []assay.InsightUsage{counted(catalog.RES001, 35, 5), counted(catalog.SPA002, 5, 2)}, s.usage(org)[a].Insights)

	// Usage outside the window does not count.
	s.expire(hour, hour)
	got = s.usage(org)
	require.NotContains(t, got, b)
	require.Equal(t, want(a, shop, 1).Traces, got[a].Traces)
	require.Equal(t, want(over, overflow, 100), got[over])
	s.expire(hour+3600, hour+3600)
	require.Empty(t, s.usage(org))
}

// seriesOf is a delta with the metric series from to to, last seen in a bucket, and their usage.
func seriesOf(org string, k assay.ServiceKey, b delta.Bucket, from, to uint64) *delta.Delta {
	return one(org, k, func(f *delta.Service) {
		f.AddUsage(b, delta.Metrics, delta.Usage{Items: to - from, Bytes: 1})
		for v := from; v < to; v++ {
			f.Series.Add(delta.Mix(v, 3), b)
		}
	})
}

func (s *suite) TestSeries(t *testing.T) {
	org, other := s.organization(), s.organization()
	hour := bucket(epoch)
	a, b := delta.ServiceID(org, named("a")), delta.ServiceID(org, named("b"))
	active := func(id string) uint64 {
		t.Helper()
		u := s.usage(org)[id]
		require.NotNil(t, u)
		return u.ActiveSeries
	}
	handles := []Store{s.Store, s.handle()}
	for i, d := range []*delta.Delta{
		seriesOf(org, named("a"), hour-7200, 0, 10), seriesOf(org, named("a"), hour, 5, 15), seriesOf(org, named("a"), hour-3600, 14, 20),
		seriesOf(org, named("b"), hour, 0, 7), seriesOf(other, named("a"), hour, 0, 99), seriesOf(org, named("quiet"), hour, 0, 0),
	} {
		require.NoError(t, handles[i%2].Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return d }))
	}
	require.EqualValues(t, 20, active(a))
	require.EqualValues(t, 7, active(b))
	require.Zero(t, active(delta.ServiceID(org, named("quiet"))))

	// Known series change nothing, including the services to score.
	s.scored(org)
	s.commit(one(org, named("a"), func(f *delta.Service) { f.Series.Add(delta.Mix(7, 3), hour) }))
	require.Empty(t, s.unscored(org))
	require.EqualValues(t, 20, active(a))

	// Series expire with the bucket in which they were last seen, and may return.
	s.expire(hour-3600, hour-3600)
	require.EqualValues(t, 15, active(a))
	s.expire(hour, hour)
	require.EqualValues(t, 10, active(a))
	require.EqualValues(t, 7, active(b))
	s.commit(seriesOf(org, named("a"), hour+3600, 0, 6))
	require.EqualValues(t, 15, active(a))
	s.expire(hour+3600, hour+3600)
	require.EqualValues(t, 6, active(a))
	require.NotContains(t, s.usage(org), b)
	require.EqualValues(t, 1, s.rows()["series"])

	// Large numbers are estimates within a few percent, also in parts, and decrease again.
	for part := range uint64(5) {
		s.commit(seriesOf(org, named("a"), hour+3600, 4000*part, 4000*part+6000))
	}
	require.InEpsilon(t, 22_000, active(a), 0.065)
	s.commit(seriesOf(org, named("a"), hour+7200, 0, 50))
	s.expire(hour+7200, hour+7200)
	require.EqualValues(t, 50, active(a))

	// More services than one transaction reads.
	d := new(delta.Delta)
	for i := range 250 {
		d.Merge(seriesOf(org, named(fmt.Sprint(i)), hour+7200, 0, 2))
	}
	s.commit(d)
	require.EqualValues(t, 251, s.rows()["series"])
	s.expire(hour+3*3600, hour+3*3600)
	require.Zero(t, s.rows()["series"])
}
