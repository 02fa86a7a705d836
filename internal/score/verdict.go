// SPDX-License-Identifier: Apache-2.0

package score

import (
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// Claims holds the claims of one service by rule, for the rules that compare services.
type Claims map[catalog.Rule]delta.ClaimCount

// Value returns the Instrumentation Score of a service's verdicts, 0 to 100, and the ids of the evaluated and the
// failed rules in catalog order. ok is false if no rule was evaluated, in which case there is no score.
//
// Source: the Instrumentation Score specification. The score is 100 times the total weight of the passed rules over
// that of the evaluated rules.
func Value(v *[catalog.Count]delta.Count) (value float64, evaluated, failed []string, ok bool) {
	total, passed := 0, 0
	for r := range catalog.Rule(catalog.Scored) {
		if v[r].Observed == 0 {
			continue
		}
		weight := r.Info().Impact.Weight()
		total += weight
		evaluated = append(evaluated, r.ID())
		if v[r].Failed > 0 {
			failed = append(failed, r.ID())
		} else {
			passed += weight
		}
	}
	if total == 0 {
		return 0, nil, nil, false
	}
	return 100 * float64(passed) / float64(total), evaluated, failed, true
}
