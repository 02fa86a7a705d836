// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"hash/maphash"

	"github.com/cespare/xxhash/v2"

	"assay"
)

// processSeed keys the hashes that are valid in this process alone. Senders cannot
// know it, so they cannot choose inputs that collide.
var processSeed = maphash.MakeSeed()

// ServiceHash returns a hash of an organization's service, keyed by a random key of
// this process. It must not be stored.
func ServiceHash(organizationID string, k assay.ServiceKey) uint64 {
	return maphash.Comparable(processSeed, struct {
		organizationID string
		service        assay.ServiceKey
	}{organizationID, k})
}

// Hash returns the stable 64-bit hash (XXH64) of which keys and values of claims
// and distinct sets are made: the same on every replica and after every restart.
func Hash(b []byte) uint64 { return xxhash.Sum64(b) }

// HashString is Hash of a string.
func HashString(s string) uint64 { return xxhash.Sum64String(s) }

// Mix joins two hashes into one; the order matters. It is the finaliser of
// SplitMix64 (Steele, Lea, Flood 2014) over their combination.
func Mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
