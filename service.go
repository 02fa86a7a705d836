// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// UnknownService is the service name for telemetry without a usable service.name.
const UnknownService = "unknown_service"

// OverflowService is the service name for telemetry beyond an organization's limits. It has no score.
const OverflowService = "assay_overflow"

// ServiceKey identifies a service within its organization. Its fields are the resource attributes service.namespace,
// service.name, deployment.environment.name (or deployment.environment) and service.version as sent, or empty if
// missing.
type ServiceKey struct {
	Namespace   string
	Name        string
	Environment string
	Version     string
}

// Overflow reports whether k is the overflow service.
func (k ServiceKey) Overflow() bool { return k == ServiceKey{Name: OverflowService} }

// Service is a monitored service.
type Service struct {
	ID             string // UUID, the same on every replica
	OrganizationID string
	ServiceKey

	FirstSeenAt time.Time // oldest event time; zero without records
	LastSeenAt  time.Time // newest event time; zero without records
	CreatedAt   time.Time
	UpdatedAt   time.Time

	Score *Score // nil until a rule is evaluated
}

// ServiceStore reads services. Implementations must be safe for concurrent use.
type ServiceStore interface {
	// FindServices returns one page of an organization's services with their scores, ordered by name, environment,
	// version and id, and the total number.
	FindServices(ctx context.Context, organizationID string, page Page) ([]*Service, int, error)
	// FindServiceByID returns CodeServiceNotFound if the id is unknown or belongs to another organization.
	FindServiceByID(ctx context.Context, organizationID, id string) (*Service, error)
}
