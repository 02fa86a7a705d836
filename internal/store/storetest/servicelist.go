// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/assaytest/selection"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// fleet stores services that differ in all listed fields, and returns the expected row of
// each.
func (s *suite) fleet(org string) []*assay.ServiceRow {
	s.t.Helper()
	names := []string{
		"checkout", "Checkout-API", "CART", "cart-ÄRGER", "<script>alert(1)</script>", "not \xff UTF-8", "nul \x00 byte",
		"a\u202eb", strings.Repeat("long ", 2000), "%_\\", "ärger",
	}
	environments := []string{"production", "", "staging", "Quay \xff"}
	values := []float64{100, 89.5, 89.49, 74.5, 74.49, 49.5, 49.49, 0}
	d := new(delta.Delta)
	var keys []assay.ServiceKey
	for i := range 3 * len(names) {
		k := assay.ServiceKey{Name: names[i%len(names)], Environment: environments[i%len(environments)], Version: fmt.Sprint(i), Namespace: "n"}
		keys = append(keys, k)
		f := d.Organization(org).Service(k)
		f.Seen(uint64(epoch.Add(-time.Duration(i*i%17) * time.Minute).UnixNano()))
		f.Counts(bucket(epoch))[catalog.RES001].Add(delta.Count{Observed: 1})
		for signal := range delta.SignalCount {
			if i>>signal&1 == 1 {
				f.AddUsage(bucket(epoch), signal, delta.Usage{Items: 1, Bytes: 10})
			}
		}
	}
	s.commit(d)
	var results []delta.Result
	for i, k := range keys {
		id := delta.ServiceID(org, k)
		r := delta.Result{ServiceID: id, Revision: s.facts(org, id).Revision}
		if i%5 != 0 {
			r.Score = score(values[i%len(values)])
		}
		for n, rule := range []catalog.Rule{catalog.RES005, catalog.RES001, catalog.LOG001, catalog.SPA006, catalog.MET001} {
			if i>>n&1 == 1 {
				r.Insights = append(r.Insights, newInsight(org, id, rule))
			}
		}
		results = append(results, r)
	}
	require.NoError(s.t, s.SaveScores(s.ctx(), delta.Fence{}, org, results))

	var rows []*assay.ServiceRow
	for i, k := range keys {
		svc := must(s.FindServiceByID(s.ctx(), org, delta.ServiceID(org, k)))(s.t)
		row := &assay.ServiceRow{Service: *svc}
		for signal, name := range map[delta.Signal]assay.Signal{delta.Traces: assay.SignalTrace, delta.Metrics: assay.SignalMetric, delta.Logs: assay.SignalLog} {
			if i>>signal&1 == 1 {
				row.Signals = append(row.Signals, name)
			}
		}
		slices.SortFunc(row.Signals, func(a, b assay.Signal) int { return -cmp.Compare(a, b) }) // trace, metric, log
		for _, in := range results[i].Insights {
			rule, _ := catalog.ByInsightType(in.Type)
			row.Active.Add(rule.Info().Impact)
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *suite) TestServiceRows(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	all := s.fleet(org)
	s.seen(s.organization(), named("checkout"), catalog.RES001, true)

	filters := []assay.ServiceFilter{{}}
	for _, search := range []string{"CHECKOUT", "art", "ÄRGER", "%", "_", "\\", "\xff", "\x00", "<SCRIPT", "\u202e", "'; DROP TABLE services; --", strings.Repeat("LONG ", 1500)} {
		filters = append(filters, assay.ServiceFilter{Search: search})
	}
	for _, environment := range []string{"production", "", "PRODUCTION", "Quay \xff"} {
		filters = append(filters, assay.ServiceFilter{Environment: &environment})
	}
	for _, category := range append(assay.Categories(), assay.Unscored) {
		filters = append(filters, assay.ServiceFilter{Category: category})
	}
	for _, signal := range []assay.Signal{assay.SignalTrace, assay.SignalMetric, assay.SignalLog, "profile"} {
		filters = append(filters, assay.ServiceFilter{Signal: signal})
	}
	production := "production"
	filters = append(filters, assay.ServiceFilter{Search: "c", Environment: &production, Category: "Good", Signal: assay.SignalTrace})

	filtered := 0
	for i, f := range filters {
		f.OrganizationID = org
		sorts := []assay.ServiceSort{"", assay.SortServiceScore, assay.SortServiceLastSeen, assay.SortServiceInsights, assay.SortServiceName}
		for _, f.Sort = range sorts[i%len(sorts):] {
			for _, f.Descending = range []bool{false, true} {
				want := selection.Services(all, &f)
				filtered += len(all) - len(want)
				got := paged(t, 7, len(want), func(p assay.Page) ([]*assay.ServiceRow, int, error) {
					f.Page = p
					return s.FindServiceRows(ctx, f)
				})
				require.Equal(t, len(want), len(got), "%+v", f)
				for i := range want {
					require.Equal(t, want[i], got[i], "%+v: row %d", f, i)
				}
			}
		}
	}
	require.Positive(t, filtered)

	for _, bad := range []assay.ServiceFilter{{Sort: "cost"}, {Category: "Great"}} {
		bad.OrganizationID, bad.Page = org, assay.Page{Limit: 1}
		code(t, assay.CodeInvalid, errOf3(s.FindServiceRows(ctx, bad)))
	}

	require.Equal(t, []string{"", "Quay \xff", "production", "staging"}, must(s.FindEnvironments(ctx, org, 10))(t))
	require.Equal(t, []string{"", "Quay \xff"}, must(s.FindEnvironments(ctx, org, 2))(t))
}

// TestServiceCounts checks the numbers of a row after every kind of change.
func (s *suite) TestServiceCounts(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	svc := s.seen(org, named("a"), catalog.RES001, true)
	check := func(active assay.ImpactCounts, signals ...assay.Signal) {
		t.Helper()
		rows, total := must2(s.FindServiceRows(ctx, assay.ServiceFilter{OrganizationID: org, Page: assay.Page{Limit: 10}}))(t)
		require.Equal(t, 1, total)
		require.Equal(t, active, rows[0].Active)
		require.Equal(t, signals, rows[0].Signals)
		counts := must(s.FindInsightTypeCounts(ctx, org))(t)
		n := 0
		for _, c := range counts {
			n += c.Active
		}
		require.Equal(t, active.Total(), n)
	}
	check(assay.ImpactCounts{})
	old := epoch.Add(-100 * time.Hour)
	s.commit(one(org, named("a"), func(f *delta.Service) {
		f.AddUsage(bucket(old), delta.Metrics, delta.Usage{Items: 1, Bytes: 1})
		f.AddUsage(bucket(epoch), delta.Logs, delta.Usage{Items: 1, Bytes: 1})
	}))
	check(assay.ImpactCounts{}, assay.SignalMetric, assay.SignalLog)
	s.expire(bucket(epoch.Add(-50*time.Hour)), bucket(epoch.Add(-50*time.Hour)))
	check(assay.ImpactCounts{}, assay.SignalLog)

	critical, normal := newInsight(org, svc, catalog.RES005), newInsight(org, svc, catalog.SPA001)
	require.Equal(t, assay.ImpactCritical, catalog.RES005.Info().Impact)
	require.Equal(t, assay.ImpactNormal, catalog.SPA001.Info().Impact)
	save := func(insights ...*assay.Insight) {
		t.Helper()
		require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Insights: insights}}))
	}
	save(critical, normal)
	check(assay.ImpactCounts{Critical: 1, Normal: 1}, assay.SignalLog)
	critical.UpdatedAt = critical.UpdatedAt.Add(time.Minute)
	save(critical)
	check(assay.ImpactCounts{Critical: 1, Normal: 1}, assay.SignalLog)
	normal.Status = assay.InsightArchived
	save(normal)
	check(assay.ImpactCounts{Critical: 1}, assay.SignalLog)
	require.NoError(t, s.MuteInsight(ctx, critical.ID, "known"))
	check(assay.ImpactCounts{}, assay.SignalLog)
	require.NoError(t, s.UnmuteInsight(ctx, critical.ID)) // without a failure in the window
	check(assay.ImpactCounts{}, assay.SignalLog)
	normal.Status = assay.InsightActive
	save(normal)
	check(assay.ImpactCounts{Normal: 1}, assay.SignalLog)
}

