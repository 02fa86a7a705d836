// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"slices"

	"assay"
	"assay/internal/rules/catalog"
)

// Band is the number of services with a score in a band.
type Band struct {
	Category string
	Services int
}

// Bands counts the services of groups by band. It returns all bands, best first.
func Bands(groups []assay.ScoreGroup) []Band {
	var bands []Band
	for _, category := range assay.Categories() {
		b := Band{Category: category}
		for i := range groups {
			b.Services += groups[i].Categories[category]
		}
		bands = append(bands, b)
	}
	return bands
}

// Fix is the effect of fixing all insights of one type.
type Fix struct {
	Rule     catalog.Rule // the rule, or the insight type without a rule
	Services int          // with an active insight of the type
	Weight   int          // weight of the rule's impact times Services
	Gain     float64      // increase of the organization's score in points
}

// Fixes returns the fixes of an organization by decreasing weight: for each insight type with active insights, the
// number of services concerned, and the increase of the organization's score if the rule passed in all of them and
// everything else stayed the same. Muted insights are ignored. Types without a rule in the score have no gain.
//
// The organization's score is the mean over its services. If a rule of weight w passes instead of failing, the score
// of a service increases by 100 w / W, where W is the total weight of the rules evaluated for the service.
func Fixes(groups []assay.ScoreGroup, counts []assay.InsightTypeCount) []Fix {
	gains, services := make(map[string]float64), 0
	for i := range groups {
		g := &groups[i]
		services += g.Services
		total := 0
		for _, id := range g.EvaluatedRuleIDs {
			total += weightOf(id)
		}
		for id, failing := range g.Failing {
			if total > 0 {
				gains[id] += float64(failing) * 100 * float64(weightOf(id)) / float64(total)
			}
		}
	}
	var fixes []Fix
	for _, c := range counts {
		r, ok := catalog.ByInsightType(c.Type)
		if !ok || c.Active <= 0 {
			continue // from a newer version, or no longer failing
		}
		f := Fix{Rule: r, Services: c.Active, Weight: c.Active * r.Info().Impact.Weight()}
		if gain := gains[r.ID()]; r.ID() != "" && services > 0 {
			f.Gain = gain / float64(services)
		}
		fixes = append(fixes, f)
	}
	slices.SortFunc(fixes, func(a, b Fix) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Gain, a.Gain), cmp.Compare(a.Rule, b.Rule))
	})
	return fixes
}

func weightOf(id string) int {
	r, ok := catalog.ByID(id)
	if !ok {
		return 0
	}
	return r.Info().Impact.Weight()
}
