// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// SigningKey is a key pair for signing tokens for the agent backend.
type SigningKey struct {
	ID        string    // kid of its tokens
	Public    []byte    // Ed25519, 32 bytes
	Private   []byte    // encoded by internal/auth/sign, optionally encrypted; secret
	CreatedAt time.Time // time of storing
	RetiredAt time.Time // time when the next key was stored; zero: newest key
}

// SigningKeyStore stores signing keys. If there are any, exactly one is not retired. Implementations must be safe for
// concurrent use, also by several processes.
type SigningKeyStore interface {
	// CreateSigningKey stores the first key and sets CreatedAt. It returns CodeConflict if a key exists, so that only
	// one of several starting replicas succeeds.
	CreateSigningKey(ctx context.Context, k *SigningKey) error
	// RotateSigningKey stores k, sets CreatedAt, and retires the previous key, if any, at that time. It returns
	// CodeConflict if the id exists.
	RotateSigningKey(ctx context.Context, k *SigningKey) error
	// FindSigningKeys returns all keys in the order of storing. The last one is not retired.
	FindSigningKeys(ctx context.Context) ([]*SigningKey, error)
	// ReplacePrivateKey replaces the private key if it equals old. Otherwise it does nothing: another replica has
	// replaced it, or the key was deleted.
	ReplacePrivateKey(ctx context.Context, id string, old, private []byte) error
	// DeleteSigningKeys deletes the keys retired before a time.
	DeleteSigningKeys(ctx context.Context, retiredBefore time.Time) error
}

// CredentialKeyStore records which key encrypts the credentials in the store, so that servers with another key do not
// add credentials that the others cannot decrypt. Implementations must be safe for concurrent use, also by several
// processes.
type CredentialKeyStore interface {
	// ClaimCredentialKey stores the fingerprint of a key if none is stored, or if replace is set. It returns the stored
	// one.
	ClaimCredentialKey(ctx context.Context, fingerprint int64, replace bool) (stored int64, err error)
}
