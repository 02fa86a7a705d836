// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/unit"
)

var metricNameUnit = &Check{
	ID:       "metric-name-unit",
	Title:    "Metric name contains its unit",
	Category: Governance,
	Severity: Low,
	Rules:    []string{"MET-005"},
	Why: "The unit is a field of its own. A name with the unit in it is wrong after a change of the unit, and exporters that append the unit, " +
		"such as those of Prometheus, write it twice.",
	Fix: "Take the unit out of the name and pass it as the unit of the instrument: `shop.wait` with the unit `s`, not `shop.wait_seconds`. " +
		"Dashboards and alerts need the new name.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		seen := map[*syntax.Node]bool{}
		for _, i := range u.Instruments {
			at := literal(u, i.Name)
			text, known := u.Known(i.Unit)
			named := nameUnit(i.Metric, text, known)
			if named == "" || seen[at] {
				continue
			}
			seen[at] = true
			f := metricFinding(i, "The name of the metric `%s` contains the unit `%s`.", i.Metric, named)
			f.Fix = p.moveUnit(u, i, named, known && text != "")
			p.mark(u, at, f)
		}
	},
}

// moveUnit returns the edits that remove a unit from a metric's name, and set it as the unit of an instrument that has
// none.
func (p *Pass) moveUnit(u *instrumentation.Uses, i *instrumentation.Instrument, named string, given bool) []Edit {
	short := withoutUnit(i.Metric, func(word string) bool {
		return unit.NamedIn([]byte(named), []byte(word)) || unitWords[strings.ToLower(word)] == named
	})
	if short == "" {
		return nil
	}
	edits := p.renameTelemetry(u, i.Name, short, metricNames)
	if given || edits == nil {
		return edits
	}
	more := setUnit(u, i, named)
	if more == nil {
		return nil
	}
	return append(edits, more...)
}

// nameUnit returns the unit that a metric's name contains, "" for none. If the unit of the instrument is unknown, only
// an unambiguous unit at the end of the name counts.
func nameUnit(metric, text string, known bool) string {
	if known && unit.NamedIn([]byte(text), []byte(metric)) {
		return text
	}
	if known && text != "" && !unit.HasName([]byte(text)) && text != "1" && text[0] != '{' && unit.Valid([]byte(text)) {
		return ""
	}
	for _, w := range slices.Backward(words(metric)) {
		switch w {
		case "total", "sum", "count", "max", "min", "avg", "bucket", "histogram", "mean", "p99", "p95":
			continue
		case "seconds", "milliseconds", "microseconds", "nanoseconds", "bytes", "ms", "millis", "kilobytes", "megabytes", "gigabytes", "kibibytes", "mebibytes", "gibibytes":
			return unitWords[w] + map[bool]string{true: w}[unitWords[w] == ""]
		}
		break
	}
	return ""
}
