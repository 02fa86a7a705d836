// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/rules/rulestest"
)

const unknownID = "6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"

// faultyRules is the number of rules that the service of faulty fails.
const faultyRules = 9

// faulty returns requests of a service with failures of every signal and impact: RES-001, RES-004, RES-006,
// SPA-004, SPA-006, MET-002, MET-007, LOG-002, SDK-001.
func faulty(resource []rulestest.Attr) []rulestest.Request {
	resource = append(resource, rulestest.Attrs(
		"service.criticality", "huge", "url.full", "x", "host.ip", "10.0.0.1",
		"telemetry.sdk.language", "python", "telemetry.sdk.version", "1.30.0", "process.runtime.version", "2.7.18",
	)...)
	at := time.Now()
	span := rulestest.Span(int(at.UnixNano()), 1, 0, func(s *tracepb.Span) {
		s.Kind, s.Attributes = tracepb.Span_SPAN_KIND_CLIENT, rulestest.Attrs("note", "by ana.silva@example.com")
		s.StartTimeUnixNano, s.EndTimeUnixNano = rulestest.Nano(at)-10_000_000, rulestest.Nano(at)
	})
	return []rulestest.Request{
		rulestest.Traces(rulestest.Spans(resource, span)),
		rulestest.MetricsRequest(rulestest.Metrics(resource, rulestest.Gauge("queue.length", "", rulestest.Point(at)))),
		rulestest.LogsRequest(rulestest.Logs(resource, rulestest.Log("x", func(r *logspb.LogRecord) { r.TimeUnixNano, r.SeverityNumber = rulestest.Nano(at), 0 }))),
	}
}

// organizations is a server with two organizations whose services have the same keys.
type organizations struct {
	*daemon
	key, other string // keys of the two organizations
	ingest     string // key of the first organization without the scope read
	service    restService
	insight    restInsight
	foreign    struct{ service, insight string } // ids of the other organization
}

// TestREST tests the REST API as a client.
func TestREST(t *testing.T) {
	t.Parallel()
	o := &organizations{daemon: startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey,
		"--commit-interval", "10ms", "--score-interval", "300ms", "--trace-idle", "300ms"), key: bootstrapKey}
	o.other = o.newOrganization(t, "other")
	o.ingest = o.newKey(t, "--scopes", "ingest")
	names := []string{"b", "a", "B", "a"}
	for i, name := range names {
		resource := rulestest.Attrs("service.name", name, "service.namespace", "shop",
			"deployment.environment.name", []string{"test", "prod"}[i%2], "service.version", fmt.Sprint(i))
		for _, r := range faulty(resource) {
			o.mustPost(t, o.key, r)
			if i == 0 { // the same bytes in another organization
				o.mustPost(t, o.other, r)
			}
		}
	}
	eventually(t, func() bool {
		return len(o.insights(t, o.key)) == faultyRules*len(names) && len(o.insights(t, o.other)) == faultyRules
	}, "%d and %d insights", len(o.insights(t, o.key)), len(o.insights(t, o.other)))
	eventually(t, func() bool { // until the scores are stable
		for _, key := range []string{o.key, o.other} {
			for _, s := range getAs[[]restService](t, o.daemon, key, "/v1/services").Data {
				if s.Score == nil || !slices.Contains(s.Score.Evaluated, "SPA-005") {
					return false
				}
			}
		}
		return true
	}, "not scored")
	o.service = *o.daemon.service(t, o.key, "b")
	for _, i := range o.insights(t, o.key) {
		if i.ServiceID == o.service.ID {
			o.insight = i
		}
	}
	o.foreign.service = o.daemon.service(t, o.other, "b").ID
	o.foreign.insight = o.insights(t, o.other)[0].ID

	t.Run("failures", o.testFailures)
	t.Run("parameters", o.testParameters)
	t.Run("order of checks", o.testOrder)
	t.Run("credentials", o.testCredentials)
	t.Run("envelope", o.testEnvelope)
	t.Run("pages", o.testPages)
	t.Run("sorts", o.testSorts)
	t.Run("filters", o.testFilters)
	t.Run("isolation", o.testIsolation)
	t.Run("headers", o.testHeaders)
}

