// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"assay"
)

// TestParameters has a row for each form of a parameter. bad lists the names that must be
// in the details, and no others.
func TestParameters(t *testing.T) {
	f := newFixture(t)
	services, insights := "/api/v1/services", "/api/v1/insights"
	ofService := services + "/" + f.services[0].ID + "/insights"
	id := f.services[0].ID

	for _, c := range []struct {
		path, query string
		bad         string // names, separated by spaces
	}{
		{services, "", ""},
		{services, "limit=1&offset=0", ""},
		{services, "limit=100", ""},
		{services, "limit=", ""},
		{services, "limit", ""},
		{services, "&&limit=5&", ""},
		{services, "limit=007", ""},
		{services, "li%6Dit=5", ""},
		{services, "limit=%35", ""},
		{services, "offset=9007199254740991", ""},
		{services, "offset=1000000", ""},
		{services, "unknown=1&unknown=2", ""},
		{services, "Limit=0", ""}, // names are case-sensitive
		{services, "status=nonsense&sort=nonsense&service_id=nonsense", ""},
		{services, "%zz=1", ""},
		{services, "limit=0", "limit"},
		{services, "limit=101", "limit"},
		{services, "limit=-1", "limit"},
		{services, "limit=1.0", "limit"},
		{services, "limit=1e1", "limit"},
		{services, "limit=0x10", "limit"},
		{services, "limit=1_0", "limit"},
		{services, "limit=%2B5", "limit"},
		{services, "limit=+5", "limit"},
		{services, "limit=5%20", "limit"},
		{services, "limit=%00", "limit"},
		{services, "limit=ten", "limit"},
		{services, "limit=٣", "limit"},
		{services, "limit=5;offset=1", "limit"},
		{services, "limit=null", "limit"},
		{services, "limit=-", "limit"},
		{services, "limit=99999999999999999999", "limit"},
		{services, "limit=5&limit=5", "limit"},
		{services, "limit=5&limit=", "limit"},
		{services, "limit=&limit=", "limit"},
		{services, "limit=5&li%6Dit=5", "limit"},
		{services, "limit=1&limit=2&limit=3", "limit"},
		{services, "limit=%zz", "limit"},
		{services, "limit=%", "limit"},
		{services, "offset=-1", "offset"},
		{services, "offset=9007199254740992", "offset"},
		{services, "offset=9223372036854775807", "offset"},
		{services, "offset=18446744073709551616", "offset"},
		{services, "offset=x", "offset"},
		{services, "limit=0&offset=-1", "limit offset"},
		{services, "limit=x&limit=x&offset=1.5", "limit offset"},

		{ofService, "status=muted", ""},
		{ofService, "status=", ""},
		{ofService, "status=active,archived,muted", ""},
		{ofService, "status=active%2Carchived", ""},
		{ofService, "status=active,active", ""},
		{ofService, "status=Active", "status"},
		{ofService, "status=gone", "status"},
		{ofService, "status=,", "status"},
		{ofService, "status=active,", "status"},
		{ofService, "status=active,+muted", "status"},
		{ofService, "status=active&status=muted", "status"},
		{ofService, "status=all&limit=0&offset=z", "status limit offset"},
		{ofService, "impact=nonsense&service_id=nonsense&date_from=x", ""},

		{insights, "limit=100&offset=3", ""},
		{insights, "limit=101", "limit"},
		{insights, "service_id=" + id, ""},
		{insights, "service_id=" + strings.ToUpper(id), ""},
		{insights, "service_id=", ""},
		{insights, "service_id=00000000-0000-0000-0000-000000000000", ""},
		{insights, "service_id=checkout", "service_id"},
		{insights, "service_id=" + id + ",", "service_id"},
		{insights, "service_id=" + strings.ReplaceAll(id, "-", ""), "service_id"},
		{insights, "service_id=%7B" + id + "%7D", "service_id"},
		{insights, "service_id=urn:uuid:" + id, "service_id"},
		{insights, "service_id=" + id + "%0A", "service_id"},
		{insights, "service_id=" + id + "&service_id=" + id, "service_id"},
		{insights, "service_id='%20OR%201=1--", "service_id"},
		{insights, "status=active,muted", ""},
		{insights, "status=resolved", "status"},
		{insights, "signal_type=trace", ""},
		{insights, "signal_type=metric", ""},
		{insights, "signal_type=log", ""},
		{insights, "signal_type=", ""},
		{insights, "signal_type=TRACE", "signal_type"},
		{insights, "signal_type=traces", "signal_type"},
		{insights, "signal_type=trace,log", "signal_type"},
		{insights, "impact=Critical", ""},
		{insights, "impact=Critical,Important,Normal,Low", ""},
		{insights, "impact=critical", "impact"},
		{insights, "impact=High", "impact"},
		{insights, "impact=Critical,,Low", "impact"},
		{insights, "date_from=2026-11-01T00:00:00Z", ""},
		{insights, "date_from=2026-11-01t00:00:00z", ""},
		{insights, "date_from=2026-11-01T00:00:00.123456789Z", ""},
		{insights, "date_from=2026-11-01T00:00:00%2B02:00", ""},
		{insights, "date_from=2026-11-01T00:00:00+02:00", ""}, // arrives as a space
		{insights, "date_from=2026-11-01T00:00:00-02:30", ""},
		{insights, "date_from=0001-01-01T00:00:00Z", ""},
		{insights, "date_to=9999-12-31T23:59:59Z", ""},
		{insights, "date_from=", ""},
		{insights, "date_from=2024-02-29T00:00:00Z", ""},
		{insights, "date_from=2026-11-01T00:00:00Z&date_to=2026-11-01T00:00:00Z", ""},
		{insights, "date_from=2026-11-01T02:00:00%2B02:00&date_to=2026-11-01T00:00:00Z", ""},
		{insights, "date_from=2026-11-01", "date_from"},
		{insights, "date_from=2026-11-01T00:00:00", "date_from"},
		{insights, "date_from=2026-11-01+00:00:00Z", "date_from"},
		{insights, "date_from=2026-11-01T0:00:00Z", "date_from"},
		{insights, "date_from=2026-11-01T00:00Z", "date_from"},
		{insights, "date_from=2026-11-01T00:00:00,5Z", "date_from"},
		{insights, "date_from=2026-11-31T00:00:00Z", "date_from"},
		{insights, "date_from=2025-02-29T00:00:00Z", "date_from"},
		{insights, "date_from=2026-11-01T24:00:00Z", "date_from"},
		{insights, "date_from=2026-11-01T00:00:00+25:00", "date_from"},
		{insights, "date_from=2026-11-01T00:00:00+0200", "date_from"},
		{insights, "date_from=1762000000", "date_from"},
		{insights, "date_from=yesterday", "date_from"},
		{insights, "date_from=10000-01-01T00:00:00Z", "date_from"},
		{insights, "date_to=tomorrow", "date_to"},
		{insights, "date_to=2026-11-01T00:00:00Z&date_to=2026-11-01T00:00:00Z", "date_to"},
		{insights, "date_from=2026-11-02T00:00:00Z&date_to=2026-11-01T00:00:00Z", "date_from"},
		{insights, "date_from=2026-11-01T00:00:00.000000002Z&date_to=2026-11-01T00:00:00.000000001Z", "date_from"},
		{insights, "date_from=9999-01-01T00:00:00Z&date_to=3000-01-01T00:00:00Z", "date_from"},
		{insights, "date_from=x&date_to=2026-11-01T00:00:00Z", "date_from"},
		{insights, "date_from=2026-11-01T00:00:00Z&date_to=x", "date_to"},
		{insights, "date_from=x&date_to=y", "date_from date_to"},
		{insights, "sort=created_at", ""},
		{insights, "sort=-detected_ts", ""},
		{insights, "sort=%2Bupdated_at", ""},
		{insights, "sort=+impact", ""}, // arrives as a space
		{insights, "sort=%20signal_type", ""},
		{insights, "sort=", ""},
		{insights, "sort=name", "sort"},
		{insights, "sort=-", "sort"},
		{insights, "sort=--impact", "sort"},
		{insights, "sort=++impact", "sort"},
		{insights, "sort=impact-", "sort"},
		{insights, "sort=Impact", "sort"},
		{insights, "sort=impact,created_at", "sort"},
		{insights, "sort=impact%0A", "sort"},
		{insights, "sort=impact%20desc", "sort"},
		{insights, "sort=created_at&sort=impact", "sort"},
		{
			insights, "limit=0&offset=-1&service_id=x&status=x&signal_type=x&impact=x&date_from=x&date_to=x&sort=x",
			"limit offset service_id status signal_type impact date_from date_to sort",
		},
	} {
		t.Run(strings.TrimPrefix(c.path, "/api/v1/")+"?"+c.query, func(t *testing.T) {
			r := httptest.NewRequest("GET", c.path, nil)
			r.Header.Set("Authorization", reader)
			r.URL.RawQuery = c.query
			a := f.serve(t, r)
			if c.bad == "" {
				a.ok(t)
				return
			}
			a.fails(t, 400, assay.CodeInvalid)
			require.ElementsMatch(t, strings.Fields(c.bad), slices.Collect(maps.Keys(a.Error.Details)))
			for _, text := range a.Error.Details {
				require.NotEmpty(t, text)
			}
		})
	}
}

