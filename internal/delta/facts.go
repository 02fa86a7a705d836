// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"context"

	"assay"
	"assay/internal/rules/catalog"
)

// Request identifies an OTLP request, so that a retried request counts once.
type Request struct {
	OrganizationID string
	Signal         Signal
	Hash           [16]byte // of the uncompressed protobuf bytes
}

// ClaimCount summarizes the claims of one service for one rule.
type ClaimCount struct {
	Claims    uint64   // keys with a claim of the service; for RES-002 possibly only the contested ones
	Contested uint64   // those of these keys with two or more values in the organization
	Keys      []string // texts of contested keys, the smallest MaxItems
	Values    []string // texts of all values of contested keys, the smallest MaxItems
}

// ClaimCounter counts the claims of one rule in an organization in pieces, between which
// other work takes turns. It is for one goroutine.
type ClaimCounter interface {
	// Next counts one piece. It returns false after the last one. After an error, the counter must not be used.
	Next(ctx context.Context) (more bool, err error)
	// Counts returns the counts by service id, without services without claims. It is called once, after the last
	// piece.
	Counts() map[string]ClaimCount
}

// CountClaims returns the counts of all pieces.
func CountClaims(ctx context.Context, c ClaimCounter) (map[string]ClaimCount, error) {
	for {
		switch more, err := c.Next(ctx); {
		case err != nil:
			return nil, err
		case !more:
			return c.Counts(), nil
		}
	}
}

// Facts holds the input for scoring one service.
type Facts struct {
	Service  assay.Service // with its current score
	Revision uint64        // revision of the facts; stored with the result

	Totals    [catalog.Count]Count // sums over the buckets of the window
	LogDays   uint64               // UTC days with log records (LOG-001)
	DebugDays uint64               // UTC days with DEBUG records (LOG-001)
	Examples  [catalog.Count]*Example
	Items     map[Item]Bucket
	Insights  []*assay.Insight // all insights of the service, of any status
}

// Result is the output of scoring one service.
type Result struct {
	ServiceID string
	Revision  uint64
	Score     *assay.Score     // nil: no rule was evaluated
	NewRow    bool             // add Score to the history
	Insights  []*assay.Insight // new and changed insights
}
