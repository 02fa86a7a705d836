// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"

	"assay"
)

// OrganizationFinder is the part of assay.OrganizationStore that pages need.
type OrganizationFinder interface {
	FindOrganizationByID(ctx context.Context, id string) (*assay.Organization, error)
}

// ServiceFinder is the part of assay.ServiceStore that pages need.
type ServiceFinder interface {
	FindServiceByID(ctx context.Context, organizationID, id string) (*assay.Service, error)
}