func (s *suite) TestServiceVersions(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	key := assay.ServiceKey{Namespace: "shop", Name: "a", Environment: "prod"}
	d := new(delta.Delta)
	for i := range 5 {
		k := key
		k.Version = fmt.Sprint(i)
		d.Organization(org).Service(k).Seen(uint64(epoch.Add(time.Duration(i*3%5) * time.Minute).UnixNano()))
	}
	for _, k := range []assay.ServiceKey{{Name: "a", Environment: "prod"}, {Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b", Environment: "prod"}} {
		d.Organization(org).Service(k).Seen(uint64(epoch.UnixNano()))
	}
	s.commit(d)
	key.Version = "whatever"
	versions := func(limit int) (got []string) {
		t.Helper()
		rows := must(s.FindServiceVersions(ctx, org, key, assay.SeriesRange{}, limit))(t)
		for _, row := range rows {
			got = append(got, row.Version)
		}
		return got
	}
	require.Equal(t, []string{"3", "1", "4", "2", "0"}, versions(10))
	require.Equal(t, []string{"3", "1"}, versions(2))
	key.Name = "c"
	require.Empty(t, versions(10))
}

func (s *suite) TestServiceGroups(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	d := new(delta.Delta)
	for i, k := range []assay.ServiceKey{
		{Name: "a", Namespace: "shop", Environment: "prod", Version: "1"},
		{Name: "a", Namespace: "shop", Environment: "prod", Version: "3"},
		{Name: "a", Namespace: "shop", Environment: "prod", Version: "2"},
		{Name: "a", Environment: "prod"},
		{Name: "a", Namespace: "shop"},
		{Name: "b"},
	} {
		d.Organization(org).Service(k).Seen(uint64(epoch.Add(time.Duration(i) * time.Minute).UnixNano()))
	}
	d.Organization(other).Service(assay.ServiceKey{Name: "a"}).Seen(uint64(epoch.UnixNano()))
	s.commit(d)
	services := map[string]*assay.Service{}
	all, _ := must2(s.FindServices(ctx, org, assay.Page{Limit: 10}))(t)
	for _, svc := range all {
		services[svc.Name+"/"+svc.Namespace+"/"+svc.Environment+"/"+svc.Version] = svc
	}
	sc := score(50)
	require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{
		{ServiceID: services["a/shop/prod/2"].ID, Score: sc, NewRow: true},
		{ServiceID: services["b///"].ID, Insights: []*assay.Insight{newInsight(org, services["b///"].ID, catalog.RES005), newInsight(org, services["b///"].ID, catalog.SPA001)}},
		{ServiceID: services["a/shop/prod/1"].ID, Insights: []*assay.Insight{newInsight(org, services["a/shop/prod/1"].ID, catalog.RES005)}},
		{ServiceID: services["a/shop//"].ID, Insights: []*assay.Insight{newInsight(org, services["a/shop//"].ID, catalog.RES005)}},
	}))
	find := func(f assay.ServiceGroupFilter) (got []string, total int) {
		t.Helper()
		f.OrganizationID = org
		groups, total := must2(s.FindServiceGroups(ctx, f))(t)
		for _, g := range groups {
			l := g.Latest
			require.Equal(t, org, l.OrganizationID)
			got = append(got, fmt.Sprintf("%s/%s/%s/%s versions %d insights %d scored %t", l.Name, l.Namespace, l.Environment, l.Version, g.Versions, g.Insights, l.Score != nil))
		}
		return got, total
	}
	const (
		prod, without = "a/shop/prod/2 versions 3 insights 0 scored true", "a//prod/ versions 1 insights 0 scored false"
		none, b       = "a/shop// versions 1 insights 1 scored false", "b/// versions 1 insights 2 scored false"
	)
	for _, tt := range []struct {
		filter assay.ServiceGroupFilter
		want   []string
	}{
		{assay.ServiceGroupFilter{Sort: assay.SortGroupInsights, Descending: true}, []string{b, none, without, prod}},
		{assay.ServiceGroupFilter{Sort: assay.SortGroupName}, []string{none, without, prod, b}},
		{assay.ServiceGroupFilter{Sort: assay.SortGroupName, Descending: true}, []string{b, none, without, prod}},
	} {
		tt.filter.Page = assay.Page{Limit: 10}
		got, total := find(tt.filter)
		require.Equal(t, tt.want, got, tt.filter.Sort)
		require.Equal(t, 4, total)
		for offset := range 5 {
			tt.filter.Page = assay.Page{Limit: 2, Offset: offset}
			got, _ := find(tt.filter)
			require.Equal(t, append([]string(nil), tt.want[offset:min(offset+2, 4)]...), got, offset)
		}
	}
	created, _ := find(assay.ServiceGroupFilter{Sort: assay.SortGroupCreated, Page: assay.Page{Limit: 10}})
	require.ElementsMatch(t, []string{none, without, prod, b}, created)
	code(t, assay.CodeInvalid, errOf3(s.FindServiceGroups(ctx, assay.ServiceGroupFilter{OrganizationID: org, Sort: "size"})))
	shop := "shop"
	rows, total := must2(s.FindServiceRows(ctx, assay.ServiceFilter{OrganizationID: org, Namespace: &shop, Search: "A", Page: assay.Page{Limit: 10}}))(t)
	require.Equal(t, 4, total)
	require.Len(t, rows, 4)
}

