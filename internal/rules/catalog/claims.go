// SPDX-License-Identifier: Apache-2.0

package catalog

import "slices"

// ClaimKind determines how the claims of a rule are compared, and for how long they
// count.
type ClaimKind uint8

const (
	// NoClaims is the kind of a rule without claims.
	NoClaims ClaimKind = iota
	// Instances are contested when services of an organization claim different values for a
	// key. Most claims are uncontested and are deleted when they did not change for a day.
	Instances
	// Definitions are contested as Instances are. They count in the shorter window of
	// metrics, assay.MetricWindow.
	Definitions
	// Days are UTC days with an activity of one service. They are counted, and not compared
	// between services.
	Days
)

var claimKinds = [Count]ClaimKind{RES002: Instances, MET003: Definitions, MET004: Definitions, LOG001: Days}

// MetricNames is the rule with hashes of metric names as the keys of its claims.
const MetricNames = MET003

// Claims returns the kind of a rule's claims, NoClaims for an index out of range.
func (r Rule) Claims() ClaimKind {
	if r >= Count {
		return NoClaims
	}
	return claimKinds[r]
}

// Claiming returns the rules with claims of one of the kinds, in the order of the
// catalog.
func Claiming(kinds ...ClaimKind) []Rule {
	var rules []Rule
	for r := range Rule(Count) {
		if slices.Contains(kinds, r.Claims()) {
			rules = append(rules, r)
		}
	}
	return rules
}
