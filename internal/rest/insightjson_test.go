// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/rules/catalog"
)

// TestInsightJSON: put together from what is known, an insight reads as if it were
// encoded in one piece.
func TestInsightJSON(t *testing.T) {
	s := newStore()
	s.addServices(orgID, 1)
	s.addInsights(s.services[0], int(catalog.Count))
	s.insights = append(s.insights, &assay.Insight{Type: "of_a_newer_program"})
	list := showInsights(s.insights)
	other := list[0]
	other.InsightType.Description = "Another text."
	list = append(list, other)
	for _, i := range list {
		var want, got bytes.Buffer
		require.NoError(t, encodeAny(&want, i))
		require.NoError(t, encode(&got, i))
		require.Equal(t, want.String(), got.String())
	}
	for n := range 3 {
		var want, got bytes.Buffer
		require.NoError(t, encodeAny(&want, list[:n]))
		require.NoError(t, encode(&got, list[:n]))
		require.Equal(t, want.String(), got.String())
	}
}

// BenchmarkInsights answers with 20 insights, made anew and kept.
func BenchmarkInsights(b *testing.B) {
	for name, ttl := range map[string]time.Duration{"anew": -1, "kept": time.Hour} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, func(c *Config) { c.CacheTTL = ttl })
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
		})
	}
}
