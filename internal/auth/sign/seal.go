// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"assay"
	"assay/internal/auth"
)

// The private half in the store begins with a byte that says what follows.
const (
	formatClear  = 1 // the seed of the key, 32 bytes (RFC 8032, section 5.1.5)
	formatSealed = 2 // a nonce of 12 bytes, the encrypted seed, a tag of 16 bytes: AES-256-GCM
)

// sealPurpose is what the key of the cipher is derived for from the secret, so that
// the secret can be used for something else one day.
const sealPurpose = "assay: private halves of signing keys, AES-256-GCM"

const idLength = 16 // characters of base32, 80 bits

var (
	errNoSecret    = errors.New("it is encrypted, and no secret key file is given")
	errOtherSecret = errors.New("it was encrypted with another secret than that of the secret key file, or was changed in the store")
	errMalformed   = errors.New("its stored form is not one that this program knows")
	errHalves      = errors.New("its private half does not belong to its public half")
)

// Sealed tells whether the private half of a key is encrypted.
func Sealed(k *assay.SigningKey) bool { return len(k.Private) > 0 && k.Private[0] == formatSealed }

// vault encrypts and decrypts private halves.
type vault struct {
	aead cipher.AEAD // nil: there is no secret, and keys are kept in clear
}

func newVault(secret auth.Secret) (*vault, error) {
	if secret == "" {
		return &vault{}, nil
	}
	if len(secret) != secretSize {
		return nil, errSecretForm
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, sealPurpose, 32)
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
	return &vault{aead}, nil
}

// generate makes a key.
func (v *vault) generate() (*assay.SigningKey, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	id := rand.Text()[:idLength]
	return &assay.SigningKey{ID: id, Public: public, Private: v.wrap(id, private)}, nil
}

// wrap returns the private half as it is stored.
func (v *vault) wrap(id string, private ed25519.PrivateKey) []byte {
	if v.aead == nil {
		return append([]byte{formatClear}, private.Seed()...)
	}
	return v.aead.Seal([]byte{formatSealed}, nil, private.Seed(), []byte(id)) // it belongs to this id alone
}

// open returns the private half of a stored key.
func (v *vault) open(k *assay.SigningKey) (ed25519.PrivateKey, error) {
	if len(k.Private) == 0 {
		return nil, errMalformed
	}
	seed := k.Private[1:]
	switch k.Private[0] {
	case formatClear:
	case formatSealed:
		if v.aead == nil {
			return nil, errNoSecret
		}
		var err error
		if seed, err = v.aead.Open(nil, nil, seed, []byte(k.ID)); err != nil {
			return nil, errOtherSecret
		}
	default:
		return nil, errMalformed
	}
	if len(seed) != ed25519.SeedSize {
		return nil, errMalformed
	}
	private := ed25519.NewKeyFromSeed(seed)
	if subtle.ConstantTimeCompare(private[ed25519.SeedSize:], k.Public) != 1 {
		return nil, errHalves
	}
	return private, nil
}

// encrypt replaces the private halves that are stored in clear, if there is a secret.
func (v *vault) encrypt(ctx context.Context, store assay.SigningKeyStore, stored []*assay.SigningKey) error {
	if v.aead == nil {
		return nil
	}
	for _, k := range stored {
		if Sealed(k) {
			continue
		}
		private, err := v.open(k)
		if err != nil {
			continue // it is not used
		}
		if err := store.ReplacePrivateKey(ctx, k.ID, k.Private, v.wrap(k.ID, private)); err != nil {
			return fmt.Errorf("encrypt the signing key %s: %w", k.ID, err)
		}
	}
	return nil
}