func (s *suite) TestSeriesRanges(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	a, b := s.seen(org, named("a"), catalog.RES001, true), s.seen(org, named("b"), catalog.RES001, true)
	at := func(hours float64) time.Time { return micro(epoch.Add(time.Duration(hours * float64(time.Hour)))) }
	for _, p := range []struct {
		hours float64
		value float64
	}{{-100, 1}, {-49, 10}, {-48, 20}, {-30, 30}, {-24.5, 40}, {-24, 50}, {-1, 60}, {0, 70}, {1, 80}} {
		sc := score(p.value)
		sc.CalculatedAt = at(p.hours)
		require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: a, Score: sc, NewRow: true}}))
		require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, org, &p.value, at(p.hours)))
	}
	rows := func(series assay.SeriesRange) (of [2][]assay.ScorePoint) {
		t.Helper()
		found, _ := must2(s.FindServiceRows(ctx, assay.ServiceFilter{OrganizationID: org, Page: assay.Page{Limit: 10}, Series: series}))(t)
		require.Equal(t, []string{a, b}, []string{found[0].ID, found[1].ID})
		require.Equal(t, found[0].Series, must(s.FindServiceVersions(ctx, org, named("a"), series, 1))(t)[0].Series)
		return [2][]assay.ScorePoint{found[0].Series, found[1].Series}
	}
	days := assay.SeriesRange{Start: at(-96), End: at(0), Points: 4}
	want := []assay.ScorePoint{{At: at(-48), Value: 20}, {At: at(-24), Value: 50}, {At: at(0), Value: 70}}
	require.Equal(t, [2][]assay.ScorePoint{want, nil}, rows(days), "a day without a score has no point")
	require.Equal(t, want, must(s.FindOrganizationScores(ctx, org, days))(t))

	// Steps shorter than an hour look back two hours.
	short := assay.SeriesRange{Start: at(-23), End: at(-21), Points: 4}
	want = []assay.ScorePoint{{At: at(-22.5), Value: 50}}
	require.Equal(t, want, rows(short)[0], "from two hours before, not included")
	require.Equal(t, want, must(s.FindOrganizationScores(ctx, org, short))(t))

	require.Equal(t, [2][]assay.ScorePoint{}, rows(assay.SeriesRange{}))
	require.Empty(t, must(s.FindOrganizationScores(ctx, org, assay.SeriesRange{}))(t))

	// The last score of ten minutes is used, and a step without one has no point.
	for i, value := range []float64{1, 2, 3} {
		require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, org, &value, at(10).Add(time.Duration(i)*time.Second)))
	}
	require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, org, nil, at(10).Add(time.Minute)))
	got := must(s.FindOrganizationScores(ctx, org, assay.SeriesRange{Start: at(9), End: at(11), Points: 1}))(t)
	require.Equal(t, []assay.ScorePoint{{At: at(11), Value: 3}}, got)
	require.Equal(t, int64(10), s.rows()["organization_scores"])

	s.expire(bucket(at(-25)), bucket(at(-25)))
	require.Equal(t, []assay.ScorePoint{{At: at(-24), Value: 50}, {At: at(0), Value: 70}}, rows(days)[0])
	got = must(s.FindOrganizationScores(ctx, org, days))(t)
	require.Equal(t, []assay.ScorePoint{{At: at(-24), Value: 50}, {At: at(0), Value: 70}}, got)
}

