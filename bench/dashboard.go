// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/score"
	"assay/internal/store/sqlite"
)

const (
	shownServices = 10_000
	shownFailing  = 10 // failing rules of each service: 100,000 insights
	shownRequests = 300
	shownKeys     = 1_000
	shownHourly   = 20 // first services, with a score for every hour

	pageTarget  = 50  // milliseconds at p95
	firstTarget = 250 // KiB with all assets, compressed
	nextTarget  = 30  // KiB
)

// shownDays are the days before now on which all services sent telemetry, about a week
// apart.
var shownDays = []int{29, 21, 14, 7, 0}

// runDashboard measures every page of the dashboard for a large organization.
func runDashboard(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	srv, filled, err := startFilled(ctx, s.assay, fillShown, "--score-interval", "1h")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	if err := srv.calm(ctx); err != nil { // it scores all services first
		return srv.Explain(err)
	}
	t, err := measureShown(ctx, srv.Root, srv.key)
	if err != nil {
		return srv.Explain(err)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("filling the store took %.0f s", filled.Seconds()))
	return emit(t)
}

// fillShown stores a month of telemetry of the services and their scores, hourly ones for
// some, with log records in every minute. It creates the maximum number of keys.
func fillShown(ctx context.Context, path string) (err error) {
	now := time.Now().UTC().AddDate(0, 0, -shownDays[0]).Truncate(time.Hour)
	clock := func() time.Time { return now }
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path, Now: clock})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	all, err := store.FindOrganizations(ctx)
	if err != nil || len(all) != 1 {
		return errors.Join(err, fmt.Errorf("%d organizations", len(all)))
	}
	org := all[0].ID
	if err := store.ImportLogRecords(ctx, org, shownLogs(time.Now())); err != nil {
		return err
	}
	if err := fillKeys(ctx, store, org, now); err != nil {
		return err
	}
	// The window does not move, so only services with new telemetry are scored.
	scorer := score.New(score.Config{Store: store})
	period := score.PeriodAt(now, assay.DefaultWindow, assay.DefaultWindowStep)
	send := func(d *delta.Delta) error {
		if err := store.Commit(ctx, now, nil, func([]bool) *delta.Delta { return d }); err != nil {
			return err
		}
		return scorer.RoundAt(ctx, now, period)
	}
	hour := 0
	for round, days := range shownDays {
		for end := time.Now().AddDate(0, 0, -days); now.Before(end); now = now.Add(time.Hour) {
			d := hourlyDelta(org, hour, now)
			if err := send(d); err != nil {
				return err
			}
			hour++
		}
		if err := send(shownDelta(org, round, now)); err != nil {
			return err
		}
	}
	o, err := store.FindOrganizationByID(ctx, org)
	if err == nil && (o.ServicesCount != shownServices || o.ActiveInsightsCount != shownServices*shownFailing) {
		err = fmt.Errorf("%d services and %d insights", o.ServicesCount, o.ActiveInsightsCount)
	}
	return err
}

// fillKeys creates keys in addition to the existing one.
func fillKeys(ctx context.Context, store *sqlite.Store, org string, now time.Time) error {
	for i := 1; i < shownKeys; i++ {
		k := &assay.APIKey{
			ID: fmt.Sprintf("%06d", i), OrganizationID: org, Name: fmt.Sprintf("collector %d", i), Hash: sha256.Sum256([]byte(strconv.Itoa(i))),
			Scopes: []assay.Scope{assay.ScopeIngest}, CreatedAt: now,
		}
		if err := store.CreateAPIKey(ctx, k, assay.APIKeyLimits{}); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
	}
	return nil
}

// hourlyLogs are the log records of a part of an hour.
func hourlyLogs(hour int) assay.SeverityCounts {
	n := uint64(12 * (1000 + 400*(hour%24)))
	return assay.SeverityCounts{assay.SeverityDebug: n / 3, assay.SeverityInfo: n, assay.SeverityWarn: n / 20, assay.SeverityError: n / 90, assay.SeverityFatal: uint64(hour % 2)}
}

// shownLogs are the log records of an organization that sends in every minute of 30 days,
// as a store keeps them.
func shownLogs(end time.Time) (records []assay.LogRecords) {
	end = end.UTC()
	at, minutes := end.Add(-assay.LogHoursRetention).Truncate(time.Hour), end.Add(-assay.LogMinutesRetention).Truncate(time.Hour)
	for hour := 0; at.Before(end); {
		r := assay.LogRecords{Start: at, Span: time.Hour, Counts: hourlyLogs(hour)}
		if !at.Before(minutes) {
			r.Span = time.Minute
			for s := range r.Counts {
				r.Counts[s] = (r.Counts[s] + 59) / 60
			}
		}
		records = append(records, r)
		if at = at.Add(r.Span); at.Minute() == 0 {
			hour++
		}
	}
	return records
}

