// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// opened returns the open trace with a key, or nil.
func opened(a *Assembler, k key) *openTrace { return a.traces.get(k, k.hash()) }

// allOpened returns all open traces of an Assembler.
func allOpened(a *Assembler) iter.Seq[*openTrace] {
	return func(yield func(*openTrace) bool) {
		for _, o := range a.tenants {
			for t := o.started.front; t != nil; t = t.started.next {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// TestTableWithEqualHashes compares a table whose keys have only three different hashes with a map.
func TestTableWithEqualHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, model := table{byHash: make(map[uint64]*openTrace)}, make(map[key]*openTrace)
		k := func() key {
			return key{org: uint32(rapid.IntRange(0, 1).Draw(t, "org")), id: traceID(rapid.IntRange(0, 5).Draw(t, "id"))}
		}
		hash := func(k key) uint64 { return uint64(k.id[15]) % 3 }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				require.Equal(t, len(model), x.len)
				for org := range uint32(2) {
					for id := range 6 {
						k := key{org: org, id: traceID(id)}
						require.Same(t, model[k], x.get(k, hash(k)))
					}
				}
				if len(model) == 0 {
					require.Empty(t, x.byHash)
				}
			},
			"put or delete": func(t *rapid.T) {
				k := k()
				if o := model[k]; o != nil {
					x.delete(o)
					require.Nil(t, o.sameHash)
					delete(model, k)
					return
				}
				model[k] = &openTrace{key: k, hash: hash(k)}
				x.put(model[k])
			},
		})
	})
}

// TestBundleWithEqualHashes checks that traces with the same hash stay apart in one request.
func TestBundleWithEqualHashes(t *testing.T) {
	var b bundle
	b.reset()
	first, second, third := key{id: traceID(1)}, key{id: traceID(2)}, key{org: 1, id: traceID(1)}
	for range 2 {
		for i, k := range []key{first, second, third} {
			g, _ := b.group(k, 7)
			require.EqualValues(t, i, g)
		}
	}
	require.Len(t, b.groups, 3)
}
