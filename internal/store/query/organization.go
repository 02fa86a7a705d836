// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/connpool"
)

func errNoOrganization() error { return assay.Errorf(assay.CodeNotFound, "no such organization") }

// CreateOrganization implements assay.OrganizationStore.
func (q *Queries) CreateOrganization(ctx context.Context, o *assay.Organization) error {
	if !o.Tier.Valid() {
		return assay.Errorf(assay.CodeInvalid, "unknown tier %q", string(o.Tier))
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return assay.Errorf(assay.CodeInternal, "make an organization id: %w", err)
	}
	var created time.Time
	err = q.engine.Update(ctx, connpool.Pages, "create an organization", func(tx Tx) (err error) {
		if created, err = tx.Now(ctx); err != nil {
			return err
		}
		_, err = exec(ctx, tx, `INSERT INTO organizations (id, name, external_id, tier, created_at) VALUES ($1, $2, nullif($3, ''), $4, $5)`,
			ID(id.String()), o.Name, o.ExternalID, string(o.Tier), Micros(created))
		return q.conflict(err, "an organization with this name or external id exists")
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
	(SELECT CAST(coalesce(sum(n), 0) AS bigint) FROM insight_counts c WHERE c.org = o.org AND c.status = 1)
FROM organizations o `

func scanOrganization(r Row) (*assay.Organization, error) {
	o := new(assay.Organization)
	return o, r.Scan((*ID)(&o.ID), &o.Name, &o.ExternalID, &o.Tier, (*Time)(&o.CreatedAt), &o.Score, (*Time)(&o.ScoreUpdatedAt),
		&o.ServicesCount, &o.ActiveInsightsCount)
}

// FindOrganizationByID implements assay.OrganizationStore.
func (q *Queries) FindOrganizationByID(ctx context.Context, id string) (*assay.Organization, error) {
	return q.findOrganization(ctx, `WHERE o.id = $1`, ID(id))
}

// FindOrganizationByName implements assay.OrganizationStore.
func (q *Queries) FindOrganizationByName(ctx context.Context, name string) (*assay.Organization, error) {
	if !q.engine.Storable(name) {
		return nil, errNoOrganization()
	}
	return q.findOrganization(ctx, `WHERE o.name = $1`, name)
}

// FindOrganizationByExternalID implements assay.OrganizationStore.
func (q *Queries) FindOrganizationByExternalID(ctx context.Context, externalID string) (*assay.Organization, error) {
	if externalID == "" || !q.engine.Storable(externalID) {
		return nil, errNoOrganization()
	}
	return q.findOrganization(ctx, `WHERE o.external_id = $1`, externalID)
}

func (q *Queries) findOrganization(ctx context.Context, where string, arg any) (*assay.Organization, error) {
	return one(ctx, q, connpool.Pages, "find an organization", errNoOrganization, scanOrganization, selectOrganizations+where, arg)
}

// FindOrganizations implements assay.OrganizationStore.
func (q *Queries) FindOrganizations(ctx context.Context) ([]*assay.Organization, error) {
	return list(ctx, q, connpool.Pages, "list organizations", scanOrganization, selectOrganizations+`ORDER BY o.name`)
}

// OrganizationIDs returns the ids of all organizations, without their counts.
func (q *Queries) OrganizationIDs(ctx context.Context) ([]string, error) {
	return list(ctx, q, connpool.OwnWork, "list organization ids", scanID, `SELECT id FROM organizations ORDER BY org`)
}

// SetOrganizationExternalID implements assay.OrganizationStore.
func (q *Queries) SetOrganizationExternalID(ctx context.Context, id, externalID string) error {
	err := q.engine.Update(ctx, connpool.Pages, "set an organization's external id", func(tx Tx) error {
		if err := change(ctx, tx, errNoOrganization, `UPDATE organizations SET external_id = nullif($1, '') WHERE id = $2`, externalID, ID(id)); err != nil {
			return err
		}
		_, err := exec(ctx, tx, `DELETE FROM sessions WHERE key_id = '' AND org = (SELECT org FROM organizations WHERE id = $1)`, ID(id))
		return err
	})
	return q.conflict(err, "another organization has this external id")
}

// SetOrganizationTier implements assay.OrganizationStore.
func (q *Queries) SetOrganizationTier(ctx context.Context, id string, tier assay.Tier) error {
	if !tier.Valid() {
		return assay.Errorf(assay.CodeInvalid, "unknown tier %q", string(tier))
	}
	return q.update(ctx, connpool.Pages, "set an organization's tier", errNoOrganization,
		`UPDATE organizations SET tier = $1 WHERE id = $2`, string(tier), ID(id))
}

// HashKey returns the key of an organization's stable hashes. The first call generates
// its secret.
func (q *Queries) HashKey(ctx context.Context, organizationID string) (delta.HashKey, error) {
	var secret []byte
	err := q.engine.Update(ctx, connpool.Loads, "read a hash key", func(tx Tx) error {
		return need(ctx, tx, errNoOrganization, []any{&secret}, `UPDATE organizations SET hash_key = coalesce(hash_key, $1) WHERE id = $2 RETURNING hash_key`,
			delta.NewHashSecret(), ID(organizationID))
	})
	if err != nil {
		return delta.HashKey{}, err
	}
	return delta.NewHashKey(secret)
}