// TestFilter checks the filters that the store receives.
func TestFilter(t *testing.T) {
	f := newFixture(t)
	var asked assay.InsightFilter
	f.FindInsightsFn = func(_ context.Context, filter assay.InsightFilter) ([]*assay.Insight, int, error) {
		asked = filter
		return nil, 0, nil
	}
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, err)
		return v.UTC()
	}
	base := assay.InsightFilter{
		OrganizationID: orgID, Sort: assay.SortCreatedAt, Descending: true, Page: assay.Page{Limit: 20},
	}
	all := "/api/v1/insights?"
	ofService := "/api/v1/services/" + strings.ToUpper(f.services[0].ID) + "/insights?"
	for target, change := range map[string]func(*assay.InsightFilter){
		all: func(*assay.InsightFilter) {},
		all + "service_id=" + strings.ToUpper(f.services[1].ID): func(i *assay.InsightFilter) { i.ServiceID = f.services[1].ID },
		all + "status=muted,active,muted": func(i *assay.InsightFilter) {
			i.Statuses = []assay.InsightStatus{assay.InsightMuted, assay.InsightActive}
		},
		all + "impact=Low,Critical":                   func(i *assay.InsightFilter) { i.Impacts = []assay.Impact{assay.ImpactLow, assay.ImpactCritical} },
		all + "signal_type=log":                       func(i *assay.InsightFilter) { i.Signal = assay.SignalLog },
		all + "limit=7&offset=9":                      func(i *assay.InsightFilter) { i.Page = assay.Page{Limit: 7, Offset: 9} },
		all + "sort=impact":                           func(i *assay.InsightFilter) { i.Sort, i.Descending = assay.SortImpact, false },
		all + "sort=%2Bimpact":                        func(i *assay.InsightFilter) { i.Sort, i.Descending = assay.SortImpact, false },
		all + "sort=+impact":                          func(i *assay.InsightFilter) { i.Sort, i.Descending = assay.SortImpact, false },
		all + "sort=-signal_type":                     func(i *assay.InsightFilter) { i.Sort, i.Descending = assay.SortSignal, true },
		all + "sort=detected_ts":                      func(i *assay.InsightFilter) { i.Sort, i.Descending = assay.SortDetectedAt, false },
		all + "sort=-updated_at":                      func(i *assay.InsightFilter) { i.Sort, i.Descending = assay.SortUpdatedAt, true },
		all + "date_from=2026-11-01T02:00:00+02:00":   func(i *assay.InsightFilter) { i.CreatedFrom = at("2026-11-01T00:00:00Z") },
		all + "date_to=2026-11-01T00:00:00%2b02:00":   func(i *assay.InsightFilter) { i.CreatedTo = at("2026-10-31T22:00:00Z") },
		all + "date_from=2026-11-01T00:00:00.000001Z": func(i *assay.InsightFilter) { i.CreatedFrom = at("2026-11-01T00:00:00.000001Z") },
		all + "date_from=2026-11-01T00:00:00.0000011Z&date_to=2026-11-01T00:00:00.0000029Z": func(i *assay.InsightFilter) {
			i.CreatedFrom, i.CreatedTo = at("2026-11-01T00:00:00.000002Z"), at("2026-11-01T00:00:00.000002Z")
		},
		// Never the zero time, which would not filter at all.
		all + "date_to=0001-01-01T00:00:00Z":   func(i *assay.InsightFilter) { i.CreatedTo = earliest },
		all + "date_from=0001-01-01T00:00:00Z": func(i *assay.InsightFilter) { i.CreatedFrom = earliest },
		all + "date_from=1969-12-31T23:59:59Z": func(i *assay.InsightFilter) { i.CreatedFrom = earliest },
		all + "date_to=9999-12-31T23:59:59Z":   func(i *assay.InsightFilter) { i.CreatedTo = latest },
		ofService: func(i *assay.InsightFilter) {
			i.ServiceID, i.Page.Limit, i.Statuses = f.services[0].ID, 50, []assay.InsightStatus{assay.InsightActive}
		},
		ofService + "status=archived,muted&limit=1&offset=2&sort=impact": func(i *assay.InsightFilter) {
			i.ServiceID, i.Page = f.services[0].ID, assay.Page{Limit: 1, Offset: 2}
			i.Statuses = []assay.InsightStatus{assay.InsightArchived, assay.InsightMuted}
		},
	} {
		t.Run(target, func(t *testing.T) {
			asked = assay.InsightFilter{}
			want := base
			change(&want)
			f.get(t, target).ok(t)
			require.Empty(t, cmp.Diff(want, asked))
		})
	}

	var page assay.Page
	f.FindServicesFn = func(_ context.Context, org string, p assay.Page) ([]*assay.Service, int, error) {
		require.Equal(t, orgID, org)
		page = p
		return nil, 0, nil
	}
	f.get(t, "/api/v1/services").ok(t)
	require.Equal(t, assay.Page{Limit: 50}, page)
	f.get(t, "/api/v1/services?limit=3&offset=4").ok(t)
	require.Equal(t, assay.Page{Limit: 3, Offset: 4}, page)
}

