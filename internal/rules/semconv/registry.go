// SPDX-License-Identifier: Apache-2.0

package semconv

import (
	_ "embed"
	"strings"
)

//go:embed attributes.csv
var attributesCSV string

//go:embed deprecated.csv
var deprecatedCSV string

// attributes and templates are the entries of the registry by key.
var attributes, templates = readRegistry()

func readRegistry() (attributes, templates map[string]Attribute) {
	deprecated := map[string][]string{}
	for _, c := range rows(deprecatedCSV) {
		deprecated[c[0]] = c
	}
	levels := map[string]Level{"resource": Resource, "span": Span, "log": Log, "metric": Metric}
	attributes, templates = map[string]Attribute{}, map[string]Attribute{}
	for _, c := range rows(attributesCSV) {
		// attribute,type,deprecated,levels: the levels are joined by |
		a := Attribute{Key: c[0], Template: strings.HasPrefix(c[1], "template[")}
		for level := range strings.SplitSeq(c[3], "|") {
			a.Levels |= levels[level]
		}
		if d := deprecated[a.Key]; d != nil {
			// attribute,reason,renamed_to: the reason is renamed, obsoleted or uncategorized, which is
			// replaced by several attributes or moved to another registry
			a.Deprecated, a.Successor = d[1] != "uncategorized", d[2]
			a.Replaced = !a.Deprecated && !moved(a.Key)
		}
		if a.Template {
			templates[a.Key] = a
		} else {
			attributes[a.Key] = a
		}
	}
	return attributes, templates
}

// moved reports whether the attribute moved to another registry. That one replaces gen_ai.system.
func moved(key string) bool {
	name, _, _ := strings.Cut(key, ".")
	return (name == "gen_ai" || name == "mcp" || name == "openai") && key != "gen_ai.system"
}

// rows returns the rows of a CSV file without its header. No value is quoted.
func rows(csv string) [][]string {
	var rows [][]string
	_, body, _ := strings.Cut(csv, "\n")
	for line := range strings.Lines(body) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), ","))
	}
	return rows
}
