// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
}

func (v *versions) FindServices(context.Context, string, assay.Page) ([]*assay.Service, int, error) {
	return v.services, len(v.services), nil
}

func TestConfirms(t *testing.T) {
	found := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	finding := &assay.CodeFinding{Service: "shop", Body: json.RawMessage(`{"rules":["SPA-003"]}`), CreatedAt: found, ResolvedAt: found.Add(2 * time.Hour)}
	score := func(failed ...string) *assay.Score {
		return &assay.Score{EvaluatedRuleIDs: []string{"RES-001", "SPA-003"}, FailedRuleIDs: failed}
	}
	version := func(created, seen time.Duration, s *assay.Score) *assay.Service {
		return &assay.Service{CreatedAt: found.Add(created), LastSeenAt: found.Add(seen), Score: s}
	}
	old := version(-time.Hour, 5*time.Hour, score("SPA-003"))
	for name, c := range map[string]struct {
		services []*assay.Service
		want     bool
	}{
		"the new version passes":                 {[]*assay.Service{old, version(time.Hour, 5*time.Hour, score("RES-001"))}, true},
		"no new version":                         {[]*assay.Service{version(-time.Hour, 5*time.Hour, score())}, false},
		"the new version fails":                  {[]*assay.Service{version(time.Hour, 5*time.Hour, score("SPA-003"))}, false},
		"no score":                               {[]*assay.Service{version(time.Hour, 5*time.Hour, nil)}, false},
		"the rule is not evaluated":              {[]*assay.Service{version(time.Hour, 5*time.Hour, &assay.Score{EvaluatedRuleIDs: []string{"RES-001"}})}, false},
		"no telemetry since the merge":           {[]*assay.Service{version(time.Hour, time.Hour, score())}, false},
		"the newest version counts":              {[]*assay.Service{version(3*time.Hour, 5*time.Hour, score("SPA-003")), version(time.Hour, 5*time.Hour, score())}, false},
		"a service of another name says nothing": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &telemetry{services: map[string][]*assay.Service{"shop": c.services}}
			require.Equal(t, c.want, seen.confirms(finding))
		})
	}
}

// TestConfirm: once a fix is merged and a new version passes its rules, a review marks the fix as confirmed.
func TestConfirm(t *testing.T) {
	w, found := newShop(t)
	seen := &versions{Telemetry: w.store, services: []*assay.Service{{
		ServiceKey: assay.ServiceKey{Name: "shop", Version: "1.4.1"}, Score: &assay.Score{EvaluatedRuleIDs: []string{"SPA-003"}, FailedRuleIDs: []string{"SPA-003"}},
	}}}
	w.repository.Settings.Services = []string{"shop"}
	require.NoError(t, w.store.SaveRepositorySettings(t.Context(), w.organization, w.repository.ID, w.repository.Settings))
	w.start("second", func(c *Config) { c.Verifier, c.Telemetry = w, seen })
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted) // with the service
	w.wait(w.scheduleFix(found["span-name-dynamic"]), assay.RunCompleted)

	w.set(func() {
		w.pull = &source.Pull{Number: 7, State: assay.PullMerged}
		w.checkout = func(_ context.Context, _ source.Want, dir string) (*source.Checkout, error) {
			text := strings.Replace(shop, `"order "+id`, `"order"`, 1)
			return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("b", 40)}, errors.Join(os.WriteFile(filepath.Join(dir, "shop.go"), []byte(text), 0o600))
		}
	})
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
	require.Equal(t, "merged 7 merged", w.fixes()["span-name-dynamic"])
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
	require.Equal(t, "merged 7 merged", w.fixes()["span-name-dynamic"], "version 1.4.1 proves nothing")

	later := w.clock.Now().Add(time.Hour)
	w.set(func() {
		seen.services = append(seen.services, &assay.Service{
			ServiceKey: assay.ServiceKey{Name: "shop", Version: "1.4.2"}, CreatedAt: later, LastSeenAt: later, Score: &assay.Score{EvaluatedRuleIDs: []string{"SPA-003"}},
		})
	})
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
	require.Equal(t, "confirmed 7 merged", w.fixes()["span-name-dynamic"])
}
