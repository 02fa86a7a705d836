// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// records is a delta with log records of one severity.
func records(org string, severity assay.Severity, n uint64) *delta.Delta {
	d := new(delta.Delta)
	d.Organization(org).LogRecords[severity] = n
	return d
}

func testLogRecords(t *testing.T, s *suite) {
	counted := func(st Store) map[string]assay.SeverityCounts {
		t.Helper()
		got, err := st.LogRecords(s.ctx())
		require.NoError(t, err)
		return got
	}
	a, b, silent := s.organization(), s.organization(), s.organization()
	s.seen(silent, named("a"), catalog.RES001, false)
	require.Empty(t, counted(s))

	// Whatever the handle and the group, all of it is there.
	other := s.handle()
	want := make(map[string]assay.SeverityCounts)
	for i := range uint64(6) {
		group := new(delta.Delta)
		for severity := range assay.SeverityCount {
			for org, n := range map[string]uint64{a: i + 1, b: uint64(severity) << 40} {
				group.Merge(records(org, severity, n))
				counts := want[org]
				counts[severity] += n
				want[org] = counts
			}
		}
		st := []Store{s, other}[i%2]
		require.NoError(t, st.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return group }))
		require.Equal(t, want, counted(s))
	}

	// What a failed commit added is not there, and an expiry takes nothing away.
	d := records(a, assay.SeverityInfo, 5)
	d.Merge(records(unknownID, assay.SeverityInfo, 5))
	code(t, assay.CodeNotFound, s.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return d }))
	s.clock.advance(200 * 24 * time.Hour)
	now := bucket(s.clock.now())
	s.expire(now, now)
	require.Equal(t, want, counted(s))
	require.ElementsMatch(t, []string{a, b}, slices.Collect(maps.Keys(counted(s))))

	require.NoError(t, other.Close())
	require.NoError(t, s.Store.Close())
	s.Store = s.handle()
	require.Equal(t, want, counted(s), "after a restart")
}

// usage returns what an organization's services sent, by service id.
func (s *suite) usage(org string) map[string]*assay.ServiceUsage {
	s.t.Helper()
	found, err := s.FindUsage(s.ctx(), org)
	require.NoError(s.t, err)
	byID := make(map[string]*assay.ServiceUsage, len(found))
	for _, u := range found {
		byID[u.Service.ID] = u
	}
	require.Len(s.t, byID, len(found))
	return byID
}

func testUsage(t *testing.T, s *suite) {
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
	want := func(id string, key assay.ServiceKey, items uint64, insights ...assay.InsightUsage) *assay.ServiceUsage {
		return &assay.ServiceUsage{
			Service: assay.Service{ID: id, OrganizationID: org, ServiceKey: key, FirstSeenAt: micro(epoch), LastSeenAt: micro(epoch)},
			Traces:  assay.SignalUsage{Items: items, Bytes: 2 * items}, Metrics: assay.SignalUsage{Items: 3 * items, Bytes: 4 * items},
			Logs: assay.SignalUsage{Items: 5 * items, Bytes: 6 * items}, Insights: insights,
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
	require.NoError(t, s.SaveScores(s.ctx(), org, []delta.Result{{ServiceID: a, Insights: []*assay.Insight{archived}}}))
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

	// What leaves the window is not usage any more.
	s.expire(hour, hour)
	got = s.usage(org)
	require.NotContains(t, got, b)
	require.Equal(t, want(a, shop, 1).Traces, got[a].Traces)
	require.Equal(t, want(over, overflow, 100), got[over])
	s.expire(hour+3600, hour+3600)
	require.Empty(t, s.usage(org))
}
