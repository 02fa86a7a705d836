// SPDX-License-Identifier: Apache-2.0

package score

import (
	"context"
	"slices"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// State is what a rule says about a service.
type State string

// The states.
const (
	Passed       State = "passed"
	Failed       State = "failed"
	NotEvaluated State = "not evaluated" // nothing was observed that the rule is about
)

// RuleState is a rule's state with the numbers behind it. For LOG-001 these are
// days, for MET-003 and MET-004 metric names.
type RuleState struct {
	Rule             catalog.Rule
	State            State
	Observed, Failed uint64
}

// States returns the states of all rules of the score, in the order of the catalog.
func States(v *[catalog.Count]delta.Count) []RuleState {
	states := make([]RuleState, catalog.Scored)
	for r := range catalog.Rule(catalog.Scored) {
		s := RuleState{Rule: r, State: Passed, Observed: v[r].Observed, Failed: v[r].Failed}
		switch {
		case s.Observed == 0:
			s.State, s.Failed = NotEvaluated, 0
		case s.Failed > 0:
			s.State = Failed
		}
		states[r] = s
	}
	return states
}

// FactStore is what a Reader reads. Implementations may be used concurrently.
type FactStore interface {
	// Facts is as in Store.
	Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error)
	// ServiceClaims returns, by rule, the claims of one service under the rules that
	// compare services, counted as by ClaimCounts but without their texts: those of
	// RES-002 since a bucket, the others since metricSince.
	ServiceClaims(ctx context.Context, organizationID, serviceID string, since, metricSince delta.Bucket) (map[catalog.Rule]delta.ClaimCount, error)
}

// Reader reads what rules say about services at the moment. All of its fields are
// needed. It may be used concurrently.
type Reader struct {
	Store        FactStore
	Window, Step time.Duration // as in Config
	Now          func() time.Time
}

// RuleStates returns the states of all rules of the score for one service, in the
// order of the catalog. It is CodeServiceNotFound for an id that is unknown or another
// organization's.
func (r *Reader) RuleStates(ctx context.Context, organizationID, serviceID string) ([]RuleState, error) {
	p := PeriodAt(r.Now().UTC(), r.Window, r.Step)
	since, metricSince := bucket(p.Start, r.Step), bucket(p.MetricStart, r.Step)
	facts, err := r.Store.Facts(ctx, organizationID, []string{serviceID}, since)
	if err != nil {
		return nil, err
	}
	if len(facts) == 0 {
		return nil, assay.Errorf(assay.CodeServiceNotFound, "no such service")
	}
	claims, err := r.Store.ServiceClaims(ctx, organizationID, serviceID, since, metricSince)
	if err != nil {
		return nil, err
	}
	v := Verdicts(facts[0], claims)
	return States(&v), nil
}

// Change is a moment at which rules changed their state.
type Change struct {
	At    time.Time
	Turns []Turn // in the order of rule ids
}

// Turn is a rule's change of state.
type Turn struct {
	RuleID   string
	From, To State
}

// Changes returns when rules changed their state in a history of scores, oldest
// first. The first score changes nothing.
func Changes(history []*assay.Score) []Change {
	var changes []Change
	for i := 1; i < len(history); i++ {
		before, after := history[i-1], history[i]
		if slices.Equal(before.EvaluatedRuleIDs, after.EvaluatedRuleIDs) && slices.Equal(before.FailedRuleIDs, after.FailedRuleIDs) {
			continue
		}
		change := Change{At: after.CalculatedAt}
		for r := range catalog.Rule(catalog.Scored) {
			id := r.ID()
			if from, to := stateIn(before, id), stateIn(after, id); from != to {
				change.Turns = append(change.Turns, Turn{RuleID: id, From: from, To: to})
			}
		}
		if len(change.Turns) > 0 {
			changes = append(changes, change)
		}
	}
	return changes
}

// stateIn returns the state of a rule in a score.
func stateIn(s *assay.Score, id string) State {
	if _, failed := slices.BinarySearch(s.FailedRuleIDs, id); failed {
		return Failed
	}
	if _, evaluated := slices.BinarySearch(s.EvaluatedRuleIDs, id); evaluated {
		return Passed
	}
	return NotEvaluated
}
