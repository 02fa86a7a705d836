// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRateLimiter(t *testing.T) {
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	l := NewRateLimiter[string](3)
	for range 3 {
		require.Zero(t, l.Wait("a", now))
		require.Zero(t, l.Take("a", now))
	}
	require.Equal(t, 20*time.Second, l.Wait("a", now))
	require.Equal(t, 20*time.Second, l.Take("a", now), "a refused token is not taken")
	require.Equal(t, 20*time.Second, l.Take("a", now))
	require.Zero(t, l.Take("b", now), "its own bucket")
	require.Equal(t, time.Nanosecond, l.Take("a", now.Add(20*time.Second-1)))
	require.Zero(t, l.Take("a", now.Add(20*time.Second)))
	now = now.Add(time.Hour)
	for range 3 {
		require.Zero(t, l.Take("a", now))
	}
	require.Positive(t, l.Take("a", now), "no more than a full bucket")
	require.Equal(t, 20*time.Second, l.Take("a", now.Add(-time.Hour)), "a clock that goes back")

	// More than one token per nanosecond does not divide by zero.
	require.Zero(t, NewRateLimiter[int](1<<62).Take(1, now))
	require.Zero(t, NewRateLimiter[int](0).Take(1, now))
}

// TestRateLimiterIsBounded checks that a caller with made-up keys does not evict the keys that have used up
// their tokens.
func TestRateLimiterIsBounded(t *testing.T) {
	now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	l := NewRateLimiter[string](2)
	l.capacity = 100
	for range 2 {
		require.Zero(t, l.Take("exhausted", now))
	}
	for i := range 10 * l.capacity {
		require.Zero(t, l.Take(fmt.Sprint(i), now))
		require.LessOrEqual(t, len(l.buckets), l.capacity)
	}
	require.Positive(t, l.Take("exhausted", now))
	require.Zero(t, l.Take("new", now.Add(time.Second)))
	require.Contains(t, l.buckets, "new")
}

// TestRateLimiterModel compares the limiter with a count of tokens. Keys are not evicted while there is room.
func TestRateLimiterModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perMinute := rapid.SampledFrom([]int{1, 2, 3, 60}).Draw(t, "per minute")
		l := NewRateLimiter[int](perMinute)
		l.capacity = rapid.IntRange(1, 8).Draw(t, "capacity")
		interval := time.Minute / time.Duration(perMinute)
		now := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
		missing := map[int]time.Duration{} // time until a bucket is full
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			step := time.Duration(rapid.IntRange(0, int(2*interval)).Draw(t, "step"))
			now = now.Add(step)
			for k := range missing {
				missing[k] = max(0, missing[k]-step)
			}
			key := rapid.IntRange(0, 9).Draw(t, "key")
			wait := l.Take(key, now)
			require.LessOrEqual(t, len(l.buckets), l.capacity)
			require.Len(t, l.fullest, len(l.buckets))
			for i, b := range l.fullest {
				require.Equal(t, i, b.index)
				require.Same(t, b, l.buckets[b.key])
				require.False(t, b.full.Before(l.fullest[0].full))
			}
			if len(missing) == l.capacity && wait == 0 {
				return // from here on keys are forgotten
			}
			want := max(0, missing[key]+interval-time.Minute/time.Duration(perMinute)*time.Duration(perMinute))
			require.Equal(t, want, wait)
			if wait == 0 {
				missing[key] += interval
			}
		}
	})
}
