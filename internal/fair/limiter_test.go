// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLimiter: greedy keys at the limit are refused, and another key gets its share.
func TestLimiter(t *testing.T) {
	c := NewLimiter(8)
	for _, key := range []string{"a", "b"} {
		for range 4 {
			require.True(t, c.Acquire(key, 1))
		}
	}
	require.False(t, c.Acquire("a", 1))
	require.False(t, c.Acquire("b", 1))
	for range 2 {
		require.True(t, c.Acquire("c", 1))
	}
	require.False(t, c.Acquire("c", 1), "above its share")
	require.EqualValues(t, 10, c.InUse())
	c.Release("a", 1)
	require.False(t, c.Acquire("a", 1), "the total still exceeds the limit")
}

func TestLimiterIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, keys := rapid.IntRange(1, 50).Draw(t, "limit"), rapid.IntRange(1, 20).Draw(t, "keys")
		c := NewLimiter(int64(limit))
		key := rapid.Map(rapid.IntRange(1, keys), func(n int) string { return fmt.Sprint(n) })
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				k, n := key.Draw(t, "key"), rapid.IntRange(1, 60).Draw(t, "n")
				for range n {
					held, others := c.shares.Held(k), c.shares.Keys()
					if held == 0 {
						others++
					}
					if !c.Acquire(k, 1) {
						require.Greater(t, held+1, int64(limit/others), "refused within its share")
					}
				}
			},
			"end": func(t *rapid.T) {
				if k := key.Draw(t, "key"); c.shares.Held(k) > 0 {
					c.Release(k, 1)
				}
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, float64(c.InUse()), float64(limit)*(1+math.Log(float64(keys))))
			},
		})
	})
}
