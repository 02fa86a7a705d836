// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/docs"
	"assay/internal/rest/resttest"
	"assay/internal/rules/catalog"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgID   = "0b6cbb0e-3c0c-4a52-8f0e-1c6c1a7b9d10"
	otherID = "9d1f8a77-51a5-4f3a-b0a5-3a2c5f5d7e21"

	reader   = "Bearer reader"   // has every scope
	person   = "Bearer person"   // a user's session
	ingester = "Bearer ingester" // does not have the scope read
	stranger = "Bearer stranger" // another organization's
)

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 123456789, time.UTC)

// store is a fake of the three stores. Its functions are set to an in-memory
// implementation and can be replaced.
type store struct {
	assay.ServiceStore
	assay.InsightStore
	assay.OrganizationStore

	services []*assay.Service
	insights []*assay.Insight
	orgs     []*assay.Organization

	FindServicesFn         func(context.Context, string, assay.Page) ([]*assay.Service, int, error)
	FindServiceByIDFn      func(context.Context, string, string) (*assay.Service, error)
	FindInsightsFn         func(context.Context, assay.InsightFilter) ([]*assay.Insight, int, error)
	FindInsightByIDFn      func(context.Context, string, string) (*assay.Insight, error)
	FindOrganizationByIDFn func(context.Context, string) (*assay.Organization, error)
}

func (s *store) FindServices(ctx context.Context, org string, p assay.Page) ([]*assay.Service, int, error) {
	return s.FindServicesFn(ctx, org, p)
}

func (s *store) FindServiceByID(ctx context.Context, org, id string) (*assay.Service, error) {
	return s.FindServiceByIDFn(ctx, org, id)
}

// FindServiceRows searches names and ignores the other fields of the filter.
func (s *store) FindServiceRows(ctx context.Context, f assay.ServiceFilter) ([]*assay.ServiceRow, int, error) {
	all, _, err := s.FindServicesFn(ctx, f.OrganizationID, assay.Page{Limit: 1000})
	var rows []*assay.ServiceRow
	for _, x := range all {
		if strings.Contains(strings.ToLower(x.Name), strings.ToLower(f.Search)) {
			rows = append(rows, &assay.ServiceRow{Service: *x})
		}
	}
	return pageOf(rows, f.Page), len(rows), err
}

func (s *store) FindServiceVersions(ctx context.Context, org string, k assay.ServiceKey, _ assay.SeriesRange, _ int) ([]*assay.ServiceRow, error) {
	found, _, err := s.FindServiceRows(ctx, assay.ServiceFilter{OrganizationID: org, Search: k.Name, Page: assay.Page{Limit: 1000}})
	return found, err
}

// FindServiceGroups returns each service as a group.
func (s *store) FindServiceGroups(ctx context.Context, f assay.ServiceGroupFilter) ([]*assay.ServiceGroup, int, error) {
	found, total, err := s.FindServicesFn(ctx, f.OrganizationID, f.Page)
	var groups []*assay.ServiceGroup
	for _, x := range found {
		groups = append(groups, &assay.ServiceGroup{Latest: x, Versions: 2, Insights: 3})
	}
	return groups, total, err
}

func (s *store) FindEnvironments(context.Context, string, int) ([]string, error) { return nil, nil }

func (s *store) FindInsights(ctx context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
	return s.FindInsightsFn(ctx, f)
}

func (s *store) FindInsightByID(ctx context.Context, org, id string) (*assay.Insight, error) {
	return s.FindInsightByIDFn(ctx, org, id)
}

func (s *store) FindOrganizationByID(ctx context.Context, id string) (*assay.Organization, error) {
	return s.FindOrganizationByIDFn(ctx, id)
}

