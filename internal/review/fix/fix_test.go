// SPDX-License-Identifier: Apache-2.0

package fix_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/review/check/checktest"
	"assay/internal/review/fix"
	"assay/internal/review/patch"
	"assay/internal/review/treesitter"
)

var parser = sync.OnceValues(func() (*treesitter.Parser, error) { return review.NewParser(context.Background(), "") })

// repository is a directory with files.
type repository struct {
	*testing.T
	dir  string
	root *os.Root
}

func newRepository(t *testing.T, files map[string]string) *repository {
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o700)) // no umask changes this mode
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return &repository{t, dir, root}
}

func (r *repository) review(only ...string) []review.Finding {
	r.Helper()
	p, err := parser()
	require.NoError(r, err)
	found, err := review.Run(r.Context(), review.Options{Root: r.dir, Only: only, Parser: p})
	require.NoError(r, err)
	require.Empty(r, found.Errors)
	return found.Findings
}

func (r *repository) patch(findings []review.Finding) *fix.Patch {
	r.Helper()
	p, err := parser()
	require.NoError(r, err)
	patch, err := fix.Make(r.Context(), r.root, p, findings)
	require.NoError(r, err)
	return patch
}

func (r *repository) read(name string) string {
	r.Helper()
	text, err := r.root.ReadFile(filepath.FromSlash(name))
	require.NoError(r, err)
	return string(text)
}

// TestExamples fixes every example of every check: a fix removes its finding, causes no other finding, and a second run
// changes nothing.
func TestExamples(t *testing.T) {
	examples := checktest.Examples(t)
	for _, c := range check.All() {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			fixed := 0
			for _, e := range examples[c.ID] {
				t.Run(e.Name, func(t *testing.T) {
					r := newRepository(t, e.Files)
					before := r.review()
					patch := r.patch(before)
					require.Empty(t, patch.Left)
					var diff bytes.Buffer
					require.NoError(t, patch.Diff(&diff))
					require.NoError(t, patch.Apply(r.root))
					after := r.review()
					expected := map[string]int{} // findings without a fix
					for _, f := range before {
						if f.Fixable && f.Check == c.ID {
							fixed++
						}
						if !f.Fixable {
							expected[f.Check]++
						}
					}
					for _, f := range after {
						expected[f.Check]--
						require.GreaterOrEqual(t, expected[f.Check], 0, "%s %s is new or not fixed:\n%s", f.Check, f.Detail.Subject, diff.String())
					}
					again := r.patch(after)
					require.Empty(t, again.Files)
					requireUntouched(t, patch)
				})
			}
			if c.Fixable {
				require.NotZero(t, fixed, "no example has a fix")
			} else {
				require.Zero(t, fixed)
			}
		})
	}
}

// requireUntouched requires that git creates the same files from the diff, and that only lines of the diff differ.
func requireUntouched(t *testing.T, p *fix.Patch) {
	t.Helper()
	if len(p.Files) == 0 {
		return
	}
	dir := t.TempDir()
	var diff bytes.Buffer
	require.NoError(t, p.Diff(&diff))
	for _, f := range p.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, f.Before, 0o644))
	}
	cmd := exec.CommandContext(t.Context(), "git", "apply", "--whitespace=nowarn", "-")
	cmd.Dir, cmd.Stdin = dir, &diff
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, f := range p.Files {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		require.NoError(t, err)
		require.Equal(t, string(f.After), string(got))
	}
}

func finding(path string, edits ...check.Edit) review.Finding {
	return review.Finding{Fixable: true, Locations: []review.Location{{File: path, Line: 1}}, Detail: &review.Detail{Edits: edits}}
}

func TestMake(t *testing.T) {
	edit := func(start, end int, text string) check.Edit { return check.Edit{Start: start, End: end, Text: text} }
	for name, tt := range map[string]struct {
		findings []review.Finding
		want     string
		left     int
		rejected int
	}{
		"two":                           {[]review.Finding{finding("a.txt", edit(6, 9, "TWO")), finding("a.txt", edit(0, 3, "ONE"))}, "ONE + TWO\r\n", 0, 0},
		"equal edits count once":        {[]review.Finding{finding("a.txt", edit(0, 0, "x")), finding("a.txt", edit(0, 0, "x"), edit(9, 9, "y"))}, "xone + twoy\r\n", 0, 0},
		"insertions at one place":       {[]review.Finding{finding("a.txt", edit(3, 3, "x")), finding("a.txt", edit(3, 3, "y"))}, "onexy + two\r\n", 0, 0},
		"an overlap is left, whole":     {[]review.Finding{finding("a.txt", edit(0, 4, "x")), finding("a.txt", edit(3, 5, "y"), edit(9, 9, "z"))}, "x+ two\r\n", 1, 0},
		"a range beyond the file":       {[]review.Finding{finding("a.txt", edit(9, 12, "x"))}, "", 1, 0},
		"a reversed range":              {[]review.Finding{finding("a.txt", edit(5, 2, "x"))}, "", 1, 0},
		"a source that no longer reads": {[]review.Finding{finding("a.go", edit(0, 7, "x"))}, "", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t, map[string]string{"a.txt": "one + two\r\n", "a.go": "package a\n"})
			p := r.patch(tt.findings)
			require.Len(t, p.Left, tt.left)
			require.Len(t, p.Rejected, tt.rejected)
			if tt.want == "" {
				require.Empty(t, p.Files)
				return
			}
			require.Equal(t, tt.want, string(p.Files[0].After))
			require.NoError(t, p.Apply(r.root))
			require.Equal(t, tt.want, r.read("a.txt"))
			info, err := r.root.Stat("a.txt")
			require.NoError(t, err)
			require.EqualValues(t, 0o700, info.Mode().Perm())
		})
	}
}

