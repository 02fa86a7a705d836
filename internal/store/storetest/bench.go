// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// Contents of an organization of BenchmarkLists.
const (
	benchServices = 10_000
	benchInsights = 10 // of each service; a tenth is archived, few are muted
	benchMetrics  = 2_000
	benchHistory  = 200 // services with a score for every hour of the window
)

// BenchmarkLists measures the store's queries for pages in an organization with 10,000
// services and 100,000 insights.
func BenchmarkLists(b *testing.B, make func(t testing.TB, now func() time.Time) Opener) {
	s := newSuite(b, make)
	org := s.organization()
	began := time.Now()
	ids := s.large(org)
	b.Logf("filled in %v", time.Since(began))

	ctx := b.Context()
	series := assay.SeriesRange{Start: epoch.Add(-assay.DefaultWindow), End: epoch, Points: 30}
	production := "production"
	for _, q := range []struct {
		name   string
		filter assay.ServiceFilter
	}{
		{"name", assay.ServiceFilter{}},
		{"score", assay.ServiceFilter{Sort: assay.SortServiceScore}},
		{"last-seen", assay.ServiceFilter{Sort: assay.SortServiceLastSeen, Descending: true}},
		{"insights", assay.ServiceFilter{Sort: assay.SortServiceInsights, Descending: true}},
		{"insights-middle", assay.ServiceFilter{Sort: assay.SortServiceInsights, Descending: true, Page: assay.Page{Offset: benchServices / 2}}},
		{"search", assay.ServiceFilter{Search: "E-99"}},
		{"search-none", assay.ServiceFilter{Search: "nothing"}},
		{"filters", assay.ServiceFilter{Environment: &production, Category: "Good", Signal: assay.SignalTrace, Sort: assay.SortServiceScore, Descending: true}},
	} {
		q.filter.OrganizationID, q.filter.Page.Limit, q.filter.Series = org, 50, series
		b.Run("services/"+q.name, func(b *testing.B) {
			for b.Loop() {
				_, _, err := s.FindServiceRows(ctx, q.filter)
				require.NoError(b, err)
			}
		})
	}
	ofType := func(sort assay.InsightSort) error {
		_, _, err := s.FindInsights(ctx, assay.InsightFilter{
			OrganizationID: org, Type: catalog.RES005.Info().Name, Statuses: []assay.InsightStatus{assay.InsightActive},
			Sort: sort, Descending: true, Page: assay.Page{Limit: 50},
		})
		return err
	}
	for _, q := range []struct {
		name string
		ask  func() error
	}{
		{"environments", func() error {
			_, err := s.FindEnvironments(ctx, org, 100)
			return err
		}},
		{"versions", func() error {
			_, err := s.FindServiceVersions(ctx, org, benchKey(1), series, 20)
			return err
		}},
		{"groups", func() error {
			_, err := s.FindScoreGroups(ctx, org)
			return err
		}},
		{"types", func() error {
			_, err := s.FindInsightTypeCounts(ctx, org)
			return err
		}},
		{"organization-series", func() error {
			series.Points = 360
			_, err := s.FindOrganizationScores(ctx, org, series)
			return err
		}},
		{"history", func() error {
			_, err := s.ScoreHistory(ctx, org, ids[0], series.Start)
			return err
		}},
		{"claims", func() error {
			_, err := s.ServiceClaims(ctx, org, ids[0], 0, 0)
			return err
		}},
		{"insights-of-type/impact", func() error { return ofType(assay.SortImpact) }},
		{"insights-of-type/created", func() error { return ofType(assay.SortCreatedAt) }},
		{"insights-of-type/updated", func() error { return ofType(assay.SortUpdatedAt) }},
	} {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, q.ask())
			}
		})
	}
}

// benchKey is one of two versions of a service.
func benchKey(i int) assay.ServiceKey {
	return assay.ServiceKey{
		Namespace: fmt.Sprint("team-", i%40), Name: fmt.Sprint("service-", i/2), Environment: []string{"production", "staging", ""}[i/2%3], Version: fmt.Sprint(i % 2),
	}
}

// large fills an organization and returns the ids of its services.
func (s *suite) large(org string) []string {
	s.t.Helper()
	hour := bucket(epoch)
	ids := make([]string, benchServices)
	for from := 0; from < benchServices; from += 1000 {
		d := new(delta.Delta)
		for i := from; i < from+1000; i++ {
			k := benchKey(i)
			ids[i] = delta.ServiceID(org, k)
			f := d.Organization(org).Service(k)
			f.Seen(uint64(epoch.Add(-time.Duration(i) * time.Second).UnixNano()))
			for r := range catalog.Rule(catalog.Scored) {
				f.Counts(hour)[r].Add(delta.Count{Observed: 1000, Failed: uint64(i % 2)})
			}
			for signal := range delta.SignalCount {
				f.AddUsage(hour, signal, delta.Usage{Items: 100, Bytes: 20_000})
			}
			for m := range uint64(benchMetrics) {
				if i < 10 { // the same metrics with the same units
					f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: delta.Mix(1, m)}, Value: 1}, delta.ClaimFact{Last: hour, KeyText: "http.server.metric", ValueText: "ms"})
				}
			}
		}
		s.commit(d)
	}
	sets := func(i int) (evaluated, failed []string) { // different ones for each service
		for r := range catalog.Rule(catalog.Scored) {
			evaluated = append(evaluated, r.ID())
			if delta.Mix(uint64(i), uint64(r))%3 == 0 {
				failed = append(failed, r.ID())
			}
		}
		return evaluated, failed
	}
	scoreAt := func(i int, at time.Time) *assay.Score {
		sc := score(float64((i * 7) % 101))
		sc.EvaluatedRuleIDs, sc.FailedRuleIDs = sets(i)
		sc.CalculatedAt = micro(at)
		return sc
	}
	for h := range 720 {
		var results []delta.Result
		for i := range benchHistory {
			results = append(results, delta.Result{ServiceID: ids[i], Score: scoreAt(i, epoch.Add(time.Duration(h-720)*time.Hour)), NewRow: true})
		}
		require.NoError(s.t, s.SaveScores(s.ctx(), delta.Fence{}, org, results))
		mean := float64(h % 100)
		require.NoError(s.t, s.SaveOrganizationScore(s.ctx(), delta.Fence{}, org, &mean, epoch.Add(time.Duration(h-720)*time.Hour)))
	}
	for from := 0; from < benchServices; from += 500 {
		var results []delta.Result
		for i := from; i < from+500; i++ {
			r := delta.Result{ServiceID: ids[i], Score: scoreAt(i, epoch), NewRow: true}
			for n := range benchInsights {
				rule := catalog.RES005
				if n > 0 {
					rule = catalog.Rule((i + n*2) % int(catalog.RES005))
				}
				in := newInsight(org, ids[i], rule)
				if (i+n)%10 == 9 {
					in.Status = assay.InsightArchived
				}
				in.UpdatedAt = micro(epoch.Add(-time.Duration(i) * time.Minute))
				in.Attributes["resource_attributes"] = fmt.Sprintf(`{"padding":"%0500d"}`, i)
				r.Insights = append(r.Insights, in)
			}
			results = append(results, r)
		}
		require.NoError(s.t, s.SaveScores(s.ctx(), delta.Fence{}, org, results))
	}
	for i := range 100 {
		require.NoError(s.t, s.MuteInsight(s.ctx(), delta.InsightID(ids[i*50], catalog.RES005.Info().Name), ""))
	}
	return ids
}
