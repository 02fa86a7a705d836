// SPDX-License-Identifier: Apache-2.0

package dashboardtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/score"
)

// OrganizationID is the id of the organization of a World.
const OrganizationID = "0b6cbb0e-3c0c-4a52-8f0e-1c6c1a7b9d10"

// Now is the time in a World.
var Now = time.Date(2026, time.November, 20, 14, 2, 0, 0, time.UTC)

// World is an organization. Its fields must be set before the first use. It is then safe for concurrent use. It
// implements the interfaces of dashboard.Config.
type World struct {
	Organization    assay.Organization
	Rows            []*assay.ServiceRow
	Found           []*assay.Insight
	Volume          *assay.LogVolume // of every period
	Analytics       assay.ServiceAnalytics
	APIKeys         []*assay.APIKey
	Summary         *assay.InsightSummary // nil until Summarize is called
	Err             error                 // error of every read; nil for none
	InstallationURL string                // of onboarding sessions
	Patch           string                // of the run FixID
	TestOutput      string                // of the run FixID, if its tests fail; "" if they pass
	AgentErr        error                 // error of every call of the agent if it is CodeUnavailable, and otherwise of those that change something; nil for none
	Calls           []string              // calls of the agent that change state: method, path and body
	Webhooks        *Webhooks

	mu       sync.Mutex
	observed map[string]uint64 // by service and rule
	failed   map[string]uint64
	history  map[string][]*assay.Score
}

// Session is a session with all permissions.
func Session() *assay.Session {
	return &assay.Session{
		OrganizationID: OrganizationID, Subject: "key:Ab3dE6", KeyID: "Ab3dE6", Name: "first key", Scopes: assay.Scopes(),
		CreatedAt: Now, UsedAt: Now, IdleAt: Now.Add(time.Hour), ExpiresAt: Now.Add(time.Hour),
	}
}

// Empty returns an organization without telemetry.
func Empty() *World {
	return &World{
		Organization: assay.Organization{ID: OrganizationID, Name: "default", Tier: assay.TierPro, CreatedAt: Now.Add(-90 * 24 * time.Hour)},
		APIKeys: []*assay.APIKey{{
			ID: "Ab3dE6", OrganizationID: OrganizationID, Name: "first key", Scopes: assay.Scopes(), CreatedAt: Now.Add(-90 * 24 * time.Hour), LastUsedAt: Now.Add(-time.Minute),
		}},
		Webhooks: new(Webhooks),
		observed: map[string]uint64{}, failed: map[string]uint64{}, history: map[string][]*assay.Score{},
	}
}

// service describes a service of the shop.
type service struct {
	name, namespace, environment, version string
	failed                                []string
	seen                                  time.Duration // ago
}

// Shop returns an organization with some forty services, as they are found anywhere.
func Shop() *World {
	w := Empty()
	w.Patch = "--- a/internal/order/place.go\n+++ b/internal/order/place.go\n@@ -41,3 +41,2 @@\n span.SetAttributes(\n-\tattribute.String(\"customer.email\", o.Email),\n+\tattribute.Int(\"order.items\", len(o.Items)),\n )\n"
	for _, s := range shop() {
		w.add(s)
	}
	w.finish()
	w.Webhooks = newWebhooks(w.Found[0].ID)
	w.APIKeys = append(w.APIKeys,
		&assay.APIKey{ID: "q7Lm2P", OrganizationID: OrganizationID, Name: "collector, production", Scopes: []assay.Scope{assay.ScopeIngest}, CreatedAt: Now.Add(-61 * 24 * time.Hour), ExpiresAt: Now.Add(304 * 24 * time.Hour), LastUsedAt: Now.Add(-20 * time.Second)},
		&assay.APIKey{ID: "Zk81xW", OrganizationID: OrganizationID, Name: "collector, staging", Scopes: []assay.Scope{assay.ScopeIngest}, CreatedAt: Now.Add(-61 * 24 * time.Hour), ExpiresAt: Now.Add(29 * 24 * time.Hour), LastUsedAt: Now.Add(-3 * time.Minute)},
		&assay.APIKey{ID: "m4TtY0", OrganizationID: OrganizationID, Name: "score in CI", Scopes: []assay.Scope{assay.ScopeRead}, CreatedAt: Now.Add(-12 * 24 * time.Hour), ExpiresAt: Now.Add(78 * 24 * time.Hour), LastUsedAt: Now.Add(-5 * time.Hour)},
		&assay.APIKey{ID: "Hh29sd", OrganizationID: OrganizationID, Name: "old laptop", Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAgent}, CreatedAt: Now.Add(-80 * 24 * time.Hour), RevokedAt: Now.Add(-30 * 24 * time.Hour), LastUsedAt: Now.Add(-31 * 24 * time.Hour)},
	)
	return w
}

