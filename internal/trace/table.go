// SPDX-License-Identifier: Apache-2.0

package trace

import "hash/maphash"

// key identifies an open trace.
type key struct {
	org uint32
	id  [16]byte
}

// keySeed is the hash key for keys, so that senders cannot choose trace ids with the same hash.
var keySeed = maphash.MakeSeed()

func (k key) hash() uint64 { return maphash.Comparable(keySeed, k) }

// table finds open traces. A map by hash needs half the memory, and so half the cache misses, of a map by key, and a
// key is hashed once for all lookups of a request. Traces with the same hash form a chain.
type table struct {
	byHash map[uint64]*openTrace
	len    int
}

// get returns the trace with a key and its hash, or nil.
func (t *table) get(k key, hash uint64) *openTrace {
	o := t.byHash[hash]
	for o != nil && o.key != k {
		o = o.sameHash
	}
	return o
}

// put adds a trace whose key is not in the table.
func (t *table) put(o *openTrace) {
	o.sameHash = t.byHash[o.hash]
	t.byHash[o.hash] = o
	t.len++
}

// delete removes a trace that is in the table.
func (t *table) delete(o *openTrace) {
	t.len--
	first := t.byHash[o.hash]
	switch {
	case first != o:
		for first.sameHash != o {
			first = first.sameHash
		}
		first.sameHash = o.sameHash
	case o.sameHash != nil:
		t.byHash[o.hash] = o.sameHash
	default:
		delete(t.byHash, o.hash)
	}
	o.sameHash = nil
}
