// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSharesGivesWay(t *testing.T) {
	type held map[string]int64
	for _, tt := range []struct {
		name  string
		held  held // of a capacity of 100
		key   string
		n     int64
		loser string
		full  bool
	}{
		{"empty", nil, "a", 100, "", false},
		{"more than the capacity", nil, "a", 101, "a", true},
		{"room above the share", held{"a": 60, "b": 20}, "a", 20, "", false},
		{"alone", held{"a": 100}, "a", 1, "a", true},
		{"the largest asks", held{"a": 60, "b": 40}, "a", 1, "a", true},
		{"equal to the largest", held{"a": 50, "b": 50}, "b", 1, "b", true},
		{"equal to the largest afterwards", held{"a": 51, "b": 49}, "b", 2, "b", true},
		{"below the largest", held{"a": 51, "b": 49}, "b", 1, "a", true},
		{"a third beside two greedy ones", held{"a": 50, "b": 50}, "c", 1, "a", true},
		{"a third up to its share", held{"a": 50, "b": 50}, "c", 33, "a", true},
		{"a third above its share", held{"a": 50, "b": 50}, "c", 34, "c", true},
		{"above its share below the largest", held{"a": 90, "b": 10}, "c", 45, "a", true},
		{"too much to push out for", held{"a": 90, "b": 10}, "c", 46, "c", true},
		{"first in byte order", held{"b": 50, "a": 50}, "c", 1, "a", true},
		{"the empty key is like any other", held{"": 100}, "c", 1, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewShares(100)
			for key, n := range tt.held {
				s.Add(key, n)
			}
			loser, full := s.GivesWay(tt.key, tt.n)
			require.Equal(t, tt.full, full)
			require.Equal(t, tt.loser, loser)
		})
	}
}

// TestSharesModel compares the account with a map and checks the policy: a key within its share is neither refused
// nor gives way, and evictions make room.
func TestSharesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(1, 60).Draw(t, "capacity")
		s, model := NewShares(capacity), make(map[string]int64)
		add := func(key string, n int64) {
			s.Add(key, n)
			if model[key] += n; model[key] <= 0 {
				delete(model, key)
			}
		}
		share := func(key string) int64 {
			keys := int64(len(model))
			if model[key] == 0 {
				keys++
			}
			return capacity / keys
		}
		keys := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f"})
		t.Repeat(map[string]func(*rapid.T){
			"give back": func(t *rapid.T) {
				add(keys.Draw(t, "key"), -rapid.Int64Range(0, capacity).Draw(t, "n"))
			},
			"ask": func(t *rapid.T) {
				key, n := keys.Draw(t, "key"), rapid.Int64Range(1, capacity).Draw(t, "n")
				entitled := model[key]+n <= share(key)
				for {
					loser, full := s.GivesWay(key, n)
					if !full {
						add(key, n)
						return
					}
					if loser == key {
						require.False(t, entitled, "refused within its share")
						return
					}
					require.Greater(t, model[loser], model[key]+n)
					require.Greater(t, model[loser], share(key), "evicted within its share")
					add(loser, -rapid.Int64Range(1, model[loser]).Draw(t, "evicted"))
					// Evictions may leave keys with nothing, which raises the share of the others.
				}
			},
			"": func(t *rapid.T) {
				var total, most int64
				var largest string
				for key, held := range model {
					total += held
					require.Equal(t, held, s.Held(key))
					if held > most || held == most && key < largest {
						largest, most = key, held
					}
				}
				require.Equal(t, total, s.Total())
				require.LessOrEqual(t, total, capacity)
				require.Equal(t, len(model), s.Keys())
				key, held := s.Largest()
				require.Equal(t, largest, key)
				require.Equal(t, most, held)
			},
		})
	})
}

func TestSharesAllocateNothing(t *testing.T) {
	s := NewShares(1 << 20)
	for i := range 1000 {
		s.Add(fmt.Sprint(i), int64(i+1))
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Add("new", 1<<19)
		s.Add("7", 1000)
		s.GivesWay("8", 1<<18)
		s.Add("7", -1000)
		s.Add("new", -1<<19)
	}))
}

// BenchmarkSharesFull measures a request of a small key while 10,000 keys hold the whole capacity.
func BenchmarkSharesFull(b *testing.B) {
	const keys = 10_000
	s := NewShares(100 * keys)
	for i := range keys {
		s.Add(fmt.Sprint(i), 100)
	}
	b.ReportAllocs()
	for b.Loop() {
		for {
			loser, full := s.GivesWay("small", 50)
			if !full {
				break
			}
			s.Add(loser, -10)
		}
		s.Add("small", 50)
		s.Add("small", -50)
		for range 5 {
			key, _ := s.Largest()
			s.Add(key, 10)
		}
	}
}
