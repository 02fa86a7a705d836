// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"slices"
	"time"
)

// Tier is an organization's subscription.
type Tier string

// The tiers.
const (
	TierFree       Tier = "free"
	TierPro        Tier = "pro"
	TierEnterprise Tier = "enterprise"
)

// Valid tells whether t is one of the tiers.
func (t Tier) Valid() bool {
	return slices.Contains([]Tier{TierFree, TierPro, TierEnterprise}, t)
}

// Organization owns services, insights and credentials. Everything a caller
// can see belongs to the one organization of its credential.
type Organization struct {
	ID         string // UUID
	Name       string // unique
	ExternalID string // matched against an identity provider's claim; may be ""
	Tier       Tier
	CreatedAt  time.Time

	// Score is the unweighted mean of the unrounded scores of the services seen
	// in the window; nil before the first one.
	Score          *float64
	ScoreUpdatedAt time.Time // zero while Score is nil

	ServicesCount       int // services kept, the overflow service included
	ActiveInsightsCount int // insights with status active
}

// OrganizationStore keeps organizations. Implementations may be used concurrently.
type OrganizationStore interface {
	// CreateOrganization fills ID and CreatedAt. A name or a non-empty external
	// id that is taken is CodeConflict.
	CreateOrganization(ctx context.Context, o *Organization) error
	// FindOrganizationByID returns CodeNotFound for an unknown id. Counts and
	// score are filled.
	FindOrganizationByID(ctx context.Context, id string) (*Organization, error)
	// FindOrganizationByName is FindOrganizationByID by name.
	FindOrganizationByName(ctx context.Context, name string) (*Organization, error)
	// FindOrganizationByExternalID is FindOrganizationByID by an external id that
	// is not empty.
	FindOrganizationByExternalID(ctx context.Context, externalID string) (*Organization, error)
	// FindOrganizations returns all organizations by name.
	FindOrganizations(ctx context.Context) ([]*Organization, error)
	// SetOrganizationExternalID sets the external id, "" for none. It returns
	// CodeNotFound for an unknown id and CodeConflict for an external id that is taken.
	SetOrganizationExternalID(ctx context.Context, id, externalID string) error
	// SetOrganizationTier returns CodeNotFound for an unknown id.
	SetOrganizationTier(ctx context.Context, id string, tier Tier) error
}