// TestOverlaps fixes sources in which fixes are adjacent: the source parses after each run, and no finding is left
// after the last.
func TestOverlaps(t *testing.T) {
	python := func(body string) string {
		return "from opentelemetry import trace\n\ntracer = trace.get_tracer(__name__)\n\n\ndef f(id, email, n):\n" + body
	}
	javaScript := func(body string) string {
		return "const { trace } = require('@opentelemetry/api');\nconst tracer = trace.getTracer('m');\nasync function f(id, email, n) {\n" + body + "}\n"
	}
	golang := func(body string) string {
		return "package m\n\nimport (\n\t\"context\"\n\n\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/attribute\"\n)\n\nfunc f(ctx context.Context, id, email string, n int) {\n" + body + "}\n"
	}
	for name, tt := range map[string]struct{ file, source, want string }{
		"Python, the first line is removed": {
			"m.py",
			python("    span = tracer.start_span(\"order\")\n    span.set_attribute(\"user.email\", email)\n    if n > 2:\n        return\n    span.end()\n"),
			python("    with tracer.start_as_current_span(\"order\") as span:\n        if n > 2:\n            return\n"),
		},
		"Python, tabs": {
			"m.py",
			python("\tspan = tracer.start_span(\"order\")\n\tif n > 2:\n\t\treturn\n\tspan.end()\n"),
			python("\twith tracer.start_as_current_span(\"order\") as span:\n\t\tif n > 2:\n\t\t\treturn\n"),
		},
		"Python, two spaces": {
			"m.py",
			python("  span = tracer.start_span(\"order\")\n  if n > 2:\n    return\n  span.end()\n"),
			python("  with tracer.start_as_current_span(\"order\") as span:\n    if n > 2:\n      return\n"),
		},
		"Python, a line in the middle": {
			"m.py",
			python("    span = tracer.start_span(\"order\")\n    work()\n    span.set_attribute(\"user.email\", email)\n    if n > 2:\n        return\n    span.end()\n"),
			python("    with tracer.start_as_current_span(\"order\") as span:\n        work()\n        if n > 2:\n            return\n"),
		},
		"Python, the first line of a block": {
			"m.py",
			python("    span = tracer.start_span(\"order\")\n    if n > 2:\n        span.set_attribute(\"user.email\", email)\n        return\n    span.end()\n"),
			python("    with tracer.start_as_current_span(\"order\") as span:\n        if n > 2:\n            return\n"),
		},
		"Python, all of a block": {
			"m.py",
			python("    with tracer.start_as_current_span(\"order\") as span:\n        if n > 2:\n            span.set_attribute(\"user.email\", email)\n            span.set_attribute(\"user.phone\", \"+49 30 901820\")\n        work()\n"),
			python("    with tracer.start_as_current_span(\"order\") as span:\n        if n > 2:\n            span.set_attribute(\"user.phone\", \"+49 30 901820\")\n        work()\n"),
		},
		"Go": {
			"m.go",
			golang("\tctx, span := otel.Tracer(\"m\").Start(ctx, \"order\")\n\tspan.SetAttributes(attribute.String(\"user.email\", email))\n\tif n > 2 {\n\t\treturn\n\t}\n\twork(ctx)\n\tspan.End()\n"),
			strings.Replace(golang("\tctx, span := otel.Tracer(\"m\").Start(ctx, \"order\")\n\tdefer span.End()\n\tif n > 2 {\n\t\treturn\n\t}\n\twork(ctx)\n"), "\t\"go.opentelemetry.io/otel/attribute\"\n", "", 1),
		},
		"JavaScript": {
			"m.js",
			javaScript("  const span = tracer.startSpan('order');\n  span.setAttribute('user.email', email);\n  if (n > 2) {\n    return;\n  }\n  await work();\n  span.end();\n"),
			javaScript("  const span = tracer.startSpan('order');\n  try {\n    if (n > 2) {\n      return;\n    }\n    await work();\n  } finally {\n    span.end();\n  }\n"),
		},
		"JavaScript, all attributes of a chain": {
			"m.js",
			javaScript("  work();\n  trace.getActiveSpan().setAttribute('user.email', email).setAttribute('user.phone', email.phone);\n"),
			javaScript("  work();\n"),
		},
		"JavaScript, attributes of a chain": {
			"m.js",
			javaScript("  trace.getActiveSpan().setAttribute('a', n).setAttribute('user.email', email)\n    .setAttributes({ 'user.phone': email.phone }).setAttribute('b', n).setAttribute('b.email', email);\n"),
			javaScript("  trace.getActiveSpan().setAttribute('a', n).setAttribute('b', n);\n"),
		},
		"Java, an attribute of a chain": {
			"M.java",
			"import io.opentelemetry.api.trace.Span;\n\nclass M {\n  void f(String email, int n) {\n    Span.current().setAttribute(\"n\", n).setAttribute(\"user.email\", email);\n  }\n}\n",
			"import io.opentelemetry.api.trace.Span;\n\nclass M {\n  void f(String email, int n) {\n    Span.current().setAttribute(\"n\", n);\n  }\n}\n",
		},
		"JavaScript, two spans": {
			"m.js",
			javaScript("  const a = tracer.startSpan('a');\n  const b = tracer.startSpan('b');\n  if (n > 2) {\n    return;\n  }\n  b.end();\n  a.end();\n"),
			javaScript("  const a = tracer.startSpan('a');\n  try {\n    const b = tracer.startSpan('b');\n    try {\n      if (n > 2) {\n        return;\n      }\n    } finally {\n      b.end();\n    }\n  } finally {\n    a.end();\n  }\n"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t, map[string]string{tt.file: tt.source})
			p, err := parser()
			require.NoError(t, err)
			for run := 0; ; run++ {
				require.Less(t, run, 4)
				fixed := r.patch(r.review())
				if len(fixed.Files) == 0 {
					break
				}
				require.NoError(t, fixed.Apply(r.root))
				require.True(t, patch.Parses(t.Context(), p, tt.file, []byte(r.read(tt.file))), "%s", r.read(tt.file))
			}
			require.Equal(t, tt.want, r.read(tt.file))
		})
	}
}

