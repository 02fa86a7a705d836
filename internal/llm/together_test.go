// SPDX-License-Identifier: Apache-2.0

package llm_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/llm"
	"assay/internal/llm/llmtest"
	"assay/internal/rules/catalog"
	"assay/internal/store/sqlite"
	"assay/internal/summary"
)

// TestTogether: a hundred callers, a model over HTTP and a store in a file make one
// call, and a restart makes none.
func TestTogether(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.kind, func(t *testing.T) {
			model := llmtest.New(t)
			release := make(chan struct{})
			model.Script(llmtest.Reply{After: release})
			path := filepath.Join(t.TempDir(), "assay.db")
			store := openStore(t, path)
			i := storedInsight(t, store)
			s := summary.New(summary.Config{
				Store: store, Provider: open(t, llm.Config{Kind: k.kind, URL: model.URL, Model: "m", APIKey: key}), DailyCalls: 1,
			})
			defer s.Close()

			var wg sync.WaitGroup
			var written atomic.Int64
			for range 100 {
				wg.Go(func() {
					got, err := s.Summarize(t.Context(), i)
					if err != nil {
						t.Error(err)
					} else if !got.Cached {
						written.Add(1)
					}
				})
			}
			require.Eventually(t, func() bool { return len(model.Requests()) == 1 }, time.Minute, time.Millisecond)
			close(release)
			wg.Wait()
			require.EqualValues(t, 1, written.Load())
			require.Len(t, model.Requests(), 1)
			require.Contains(t, model.Requests()[0].User, "checkout")

			again := summary.New(summary.Config{
				Store: openStore(t, path), Provider: open(t, llm.Config{Kind: k.kind, URL: model.URL, Model: "m"}), DailyCalls: 1,
			})
			defer again.Close()
			got, err := again.Summarize(t.Context(), i)
			require.NoError(t, err)
			require.True(t, got.Cached)
			require.NotEmpty(t, got.Content)
			require.Len(t, model.Requests(), 1)
		})
	}
}

func openStore(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Migrate: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// storedInsight stores an insight of a service.
func storedInsight(t *testing.T, s *sqlite.Store) *assay.Insight {
	t.Helper()
	org := &assay.Organization{Name: "o", Tier: assay.TierFree}
	require.NoError(t, s.CreateOrganization(t.Context(), org))
	service := assay.ServiceKey{Name: "checkout", Environment: "production"}
	require.NoError(t, s.Commit(t.Context(), time.Now(), nil, func([]bool) *delta.Delta {
		d := new(delta.Delta)
		d.Organization(org.ID).Service(service).Seen(uint64(time.Now().UnixNano()))
		return d
	}))
	svc, rule := delta.ServiceID(org.ID, service), catalog.SPA004.Info().Name
	i := &assay.Insight{
		ID: delta.InsightID(svc, rule), OrganizationID: org.ID, Service: assay.Service{ID: svc, ServiceKey: service},
		Type: rule, Status: assay.InsightActive, Attributes: map[string]any{"signal_type": "TRACES", "violations_total": int64(1)},
	}
	require.NoError(t, s.SaveScores(t.Context(), delta.Fence{}, org.ID, []delta.Result{{ServiceID: svc, Insights: []*assay.Insight{i}}}))
	stored, err := s.FindInsightByID(t.Context(), org.ID, i.ID)
	require.NoError(t, err)
	return stored
}