// Busy returns an organization with one service that has more versions, and more changes in its hourly scores
// of a month, than a page shows. Its first row is the oldest version.
func Busy() *World {
	w := Empty()
	const versions = 14
	for i := range versions {
		w.add(service{"relay", "edge", "production", fmt.Sprintf("1.%d.0", i), []string{"LOG-002", "MET-002", "SPA-002"}[max(0, i%4-1) : i%4], time.Duration(versions-1-i) * 24 * time.Hour})
	}
	for _, r := range w.Rows {
		w.history[r.ID] = hourly(r.Service.Score)
	}
	w.finish()
	return w
}

// hourly returns the scores of a month that end with last. MET-002 repeats a cycle of twenty hours: it
// passes, fails, passes, fails, and is not evaluated.
func hourly(last *assay.Score) []*assay.Score {
	const hours = 720
	var scores []*assay.Score
	for h := range hours {
		s := *last
		s.CalculatedAt = last.CalculatedAt.Add(time.Duration(h-hours) * time.Hour)
		s.EvaluatedRuleIDs = slices.DeleteFunc(slices.Clone(last.EvaluatedRuleIDs), func(id string) bool { return id == "MET-002" })
		s.FailedRuleIDs = slices.DeleteFunc(slices.Clone(last.FailedRuleIDs), func(id string) bool { return id == "MET-002" })
		if turn := h / 20 % 5; turn < 4 {
			s.EvaluatedRuleIDs = append(s.EvaluatedRuleIDs, "MET-002")
			if turn%2 == 1 {
				s.FailedRuleIDs = append(s.FailedRuleIDs, "MET-002")
			}
		}
		slices.Sort(s.EvaluatedRuleIDs)
		slices.Sort(s.FailedRuleIDs)
		s.Value = valueOf(s.EvaluatedRuleIDs, s.FailedRuleIDs)
		scores = append(scores, &s)
	}
	return append(scores, last)
}