// TestLists removes each subset of four attributes of a list in one run. The other attributes stay, and no comma or empty
// call without a purpose does.
func TestLists(t *testing.T) {
	const golang = "package a\n\nimport (\n\t\"go.opentelemetry.io/otel/attribute\"\n\t\"go.opentelemetry.io/otel/trace\"\n)\n\nfunc f(span trace.Span, all []attribute.KeyValue, u *User) {\n\twork()\n\t"
	const javaScript = "const { trace } = require('@opentelemetry/api');\n\nexports.f = (u) => {\n\twork();\n\t"
	const python = "from opentelemetry import trace\n\n\ndef f(u):\n\twork()\n\t"
	const goKey, key = `attribute.String("KEY.email", u.Email)`, `'KEY.email': u.email`
	statements := map[string]struct {
		file, before, after, attribute string
		statement, empty               string // with LIST, and without attributes
	}{
		"Go":                   {"a.go", golang, "\n}\n", goKey, `span.SetAttributes(LIST)`, ""},
		"Go, an option":        {"a.go", golang, "\n}\n", goKey, `span.AddEvent("a", trace.WithAttributes(LIST))`, `span.AddEvent("a")`},
		"Go, a slice":          {"a.go", golang, "\n\tspan.SetAttributes(all...)\n}\n", goKey, `all = []attribute.KeyValue{LIST}`, `all = []attribute.KeyValue{}`},
		"Go, append":           {"a.go", golang, "\n}\n", goKey, `span.SetAttributes(append(all, LIST)...)`, `span.SetAttributes(all...)`},
		"JavaScript":           {"a.js", javaScript, "\n};\n", key, `trace.getActiveSpan().setAttributes({LIST});`, ""},
		"JavaScript, an event": {"a.js", javaScript, "\n};\n", key, `trace.getActiveSpan().addEvent('a', {LIST});`, `trace.getActiveSpan().addEvent('a');`},
		"JavaScript, options":  {"a.js", javaScript, "\n};\n", key, `trace.getTracer('a').startSpan('a', {attributes: {LIST}}).end();`, `trace.getTracer('a').startSpan('a').end();`},
		"TypeScript, a map":    {"a.ts", strings.Replace(javaScript, "(u)", "(u: User)", 1), "\n\ttrace.getActiveSpan()?.setAttributes(all);\n};\n", key, `const all = {LIST};`, `const all = {};`},
		"Python":               {"a.py", python, "\n", key, `trace.get_current_span().set_attributes({LIST})`, ""},
		"Python, an event":     {"a.py", python, "\n", key, `trace.get_current_span().add_event('a', attributes={LIST})`, `trace.get_current_span().add_event('a')`},
	}
	ignored := regexp.MustCompile(`(#|//).*|/\*.*?\*/|\s`)
	code := func(source string) string {
		_, body, _ := strings.Cut(source, "work()")
		return strings.NewReplacer(",)", ")", ",}", "}").Replace(ignored.ReplaceAllString(body, ""))
	}
	for layout, list := range map[string]string{
		"one line":               "A, B, C, D",
		"one line, comma":        "A, B, C, D,",
		"two lines":              "A, B,\n\tC, D",
		"many lines":             "\n\t\tA,\n\t\tB,\n\t\tC,\n\t\tD\n\t",
		"many lines, comma":      "\n\t\tA,\n\t\tB,\n\t\tC,\n\t\tD,\n\t",
		"two on a line, comma":   "\n\t\tA, B,\n\t\tC, D,\n\t",
		"comments":               "\n\t\tA, # one\n\t\tB,\n\t\t# two\n\t\tC, # three\n\t\tD # four\n\t",
		"comments, comma":        "\n\t\t# one\n\t\tA, # two\n\t\tB,\n\t\t# three\n\t\tC,\n\n\t\t# four\n\t\tD, # five\n\t",
		"block comments":         "A /* one */, B, /* three */ C, D /* four */",
		"block comments, lines":  "\n\t\tA, /* one */\n\t\t/* two */ B, C, /* three */\n\t\t/* four */ D,\n\t",
		"comments before commas": "\n\t\tA # one\n\t\t, B # two\n\t\t, C # three\n\t\t, D\n\t",
	} {
		for name, tt := range statements {
			if strings.Contains(list, "/*") && tt.before == python {
				continue
			}
			if tt.attribute == goKey && slices.Contains([]string{"many lines", "comments", "comments before commas"}, layout) {
				continue // a list of Go ends with a comma if its last line does
			}
			t.Run(name+", "+layout, func(t *testing.T) {
				t.Parallel()
				attributes := strings.Split("ABCD", "")
				list := list
				for i, a := range attributes {
					attributes[i] = strings.Replace(tt.attribute, "KEY", a, 1)
					list = strings.Replace(list, a, attributes[i], 1)
				}
				if tt.before != python {
					list = strings.ReplaceAll(list, "#", "//")
				}
				r := newRepository(t, map[string]string{tt.file: tt.before + strings.Replace(tt.statement, "LIST", list, 1) + tt.after})
				found := slices.DeleteFunc(r.review("sensitive-attribute"), func(f review.Finding) bool { return !f.Fixable })
				require.Len(t, found, len(attributes))
				for set := 1; set < 1<<len(found); set++ {
					var some []review.Finding
					left := slices.Clone(attributes)
					for i, f := range found {
						if set&(1<<i) != 0 {
							some = append(some, f)
							left = slices.DeleteFunc(left, func(a string) bool { return strings.Contains(a, f.Detail.Subject) })
						}
					}
					want := tt.empty
					if len(left) > 0 {
						want = strings.Replace(tt.statement, "LIST", strings.Join(left, ","), 1)
					}
					fixed := r.patch(some)
					require.Empty(t, fixed.Left)
					require.Equal(t, code(tt.before+want+tt.after), code(string(fixed.Files[0].After)))
				}
			})
		}
	}
}

