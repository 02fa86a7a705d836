// SPDX-License-Identifier: Apache-2.0

package score

import (
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// maxDebugDays is the number of UTC days with DEBUG records above which LOG-001
// fails.
const maxDebugDays = 14

// Claims are the claims of one service under the rules that compare services.
type Claims map[catalog.Rule]delta.ClaimCount

// claimRules are the rules whose failures show only when the claims of a whole
// organization lie side by side.
var claimRules = []catalog.Rule{catalog.RES002, catalog.MET003, catalog.MET004}

// Verdicts returns, by rule, how many observations of a service lie in the window
// and how many of them failed.
func Verdicts(f *delta.Facts, claims Claims) [catalog.Count]delta.Count {
	v := f.Totals
	// A resource is observed each time it is sent, and fails when what it claims is contested.
	v[catalog.RES002].Failed = claims[catalog.RES002].Contested
	for _, r := range []catalog.Rule{catalog.MET003, catalog.MET004} {
		v[r] = delta.Count{Observed: claims[r].Claims, Failed: claims[r].Contested}
	}
	v[catalog.LOG001] = delta.Count{Observed: f.LogDays}
	if f.DebugDays > maxDebugDays {
		v[catalog.LOG001].Failed = f.DebugDays
	}
	return v
}

// Value returns the Instrumentation Score of a service's verdicts, 0 to 100, and
// the ids of the rules evaluated and failed, in the order of the catalog, which
// is that of the ids. ok is false when no rule was evaluated: there is no score.
//
// Source: the Instrumentation Score specification; 100 times the weights of the
// rules passed over those of the rules evaluated.
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
