// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// InsightStatus is the lifecycle status of an insight.
type InsightStatus string

// The statuses. A muted insight stays muted until it is unmuted. The scorer sets the other two.
const (
	InsightActive   InsightStatus = "active"
	InsightArchived InsightStatus = "archived"
	InsightMuted    InsightStatus = "muted"
)

// Impact is the impact of a rule, which determines its weight.
type Impact string

// The impacts.
const (
	ImpactCritical  Impact = "Critical"
	ImpactImportant Impact = "Important"
	ImpactNormal    Impact = "Normal"
	ImpactLow       Impact = "Low"
)

// Weight returns the weight of an impact in the Instrumentation Score, or 0 for an unknown impact.
func (i Impact) Weight() int {
	switch i {
	case ImpactCritical:
		return 40
	case ImpactImportant:
		return 30
	case ImpactNormal:
		return 20
	case ImpactLow:
		return 10
	default:
		return 0
	}
}

// Insight is a finding about a service. A service has at most one insight of each type.
type Insight struct {
	ID             string // UUID, the same on every replica
	OrganizationID string
	Service        Service // ID and key; Score is not set
	Type           string  // name of the insight type
	Status         InsightStatus
	MuteReason     string

	TraceID     string    // lower-case hex, of the newest example; "" if it has none
	TelemetryAt time.Time // event time of the newest example
	DetectedAt  time.Time // time when it last became active
	CreatedAt   time.Time
	UpdatedAt   time.Time // time of the last change of evidence or status

	// Attributes is the evidence: strings and numbers by name. It contains no sensitive values.
	Attributes map[string]any
}

// FailureCounts returns how many observations failed, and of how many, by the evidence of an insight. ok is false if the
// evidence does not say.
func FailureCounts(evidence map[string]any) (failed, observed uint64, ok bool) {
	failed, ok1 := wholeNumber(evidence["violations_total"])
	observed, ok2 := wholeNumber(evidence["observations_total"])
	return failed, observed, ok1 && ok2
}

// wholeNumber returns a count that Go code has set or that was decoded from JSON.
func wholeNumber(v any) (uint64, bool) {
	switch n := v.(type) {
	case int:
		return uint64(n), n >= 0
	case int64:
		return uint64(n), n >= 0
	case uint64:
		return n, true
	case float64:
		return uint64(n), n >= 0 && n < 1<<63 && n == float64(uint64(n))
	default:
		return 0, false
	}
}

// InsightSort is a field by which insights can be sorted.
type InsightSort string

// The sort fields. Impact sorts by weight.
const (
	SortCreatedAt  InsightSort = "created_at"
	SortDetectedAt InsightSort = "detected_ts"
	SortUpdatedAt  InsightSort = "updated_at"
	SortImpact     InsightSort = "impact"
	SortSignal     InsightSort = "signal_type"
)

// InsightFilter selects and orders insights. A zero field does not filter.
type InsightFilter struct {
	OrganizationID string // "" means every organization; the REST API always sets it
	ServiceID      string
	Statuses       []InsightStatus
	Signal         Signal
	Impacts        []Impact
	Type           string    // name of an insight type
	CreatedFrom    time.Time // inclusive
	CreatedTo      time.Time // inclusive

	Sort       InsightSort // default created_at
	Descending bool
	Page       Page
}

// InsightStore reads and mutes insights. Implementations must be safe for concurrent use.
type InsightStore interface {
	// FindInsights returns one page of the matching insights and the total number of matches. Ties are ordered by
	// ascending id.
	FindInsights(ctx context.Context, f InsightFilter) ([]*Insight, int, error)
	// FindInsightByID returns CodeInsightNotFound if the id is unknown or belongs to another organization. An empty
	// organizationID matches every organization.
	FindInsightByID(ctx context.Context, organizationID, id string) (*Insight, error)
	// MuteInsight sets the status to muted, whatever it was.
	MuteInsight(ctx context.Context, id, reason string) error
	// UnmuteInsight sets a muted insight to active if the window of its service contains a failure, or to archived
	// otherwise. It does not change other statuses.
	UnmuteInsight(ctx context.Context, id string) error
}