// TestLargeFile checks that fixes that together make a file too large to parse take little more work for a multiple of
// the findings, and that the patch has the ones that fit.
func TestLargeFile(t *testing.T) {
	work := func(n int) uint64 {
		line := "x = 'a'\n"
		text := strings.Repeat(line, n)
		text += "#" + strings.Repeat(".", patch.MaxFile-4*n-len(text)-2) + "\n"
		r := newRepository(t, map[string]string{"a.py": text})
		var findings []review.Finding
		for i := range n {
			findings = append(findings, finding("a.py", check.Edit{Start: i*len(line) + 5, End: i*len(line) + 6, Text: "123456789"}))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := r.patch(findings)
		runtime.ReadMemStats(&after)
		require.Greater(t, len(p.Fixed), n/8)
		require.Len(t, p.Rejected, n-len(p.Fixed))
		return after.TotalAlloc - before.TotalAlloc
	}
	require.Less(t, work(1600), 4*work(200))
}

// TestBrokenFile checks that a span whose end may lie in a part of the file that the grammar does not parse has no fix.
func TestBrokenFile(t *testing.T) {
	r := newRepository(t, map[string]string{"m.py": "from opentelemetry import trace\n\ntracer = trace.get_tracer(__name__)\n\n\ndef f(n):\n    span = tracer.start_span('order')\n    if n > 2:\n        return (1 +\n  2)\n    # comment\n    span.end()\n"})
	p, err := parser()
	require.NoError(t, err)
	found, err := review.Run(t.Context(), review.Options{Root: r.dir, Only: []string{"span-not-ended"}, Parser: p})
	require.NoError(t, err)
	require.Len(t, found.Errors, 1)
	require.NotEmpty(t, found.Findings)
	require.Empty(t, r.patch(found.Findings).Files)
}

func TestApplyRefuses(t *testing.T) {
	r := newRepository(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n"})
	p := r.patch([]review.Finding{finding("a.txt", check.Edit{End: 3, Text: "1"})})
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "a.txt"), []byte("new\n"), 0o600))
	require.ErrorContains(t, p.Apply(r.root), "changed meanwhile")
	require.Equal(t, "new\n", r.read("a.txt"))

	require.NoError(t, os.Remove(filepath.Join(r.dir, "a.txt")))
	require.NoError(t, os.Symlink("b.txt", filepath.Join(r.dir, "a.txt")))
	require.Error(t, p.Apply(r.root))
	require.Equal(t, "two\n", r.read("b.txt"))
	entries, err := os.ReadDir(r.dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "no temporary file stays")

	parsers, err := parser()
	require.NoError(t, err)
	_, err = fix.Make(t.Context(), r.root, parsers, []review.Finding{finding("../" + strings.Repeat("x", 9))})
	require.Error(t, err)
}

var update = flag.Bool("update", false, "rewrite testdata")

// TestLanguages fixes files with the mistakes of every check in several languages.
func TestLanguages(t *testing.T) {
	files, err := filepath.Glob("../check/testdata/[Oo]rder.*")
	require.NoError(t, err)
	files = append(files, "testdata/order.go.txt", "testdata/quotes.js.txt")
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			r := newRepository(t, map[string]string{"shop/" + name: string(source)})
			before := r.review()
			patch := r.patch(before)
			require.Empty(t, patch.Left)
			require.Len(t, patch.Files, 1)
			requireUntouched(t, patch)
			require.NoError(t, patch.Apply(r.root))
			golden := filepath.Join("testdata", name+".fixed")
			if *update {
				require.NoError(t, os.WriteFile(golden, patch.Files[0].After, 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), string(patch.Files[0].After))
			left := map[string]int{}
			for _, f := range before {
				if !f.Fixable {
					left[f.Check]++
				}
			}
			after := r.review()
			for _, f := range after {
				left[f.Check]--
				require.False(t, f.Fixable, "%s:%d is not fixed", f.Check, f.Locations[0].Line)
			}
			for id, n := range left {
				require.Zero(t, n, id)
			}
		})
	}
}

// TestLineEnds checks that added lines have the line endings of the file.
func TestLineEnds(t *testing.T) {
	const java = "import io.opentelemetry.api.trace.Span;\n\nclass A {\n    void f() {\n        Span span = tracer.spanBuilder(\"f\").startSpan();\n        if (work()) {\n            return;\n        }\n        span.end();\n    }\n}\n"
	for name, text := range map[string]string{"line feeds": java, "carriage returns": strings.ReplaceAll(java, "\n", "\r\n"), "both": strings.Replace(java, "\n", "\r\n", 1)} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t, map[string]string{"A.java": text})
			patch := r.patch(r.review())
			require.Len(t, patch.Files, 1)
			after := string(patch.Files[0].After)
			require.Contains(t, after, "finally")
			switch name {
			case "line feeds":
				require.NotContains(t, after, "\r")
			case "both":
				require.Equal(t, 1, strings.Count(after, "\r\n"))
			default:
				require.Equal(t, strings.Count(after, "\n"), strings.Count(after, "\r\n"))
			}
		})
	}
}

// TestGoVariablesStayUsed checks that fixes keep a variable that only the removed attributes of several findings use,
// because the file would not compile.
func TestGoVariablesStayUsed(t *testing.T) {
	r := newRepository(t, map[string]string{"a.go": `package a

import (
	"context"
	"flag"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
)

func f(ctx context.Context, user *User) {
	_, span := otel.Tracer("a").Start(ctx, "f")
	defer span.End()
	email := user.Email
	span.SetAttributes(attribute.String("user.email", email))
	span.SetAttributes(attribute.String("enduser.email", email))
}
`})
	patch := r.patch(r.review("sensitive-attribute"))
	require.Empty(t, patch.Left)
	require.Len(t, patch.Rejected, 1)
	require.NoError(t, patch.Apply(r.root))
	require.Contains(t, r.read("a.go"), ", email))")
	require.Empty(t, r.patch(r.review("sensitive-attribute")).Files)
}

