// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"flag"
	"fmt"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const document = "../../../docs/migration.md"

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

// generated are the tables of the document that the test generates from the code's tables.
var generated = regexp.MustCompile(`(?s)<!-- tables: begin -->\n.*?<!-- tables: end -->`)

// TestDocument requires that the tables of the document match the tables of the code.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	tables := []string{goTables(), javaTables()}
	require.Len(t, generated.FindAll(text, -1), len(tables))
	want := generated.ReplaceAllStringFunc(string(text), func(string) string {
		table := tables[0]
		tables = tables[1:]
		return "<!-- tables: begin -->\n\n" + table + "\n<!-- tables: end -->"
	})
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "run the tests of this package with -update")
}

// documented returns the library, the code and the replacement in each row of a table of the document.
func documented(t *testing.T, title string) [][]string {
	t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## "+title+"\n")
	require.True(t, ok, title)
	section, _, _ = strings.Cut(section, "\n## ")
	_, body, ok := strings.Cut(section, "\n|---|---|---|\n")
	require.True(t, ok, title)
	body, _, _ = strings.Cut(body, "\n\n")
	var rows [][]string
	for line := range strings.Lines(body) {
		row := strings.Split(strings.Trim(line, "| \n"), " | ")
		require.Len(t, row, 3, line)
		rows = append(rows, row)
	}
	return rows
}

// goTables returns the tables of Go in Markdown.
func goTables() string {
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
	return b.String()
}

// javaTables returns the tables of Java, attributes and versions in Markdown.
func javaTables() string {
	var b strings.Builder
	b.WriteString("## Java\n\nThe constants of `Tags`, `Fields`, `References` and `Format.Builtin` stand for their values.\n")
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

// target returns the replacement of a row's symbol for the documentation.
func (r *goRow) target() string {
	if r.doc != "" {
		return r.doc
	}
	to := strings.NewReplacer("@", "", "$x", "span", "$scope", "scope", "$*", "attributes", "$0", "a", "$1", "b").Replace(r.to)
	return "`" + to + "`"
}

// javaSymbol returns the method of a row, such as "Span.log(a, b)" for "io.opentracing.Span.log/2".
func javaSymbol(symbol string) string {
	symbol, arity, _ := strings.Cut(symbol, "/")
	parts := strings.Split(symbol, ".")
	var args []string
	for i := range arity[0] - '0' {
		args = append(args, string(rune('a'+i)))
	}
	return strings.Join(parts[len(parts)-2:], ".") + "(" + strings.Join(args, ", ") + ")"
}

// target returns the replacement of a row's method for the documentation, or "" if the row has none.
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

// golden returns the old and the added lines of the golden patches of a language.
func golden(t *testing.T, prefixes ...string) (removed, added string) {
	t.Helper()
	for _, prefix := range prefixes {
		files, err := filepath.Glob("testdata/" + prefix + "-*.diff")
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				switch line[0] {
				case '-', ' ': // unchanged lines use rows as well
					removed += line
				case '+':
					added += line
				}
			}
		}
	}
	return removed, added
}

// TestRowsAreTested requires that the golden patches of a language use each row of its tables.
func TestRowsAreTested(t *testing.T) {
	removed, _ := golden(t, "go")
	symbols := []string{}
	for s := range goRows {
		symbols = append(symbols, s)
	}
	for s := range goStartOptions {
		symbols = append(symbols, s)
	}
	for _, s := range symbols {
		name := strings.TrimSuffix(s[strings.LastIndexByte(s, '.')+1:], "()")
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(removed) {
			t.Error("no test has", s)
		}
	}
	removed, _ = golden(t, "java")
	for symbol, row := range javaRows {
		if name := strings.Split(symbol[strings.LastIndexByte(symbol, '.')+1:], "/")[0]; row.target(symbol) != "" && !regexp.MustCompile(`\b`+name+`\b`).MatchString(removed) {
			t.Error("no test has", symbol)
		}
	}
	names := regexp.MustCompile(`\.?(\w+)[(\x60,]`)
	for title, prefixes := range map[string][]string{"JavaScript and TypeScript": {"js", "node"}, "Python": {"python"}} {
		removed, added := golden(t, prefixes...)
		for _, row := range documented(t, title) {
			if strings.Contains(row[2], "the same of") {
				continue
			}
			from := names.FindStringSubmatch(row[1])
			require.NotNil(t, from, row[1])
			if !strings.Contains(removed, from[1]) {
				t.Error("no test has", row[1])
			}
			if to := names.FindStringSubmatch(row[2]); to != nil {
				if !strings.Contains(added, to[1]) {
					t.Error("no test has", row[2])
				}
			}
		}
	}
}

// TestCheckTimeRace requires that the type check does not start after its deadline.
func TestCheckTimeRace(t *testing.T) {
	m := &goModule{fset: token.NewFileSet(), checked: time.Now()}
	m.arrange([]*goFile{m.parse("a.go", []byte("package a\n"))})
	require.ErrorIs(t, m.check(t.Context()), context.DeadlineExceeded)
	m.checked = time.Now().Add(time.Hour)
	require.NoError(t, m.check(t.Context()))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, m.check(stopped), context.Canceled)
}

// TestStubs requires that each row is for a declared symbol, and that the declarations have no errors except for
// imports.
func TestStubs(t *testing.T) {
	m := &goModule{fset: token.NewFileSet(), packages: map[string]*goPackage{}}
	paths := map[string][]string{}
	for p, short := range goSources {
		paths[short] = append(paths[short], p)
		require.NotEmpty(t, stubs().sources[p], p)
	}
	for _, p := range goTargets {
		require.NotEmpty(t, stubs().targets[p], p)
	}
	for _, list := range []map[string]string{stubs().sources, stubs().targets} {
		for p := range list {
			_, _ = m.Import(p)
			for _, f := range m.packages[p].files {
				require.False(t, f.broken, p)
				for _, e := range f.errors {
					require.Regexp(t, "^could not import |missing function body", e, p)
				}
			}
		}
	}
	for symbol := range goRows {
		parts := strings.Split(strings.TrimSuffix(symbol, "()"), ".")
		found := false
		for _, p := range paths[parts[0]] {
			pkg, _ := m.Import(p)
			found = found || pkg.Scope().Lookup(parts[1]) != nil
		}
		require.True(t, found, symbol)
	}
}
