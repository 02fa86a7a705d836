// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
)

// CreateSigningKey implements assay.SigningKeyStore.
func (s *Store) CreateSigningKey(ctx context.Context, k *assay.SigningKey) error {
	return s.addSigningKey(ctx, "create the first signing key", k, func(tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM signing_keys)`).Scan(&exists); err != nil {
			return err
		}
		if exists {
			return assay.Errorf(assay.CodeConflict, "there is a signing key already")
		}
		return nil
	})
}

// RotateSigningKey implements assay.SigningKeyStore.
func (s *Store) RotateSigningKey(ctx context.Context, k *assay.SigningKey) error {
	return s.addSigningKey(ctx, "rotate the signing key", k, func(tx pgx.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE signing_keys SET retired_at = $1 WHERE retired_at = 0`, micros(now))
		return err
	})
}

// addSigningKey adds a key after what prepares the table for it.
func (s *Store) addSigningKey(ctx context.Context, what string, k *assay.SigningKey, prepare func(pgx.Tx) error) error {
	var created time.Time
	err := s.update(ctx, pages, what, func(tx pgx.Tx) error {
		// One at a time: what prepare sees is what there is. Readers do not wait.
		if _, err := tx.Exec(ctx, `LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		if err := prepare(tx); err != nil {
			return err
		}
		var err error
		if created, err = s.now(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO signing_keys (id, public, private, created_at) VALUES ($1, $2, $3, $4)`,
			k.ID, k.Public, k.Private, micros(created))
		if taken(err) {
			return assay.Errorf(assay.CodeConflict, "a signing key with this id exists")
		}
		return err
	})
	if err != nil {
		return err
	}
	k.CreatedAt = created
	return nil
}

// FindSigningKeys implements assay.SigningKeyStore.
func (s *Store) FindSigningKeys(ctx context.Context) ([]*assay.SigningKey, error) {
	return list(ctx, s, pages, "list signing keys", func(row pgx.CollectableRow) (*assay.SigningKey, error) {
		k := new(assay.SigningKey)
		return k, row.Scan(&k.ID, &k.Public, &k.Private, (*instant)(&k.CreatedAt), (*instant)(&k.RetiredAt))
	}, `SELECT id, public, private, created_at, retired_at FROM signing_keys ORDER BY signing_key`)
}

// ReplacePrivateKey implements assay.SigningKeyStore.
func (s *Store) ReplacePrivateKey(ctx context.Context, id string, old, private []byte) error {
	return s.update(ctx, pages, "replace the private half of a signing key", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE signing_keys SET private = $1 WHERE id = $2 AND private = $3`, private, id, old)
		return err
	})
}

// DeleteSigningKeys implements assay.SigningKeyStore.
func (s *Store) DeleteSigningKeys(ctx context.Context, retiredBefore time.Time) error {
	return s.update(ctx, pages, "delete retired signing keys", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM signing_keys WHERE retired_at <> 0 AND retired_at < $1`, micros(retiredBefore))
		return err
	})
}
