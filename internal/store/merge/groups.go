// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"math/bits"

	"assay"
	"assay/internal/store/codec"
)

// Groups counts services by the set of rules that were evaluated for them, as package
// codec encodes it.
type Groups map[int64]*group

type group struct {
	services   int
	categories map[string]int
	failing    [codec.MaxNumber]int // failing services by rule number, less one
}

// Add adds services with a score.
func (g Groups) Add(services int, score float64, evaluated, failed int64) {
	into := g[evaluated]
	if into == nil {
		into = &group{categories: make(map[string]int)}
		g[evaluated] = into
	}
	into.services += services
	into.categories[assay.Category(assay.RoundScore(score))] += services
	for set := uint64(failed); set != 0; set &= set - 1 {
		into.failing[bits.TrailingZeros64(set)] += services
	}
}

// Mute removes the rule with a number from the failing rules of one service added before.
// Its insight is muted there.
func (g Groups) Mute(evaluated, failed, number int64) {
	if into := g[evaluated]; into != nil && failed&codec.RuleBit(number) != 0 {
		into.failing[number-1]--
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
			for _, id := range codec.RuleIDs(1 << bit) { // none for a rule that the catalog no longer has
				out.Failing[id] = n
			}
		}
		all = append(all, out)
	}
	return all
}
