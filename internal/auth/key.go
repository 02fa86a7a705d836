// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	mathrand "math/rand/v2"
	"strings"

	"assay"
)

const (
	idLength     = 6  // characters of the public id
	secretLength = 32 // hexadecimal digits, 128 bits
	separator    = "_sk_"

	idAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// NewKey generates a key with the prefix. It returns the key, which is shown once and not stored, and an APIKey with
// ID and Hash set, which is stored.
func NewKey(prefix string) (Secret, *assay.APIKey) { return newKey(prefix, newID(rand.Reader)) }

// newKey generates a key with the given id.
func newKey(prefix, id string) (Secret, *assay.APIKey) {
	secret := make([]byte, secretLength/2)
	rand.Read(secret) // never fails: crypto/rand aborts the program instead
	key := Secret(prefix + separator + id + "_" + hex.EncodeToString(secret))
	return key, &assay.APIKey{ID: id, Hash: HashKey(key)}
}

// newID returns six characters, uniformly distributed: random bytes above the largest multiple of the alphabet's
// length are drawn again.
func newID(random io.Reader) string {
	const limit = 256 - 256%len(idAlphabet)
	id := make([]byte, 0, idLength)
	var b [2 * idLength]byte
	for len(id) < idLength {
		_, _ = random.Read(b[:]) // neither reader fails or returns fewer bytes
		for _, c := range b {
			if int(c) < limit && len(id) < idLength {
				id = append(id, idAlphabet[int(c)%len(idAlphabet)])
			}
		}
	}
	return string(id)
}

// onceID derives a key id from the identity of a request. Repeated requests get the same id.
func onceID(once string, attempt byte) string {
	seed := sha256.Sum256(append([]byte{attempt}, once...))
	return newID(mathrand.NewChaCha8(seed))
}

// ParseKey returns the public id of a key. ok is false if the key does not have the form of a key with this prefix.
// ParseKey does not check whether the key is valid.
func ParseKey(prefix string, key Secret) (id string, ok bool) {
	rest, ok := strings.CutPrefix(string(key), prefix+separator)
	if !ok || len(rest) != idLength+1+secretLength || rest[idLength] != '_' {
		return "", false
	}
	id, secret := rest[:idLength], rest[idLength+1:]
	if strings.Trim(id, idAlphabet) != "" || strings.Trim(secret, "0123456789abcdef") != "" {
		return "", false
	}
	return id, true
}

// HashKey returns the hash under which a key is stored.
func HashKey(key Secret) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }
