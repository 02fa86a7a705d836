// SPDX-License-Identifier: Apache-2.0

package fold

import (
	"math/bits"

	"assay"
	"assay/internal/store/codec"
)

// Groups collects services by the rules that were evaluated for them, a set as package
// codec encodes it.
type Groups map[int64]*group

type group struct {
	services   int
	categories map[string]int
	failing    [codec.MaxNumber]int // by the number of a rule, less one
}

// Add adds services with a score. muted are those of the failed rules whose insights are.
func (g Groups) Add(services int, score float64, evaluated, failed, muted int64) {
	into := g[evaluated]
	if into == nil {
		into = &group{categories: make(map[string]int)}
		g[evaluated] = into
	}
	into.services += services
	into.categories[assay.Category(assay.RoundScore(score))] += services
	for set := uint64(failed &^ muted); set != 0; set &= set - 1 {
		into.failing[bits.TrailingZeros64(set)] += services
	}
}

// All returns the groups, in no order.
func (g Groups) All() []assay.ScoreGroup {
	all := make([]assay.ScoreGroup, 0, len(g))
	for evaluated, from := range g {
		out := assay.ScoreGroup{
			EvaluatedRuleIDs: codec.RuleIDs(evaluated), Services: from.services, Categories: from.categories, Failing: make(map[string]int),
		}
		for bit, n := range from.failing {
			if n == 0 {
				continue
			}
			for _, id := range codec.RuleIDs(1 << bit) { // none for a rule that is no more
				out.Failing[id] = n
			}
		}
		all = append(all, out)
	}
	return all
}
