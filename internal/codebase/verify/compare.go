// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"assay/internal/lists"
	"assay/internal/report"
)

// service is the result for a service. Entries with the same name, such as different versions, are merged: a rule that
// fails for one of them fails, and the lowest score is used.
type service struct {
	rules map[string]State
	score *float64
}

// services returns the services of a report by name.
func services(r *report.Report) map[string]*service {
	all := map[string]*service{}
	for i := range r.Services {
		entry := &r.Services[i]
		name := oneLine(entry.Name)
		s := all[name]
		if s == nil {
			s = &service{rules: map[string]State{}}
			all[name] = s
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
	}
	return all
}

// matchRenamed matches a service that disappeared with a service that appeared, if there is one of each: the change may
// have set the name of the service. It renames the entry in before.
func matchRenamed(before, after map[string]*service) {
	removed, added := missing(before, after), missing(after, before)
	if len(removed) == 1 && len(added) == 1 {
		before[added[0]] = before[removed[0]]
		delete(before, removed[0])
	}
}

// missing returns the names of a that are not in b, sorted.
func missing(a, b map[string]*service) []string {
	return lists.Filter(slices.Sorted(maps.Keys(a)), func(name string) bool { return b[name] == nil })
}

// compare compares the telemetry of the two runs of the tests, and sets the status.
func (r *Result) compare(o *Options, first, second *report.Report) {
	before, after := services(first), services(second)
	matchRenamed(before, after)
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		r.compareService(name, before[name], after[name])
	}
	r.Status, r.Reason = r.assess(o, missing(before, after))
}

func (r *Result) compareService(name string, before, after *service) {
	none := &service{}
	before = cmp.Or(before, none)
	after = cmp.Or(after, none)
	ids := map[string]State{}
	maps.Copy(ids, before.rules)
	maps.Copy(ids, after.rules)
	state := func(s *service, id string) State {
		if state, ok := s.rules[id]; ok {
			return state
		}
		return NotEvaluated
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		r.Rules = append(r.Rules, Rule{ID: id, Service: name, Pair: Pair[State]{state(before, id), state(after, id)}})
	}
	r.Scores = append(r.Scores, Score{Service: name, Pair: Pair[*float64]{before.score, after.score}})
}

// assess returns the status and the reason of a change whose tests passed before the change. removed are the services
// without telemetry after it.
func (r *Result) assess(o *Options, removed []string) (Status, string) {
	switch {
	case !r.Tests.After.Passed && o.Installs:
		return Unverified, "after the change, " + r.Tests.After.why() + ": it adds dependencies, which tests without a network cannot install"
	case !r.Tests.After.Passed:
		return Rejected, "after the change, " + r.Tests.After.why()
	}
	for _, rule := range r.Rules {
		if rule.Before == Passed && rule.After == Failed {
			return Rejected, fmt.Sprintf("%s fails for %s after the change", rule.ID, rule.Service)
		}
	}
	for _, s := range r.Scores {
		if s.Before != nil && s.After != nil && *s.After < *s.Before {
			return Rejected, fmt.Sprintf("the score of %s falls from %.2f to %.2f", s.Service, *s.Before, *s.After)
		}
	}
	before, after := r.Telemetry.Before, r.Telemetry.After
	switch {
	case before.Dropped || after.Dropped:
		return TestsPass, "the tests send too much telemetry to compare"
	case len(removed) > 0:
		return TestsPass, "after the change, the tests send no telemetry of " + removed[0]
	case after.Spans+after.LogRecords+after.MetricPoints == 0:
		return TestsPass, "the tests send no telemetry"
	case len(o.Rules) == 0:
		if before.Spans == 0 && after.Spans > 0 || before.LogRecords == 0 && after.LogRecords > 0 || before.MetricPoints == 0 && after.MetricPoints > 0 {
			return Verified, ""
		}
		return TestsPass, "the tests send no other signal after the change"
	}
	fixed := false
	for _, rule := range r.Rules {
		if rule.Before != Failed || !slices.Contains(o.Rules, rule.ID) {
			continue
		}
		switch rule.After {
		case Passed:
			fixed = true
		case Failed:
			return TestsPass, fmt.Sprintf("%s still fails for %s", rule.ID, rule.Service)
		default:
			return TestsPass, fmt.Sprintf("after the change, the tests send no telemetry that %s evaluates for %s", rule.ID, rule.Service)
		}
	}
	if !fixed {
		return TestsPass, "before the change, the telemetry of the tests fails none of the rules"
	}
	return Verified, ""
}