func (s *suite) TestScoreGroups(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	set := func(name string, value float64, evaluated, failed []string, insights ...catalog.Rule) string {
		t.Helper()
		svc := s.seen(org, named(name), catalog.RES001, true)
		r := delta.Result{ServiceID: svc, Score: score(value)}
		r.Score.EvaluatedRuleIDs, r.Score.FailedRuleIDs = evaluated, failed
		for _, rule := range insights {
			r.Insights = append(r.Insights, newInsight(org, svc, rule))
		}
		require.NoError(t, s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{r}))
		return svc
	}
	both, one := []string{"RES-001", "RES-005"}, []string{"RES-005"}
	set("a", 60, both, one, catalog.RES005)
	set("b", 60, both, one, catalog.RES005)
	muted := set("c", 60, both, one, catalog.RES005, catalog.RES001)
	set("d", 0, one, one, catalog.RES005, catalog.DefaultServiceName)
	set("e", 100, both, []string{}, catalog.QuotaExceeded)
	s.seen(org, named("not scored"), catalog.RES001, false)
	for _, rule := range []catalog.Rule{catalog.RES005, catalog.RES001} {
		require.NoError(t, s.MuteInsight(ctx, delta.InsightID(muted, rule.Info().Name), ""))
	}
	groups := must(s.FindScoreGroups(ctx, org))(t)
	require.ElementsMatch(t, []assay.ScoreGroup{
		{
			EvaluatedRuleIDs: both, Services: 4, Categories: map[string]int{"Needs Improvement": 3, "Excellent": 1},
			Failing: map[string]int{"RES-005": 2}, // and muted in the third
		},
		{EvaluatedRuleIDs: one, Services: 1, Categories: map[string]int{"Poor": 1}, Failing: map[string]int{"RES-005": 1}},
	}, groups)
	counts := must(s.FindInsightTypeCounts(ctx, org))(t)
	require.ElementsMatch(t, []assay.InsightTypeCount{
		{Type: catalog.RES005.Info().Name, Active: 3},
		{Type: catalog.DefaultServiceName.Info().Name, Active: 1},
		{Type: catalog.QuotaExceeded.Info().Name, Active: 1},
	}, counts)
}