func newStore() *store {
	s := &store{}
	s.FindServicesFn = func(_ context.Context, org string, p assay.Page) ([]*assay.Service, int, error) {
		var found []*assay.Service
		for _, x := range s.services {
			if x.OrganizationID == org {
				found = append(found, x)
			}
		}
		return pageOf(found, p), len(found), nil
	}
	s.FindServiceByIDFn = func(_ context.Context, org, id string) (*assay.Service, error) {
		for _, x := range s.services {
			if x.OrganizationID == org && x.ID == id {
				return x, nil
			}
		}
		return nil, assay.Errorf(assay.CodeServiceNotFound, "service not found")
	}
	s.FindInsightsFn = func(_ context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
		var found []*assay.Insight
		for _, x := range s.insights {
			if selects(f, x) {
				found = append(found, x)
			}
		}
		slices.SortFunc(found, func(a, b *assay.Insight) int {
			c := compareBy(f.Sort, a, b)
			if f.Descending {
				c = -c
			}
			return cmp.Or(c, strings.Compare(a.ID, b.ID))
		})
		return pageOf(found, f.Page), len(found), nil
	}
	s.FindInsightByIDFn = func(_ context.Context, org, id string) (*assay.Insight, error) {
		for _, x := range s.insights {
			if x.OrganizationID == org && x.ID == id {
				return x, nil
			}
		}
		return nil, assay.Errorf(assay.CodeInsightNotFound, "insight not found")
	}
	s.FindOrganizationByIDFn = func(_ context.Context, id string) (*assay.Organization, error) {
		for _, x := range s.orgs {
			if x.ID == id {
				return x, nil
			}
		}
		return nil, assay.Errorf(assay.CodeNotFound, "organization not found")
	}
	return s
}

func selects(f assay.InsightFilter, i *assay.Insight) bool {
	r, _ := catalog.ByInsightType(i.Type)
	info := r.Info()
	return i.OrganizationID == f.OrganizationID &&
		(f.ServiceID == "" || i.Service.ID == f.ServiceID) &&
		(f.Statuses == nil || slices.Contains(f.Statuses, i.Status)) &&
		(f.Signal == "" || info.Signal == f.Signal) &&
		(f.Impacts == nil || slices.Contains(f.Impacts, info.Impact)) &&
		(f.CreatedFrom.IsZero() || !i.CreatedAt.Before(f.CreatedFrom)) &&
		(f.CreatedTo.IsZero() || !i.CreatedAt.After(f.CreatedTo))
}

func compareBy(by assay.InsightSort, a, b *assay.Insight) int {
	ra, _ := catalog.ByInsightType(a.Type)
	rb, _ := catalog.ByInsightType(b.Type)
	switch by {
	case assay.SortDetectedAt:
		return a.DetectedAt.Compare(b.DetectedAt)
	case assay.SortUpdatedAt:
		return a.UpdatedAt.Compare(b.UpdatedAt)
	case assay.SortImpact:
		return cmp.Compare(ra.Info().Impact.Weight(), rb.Info().Impact.Weight())
	case assay.SortSignal:
		return cmp.Compare(ra.Info().Signal, rb.Info().Signal)
	default:
		return a.CreatedAt.Compare(b.CreatedAt)
	}
}

// addServices adds n services of an organization, the first with a score.
func (s *store) addServices(org string, n int) {
	for i := range n {
		x := &assay.Service{
			ID:             uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s/%d", org, i)).String(),
			OrganizationID: org,
			ServiceKey:     assay.ServiceKey{Namespace: "shop", Name: fmt.Sprintf("checkout-%03d", i), Environment: "production", Version: "1.4.2"},
			FirstSeenAt:    testNow.Add(-48 * time.Hour), LastSeenAt: testNow.Add(-time.Minute),
			CreatedAt: testNow.Add(-47 * time.Hour), UpdatedAt: testNow.Add(-30 * time.Second),
		}
		if i == 0 {
			x.Score = &assay.Score{
				ID: "b9c5a0f2-5e0f-4f6e-8f53-0b9f6c8b8a11", Value: 63.855421686746988,
				EvaluatedRuleIDs: []string{"SPA-001", "RES-005"}, FailedRuleIDs: []string{"SPA-001"},
				CalculatedAt: testNow.Add(-10 * time.Second), Window: 720 * time.Hour, CreatedAt: testNow.Add(-9 * time.Second),
			}
		}
		s.services = append(s.services, x)
	}
}

// addInsights adds n insights of a service. Types, statuses and times repeat cyclically.
func (s *store) addInsights(of *assay.Service, n int) {
	rules := catalog.All()
	statuses := []assay.InsightStatus{assay.InsightActive, assay.InsightArchived, assay.InsightMuted}
	for i := range n {
		s.insights = append(s.insights, &assay.Insight{
			ID:             uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d", of.ID, i)).String(),
			OrganizationID: of.OrganizationID, Service: *of,
			Type: rules[i%len(rules)].Info().Name, Status: statuses[i%3],
			TraceID:     "4bf92f3577b34da6a3ce929d0e0e4736",
			TelemetryAt: testNow.Add(-time.Duration(i) * time.Minute), DetectedAt: testNow.Add(-time.Duration(i%5) * time.Hour),
			CreatedAt: testNow.Add(-time.Duration(i%7) * time.Hour).Truncate(time.Microsecond), UpdatedAt: testNow.Add(-time.Duration(i%11) * time.Hour),
			Attributes: map[string]any{
				"signal_type": "TRACES", "resource_attributes": `{"service.name":"checkout"}`,
				"observations_total": int64(120), "violations_total": int64(7), "sampling_rate": 0.25,
			},
		})
	}
}