// Hostile are texts that telemetry may contain and that pages must escape.
var Hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</title><svg onload=alert(1)>`, "{{.Secret}}", "javascript:alert(1)",
	"invoice\u202egnp.exe", "pay\u2066\u2067ment\u2069", "zero\u200bwidth", "nul\x00byte", "\x1b[31mred", "bad\xff\xfeutf8", "line\nbreak\r\ttab",
	"e" + strings.Repeat("\u0301", 60), "' onfocus='alert(1)", "%2e%2e/%00", strings.Repeat("long ", 2048), strings.Repeat("W", 10<<10), "\ufeffmark", "tag\U000e0041s",
}

// Strangers returns an organization with the texts of Hostile in all names of its services and in the evidence of
// their insights.
func Strangers() *World {
	w := Empty()
	for i, h := range Hostile {
		w.add(service{h, h, h, h, []string{"LOG-003", "MET-002", "RES-001"}, time.Duration(i) * time.Second})
	}
	w.finish()
	for n, i := range w.Found {
		h := Hostile[n%len(Hostile)]
		for _, list := range []string{"attribute_keys", "metric_names", "span_names", "units", "discouraged_attributes"} {
			i.Attributes[list] = jsonOf([]string{h, "a"})
		}
		i.Attributes["findings"] = jsonOf([]map[string]string{{"where": h, "kind": h}})
		i.Attributes["missing_attribute"], i.Attributes[h] = h, h
		i.Attributes["resource_attributes"] = jsonOf(map[string]any{h: h, "nested": map[string]any{h: []string{h}}})
		i.MuteReason = h
		if n%3 == 0 {
			i.Status = assay.InsightMuted
		}
		if n%7 == 0 {
			i.Type = h
		}
	}
	for i, k := range w.APIKeys {
		k.Name = Hostile[i]
	}
	return w
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // of strings alone
		return ""
	}
	return string(text)
}

func shop() []service {
	of := func(names ...string) []string { return names }
	all := []service{
		{"accounts", "shop", "production", "3.1.4", of("LOG-003", "MET-008", "SPA-006", "RES-006"), 8 * time.Second},
		{"accounts", "shop", "staging", "3.2.0-rc.1", of("LOG-003", "RES-006"), 40 * time.Second},
		{"cart", "shop", "production", "1.8.0", of("MET-002", "MET-005", "RES-001"), 3 * time.Second},
		{"catalog", "shop", "production", "12.0.3", of("SPA-002"), 3 * time.Second},
		{"checkout", "shop", "production", "5.0.2", nil, time.Second},
		{"checkout", "shop", "production", "5.0.1", of("MET-002"), 26 * time.Hour},
		{"checkout", "shop", "production", "4.9.7", of("MET-002", "SPA-004"), 9 * 24 * time.Hour},
		{"checkout", "shop", "staging", "5.1.0-rc.2", of("SPA-001"), 2 * time.Minute},
		{"courier", "logistics", "production", "4.2.0", of("MET-003", "MET-004", "MET-007", "RES-002", "RES-003", "RES-004"), 5 * time.Second},
		{"currency", "payments", "production", "2.0.0", nil, 4 * time.Second},
		{"edge", "", "", "1.0.0", of("RES-007", "SPA-002", "SPA-004"), 2 * time.Second},
		{"email", "notifications", "production", "0.14.2", of("LOG-003", "SPA-006", "RES-001"), 12 * time.Second},
		{"fraud-detection", "payments", "production", "7.3.1", of("SDK-001", "MET-001"), 4 * time.Second},
		{"image-provider", "media", "production", "1.0.9", of("SPA-005"), 6 * time.Second},
		{"inventory", "logistics", "production", "0.9.0", of("LOG-001", "RES-001", "RES-003"), 5 * time.Second},
		{"invoice-renderer", "payments", "production", "2.2.8", of("MET-002"), 90 * time.Second},
		{"ledger", "payments", "production", "6.1.0", nil, 2 * time.Second},
		{"loyalty", "shop", "production", "1.4.4", of("LOG-002", "MET-005"), 21 * time.Second},
		{"media-transcoder", "media", "production", "3.3.0", of("SPA-001", "SPA-005", "SDK-001"), 14 * time.Second},
		{"payment", "payments", "production", "8.0.1", of("SPA-006"), time.Second},
		{"payment", "payments", "staging", "8.1.0-rc.4", nil, 70 * time.Second},
		{"pricing", "shop", "production", "0.9.7", of("LOG-001", "LOG-002"), 2 * time.Second},
		{"product-reviews", "shop", "production", "2.5.0", of("LOG-003"), 9 * time.Second},
		{"quote", "logistics", "production", "1.1.0", of("MET-006"), 33 * time.Second},
		{"recommender", "shop", "production", "1.1.0", of("SDK-001", "SPA-001", "SPA-005"), 3 * time.Second},
		{"returns", "logistics", "production", "0.3.2", of("RES-004", "MET-002", "SPA-002"), 50 * time.Second},
		{"search", "shop", "production", "7.5.0", of("MET-001", "MET-006", "SPA-003"), 2 * time.Second},
		{"search-indexer", "shop", "production", "7.5.0", of("LOG-001"), 4 * time.Minute},
		{"shipping", "logistics", "production", "2.8.1", of("RES-001"), 5 * time.Second},
		{"storefront", "shop", "production", "2.3.1", nil, time.Second},
		{"storefront", "shop", "staging", "2.4.0-rc.1", nil, 30 * time.Second},
		{"tax", "payments", "production", "1.9.0", of("MET-002"), 7 * time.Second},
		{"unknown_service", "", "", "", of("RES-005", "RES-007", "RES-010"), 75 * time.Second},
		{"warehouse-sync", "logistics", "production", "0.2.11", of("LOG-001", "LOG-002", "RES-001", "RES-005", "RES-007", "SPA-002", "MET-002", "RES-003"), 3 * time.Hour},
		{"web-bff", "shop", "production", "9.12.0", of("SPA-001"), time.Second},
		{"wishlist", "shop", "production", "1.0.0", nil, 17 * time.Second},
	}
	return all
}

// evaluated are the rules that are evaluated for every service.
var evaluated = []string{
	"RES-005", "RES-001", "RES-007", "LOG-002", "RES-004", "SPA-002", "SPA-001", "LOG-003", "SPA-004", "SPA-003", "MET-002",
	"MET-005", "SPA-006", "MET-001", "SPA-005", "MET-006", "RES-010", "LOG-001", "MET-003", "MET-004", "MET-007", "MET-008",
}

func valueOf(evaluated, failed []string) float64 {
	var all, passed int
	for _, id := range evaluated {
		r, _ := catalog.ByID(id)
		w := r.Info().Impact.Weight()
		all += w
		if !slices.Contains(failed, id) {
			passed += w
		}
	}
	return 100 * float64(passed) / float64(all)
}

// add puts a service, its history and its insights into the world.
func (w *World) add(s service) {
	id := uuid.NewSHA1(uuid.Nil, []byte(s.namespace+"\n"+s.name+"\n"+s.environment+"\n"+s.version)).String()
	rng := rand.New(rand.NewPCG(uint64(len(w.Rows)), 7))
	rules := slices.Clone(evaluated)
	if len(s.failed) > 1 { // services with less telemetry have failures of higher impact
		rules = rules[:6+3*(len(rules)-6)/(3+len(s.failed))]
	}
	for _, f := range s.failed {
		if !slices.Contains(rules, f) {
			rules = append(rules, f)
		}
	}
	slices.Sort(rules)
	slices.Sort(s.failed)
	first := Now.Add(-time.Duration(40+rng.IntN(300)) * 24 * time.Hour)
	row := &assay.ServiceRow{Service: assay.Service{
		ID: id, OrganizationID: OrganizationID,
		ServiceKey:  assay.ServiceKey{Namespace: s.namespace, Name: s.name, Environment: s.environment, Version: s.version},
		FirstSeenAt: first, LastSeenAt: Now.Add(-s.seen), CreatedAt: first, UpdatedAt: Now.Add(-s.seen),
	}}
	row.Signals = []assay.Signal{assay.SignalTrace, assay.SignalMetric, assay.SignalLog}

	// A month of scores with one more failure at its beginning and occasionally later.
	extra := []string{"MET-002", "LOG-002", "SPA-002", "RES-001"}[rng.IntN(4)]
	fixedAt, broke := 4+rng.IntN(18), 20+rng.IntN(9)
	for day := range 31 {
		failed := slices.Clone(s.failed)
		if day < fixedAt && !slices.Contains(failed, extra) && rng.IntN(9) > 0 {
			failed = append(failed, extra)
		}
		if len(failed) > 2 && day < broke {
			failed = slices.Delete(failed, 0, 1)
		}
		slices.Sort(failed)
		at := Now.Add(time.Duration(day-30)*24*time.Hour - 20*time.Second)
		if day == 30 {
			failed = s.failed
		}
		looked := rules
		if late := rules[len(rules)-1]; len(w.Rows)%3 == 2 && day < 12 && !slices.Contains(failed, late) { // not sent at the beginning
			looked = rules[:len(rules)-1]
		}
		sc := &assay.Score{
			ID: uuid.NewSHA1(uuid.Nil, []byte(id+at.String())).String(), Value: valueOf(looked, failed), EvaluatedRuleIDs: looked, FailedRuleIDs: failed,
			CalculatedAt: at, Window: assay.DefaultWindow, CreatedAt: at,
		}
		w.history[id] = append(w.history[id], sc)
		row.Score = sc
	}
	for _, r := range rules {
		w.observed[id+r] = uint64(200 + rng.IntN(4_000_000))
	}
	for _, f := range s.failed {
		w.failed[id+f] = 1 + rng.Uint64N(w.observed[id+f]/3)
		i := w.insight(row, f, rng)
		w.Found = append(w.Found, i)
		row.Active.Add(catalogOf(f).Info().Impact)
	}
	w.Rows = append(w.Rows, row)
}

func catalogOf(id string) catalog.Rule {
	r, _ := catalog.ByID(id)
	return r
}

// evidence are examples of evidence by rule.
var evidence = map[string]map[string]any{
	"LOG-003": {"findings": `[{"where":"log body","kind":"email"},{"where":"log attribute: customer.card","kind":"credit card number"}]`},
	"SPA-006": {"findings": `[{"where":"span attribute: user.contact","kind":"email"},{"where":"event: exception.message","kind":"bearer token"}]`},
	"MET-008": {"findings": `[{"where":"data point attribute: login","kind":"email"}]`, "metric_names": `["accounts.logins"]`},
	"RES-010": {"findings": `[{"where":"resource attribute: process.command_args","kind":"password"}]`},
	"MET-001": {"attribute_keys": `["search.query.id"]`, "metric_names": `["search.latency"]`},
	"MET-002": {"metric_names": `["cart.items","cart.value","checkout.duration"]`},
	"MET-003": {"metric_names": `["delivery.duration"]`, "units": `["ms","s"]`},
	"MET-005": {"metric_names": `["cart.value_bytes"]`},
	"SPA-003": {"span_names": `["GET /search/1","GET /search/2","GET /search/3","GET /search/4","GET /search/5"]`},
	"RES-004": {"attribute_keys": `["http.request.method","db.query.text"]`},
	"RES-001": {"missing_attribute": "service.instance.id"},
	"RES-003": {"missing_attribute": "k8s.pod.uid"},
	"RES-007": {"missing_attribute": "deployment.environment.name"},
	"SPA-004": {"span_names": `["GET"]`},
	"MET-007": {"discouraged_attributes": `["host.ip","process.command_line"]`},
}

func (w *World) insight(row *assay.ServiceRow, rule string, rng *rand.Rand) *assay.Insight {
	info := catalogOf(rule).Info()
	i := &assay.Insight{
		ID: uuid.NewSHA1(uuid.Nil, []byte(row.ID+info.Name)).String(), OrganizationID: OrganizationID,
		Service: assay.Service{ID: row.ID, ServiceKey: row.ServiceKey}, Type: info.Name, Status: assay.InsightActive,
		TraceID:     fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()),
		TelemetryAt: row.LastSeenAt, DetectedAt: Now.Add(-time.Duration(rng.IntN(20*24*60)) * time.Minute),
		Attributes: map[string]any{
			"signal_type":         strings.ToUpper(string(info.Signal)) + "S",
			"resource_attributes": `{"deployment.environment.name":"` + row.Environment + `","service.name":"` + row.Name + `","service.version":"` + row.Version + `","telemetry.sdk.language":"go","telemetry.sdk.version":"1.47.0"}`,
			"observations_total":  int64(w.observed[row.ID+rule]),
			"violations_total":    int64(w.failed[row.ID+rule]),
		},
	}
	i.CreatedAt, i.UpdatedAt = i.DetectedAt.Add(-time.Duration(rng.IntN(3*24*60))*time.Minute), Now.Add(-time.Duration(rng.IntN(60))*time.Minute)
	maps.Copy(i.Attributes, evidence[rule])
	if strings.HasPrefix(rule, "MET") {
		i.TraceID = ""
	}
	return i
}

// finish computes the totals of the services.
func (w *World) finish() {
	w.Organization.ServicesCount, w.Organization.ActiveInsightsCount = len(w.Rows), len(w.Found)
	w.Organization.ScoreUpdatedAt = Now.Add(-20 * time.Second)
	sum := 0.0
	for _, r := range w.Rows {
		sum += r.Service.Score.Value
	}
	mean := sum / float64(len(w.Rows))
	w.Organization.Score = &mean

	rng := rand.New(rand.NewPCG(1, 2))
	v := &assay.LogVolume{Period: "24h", Start: Now.Add(-24 * time.Hour), End: Now}
	for i := range 60 {
		day := 1 + 0.55*math.Sin(2*math.Pi*(float64(i)/60-0.35))
		of := func(n float64) uint64 { return uint64(n * day * (0.85 + 0.3*rng.Float64())) }
		p := assay.LogVolumePoint{Start: v.Start.Add(time.Duration(i) * 24 * time.Minute)}
		p.Counts = assay.SeverityCounts{of(400), of(21_000), of(64_000), of(6_100), of(900), of(6), of(3_800)}
		if i > 38 && i < 43 {
			p.Counts[assay.SeverityError] *= 16
			p.Counts[assay.SeverityWarn] *= 3
		}
		v.Series = append(v.Series, p)
		v.Counts.Add(&p.Counts)
	}
	w.Volume = v

	a := assay.ServiceAnalytics{Start: Now.Add(-assay.DefaultWindow), End: Now, Currency: "USD"}
	seen := map[string]bool{}
	for i, r := range w.Rows {
		if seen[r.Namespace+r.Name+r.Environment] {
			continue
		}
		seen[r.Namespace+r.Name+r.Environment] = true
		size := 4e11 / float64(1+(i*7)%23)
		c := assay.ServiceCost{
			ID: r.ID, Name: r.Name, Namespace: r.Namespace, Environment: r.Environment, Version: r.Version, ActiveSeries: 400 + rng.Uint64N(30_000),
			Traces:  assay.SignalUsage{Bytes: uint64(size * rng.Float64()), Items: uint64(size / 700)},
			Metrics: assay.SignalUsage{Bytes: uint64(0.3 * size * rng.Float64()), Items: uint64(size / 900)},
			Logs:    assay.SignalUsage{Bytes: uint64(0.8 * size * rng.Float64()), Items: uint64(size / 500)},
		}
		c.TracesCost.Estimated, c.LogsCost.Estimated = float64(c.Traces.Bytes)/1e9*0.5, float64(c.Logs.Bytes)/1e9*0.5
		c.MetricsCost.Estimated = float64(c.ActiveSeries) / 1e3 * 6.5
		for rule, signal := range map[string]*assay.SignalCost{"LOG-001": &c.LogsCost, "MET-001": &c.MetricsCost, "SPA-001": &c.TracesCost, "SPA-005": &c.TracesCost} {
			if slices.Contains(r.Service.Score.FailedRuleIDs, rule) {
				signal.Avoidable = signal.Estimated * (0.2 + 0.4*float64(i%7)/7)
			}
		}
		for _, signal := range []assay.SignalCost{c.TracesCost, c.MetricsCost, c.LogsCost} {
			c.EstimatedCost, c.AvoidableCost = c.EstimatedCost+signal.Estimated, c.AvoidableCost+signal.Avoidable
		}
		a.Services = append(a.Services, c)
		a.TotalBytes += c.Bytes()
		a.TotalCost += c.EstimatedCost
	}
	slices.SortFunc(a.Services, func(x, y assay.ServiceCost) int { return cmp.Compare(y.Bytes(), x.Bytes()) })
	w.Analytics = a
}

var _ interface {
	assay.ServiceLister
	assay.OverviewStore
	assay.InsightStore
	assay.Analyst
	assay.LogVolumeReader
	assay.Summarizer
} = (*World)(nil)

// RuleStates implements dashboard.RuleStater.
func (w *World) RuleStates(_ context.Context, organizationID, serviceID string) ([]score.RuleState, error) {
	if err := w.unavailable(organizationID); err != nil {
		return nil, err
	}
	row := w.row(serviceID)
	if row == nil {
		return nil, assay.Errorf(assay.CodeServiceNotFound, "no such service")
	}
	states := make([]score.RuleState, catalog.Scored)
	for r := range catalog.Rule(catalog.Scored) {
		states[r] = score.RuleState{Rule: r, State: score.NotEvaluated}
		if s := row.Service.Score; s != nil && slices.Contains(s.EvaluatedRuleIDs, r.ID()) {
			states[r] = score.RuleState{Rule: r, State: score.Passed, Observed: w.observed[serviceID+r.ID()]}
			if slices.Contains(s.FailedRuleIDs, r.ID()) {
				states[r].State, states[r].Failed = score.Failed, w.failed[serviceID+r.ID()]
			}
		}
	}
	return states, nil
}

func (w *World) row(id string) *assay.ServiceRow {
	for _, r := range w.Rows {
		if r.ID == id {
			return r
		}
	}
	return nil
}
