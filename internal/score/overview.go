// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"slices"

	"assay"
	"assay/internal/rules/catalog"
)

// Band is how many services have a score in a band.
type Band struct {
	Category string
	Services int
}

// Bands counts the services of groups by band: every band, best first.
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

// Fix is what fixing everything of one insight type would do.
type Fix struct {
	Rule     catalog.Rule // or the insight type without one
	Services int          // with an active insight of the type
	Weight   int          // of the rule's impact times Services
	Gain     float64      // points that the organization's score would gain
}

// Fixes returns what to fix, what weighs most first: of each insight type that is
// active somewhere, in how many services, and what the organization's score would be
// more if its rule passed in all of them and all else stayed as it is. Muted insights
// are not counted, and types that no score sees gain nothing.
//
// The organization's score is the mean over its services. A rule of weight w that
// passes instead of failing adds 100 w / W to a service of which rules of the weights W
// were evaluated.
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
			continue // of a newer version, or settled
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
