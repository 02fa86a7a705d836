// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/query"
	"assay/internal/store/storetest"
)

// explain returns the server's plan of a query.
func explain(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), `EXPLAIN `+query, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// TestPagePlans requires that queries of hot pages use their indexes.
func TestPagePlans(t *testing.T) {
	s := open(t, Config{})
	id := organization(t, s, "many")
	fillLists(t, s, organization(t, s, "others"), 1000, 10)
	fillLists(t, s, id, 1000, 10)
	var org int64
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT org FROM organizations WHERE name = 'many'`).Scan(&org))

	many := assay.InsightFilter{OrganizationID: id}
	few := many
	few.Statuses, few.Impacts, few.Signal = []assay.InsightStatus{assay.InsightActive}, []assay.Impact{assay.ImpactLow, assay.ImpactNormal}, assay.SignalLog
	indexes := map[assay.InsightSort][2]string{ // ascending, descending
		assay.SortCreatedAt:  {"insights_by_created_asc", "insights_by_created"},
		assay.SortDetectedAt: {"insights_by_detected_asc", "insights_by_detected"},
		assay.SortUpdatedAt:  {"evidence_by_updated_asc", "evidence_by_updated"},
		assay.SortImpact:     {"insights_by_weight_asc", "insights_by_weight"},
		assay.SortSignal:     {"insights_by_signal", "insights_by_signal_desc"},
	}
	recorder := &storetest.Recorder{Row: [2]int64{org, 1000}}
	queries := query.New(recorder, &dialect)
	planOf := func(n int) string {
		st := recorder.Statements[n]
		return explain(t, s, st.SQL, native(st.Args)...)
	}
	list := func(f assay.InsightFilter) {
		t.Helper()
		recorder.Statements = nil
		_, _, err := queries.FindInsights(t.Context(), f)
		require.NoError(t, err)
	}
	for _, f := range []assay.InsightFilter{many, few} {
		for sort, index := range indexes {
			for i, descending := range []bool{false, true} {
				for _, offset := range []int{10, 980} { // read from either end
					f.Sort, f.Descending, f.Page = sort, descending, assay.Page{Limit: 10, Offset: offset}
					list(f)
					require.Contains(t, planOf(0), "insight_counts")
					plan := planOf(1)
					if sort == assay.SortSignal && f.Signal != "" {
						require.Contains(t, plan, "using insights_by_signal", "either will do: the signal is one")
					} else {
						require.Contains(t, plan, "using "+index[i]+" on", "sort %q", sort)
						require.Equal(t, offset == 980, strings.Contains(plan, "Backward"))
					}
					require.Contains(t, plan, "Index Only Scan")
					require.NotContains(t, plan, "Sort Key")
				}
			}
		}
	}
	narrow := many
	narrow.CreatedFrom, narrow.CreatedTo = time.UnixMicro(1000), time.UnixMicro(1000)
	list(narrow)
	require.Regexp(t, `Index Only Scan using \w+ on insights`, planOf(0))

	for _, offset := range []int{10, 980} {
		recorder.Statements = nil
		_, _, err := queries.FindServices(t.Context(), id, assay.Page{Limit: 10, Offset: offset})
		require.NoError(t, err)
		plan := planOf(1)
		require.Contains(t, plan, "services_by_name")
		require.Contains(t, plan, "Incremental Sort")
		require.NotContains(t, plan, "Seq Scan on services")
	}
	recorder.Statements = nil
	_, err := queries.FindUsage(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, planOf(1), "Index Only Scan using insights_active")
}

// TestLongNames sorts services with names that differ only beyond the prefix in the
// index.
func TestLongNames(t *testing.T) {
	s := open(t, Config{})
	org := organization(t, s, "a")
	long := strings.Repeat("x", 3000)
	var want []string
	d := new(delta.Delta)
	for _, k := range []assay.ServiceKey{ // sorted
		{Name: "a", Environment: long, Version: long},
		{Name: long[:1023]},
		{Name: long[:1024], Version: "2"},
		{Name: long[:1025], Version: "1"},
		{Name: long + "\x00"},
		{Name: long + "\x01", Environment: long + "a"},
		{Name: long + "\x01", Environment: long + "b"},
		{Name: long + "\xff"},
		{Name: "y"},
	} {
		want = append(want, delta.ServiceID(org, k))
		d.Organization(org).Service(k).Counts(0)[catalog.RES001].Observed = 1
	}
	require.NoError(t, s.Commit(t.Context(), time.Now(), nil, func([]bool) *delta.Delta { return d }))
	for _, size := range []int{1, 4, 100} {
		var got []string
		for offset := 0; offset < len(want); offset += size {
			page, total, err := s.FindServices(t.Context(), org, assay.Page{Limit: size, Offset: offset})
			require.NoError(t, err)
			require.Equal(t, len(want), total)
			for _, svc := range page {
				got = append(got, svc.ID)
			}
		}
		require.Equal(t, want, got)
	}
}

// TestUnstorableTexts: the store neither finds nor accepts a text that PostgreSQL cannot
// hold.
func TestUnstorableTexts(t *testing.T) {
	s := open(t, Config{})
	ctx := t.Context()
	org := organization(t, s, "a")
	for _, bad := range []string{"a\x00", "\xff"} {
		for name, err := range map[string]error{
			"FindOrganizationByName":       second(s.FindOrganizationByName(ctx, bad)),
			"FindOrganizationByExternalID": second(s.FindOrganizationByExternalID(ctx, bad)),
			"FindAPIKey":                   second(s.FindAPIKey(ctx, bad)),
			"RevokeAPIKey":                 s.RevokeAPIKey(ctx, bad),
			"FindSummary":                  second(s.FindSummary(ctx, assay.SummaryKey{OrganizationID: org, Model: bad})),
		} {
			require.Equal(t, assay.CodeNotFound, assay.ErrorCode(err), "%s: %v", name, err)
		}
		require.NoError(t, s.TouchAPIKey(ctx, bad, time.Now()))
		for name, err := range map[string]error{
			"CreateOrganization":        s.CreateOrganization(ctx, &assay.Organization{Name: bad, Tier: assay.TierFree}),
			"SetOrganizationExternalID": s.SetOrganizationExternalID(ctx, org, bad),
			"CreateAPIKey":              s.CreateAPIKey(ctx, &assay.APIKey{ID: "aaaaaa", OrganizationID: org, Name: bad}, assay.APIKeyLimits{}),
		} {
			require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err), "%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestReadKeepsConnections: a missing row does not close the connection.
func TestReadKeepsConnections(t *testing.T) {
	s := open(t, Config{MaxConns: 1})
	ctx := t.Context()
	org := organization(t, s, "a")
	before := s.pool.Stat().NewConnsCount()
	for range 3 {
		require.Equal(t, assay.CodeNotFound, assay.ErrorCode(second(s.FindOrganizationByID(ctx, ""))))
		require.Equal(t, assay.CodeServiceNotFound, assay.ErrorCode(second(s.ScoreHistory(ctx, org, "", time.Time{}))))
		require.NoError(t, s.Ping(ctx))
	}
	require.Equal(t, before, s.pool.Stat().NewConnsCount())

	// The first of two steps fails. The transaction leaves nothing behind.
	err := s.read(ctx, pages, "fail", func(b *pgx.Batch) { b.Queue(`SELECT 1/0`) }, func(*pgx.Batch) { t.Error("the second step") })
	require.ErrorContains(t, err, "division by zero")
	require.NoError(t, s.Ping(ctx))
	require.Equal(t, before, s.pool.Stat().NewConnsCount())
}

// TestEvidenceAgrees: both tables of an insight agree after concurrent changes.
func TestEvidenceAgrees(t *testing.T) {
	s := open(t, Config{})
	ctx := t.Context()
	org := organization(t, s, "a")
	now := time.Now().UTC().Truncate(time.Microsecond)
	key := assay.ServiceKey{Name: "a"}
	d := new(delta.Delta)
	d.Organization(org).Service(key).Counts(0)[catalog.RES001] = delta.Count{Observed: 1, Failed: 1}
	require.NoError(t, s.Commit(ctx, now, nil, func([]bool) *delta.Delta { return d }))
	svc := delta.ServiceID(org, key)
	insight := func(r catalog.Rule, status assay.InsightStatus, at time.Time) *assay.Insight {
		return &assay.Insight{
			ID: delta.InsightID(svc, r.Info().Name), OrganizationID: org, Service: assay.Service{ID: svc}, Type: r.Info().Name, Status: status,
			TelemetryAt: at, DetectedAt: at, CreatedAt: at, UpdatedAt: at, Attributes: map[string]any{"violations_total": int64(1)},
		}
	}
	rules := []catalog.Rule{catalog.RES001, catalog.SPA001, catalog.LOG001}
	const rounds = 15
	var wg sync.WaitGroup
	errs := make(chan error, 4*rounds*len(rules))
	wg.Go(func() {
		for n := range rounds {
			var ins []*assay.Insight
			for _, r := range rules {
				ins = append(ins, insight(r, []assay.InsightStatus{assay.InsightActive, assay.InsightArchived, assay.InsightMuted}[n%3], now.Add(time.Duration(n)*time.Second)))
			}
			errs <- s.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: svc, Revision: 1, Insights: ins}})
		}
	})
	for _, r := range rules {
		id := delta.InsightID(svc, r.Info().Name)
		wg.Go(func() {
			for n := range rounds {
				if err := s.MuteInsight(ctx, id, fmt.Sprint(n)); assay.ErrorCode(err) != assay.CodeInsightNotFound {
					errs <- err
				}
				if err := s.UnmuteInsight(ctx, id); assay.ErrorCode(err) != assay.CodeInsightNotFound {
					errs <- err
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	var same, all, counted int
	require.NoError(t, s.pool.QueryRow(ctx, `SELECT
		count(*) FILTER (WHERE (i.id, i.org, i.status, i.weight, i.signal, i.created_at) IS NOT DISTINCT FROM (e.id, e.org, e.status, e.weight, e.signal, e.created_at)),
		count(*), (SELECT sum(n) FROM insight_counts c JOIN insights USING (org, status, rule, weight, signal))
		FROM insights i FULL JOIN evidence e USING (svc, rule)`).Scan(&same, &all, &counted))
	require.Equal(t, []int{len(rules), len(rules), len(rules)}, []int{same, all, counted})
}
