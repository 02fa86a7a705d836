// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecent(t *testing.T) {
	now := time.Unix(1, 0)
	r := NewRecent(func() time.Time { return now })
	for range 3 {
		r.Note("a")
		r.Note("")
		require.False(t, r.Several())
	}
	r.Note("b")
	require.True(t, r.Several())
	now = now.Add(sharedFor - 1)
	require.True(t, r.Several())
	r.Note("b")
	now = now.Add(1)
	require.False(t, r.Several(), "a has been inactive")
	r.Note("a")
	require.True(t, r.Several())
}

// TestCPU: a single key uses all CPUs. While several keys are active, one CPU stays free of the work of keys that have
// a holder already, and a key without a holder does not wait for it.
func TestCPU(t *testing.T) {
	now := time.Unix(1, 0)
	for _, cpus := range []int{1, 2, 4} {
		s := NewCPU(cpus, func() time.Time { return now })
		for range cpus {
			require.Nil(t, s.request("a", false))
		}
		waiting := s.request("a", false)
		require.NotNil(t, waiting)
		require.Nil(t, s.request("b", false), "b holds nothing")
		second := s.request("b", false)
		require.NotNil(t, second)
		held := map[string]int{"a": cpus, "b": 1}
		release := func(key string) {
			s.Release(key)
			held[key]--
			for k, w := range map[string]*<-chan struct{}{"a": &waiting, "b": &second} {
				select {
				case <-*w:
					held[k]++
					*w = make(chan struct{})
				default:
				}
			}
		}
		for range cpus {
			release("a")
			if held["a"] > 0 {
				require.LessOrEqual(t, held["a"]+held["b"], max(cpus, 2), "%d CPUs", cpus)
			}
		}
		for held["a"] > 0 {
			release("a")
		}
		for held["b"] > 0 {
			release("b")
		}
		require.Empty(t, s.keys)

		// Both are active, one has work.
		for range max(1, cpus-1) {
			require.Nil(t, s.request("a", false))
		}
		require.NotNil(t, s.request("a", false), "the last of %d CPUs", cpus)
		now = now.Add(sharedFor)
		s.Release("a")
		for range cpus - max(1, cpus-1) {
			require.Nil(t, s.request("a", false), "no other key has been active for long")
		}
	}
}

// TestTakeLight: keys with few items are served without the others, if there are others.
func TestTakeLight(t *testing.T) {
	q := NewQueue[int](100, 1000)
	for i := range 3 {
		push(t, q, "light", i, 2)
	}
	push(t, q, "other", 10, 6)
	require.Empty(t, q.TakeLight(6, 100), "there are only light keys")
	for i := range 5 {
		push(t, q, "heavy", 20+i, 2)
	}
	require.Equal(t, []int{0, 1, 2}, q.TakeLight(6, 8), "the budget")
	require.Equal(t, []int{10}, q.TakeLight(6, 8))
	require.Empty(t, q.TakeLight(6, 8))
	select {
	case <-q.Ready():
	default:
		t.Fatal("items are left")
	}
	require.Equal(t, []int{20, 21, 22, 23, 24}, q.Take(100))
	empty(t, q)
	push(t, q, "", 30, 1) // the consumer's own
	push(t, q, "heavy", 31, 100)
	require.Equal(t, []int{30}, q.TakeLight(6, 8))
	require.Equal(t, []int{31}, q.Take(1))
	empty(t, q)
}
