// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// InsightSummary is a text about an insight, written by a language model.
type InsightSummary struct {
	InsightID   string
	Content     string // Markdown
	Model       string
	GeneratedAt time.Time
	Cached      bool // not generated for this request
}

// SummaryKey identifies the input of a summary. A summary is valid while its key is unchanged.
type SummaryKey struct {
	OrganizationID string
	InsightID      string
	Evidence       [32]byte // hash of the content of the prompt
	Model          string
	PromptVersion  int
}

// SummaryStore stores summaries. Implementations must be safe for concurrent use.
type SummaryStore interface {
	// FindSummary returns CodeNotFound if there is no summary for exactly this key.
	FindSummary(ctx context.Context, k SummaryKey) (*InsightSummary, error)
	// SaveSummary replaces the summary of the insight. It returns CodeInsightNotFound if the organization no longer
	// has the insight. A summary is deleted with its insight.
	SaveSummary(ctx context.Context, k SummaryKey, s *InsightSummary) error
	// TakeSummaryCall counts one call of the model on the UTC day of at. If the organization has already made limit
	// calls on that day, it counts nothing and returns false.
	TakeSummaryCall(ctx context.Context, organizationID string, at time.Time, limit int) (bool, error)
}

// Summarizer writes summaries. Implementations must be safe for concurrent use.
type Summarizer interface {
	// Summarize returns the cached summary of an insight or generates a new one. If neither is possible, it returns
	// CodeUnavailable with the time to wait.
	Summarize(ctx context.Context, i *Insight) (*InsightSummary, error)
}
