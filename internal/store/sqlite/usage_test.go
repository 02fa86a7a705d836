// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/store/query"
	"assay/internal/store/storetest"
)

// TestUsagePlans: usage is read without the rows of insights and series.
func TestUsagePlans(t *testing.T) {
	s := open(t, Config{})
	recorder := new(storetest.Recorder)
	_, err := query.New(recorder, &dialect).FindUsage(t.Context(), "00000000-0000-4000-8000-000000000000")
	require.NoError(t, err)
	for i, index := range []string{"series_counts", "insights_active", "insights_active"} {
		st := recorder.Statements[i]
		plan := explain(t, s, st.SQL, native(st.Args)...)
		require.Contains(t, plan, "USING COVERING INDEX "+index)
		require.NotRegexp(t, `SCAN [msci]\b`, plan)
	}
}

func BenchmarkFindUsage(b *testing.B) {
	path := filepath.Join(b.TempDir(), "assay.db")
	s := open(b, Config{Path: path, Migrate: true})
	org := organization(b, s, "bench")
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	fillInsights(b, s, org, 10_000, 10, at)
	d := load(org, 10_000, 0, at)
	for _, f := range d.Organizations[org].Services {
		for n := range uint64(1000) {
			f.Series.Add(delta.Mix(n, 1), 3600)
		}
	}
	began := time.Now()
	require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return d }))
	b.Logf("10,000 services with 1,000 series each: %v", time.Since(began))
	for b.Loop() {
		found, err := s.FindUsage(b.Context(), org)
		require.NoError(b, err)
		require.Len(b, found, 10_000)
		require.EqualValues(b, 1000, found[0].ActiveSeries)
		require.Len(b, found[0].Insights, 5)
	}
}

// BenchmarkCommitSeries commits 100 services that have many series, of which
// some are new.
func BenchmarkCommitSeries(b *testing.B) {
	s, org := benchStore(b)
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for round := uint64(0); b.Loop(); round++ {
		d := load(org, 100, 0, at)
		for _, f := range d.Organizations[org].Services {
			for n := range uint64(1000) {
				f.Series.Add(delta.Mix(1000*(round%20)+n, 1), delta.Bucket(round/20)*86400)
			}
		}
		require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return d }))
	}
}
