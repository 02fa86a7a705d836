// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// SigningKey is a key pair that assay signs its tokens for the agent backend with.
type SigningKey struct {
	ID        string    // the kid of its tokens
	Public    []byte    // Ed25519, 32 bytes
	Private   []byte    // as internal/auth/sign writes it, encrypted or not; never to be shown
	CreatedAt time.Time // when it was stored
	RetiredAt time.Time // when the next one was stored; zero: it is the newest
}

// SigningKeyStore keeps signing keys. There are none, or exactly one that is not
// retired. Implementations may be used concurrently, by several processes too.
type SigningKeyStore interface {
	// CreateSigningKey stores the first key and fills CreatedAt. It is CodeConflict
	// when there is one, so of replicas that start together one alone succeeds.
	CreateSigningKey(ctx context.Context, k *SigningKey) error
	// RotateSigningKey stores k, fills CreatedAt and retires its predecessor, if there
	// is one, at that time. An id that is taken is CodeConflict.
	RotateSigningKey(ctx context.Context, k *SigningKey) error
	// FindSigningKeys returns all keys in the order in which they were stored, so the
	// last one is the one that is not retired.
	FindSigningKeys(ctx context.Context) ([]*SigningKey, error)
	// ReplacePrivateKey replaces the private half of a key while it is old, else it
	// does nothing: another replica was first, or the key is gone.
	ReplacePrivateKey(ctx context.Context, id string, old, private []byte) error
	// DeleteSigningKeys deletes the keys that were retired before a time.
	DeleteSigningKeys(ctx context.Context, retiredBefore time.Time) error
}
