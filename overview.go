// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// ScoreGroup is the group of an organization's services with the same evaluated rules.
type ScoreGroup struct {
	EvaluatedRuleIDs []string // sorted
	Services         int
	Categories       map[string]int // number of services by band
	Failing          map[string]int // number of services by id of a failing rule, without muted insights
}

// InsightTypeCount is the number of active insights of a type in an organization, one per service concerned.
type InsightTypeCount struct {
	Type   string // name of the insight type
	Active int
}

// OverviewStore reads the overview of an organization. The overview of an unknown organization is empty.
// Implementations must be safe for concurrent use.
type OverviewStore interface {
	// FindScoreGroups returns the groups of the scored services, in no order.
	FindScoreGroups(ctx context.Context, organizationID string) ([]ScoreGroup, error)
	// FindInsightTypeCounts returns the types with active insights, in no order.
	FindInsightTypeCounts(ctx context.Context, organizationID string) ([]InsightTypeCount, error)
	// FindOrganizationScores returns the time series of an organization's score. It is stored with a resolution of
	// ten minutes for the duration of the window.
	FindOrganizationScores(ctx context.Context, organizationID string, series SeriesRange) ([]ScorePoint, error)
	// ScoreHistory returns the scores of a service since a time, oldest first. It returns CodeServiceNotFound if the
	// id is unknown or belongs to another organization.
	ScoreHistory(ctx context.Context, organizationID, serviceID string, since time.Time) ([]*Score, error)
}
