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

// javaLibraries are the titles of the libraries of Java with the beginnings of their classes.
var javaLibraries = []struct {
	title    string
	prefixes []string
}{
	{"OpenTracing", []string{"io.opentracing."}},
	{"Jaeger client", []string{"io.jaegertracing."}},
	{"OpenCensus", []string{"io.opencensus."}},
	{"Brave (Zipkin)", []string{"brave.", "zipkin2."}},
	{"Datadog tracer", []string{"datadog."}},
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
	}{{"JavaScript and TypeScript", slices.Concat(javaScriptRows, jsCensusRows, jsZipkinRows)}, {"Python", slices.Concat(pythonRows, censusRows, pyZipkinRows)}} {
		fmt.Fprintf(&b, "\n## %s\n\n| Library | Code | Becomes |\n|---|---|---|\n", l.title)
		for _, r := range l.rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r[0], r[1], r[2])
		}
	}
	b.WriteString("\n## Java\n\nThe constants of `Tags`, `Fields`, `References` and `Format.Builtin` stand for their values.\n")
	for _, l := range javaLibraries {
		fmt.Fprintf(&b, "\n### %s in Java\n\n| Method | Becomes |\n|---|---|\n", l.title)
		for _, symbol := range slices.Sorted(maps.Keys(javaRows)) {
			row := javaRows[symbol]
			if doc := row.target(symbol); doc != "" && slices.ContainsFunc(l.prefixes, func(p string) bool { return strings.HasPrefix(symbol, p) }) {
				fmt.Fprintf(&b, "| `%s` | %s |\n", javaSymbol(symbol), doc)
			}
		}
	}
	b.WriteString("| `@Trace(operationName = a)` | `@WithSpan(a)`, if a deployment file starts the Java agent of OpenTelemetry |\n")
	b.WriteString("\n## Attributes\n\n| Tag | Becomes |\n|---|---|\n")
	b.WriteString("| `span.kind` | the kind of the span |\n| `error` | the status of the span |\n| `resource.name` of Datadog | the name of the span |\n")
	for _, key := range slices.Sorted(maps.Keys(tagKeys)) {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", key, tagKeys[key])
	}
	for _, key := range slices.Sorted(maps.Keys(leftTags)) {
		fmt.Fprintf(&b, "| `%s` | left: %s |\n", key, leftTags[key])
	}
	b.WriteString("\n## Versions\n\n| Package | Version |\n|---|---|\n")
	for _, versions := range []map[string]string{goVersions, npmVersions, pypiVersions, mavenVersions} {
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

// javaSymbol returns the method of a row: "Span.log(a, b)" of "io.opentracing.Span.log/2".
func javaSymbol(symbol string) string {
	symbol, arity, _ := strings.Cut(symbol, "/")
	parts := strings.Split(symbol, ".")
	var args []string
	for i := range arity[0] - '0' {
		args = append(args, string(rune('a'+i)))
	}
	return strings.Join(parts[len(parts)-2:], ".") + "(" + strings.Join(args, ", ") + ")"
}

// target returns what a row makes of its method, for the documentation, or "" if it is in no table.
func (r *javaRow) target(symbol string) string {
	if r.to == "" {
		return r.doc
	}
	parts := strings.Split(symbol, ".")
	receiver := strings.ToLower(strings.TrimPrefix(parts[len(parts)-2], "Span")) // builder of SpanBuilder
	if receiver == "" || receiver == "context" {
		receiver = strings.ToLower(parts[len(parts)-2])
	}
	return "`" + strings.NewReplacer("@", "", "$r", receiver, "$scope", "scope", "$0", "a", "$1", "b").Replace(r.to) + "`"
}
