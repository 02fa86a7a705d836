// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/lane"
)

// CreateOrganization implements assay.OrganizationStore.
func (s *Store) CreateOrganization(ctx context.Context, o *assay.Organization) error {
	if !o.Tier.Valid() {
		return assay.Errorf(assay.CodeInvalid, "unknown tier %q", string(o.Tier))
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return assay.Errorf(assay.CodeInternal, "sqlite: make an organization id: %w", err)
	}
	created := stored(s.now())
	err = s.update(ctx, lane.Pages, "create an organization", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO organizations (id, name, external_id, tier, created_at) VALUES (?, ?, nullif(?, ''), ?, ?)`,
			id[:], o.Name, o.ExternalID, string(o.Tier), micros(created))
		if taken(err) {
			return assay.Errorf(assay.CodeConflict, "an organization with this name or external id exists")
		}
		return err
	})
	if err != nil {
		return err
	}
	o.ID, o.CreatedAt = id.String(), created
	return nil
}

const selectOrganizations = `
SELECT o.id, o.name, ifnull(o.external_id, ''), o.tier, o.created_at, o.score, o.score_updated_at,
	ifnull((SELECT n FROM service_counts c WHERE c.org = o.org), 0),
	(SELECT ifnull(sum(n), 0) FROM insight_counts c WHERE c.org = o.org AND c.status = 1)
FROM organizations o `

func scanOrganization(row row) (*assay.Organization, error) {
	var (
		o                assay.Organization
		id               []byte
		created, updated int64
	)
	err := row.Scan(&id, &o.Name, &o.ExternalID, &o.Tier, &created, &o.Score, &updated, &o.ServicesCount, &o.ActiveInsightsCount)
	if err != nil {
		return nil, err
	}
	o.ID, o.CreatedAt, o.ScoreUpdatedAt = idOf(id), timeOf(created), timeOf(updated)
	return &o, nil
}

// FindOrganizationByID implements assay.OrganizationStore.
func (s *Store) FindOrganizationByID(ctx context.Context, id string) (*assay.Organization, error) {
	return s.findOrganization(ctx, `WHERE o.id = ?`, blobOf(id))
}

// FindOrganizationByName implements assay.OrganizationStore.
func (s *Store) FindOrganizationByName(ctx context.Context, name string) (*assay.Organization, error) {
	return s.findOrganization(ctx, `WHERE o.name = ?`, name)
}

func (s *Store) findOrganization(ctx context.Context, where string, arg any) (*assay.Organization, error) {
	return one(ctx, s, lane.Pages, "find an organization", errNoOrganization, scanOrganization, selectOrganizations+where, arg)
}

// FindOrganizationByExternalID implements assay.OrganizationStore.
func (s *Store) FindOrganizationByExternalID(ctx context.Context, externalID string) (*assay.Organization, error) {
	if externalID == "" {
		return nil, errNoOrganization()
	}
	return s.findOrganization(ctx, `WHERE o.external_id = ?`, externalID)
}

func errNoOrganization() error { return assay.Errorf(assay.CodeNotFound, "no such organization") }

// FindOrganizations implements assay.OrganizationStore.
func (s *Store) FindOrganizations(ctx context.Context) ([]*assay.Organization, error) {
	var all []*assay.Organization
	err := s.query(ctx, lane.Pages, "list organizations", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, selectOrganizations+`ORDER BY o.name`)
		return each(rows, err, func(rows *sql.Rows) error {
			o, err := scanOrganization(rows)
			all = append(all, o)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// HashKey returns the key of an organization's stable hashes, whose secret is made when
// it is first asked for.
func (s *Store) HashKey(ctx context.Context, organizationID string) (delta.HashKey, error) {
	var secret []byte
	err := s.update(ctx, lane.Loads, "read a hash key", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE organizations SET hash_key = ifnull(hash_key, ?) WHERE id = ? RETURNING hash_key`,
			delta.NewHashSecret(), blobOf(organizationID)).Scan(&secret)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoOrganization()
		}
		return err
	})
	if err != nil {
		return delta.HashKey{}, err
	}
	return delta.NewHashKey(secret)
}

// OrganizationIDs returns the ids of all organizations, without what costs a
// count.
func (s *Store) OrganizationIDs(ctx context.Context) ([]string, error) {
	var ids []string
	err := s.query(ctx, lane.OwnWork, "list organization ids", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT id FROM organizations ORDER BY org`)
		return each(rows, err, func(rows *sql.Rows) error {
			var id []byte
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, idOf(id))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// SetOrganizationExternalID implements assay.OrganizationStore.
func (s *Store) SetOrganizationExternalID(ctx context.Context, id, externalID string) error {
	return s.update(ctx, lane.Pages, "set an organization's external id", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE organizations SET external_id = nullif(?, '') WHERE id = ?`, externalID, blobOf(id))
		if taken(err) {
			return assay.Errorf(assay.CodeConflict, "another organization has this external id")
		}
		return changedOne(res, err, errNoOrganization)
	})
}