// Fakes of the other interfaces of a Config.
type (
	logVolumeFunc func(context.Context, string, assay.LogVolumePeriod) (*assay.LogVolume, error)
	analystFunc   func(context.Context, string, int) (*assay.ServiceAnalytics, error)
	summaryFunc   func(context.Context, *assay.Insight) (*assay.InsightSummary, error)
	agentFunc     func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error)
)

func (f logVolumeFunc) LogVolume(ctx context.Context, org string, p assay.LogVolumePeriod) (*assay.LogVolume, error) {
	return f(ctx, org, p)
}

func (f analystFunc) Analyze(ctx context.Context, org string, limit int) (*assay.ServiceAnalytics, error) {
	return f(ctx, org, limit)
}

func (f summaryFunc) Summarize(ctx context.Context, i *assay.Insight) (*assay.InsightSummary, error) {
	return f(ctx, i)
}

func (f agentFunc) Forward(ctx context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
	return f(ctx, c)
}

// fixture is a handler with a filled store.
type fixture struct {
	*store
	cfg Config
	h   *server
	log *strings.Builder
}

func newFixture(t testing.TB, change ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{store: newStore(), log: &strings.Builder{}}
	f.addServices(orgID, 5)
	f.addServices(otherID, 2)
	f.addInsights(f.services[0], 30)
	f.addInsights(f.services[1], 30)
	f.addInsights(f.services[5], 3)
	score := 74.5
	f.orgs = []*assay.Organization{
		{
			ID: orgID, Name: "default", Tier: assay.TierPro, CreatedAt: testNow.Add(-1000 * time.Hour),
			Score: &score, ScoreUpdatedAt: testNow.Add(-time.Minute), ServicesCount: 5, ActiveInsightsCount: 20,
		},
		{ID: otherID, Name: "other", Tier: assay.TierFree, CreatedAt: testNow.Add(-100 * time.Hour)},
	}
	f.cfg = Config{
		BasePath:     "/api",
		Authenticate: authenticate,
		Services:     f.store, ServiceLists: f.store, Insights: f.store, Organizations: f.store,
		LogVolume: logVolumeFunc(func(context.Context, string, assay.LogVolumePeriod) (*assay.LogVolume, error) {
			return testVolume(), nil
		}),
		Analyst: analystFunc(func(context.Context, string, int) (*assay.ServiceAnalytics, error) { return testAnalytics(), nil }),
		Summaries: summaryFunc(func(_ context.Context, i *assay.Insight) (*assay.InsightSummary, error) {
			return &assay.InsightSummary{InsightID: i.ID, Content: "Set a *name*.", Model: "m-1", GeneratedAt: testNow, Cached: true}, nil
		}),
		Agent: agentFunc(func(context.Context, *assay.AgentCall) (*assay.AgentAnswer, error) {
			return &assay.AgentAnswer{Data: []byte(`{"id":"run-1"}`)}, nil
		}),
		Webhooks: newHooks(),
		Keys:     newKeys(),
		Window:   assay.DefaultWindow,
		Ready:    func(context.Context) []Check { return nil },
		Now:      func() time.Time { return testNow },
		Logger:   slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&f.cfg)
	}
	f.h = newServer(f.cfg)
	return f
}

func authenticate(_ context.Context, header, _ string) (*assay.Principal, error) {
	switch header {
	case reader:
		return &assay.Principal{OrganizationID: orgID, Subject: "key:reader", Scopes: assay.Scopes()}, nil
	case person:
		return &assay.Principal{OrganizationID: orgID, Subject: "auth0|person", User: true, Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAgent}}, nil
	case ingester:
		return &assay.Principal{OrganizationID: orgID, Subject: "key:ingest", Scopes: []assay.Scope{assay.ScopeIngest}}, nil
	case stranger:
		return &assay.Principal{OrganizationID: otherID, Subject: "key:others", Scopes: assay.Scopes()}, nil
	case "":
		return nil, assay.Errorf(assay.CodeMissingCredentials, "the Authorization header is missing")
	case "Bearer a.b.c":
		return nil, assay.Errorf(assay.CodeInvalidToken, "tokens are not accepted")
	case "Bearer away":
		return nil, &assay.Error{Code: assay.CodeUnavailable, Message: "no keys", Err: errors.New("dial tcp 10.1.2.3:5432: refused")}
	default:
		return nil, assay.Errorf(assay.CodeInvalidAPIKey, "the API key is not valid")
	}
}