// TestFixes fixes one finding of a file.
func TestFixes(t *testing.T) {
	const python = "from opentelemetry import trace\n\ntracer = trace.get_tracer('a')\n\n\n"
	const javaScript = "const { trace, metrics } = require('@opentelemetry/api');\n\n"
	const java = "import io.opentelemetry.api.common.AttributeKey;\nimport io.opentelemetry.api.trace.Span;\n\nclass A {\n"
	golang := checktest.GoFile
	for name, tt := range map[string]struct {
		check, file, before string
		after               string // "" if the finding has no fix
	}{
		"a name with a field": {
			"span-name-dynamic", "a.go", golang("func f(ctx context.Context, s *shop.Shipment) {\n\t_, span := tracer.Start(ctx, fmt.Sprintf(\"load %s\", s.ID))\n\tdefer span.End()\n}\n"),
			golang("func f(ctx context.Context, s *shop.Shipment) {\n\t_, span := tracer.Start(ctx, \"load\", trace.WithAttributes(attribute.String(\"shipment.id\", fmt.Sprint(s.ID))))\n\tdefer span.End()\n}\n"),
		},
		"a name with a type": {
			"span-name-dynamic", "a.go", golang("func f(ctx context.Context, number int) {\n\tcmd := next()\n\t_, span := tracer.Start(ctx, fmt.Sprintf(\"run %T %x\", cmd, number))\n\tdefer span.End()\n}\n"),
			golang("func f(ctx context.Context, number int) {\n\tcmd := next()\n\t_, span := tracer.Start(ctx, \"run\", trace.WithAttributes(attribute.String(\"cmd.type\", fmt.Sprintf(\"%T\", cmd)), attribute.String(\"number\", fmt.Sprintf(\"%x\", number))))\n\tdefer span.End()\n}\n"),
		},
		"a name with one variable in several forms": {
			"span-name-dynamic", "a.go", golang("func f(ctx context.Context, number int) {\n\t_, span := tracer.Start(ctx, fmt.Sprintf(\"run %d (%x)\", number, number))\n\tdefer span.End()\n}\n"), "",
		},
		"a name with arguments by index": {
			"span-name-dynamic", "a.go", golang("func f(ctx context.Context, number int) {\n\t_, span := tracer.Start(ctx, fmt.Sprintf(\"run %[2]d %[1]T\", load, number))\n\tdefer span.End()\n}\n"), "",
		},
		"a name before arguments by name": {
			"span-name-dynamic", "a.py", python + "def f(order):\n    with tracer.start_as_current_span(f'load {order}', kind=trace.SpanKind.CLIENT):\n        work()\n",
			python + "def f(order):\n    with tracer.start_as_current_span('load', attributes={'order': order}, kind=trace.SpanKind.CLIENT):\n        work()\n",
		},
		"attributes may be among other arguments": {
			"span-name-dynamic", "a.py", python + "def f(order, **more):\n    with tracer.start_as_current_span(f'load {order}', kind=trace.SpanKind.CLIENT, **more):\n        work()\n", "",
		},
		"a name for a function of the project, Python": {
			"span-name-dynamic", "a.py", python + "from a import traced_span\n\ndef f(order):\n    with traced_span(f'load {order}') as span:\n        work()\n", "",
		},
		"a name for a function of the project, JavaScript": {
			"span-name-dynamic", "a.js", javaScript + "const { withSpan } = require('./tracing');\nexports.load = (order) => withSpan(`load ${order}`, async (span) => work(span));\n", "",
		},
		"a constant that is also a key of a map, Go": {
			"semconv-deprecated", "a.go", golang("func f(fields map[string]string, m string) {\n\tkey := \"http.method\"\n\ttrace.SpanFromContext(ctx).SetAttributes(attribute.String(key, m))\n\tfields[key] = m\n}\n"), "",
		},
		"a constant of a function, Go": {
			"semconv-deprecated", "a.go", golang("func f(m string) {\n\tkey := \"http.method\"\n\ttrace.SpanFromContext(ctx).SetAttributes(attribute.String(key, m))\n}\n\nfunc g(key string) { h(key) }\n"),
			golang("func f(m string) {\n\tkey := \"http.request.method\"\n\ttrace.SpanFromContext(ctx).SetAttributes(attribute.String(key, m))\n}\n\nfunc g(key string) { h(key) }\n"),
		},
		"a constant of a package, Go": {
			"semconv-deprecated", "a.go", golang("const methodKey = \"http.method\"\n\nfunc f(m string) {\n\ttrace.SpanFromContext(ctx).SetAttributes(attribute.String(methodKey, m))\n}\n"), "",
		},
		"a key of a package, Go": {
			"semconv-deprecated", "a.go", golang("const methodKey = attribute.Key(\"http.method\")\n\nfunc f(m string) {\n\ttrace.SpanFromContext(ctx).SetAttributes(methodKey.String(m))\n}\n"),
			golang("const methodKey = attribute.Key(\"http.request.method\")\n\nfunc f(m string) {\n\ttrace.SpanFromContext(ctx).SetAttributes(methodKey.String(m))\n}\n"),
		},
		"a key that is also a text, Go": {
			"semconv-deprecated", "a.go", golang("const methodKey = attribute.Key(\"http.method\")\n\nfunc f(m string) {\n\ttrace.SpanFromContext(ctx).SetAttributes(methodKey.String(m))\n\tslog.Info(\"a\", string(methodKey), m)\n}\n"), "",
		},
		"a constant that is also a key of an object, JavaScript": {
			"semconv-deprecated", "a.js", javaScript + "const KEY = 'http.method';\nexports.f = (row, m) => {\n  trace.getActiveSpan()?.setAttribute(KEY, m);\n  row[KEY] = m;\n};\n", "",
		},
		"a constant that is exported, JavaScript": {
			"semconv-deprecated", "a.mjs", "import { trace } from '@opentelemetry/api';\n\nexport const KEY = 'http.method';\nexport const f = (m) => trace.getActiveSpan()?.setAttribute(KEY, m);\n", "",
		},
		"a constant that is exported later, JavaScript": {
			"semconv-deprecated", "a.mjs", "import { trace } from '@opentelemetry/api';\n\nconst KEY = 'http.method';\ntrace.getActiveSpan()?.setAttribute(KEY, m);\nexport { KEY };\n", "",
		},
		"a constant that is exported as default, JavaScript": {
			"semconv-deprecated", "a.mjs", "import { trace } from '@opentelemetry/api';\n\nconst KEY = 'http.method';\ntrace.getActiveSpan()?.setAttribute(KEY, m);\nexport default KEY;\n", "",
		},
		"a constant of a module, JavaScript": {
			"semconv-deprecated", "a.js", javaScript + "const KEY = 'http.method';\nexports.f = (m) => trace.getActiveSpan()?.setAttribute(KEY, m);\n",
			javaScript + "const KEY = 'http.request.method';\nexports.f = (m) => trace.getActiveSpan()?.setAttribute(KEY, m);\n",
		},
		"a name of a metric that is also a key of a map, JavaScript": {
			"metric-name-unit", "a.js", javaScript + "const NAME = 'queue_wait_ms';\nexports.h = metrics.getMeter('a').createHistogram(NAME, { unit: 'ms' });\nexports.cache = new Map([[NAME, 1]]);\n", "",
		},
		"a name of a metric of a module, JavaScript": {
			"metric-name-unit", "a.js", javaScript + "const NAME = 'queue_wait_ms';\nexports.h = metrics.getMeter('a').createHistogram(NAME, { unit: 'ms' });\n",
			javaScript + "const NAME = 'queue_wait';\nexports.h = metrics.getMeter('a').createHistogram(NAME, { unit: 'ms' });\n",
		},
		"a name of a metric of which only the namespace would be left, JavaScript": {
			"metric-name-unit", "a.js", javaScript + "exports.h = metrics.getMeter('a').createHistogram('upload.bytes', { unit: 'By' });\n", "",
		},
		"a constant that is a unit, JavaScript": {
			"metric-unit", "a.js", javaScript + "const UNIT = 'seconds';\nexports.h = metrics.getMeter('a').createHistogram('wait', { unit: UNIT });\nexports.f = (n) => format(n, UNIT);\n", "",
		},
		"a constant of a module, Python": {
			"semconv-deprecated", "a.py", python + "KEY = 'http.method'\n\ndef f(m):\n    trace.get_current_span().set_attribute(KEY, m)\n", "",
		},
		"a private constant, Python": {
			"semconv-deprecated", "a.py", python + "_KEY = 'http.method'\n\ndef f(m):\n    trace.get_current_span().set_attribute(_KEY, m)\n",
			python + "_KEY = 'http.request.method'\n\ndef f(m):\n    trace.get_current_span().set_attribute(_KEY, m)\n",
		},
		"a private constant that is also a key of a dict, Python": {
			"semconv-deprecated", "a.py", python + "_KEY = 'http.method'\n\ndef f(row, m):\n    trace.get_current_span().set_attribute(_KEY, m)\n    row[_KEY] = m\n", "",
		},
		"a constant of a package, Java": {
			"semconv-deprecated", "A.java", java + "  static final String KEY = \"http.method\";\n  void f(String m) { Span.current().setAttribute(KEY, m); }\n}\n", "",
		},
		"a private constant, Java": {
			"semconv-deprecated", "A.java", java + "  private static final String KEY = \"http.method\";\n  void f(String m) { Span.current().setAttribute(KEY, m); }\n}\n",
			java + "  private static final String KEY = \"http.request.method\";\n  void f(String m) { Span.current().setAttribute(KEY, m); }\n}\n",
		},
		"a private constant that is also a key of a map, Java": {
			"semconv-deprecated", "A.java", java + "  private static final String KEY = \"http.method\";\n  void f(Map<String, String> row, String m) { Span.current().setAttribute(KEY, m); row.put(KEY, m); }\n}\n", "",
		},
		"a value that the successor keeps": {
			"semconv-deprecated", "a.go", golang("func f() { span.SetAttributes(attribute.String(\"db.system\", \"mysql\")) }\n"),
			golang("func f() { span.SetAttributes(attribute.String(\"db.system.name\", \"mysql\")) }\n"),
		},
		"a value that the successor has under another name": {
			"semconv-deprecated", "a.go", golang("func f() { span.SetAttributes(attribute.String(\"db.system\", \"mssql\")) }\n"),
			golang("func f() { span.SetAttributes(attribute.String(\"db.system.name\", \"microsoft.sql_server\")) }\n"),
		},
		"a value that the successor has under another name, Python": {
			"semconv-deprecated", "a.py", python + "def f():\n    trace.get_current_span().set_attributes({'net.transport': 'ip_tcp'})\n",
			python + "def f():\n    trace.get_current_span().set_attributes({'network.transport': 'tcp'})\n",
		},
		"a value that the successor does not have": {
			"semconv-deprecated", "a.go", golang("func f() { span.SetAttributes(attribute.String(\"net.transport\", \"inproc\")) }\n"), "",
		},
		"a value that is not known": {
			"semconv-deprecated", "a.go", golang("func f(driver string) { span.SetAttributes(attribute.String(\"db.system\", driver)) }\n"), "",
		},
		"a key with values that are not known": {
			"semconv-deprecated", "a.go", golang("const system = attribute.Key(\"db.system\")\n\nfunc f() { span.SetAttributes(system.String(\"mssql\")) }\n"), "",
		},
		"a span that ends before the work does, Go": {
			"span-not-ended", "a.go", golang("func f(ctx context.Context) error {\n\tctx, span := tracer.Start(ctx, \"f\")\n\tif err := work(ctx); err != nil {\n\t\treturn err\n\t}\n\tspan.End()\n\treturn slow(ctx)\n}\n"), "",
		},
		"a span that ends in a branch before the work does, Go": {
			"span-not-ended", "a.go", golang("func f(ctx context.Context) error {\n\tctx, span := tracer.Start(ctx, \"f\")\n\tif err := work(ctx); err != nil {\n\t\treturn err\n\t}\n\tif ready {\n\t\tspan.End()\n\t}\n\treturn slow(ctx)\n}\n"), "",
		},
		"a span that ends at the end, Go": {
			"span-not-ended", "a.go", golang("func f(ctx context.Context) error {\n\tctx, span := tracer.Start(ctx, \"f\")\n\tif err := work(ctx); err != nil {\n\t\treturn err\n\t}\n\tspan.End()\n\treturn ctx.Err()\n}\n"),
			golang("func f(ctx context.Context) error {\n\tctx, span := tracer.Start(ctx, \"f\")\n\tdefer span.End()\n\tif err := work(ctx); err != nil {\n\t\treturn err\n\t}\n\treturn ctx.Err()\n}\n"),
		},
		"a span that ends before the work does, JavaScript": {
			"span-not-ended", "a.js", javaScript + "exports.f = async (id) => {\n  const span = trace.getTracer('a').startSpan('f');\n  if (!id) {\n    return 1;\n  }\n  span.end();\n  return await slow(id);\n};\n", "",
		},
		"a span of a loop, JavaScript": {
			"span-not-ended", "a.js", javaScript + "exports.f = (ids) => {\n  for (const id of ids) {\n    const span = trace.getTracer('a').startSpan('f');\n    if (!id) {\n      continue;\n    }\n    work(id);\n    span.end();\n  }\n  slow();\n};\n",
			javaScript + "exports.f = (ids) => {\n  for (const id of ids) {\n    const span = trace.getTracer('a').startSpan('f');\n    try {\n      if (!id) {\n        continue;\n      }\n      work(id);\n    } finally {\n      span.end();\n    }\n  }\n  slow();\n};\n",
		},
		"a name that needs its variable": {
			"span-name-dynamic", "a.py", python + "def f(number):\n    with tracer.start_as_current_span(f'pkg-{number}.apk'):\n        work()\n", "",
		},
		"a name with an address": {
			"span-name-dynamic", "a.py", python + "def f(order):\n    with tracer.start_as_current_span(f'load https://example.com/{order}'):\n        work()\n", "",
		},
		"a name with the same separators": {
			"span-name-dynamic", "a.py", python + "def f(order):\n    with tracer.start_as_current_span(f'order.{order}.load'):\n        work()\n",
			python + "def f(order):\n    with tracer.start_as_current_span('order.load', attributes={'order': order}):\n        work()\n",
		},
		"a secret of a Compose file": {
			"secret-in-config", "compose.yaml", "services:\n  a:\n    image: a\n    environment:\n      COOKIE_SECRET: 2H9gNG9obnAQ9qnR9BDTQUph6CbXKCzF\n",
			"services:\n  a:\n    image: a\n    environment:\n      COOKIE_SECRET: ${COOKIE_SECRET}\n",
		},
		"a secret of a Compose file for development": {
			"secret-in-config", "compose.dev.yaml", "services:\n  a:\n    image: a\n    environment:\n      COOKIE_SECRET: 2H9gNG9obnAQ9qnR9BDTQUph6CbXKCzF\n", "",
		},
		"an attribute that is appended for a call": {
			"sensitive-attribute", "a.go", golang("func f(kv []attribute.KeyValue, user *User) {\n\tspan.SetAttributes(append(kv, attribute.String(\"user.email\", user.Email))...)\n}\n"),
			golang("func f(kv []attribute.KeyValue, user *User) {\n\tspan.SetAttributes(kv...)\n}\n"),
		},
		"an attribute that is appended to a variable": {
			"sensitive-attribute", "a.go", golang("func f(kv []attribute.KeyValue, user *User) {\n\tkv = append(kv, attribute.String(\"user.email\", user.Email))\n\tspan.SetAttributes(kv...)\n}\n"),
			golang("func f(kv []attribute.KeyValue, user *User) {\n\tspan.SetAttributes(kv...)\n}\n"),
		},
		"one of two attributes that are appended": {
			"sensitive-attribute", "a.go", golang("func f(kv []attribute.KeyValue, user *User) {\n\tkv = append(kv, attribute.String(\"user.email\", user.Email), attribute.String(\"user.id\", user.ID))\n\tspan.SetAttributes(kv...)\n}\n"),
			golang("func f(kv []attribute.KeyValue, user *User) {\n\tkv = append(kv, attribute.String(\"user.id\", user.ID))\n\tspan.SetAttributes(kv...)\n}\n"),
		},
		"a public key, Java": {
			"semconv-deprecated", "A.java", java + "  public static final AttributeKey<String> KEY = AttributeKey.stringKey(\"http.method\");\n  void f(String m) { Span.current().setAttribute(KEY, m); }\n}\n",
			java + "  public static final AttributeKey<String> KEY = AttributeKey.stringKey(\"http.request.method\");\n  void f(String m) { Span.current().setAttribute(KEY, m); }\n}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t, map[string]string{tt.file: tt.before})
			found := r.review(tt.check)
			require.Len(t, found, 1)
			p := r.patch(found)
			require.Empty(t, p.Left)
			if tt.after == "" {
				require.Empty(t, p.Files)
				return
			}
			require.Len(t, p.Files, 1)
			require.Equal(t, tt.after, string(p.Files[0].After))
		})
	}
}

