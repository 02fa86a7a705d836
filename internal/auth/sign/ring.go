// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"assay"
)

const (
	pollInterval = time.Second     // between polls of the store
	pollTimeout  = time.Second     // for one poll
	maxAge       = 5 * time.Second // how long a verifier may cache the JWKS
	transit      = time.Second     // transfer time of the JWKS; the verifier counts maxAge from its arrival

	// settling is how long a replica publishes a key before it signs with it. After that time no verifier caches a
	// JWKS without the key, from any replica.
	settling = pollInterval + pollTimeout + transit + maxAge
	// settled is the age at which a key is treated as published everywhere. The margin above settling allows for clock
	// differences.
	settled = time.Minute

	lifetime = time.Minute // of a token
	// retention is how long a retired key is published: settling and lifetime, a verifier's leeway of a minute, and a
	// margin for clock differences.
	retention = 5 * time.Minute

	// maxKeys limits the published keys after many rotations in a short time.
	maxKeys = 64
)

// key is a signing key in use.
type key struct {
	id      string
	public  ed25519.PublicKey
	private ed25519.PrivateKey // nil: it could not be decrypted
	header  string             // of its tokens, encoded
	readyAt time.Time          // when to start signing with it
}

// newKey prepares a key that was read for the first time. private is nil if it could not be decrypted.
func newKey(k *assay.SigningKey, private ed25519.PrivateKey, now time.Time) (*key, error) {
	prepared := &key{id: k.ID, public: k.Public, private: private, readyAt: now}
	if now.Sub(k.CreatedAt) < settled {
		prepared.readyAt = now.Add(settling)
	}
	header, err := json.Marshal(struct {
		Algorithm jose.SignatureAlgorithm `json:"alg"`
		KeyID     string                  `json:"kid"`
		Type      string                  `json:"typ"`
	}{jose.EdDSA, k.ID, "JWT"})
	if err != nil {
		return nil, fmt.Errorf("encode the header for the signing key %s: %w", k.ID, err)
	}
	prepared.header = base64.RawURLEncoding.EncodeToString(header)
	return prepared, nil
}

// sign returns a payload with its signature in the compact serialization of RFC 7515, section 7.1. The output equals
// that of go-jose, which encodes the header again for every token and takes about a quarter longer.
func (k *key) sign(payload []byte) string {
	token := make([]byte, 0, len(k.header)+2+base64.RawURLEncoding.EncodedLen(len(payload))+
		base64.RawURLEncoding.EncodedLen(ed25519.SignatureSize))
	token = append(append(token, k.header...), '.')
	token = base64.RawURLEncoding.AppendEncode(token, payload)
	signature := ed25519.Sign(k.private, token)
	return string(base64.RawURLEncoding.AppendEncode(append(token, '.'), signature))
}

// ring is an immutable set of keys.
type ring struct {
	keys []*key // oldest first
	jwks []byte
	etag string
}

// newRing encodes the public keys of stored. keys[i] belongs to stored[i].
func newRing(stored []*assay.SigningKey, keys []*key) (*ring, error) {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, len(stored))}
	for i, k := range stored {
		set.Keys[i] = jose.JSONWebKey{Key: ed25519.PublicKey(k.Public), KeyID: k.ID, Algorithm: string(jose.EdDSA), Use: "sig"}
	}
	body, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encode the public keys: %w", err)
	}
	sum := sha256.Sum256(body)
	return &ring{keys: keys, jwks: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
}

// holds reports whether the ring consists of these keys.
func (r *ring) holds(stored []*assay.SigningKey) bool {
	if len(r.keys) != len(stored) {
		return false
	}
	for i, k := range stored {
		if r.keys[i].id != k.ID {
			return false
		}
	}
	return true
}

// find returns the key with an id, or nil.
func (r *ring) find(id string) *key {
	for _, k := range r.keys {
		if k.id == id {
			return k
		}
	}
	return nil
}

// current returns the key to sign with: the newest key that is ready, or the oldest one if none is ready, as on a
// first start. It returns nil if no key can be decrypted.
func (r *ring) current(now time.Time) *key {
	var oldest *key
	for i := len(r.keys) - 1; i >= 0; i-- {
		k := r.keys[i]
		if k.private == nil {
			continue
		}
		if !now.Before(k.readyAt) {
			return k
		}
		oldest = k
	}
	return oldest
}
