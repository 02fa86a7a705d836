// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// goLibraries are the titles of the libraries of Go with the short names of their packages.
var goLibraries = []struct {
	title  string
	shorts []string
}{
	{"OpenTracing", []string{"ot", "otext", "otlog"}},
	{"Jaeger client", []string{"jaegercfg", "jaeger"}},
	{"OpenCensus", []string{"oc", "ocagent"}},
	{"Zipkin client", []string{"zipkin", "zipkinmodel", "zipkinprop", "b3", "zipkinrep", "zipkinhttp"}},
	{"Datadog tracer", []string{"dd", "ddext"}},
}

// Tables returns the tables of symbols, attributes and versions in Markdown.
func Tables() string {
	var b strings.Builder
	paths := map[string][]string{}
	for p, short := range goSources {
		paths[short] = append(paths[short], p)
	}
	b.WriteString("## Go\n")
	for _, l := range goLibraries {
		fmt.Fprintf(&b, "\n### %s in Go\n\n", l.title)
		for _, short := range l.shorts {
			for _, p := range slices.Sorted(slices.Values(paths[short])) {
				fmt.Fprintf(&b, "- `%s`\n", p)
			}
		}
		b.WriteString("\n| Symbol | Becomes |\n|---|---|\n")
		for _, short := range l.shorts {
			for _, symbol := range slices.Sorted(maps.Keys(goRows)) {
				if of, name, _ := strings.Cut(symbol, "."); of == short {
					fmt.Fprintf(&b, "| `%s` | %s |\n", name, new(goRows[symbol]).target())
				}
			}
			for _, symbol := range slices.Sorted(maps.Keys(goStartOptions)) {
				if of, name, _ := strings.Cut(symbol, "."); of == short {
					fmt.Fprintf(&b, "| `%s`, at a start | %s |\n", name, goStartOptions[symbol].doc)
				}
			}
		}
	}
	for _, l := range []struct {
		title string
		rows  [][3]string
	}{{"JavaScript and TypeScript", javaScriptRows}, {"Python", pythonRows}} {
		fmt.Fprintf(&b, "\n## %s\n\n| Library | Code | Becomes |\n|---|---|---|\n", l.title)
		for _, r := range l.rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r[0], r[1], r[2])
		}
	}
	b.WriteString("\n## Attributes\n\n| Tag | Becomes |\n|---|---|\n")
	b.WriteString("| `span.kind` | the kind of the span |\n| `error` | the status of the span |\n| `resource.name` of Datadog | the name of the span |\n")
	for _, key := range slices.Sorted(maps.Keys(tagKeys)) {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", key, tagKeys[key])
	}
	for _, key := range slices.Sorted(maps.Keys(leftTags)) {
		fmt.Fprintf(&b, "| `%s` | left: %s |\n", key, leftTags[key])
	}
	b.WriteString("\n## Versions\n\n| Package | Version |\n|---|---|\n")
	for _, versions := range []map[string]string{goVersions, npmVersions, pypiVersions} {
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			fmt.Fprintf(&b, "| `%s` | `%s` |\n", name, versions[name])
		}
	}
	return b.String()
}

// target returns what a row makes of its symbol, for the documentation.
func (r *goRow) target() string {
	if r.doc != "" {
		return r.doc
	}
	to := strings.NewReplacer("@", "", "$x", "span", "$scope", "scope", "$*", "attributes", "$0", "a", "$1", "b").Replace(r.to)
	return "`" + to + "`"
}