func TestDatesAreInclusive(t *testing.T) {
	f := newFixture(t)
	at := f.insights[0].CreatedAt.Format(time.RFC3339Nano)
	a := f.get(t, "/api/v1/insights?limit=100&date_from="+at+"&date_to="+at).ok(t)
	require.Contains(t, a.ids(t), f.insights[0].ID)
	// Each displayed value selects itself as a filter.
	var shown []struct {
		CreatedAt string `json:"created_at"`
	}
	require.NoError(t, json.Unmarshal(a.Data, &shown))
	require.Equal(t, a.ids(t), f.get(t, "/api/v1/insights?limit=100&date_from="+shown[0].CreatedAt+"&date_to="+shown[0].CreatedAt).ids(t))
}

func TestLinks(t *testing.T) {
	f := newFixture(t)
	const p = "/api/v1/services?"
	for _, c := range []struct {
		services int
		query    string
		want     map[string]string // offsets by relation
		limit    string
		hasMore  bool
	}{
		{0, "", map[string]string{"self": "0", "first": "0", "last": "0"}, "50", false},
		{0, "offset=10", map[string]string{"self": "10", "first": "0", "last": "0"}, "50", false},
		{5, "", map[string]string{"self": "0", "first": "0", "last": "0"}, "50", false},
		{5, "limit=5", map[string]string{"self": "0", "first": "0", "last": "0"}, "5", false},
		{5, "limit=4", map[string]string{"self": "0", "first": "0", "last": "4", "next": "4"}, "4", true},
		{5, "limit=2&offset=2", map[string]string{"self": "2", "first": "0", "last": "4", "next": "4", "prev": "0"}, "2", true},
		{5, "limit=2&offset=4", map[string]string{"self": "4", "first": "0", "last": "4", "prev": "2"}, "2", false},
		{5, "limit=2&offset=1", map[string]string{"self": "1", "first": "0", "last": "4", "next": "3", "prev": "0"}, "2", true},
		{6, "limit=2&offset=4", map[string]string{"self": "4", "first": "0", "last": "4", "prev": "2"}, "2", false},
		{5, "limit=2&offset=5", map[string]string{"self": "5", "first": "0", "last": "4", "prev": "3"}, "2", false},
		{5, "limit=2&offset=99", map[string]string{"self": "99", "first": "0", "last": "4", "prev": "4"}, "2", false},
		{5, "limit=2&offset=9007199254740991", map[string]string{"self": "9007199254740991", "first": "0", "last": "4", "prev": "4"}, "2", false},
	} {
		t.Run(fmt.Sprint(c.services, c.query), func(t *testing.T) {
			f.services = nil
			f.addServices(orgID, c.services)
			a := f.get(t, p+c.query).ok(t)
			want := map[string]string{}
			for rel, offset := range c.want {
				want[rel] = p + "limit=" + c.limit + "&offset=" + offset
			}
			require.Equal(t, want, a.Links)
			require.Equal(t, c.services, *a.Meta.Total)
			require.Equal(t, c.hasMore, *a.Meta.HasMore)
			require.NotEqual(t, "null", string(a.Data))
		})
	}

	// Links preserve the filters, omit unknown and empty parameters, and all work.
	q := "sort=+impact&status=active,muted&date_from=2020-01-01T00:00:00%2B02:00&impact=&nothing=x&limit=3&offset=3"
	a := f.get(t, "/api/v1/insights?"+q).ok(t)
	u, err := url.Parse(a.Links["next"])
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"sort": {"+impact"}, "status": {"active,muted"}, "date_from": {"2020-01-01T00:00:00+02:00"},
		"limit": {"3"}, "offset": {"6"},
	}, u.Query())
	require.Equal(t, a.ids(t), f.get(t, a.Links["self"]).ok(t).ids(t))
	require.NotEqual(t, a.ids(t), f.get(t, a.Links["next"]).ok(t).ids(t))

	// A single resource has neither.
	a = f.get(t, "/api/v1/organization").ok(t)
	require.Nil(t, a.Links)
	require.Nil(t, a.Meta.Total)
	require.Nil(t, a.Meta.HasMore)
}