// answer is a response, decoded.
type answer struct {
	*httptest.ResponseRecorder
	Data  json.RawMessage
	Error FailureError
	Meta  struct {
		Timestamp string
		TraceID   string `json:"trace_id"`
		Total     *int
		HasMore   *bool `json:"has_more"`
	}
	Links map[string]string
}

// get sends a request with the credential reader and headers as name, value, ...
func (f *fixture) get(t testing.TB, target string, headers ...string) *answer {
	t.Helper()
	return f.do(t, http.MethodGet, target, append([]string{"Authorization", reader}, headers...)...)
}

// do sends a request and checks what must hold for every response.
func (f *fixture) do(t testing.TB, method, target string, headers ...string) *answer {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.serve(t, r)
}

func (f *fixture) serve(t testing.TB, r *http.Request) *answer {
	t.Helper()
	a := &answer{ResponseRecorder: httptest.NewRecorder()}
	f.h.ServeHTTP(a, r)
	body := a.Body.Bytes()
	h := a.Header()
	if a.Code == http.StatusNotModified || r.Method == http.MethodHead {
		require.Empty(t, body)
		return a
	}
	require.Equal(t, fmt.Sprint(len(body)), h.Get("Content-Length"), "package connlimit counts the response by it")
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Contains(t, h.Values("Vary"), "Accept-Encoding")
	if h.Get("Content-Encoding") != "" || (a.Code == http.StatusOK && (strings.Contains(r.URL.Path, "/openapi.") || strings.Contains(r.URL.Path, "/docs"))) {
		return a
	}
	require.Equal(t, "application/json", h.Get("Content-Type"))
	require.NoError(t, json.Unmarshal(body, a), "%s", body)
	ts, err := time.Parse(time.RFC3339, a.Meta.Timestamp)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(a.Meta.Timestamp, "Z"))
	require.Equal(t, ts, ts.Truncate(time.Microsecond))
	require.Regexp(t, `^[0-9a-f]{32}$`, a.Meta.TraceID)
	f.conforms(t, r, a)
	return a
}

// contract is the OpenAPI document, read by a validator that the API does not use.
var contract = sync.OnceValue(func() *resttest.Contract {
	document, err := documentJSON(docs.OpenAPI)
	if err != nil {
		panic(err)
	}
	c, err := resttest.Load(document)
	if err != nil {
		panic(err)
	}
	return c
})

// conforms checks a response against the OpenAPI document. It skips unknown paths, undocumented methods and
// probes.
func (f *fixture) conforms(t testing.TB, r *http.Request, a *answer) {
	t.Helper()
	path, below := strings.CutPrefix(r.URL.EscapedPath(), f.h.base)
	if op := contract().Find(r.Method, path); below && op != nil && unclean(r.URL) == nil {
		require.NoError(t, contract().CheckResponse(op, a.Code, a.Header(), a.Body.Bytes()), "%s", a.Body)
	} else if a.Code != http.StatusOK {
		require.NoError(t, contract().CheckSchema("Failure", a.Body.Bytes()), "%s", a.Body)
	}
	if a.Code != http.StatusOK && a.Code != http.StatusCreated {
		require.Empty(t, a.Data)
		require.NotEmpty(t, a.Error.Message)
		require.Equal(t, "no-store", a.Header().Get("Cache-Control"))
	}
}

func (a *answer) fails(t testing.TB, status int, code assay.Code) *answer {
	t.Helper()
	require.Equal(t, status, a.Code, "%.300s", a.Body)
	require.Equal(t, code, a.Error.Code)
	return a
}

func (a *answer) ok(t testing.TB) *answer {
	t.Helper()
	require.Equal(t, http.StatusOK, a.Code, "%.300s", a.Body)
	return a
}

func (a *answer) ids(t testing.TB) []string {
	t.Helper()
	var items []struct{ ID string }
	require.NoError(t, json.Unmarshal(a.Data, &items))
	ids := make([]string, len(items))
	for i, x := range items {
		ids[i] = x.ID
	}
	return ids
}

// golden compares with a file below testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
