// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// ServiceSort is a field by which services can be sorted.
type ServiceSort string

// The sort fields. Services without a score are last in both directions.
const (
	SortServiceName     ServiceSort = "name"
	SortServiceScore    ServiceSort = "score"
	SortServiceLastSeen ServiceSort = "last_seen"
	SortServiceInsights ServiceSort = "insights" // sum of the weights of active insights
)

// Unscored replaces the band of services without a score.
const Unscored = "Unscored"

// Categories returns the bands, best first.
func Categories() []string { return []string{"Excellent", "Good", "Needs Improvement", "Poor"} }

// ServiceFilter selects and orders the services of an organization. A zero field does not filter.
type ServiceFilter struct {
	OrganizationID string
	Search         string  // substring of the name, case-insensitive
	Environment    *string // exact match; "" for services without an environment
	Namespace      *string // exact match; "" for services without a namespace
	Category       string  // band, or Unscored
	Signal         Signal  // sent in the window

	Sort       ServiceSort // default name; ties are ordered by name, environment, version, id
	Descending bool
	Page       Page
	Series     SeriesRange
}

// MaxSeriesPoints is the maximum number of points of a time series.
const MaxSeriesPoints = 500

// minReach is the minimum of SeriesRange.Reach: a score is written when it changes, and once an hour.
const minReach = 2 * time.Hour

// SeriesRange is the time range of a score time series, from Start to End in the given number of equal steps. With 0
// points the time series is empty.
type SeriesRange struct {
	Start, End time.Time
	Points     int
}

// Ends returns the end times of the steps, oldest first.
func (c SeriesRange) Ends() []time.Time {
	points := min(max(c.Points, 0), MaxSeriesPoints)
	ends := make([]time.Time, points)
	for i := range ends {
		ends[i] = c.Start.Add(c.End.Sub(c.Start) * time.Duration(i+1) / time.Duration(points)).UTC()
	}
	return ends
}

// Reach returns the maximum age of the score of a point: the duration of a step, at least two hours.
func (c SeriesRange) Reach() time.Duration {
	if c.Points <= 0 {
		return 0
	}
	return max(c.End.Sub(c.Start)/time.Duration(min(c.Points, MaxSeriesPoints)), minReach)
}

// ScorePoint is the last score in a step of a time series.
type ScorePoint struct {
	At    time.Time // end of the step
	Value float64
}

// ImpactCounts holds numbers of insights by impact.
type ImpactCounts struct{ Critical, Important, Normal, Low int }

// Total returns the sum.
func (c ImpactCounts) Total() int { return c.Critical + c.Important + c.Normal + c.Low }

// Of returns the number for an impact.
func (c ImpactCounts) Of(i Impact) int { return *c.of(i) }

// Add counts one more of an impact.
func (c *ImpactCounts) Add(i Impact) { *c.of(i)++ }

func (c *ImpactCounts) of(i Impact) *int {
	switch i {
	case ImpactCritical:
		return &c.Critical
	case ImpactImportant:
		return &c.Important
	case ImpactNormal:
		return &c.Normal
	case ImpactLow:
		return &c.Low
	default:
		return new(int)
	}
}

// ServiceRow is a service in a list.
type ServiceRow struct {
	Service
	Signals []Signal     // signals sent in the window, in the order trace, metric, log
	Active  ImpactCounts // active insights
	Series  []ScorePoint // oldest first, without steps that have no score
}

// GroupSort is a sort field of service groups.
type GroupSort string

// The sort fields of service groups.
const (
	SortGroupInsights GroupSort = "insights" // active insights
	SortGroupName     GroupSort = "name"
	SortGroupCreated  GroupSort = "created" // of the oldest version
)

// ServiceGroup is all versions of one name, namespace and environment.
type ServiceGroup struct {
	Latest   *Service // version last seen
	Versions int
	Insights int // active insights of the version last seen
}

// ServiceGroupFilter selects and orders the service groups of an organization.
type ServiceGroupFilter struct {
	OrganizationID string
	Sort           GroupSort // ties are ordered by name, environment, namespace
	Descending     bool
	Page           Page
}

// ServiceLister lists services in several ways. Implementations must be safe for concurrent use.
type ServiceLister interface {
	// FindServiceRows returns one page of the matching services and the total number of matches.
	FindServiceRows(ctx context.Context, f ServiceFilter) ([]*ServiceRow, int, error)
	// FindServiceVersions returns at most limit versions of the service with the key's namespace, name and
	// environment, most recently seen first.
	FindServiceVersions(ctx context.Context, organizationID string, key ServiceKey, series SeriesRange, limit int) ([]*ServiceRow, error)
	// FindServiceGroups returns one page of the service groups and their total number.
	FindServiceGroups(ctx context.Context, f ServiceGroupFilter) ([]*ServiceGroup, int, error)
	// FindEnvironments returns at most limit distinct environments of an organization's services in order. ""
	// represents services without an environment.
	FindEnvironments(ctx context.Context, organizationID string, limit int) ([]string, error)
}