// paths returns the paths of the six operations.
func (o *organizations) paths() []string {
	return []string{
		"/v1/services", "/v1/services/" + o.service.ID, "/v1/services/" + o.service.ID + "/insights",
		"/v1/insights", "/v1/insights/" + o.insight.ID, "/v1/organization",
	}
}

var timestamp = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$`)

// requireError checks the complete error response. details are the expected field names.
func requireError(t *testing.T, a *answered, status int, code string, details ...string) {
	t.Helper()
	require.Equal(t, status, a.Status, "%s", a.Body)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	var e restError
	decoder := json.NewDecoder(bytes.NewReader(a.Body))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&e), "%s", a.Body)
	require.Equal(t, code, e.Error.Code, "%s", a.Body)
	require.NotEmpty(t, e.Error.Message)
	require.ElementsMatch(t, details, slices.Collect(maps.Keys(e.Error.Details)), "%s", a.Body)
	for name, text := range e.Error.Details {
		require.NotEmpty(t, text)
		require.Contains(t, e.Error.Message, name)
	}
	require.Regexp(t, `^[0-9a-f]{32}$`, e.Meta.TraceID)
	require.WithinDuration(t, time.Now(), e.Meta.Timestamp, time.Minute)
	require.Empty(t, a.Header.Get("ETag"))
}

func (o *organizations) testFailures(t *testing.T) {
	s, i := "/v1/services/", "/v1/insights/"
	for _, c := range []struct {
		path    string
		status  int
		code    string
		details []string
	}{
		{s + unknownID, 404, "SERVICE_NOT_FOUND", nil},
		{s + o.foreign.service, 404, "SERVICE_NOT_FOUND", nil},
		{s + "x", 404, "SERVICE_NOT_FOUND", nil},
		{s + strings.ReplaceAll(o.service.ID, "-", ""), 404, "SERVICE_NOT_FOUND", nil},
		{s + "%7B" + o.service.ID + "%7D", 404, "SERVICE_NOT_FOUND", nil},
		{s + "%00", 404, "SERVICE_NOT_FOUND", nil},
		{s + unknownID + "/insights", 404, "SERVICE_NOT_FOUND", nil},
		{s + o.foreign.service + "/insights", 404, "SERVICE_NOT_FOUND", nil},
		{s + "x/insights", 404, "SERVICE_NOT_FOUND", nil},
		{i + unknownID, 404, "INSIGHT_NOT_FOUND", nil},
		{i + o.foreign.insight, 404, "INSIGHT_NOT_FOUND", nil},
		{i + o.service.ID, 404, "INSIGHT_NOT_FOUND", nil},
		{i + "x", 400, "INVALID_PARAMETERS", []string{"id"}},
		{i + "%F0%9F", 400, "INVALID_PARAMETERS", []string{"id"}},
		{"/v1/insights?service_id=x", 400, "INVALID_PARAMETERS", []string{"service_id"}},

		{"/v1", 404, "NOT_FOUND", nil},
		{"/v1/", 404, "NOT_FOUND", nil},
		{"/v2/services", 404, "NOT_FOUND", nil},
		{"/v1/Services", 404, "NOT_FOUND", nil},
		{"/v1/services/", 404, "NOT_FOUND", nil},
		{"/v1//services", 404, "NOT_FOUND", nil},
		{s + o.service.ID + "/", 404, "NOT_FOUND", nil},
		{s + o.service.ID + "/scores", 404, "NOT_FOUND", nil},
		{s + o.service.ID + "%2Finsights", 404, "SERVICE_NOT_FOUND", nil},
		{"/../metrics", 400, "INVALID_PARAMETERS", []string{"path"}},
	} {
		requireError(t, o.get(t, o.key, c.path), c.status, c.code, c.details...)
	}
	require.Equal(t, http.StatusOK, o.get(t, o.key, s+strings.ToUpper(o.service.ID)).Status, "ids are case-insensitive")

	for _, path := range o.paths() {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			a, err := o.ask(t.Context(), method, o.REST+path, nil, "Authorization", "Bearer "+o.key)
			require.NoError(t, err)
			requireError(t, a, 405, "METHOD_NOT_ALLOWED")
			require.Equal(t, "GET, HEAD", a.Header.Get("Allow"))
		}
	}
	a := o.get(t, o.key, "/v1/services?x="+strings.Repeat("x", 12<<10))
	requireError(t, a, 413, "PAYLOAD_TOO_LARGE")
}

func (o *organizations) testParameters(t *testing.T) {
	services, insights := "/v1/services?", "/v1/insights?"
	serviceInsights := "/v1/services/" + o.service.ID + "/insights?"
	lists := []string{services, serviceInsights, insights}
	type row struct {
		lists   []string
		query   string
		details []string // none: 200
	}
	rows := []row{
		{lists, "limit=1", nil},
		{lists, "limit=100", nil},
		{lists, "limit=0", []string{"limit"}},
		{lists, "limit=101", []string{"limit"}},
		{lists, "limit=-1", []string{"limit"}},
		{lists, "limit=ten", []string{"limit"}},
		{lists, "limit=1.5", []string{"limit"}},
		{lists, "limit=1e1", []string{"limit"}},
		{lists, "limit=0x10", []string{"limit"}},
		{lists, "limit=%2010", []string{"limit"}},
		{lists, "limit=99999999999999999999", []string{"limit"}},
		{lists, "limit=", nil},
		{lists, "limit", nil},
		{lists, "offset=", nil},
		{lists, "limit=5&limit=5", []string{"limit"}},
		{lists, "limit=%zz", []string{"limit"}},
		{lists, "offset=0", nil},
		{lists, "offset=1000000", nil},
		{lists, "offset=9007199254740991", nil},
		{lists, "offset=-1", []string{"offset"}},
		{lists, "offset=x", []string{"offset"}},
		{lists, "offset=1&offset=2", []string{"offset"}},
		{lists, "limit=0&offset=-1", []string{"limit", "offset"}},
		{lists, "unknown=1&page=x&LIMIT=0", nil},
		{lists[1:], "status=active", nil},
		{lists[1:], "status=active,archived,muted", nil},
		{lists[1:], "status=active,active", nil},
		{lists[1:], "status=", nil},
		{lists[1:], "status=Active", []string{"status"}},
		{lists[1:], "status=active,", []string{"status"}},
		{lists[1:], "status=active%2C%20muted", []string{"status"}},
		{lists[1:], "status=gone", []string{"status"}},
		{lists[1:], "status=active&status=muted", []string{"status"}},
		{lists[1:], "status=gone&limit=0&offset=x", []string{"status", "limit", "offset"}},
		{lists[:1], "status=gone", nil}, // has no status
	}
	for _, c := range []struct {
		name      string
		good, bad []string
	}{
		{"signal_type", []string{"trace", "metric", "log", ""}, []string{"Trace", "TRACES", "logs", "trace,log"}},
		{"impact", []string{"Critical", "Critical,Low", "Normal,Important", ""}, []string{"critical", "High", "Critical,", "LOW"}},
		{"service_id", []string{o.service.ID, strings.ToUpper(o.service.ID), unknownID, ""}, []string{"1", o.service.ID + "0", "urn:uuid:" + o.service.ID}},
		{
			"date_from",
			[]string{"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00%2B02:00", "2026-01-01T00:00:00+02:00", "0001-01-01T00:00:00Z", ""},
			[]string{"2026-01-01", "now", "1767225600", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01%2000:00:00Z"},
		},
		{"date_to", []string{"2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", ""}, []string{"2026-01-01", "yesterday"}},
		{"sort", []string{
			"created_at", "-created_at", "+created_at", "%2Bcreated_at", "detected_ts", "-detected_ts", "updated_at", "impact", "-impact", "signal_type", "-signal_type", "",
		}, []string{"id", "--impact", "Impact", "impact,created_at", "-", "telemetry_ts", "created_at "}},
	} {
		for _, v := range c.good {
			rows = append(rows, row{lists[2:], c.name + "=" + v, nil})
		}
		for _, v := range c.bad {
			rows = append(rows, row{lists[2:], c.name + "=" + strings.ReplaceAll(v, " ", "%20"), []string{c.name}})
		}
	}
	rows = append(rows,
		row{lists[2:], "date_from=2026-01-02T00:00:00Z&date_to=2026-01-01T00:00:00Z", []string{"date_from"}},
		row{lists[2:], "date_from=2026-01-02T00:00:00Z&date_to=2026-01-02T00:00:00Z", nil},
		row{lists[2:], "date_from=2026-01-01T01:00:00%2B02:00&date_to=2025-12-31T23:30:00Z", nil},
		row{
			lists[2:], "date_from=x&date_to=x&sort=x&impact=x&signal_type=x&status=x&service_id=x&limit=x&offset=x",
			[]string{"date_from", "date_to", "sort", "impact", "signal_type", "status", "service_id", "limit", "offset"},
		},
	)
	for _, r := range rows {
		for _, list := range r.lists {
			t.Run(list+r.query, func(t *testing.T) {
				a := o.get(t, o.key, list+r.query)
				if r.details != nil {
					requireError(t, a, 400, "INVALID_PARAMETERS", r.details...)
					return
				}
				require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			})
		}
	}
	limit := func(path string) string {
		link, err := url.Parse(getAs[[]struct{}](t, o.daemon, o.key, path).Links["self"])
		require.NoError(t, err)
		return link.Query().Get("limit")
	}
	require.Equal(t, "50", limit("/v1/services"))
	require.Equal(t, "50", limit("/v1/services/"+o.service.ID+"/insights"))
	require.Equal(t, "20", limit("/v1/insights"))
	require.Len(t, getAs[[]restInsight](t, o.daemon, o.key, "/v1/insights").Data, 20)
}

// testOrder sends requests with more than one error.
func (o *organizations) testOrder(t *testing.T) {
	for _, path := range []string{"/v1/insights/x", "/v1/services?limit=0", "/v1/services/" + unknownID, "/v1/insights?sort=x"} {
		requireError(t, o.get(t, "", path), 401, "MISSING_CREDENTIALS")
		requireError(t, o.get(t, o.ingest, path), 403, "FORBIDDEN")
	}
	// A malformed parameter is reported before an unknown or foreign id.
	for _, id := range []string{unknownID, o.foreign.service, "x"} {
		requireError(t, o.get(t, o.key, "/v1/services/"+id+"/insights?limit=0"), 400, "INVALID_PARAMETERS", "limit")
	}
}

func (o *organizations) testCredentials(t *testing.T) {
	other := o.key[:len(o.key)-1] + "0"
	for _, path := range o.paths() {
		for authorization, code := range map[string]string{
			"":                              "MISSING_CREDENTIALS",
			"Bearer":                        "MISSING_CREDENTIALS",
			"Bearer ":                       "MISSING_CREDENTIALS",
			"Basic dXNlcjpwYXNz":            "MISSING_CREDENTIALS",
			o.key:                           "MISSING_CREDENTIALS",
			"Bearer " + other:               "INVALID_API_KEY",
			"Bearer x":                      "INVALID_API_KEY",
			"Bearer " + o.key + "0":         "INVALID_API_KEY",
			"Bearer e30.e30.c2ln":           "INVALID_TOKEN",
			"Bearer ..":                     "INVALID_TOKEN",
			"Bearer a.b":                    "INVALID_API_KEY",
			"Bearer " + o.key + " " + o.key: "INVALID_API_KEY",
		} {
			headers := []string{"Authorization", authorization}
			if authorization == "" {
				headers = nil
			}
			a := o.get(t, "", path, headers...)
			requireError(t, a, 401, code)
			require.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"), authorization)
		}
		requireError(t, o.get(t, o.ingest, path), 403, "FORBIDDEN")
		for _, authorization := range []string{"bearer " + o.key, "BEARER   " + o.key} {
			require.Equal(t, http.StatusOK, o.get(t, "", path, "Authorization", authorization).Status)
		}
	}
	for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
		require.Equal(t, http.StatusOK, o.get(t, "", path).Status, path)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		a, err := o.ask(t.Context(), http.MethodGet, o.Root+path, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status, path)
	}
}

func (o *organizations) testEnvelope(t *testing.T) {
	for i, path := range o.paths() {
		a := o.get(t, o.key, path)
		require.Equal(t, http.StatusOK, a.Status)
		require.Equal(t, "application/json", a.Header.Get("Content-Type"))
		var top map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(a.Body, &top))
		var meta map[string]any
		require.NoError(t, json.Unmarshal(top["meta"], &meta))
		list := []bool{true, false, true, true, false, false}[i]
		if list {
			require.ElementsMatch(t, []string{"data", "meta", "links"}, slices.Collect(maps.Keys(top)))
			require.ElementsMatch(t, []string{"timestamp", "trace_id", "total", "has_more"}, slices.Collect(maps.Keys(meta)))
		} else {
			require.ElementsMatch(t, []string{"data", "meta"}, slices.Collect(maps.Keys(top)))
			require.ElementsMatch(t, []string{"timestamp", "trace_id"}, slices.Collect(maps.Keys(meta)))
		}
		require.Regexp(t, timestamp, meta["timestamp"])
	}

	data := func(path string) map[string]any {
		return getAs[map[string]any](t, o.daemon, o.key, path).Data
	}
	keys := func(v any) []string { return slices.Sorted(maps.Keys(v.(map[string]any))) }
	service := data("/v1/services/" + o.service.ID)
	require.Equal(t, []string{
		"created_at", "environment", "first_seen_at", "id", "instrumentation_score", "last_seen_at", "name", "namespace", "organization_id", "updated_at", "version",
	}, keys(service))
	score := service["instrumentation_score"]
	require.Equal(t, []string{"calculated_timestamp", "calculation_window_seconds", "category", "created_at", "evaluated_rule_ids", "id", "score"}, keys(score))
	require.EqualValues(t, 2592000, score.(map[string]any)["calculation_window_seconds"])
	insight := data("/v1/insights/" + o.insight.ID)
	require.Equal(t, []string{
		"attributes", "created_at", "detected_ts", "id", "insight_type", "service_environment", "service_id", "service_name", "service_namespace", "service_version",
		"status", "telemetry_ts", "trace_id", "updated_at",
	}, keys(insight))
	require.Equal(t, []string{
		"created_at", "description", "display_name", "id", "impact", "instrumentation_score_rule_id", "name", "remediation_instructions", "signal_type", "updated_at",
	}, keys(insight["insight_type"]))
	for _, name := range []string{"signal_type", "resource_attributes", "observations_total", "violations_total"} {
		require.Contains(t, insight["attributes"], name)
	}
	organization := data("/v1/organization")
	require.Equal(t, []string{"active_insights_count", "created_at", "id", "name", "score", "services_count", "tier"}, keys(organization))
	require.Equal(t, []string{"allowed_insight_types", "features", "name"}, keys(organization["tier"]))
	require.Equal(t, []string{"category", "updated_at", "value"}, keys(organization["score"]))
	for _, resource := range []map[string]any{service, score.(map[string]any), insight, insight["insight_type"].(map[string]any), organization} {
		for name, value := range resource {
			if strings.HasSuffix(name, "_at") || strings.HasSuffix(name, "_ts") || strings.HasSuffix(name, "timestamp") {
				require.Regexp(t, timestamp, value, name)
			}
		}
	}
	listed := getAs[[]map[string]any](t, o.daemon, o.key, "/v1/services/"+o.service.ID+"/insights").Data
	i := slices.IndexFunc(listed, func(m map[string]any) bool { return m["id"] == o.insight.ID })
	require.Equal(t, insight, listed[i], "list and resource are equal")
}

func (o *organizations) testPages(t *testing.T) {
	for _, list := range []string{"/v1/services?", "/v1/insights?", "/v1/services/" + o.service.ID + "/insights?status=active,muted&"} {
		type item struct{ ID string }
		whole := getAs[[]item](t, o.daemon, o.key, list+"limit=100")
		n := len(whole.Data)
		require.Equal(t, n, *whole.Meta.Total)
		require.False(t, *whole.Meta.HasMore)
		require.NotContains(t, whole.Links, "next")
		require.NotContains(t, whole.Links, "prev")
		for _, limit := range []int{1, 3, n, n + 1} {
			first := fmt.Sprintf("%slimit=%d", list, min(limit, 100))
			var forward, backward []item
			var last, end string
			for path := first; path != ""; {
				require.Less(t, len(forward), n)
				page := getAs[[]item](t, o.daemon, o.key, path)
				require.Equal(t, n, *page.Meta.Total)
				forward = append(forward, page.Data...)
				require.Equal(t, len(forward) < n, *page.Meta.HasMore)
				_, next := page.Links["next"]
				require.Equal(t, *page.Meta.HasMore, next)
				_, prev := page.Links["prev"]
				require.Equal(t, path != first, prev)
				for _, link := range page.Links {
					require.True(t, strings.HasPrefix(link, "/api/v1/"), link)
				}
				last, end = page.Links["self"], page.Links["last"]
				require.Equal(t, page.Data, getAs[[]item](t, o.daemon, o.key, strings.TrimPrefix(page.Links["self"], "/api")).Data)
				require.Equal(t, whole.Data[:min(limit, n)], getAs[[]item](t, o.daemon, o.key, strings.TrimPrefix(page.Links["first"], "/api")).Data)
				path = strings.TrimPrefix(page.Links["next"], "/api")
			}
			require.Equal(t, whole.Data, forward)
			require.Equal(t, end, last)
			for path := strings.TrimPrefix(end, "/api"); path != ""; {
				page := getAs[[]item](t, o.daemon, o.key, path)
				backward = append(slices.Clone(page.Data), backward...)
				path = strings.TrimPrefix(page.Links["prev"], "/api")
			}
			require.Equal(t, whole.Data, backward)
		}
		past := getAs[[]item](t, o.daemon, o.key, list+"limit=2&offset=1000")
		require.Empty(t, past.Data)
		require.NotNil(t, past.Data)
		require.Equal(t, n, *past.Meta.Total)
		require.False(t, *past.Meta.HasMore)
		require.NotContains(t, past.Links, "next")
	}
	empty := getAs[[]restInsight](t, o.daemon, o.key, "/v1/insights?status=archived&limit=7")
	require.Zero(t, *empty.Meta.Total)
	require.Equal(t, empty.Links["first"], empty.Links["last"])
	require.Contains(t, empty.Links["self"], "status=archived")
	require.NotContains(t, empty.Links, "prev")
}

func (o *organizations) testSorts(t *testing.T) {
	var services []string
	for _, s := range getAs[[]restService](t, o.daemon, o.key, "/v1/services").Data {
		services = append(services, s.Name+"/"+s.Environment+"/"+s.Version)
	}
	require.Equal(t, []string{"B/test/2", "a/prod/1", "a/prod/3", "b/test/0"}, services)

	type item struct {
		ID         string    `json:"id"`
		CreatedAt  time.Time `json:"created_at"`
		UpdatedAt  time.Time `json:"updated_at"`
		DetectedTS time.Time `json:"detected_ts"`
		Type       struct {
			Impact string `json:"impact"`
			Signal string `json:"signal_type"`
		} `json:"insight_type"`
	}
	weight := map[string]int{"Low": 10, "Normal": 20, "Important": 30, "Critical": 40}
	for field, compare := range map[string]func(a, b item) int{
		"created_at":  func(a, b item) int { return a.CreatedAt.Compare(b.CreatedAt) },
		"updated_at":  func(a, b item) int { return a.UpdatedAt.Compare(b.UpdatedAt) },
		"detected_ts": func(a, b item) int { return a.DetectedTS.Compare(b.DetectedTS) },
		"impact":      func(a, b item) int { return cmp.Compare(weight[a.Type.Impact], weight[b.Type.Impact]) },
		"signal_type": func(a, b item) int { return strings.Compare(a.Type.Signal, b.Type.Signal) },
	} {
		for _, sign := range []string{"", "-", "+", "%2B"} {
			var got []item
			for path := "/v1/insights?limit=5&sort=" + sign + field; path != ""; {
				page := getAs[[]item](t, o.daemon, o.key, path)
				got = append(got, page.Data...)
				path = strings.TrimPrefix(page.Links["next"], "/api")
			}
			want := slices.Clone(got)
			slices.SortFunc(want, func(a, b item) int {
				c := compare(a, b)
				if sign == "-" {
					c = -c
				}
				return cmp.Or(c, strings.Compare(a.ID, b.ID))
			})
			require.Equal(t, want, got, sign+field)
			require.Len(t, got, *getAs[[]item](t, o.daemon, o.key, "/v1/insights").Meta.Total)
		}
	}
	require.Equal(t, getAs[[]item](t, o.daemon, o.key, "/v1/insights?sort=-created_at").Data, getAs[[]item](t, o.daemon, o.key, "/v1/insights").Data)
}

func (o *organizations) testFilters(t *testing.T) {
	all := o.insights(t, o.key)
	for query, ok := range map[string]func(restInsight) bool{
		"status=active":                   func(i restInsight) bool { return i.Status == "active" },
		"status=muted,archived":           func(i restInsight) bool { return i.Status != "active" },
		"signal_type=metric":              func(i restInsight) bool { return i.Type.Signal == "metric" },
		"signal_type=log":                 func(i restInsight) bool { return i.Type.Signal == "log" },
		"impact=Critical":                 func(i restInsight) bool { return i.Type.Impact == "Critical" },
		"impact=Low,Normal":               func(i restInsight) bool { return i.Type.Impact == "Low" || i.Type.Impact == "Normal" },
		"service_id=" + o.service.ID:      func(i restInsight) bool { return i.ServiceID == o.service.ID },
		"service_id=" + unknownID:         func(restInsight) bool { return false },
		"service_id=" + o.foreign.service: func(restInsight) bool { return false },
		"impact=Important&signal_type=trace&status=active&service_id=" + o.service.ID: func(i restInsight) bool {
			return i.Type.Impact == "Important" && i.Type.Signal == "trace" && i.ServiceID == o.service.ID
		},
	} {
		var want, got []string
		for _, i := range all {
			if ok(i) {
				want = append(want, i.ID)
			}
		}
		for _, i := range getAs[[]restInsight](t, o.daemon, o.key, "/v1/insights?limit=100&"+query).Data {
			got = append(got, i.ID)
		}
		require.ElementsMatch(t, want, got, query)
	}

	created := getAs[struct {
		CreatedAt string `json:"created_at"`
	}](t, o.daemon, o.key, "/v1/insights/"+o.insight.ID).Data.CreatedAt
	at, err := time.Parse(time.RFC3339, created)
	require.NoError(t, err)
	shows := func(query string) bool {
		return slices.ContainsFunc(getAs[[]restInsight](t, o.daemon, o.key, "/v1/insights?limit=100&"+query).Data, func(i restInsight) bool { return i.ID == o.insight.ID })
	}
	for query, want := range map[string]bool{
		"date_from=" + created:                                                    true, // both ends are inclusive
		"date_to=" + created:                                                      true,
		"date_from=" + created + "&date_to=" + created:                            true,
		"date_from=" + at.Add(time.Microsecond).Format(time.RFC3339Nano):          false,
		"date_to=" + at.Add(-time.Microsecond).Format(time.RFC3339Nano):           false,
		"date_from=" + at.In(time.FixedZone("", 2*3600)).Format(time.RFC3339Nano): true, // with a plus sign
		"date_to=" + at.In(time.FixedZone("", -9*3600)).Format(time.RFC3339Nano):  true,
	} {
		require.Equal(t, want, shows(query), query)
	}
}

// testIsolation searches responses to one organization for data of the other.
func (o *organizations) testIsolation(t *testing.T) {
	ids := func(key string) map[string]bool {
		seen := map[string]bool{getAs[restOrganization](t, o.daemon, key, "/v1/organization").Data.ID: true}
		for _, s := range getAs[[]restService](t, o.daemon, key, "/v1/services?limit=100").Data {
			seen[s.ID], seen[s.OrganizationID] = true, true
		}
		for _, i := range o.insights(t, key) {
			seen[i.ID], seen[i.ServiceID] = true, true
		}
		return seen
	}
	mine, theirs := ids(o.key), ids(o.other)
	for id := range theirs {
		require.NotContains(t, mine, id)
		for _, path := range []string{"/v1/services/" + id, "/v1/services/" + id + "/insights", "/v1/insights/" + id} {
			require.Equal(t, http.StatusNotFound, o.get(t, o.key, path).Status, path)
		}
		require.Empty(t, getAs[[]restInsight](t, o.daemon, o.key, "/v1/insights?service_id="+id).Data)
	}
	require.Len(t, theirs, 1+1+faultyRules)
	a := getAs[restOrganization](t, o.daemon, o.key, "/v1/organization").Data
	b := getAs[restOrganization](t, o.daemon, o.other, "/v1/organization").Data
	require.Equal(t, []any{"default", 4, 36}, []any{a.Name, a.ServicesCount, a.ActiveInsights})
	require.Equal(t, []any{"other", 1, 9}, []any{b.Name, b.ServicesCount, b.ActiveInsights})
	eventually(t, func() bool { // the last traces of the two close at different times
		return o.daemon.service(t, o.key, "b").Score.Score == o.daemon.service(t, o.other, "b").Score.Score
	}, "the same telemetry, not the same score")
}

func (o *organizations) testHeaders(t *testing.T) {
	tags := map[string]string{}
	for _, path := range o.paths() {
		a := o.get(t, o.key, path)
		tag := a.Header.Get("ETag")
		require.Regexp(t, `^(W/)?"[^"]+"$`, tag, path)
		require.Empty(t, tags[tag], "%s has the tag of %s", path, tags[tag])
		tags[tag] = path
		require.Equal(t, tag, o.get(t, o.key, path).Header.Get("ETag"), "meta is not part of it")
		for _, match := range []string{tag, `"x", ` + tag, "*", strings.TrimPrefix(tag, "W/")} {
			b := o.get(t, o.key, path, "If-None-Match", match)
			require.Equal(t, http.StatusNotModified, b.Status, match)
			require.Empty(t, b.Body)
			require.Equal(t, tag, b.Header.Get("ETag"))
		}
		require.Equal(t, http.StatusOK, o.get(t, o.key, path, "If-None-Match", `"x"`).Status)
		requireError(t, o.get(t, "", path, "If-None-Match", tag), 401, "MISSING_CREDENTIALS")

		head, err := o.ask(t.Context(), http.MethodHead, o.REST+path, nil, "Authorization", "Bearer "+o.key)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, head.Status)
		require.Empty(t, head.Body)
		require.Equal(t, tag, head.Header.Get("ETag"))

		// Responses over 1 KiB are compressed, if the client accepts it.
		require.Empty(t, a.Header.Get("Content-Encoding"))
		compressed := o.get(t, o.key, path, "Accept-Encoding", "br, gzip;q=0.5")
		if len(a.Body) <= 1<<10 {
			require.Empty(t, compressed.Header.Get("Content-Encoding"), path)
		} else {
			require.Equal(t, "gzip", compressed.Header.Get("Content-Encoding"), path)
			z, err := gzip.NewReader(bytes.NewReader(compressed.Body))
			require.NoError(t, err)
			plain, err := io.ReadAll(z)
			require.NoError(t, err)
			require.Less(t, len(compressed.Body), len(plain))
			var e envelope[json.RawMessage]
			require.NoError(t, json.Unmarshal(plain, &e))
			require.JSONEq(t, string(e.Data), string(getAs[json.RawMessage](t, o.daemon, o.key, path).Data))
		}
		require.Contains(t, compressed.Header.Values("Vary"), "Accept-Encoding")
		require.Empty(t, o.get(t, o.key, path, "Accept-Encoding", "gzip;q=0, identity").Header.Get("Content-Encoding"))
	}

	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	traced := func(path, parent string) string {
		var e restError
		a := o.get(t, o.key, path, "traceparent", parent)
		require.NoError(t, json.Unmarshal(a.Body, &e))
		require.Regexp(t, `^[0-9a-f]{32}$`, e.Meta.TraceID)
		return e.Meta.TraceID
	}
	for _, path := range append(o.paths(), "/v1/nothing", "/v1/insights/x", "/v1/services?limit=0") {
		require.Equal(t, id, traced(path, "00-"+id+"-00f067aa0ba902b7-01"), path)
		for _, bad := range []string{"", "x", "00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01", "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", "ff-" + id + "-00f067aa0ba902b7-01", "00-" + id + "-0000000000000000-01"} {
			first := traced(path, bad)
			require.NotEqual(t, id, first)
			require.NotEqual(t, first, traced(path, bad))
		}
	}
}