// hourlyDelta is the telemetry of the services with hourly scores in one hour. Their
// rules start to fail one after the other, more than a day apart.
func hourlyDelta(org string, hour int, at time.Time) *delta.Delta {
	d := new(delta.Delta)
	nano := uint64(at.UnixNano())
	b := delta.BucketOf(nano, time.Hour)
	o := d.Organization(org)
	for i := range shownHourly {
		f := o.Service(shownService(i))
		f.Seen(nano)
		for n, r := range shownRules {
			c := delta.Count{Observed: 100}
			if (n+i)%len(shownRules) < shownFailing {
				if hour < 30*n {
					continue
				}
				c.Failed = uint64(1 + (i+n)%90)
				f.AddExample(r, &delta.Example{TimeUnixNano: nano, ResourceAttributes: shownResource(i)})
			}
			f.Counts(b)[r].Add(c)
		}
	}
	return d
}

// shownRules are the rules that only count observations.
var shownRules = func() (all []catalog.Rule) {
	for r := range catalog.Rule(catalog.Scored) {
		switch r {
		case catalog.RES002, catalog.MET003, catalog.MET004, catalog.LOG001: // compare services or days
		default:
			all = append(all, r)
		}
	}
	return all
}()

// shownService is the key of a service: two versions of each, in six environments.
func shownService(i int) assay.ServiceKey {
	return assay.ServiceKey{
		Namespace: "team-" + strconv.Itoa(i/2%40), Name: fmt.Sprintf("service-%05d", i/2),
		Environment: "environment-" + strconv.Itoa(i/2%6), Version: "1." + strconv.Itoa(i%2) + ".0",
	}
}

func shownResource(i int) string {
	return fmt.Sprintf(`{"service.name":"service-%05d","k8s.pod.name":"pod-%d","k8s.node.name":"node-%d","telemetry.sdk.language":"go","telemetry.sdk.version":"1.47.0"}`, i/2, i, i%50)
}

// shownDelta is the telemetry of all services in one round. The failing rules differ
// between services, and grow from week to week.
func shownDelta(org string, round int, at time.Time) *delta.Delta {
	d := new(delta.Delta)
	nano := uint64(at.UnixNano())
	b := delta.BucketOf(nano, time.Hour)
	o := d.Organization(org)
	for i := range shownServices {
		f := o.Service(shownService(i))
		f.Seen(nano)
		for n, r := range shownRules {
			c := delta.Count{Observed: 100}
			if (n+i)%len(shownRules) < shownFailing {
				c.Failed = uint64(1 + (i+n)%90)
				f.AddExample(r, &delta.Example{TimeUnixNano: nano, ResourceAttributes: shownResource(i)})
				f.AddItem(delta.Item{Rule: r, List: delta.AttributeKeys, Text: "attribute." + strconv.Itoa(i%20)}, b)
			}
			if round > n%len(shownDays) || c.Failed == 0 || round == len(shownDays)-1 { // a different score each week
				f.Counts(b)[r].Add(c)
			}
		}
		for s := range delta.SignalCount {
			f.AddUsage(b, s, delta.Usage{Items: uint64(100 + i%900), Bytes: uint64(20_000 + i*37%90_000)})
		}
	}
	return d
}

// shownPage is a kind of page; path returns the address of the nth request.
type shownPage struct {
	name string
	path func(n int) string
}

