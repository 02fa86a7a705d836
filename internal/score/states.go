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

// State is the state of a rule for a service.
type State string

// The states.
const (
	Passed       State = "passed"
	Failed       State = "failed"
	NotEvaluated State = "not evaluated" // no observation for the rule
)

// RuleState is the state of a rule with its counts. For LOG-001 these are days, for MET-003 and MET-004 metric names.
type RuleState struct {
	Rule             catalog.Rule
	State            State
	Observed, Failed uint64
}

// States returns the states of all rules in the score, in catalog order.
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

// FactStore is the store of a Reader. Implementations must be safe for concurrent use.
type FactStore interface {
	// Facts is Store.Facts.
	Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error)
	// ServiceClaims returns the claims of one service by rule, for the rules that compare services. They are counted
	// as by ClaimCounts but have no texts. Claims of RES-002 count since a bucket, the others since metricSince.
	ServiceClaims(ctx context.Context, organizationID, serviceID string, since, metricSince delta.Bucket) (map[catalog.Rule]delta.ClaimCount, error)
}

// Reader reads the current states of rules. All fields are required. It is safe for concurrent use.
type Reader struct {
	Store        FactStore
	Window, Step time.Duration // as in Config
	Now          func() time.Time
}

// RuleStates returns the states of all rules in the score for one service, in catalog order. It returns
// CodeServiceNotFound if the id is unknown or belongs to another organization.
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
	v := facts[0].Verdicts(claims)
	return States(&v), nil
}

// Change holds the rules that changed their state at a time.
type Change struct {
	At          time.Time
	Transitions []Transition // by rule id
}

// Transition is the change of a rule's state.
type Transition struct {
	RuleID   string
	From, To State
}

// Changes returns the state changes in a history of scores, oldest first. The first score is the baseline.
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
				change.Transitions = append(change.Transitions, Transition{RuleID: id, From: from, To: to})
			}
		}
		if len(change.Transitions) > 0 {
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