func TestDeclarations(t *testing.T) {
	declare := func(text string) (*binder, error) {
		op := new(operation)
		if err := yaml.Unmarshal([]byte("parameters: ["+text+"]"), op); err != nil {
			return nil, err
		}
		return newBinder(op, &route{}), nil
	}
	for name, text := range map[string]string{
		"type":                 `{name: limit, in: query, schema: {type: number}}`,
		"unbounded integer":    `{name: limit, in: query, schema: {type: integer, minimum: 1}}`,
		"list without enum":    `{name: names, in: query, schema: {type: array, items: {type: string}}}`,
		"any text":             `{name: kind, in: query, schema: {type: string}}`,
		"default out of range": `{name: limit, in: query, schema: {type: integer, minimum: 1, maximum: 2, default: 3}}`,
	} {
		t.Run(name, func(t *testing.T) { require.Panics(t, func() { _, _ = declare(text) }) })
	}
	require.Panics(t, func() { newFixture(t).h.doc.operation("unknown") })

	b, err := declare(`{name: kind, in: query, schema: {type: string, pattern: ^a}}, {$ref: "#/x"},
		{name: unit, in: query, schema: {type: string, enum: [s, min], default: s}}, {name: n, in: path, schema: {type: integer, minimum: 1, maximum: 2}}`)
	require.NoError(t, err)
	r := httptest.NewRequest("GET", "/?kind=a%2Cb", nil)
	r.SetPathValue("n", "2")
	p, err := b.bind(r)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"kind": "a,b", "unit": "s", "n": 2}, p.values)
	require.Equal(t, url.Values{"kind": {"a,b"}}, p.query)
	r = httptest.NewRequest("GET", "/?kind=b", nil)
	_, err = b.bind(r)
	require.Equal(t, assay.Invalid(map[string]string{"kind": "must match ^a", "n": "must be an integer"}), err)
}

