// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// benchRules is the number of evaluated rules per service of the benchmarks. Every fourth fails.
const benchRules = 20

// load is the telemetry of a number of services in one group of requests: counts of all
// rules, usage, and for a failing rule an example and an item.
func load(org string, services, round int, at time.Time) *delta.Delta {
	d := new(delta.Delta)
	b := delta.BucketOf(uint64(at.UnixNano()), time.Hour)
	o := d.Organization(org)
	for i := range services {
		f := o.Service(assay.ServiceKey{Namespace: "shop", Name: fmt.Sprintf("service-%d", i), Environment: "production", Version: "1.2.3"})
		f.Seen(uint64(at.UnixNano()))
		resource := fmt.Sprintf(`{"service.name":"service-%d","k8s.pod.name":"pod-%d","padding":"%0500d"}`, i, i, i)
		for r := range benchRules {
			c := delta.Count{Observed: 100}
			if r%4 == 0 {
				c.Failed = 3
				f.AddExample(catalog.Rule(r), &delta.Example{TimeUnixNano: uint64(at.UnixNano()) + uint64(round), ResourceAttributes: resource})
				f.AddItem(delta.Item{Rule: catalog.Rule(r), List: delta.AttributeKeys, Text: fmt.Sprintf("attribute.%d", round%20)}, b)
			}
			f.Counts(b)[r].Add(c)
		}
		for s := range delta.SignalCount {
			f.AddUsage(b, s, delta.Usage{Items: 100, Bytes: 20_000})
		}
	}
	return d
}

func benchStore(b *testing.B) (*Store, string) {
	s := open(b, Config{Path: filepath.Join(b.TempDir(), "assay.db"), Migrate: true})
	return s, organization(b, s, "bench")
}

func BenchmarkCommit(b *testing.B) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, services := range []int{1, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			s, org := benchStore(b)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for round := 0; b.Loop(); round++ {
				request := delta.Request{OrganizationID: org, Hash: uuid.New()}
				require.NoError(b, s.Commit(ctx, at, []delta.Request{request}, func([]bool) *delta.Delta { return load(org, services, round, at) }))
			}
		})
	}
	// At the start of an hour, every claim moves and every set is new.
	b.Run("services=100/claims=200/sets=200", func(b *testing.B) {
		s, org := benchStore(b)
		for round := 0; b.Loop(); round++ {
			hour := at.Add(time.Duration(round) * time.Hour)
			last := delta.BucketOf(uint64(hour.UnixNano()), time.Hour)
			d := load(org, 100, round, hour)
			for _, f := range d.Organizations[org].Services {
				for m := range uint64(100) {
					text := fmt.Sprintf("http.server.metric.%d", m)
					for _, r := range []catalog.Rule{catalog.MET003, catalog.MET004} {
						f.AddClaim(delta.Claim{Rule: r, Key: delta.Hash128{High: 1, Low: delta.HashString(text)}, Value: 1}, delta.ClaimFact{Last: last, KeyText: text, ValueText: "ms"})
					}
					for a := range uint64(2) {
						f.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Hour: int64(last), Key: delta.Mix(m, a)}, last, 10_000, text, "key").Add(a)
					}
				}
			}
			require.NoError(b, s.Commit(b.Context(), hour, nil, func([]bool) *delta.Delta { return d }))
		}
	})
}

func BenchmarkFindServices(b *testing.B) {
	s, org := benchStore(b)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return load(org, 2000, 0, at) }))
	for _, offset := range []int{0, 1900} {
		b.Run(fmt.Sprintf("services=2000/offset=%d", offset), func(b *testing.B) {
			for b.Loop() {
				page, total, err := s.FindServices(b.Context(), org, assay.Page{Limit: 50, Offset: offset})
				require.NoError(b, err)
				require.Len(b, page, 50)
				require.Equal(b, 2000, total)
			}
		})
	}
}

func BenchmarkFindInsights(b *testing.B) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, n := range []struct{ services, perService int }{{2000, 5}, {4000, 25}} {
		s, org := benchStore(b)
		fillInsights(b, s, org, n.services, n.perService, at)
		active := []assay.InsightStatus{assay.InsightActive}
		for _, q := range []struct {
			name   string
			filter assay.InsightFilter
		}{
			{"default", assay.InsightFilter{}},
			{"newest-active", assay.InsightFilter{Statuses: active, Descending: true}},
			{"by-impact", assay.InsightFilter{Sort: assay.SortImpact, Descending: true}},
			{"rare", assay.InsightFilter{Impacts: []assay.Impact{assay.ImpactLow}, Signal: assay.SignalLog}},
			{"dates", assay.InsightFilter{CreatedFrom: at, CreatedTo: at.Add(24 * time.Hour)}},
			{"one-service", assay.InsightFilter{ServiceID: delta.ServiceID(org, assay.ServiceKey{Namespace: "shop", Name: "service-1", Environment: "production", Version: "1.2.3"})}},
			{"deep", assay.InsightFilter{Page: assay.Page{Offset: n.services*n.perService - 100}}},
		} {
			b.Run(fmt.Sprintf("insights=%d/%s", n.services*n.perService, q.name), func(b *testing.B) {
				q.filter.OrganizationID, q.filter.Page.Limit = org, 50
				for b.Loop() {
					_, _, err := s.FindInsights(b.Context(), q.filter)
					require.NoError(b, err)
				}
			})
		}
	}
}

