// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"time"

	"assay"
	"assay/internal/store/lane"
)

// CreateSigningKey implements assay.SigningKeyStore.
func (s *Store) CreateSigningKey(ctx context.Context, k *assay.SigningKey) error {
	created := stored(s.now())
	err := s.update(ctx, lane.Pages, "create the first signing key", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (id, public, private, created_at)
			SELECT ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM signing_keys)`, k.ID, k.Public, k.Private, micros(created))
		return changedOne(res, err, func() error { return assay.Errorf(assay.CodeConflict, "there is a signing key already") })
	})
	if err != nil {
		return err
	}
	k.CreatedAt = created
	return nil
}

// RotateSigningKey implements assay.SigningKeyStore.
func (s *Store) RotateSigningKey(ctx context.Context, k *assay.SigningKey) error {
	created := stored(s.now())
	err := s.update(ctx, lane.Pages, "rotate the signing key", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE signing_keys SET retired_at = ? WHERE retired_at = 0`, micros(created)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (id, public, private, created_at) VALUES (?, ?, ?, ?)`,
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
	var keys []*assay.SigningKey
	err := s.query(ctx, lane.Pages, "list signing keys", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT id, public, private, created_at, retired_at FROM signing_keys ORDER BY signing_key`)
		return each(rows, err, func(rows *sql.Rows) error {
			var (
				k                assay.SigningKey
				created, retired int64
			)
			if err := rows.Scan(&k.ID, &k.Public, &k.Private, &created, &retired); err != nil {
				return err
			}
			k.CreatedAt, k.RetiredAt = timeOf(created), timeOf(retired)
			keys = append(keys, &k)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// ReplacePrivateKey implements assay.SigningKeyStore.
func (s *Store) ReplacePrivateKey(ctx context.Context, id string, old, private []byte) error {
	return s.update(ctx, lane.Pages, "replace the private half of a signing key", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE signing_keys SET private = ? WHERE id = ? AND private = ?`, private, id, old)
		return err
	})
}

// DeleteSigningKeys implements assay.SigningKeyStore.
func (s *Store) DeleteSigningKeys(ctx context.Context, retiredBefore time.Time) error {
	return s.update(ctx, lane.Pages, "delete retired signing keys", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM signing_keys WHERE retired_at <> 0 AND retired_at < ?`, micros(retiredBefore))
		return err
	})
}
