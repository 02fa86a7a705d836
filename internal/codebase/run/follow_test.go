// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/source"
)

// versions is telemetry of a service.
type versions struct {
	Telemetry
	services []*assay.Service
	insights []*assay.Insight
	usage    []*assay.ServiceUsage
}

func (v *versions) FindServices(context.Context, string, assay.Page) ([]*assay.Service, int, error) {
	return v.services, len(v.services), nil
}

func (v *versions) FindInsights(ctx context.Context, f assay.InsightFilter) ([]*assay.Insight, int, error) {
	return v.insights, len(v.insights), nil
}

func (v *versions) FindUsage(context.Context, string) ([]*assay.ServiceUsage, error) {
	return v.usage, nil
}

func TestJudgeFix(t *testing.T) {
	found := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	resolved := found.Add(2 * time.Hour)
	score := func(failed ...string) *assay.Score {
		return &assay.Score{EvaluatedRuleIDs: []string{"RES-001", "SPA-003"}, FailedRuleIDs: failed}
	}
	version := func(name string, created, seen time.Duration, s *assay.Score) *assay.Service {
		return &assay.Service{ID: name, ServiceKey: assay.ServiceKey{Name: "shop", Version: name}, CreatedAt: found.Add(created), LastSeenAt: found.Add(seen), Score: s}
	}
	old := version("1.0", -time.Hour, 5*time.Hour, score("SPA-003"))
	open := func(version, rule, span string) evidence {
		return evidence{id: "insight of " + version, rule: rule, service: "shop", serviceID: version, spans: []string{span}}
	}
	for name, c := range map[string]struct {
		services []*assay.Service
		insights []evidence
		active   bool // the finding
		want     string
	}{
		"the new version passes":          {services: []*assay.Service{old, version("1.1", time.Hour, 5*time.Hour, score("RES-001"))}, want: "confirmed"},
		"no new version":                  {services: []*assay.Service{version("1.1", -time.Hour, 5*time.Hour, score())}},
		"no score":                        {services: []*assay.Service{version("1.1", time.Hour, 5*time.Hour, nil)}},
		"the rule is not evaluated":       {services: []*assay.Service{version("1.1", time.Hour, 5*time.Hour, &assay.Score{EvaluatedRuleIDs: []string{"RES-001"}})}},
		"no telemetry since the merge":    {services: []*assay.Service{version("1.1", time.Hour, time.Hour, score())}},
		"the newest version counts":       {services: []*assay.Service{version("1.2", 3*time.Hour, 5*time.Hour, score("SPA-003")), version("1.1", time.Hour, 5*time.Hour, score())}},
		"a service of another name":       {},
		"the new version fails":           {services: []*assay.Service{old, version("1.1", 3*time.Hour, 5*time.Hour, score("SPA-003"))}, insights: []evidence{open("1.0", "SPA-003", "order 7"), open("1.1", "SPA-003", "order 7")}, want: "refuted"},
		"it is older than the merge":      {services: []*assay.Service{version("1.1", time.Hour, 5*time.Hour, score("SPA-003"))}, insights: []evidence{open("1.1", "SPA-003", "order 7")}},
		"it fails for another span":       {services: []*assay.Service{version("1.1", 3*time.Hour, 5*time.Hour, score("SPA-003"))}, insights: []evidence{open("1.1", "SPA-003", "cart 7")}},
		"it fails another rule":           {services: []*assay.Service{version("1.1", 3*time.Hour, 5*time.Hour, score("RES-001"))}, insights: []evidence{open("1.1", "RES-001", "order 7")}, want: "confirmed"},
		"refuted, and the version passes": {services: []*assay.Service{version("1.1", 3*time.Hour, 5*time.Hour, score())}, active: true, want: "confirmed"},
		"refuted, and it still fails":     {services: []*assay.Service{version("1.1", 3*time.Hour, 5*time.Hour, score("SPA-003"))}, insights: []evidence{open("1.1", "SPA-003", "order 7")}, active: true, want: "refuted"},
	} {
		t.Run(name, func(t *testing.T) {
			finding := &assay.CodeFinding{Service: "shop", Body: json.RawMessage(`{"rules":["SPA-003"],"names":{"SpanName":"order *"}}`), CreatedAt: found}
			if !c.active {
				finding.ResolvedAt = resolved
			}
			seen := &telemetry{services: map[string][]*assay.Service{"shop": c.services}, insights: c.insights}
			v := seen.assess(finding)
			require.Equal(t, c.want, v.status)
			if v.status == assay.FixRefuted {
				require.Equal(t, []string{"insight of 1.1"}, v.insights)
			}
		})
	}
}

