// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"maps"
	"slices"
)

// Pair has the values before and after a change.
type Pair[T any] struct {
	Before T `json:"before"`
	After  T `json:"after"`
}

// RuleStates is the state of a rule for a service before and after a change.
type RuleStates struct {
	Service string `json:"service"`
	ID      string `json:"rule_id"`
	Pair[RuleState]
}

// RuleState is the state of a rule.
type RuleState string

// The states.
const (
	Passed       RuleState = "passed"
	Failed       RuleState = "failed"
	NotEvaluated RuleState = "not evaluated"
)

// Scores is the score of a service before and after a change. It is nil if no rule was evaluated.
type Scores struct {
	Service string `json:"service"`
	Pair[*float64]
}

// state is the state of the services with the same name, such as different versions: a rule that fails for one of them
// fails, and the lowest score is used.
type state struct {
	rules map[string]RuleState
	score *float64
}

// states returns the states of a report by name.
func states(r *Report) map[string]state {
	all := map[string]state{}
	for i := range r.Services {
		entry := &r.Services[i]
		s := all[entry.Name]
		if s.rules == nil {
			s.rules = map[string]RuleState{}
		}
		for _, id := range entry.EvaluatedRuleIDs {
			s.rules[id] = cmp.Or(s.rules[id], Passed)
		}
		for _, id := range entry.FailedRuleIDs {
			s.rules[id] = Failed
		}
		if entry.ScoreExact != nil && (s.score == nil || *entry.ScoreExact < *s.score) {
			s.score = entry.ScoreExact
		}
		all[entry.Name] = s
	}
	return all
}

// Compare returns the rules and scores of all services in two reports, by service and rule.
func Compare(before, after *Report) (rules []RuleStates, scores []Scores) {
	was, is := states(before), states(after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := was[name], is[name]
		scores = append(scores, Scores{name, Pair[*float64]{a.score, b.score}})
		ids := map[string]RuleState{}
		maps.Copy(ids, a.rules)
		maps.Copy(ids, b.rules)
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			rules = append(rules, RuleStates{name, id, Pair[RuleState]{cmp.Or(a.rules[id], NotEvaluated), cmp.Or(b.rules[id], NotEvaluated)}})
		}
	}
	return rules, scores
}
