// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// InsightStatus is where an insight is in its life.
type InsightStatus string

// The statuses. A muted insight stays muted until somebody unmutes it;
// between the other two the scorer decides.
const (
	InsightActive   InsightStatus = "active"
	InsightArchived InsightStatus = "archived"
	InsightMuted    InsightStatus = "muted"
)

// Impact is how much a rule weighs.
type Impact string

// The impacts.
const (
	ImpactCritical  Impact = "Critical"
	ImpactImportant Impact = "Important"
	ImpactNormal    Impact = "Normal"
	ImpactLow       Impact = "Low"
)

// Weight returns the weight that the Instrumentation Score gives to an impact,
// 0 for an unknown one.
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

// Insight is one finding about one service. A service has at most one insight
// of each type.
type Insight struct {
	ID             string // UUID, the same on every replica
	OrganizationID string
	Service        Service // ID and key; its score is not filled
	Type           string  // name of the insight type
	Status         InsightStatus
	MuteReason     string

	TraceID     string    // lower-case hex of the newest example, "" where it has none
	TelemetryAt time.Time // event time of the newest example
	DetectedAt  time.Time // when it last became active
	CreatedAt   time.Time
	UpdatedAt   time.Time // when its evidence or status last changed

	// Attributes is the evidence: strings, integers and numbers by name. It
	// never holds a sensitive value.
	Attributes map[string]any
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

// InsightFilter selects and orders insights. The zero value of a field does
// not filter.
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

// InsightStore reads and mutes insights. Implementations may be used concurrently.
type InsightStore interface {
	// FindInsights returns one page and how many match. Ties of the sort are
	// ordered by id ascending.
	FindInsights(ctx context.Context, f InsightFilter) ([]*Insight, int, error)
	// FindInsightByID returns CodeInsightNotFound for an id that is unknown or
	// another organization's. An empty organizationID matches every organization.
	FindInsightByID(ctx context.Context, organizationID, id string) (*Insight, error)
	// MuteInsight sets status muted, whatever it was.
	MuteInsight(ctx context.Context, id, reason string) error
	// UnmuteInsight makes a muted insight active again when its service's window
	// still holds a failure, else archived. It leaves any other status alone.
	UnmuteInsight(ctx context.Context, id string) error
}