func fillInsights(b *testing.B, s *Store, org string, services, perService int, at time.Time) {
	d := load(org, services, 0, at)
	require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return d }))
	var results []delta.Result
	for key := range d.Organizations[org].Services {
		id := delta.ServiceID(org, key)
		r := delta.Result{ServiceID: id, Revision: 1}
		for rule := range catalog.Rule(perService) {
			n := len(results)*perService + int(rule)
			r.Insights = append(r.Insights, &assay.Insight{
				ID: delta.InsightID(id, rule.Info().Name), Type: rule.Info().Name,
				Status:    []assay.InsightStatus{assay.InsightActive, assay.InsightArchived}[n%2],
				CreatedAt: at.Add(time.Duration(n%1000) * time.Minute), DetectedAt: at, UpdatedAt: at, TelemetryAt: at,
				TraceID: "0102030405060708090a0b0c0d0e0f10",
				Attributes: map[string]any{
					"signal_type": "TRACES", "observations_total": int64(100), "violations_total": int64(3),
					"resource_attributes": fmt.Sprintf(`{"padding":"%0500d"}`, n),
				},
			})
		}
		results = append(results, r)
	}
	for len(results) > 0 {
		n := min(500, len(results))
		require.NoError(b, s.SaveScores(b.Context(), delta.Fence{}, org, results[:n]))
		results = results[n:]
	}
}

// BenchmarkScoring is the scorer's use of the store after all services of an organization
// sent telemetry.
func BenchmarkScoring(b *testing.B) {
	s, org := benchStore(b)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	fillInsights(b, s, org, 2000, 5, at)
	hour := delta.BucketOf(uint64(at.UnixNano()), time.Hour)
	d := load(org, 2000, 0, at)
	for _, f := range d.Organizations[org].Services {
		for m := range uint64(200) {
			f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: delta.Mix(1, m)}, Value: 1}, delta.ClaimFact{Last: hour, KeyText: "http.server.metric", ValueText: "ms"})
		}
	}
	require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return d }))
	ids, err := s.UnscoredServices(b.Context(), org, true)
	require.NoError(b, err)
	require.Len(b, ids, 2000)
	b.Run("facts=500", func(b *testing.B) {
		for b.Loop() {
			fs, err := s.Facts(b.Context(), org, ids[:500], 0)
			require.NoError(b, err)
			require.Len(b, fs, 500)
		}
	})
	b.Run("save=500", func(b *testing.B) {
		fs, err := s.Facts(b.Context(), org, ids[:500], 0)
		require.NoError(b, err)
		for round := 0; b.Loop(); round++ {
			var results []delta.Result
			for _, f := range fs {
				for _, in := range f.Insights {
					in.UpdatedAt = at.Add(time.Duration(round) * time.Minute)
				}
				results = append(results, delta.Result{ServiceID: f.Service.ID, Revision: f.Revision, NewRow: true, Insights: f.Insights, Score: &assay.Score{
					ID: uuid.NewString(), Value: 50, EvaluatedRuleIDs: []string{"RES-001"}, CalculatedAt: at.Add(time.Duration(round) * time.Minute), CreatedAt: at,
				}})
			}
			require.NoError(b, s.SaveScores(b.Context(), delta.Fence{}, org, results))
		}
	})
	b.Run("claims=400000", func(b *testing.B) {
		for b.Loop() {
			counts, err := delta.CountClaims(b.Context(), s.ClaimCounter(org, catalog.MET003, hour))
			require.NoError(b, err)
			require.Len(b, counts, 2000)
		}
	})
	b.Run("mean", func(b *testing.B) {
		for b.Loop() {
			_, _, err := s.OrganizationMean(b.Context(), org)
			require.NoError(b, err)
		}
	})
}

// BenchmarkExpire expires one hour of 2,000 services.
func BenchmarkExpire(b *testing.B) {
	s, org := benchStore(b)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for b.Loop() {
		b.StopTimer()
		require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return load(org, 2000, 0, at) }))
		at = at.Add(time.Hour)
		hour := delta.BucketOf(uint64(at.UnixNano()), time.Hour)
		b.StartTimer()
		require.NoError(b, s.Expire(b.Context(), at.Add(assay.DefaultWindow), hour, hour))
	}
}

// BenchmarkLeases renews and lists the leases of a replica of ten thousand organizations.
func BenchmarkLeases(b *testing.B) {
	s, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "assay.db"), Migrate: true})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	names := make([]string, 10_000)
	for i := range names {
		names[i] = "score:" + uuid.NewString()
	}
	b.Run("renew", func(b *testing.B) {
		for b.Loop() {
			held, _, err := s.AcquireLeases(b.Context(), "holder", names, time.Minute)
			require.NoError(b, err)
			require.Len(b, held, len(names))
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			listed, err := s.LeaseNames(b.Context(), "")
			require.NoError(b, err)
			require.Len(b, listed, len(names))
		}
	})
}
