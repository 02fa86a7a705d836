// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// ScoreGroup is the services of an organization for which the same rules were
// evaluated.
type ScoreGroup struct {
	EvaluatedRuleIDs []string // sorted
	Services         int
	Categories       map[string]int // services by the band of their score
	Failing          map[string]int // services by the id of a rule that fails in them, unless its insight is muted
}

// InsightTypeCount is how many active insights of a type an organization has: one
// for each service that it concerns.
type InsightTypeCount struct {
	Type   string // name of the insight type
	Active int
}

// OverviewStore reads what sums up an organization. An unknown organization has
// nothing. Implementations may be used concurrently.
type OverviewStore interface {
	// FindScoreGroups returns the groups of the services that have a score, in no order.
	FindScoreGroups(ctx context.Context, organizationID string) ([]ScoreGroup, error)
	// FindInsightTypeCounts returns the types with active insights, in no order.
	FindInsightTypeCounts(ctx context.Context, organizationID string) ([]InsightTypeCount, error)
	// FindOrganizationScores returns the course of an organization's score. It is kept
	// to ten minutes and as long as the window.
	FindOrganizationScores(ctx context.Context, organizationID string, course Course) ([]ScorePoint, error)
	// ScoreHistory returns the scores of a service since a time, oldest first. An id
	// that is unknown or another organization's is CodeServiceNotFound.
	ScoreHistory(ctx context.Context, organizationID, serviceID string, since time.Time) ([]*Score, error)
}