func TestConfirmation(t *testing.T) {
	usage := map[string]*assay.ServiceUsage{"b": {Traces: assay.SignalUsage{Items: 12_400}, Logs: assay.SignalUsage{Items: 1}}}
	for _, c := range []struct {
		id, version string
		rules       []string
		want        string
	}{
		{"b", "1.4.2", []string{"SPA-003"}, "Fixed in 1.4.2, confirmed by 12,400 spans."},
		{"b", "", []string{"SPA-006", "RES-010"}, "Fixed, confirmed by 12,400 spans and 1 log record."},
		{"b", "1.4.2", []string{"MET-001"}, "Fixed in 1.4.2."},
		{"unknown", "1.4.2", []string{"SPA-003"}, "Fixed in 1.4.2."},
		{"b", strings.Repeat("9", 3000), []string{"LOG-003"}, "Fixed in " + strings.Repeat("9", 100) + "..., confirmed by 1 log record."},
	} {
		v := fixVerdict{version: &assay.Service{ID: c.id, ServiceKey: assay.ServiceKey{Version: c.version}}, rules: c.rules}
		require.Equal(t, c.want, v.confirmation(usage))
	}
}

// TestFollowFix follows a merged fix: version 1.4.2 still fails its rule, which reopens the finding, and 1.4.3 passes.
func TestFollowFix(t *testing.T) {
	w, found := newShop(t)
	fails := func() *assay.Score {
		return &assay.Score{EvaluatedRuleIDs: []string{"SPA-003"}, FailedRuleIDs: []string{"SPA-003"}}
	}
	seen := &versions{Telemetry: w.store, services: []*assay.Service{{ServiceKey: assay.ServiceKey{Name: "shop", Version: "1.4.1"}, Score: fails()}}}
	w.repository.Settings.Services = []string{"shop"}
	require.NoError(t, w.store.SaveRepositorySettings(t.Context(), w.organization, w.repository.ID, w.repository.Settings))
	w.start("second", func(c *Config) { c.Verifier, c.Telemetry = w, seen })
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted) // with the service
	w.wait(w.scheduleFix(found["span-name-dynamic"]), assay.RunCompleted)

	checkout := func(text string) {
		w.set(func() {
			w.checkout = func(_ context.Context, _ source.Want, dir string) (*source.Checkout, error) {
				return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("b", 40)}, os.WriteFile(filepath.Join(dir, "shop.go"), []byte(text), 0o600)
			}
		})
	}
	w.set(func() { w.pull = &source.Pull{Number: 7, State: assay.PullMerged} })
	checkout(strings.Replace(shop, `"order "+id`, `"order"`, 1))
	state := func() string {
		w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
		all, _, err := w.store.Findings(t.Context(), w.organization, assay.FindingFilter{Status: "all", Limit: 10})
		require.NoError(t, err)
		at := slices.IndexFunc(all, func(f *assay.CodeFinding) bool { return f.ID == found["span-name-dynamic"] })
		require.GreaterOrEqual(t, at, 0)
		f := all[at]
		open := "resolved"
		if !f.Resolved {
			open = "active"
		}
		return strings.Join(append([]string{open, f.FixStatus, f.PullStatus, f.FixNote}, f.InsightIDs...), "|")
	}
	require.Equal(t, "resolved|merged|merged|", state())
	require.Equal(t, "resolved|merged|merged|", state(), "version 1.4.1 proves nothing")

	const insight = "0193e3a6-0000-7000-8000-000000000001"
	release := func(id, version string, s *assay.Score) {
		at := w.clock.Now().Add(time.Duration(len(seen.services)) * time.Hour)
		w.set(func() {
			seen.services = append(seen.services, &assay.Service{
				ID: id, ServiceKey: assay.ServiceKey{Name: "shop", Version: version}, CreatedAt: at, LastSeenAt: at, Score: s,
			})
		})
	}
	release("second", "1.4.2", fails())
	w.set(func() {
		seen.insights = []*assay.Insight{{ID: insight, Type: "unbounded_span_names", Service: assay.Service{ID: "second", ServiceKey: assay.ServiceKey{Name: "shop"}}}}
	})
	refuted := "active|refuted|merged|1.4.2, which is newer than the fix, fails SPA-003.|" + insight
	require.Equal(t, refuted, state())
	require.Equal(t, refuted, state(), "it stays open while telemetry says so")
	release("third", "1.4.3", nil)
	require.Equal(t, refuted, state(), "a version without a score says nothing")

	w.set(func() {
		seen.services[len(seen.services)-1].Score, seen.insights = &assay.Score{EvaluatedRuleIDs: []string{"SPA-003"}}, nil
	})
	w.set(func() {
		seen.usage = []*assay.ServiceUsage{{Service: *seen.services[2], Traces: assay.SignalUsage{Items: 12_400}}}
	})
	require.Equal(t, "resolved|confirmed|merged|Fixed in 1.4.3, confirmed by 12,400 spans.|"+insight, state())

	checkout(shop)
	require.Equal(t, "active|||", state(), "the code has it again: it can be fixed again")
}