// TestPagesNeverOverlap follows next from the first page and prev from the last. It
// requires every item exactly once.
func TestPagesNeverOverlap(t *testing.T) {
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		f.services, f.insights = nil, nil
		f.addServices(orgID, rapid.IntRange(1, 40).Draw(rt, "services"))
		f.addInsights(f.services[0], rapid.IntRange(0, 60).Draw(rt, "insights"))
		sign := rapid.SampledFrom([]string{"", "-", "%%2B", "+"}).Draw(rt, "sign")
		field := rapid.SampledFrom([]string{"created_at", "detected_ts", "updated_at", "impact", "signal_type"}).Draw(rt, "field")
		target := rapid.SampledFrom([]string{
			"/api/v1/services?limit=%d", "/api/v1/insights?sort=" + sign + field + "&limit=%d",
			"/api/v1/services/" + f.services[0].ID + "/insights?status=active,archived,muted&limit=%d",
		}).Draw(rt, "target")
		limit := rapid.IntRange(1, 25).Draw(rt, "limit")

		first := f.get(t, fmt.Sprintf(target, limit)).ok(t)
		forward := []string{}
		for a := first; ; a = f.get(t, a.Links["next"]).ok(t) {
			forward = append(forward, a.ids(t)...)
			if a.Links["next"] == "" {
				break
			}
		}
		require.Len(rt, forward, *first.Meta.Total)
		require.Len(rt, slices.Compact(slices.Sorted(slices.Values(forward))), *first.Meta.Total)

		backward := []string{}
		for a := f.get(t, first.Links["last"]).ok(t); ; a = f.get(t, a.Links["prev"]).ok(t) {
			backward = append(a.ids(t), backward...)
			if a.Links["prev"] == "" {
				break
			}
		}
		require.Equal(rt, forward, backward)
	})
}