// TestServiceClaims compares the claims of one service with those of all.
func (s *suite) TestServiceClaims(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	names := []string{"a", "b", "c"}
	hours := []delta.Bucket{bucket(epoch.Add(-3 * time.Hour)), bucket(epoch.Add(-2 * time.Hour)), bucket(epoch.Add(-time.Hour))}
	n := uint64(7)
	next := func(below uint64) uint64 { // a small generator: the same claims in every run
		n = n*6364136223846793005 + 1442695040888963407
		return n >> 33 % below
	}
	for range 60 {
		for _, rule := range []catalog.Rule{catalog.RES002, catalog.MET003, catalog.MET004} {
			k := named(names[next(3)])
			s.commit(claim([]string{org, org, org, other}[next(4)], k, rule, next(12), next(3), hours[next(3)]))
		}
	}
	contested := uint64(0)
	for _, since := range append(hours, bucket(epoch)) {
		for _, metricSince := range hours {
			want := make(map[string]map[catalog.Rule]delta.ClaimCount)
			for rule, from := range map[catalog.Rule]delta.Bucket{catalog.RES002: since, catalog.MET003: metricSince, catalog.MET004: metricSince} {
				counts := must(delta.CountClaims(ctx, s.ClaimCounter(org, rule, from)))(t)
				for svc, c := range counts {
					if want[svc] == nil {
						want[svc] = make(map[catalog.Rule]delta.ClaimCount)
					}
					want[svc][rule] = delta.ClaimCount{Claims: c.Claims, Contested: c.Contested}
					contested += c.Contested
				}
			}
			for _, name := range names {
				svc := delta.ServiceID(org, named(name))
				got := must(s.ServiceClaims(ctx, org, svc, since, metricSince))(t)
				instances := want[svc][catalog.RES002] // of which the counter counts only the contested ones
				require.Equal(t, instances.Contested, got[catalog.RES002].Contested)
				require.LessOrEqual(t, instances.Claims, got[catalog.RES002].Claims)
				delete(want[svc], catalog.RES002)
				delete(got, catalog.RES002)
				if len(want[svc]) == 0 {
					require.Empty(t, got)
				} else {
					require.Equal(t, want[svc], got)
				}
			}
		}
	}
	require.Positive(t, contested)
	for _, id := range []string{unknownID, "", delta.ServiceID(other, named("a"))} {
		code(t, assay.CodeServiceNotFound, errOf(s.ServiceClaims(ctx, org, id, 0, 0)))
	}
}