// TestVariables checks that the environment variables of different secrets have different names.
func TestVariables(t *testing.T) {
	const one, two = "pR7vXc2mQ9wLz4Kt8Yb3", "Zk3nWq8sLx5vTm2cRb7Y"
	for name, tt := range map[string]struct {
		file, before string
		want         []string
	}{
		"components of a Collector": {
			"collector.yaml", "receivers:\n  postgresql:\n    password: " + one + "\nexporters:\n  otlp/a:\n    headers: {api-key: " + one + "}\n  otlp/b:\n    headers: {api-key: " + two + "}\n" +
				"  datadog:\n    api: {key: " + two + "}\nservice:\n  pipelines:\n    metrics: {receivers: [postgresql], exporters: [otlp/a, otlp/b, datadog]}\n",
			[]string{"password: \"${env:POSTGRESQL_PASSWORD}\"", "api-key: \"${env:OTLP_A_API_KEY}\"", "api-key: \"${env:OTLP_B_API_KEY}\"", "key: \"${env:DATADOG_API_KEY}\""},
		},
		"components whose names differ in signs": {
			"collector.yaml", "receivers:\n  otlp:\nexporters:\n  otlp/a-b:\n    headers: {api-key: " + one + "}\n  otlp/a_b:\n    headers: {api-key: " + two + "}\n" +
				"service:\n  pipelines:\n    metrics: {receivers: [otlp], exporters: [otlp/a-b, otlp/a_b]}\n",
			[]string{"api-key: \"${env:OTLP_A_B_API_KEY}\"", "api-key: \"${env:OTLP_A_B_API_KEY_2}\""},
		},
		"services of Compose": {
			"compose.yaml", "services:\n  a:\n    image: a\n    environment:\n      - JWT_SECRET=" + one + "\n  web-b:\n    image: b\n    environment:\n      JWT_SECRET: " + two + "\n",
			[]string{"JWT_SECRET=${A_JWT_SECRET}", "JWT_SECRET: ${WEB_B_JWT_SECRET}"},
		},
		"services of Compose with one secret": {
			"compose.yaml", "services:\n  a:\n    image: a\n    environment:\n      - JWT_SECRET=" + one + "\n  b:\n    image: b\n    environment:\n      JWT_SECRET: '" + one + "'\n",
			[]string{"JWT_SECRET=${JWT_SECRET}", "JWT_SECRET: ${JWT_SECRET}"},
		},
		"a variable of Compose that has a value": {
			"compose.yaml", "services:\n  a:\n    image: a\n    environment:\n      JWT_SECRET: " + one + "\n  b:\n    image: b\n    environment:\n      JWT_SECRET: ${JWT_SECRET:-}\n",
			[]string{"JWT_SECRET: ${A_JWT_SECRET}", "JWT_SECRET: ${JWT_SECRET:-}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t, map[string]string{tt.file: tt.before})
			p := r.patch(r.review("secret-in-config"))
			require.Len(t, p.Files, 1)
			require.Equal(t, tt.want, regexp.MustCompile(`[\w-]+(?:: |=)"?\$\{.*?\}"?`).FindAllString(string(p.Files[0].After), -1))
		})
	}
}

