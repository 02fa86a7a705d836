// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"fmt"
	"time"

	"assay"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
)

func errNoAPIKey() error { return assay.Errorf(assay.CodeNotFound, "no such API key") }

// APIKeyPrefix implements assay.APIKeyStore.
func (q *Queries) APIKeyPrefix(ctx context.Context, given string) (string, error) {
	const name = "api_key_prefix"
	var prefix string
	err := q.engine.Update(ctx, connpool.Pages, "find the prefix of API keys", func(tx Tx) error {
		if given != "" {
			if _, err := exec(ctx, tx, `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, given); err != nil {
				return err
			}
		}
		_, err := get(ctx, tx, []any{&prefix}, `SELECT value FROM settings WHERE name = $1`, name)
		return err
	})
	return result(prefix, err)
}

// liveAPIKey returns the condition that an API key k is live at a time.
func liveAPIKey(at string) string {
	return `(k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ` + at + `))`
}

// CreateAPIKey implements assay.APIKeyStore.
func (q *Queries) CreateAPIKey(ctx context.Context, k *assay.APIKey, limits assay.APIKeyLimits) error {
	var created time.Time
	err := q.updateOrganization(ctx, "create an API key", k.OrganizationID, func(tx Tx, org int64, now time.Time) error {
		created = now
		var all, live int
		if _, err := get(ctx, tx, []any{&all, &live}, `SELECT count(*), count(*) FILTER (WHERE `+liveAPIKey(`$2`)+`) FROM api_keys k WHERE k.org = $1`,
			org, Micros(now)); err != nil {
			return err
		}
		if limits.All > 0 && all >= limits.All {
			return errTooManyAPIKeys("the organization has had %d API keys, which is the limit", all)
		}
		if limits.Live > 0 && live >= limits.Live {
			return errTooManyAPIKeys("the organization has %d API keys, which is the limit; revoke one that is not in use", live)
		}
		_, err := exec(ctx, tx, `INSERT INTO api_keys (id, org, name, hash, scopes, created_at, created_by, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			k.ID, org, k.Name, k.Hash[:], codec.JoinScopes(k.Scopes), Micros(created), Text(k.CreatedBy), Micros(k.ExpiresAt))
		return q.conflict(err, "an API key with this id exists")
	})
	if err != nil {
		return err
	}
	k.CreatedAt = created
	return nil
}

func errTooManyAPIKeys(format string, n int) error {
	return &assay.Error{Code: assay.CodeConflict, Message: fmt.Sprintf(format, n), Err: assay.ErrTooManyAPIKeys}
}

const selectAPIKeys = `
SELECT k.id, o.id, k.name, k.hash, k.scopes, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at
FROM api_keys k JOIN organizations o USING (org) `

func scanAPIKey(r Row) (*assay.APIKey, error) {
	var (
		k      assay.APIKey
		hash   []byte
		scopes string
	)
	err := r.Scan(&k.ID, (*ID)(&k.OrganizationID), &k.Name, &hash, &scopes,
		(*Time)(&k.CreatedAt), (*Text)(&k.CreatedBy), (*Time)(&k.ExpiresAt), (*Time)(&k.LastUsedAt), (*Time)(&k.RevokedAt))
	copy(k.Hash[:], hash)
	k.Scopes = codec.SplitScopes(scopes)
	return &k, err
}

// FindAPIKey implements assay.APIKeyStore.
func (q *Queries) FindAPIKey(ctx context.Context, id string) (*assay.APIKey, error) {
	if !q.engine.Storable(id) {
		return nil, errNoAPIKey()
	}
	return one(ctx, q, connpool.Lookups, "find an API key", errNoAPIKey, scanAPIKey, selectAPIKeys+`WHERE k.id = $1`, id)
}

// FindAPIKeys implements assay.APIKeyStore.
func (q *Queries) FindAPIKeys(ctx context.Context, organizationID string) ([]*assay.APIKey, error) {
	const operation, order = "list API keys", `ORDER BY k.created_at, k.id`
	if organizationID == "" {
		return list(ctx, q, connpool.Pages, operation, scanAPIKey, selectAPIKeys+order)
	}
	return list(ctx, q, connpool.Pages, operation, scanAPIKey, selectAPIKeys+`WHERE o.id = $1 `+order, ID(organizationID))
}

// FindLiveAPIKeys implements assay.APIKeyStore.
func (q *Queries) FindLiveAPIKeys(ctx context.Context, now time.Time) ([]*assay.APIKey, error) {
	return list(ctx, q, connpool.Loads, "list live API keys", scanAPIKey, selectAPIKeys+`WHERE `+liveAPIKey(`$1`), Micros(now))
}

// FindAPIKeyPage implements assay.APIKeyStore.
func (q *Queries) FindAPIKeyPage(ctx context.Context, organizationID string, now time.Time, page assay.Page) (*assay.APIKeyPage, error) {
	live := liveAPIKey(`$2`)
	org, at := ID(organizationID), Micros(now)
	var found *assay.APIKeyPage
	err := q.engine.View(ctx, connpool.Pages, "list API keys", func(b *Batch) {
		found = new(assay.APIKeyPage)
		b.Query(func(r Row) error { return r.Scan(&found.Total, &found.Live) },
			`SELECT count(*), count(*) FILTER (WHERE `+live+`) FROM api_keys k JOIN organizations o USING (org) WHERE o.id = $1`, org, at)
		b.Query(collect(&found.Keys, scanAPIKey),
			selectAPIKeys+`WHERE o.id = $1 ORDER BY `+live+` DESC, k.created_at DESC, k.id DESC LIMIT $3 OFFSET $4`, org, at, page.Limit, page.Offset)
	})
	return result(found, err)
}

// RevokeAPIKey implements assay.APIKeyStore.
func (q *Queries) RevokeAPIKey(ctx context.Context, id string) error {
	if !q.engine.Storable(id) {
		return errNoAPIKey()
	}
	return q.updateAt(ctx, connpool.Pages, "revoke an API key", func(tx Tx, now time.Time) error {
		return change(ctx, tx, errNoAPIKey, `UPDATE api_keys SET revoked_at = CASE revoked_at WHEN 0 THEN $1 ELSE revoked_at END WHERE id = $2`, Micros(now), id)
	})
}

// TouchAPIKey implements assay.APIKeyStore. An unknown id is no error.
func (q *Queries) TouchAPIKey(ctx context.Context, id string, at time.Time) error {
	if !q.engine.Storable(id) {
		return nil
	}
	return q.update(ctx, connpool.Lookups, "note the use of an API key", nil,
		`UPDATE api_keys SET last_used_at = $1 WHERE id = $2 AND last_used_at < $1`, Micros(at), id)
}
