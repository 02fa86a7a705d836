// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// ServiceSort is a field by which services can be sorted.
type ServiceSort string

// The sort fields. Services without a score come last in either direction.
const (
	SortServiceName     ServiceSort = "name"
	SortServiceScore    ServiceSort = "score"
	SortServiceLastSeen ServiceSort = "last_seen"
	SortServiceInsights ServiceSort = "insights" // active ones, by the sum of their weights
)

// Unscored stands in the place of a band for services without a score.
const Unscored = "Unscored"

// Categories returns the bands, best first.
func Categories() []string { return []string{"Excellent", "Good", "Needs Improvement", "Poor"} }

// ServiceFilter selects and orders the services of one organization. The zero value
// of a field does not filter.
type ServiceFilter struct {
	OrganizationID string
	Search         string  // part of the name, in upper or lower case
	Environment    *string // exact; "" are the services that name none
	Category       string  // a band, or Unscored
	Signal         Signal  // sent in the window

	Sort       ServiceSort // default name; ties are ordered by name, environment, version, id
	Descending bool
	Page       Page
	Course     Course
}

// MaxCoursePoints is how many points of a course are looked up at most.
const MaxCoursePoints = 500

// minReach is how old the score of a point may be where steps are shorter: a score is
// written when it changes, and once an hour.
const minReach = 2 * time.Hour

// Course asks how a score went between Start and End, which is divided into Points
// equal steps. Points of 0 asks for nothing.
type Course struct {
	Start, End time.Time
	Points     int
}

// Ends returns the ends of the steps, oldest first.
func (c Course) Ends() []time.Time {
	points := min(max(c.Points, 0), MaxCoursePoints)
	ends := make([]time.Time, points)
	for i := range ends {
		ends[i] = c.Start.Add(c.End.Sub(c.Start) * time.Duration(i+1) / time.Duration(points)).UTC()
	}
	return ends
}

// Reach returns how far from the end of a step its score is looked for: over the whole
// step, at least two hours.
func (c Course) Reach() time.Duration {
	if c.Points <= 0 {
		return 0
	}
	return max(c.End.Sub(c.Start)/time.Duration(min(c.Points, MaxCoursePoints)), minReach)
}

// ScorePoint is the last score of a step.
type ScorePoint struct {
	At    time.Time // the end of the step
	Value float64
}

// ImpactCounts are numbers of insights by impact.
type ImpactCounts struct{ Critical, Important, Normal, Low int }

// Total returns the sum.
func (c ImpactCounts) Total() int { return c.Critical + c.Important + c.Normal + c.Low }

// Of returns the number of one impact.
func (c ImpactCounts) Of(i Impact) int {
	switch i {
	case ImpactCritical:
		return c.Critical
	case ImpactImportant:
		return c.Important
	case ImpactNormal:
		return c.Normal
	case ImpactLow:
		return c.Low
	default:
		return 0
	}
}

// ServiceRow is a service as a list shows it.
type ServiceRow struct {
	Service
	Signals []Signal     // sent in the window: of trace, metric, log, in this order
	Active  ImpactCounts // active insights
	Course  []ScorePoint // oldest first; steps without a score are left out
}

// ServiceLister lists services for people. Implementations may be used concurrently.
type ServiceLister interface {
	// FindServiceRows returns one page and how many services match.
	FindServiceRows(ctx context.Context, f ServiceFilter) ([]*ServiceRow, int, error)
	// FindServiceVersions returns the versions of the service with the key's namespace,
	// name and environment, the one last seen first, at most limit of them.
	FindServiceVersions(ctx context.Context, organizationID string, key ServiceKey, course Course, limit int) ([]*ServiceRow, error)
	// FindEnvironments returns the distinct environments of an organization's services
	// in order, "" among them where a service names none; at most limit of them.
	FindEnvironments(ctx context.Context, organizationID string, limit int) ([]string, error)
}
