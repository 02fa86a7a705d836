// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
)

// unitOf returns the unit of a metric according to the conventions or the last word of its name, "" if there is none.
func unitOf(text string) string {
	if m, ok := semconv.LookupMetric(text); ok && m.Unit != "" {
		return m.Unit
	}
	w := words(text)
	if slices.Contains(w, "per") { // attempts per request
		return ""
	}
	for len(w) > 0 && setOf("total sum count")[last(w)] {
		w = w[:len(w)-1]
	}
	return unitWords[last(w)]
}

// setUnit returns the edit that gives an instrument a unit. It returns nil for code of another form.
func setUnit(u *instrumentation.Uses, i *instrumentation.Instrument, unit string) []Edit {
	if i.Unit != nil {
		at := literal(u, i.Unit)
		if !at.Within(i.Unit) {
			return nil // a constant, which other instruments or code may use
		}
		if text, ok := u.Known(at); ok && text == "" && at.End-at.Start == 2 {
			return []Edit{{Start: at.Start + 1, End: at.End - 1, Text: unit}}
		}
		return rename(u, at, unit)
	}
	if i.Opaque || i.Name == nil {
		return nil
	}
	quote := `"`
	if c := u.File.Source[i.Name.Start]; c == '\'' {
		quote = "'"
	}
	literal := quote + unit + quote
	create := i.Name.Parent
	if create == nil || create.Kind != syntax.Call || create.Arg(0) != i.Name {
		return nil
	}
	switch u.File.Language {
	case syntax.Go:
		for _, imp := range u.File.Imports {
			if imp.Path == "go.opentelemetry.io/otel/metric" {
				return []Edit{{Start: i.Name.End, End: i.Name.End, Text: ", " + imp.Name + ".WithUnit(" + literal + ")"}}
			}
		}
	case syntax.JavaScript, syntax.TypeScript:
		switch options := create.Arg(1); {
		case options == nil:
			return []Edit{{Start: i.Name.End, End: i.Name.End, Text: ", { unit: " + literal + " }"}}
		case options.Kind == syntax.Object && len(options.Children) > 0:
			return []Edit{{Start: options.Children[0].Start, End: options.Children[0].Start, Text: "unit: " + literal + ", "}}
		}
	case syntax.Python:
		for _, a := range create.Args()[1:] {
			if a.Kind != syntax.Argument {
				return nil // the second argument by position is the unit
			}
		}
		return []Edit{{Start: i.Name.End, End: i.Name.End, Text: ", unit=" + literal}}
	case syntax.Java:
		return []Edit{{Start: create.End, End: create.End, Text: ".setUnit(" + literal + ")"}}
	}
	return nil
}

// withoutUnit returns a metric's name without the word for its unit. It returns "" if only a namespace or nothing is
// left: shop, for shop.bytes, does not name a measurement.
func withoutUnit(metric string, isUnit func(word string) bool) string {
	parts := strings.FieldsFunc(metric, func(r rune) bool { return r == '.' || r == '_' || r == '-' || r == '/' })
	for i := len(parts) - 1; i >= 0; i-- {
		if !isUnit(parts[i]) {
			continue
		}
		at := strings.LastIndex(metric, parts[i])
		before, after := metric[:at], metric[at+len(parts[i]):]
		if i > 0 && parts[i-1] == "in" { // size_in_bytes
			before = before[:len(before)-len("in_")]
		}
		if before == "" {
			return strings.TrimLeft(after, "._-/")
		}
		if short := before[:len(before)-1] + after; strings.Contains(short, ".") || !strings.Contains(metric, ".") {
			return short
		}
		return ""
	}
	return ""
}
