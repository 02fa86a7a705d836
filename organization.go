// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"slices"
	"time"
)

// Tier is the subscription of an organization.
type Tier string

// The tiers.
const (
	TierFree       Tier = "free"
	TierPro        Tier = "pro"
	TierEnterprise Tier = "enterprise"
)

// Valid reports whether t is one of the tiers.
func (t Tier) Valid() bool {
	return slices.Contains([]Tier{TierFree, TierPro, TierEnterprise}, t)
}

// Organization owns services, insights and credentials. A caller sees only the organization of its credential.
type Organization struct {
	ID         string // UUID
	Name       string // unique
	ExternalID string // matched against a claim of the identity provider; may be ""
	Tier       Tier
	CreatedAt  time.Time

	// Score is the unweighted mean of the unrounded scores of the services in the window, or nil before the first
	// score.
	Score          *float64
	ScoreUpdatedAt time.Time // zero if Score is nil

	ServicesCount       int // stored services, including the overflow service
	ActiveInsightsCount int // insights with status active
}

// OrganizationStore stores organizations. Implementations must be safe for concurrent use.
type OrganizationStore interface {
	// CreateOrganization sets ID and CreatedAt. It returns CodeConflict if the name or the non-empty external id
	// exists.
	CreateOrganization(ctx context.Context, o *Organization) error
	// FindOrganizationByID returns an organization with its counts and score. It returns CodeNotFound for an unknown
	// id.
	FindOrganizationByID(ctx context.Context, id string) (*Organization, error)
	// FindOrganizationByName is FindOrganizationByID by name.
	FindOrganizationByName(ctx context.Context, name string) (*Organization, error)
	// FindOrganizationByExternalID is FindOrganizationByID by a non-empty external id.
	FindOrganizationByExternalID(ctx context.Context, externalID string) (*Organization, error)
	// FindOrganizations returns all organizations, ordered by name.
	FindOrganizations(ctx context.Context) ([]*Organization, error)
	// SetOrganizationExternalID sets the external id, or removes it if it is "". It ends the sessions of users who signed in at
	// the identity provider, even if the id stays. It returns CodeNotFound for an unknown id and CodeConflict if the external
	// id exists.
	SetOrganizationExternalID(ctx context.Context, id, externalID string) error
	// SetOrganizationTier returns CodeNotFound for an unknown id.
	SetOrganizationTier(ctx context.Context, id string, tier Tier) error
}