// TestListIsolation requests the lists of an organization without data, and of an unknown
// one.
func (s *suite) TestListIsolation(t *testing.T) {
	ctx := s.ctx()
	mine, theirs := s.organization(), s.organization()
	s.fleet(mine)
	value := 50.0
	require.NoError(t, s.SaveOrganizationScore(ctx, delta.Fence{}, mine, &value, epoch))
	key := assay.ServiceKey{Name: "checkout", Environment: "production", Namespace: "n"}
	series := assay.SeriesRange{Start: epoch.Add(-time.Hour), End: epoch.Add(time.Hour), Points: 2}
	for _, org := range []string{mine, theirs, unknownID, "", "x"} {
		rows, total := must2(s.FindServiceRows(ctx, assay.ServiceFilter{OrganizationID: org, Page: assay.Page{Limit: 5}, Series: series}))(t)
		versions := must(s.FindServiceVersions(ctx, org, key, series, 5))(t)
		environments := must(s.FindEnvironments(ctx, org, 5))(t)
		groups := must(s.FindScoreGroups(ctx, org))(t)
		counts := must(s.FindInsightTypeCounts(ctx, org))(t)
		scores := must(s.FindOrganizationScores(ctx, org, series))(t)
		for _, n := range []int{len(rows), total, len(versions), len(environments), len(groups), len(counts), len(scores)} {
			require.Equal(t, org == mine, n > 0, org)
		}
	}
}
