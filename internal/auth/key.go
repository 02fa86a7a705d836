// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"strings"

	"assay"
)

const (
	idLength     = 6  // characters of the public id
	secretLength = 32 // hexadecimal digits, 128 bits
	separator    = "_sk_"

	idAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// NewKey makes a key with the prefix. It returns the key, which is shown once and
// kept nowhere, and what is stored of it: an APIKey with ID and Hash filled.
func NewKey(prefix string) (Secret, *assay.APIKey) { return newKey(prefix, newID(rand.Reader)) }

// newKey makes a key with an id.
func newKey(prefix, id string) (Secret, *assay.APIKey) {
	secret := make([]byte, secretLength/2)
	rand.Read(secret) // never fails: crypto/rand ends the program instead
	key := Secret(prefix + separator + id + "_" + hex.EncodeToString(secret))
	return key, &assay.APIKey{ID: id, Hash: HashKey(key)}
}

// newID returns six characters of which each is equally likely: random bytes past
// the last whole multiple of the alphabet are drawn again.
func newID(random io.Reader) string {
	const limit = 256 - 256%len(idAlphabet)
	id := make([]byte, 0, idLength)
	var b [2 * idLength]byte
	for len(id) < idLength {
		_, _ = random.Read(b[:]) // neither reader fails or reads less
		for _, c := range b {
			if int(c) < limit && len(id) < idLength {
				id = append(id, idAlphabet[int(c)%len(idAlphabet)])
			}
		}
	}
	return string(id)
}

// onceID returns the id of the key that one form of a session makes: the same for the
// same form, and one of many for others.
func onceID(session [sha256.Size]byte, once string, attempt byte) string {
	seed := sha256.Sum256(slices.Concat(session[:], []byte{attempt}, []byte(once)))
	return newID(mathrand.NewChaCha8(seed))
}

// ParseKey returns the public id of a key. ok is false when the key does not have
// the form of a key with this prefix; whether it is a valid one only the store
// knows.
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

// HashKey returns what is stored of a key.
func HashKey(key Secret) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }
