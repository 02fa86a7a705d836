// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"context"
	"fmt"
	"time"

	"assay"
	"assay/internal/auth"
)

// Rotation configures Rotate.
type Rotation struct {
	Store  assay.SigningKeyStore
	Secret auth.Secret // as in Config
	// ReplaceSecret allows the new key to be encrypted with another secret than the current one, or not at all. It is
	// for a secret that is changed or lost.
	ReplaceSecret bool
	Now           func() time.Time // default time.Now
}

// Rotate generates a new key and returns its id. Replicas sign with it within 10 s. Unless ReplaceSecret is set,
// Rotate fails if the current key cannot be decrypted. With a secret it encrypts the keys that are stored in clear. It
// returns CodeConflict while 64 keys are published. Each key is published for five minutes after the rotation that
// retired it.
func Rotate(ctx context.Context, r Rotation) (id string, err error) {
	if r.Now == nil {
		r.Now = time.Now
	}
	v, err := newVault(r.Secret)
	if err != nil {
		return "", fmt.Errorf("sign: the secret is %w", err)
	}
	if err := r.Store.DeleteSigningKeys(ctx, r.Now().Add(-retention)); err != nil {
		return "", err
	}
	stored, err := r.Store.FindSigningKeys(ctx)
	if err != nil {
		return "", err
	}
	if len(stored) >= maxKeys {
		return "", assay.Errorf(assay.CodeConflict, "%d keys are published: wait until the tokens of the first ones have expired, %v after their rotation", len(stored), retention)
	}
	if len(stored) > 0 && !r.ReplaceSecret {
		newest := stored[len(stored)-1]
		if _, err := v.open(newest); err != nil {
			return "", fmt.Errorf("the current signing key %s cannot be used: %w", newest.ID, err)
		}
	}
	if err := v.encrypt(ctx, r.Store, stored); err != nil {
		return "", err
	}
	k, err := v.generate()
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	if err := r.Store.RotateSigningKey(ctx, k); err != nil {
		return "", err
	}
	return k.ID, nil
}

// PublishedUntil returns when the public key leaves the JWKS, or the zero time for a key that is not retired.
func PublishedUntil(k *assay.SigningKey) time.Time {
	if k.RetiredAt.IsZero() {
		return time.Time{}
	}
	return k.RetiredAt.Add(retention)
}
