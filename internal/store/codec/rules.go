// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"assay/internal/rules/catalog"
)

// numbers maps every insight type to its stored number. Stores contain the numbers, so a
// number is never changed or reused, even if its type leaves the catalog. Numbers are
// between 1 and MaxNumber.
var numbers = map[string]uint8{
	"missing_service_instance_id":            1,
	"duplicate_service_instance_id":          2,
	"missing_k8s_pod_uid":                    3,
	"misplaced_attributes":                   4,
	"missing_service_name":                   5,
	"invalid_service_criticality":            6,
	"missing_deployment_environment":         7,
	"sensitive_resource_data":                8,
	"excessive_internal_spans":               9,
	"orphan_spans":                           10,
	"unbounded_span_names":                   11,
	"client_root_spans":                      12,
	"excessive_short_spans":                  13,
	"sensitive_span_data":                    14,
	"unbounded_metric_attributes":            15,
	"missing_metric_unit":                    16,
	"inconsistent_metric_unit":               17,
	"inconsistent_histogram_buckets":         18,
	"unit_in_metric_name":                    19,
	"metric_named_like_attribute":            20,
	"discouraged_metric_resource_attributes": 21,
	"sensitive_metric_data":                  22,
	"debug_logs_in_production":               23,
	"missing_log_severity":                   24,
	"sensitive_log_data":                     25,
	"unsupported_runtime":                    26,
	"default_service_name":                   27,
	"deprecated_attributes":                  28,
	"quota_exceeded":                         29,
}

// MaxNumber is the largest number of a rule. A set of rules fits into a signed 64-bit
// integer.
const MaxNumber = 63

var (
	numberOf [catalog.Count]uint8
	ruleOf   [MaxNumber + 1]catalog.Rule // catalog.Count for an unused number
	nameOf   [MaxNumber + 1]string
	scored   []catalog.Rule // rules with an id, by id
)

func init() {
	for n := range ruleOf {
		ruleOf[n] = catalog.Count
	}
	for name, n := range numbers {
		nameOf[n] = name
		if r, ok := catalog.ByInsightType(name); ok {
			numberOf[r], ruleOf[n] = n, r
		}
	}
	for _, r := range catalog.All() {
		if r.ID() != "" {
			scored = append(scored, r)
		}
	}
	slices.SortFunc(scored, func(a, b catalog.Rule) int { return strings.Compare(a.ID(), b.ID()) })
}

// RuleNumber returns the stored number of a rule, 0 for an index out of range.
func RuleNumber(r catalog.Rule) uint8 {
	if r >= catalog.Count {
		return 0
	}
	return numberOf[r]
}

// RuleByNumber is the inverse of RuleNumber. It reports false for a rule that the catalog
// no longer has.
func RuleByNumber(n int64) (catalog.Rule, bool) {
	if n < 1 || n > MaxNumber || ruleOf[n] == catalog.Count {
		return 0, false
	}
	return ruleOf[n], true
}

// InsightType returns the name of the insight type with a number, including types that
// the catalog no longer has. It returns "" for a number that was never assigned.
func InsightType(n int64) string {
	if n < 1 || n > MaxNumber {
		return ""
	}
	return nameOf[n]
}

// TypeNumber is the inverse of InsightType. It returns 0 for an unknown name.
func TypeNumber(name string) int64 { return int64(numbers[name]) }

// RuleBit returns the bit of a rule's number in a set, 0 for a number that was never
// assigned.
func RuleBit(n int64) int64 {
	if n < 1 || n > MaxNumber {
		return 0
	}
	return 1 << (n - 1)
}

// RuleSet encodes rule ids such as "RES-001" as a set of bits. The bit of a rule is its
// number less one. The order of ids is lost.
func RuleSet(ids []string) (int64, error) {
	var set int64
	for _, id := range ids {
		r, ok := catalog.ByID(id)
		if !ok {
			return 0, fmt.Errorf("rule set: unknown rule %q", id)
		}
		set |= 1 << (RuleNumber(r) - 1)
	}
	return set, nil
}

// RuleIDs decodes a RuleSet to sorted rule ids. It leaves out rules that the catalog no
// longer has.
func RuleIDs(set int64) []string {
	ids := make([]string, 0, bits.OnesCount64(uint64(set)))
	for _, r := range scored {
		if set&(1<<(numberOf[r]-1)) != 0 {
			ids = append(ids, r.ID())
		}
	}
	return ids
}
