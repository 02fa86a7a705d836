// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

func (s *suite) TestModelUsage(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	day := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
	limit := assay.ModelUsage{Tokens: 100, Cost: 10}
	spend := func(org string, at time.Time, tokens, cost int64, limit assay.ModelUsage) bool {
		t.Helper()
		return must(s.SpendModel(ctx, org, at, assay.ModelUsage{Tokens: tokens, Cost: cost}, limit))(t)
	}
	require.False(t, spend(org, day, 101, 0, limit), "the first of a day")
	require.False(t, spend(org, day, 0, 11, limit))
	require.True(t, spend(org, day, 60, 2, limit))
	require.False(t, spend(org, day.Add(24*time.Hour-time.Nanosecond), 41, 0, limit), "the same day to its end")
	require.True(t, spend(org, day, 40, 8, limit), "what was refused does not count")
	require.False(t, spend(org, day, 0, 1, limit))
	require.True(t, spend(org, day, -30, -4, limit), "what was not used is given back")
	require.True(t, spend(org, day, 30, 4, limit))
	require.True(t, spend(org, day, 50, 50, assay.ModelUsage{}), "no limit")
	require.False(t, spend(org, day, 1, 0, limit))
	require.False(t, spend(org, day, 1, 0, assay.ModelUsage{Cost: 59}))
	require.True(t, spend(other, day, 100, 10, limit), "each organization has its own")
	require.True(t, spend(org, day.Add(24*time.Hour), 100, 10, limit))
	for n := range 10 {
		require.True(t, spend(org, day.AddDate(0, 0, 10+n), 1, 1, limit))
	}
	require.EqualValues(t, 2+1, s.rows()["model_usage"], "two days and the other organization's")
	code(t, assay.CodeNotFound, errOf(s.SpendModel(ctx, unknownID, day, assay.ModelUsage{}, limit)))

	// Concurrent callers on two handles share a budget.
	require.Equal(t, 3, s.race(20, "", func(_ int, st Store) (bool, error) {
		return st.SpendModel(ctx, other, day.AddDate(1, 0, 0), assay.ModelUsage{Tokens: 30}, limit)
	}))
}