// SetOrganizationTier implements assay.OrganizationStore.
func (s *Store) SetOrganizationTier(ctx context.Context, id string, tier assay.Tier) error {
	if !tier.Valid() {
		return assay.Errorf(assay.CodeInvalid, "unknown tier %q", string(tier))
	}
	return s.update(ctx, lane.Pages, "set an organization's tier", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE organizations SET tier = ? WHERE id = ?`, string(tier), blobOf(id))
		return changedOne(res, err, errNoOrganization)
	})
}

// SaveOrganizationScore stores the mean score of an organization, also in its
// history, or that it has none. Without the lease of the fence it is
// delta.ErrLeaseLost, and nothing is stored.
func (s *Store) SaveOrganizationScore(ctx context.Context, f delta.Fence, organizationID string, score *float64, at time.Time) error {
	return s.update(ctx, lane.Scoring, "save an organization's score", func(tx *sql.Tx) error {
		if err := within(ctx, tx, f); err != nil {
			return err
		}
		org, err := orgOf(ctx, tx, organizationID)
		if err != nil {
			return err
		}
		if score == nil {
			_, err := tx.ExecContext(ctx, `UPDATE organizations SET score = NULL, score_updated_at = 0 WHERE org = ?`, org)
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE organizations SET score = ?, score_updated_at = ? WHERE org = ?`, *score, micros(at), org); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO organization_scores (org, slot, at, score) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET at = excluded.at, score = excluded.score WHERE excluded.at >= at`, org, slotOf(at), micros(at), *score)
		return err
	})
}

// changedOne returns missing() for a statement that met no row.
func changedOne(res sql.Result, err error, missing func() error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = missing()
	}
	return err
}

// orgOf returns the row of an organization.
func orgOf(ctx context.Context, tx *sql.Tx, id string) (int64, error) {
	var org int64
	err := tx.QueryRowContext(ctx, `SELECT org FROM organizations WHERE id = ?`, blobOf(id)).Scan(&org)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoOrganization()
	}
	return org, err
}

// CreateAPIKey implements assay.APIKeyStore.
func (s *Store) CreateAPIKey(ctx context.Context, k *assay.APIKey) error {
	created := stored(s.now())
	err := s.update(ctx, lane.Pages, "create an API key", func(tx *sql.Tx) error {
		org, err := orgOf(ctx, tx, k.OrganizationID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO api_keys (id, org, name, hash, scopes, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
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

func scanAPIKey(row row) (*assay.APIKey, error) {
	var (
		k                               assay.APIKey
		org, hash                       []byte
		scopes                          string
		created, expires, used, revoked int64
	)
	if err := row.Scan(&k.ID, &org, &k.Name, &hash, &scopes, &created, &expires, &used, &revoked); err != nil {
		return nil, err
	}
	k.OrganizationID = idOf(org)
	copy(k.Hash[:], hash)
	k.Scopes = codec.SplitScopes(scopes)
	k.CreatedAt, k.ExpiresAt, k.LastUsedAt, k.RevokedAt = timeOf(created), timeOf(expires), timeOf(used), timeOf(revoked)
	return &k, nil
}

func errNoAPIKey() error { return assay.Errorf(assay.CodeNotFound, "no such API key") }

// FindAPIKey implements assay.APIKeyStore.
func (s *Store) FindAPIKey(ctx context.Context, id string) (*assay.APIKey, error) {
	return one(ctx, s, lane.Lookups, "find an API key", errNoAPIKey, scanAPIKey, selectAPIKeys+`WHERE k.id = ?`, id)
}

// FindAPIKeys implements assay.APIKeyStore.
func (s *Store) FindAPIKeys(ctx context.Context, organizationID string) ([]*assay.APIKey, error) {
	l, where, args := lane.Loads, ``, []any{}
	if organizationID != "" {
		l, where, args = lane.Pages, `WHERE o.id = ? `, []any{blobOf(organizationID)}
	}
	var keys []*assay.APIKey
	err := s.query(ctx, l, "list API keys", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, selectAPIKeys+where+`ORDER BY k.created_at, k.id`, args...)
		return each(rows, err, func(rows *sql.Rows) error {
			k, err := scanAPIKey(rows)
			keys = append(keys, k)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// FindAPIKeyPage implements assay.APIKeyStore.
func (s *Store) FindAPIKeyPage(ctx context.Context, organizationID string, now time.Time, page assay.Page) (*assay.APIKeyPage, error) {
	const live = `(k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ?))`
	var found *assay.APIKeyPage
	err := s.view(ctx, lane.Pages, "list API keys", func(tx *sql.Tx) error {
		found = new(assay.APIKeyPage)
		err := tx.QueryRowContext(ctx, `SELECT count(*), ifnull(sum(`+live+`), 0) FROM api_keys k JOIN organizations o USING (org) WHERE o.id = ?`,
			micros(now), blobOf(organizationID)).Scan(&found.Total, &found.Live)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, selectAPIKeys+`WHERE o.id = ? ORDER BY `+live+` DESC, k.created_at DESC, k.id DESC LIMIT ? OFFSET ?`,
			blobOf(organizationID), micros(now), page.Limit, page.Offset)
		return each(rows, err, func(rows *sql.Rows) error {
			k, err := scanAPIKey(rows)
			found.Keys = append(found.Keys, k)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// RevokeAPIKey implements assay.APIKeyStore.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) error {
	return s.update(ctx, lane.Pages, "revoke an API key", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = iif(revoked_at = 0, ?, revoked_at) WHERE id = ?`, micros(s.now()), id)
		return changedOne(res, err, errNoAPIKey)
	})
}

// TouchAPIKey implements assay.APIKeyStore. An unknown id is no error: the use
// of a key is not worth one.
func (s *Store) TouchAPIKey(ctx context.Context, id string, at time.Time) error {
	return s.update(ctx, lane.Lookups, "note the use of an API key", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE api_keys SET last_used_at = ? WHERE id = ? AND last_used_at < ?`, micros(at), id, micros(at))
		return err
	})
}
