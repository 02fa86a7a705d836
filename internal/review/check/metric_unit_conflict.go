// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var metricUnitConflict = &Check{
	ID:       "metric-unit-conflict",
	Title:    "Metric has several units or bucket layouts",
	Category: Governance,
	Severity: Medium,
	Rules:    []string{"MET-003", "MET-004"},
	Why: "Backends merge metrics of one name. Values of different units, or histograms with different buckets, cannot be added: " +
		"averages and percentiles over them are wrong.",
	Fix: "Create the instrument in one place with one unit and one list of boundaries, or give the metrics different names.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		for _, i := range u.Instruments {
			if i.Metric == "" {
				continue
			}
			use := instrumentUse{Finding: created(u, i, metricFinding(i, ""))}
			use.unit, use.unitKnown = u.Known(i.Unit)
			use.unitKnown = use.unitKnown || i.Unit == nil && !i.Opaque
			if i.Kind == "histogram" && !i.Opaque {
				use.bounds, use.boundsKnown = bounds(u, i.Boundaries)
			}
			p.Keep(use)
		}
	},
	Related: func(kept any) []string { return []string{kept.(instrumentUse).Subject} },
	Repository: func(p *RepositoryPass) {
		byName := map[string][]instrumentUse{}
		var order []string
		for _, k := range p.Kept {
			use := k.(instrumentUse)
			if byName[use.Subject] == nil {
				order = append(order, use.Subject)
			}
			byName[use.Subject] = append(byName[use.Subject], use)
		}
		for _, metric := range order {
			uses := byName[metric]
			unit := usual(uses, func(i instrumentUse) (string, bool) { return i.unit, i.unitKnown })
			layout := usual(uses, func(i instrumentUse) (string, bool) { return i.bounds, i.boundsKnown })
			for _, use := range uses {
				switch {
				case use.unitKnown && unit != nil && use.unit != unit.unit:
					use.Message = fmt.Sprintf("The metric `%s` has the unit %s here and %s in %s.", metric, quoted(use.unit), quoted(unit.unit), unit.File)
				case use.boundsKnown && layout != nil && use.bounds != layout.bounds:
					use.Message = fmt.Sprintf("The histogram `%s` has other bucket boundaries here than in %s.", metric, layout.File)
				default:
					continue
				}
				p.Report(use.Finding)
			}
		}
	},
}

// instrumentUse is the declaration of a metric in one place.
type instrumentUse struct {
	Finding
	unit, bounds           string
	unitKnown, boundsKnown bool
}

func quoted(unit string) string {
	if unit == "" {
		return "none"
	}
	return "`" + unit + "`"
}

// bounds returns literal bucket boundaries in a form that can be compared, "" for the default boundaries. It returns
// false if they are unknown.
func bounds(u *instrumentation.Uses, n *syntax.Node) (string, bool) {
	if n == nil {
		return "", true
	}
	if d := u.File.Definition(n); d != nil && d.Kind == syntax.Assign {
		n = d.Value()
	}
	var b strings.Builder
	list := n.Children
	if n.Kind == syntax.Call {
		list = n.Args()
	}
	for _, c := range flatten(list) {
		if c.Kind == syntax.Call && len(c.Args()) == 1 { // Double.valueOf(1)
			c = c.Args()[0]
		}
		if c.Kind != syntax.Number {
			return "", false
		}
		b.WriteString(strings.TrimSuffix(strings.Trim(c.Text, "dDfFL_"), ".0") + " ")
	}
	return b.String(), b.Len() > 0
}

// usual returns the first use with the most frequent value, nil if no value is known.
func usual(uses []instrumentUse, value func(instrumentUse) (string, bool)) *instrumentUse {
	counts := map[string]int{}
	for _, u := range uses {
		if v, ok := value(u); ok {
			counts[v]++
		}
	}
	var best *instrumentUse
	most := 0
	for i := range uses {
		if v, ok := value(uses[i]); ok && counts[v] > most {
			best, most = &uses[i], counts[v]
		}
	}
	return best
}
