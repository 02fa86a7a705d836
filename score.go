// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"math"
	"time"
)

// Score is the instrumentation score of a service at a time.
type Score struct {
	ID               string // UUID
	Value            float64
	EvaluatedRuleIDs []string // sorted
	FailedRuleIDs    []string // sorted
	CalculatedAt     time.Time
	Window           time.Duration
	CreatedAt        time.Time
}

// Rounded returns the score rounded half up to an integer.
func (s *Score) Rounded() int { return RoundScore(s.Value) }

// Category returns the band of the rounded score.
func (s *Score) Category() string { return Category(s.Rounded()) }

// RoundScore rounds half up.
func RoundScore(v float64) int { return int(math.Floor(v + 0.5)) }

// Category returns the Instrumentation Score band of a rounded score.
func Category(score int) string {
	switch {
	case score >= 90:
		return "Excellent"
	case score >= 75:
		return "Good"
	case score >= 50:
		return "Needs Improvement"
	default:
		return "Poor"
	}
}

// CategoryRange returns the range of unrounded scores of a band: from is inclusive, below exclusive. ok is false for
// an unknown band.
func CategoryRange(category string) (from, below float64, ok bool) {
	switch category {
	case "Excellent":
		return 89.5, math.Inf(1), true
	case "Good":
		return 74.5, 89.5, true
	case "Needs Improvement":
		return 49.5, 74.5, true
	case "Poor":
		return math.Inf(-1), 49.5, true
	default:
		return 0, 0, false
	}
}
