// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"assay"
	"assay/internal/store/connpool"
)

// CreateSigningKey implements assay.SigningKeyStore.
func (q *Queries) CreateSigningKey(ctx context.Context, k *assay.SigningKey) error {
	return q.addSigningKey(ctx, "create the first signing key", k, func(tx Tx, _ time.Time) error {
		var one int
		found, err := get(ctx, tx, []any{&one}, `SELECT 1 FROM signing_keys LIMIT 1`)
		if err == nil && found {
			err = assay.Errorf(assay.CodeConflict, "a signing key already exists")
		}
		return err
	})
}

// RotateSigningKey implements assay.SigningKeyStore.
func (q *Queries) RotateSigningKey(ctx context.Context, k *assay.SigningKey) error {
	return q.addSigningKey(ctx, "rotate the signing key", k, func(tx Tx, now time.Time) error {
		_, err := exec(ctx, tx, `UPDATE signing_keys SET retired_at = $1 WHERE retired_at = 0`, Micros(now))
		return err
	})
}

// addSigningKey adds a key after prepare. Concurrent calls are serialized; readers do not
// wait.
func (q *Queries) addSigningKey(ctx context.Context, operation string, k *assay.SigningKey, prepare func(Tx, time.Time) error) error {
	var created time.Time
	err := q.engine.Update(ctx, connpool.Pages, operation, func(tx Tx) (err error) {
		if q.sql.LockSigningKeys != "" {
			if _, err := exec(ctx, tx, q.sql.LockSigningKeys); err != nil {
				return err
			}
		}
		if created, err = tx.Now(ctx); err != nil {
			return err
		}
		if err := prepare(tx, created); err != nil {
			return err
		}
		_, err = exec(ctx, tx, `INSERT INTO signing_keys (id, public, private, created_at) VALUES ($1, $2, $3, $4)`,
			k.ID, k.Public, k.Private, Micros(created))
		return q.conflict(err, "a signing key with this id exists")
	})
	if err != nil {
		return err
	}
	k.CreatedAt = created
	return nil
}

// FindSigningKeys implements assay.SigningKeyStore.
func (q *Queries) FindSigningKeys(ctx context.Context) ([]*assay.SigningKey, error) {
	return list(ctx, q, connpool.Pages, "list signing keys", func(r Row) (*assay.SigningKey, error) {
		k := new(assay.SigningKey)
		return k, r.Scan(&k.ID, &k.Public, &k.Private, (*Time)(&k.CreatedAt), (*Time)(&k.RetiredAt))
	}, `SELECT id, public, private, created_at, retired_at FROM signing_keys ORDER BY signing_key`)
}

// ReplacePrivateKey implements assay.SigningKeyStore.
func (q *Queries) ReplacePrivateKey(ctx context.Context, id string, old, private []byte) error {
	return q.update(ctx, connpool.Pages, "replace the private half of a signing key", nil,
		`UPDATE signing_keys SET private = $1 WHERE id = $2 AND private = $3`, private, id, old)
}

// credentialKey is the key of table memory for the fingerprint of the key that encrypts credentials.
const credentialKey = "credential_key"

// ClaimCredentialKey implements assay.CredentialKeyStore.
func (q *Queries) ClaimCredentialKey(ctx context.Context, fingerprint int64, replace bool) (stored int64, err error) {
	update := "NOTHING"
	if replace {
		update = "UPDATE SET value = excluded.value"
	}
	err = q.engine.Update(ctx, connpool.Pages, "claim the key for credentials", func(tx Tx) error {
		var b Batch
		b.Exec(`INSERT INTO memory (name, value) VALUES ($1, $2) ON CONFLICT (name) DO `+update, credentialKey, fingerprint)
		b.Query(func(r Row) error { return r.Scan(&stored) }, `SELECT value FROM memory WHERE name = $1`, credentialKey)
		return tx.Send(ctx, &b)
	})
	return result(stored, err)
}

// DeleteSigningKeys implements assay.SigningKeyStore.
func (q *Queries) DeleteSigningKeys(ctx context.Context, retiredBefore time.Time) error {
	return q.update(ctx, connpool.Pages, "delete retired signing keys", nil,
		`DELETE FROM signing_keys WHERE retired_at <> 0 AND retired_at < $1`, Micros(retiredBefore))
}
