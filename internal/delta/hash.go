// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"github.com/dchest/siphash"
	"github.com/minio/highwayhash"

	"assay"
)

// processSeed is the hash key of this process. Senders cannot know it, so they cannot produce collisions.
var processSeed = maphash.MakeSeed()

// LocalHash returns a hash of v with a random key of this process. Do not store it.
func LocalHash[T comparable](v T) uint64 { return maphash.Comparable(processSeed, v) }

// HashString returns a hash of s with a random key of this process. Do not store it.
func HashString(s string) uint64 { return maphash.String(processSeed, s) }

// ServiceHash returns a hash of an organization's service with a random key of this process. Do not store it.
func ServiceHash(organizationID string, k assay.ServiceKey) uint64 {
	return LocalHash(struct {
		organizationID string
		service        assay.ServiceKey
	}{organizationID, k})
}

// Mix combines two hashes into one. The order matters. It applies the SplitMix64 finalizer (Steele, Lea, Flood 2014)
// to their combination, which is invertible: both arguments must be keyed hashes or small numbers that senders do not
// control.
func Mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// HashSecretBytes is the size of the secret of a HashKey.
const HashSecretBytes = 32

// NewHashSecret returns a random secret for a HashKey.
func NewHashSecret() []byte {
	secret := make([]byte, HashSecretBytes)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// Domain is the domain of a stable hash. Equal bytes have unrelated hashes in different domains. Stores contain
// values that depend on these numbers.
type Domain uint8

// The domains.
const (
	DomainInstance       Domain = iota // instances of services, keys of RES-002
	DomainWorkload                     // workloads of instances, values of RES-002
	DomainMetric                       // metric names, keys of MET-003 and MET-004
	DomainUnit                         // values of MET-003
	DomainBounds                       // values of MET-004
	DomainSpanName                     // SPA-003
	DomainAttributeKey                 // MET-001 and metric series
	DomainAttributeValue               // MET-001 and metric series
	DomainScope                        // metric series
	domainCount
)

// HashKey computes stable hashes, which are the same on every replica and after every restart. Each organization has
// its own key, derived from a random secret in the store. So senders cannot produce collisions, and equal names in
// two organizations have unrelated hashes. The hashes are keyed pseudo-random functions: SipHash-2-4 (Aumasson,
// Bernstein 2012), and for whole requests HighwayHash (Alakuijala, Cox, Wassenberg 2016), which is faster for long
// inputs. Hashing with the zero value panics. A HashKey is safe for concurrent use. It prints as "HashKey".
type HashKey struct {
	keys **hashKeys // package fmt, which prints unexported fields, follows one pointer
}

type hashKeys struct {
	domains  [domainCount][2]uint64
	requests []byte
}

// NewHashKey derives the key from a secret of HashSecretBytes.
func NewHashKey(secret []byte) (HashKey, error) {
	if len(secret) != HashSecretBytes {
		return HashKey{}, fmt.Errorf("hash key: secret has %d bytes, want %d", len(secret), HashSecretBytes)
	}
	const perDomain = 16
	keys, err := hkdf.Expand(sha256.New, secret, "assay stable hashes", highwayhash.Size+perDomain*int(domainCount))
	if err != nil {
		return HashKey{}, fmt.Errorf("hash key: derive: %w", err)
	}
	k := &hashKeys{requests: keys[:highwayhash.Size]}
	for d := range k.domains {
		part := keys[highwayhash.Size+perDomain*d:]
		k.domains[d] = [2]uint64{binary.LittleEndian.Uint64(part), binary.LittleEndian.Uint64(part[8:])}
	}
	return HashKey{&k}, nil
}

// String hides the key.
func (k HashKey) String() string { return "HashKey" }

// Sum64 returns the 64-bit hash of b in a domain.
func (k HashKey) Sum64(d Domain, b []byte) uint64 {
	key := &(*k.keys).domains[d]
	return siphash.Hash(key[0], key[1], b)
}

// Sum128 returns the 128-bit hash of b in a domain. High is never 0.
func (k HashKey) Sum128(d Domain, b []byte) Hash128 {
	key := &(*k.keys).domains[d]
	low, high := siphash.Hash128(key[0], key[1], b)
	return Hash128{High: max(1, high), Low: low}
}

// Request returns the hash of an uncompressed OTLP request.
func (k HashKey) Request(body []byte) [16]byte { return highwayhash.Sum128(body, (*k.keys).requests) }

// Hash128 is a 128-bit hash. High is 0 for a small number or for a 64-bit hash of an older version.
type Hash128 struct{ High, Low uint64 }
