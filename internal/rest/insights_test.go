// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/rules/catalog"
)

// TestInsightJSON: the JSON of an insight, which is built from parts, equals its encoding
// in one piece.
func TestInsightJSON(t *testing.T) {
	s := newStore()
	s.addServices(orgID, 1)
	s.addInsights(s.services[0], int(catalog.Count))
	s.insights = append(s.insights, &assay.Insight{Type: "of_a_newer_program"})
	for n := range len(s.insights) + 1 {
		list := showInsights(s.insights[:n])
		whole := make([]any, n)
		for i := range list {
			var kind InsightType
			require.NoError(t, json.Unmarshal(list[i].kind, &kind))
			require.Equal(t, s.insights[i].Type, kind.Name)
			whole[i] = struct {
				*Insight
				InsightType InsightType `json:"insight_type"`
			}{&list[i], kind}
		}
		var want, got bytes.Buffer
		require.NoError(t, encode(&want, whole))
		require.NoError(t, encode(&got, list))
		require.Equal(t, want.String(), got.String())
	}
}

// BenchmarkInsights answers with 20 insights.
func BenchmarkInsights(b *testing.B) {
	f := newFixture(b)
	f.store.insights = nil
	f.store.addInsights(f.store.services[0], 20)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/insights?limit=20", nil)
	r.Header.Set("Authorization", reader)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
