// SPDX-License-Identifier: Apache-2.0

package delta

import "assay/internal/rules/catalog"

// maxDebugDays is the number of UTC days with DEBUG records above which LOG-001 fails.
const maxDebugDays = 14

// Verdicts returns, by rule, how many observations of a service lie in the window and how
// many of them failed. claims are its claims under the rules that compare services.
func (f *Facts) Verdicts(claims map[catalog.Rule]ClaimCount) [catalog.Count]Count {
	v := f.Totals
	for _, r := range catalog.Claiming(catalog.Instances, catalog.Definitions, catalog.Days) {
		switch r.Claims() {
		case catalog.Instances: // observed each time a resource is sent
			v[r].Failed = claims[r].Contested
		case catalog.Definitions:
			v[r] = Count{Observed: claims[r].Claims, Failed: claims[r].Contested}
		case catalog.Days:
			v[r] = Count{Observed: f.LogDays}
			if f.DebugDays > maxDebugDays {
				v[r].Failed = f.DebugDays
			}
		}
	}
	return v
}
