// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/store/codec"
)

// CreateAPIKey implements assay.APIKeyStore.
func (s *Store) CreateAPIKey(ctx context.Context, k *assay.APIKey) error {
	var created time.Time
	err := s.update(ctx, pages, "create an API key", func(tx pgx.Tx) error {
		org, err := orgOf(ctx, tx, k.OrganizationID)
		if err != nil {
			return err
		}
		if created, err = s.now(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO api_keys (id, org, name, hash, scopes, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			k.ID, org, k.Name, k.Hash[:], codec.JoinScopes(k.Scopes), micros(created), micros(k.ExpiresAt))
		if taken(err) {
			return assay.Errorf(assay.CodeConflict, "an API key with this id exists")
		}
		return err
	})
	if err != nil {
		return err
	}
	k.CreatedAt = created
	return nil
}

const selectAPIKeys = `
SELECT k.id, o.id, k.name, k.hash, k.scopes, k.created_at, k.expires_at, k.last_used_at, k.revoked_at
FROM api_keys k JOIN organizations o USING (org) `

func apiKeyOf(row pgx.CollectableRow) (*assay.APIKey, error) {
	var (
		k      assay.APIKey
		hash   []byte
		scopes string
	)
	err := row.Scan(&k.ID, &k.OrganizationID, &k.Name, &hash, &scopes,
		(*instant)(&k.CreatedAt), (*instant)(&k.ExpiresAt), (*instant)(&k.LastUsedAt), (*instant)(&k.RevokedAt))
	copy(k.Hash[:], hash)
	k.Scopes = codec.SplitScopes(scopes)
	return &k, err
}

func errNoAPIKey() error { return assay.Errorf(assay.CodeNotFound, "no such API key") }

// FindAPIKey implements assay.APIKeyStore.
func (s *Store) FindAPIKey(ctx context.Context, id string) (*assay.APIKey, error) {
	if !storable(id) {
		return nil, errNoAPIKey()
	}
	return one(ctx, s, lookups, "find an API key", errNoAPIKey, apiKeyOf, selectAPIKeys+`WHERE k.id = $1`, id)
}

// FindAPIKeys implements assay.APIKeyStore.
func (s *Store) FindAPIKeys(ctx context.Context, organizationID string) ([]*assay.APIKey, error) {
	const what, order = "list API keys", `ORDER BY k.created_at, k.id`
	if organizationID == "" {
		return list(ctx, s, loads, what, apiKeyOf, selectAPIKeys+order)
	}
	return list(ctx, s, pages, what, apiKeyOf, selectAPIKeys+`WHERE o.id = $1 `+order, uuidOf(organizationID))
}

// RevokeAPIKey implements assay.APIKeyStore.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) error {
	if !storable(id) {
		return errNoAPIKey()
	}
	return s.update(ctx, pages, "revoke an API key", func(tx pgx.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE api_keys SET revoked_at = CASE revoked_at WHEN 0 THEN $1 ELSE revoked_at END WHERE id = $2`, micros(now), id)
		return changedOne(tag, err, errNoAPIKey)
	})
}

// TouchAPIKey implements assay.APIKeyStore. An unknown id is no error: the use
// of a key is not worth one.
func (s *Store) TouchAPIKey(ctx context.Context, id string, at time.Time) error {
	if !storable(id) {
		return nil
	}
	return s.update(ctx, lookups, "note the use of an API key", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE api_keys SET last_used_at = $1 WHERE id = $2 AND last_used_at < $1`, micros(at), id)
		return err
	})
}
