// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// InsightSummary is a text about one insight that a language model wrote.
type InsightSummary struct {
	InsightID   string
	Content     string // Markdown
	Model       string
	GeneratedAt time.Time
	Cached      bool // not generated for this request
}

// SummaryKey says what a summary was made from. A summary holds as long as none of
// it has changed.
type SummaryKey struct {
	OrganizationID string
	InsightID      string
	Evidence       [32]byte // hash of everything about the insight that the prompt shows
	Model          string
	PromptVersion  int
}

// SummaryStore keeps summaries. Implementations may be used concurrently.
type SummaryStore interface {
	// FindSummary returns CodeNotFound when there is none for this very key.
	FindSummary(ctx context.Context, k SummaryKey) (*InsightSummary, error)
	// SaveSummary replaces whatever summary the insight had. It returns
	// CodeInsightNotFound when the organization has no such insight any more. The
	// summary goes with its insight.
	SaveSummary(ctx context.Context, k SummaryKey, s *InsightSummary) error
	// TakeSummaryCall counts one call to the model on the UTC day of at. It returns
	// false, and counts nothing, once the organization has made limit calls that day.
	TakeSummaryCall(ctx context.Context, organizationID string, at time.Time, limit int) (bool, error)
}

// Summarizer writes summaries. Implementations may be used concurrently.
type Summarizer interface {
	// Summarize returns the cached summary of an insight or has a new one written.
	// CodeUnavailable, with a time to wait, when it cannot be written now.
	Summarize(ctx context.Context, i *Insight) (*InsightSummary, error)
}