// TestContexts checks that a fix replaces a fresh context with the context at hand, unless the variable has another
// context by then, or the result of the call outlives the function.
func TestContexts(t *testing.T) {
	for name, c := range map[string]struct {
		code  string
		fixed string // "": nothing
	}{
		"a query":              {"func f(ctx context.Context, db *sql.DB) error {\n\t_, err := db.ExecContext(context.Background(), \"A\")\n\treturn err\n}\n", "db.ExecContext(ctx, "},
		"after a span":         {"func f(ctx context.Context, db *sql.DB) {\n\tctx, span := tracer.Start(ctx, \"f\")\n\tdefer span.End()\n\tdb.ExecContext(context.Background(), \"A\")\n}\n", "db.ExecContext(ctx, "},
		"rows":                 {"func f(ctx context.Context, db *sql.DB) error {\n\trows, err := db.QueryContext(context.Background(), \"A\")\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn rows.Close()\n}\n", ""}, // rows in a result
		"a request":            {"func f(w http.ResponseWriter, r *http.Request) {\n\treq, _ := http.NewRequestWithContext(context.Background(), \"GET\", \"http://a\", nil)\n\thttp.DefaultClient.Do(req)\n}\n", "http.NewRequestWithContext(r.Context(), "},
		"a timeout of its own": {"func f(ctx context.Context, db *sql.DB) {\n\tsend, cancel := context.WithTimeout(context.Background(), time.Second)\n\tdefer cancel()\n\tdb.ExecContext(send, \"A\")\n}\n", "context.WithTimeout(context.WithoutCancel(ctx), time.Second)"},
		"a deadline":           {"func f(ctx context.Context, db *sql.DB) (*sql.Tx, error) {\n\tctx, cancel := context.WithTimeout(ctx, time.Second)\n\tdefer cancel()\n\tdb.PingContext(ctx)\n\ttx, err := db.BeginTx(context.Background(), nil)\n\treturn tx, err\n}\n", ""},
		"a transaction":        {"func f(ctx context.Context, db *sql.DB) (*sql.Tx, error) {\n\treturn db.BeginTx(context.Background(), nil)\n}\n", ""},
		"a kept transaction":   {"func f(w http.ResponseWriter, r *http.Request, db *sql.DB, kept map[string]*sql.Tx) {\n\ttx, _ := db.BeginTx(context.Background(), nil)\n\tkept[r.FormValue(\"id\")] = tx\n}\n", ""},
		"a field":              {"func (s *server) f(ctx context.Context, db *sql.DB) {\n\ts.tx, _ = db.BeginTx(context.Background(), nil)\n}\n", ""},
		"a structure":          {"func f(ctx context.Context, db *sql.DB) *unit {\n\ttx, _ := db.BeginTx(context.Background(), nil)\n\treturn &unit{tx: tx}\n}\n", ""},
		"a goroutine":          {"func f(w http.ResponseWriter, r *http.Request) {\n\treq, _ := http.NewRequestWithContext(context.Background(), \"GET\", \"http://a\", nil)\n\tgo http.DefaultClient.Do(req)\n}\n", ""},
		"a function":           {"func f(w http.ResponseWriter, r *http.Request) {\n\treq, _ := http.NewRequestWithContext(context.Background(), \"GET\", \"http://a\", nil)\n\tgo func() {\n\t\thttp.DefaultClient.Do(req)\n\t}()\n}\n", ""},
		"another variable":     {"func f(ctx context.Context, db *sql.DB) {\n\tif true {\n\t\tctx := &unit{}\n\t\t_ = ctx\n\t\tdb.ExecContext(context.Background(), \"A\")\n\t}\n}\n", ""},
		"a variable of a loop": {"func f(w http.ResponseWriter, r *http.Request, db *sql.DB) {\n\tfor _, r := range []string{\"a\"} {\n\t\tdb.ExecContext(context.Background(), r)\n\t}\n}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			const imports = "package shop\n\nimport (\n\t\"context\"\n\t\"database/sql\"\n\t\"net/http\"\n\t\"time\"\n\n\t\"go.opentelemetry.io/otel\"\n)\n\nvar tracer = otel.Tracer(\"shop\")\n\n"
			r := newRepository(t, map[string]string{"shop.go": imports + c.code})
			found := r.review("context-lost")
			require.Len(t, found, 1)
			patch := r.patch(found)
			require.Equal(t, c.fixed != "", len(patch.Files) == 1)
			if c.fixed != "" {
				require.Contains(t, string(patch.Files[0].After), c.fixed)
			}
		})
	}
}
