// SPDX-License-Identifier: Apache-2.0

package rules

import "hash/maphash"

// verdict says what is known of one encoded attribute, text or scope: whatever
// rule asks, it depends on the bytes alone.
type verdict uint16

const (
	known             verdict = 1 << iota // set in every entry
	sensitiveData                         // RES-010, SPA-006, MET-008, LOG-003
	misplacedOnRecord                     // RES-004, as a span or log record attribute
	deprecatedKey                         // deprecated_attributes
)

// bad are the verdicts that some rule fails on.
const bad = sensitiveData | misplacedOnRecord | deprecatedKey

// verdictCache remembers verdicts by a seeded hash of the bytes they are about.
// It is direct-mapped and of fixed size, so hostile input can make it useless but
// not large. An entry is the hash with its low bits, which choose the slot,
// replaced by the verdict: two byte strings are mistaken for each other only if
// all 64 bits of their hashes, under a seed unknown outside, agree. It is small
// enough to stay in a core's own cache: values that never come back pass through
// it all the time, and a larger one is slower for them than it gains elsewhere.
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

var seed = maphash.MakeSeed()

// hashBytes is for caches only: it differs from process to process.
func hashBytes(b []byte) uint64 { return maphash.Bytes(seed, b) }
