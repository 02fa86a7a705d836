// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCalls: greedy keys that have used the limit up get no more, and another key gets its share.
func TestCalls(t *testing.T) {
	c := NewCalls(8)
	for _, key := range []string{"a", "b"} {
		for range 4 {
			require.True(t, c.Begin(key))
		}
	}
	require.False(t, c.Begin("a"))
	require.False(t, c.Begin("b"))
	for range 2 {
		require.True(t, c.Begin("c"))
	}
	require.False(t, c.Begin("c"), "past its share")
	require.Equal(t, 10, c.Len())
	c.End("a")
	require.False(t, c.Begin("a"), "as many are past the limit")
}

func TestCallsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, keys := rapid.IntRange(1, 50).Draw(t, "limit"), rapid.IntRange(1, 20).Draw(t, "keys")
		c := NewCalls(limit)
		key := rapid.Map(rapid.IntRange(1, keys), func(n int) string { return fmt.Sprint(n) })
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				k, n := key.Draw(t, "key"), rapid.IntRange(1, 60).Draw(t, "n")
				for range n {
					held, others := c.shares.Held(k), c.shares.Keys()
					if held == 0 {
						others++
					}
					if !c.Begin(k) {
						require.Greater(t, held+1, int64(limit/others), "refused within its share")
					}
				}
			},
			"end": func(t *rapid.T) {
				if k := key.Draw(t, "key"); c.shares.Held(k) > 0 {
					c.End(k)
				}
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, float64(c.Len()), float64(limit)*(1+math.Log(float64(keys))))
			},
		})
	})
}