// TestPagesOfVersions follows next through the versions of a service.
func TestPagesOfVersions(t *testing.T) {
	f := newFixture(t)
	f.services = nil
	f.addServices(orgID, 5)
	for _, s := range f.services {
		s.Name = "checkout"
	}
	var seen []string
	for next := "/api/v1/services/" + f.services[0].ID + "/versions?limit=2"; next != ""; {
		a := f.get(t, next).ok(t)
		require.Equal(t, 5, *a.Meta.Total)
		seen = append(seen, a.ids(t)...)
		require.LessOrEqual(t, len(seen), 5)
		next = a.Links["next"]
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(seen))), 5)
}

// FuzzQuery compares the parser of query strings with net/url. Every request succeeds or
// returns a described error.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"", "limit=5", "limit=5&limit=5", "limit=%zz&offset=", "sort=+impact", "sort=-created_at&status=active,muted",
		"date_from=2026-11-01T00:00:00+02:00&date_to=2026-11-02T00:00:00Z", "a;b=c&=x&&%=1", "service_id=\xff%00",
		"impact=Critical,Low&signal_type=trace&offset=9007199254740991",
	} {
		f.Add(s)
	}
	fx := newFixture(f)
	fx.insights = fx.insights[:3]
	known := []string{"limit", "offset", "service_id", "status", "signal_type", "impact", "date_from", "date_to", "sort"}
	f.Fuzz(func(t *testing.T, query string) {
		got := readQuery(query)
		if values, err := url.ParseQuery(query); err == nil { // net/url also refuses semicolons
			require.Len(t, got, len(values))
			for k, v := range values {
				if len(v) > 1 {
					require.NotEmpty(t, got[k].problem)
				} else {
					require.Equal(t, given{value: v[0]}, got[k])
				}
			}
		}
		if len(query) > 8<<10 {
			return
		}
		r := httptest.NewRequest("GET", "/api/v1/insights", nil)
		r.URL.RawQuery = query
		r.Header.Set("Authorization", reader)
		a := fx.serve(t, r)
		switch a.Code {
		case 200:
			// The page leads back to itself.
			self := fx.get(t, a.Links["self"]).ok(t)
			require.Equal(t, a.Links, self.Links)
			require.Equal(t, a.ids(t), self.ids(t))
		case 400:
			require.NotEmpty(t, a.Error.Details)
			for name := range a.Error.Details {
				require.Contains(t, known, name)
				require.Contains(t, got, name)
			}
		default:
			t.Fatalf("status %d", a.Code)
		}
	})
}

func BenchmarkListServices(b *testing.B) { benchmarkGet(b, "/api/v1/services?limit=100") }

func BenchmarkListInsights(b *testing.B) { benchmarkGet(b, "/api/v1/insights?limit=100") }

func BenchmarkListInsightsGzip(b *testing.B) {
	benchmarkGet(b, "/api/v1/insights?limit=100", "Accept-Encoding", "gzip")
}

func benchmarkGet(b *testing.B, target string, headers ...string) {
	f := newFixture(b)
	f.services = nil
	f.addServices(orgID, 100)
	f.insights = nil
	f.addInsights(f.services[0], 100)
	page, services := f.insights, f.services // the store's own work is not measured
	f.FindInsightsFn = func(context.Context, assay.InsightFilter) ([]*assay.Insight, int, error) { return page, 100, nil }
	f.FindServicesFn = func(context.Context, string, assay.Page) ([]*assay.Service, int, error) { return services, 100, nil }
	require.Len(b, f.get(b, target).ok(b).ids(b), 100)
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Authorization", reader)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Code)
		}
		b.SetBytes(int64(w.Body.Len()))
	}
}
