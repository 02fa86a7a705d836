// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// UnknownService is the name of the service to which telemetry without a
// usable service.name goes.
const UnknownService = "unknown_service"

// OverflowService is the name of the service under which telemetry past an
// organization's limits is counted. It has no score.
const OverflowService = "assay_overflow"

// ServiceKey identifies a service within its organization by the resource
// attributes service.namespace, service.name, deployment.environment.name
// (else deployment.environment) and service.version, as they were sent.
// Missing parts are empty.
type ServiceKey struct {
	Namespace   string
	Name        string
	Environment string
	Version     string
}

// Overflow tells whether k is the overflow service.
func (k ServiceKey) Overflow() bool { return k == ServiceKey{Name: OverflowService} }

// Service is one monitored service.
type Service struct {
	ID             string // UUID, the same on every replica
	OrganizationID string
	ServiceKey

	FirstSeenAt time.Time // oldest event time seen
	LastSeenAt  time.Time // newest event time seen
	CreatedAt   time.Time
	UpdatedAt   time.Time

	Score *Score // nil while no rule was evaluated
}

// ServiceStore reads services. Implementations may be used concurrently.
type ServiceStore interface {
	// FindServices returns one page of an organization's services by name,
	// environment, version, id, with their scores, and how many there are.
	FindServices(ctx context.Context, organizationID string, page Page) ([]*Service, int, error)
	// FindServiceByID returns CodeServiceNotFound for an id that is unknown or
	// another organization's.
	FindServiceByID(ctx context.Context, organizationID, id string) (*Service, error)
}
