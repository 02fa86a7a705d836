// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/rules/catalog"
)

func TestVerdicts(t *testing.T) {
	f := &Facts{LogDays: 20, DebugDays: 14}
	f.Totals[catalog.RES002] = Count{Observed: 9}
	f.Totals[catalog.RES001] = Count{Observed: 9, Failed: 2}
	v := f.Verdicts(nil)
	require.Equal(t, Count{Observed: 9}, v[catalog.RES002])
	require.Equal(t, Count{Observed: 9, Failed: 2}, v[catalog.RES001])
	require.Equal(t, Count{}, v[catalog.MET003])
	require.Equal(t, Count{Observed: 20}, v[catalog.LOG001], "14 days are not too many")
	f.DebugDays = 15
	v = f.Verdicts(map[catalog.Rule]ClaimCount{
		catalog.RES002: {Claims: 3, Contested: 1}, catalog.MET003: {Claims: 4}, catalog.MET004: {Claims: 2, Contested: 2},
	})
	require.Equal(t, Count{Observed: 20, Failed: 15}, v[catalog.LOG001])
	require.Equal(t, Count{Observed: 9, Failed: 1}, v[catalog.RES002])
	require.Equal(t, Count{Observed: 4}, v[catalog.MET003])
	require.Equal(t, Count{Observed: 2, Failed: 2}, v[catalog.MET004])
}