// measureShown requests pages as a browser of a signed-in user.
func measureShown(ctx context.Context, root, key string) (*table, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	form := url.Values{"key": {key}, "return": {"/"}}
	if _, err := browse(ctx, client, http.MethodPost, root+"/sign-in", strings.NewReader(form.Encode())); err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	list, err := browse(ctx, client, http.MethodGet, root+"/services?q=service-0000", nil) // services with hourly scores
	if err != nil {
		return nil, err
	}
	services, err := hrefs(list, "/services/")
	if err != nil {
		return nil, err
	}
	if list, err = browse(ctx, client, http.MethodGet, root+"/insights", nil); err != nil {
		return nil, err
	}
	insights, err := hrefs(list, "/insights/")
	if err != nil {
		return nil, err
	}
	const servicePages, insightPages = shownServices / 50, shownServices * shownFailing / 50
	sorts := []string{"", "score", "-score", "-insights", "-last_seen"}
	t := &table{
		Title: fmt.Sprintf("the dashboard over loopback, %s services, %s insights and %s keys, one browser, %d requests of each page",
			thousands(shownServices), thousands(shownServices*shownFailing), thousands(shownKeys), shownRequests),
		Columns: []string{"p50 ms", "p95 ms", "max ms", "KiB compressed"},
	}
	var heaviest float64
	for _, p := range []shownPage{
		{"overview", func(n int) string { return "/?period=" + string(assay.LogVolumePeriods()[n%6]) }},
		{"services, any page and order", func(n int) string {
			return fmt.Sprintf("/services?sort=%s&page=%d", sorts[n%len(sorts)], 1+n*7919%servicePages)
		}},
		{"services, searched and filtered", func(n int) string {
			return fmt.Sprintf("/services?q=e-%02d&environment=environment-%d&band=needs-improvement&signal=log", n%100, n%6)
		}},
		{"service", func(n int) string { return services[n%len(services)] }},
		{"insights, any page", func(n int) string { return fmt.Sprintf("/insights?page=%d", 1+n*7919%insightPages) }},
		{"insights of a rule", func(n int) string {
			return fmt.Sprintf("/insights?rule=%s&page=%d", shownRules[n%len(shownRules)].ID(), 1+n%20)
		}},
		{"insights, filtered", func(n int) string {
			return fmt.Sprintf("/insights?status=all&impact=important&signal=metric&sort=-detected_ts&page=%d", 1+n%100)
		}},
		{"insight", func(n int) string { return insights[n%len(insights)] }},
		{"rules", func(int) string { return "/rules" }},
		{"rule", func(n int) string { return "/rules/" + shownRules[n%len(shownRules)].ID() }},
		{"costs, any page and order", func(n int) string {
			return fmt.Sprintf("/costs?sort=%s&page=%d", []string{"", "-bytes", "-avoidable", "name"}[n%4], 1+n*7919%(servicePages/2))
		}},
		{"keys", func(int) string { return "/keys" }},
	} {
		var ms []float64
		size := 0
		for n := range shownRequests {
			at := time.Now()
			body, err := browse(ctx, client, http.MethodGet, root+p.path(n), nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			if n > 0 { // the first request warms up
				ms = append(ms, float64(time.Since(at).Nanoseconds())/1e6)
			}
			size = max(size, len(body))
		}
		heaviest = max(heaviest, float64(size)/1024)
		t.Rows = append(t.Rows, row{p.name, []value{value(quantile(ms, 0.5)), value(quantile(ms, 0.95)), value(quantile(ms, 1)), value(float64(size) / 1024)}})
		t.Targets = append(t.Targets, atMost(p.name+", p95 ms", pageTarget, quantile(ms, 0.95)))
	}
	first, err := firstVisit(ctx, client, root)
	if err != nil {
		return nil, err
	}
	t.Targets = append(t.Targets, atMost("first page with all assets, KiB compressed", firstTarget, first), atMost("heaviest next page, KiB compressed", nextTarget, heaviest))
	return t, nil
}

// browse requests a page and returns the number of compressed bytes received.
func browse(ctx context.Context, client *http.Client, method, address string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Accept-Encoding", "gzip")
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	compressed, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || res.Request.URL.Path == "/sign-in") {
		err = fmt.Errorf("%s answered %d", res.Request.URL, res.StatusCode)
	}
	return compressed, err
}

func gunzip(compressed []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}

// hrefs returns the links of a page to addresses below a path.
func hrefs(compressed []byte, below string) ([]string, error) {
	page, err := gunzip(compressed)
	if err != nil {
		return nil, err
	}
	links := regexp.MustCompile(`<td class="main"><a href="(`+below+`[^"]+)"`).FindAllSubmatch(page, -1)
	all := lists.Map(links, func(m [][]byte) string { return string(m[1]) })
	if len(all) == 0 {
		return nil, fmt.Errorf("no link to %s on the page", below)
	}
	return all, nil
}

// firstVisit returns the size in KiB of the first page and all its assets.
func firstVisit(ctx context.Context, client *http.Client, root string) (float64, error) {
	compressed, err := browse(ctx, client, http.MethodGet, root+"/", nil)
	if err != nil {
		return 0, err
	}
	page, err := gunzip(compressed)
	if err != nil {
		return 0, err
	}
	size := len(compressed)
	for _, m := range regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllSubmatch(page, -1) {
		asset, err := browse(ctx, client, http.MethodGet, root+string(m[1]), nil)
		if err != nil {
			return 0, err
		}
		size += len(asset)
	}
	return float64(size) / 1024, nil
}
