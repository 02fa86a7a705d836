// SPDX-License-Identifier: Apache-2.0

package check

import (
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
)

var metricNameAttribute = &Check{
	ID:       "metric-name-attribute",
	Title:    "Metric is named like an attribute",
	Category: Governance,
	Severity: Medium,
	Rules:    []string{"MET-006"},
	Why: "The attribute registry defines the meaning of each name. In queries, a metric with the name of an attribute is mistaken for the attribute, " +
		"and some backends keep both in one namespace.",
	Fix: "Name the metric after what it measures: `http.server.request.duration`, not `http.request.method`. Dashboards and alerts need the new name.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		seen := map[*syntax.Node]bool{}
		for _, i := range u.Instruments {
			if _, ok := semconv.Lookup([]byte(i.Metric)); !ok {
				continue
			}
			if m, ok := semconv.LookupMetric(i.Metric); ok && !m.Deprecated {
				continue
			}
			if at := literal(u, i.Name); !seen[at] {
				seen[at] = true
				p.mark(u, at, metricFinding(i, "The metric `%s` has the name of an attribute of the conventions.", i.Metric))
			}
		}
	},
}
