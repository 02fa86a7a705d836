// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"assay"
	"assay/internal/rules/catalog"
)

// Request identifies one OTLP request, so that a repeated one counts once.
type Request struct {
	OrganizationID string
	Signal         Signal
	Hash           [16]byte // of the uncompressed protobuf bytes
}

// ClaimCount sums up one service's claims of one rule.
type ClaimCount struct {
	Claims    uint64   // keys the service claims
	Contested uint64   // those of them with two different values in the organization
	Keys      []string // texts of contested keys, the smallest MaxItems
	Values    []string // texts of all values of contested keys, the smallest MaxItems
}

// Facts are everything that scoring one service needs.
type Facts struct {
	Service  assay.Service // with its current score
	Revision uint64        // of the facts; what is saved is marked with it

	Totals    [catalog.Count]Count // sums over the buckets kept
	LogDays   uint64               // UTC days with log records (LOG-001)
	DebugDays uint64               // UTC days with DEBUG records (LOG-001)
	Examples  [catalog.Count]*Example
	Items     map[Item]Bucket
	Insights  []*assay.Insight // all of the service, whatever their status
}

// Result is what scoring one service gave.
type Result struct {
	ServiceID string
	Revision  uint64
	Score     *assay.Score     // nil: no rule was evaluated
	NewRow    bool             // Score becomes a row of the history
	Insights  []*assay.Insight // the new and the changed ones
}
