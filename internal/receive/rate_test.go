// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

func TestRates(t *testing.T) {
	r := newRates(100, 1000)
	now := time.Unix(1_800_000_000, 0)
	require.NoError(t, r.admit("a", now))
	r.spend("a", 1000)
	require.NoError(t, r.admit("a", now), "not overdrawn")
	r.spend("a", 250)
	err := r.admit("a", now)
	require.Equal(t, assay.CodeRateLimited, assay.ErrorCode(err))
	outcome, _ := classify(err)
	require.Equal(t, RateLimited, outcome)
	require.Equal(t, 2500*time.Millisecond, retryDelay(err))
	require.NoError(t, r.admit("b", now), "another's")
	require.Error(t, r.admit("a", now.Add(2*time.Second)))
	require.Error(t, r.admit("a", now), "a clock that goes back refills nothing")
	require.NoError(t, r.admit("a", now.Add(2500*time.Millisecond)))
	require.NoError(t, r.admit("a", now.Add(time.Hour)))
	r.spend("a", 1001)
	require.Error(t, r.admit("a", now.Add(time.Hour)), "the level is limited to the burst")
}
