// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"assay"
	"assay/internal/delta"
)

// CreateOrganization implements assay.OrganizationStore.
func (s *Store) CreateOrganization(ctx context.Context, o *assay.Organization) error {
	if !o.Tier.Valid() {
		return assay.Errorf(assay.CodeInvalid, "unknown tier %q", string(o.Tier))
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return assay.Errorf(assay.CodeInternal, "postgres: make an organization id: %w", err)
	}
	var created time.Time
	err = s.update(ctx, pages, "create an organization", func(tx pgx.Tx) error {
		if created, err = s.now(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO organizations (id, name, external_id, tier, created_at) VALUES ($1, $2, nullif($3, ''), $4, $5)`,
			uuidOf(id.String()), o.Name, o.ExternalID, string(o.Tier), micros(created))
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
SELECT o.id, o.name, coalesce(o.external_id, ''), o.tier, o.created_at, o.score, o.score_updated_at,
	coalesce((SELECT n FROM service_counts c WHERE c.org = o.org), 0),
	(SELECT coalesce(sum(n), 0)::bigint FROM insight_counts c WHERE c.org = o.org AND c.status = 1)
FROM organizations o `

func organizationOf(row pgx.CollectableRow) (*assay.Organization, error) {
	o := new(assay.Organization)
	return o, row.Scan(&o.ID, &o.Name, &o.ExternalID, &o.Tier, (*instant)(&o.CreatedAt), &o.Score, (*instant)(&o.ScoreUpdatedAt),
		&o.ServicesCount, &o.ActiveInsightsCount)
}

// FindOrganizationByID implements assay.OrganizationStore.
func (s *Store) FindOrganizationByID(ctx context.Context, id string) (*assay.Organization, error) {
	return s.findOrganization(ctx, `WHERE o.id = $1`, uuidOf(id))
}

// FindOrganizationByName implements assay.OrganizationStore.
func (s *Store) FindOrganizationByName(ctx context.Context, name string) (*assay.Organization, error) {
	if !storable(name) {
		return nil, errNoOrganization()
	}
	return s.findOrganization(ctx, `WHERE o.name = $1`, name)
}

// FindOrganizationByExternalID implements assay.OrganizationStore.
func (s *Store) FindOrganizationByExternalID(ctx context.Context, externalID string) (*assay.Organization, error) {
	if externalID == "" || !storable(externalID) {
		return nil, errNoOrganization()
	}
	return s.findOrganization(ctx, `WHERE o.external_id = $1`, externalID)
}

func (s *Store) findOrganization(ctx context.Context, where string, arg any) (*assay.Organization, error) {
	return one(ctx, s, pages, "find an organization", errNoOrganization, organizationOf, selectOrganizations+where, arg)
}

// FindOrganizations implements assay.OrganizationStore.
func (s *Store) FindOrganizations(ctx context.Context) ([]*assay.Organization, error) {
	return list(ctx, s, pages, "list organizations", organizationOf, selectOrganizations+`ORDER BY o.name`)
}

// HashKey returns the key of an organization's stable hashes, whose secret is made when
// it is first asked for.
func (s *Store) HashKey(ctx context.Context, organizationID string) (delta.HashKey, error) {
	var secret []byte
	err := s.update(ctx, loads, "read a hash key", func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `UPDATE organizations SET hash_key = coalesce(hash_key, $1) WHERE id = $2 RETURNING hash_key`,
			delta.NewHashSecret(), uuidOf(organizationID)).Scan(&secret)
		if errors.Is(err, pgx.ErrNoRows) {
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
	return list(ctx, s, ownWork, "list organization ids", pgx.RowTo[string], `SELECT id FROM organizations ORDER BY org`)
}

// SetOrganizationExternalID implements assay.OrganizationStore.
func (s *Store) SetOrganizationExternalID(ctx context.Context, id, externalID string) error {
	return s.update(ctx, pages, "set an organization's external id", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE organizations SET external_id = nullif($1, '') WHERE id = $2`, externalID, uuidOf(id))
		if taken(err) {
			return assay.Errorf(assay.CodeConflict, "another organization has this external id")
		}
		return changedOne(tag, err, errNoOrganization)
	})
}

// SetOrganizationTier implements assay.OrganizationStore.
func (s *Store) SetOrganizationTier(ctx context.Context, id string, tier assay.Tier) error {
	if !tier.Valid() {
		return assay.Errorf(assay.CodeInvalid, "unknown tier %q", string(tier))
	}
	return s.update(ctx, pages, "set an organization's tier", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE organizations SET tier = $1 WHERE id = $2`, string(tier), uuidOf(id))
		return changedOne(tag, err, errNoOrganization)
	})
}

const (
	saveOrganizationScore = `UPDATE organizations SET score = $1, score_updated_at = $2 WHERE id = $3 RETURNING org`
	addOrganizationScore  = `INSERT INTO organization_scores AS c (org, slot, at, score) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org, slot) DO UPDATE SET at = excluded.at, score = excluded.score WHERE excluded.at >= c.at`
)

// SaveOrganizationScore stores the mean score of an organization, also in its
// history, or that it has none. Without the lease of the fence it is
// delta.ErrLeaseLost, and nothing is stored.
func (s *Store) SaveOrganizationScore(ctx context.Context, f delta.Fence, organizationID string, score *float64, at time.Time) error {
	if score == nil {
		at = time.Time{}
	}
	return s.update(ctx, scoring, "save an organization's score", func(tx pgx.Tx) error {
		var org int64
		err := tx.QueryRow(ctx, saveOrganizationScore, score, micros(at), uuidOf(organizationID)).Scan(&org)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoOrganization()
		}
		if err != nil {
			return err
		}
		b := new(pgx.Batch)
		if score != nil {
			b.Queue(addOrganizationScore, org, slotOf(at), micros(at), *score)
		}
		lost := queueFence(b, f)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return lost()
	})
}
