// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"assay/internal/auth"
)

// Errors of Open.
var (
	ErrNoSecret    = errors.New("it is encrypted, and no secret key file is given")
	ErrOtherSecret = errors.New("it was encrypted with another secret than that of the secret key file, or was changed in the store")
)

// Box encrypts and decrypts texts. It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// New returns a box with a key that is derived from a secret for one purpose. Without a secret, the box cannot encrypt.
func New(secret auth.Secret, purpose string) (*Box, error) {
	if secret == "" {
		return &Box{}, nil
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive a key from the secret: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("prepare the cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("prepare the cipher: %w", err)
	}
	return &Box{aead}, nil
}

// Fingerprint returns a number that identifies a secret and reveals nothing else of it.
func Fingerprint(secret auth.Secret) int64 {
	sum, err := hkdf.Key(sha256.New, []byte(secret), nil, "assay fingerprint of a secret key", 8)
	if err != nil { // only for longer keys
		return 0
	}
	return int64(binary.BigEndian.Uint64(sum) >> 1)
}

// Encrypts reports whether the box has a secret.
func (b *Box) Encrypts() bool { return b.aead != nil }

// Seal encrypts a text that belongs to an id and appends it to a prefix. The box must have a secret.
func (b *Box) Seal(prefix []byte, id string, text []byte) []byte {
	return b.aead.Seal(prefix, nil, text, []byte(id)) // the id is authenticated data
}

// Open decrypts the output of Seal for the same id.
func (b *Box) Open(id string, sealed []byte) ([]byte, error) {
	if b.aead == nil {
		return nil, ErrNoSecret
	}
	text, err := b.aead.Open(nil, nil, sealed, []byte(id))
	if err != nil {
		return nil, ErrOtherSecret
	}
	return text, nil
}
