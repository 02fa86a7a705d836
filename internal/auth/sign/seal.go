// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/seal"
)

// The first byte of a stored private key is its format.
const (
	formatClear  = 1 // the seed of the key, 32 bytes (RFC 8032, section 5.1.5)
	formatSealed = 2 // the encrypted seed (package seal)
)

// sealPurpose separates the cipher key from other keys that may be derived from the secret in the future.
const sealPurpose = "assay: private halves of signing keys, AES-256-GCM"

const idLength = 16 // characters of base32, 80 bits

var (
	errMalformed = errors.New("its stored form is unknown to this version")
	errHalves    = errors.New("its private key does not match its public key")
)

// Sealed reports whether the private key is stored encrypted.
func Sealed(k *assay.SigningKey) bool { return len(k.Private) > 0 && k.Private[0] == formatSealed }

// vault encrypts and decrypts private keys.
type vault struct {
	box *seal.Box // does not encrypt if there is no secret: keys are stored in clear
}

func newVault(secret auth.Secret) (*vault, error) {
	if secret != "" && len(secret) != secretSize {
		return nil, errSecretForm
	}
	box, err := seal.New(secret, sealPurpose)
	if err != nil {
		return nil, err
	}
	return &vault{box}, nil
}

// generate generates a key.
func (v *vault) generate() (*assay.SigningKey, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	id := rand.Text()[:idLength]
	return &assay.SigningKey{ID: id, Public: public, Private: v.wrap(id, private)}, nil
}

// wrap returns the stored form of a private key.
func (v *vault) wrap(id string, private ed25519.PrivateKey) []byte {
	if !v.box.Encrypts() {
		return append([]byte{formatClear}, private.Seed()...)
	}
	return v.box.Seal([]byte{formatSealed}, id, private.Seed())
}

// open returns the private key of a stored key.
func (v *vault) open(k *assay.SigningKey) (ed25519.PrivateKey, error) {
	if len(k.Private) == 0 {
		return nil, errMalformed
	}
	seed := k.Private[1:]
	switch k.Private[0] {
	case formatClear:
	case formatSealed:
		var err error
		if seed, err = v.box.Open(k.ID, seed); err != nil {
			return nil, err
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

// encrypt encrypts the private keys that are stored in clear, if there is a secret.
func (v *vault) encrypt(ctx context.Context, store assay.SigningKeyStore, stored []*assay.SigningKey) error {
	if !v.box.Encrypts() {
		return nil
	}
	for _, k := range stored {
		if Sealed(k) {
			continue
		}
		private, err := v.open(k)
		if err != nil {
			continue // it is not in use
		}
		if err := store.ReplacePrivateKey(ctx, k.ID, k.Private, v.wrap(k.ID, private)); err != nil {
			return fmt.Errorf("encrypt the signing key %s: %w", k.ID, err)
		}
	}
	return nil
}
