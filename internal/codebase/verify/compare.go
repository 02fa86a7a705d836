// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"slices"

	"assay/internal/report"
)

// cleaned returns a report whose names of services are printable.
func cleaned(r *report.Report) *report.Report {
	for i := range r.Services {
		r.Services[i].Name = oneLine(r.Services[i].Name)
	}
	return r
}

// missing returns the names of services in a report that are not in another one, sorted.
func missing(in, from *report.Report) (names []string) {
	for _, s := range in.Services {
		if !slices.ContainsFunc(from.Services, func(other report.Service) bool { return other.Name == s.Name }) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// compare compares the telemetry of the two runs of the tests, and sets the status. It matches a service that disappeared
// with a service that appeared, if there is one of each: the change may have set the name of the service.
func (r *Result) compare(o *Options, before, after *report.Report) {
	removed, added := missing(cleaned(before), cleaned(after)), missing(after, before)
	if len(removed) == 1 && len(added) == 1 {
		for i := range before.Services {
			if s := &before.Services[i]; s.Name == removed[0] {
				s.Name = added[0]
			}
		}
		removed = nil
	}
	rules, scores := report.Compare(before, after)
	r.Rules, r.Scores = append(r.Rules, rules...), append(r.Scores, scores...)
	r.Status, r.Reason = r.assess(o, removed)
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
		if rule.Before == report.Passed && rule.After == report.Failed {
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
		if rule.Before != report.Failed || !slices.Contains(o.Rules, rule.ID) {
			continue
		}
		switch rule.After {
		case report.Passed:
			fixed = true
		case report.Failed:
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
