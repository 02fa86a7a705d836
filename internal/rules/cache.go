// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"hash/maphash"

	"assay/internal/rules/sensitive"
)

// verdict is a set of results for one encoded attribute, text or scope. It depends only
// on the bytes, for all rules.
type verdict uint16

const (
	known               verdict = 1 << iota // set in every entry
	sensitiveData                           // RES-010, SPA-006, MET-008, LOG-003
	misplacedOnRecord                       // RES-004, as a span or log record attribute
	deprecatedKey                           // deprecated_attributes
	misplacedOnResource                     // RES-004, as a resource attribute
)

// bad are the verdicts on spans, metrics and log records that fail a rule.
const bad = sensitiveData | misplacedOnRecord | deprecatedKey

// verdictCache caches verdicts by a seeded hash of the bytes. It is direct-mapped and of
// fixed size, so hostile input can make it useless but not large. An entry is the hash,
// with the verdict in place of the low bits, which select the slot. Two byte strings
// collide only if all 64 bits of their hashes agree under a secret seed. The cache fits
// in the cache of a core: values that never repeat pass through it all the time, and slow
// a larger cache down more than it saves otherwise.
type verdictCache struct {
	entries [1 << verdictBits]uint64
}

const (
	verdictBits = 14
	verdictMask = 1<<verdictBits - 1
)

func (c *verdictCache) get(hash uint64) verdict {
	e := c.entries[hash&verdictMask]
	if (e^hash)&^verdictMask == 0 {
		return verdict(e & verdictMask)
	}
	return 0
}

func (c *verdictCache) put(hash uint64, v verdict) {
	c.entries[hash&verdictMask] = hash&^verdictMask | uint64(v|known)
}

// keyCache caches the properties of attribute keys, by a seeded hash. It is direct-mapped. Keys repeat more often than values.
type keyCache [1 << 9]key

// key holds the results for an attribute key.
type key struct {
	hash    uint64
	verdict verdict // 0 for an empty entry
	under   sensitive.Under
}

var seed = maphash.MakeSeed()

// hashBytes is for caches only: its seed differs between processes.
func hashBytes(b []byte) uint64 { return maphash.Bytes(seed, b) }
