// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
	"assay/internal/rules/unit"
)

var metricUnit = &Check{
	ID:       "metric-unit",
	Title:    "Metric has no valid unit",
	Category: Governance,
	Severity: Medium,
	Rules:    []string{"MET-002"},
	Why: "Without a unit, a value of 250 may be milliseconds or bytes. Backends derive axes, conversions and the suffix of names in Prometheus from the unit, " +
		"and they expect the codes of UCUM.",
	Fix:     "Give the instrument a unit of UCUM: `s` and `ms` for durations, `By` for bytes, `1` for ratios, `{request}` for counts of requests.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		for _, i := range u.Instruments {
			f := metricFinding(i, "")
			f.Subject = shown(u, i.Metric, i.Name)
			text, known := u.Known(i.Unit)
			switch {
			case i.Unit == nil && i.Opaque, i.Unit != nil && !known, known && text != "" && unit.Valid([]byte(text)):
				continue
			case text == "":
				if i.Metric == "" {
					f.Severity = Suggestion // the function may create instruments for other code
				}
				f.Message = fmt.Sprintf("The metric `%s` has no unit%s.", f.Subject, unitHint(i.Metric, i.Kind))
				if fits := unitOf(i.Metric); fits != "" {
					f.Fix = setUnit(u, i, fits)
				}
				if i.Unit != nil {
					p.mark(u, i.Unit, f)
				} else {
					p.Report(created(u, i, f))
				}
			default:
				f.Message = fmt.Sprintf("The unit `%s` of the metric `%s` is not a UCUM unit%s.", text, f.Subject, unitHint(text, ""))
				if fits := unitOf(text); fits != "" {
					f.Fix = setUnit(u, i, fits)
				}
				p.mark(u, i.Unit, f)
			}
		}
	},
}

// created returns a finding with the place of the call with the name of an instrument, which is the first call of a
// builder.
func created(u *instrumentation.Uses, i *instrumentation.Instrument, f Finding) Finding {
	n := i.Name.Parent
	for n != nil && n.Kind != syntax.Call {
		n = n.Parent
	}
	if n == nil || !n.Within(i.Call) {
		n = i.Call
	}
	f = f.at(u, n)
	f.Start, f.Symbol = nameStart(u.File, n), Symbol(i.Call)
	return f
}

// unitWords maps words at the end of metric names to units.
var unitWords = map[string]string{
	"seconds": "s", "second": "s", "sec": "s", "secs": "s", "milliseconds": "ms", "millis": "ms", "ms": "ms", "msec": "ms", "microseconds": "us", "micros": "us", "us": "us",
	"nanoseconds": "ns", "nanos": "ns", "ns": "ns", "minutes": "min", "hours": "h", "days": "d", "bytes": "By", "byte": "By",
	"kilobytes": "kBy", "megabytes": "MBy", "gigabytes": "GBy", "kb": "kBy", "mb": "MBy", "gb": "GBy", "percent": "%", "percentage": "%", "ratio": "1", "celsius": "Cel",
	"requests": "{request}", "request": "{request}", "errors": "{error}", "connections": "{connection}", "messages": "{message}", "items": "{item}",
}

// unitHint returns a hint at the unit of a metric for the end of a message, "" if there is none.
func unitHint(text, kind string) string {
	if m, ok := semconv.LookupMetric(text); ok && m.Unit != "" {
		return fmt.Sprintf("; the conventions give it `%s`", m.Unit)
	}
	if s := unitOf(text); s != "" {
		return fmt.Sprintf("; `%s` fits", s)
	}
	if kind == "counter" || kind == "updowncounter" {
		return "; `{item}` with the name of what it counts fits"
	}
	return ""
}
