// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"

	"assay"
)

// OrganizationFinder is the subset of assay.OrganizationStore that pages use.
type OrganizationFinder interface {
	FindOrganizationByID(ctx context.Context, id string) (*assay.Organization, error)
}

// ServiceFinder is the subset of assay.ServiceStore that pages use.
type ServiceFinder interface {
	FindServiceByID(ctx context.Context, organizationID, id string) (*assay.Service, error)
}
