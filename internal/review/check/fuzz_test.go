// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/check/checktest"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// FuzzSource runs the parser, package instrumentation and all checks on source code. They must not panic, and findings
// must lie in the file. The seeds are the examples, and the examples with one argument of a call changed: checks must
// not assume that a call has an argument, or that it is positional.
func FuzzSource(f *testing.F) {
	parser, err := treesitter.New(f.Context(), f.TempDir())
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, parser.Close(context.Background())) })
	parse := func(ctx context.Context, language byte, source string) (*syntax.File, error) {
		if l := syntax.Language(language); l != syntax.Go {
			return syntax.Parse(ctx, parser, "a", l, []byte(source))
		}
		return syntax.ParseGo("a.go", []byte(source))
	}
	add := func(path, source string) {
		l := byte(syntax.LanguageOf(path))
		if l == byte(syntax.Unknown) {
			return
		}
		f.Add(l, source)
		file, err := parse(f.Context(), l, source)
		require.NoError(f, err)
		for _, changed := range changeArguments(file) {
			f.Add(l, changed)
		}
	}
	examples := checktest.Examples(f)
	for _, c := range All() {
		for _, e := range examples[c.ID] {
			for path, source := range e.Files {
				add(path, source)
			}
		}
	}
	files, err := filepath.Glob("testdata/[Oo]rder.*")
	require.NoError(f, err)
	for _, path := range files {
		source, err := os.ReadFile(path)
		require.NoError(f, err)
		add(path, string(source))
	}
	for _, h := range hostile(8) {
		f.Add(byte(syntax.Go), h)
	}
	f.Fuzz(func(t *testing.T, language byte, source string) {
		if l := syntax.Language(language); l < syntax.Go || l > syntax.Java {
			return
		}
		file, err := parse(t.Context(), language, source)
		if err != nil {
			return
		}
		u := instrumentation.Find(file, nil)
		for _, c := range All() {
			var kept []any
			pass := Pass{Check: c, keep: func(v any) { kept = append(kept, v) }, report: func(r Finding) {
				if r.Start < 0 || r.End < r.Start || r.End > len(source) || r.Message == "" {
					t.Fatalf("%s reports %+v in %d bytes", c.ID, r, len(source))
				}
				for _, e := range r.Fix {
					if e.Start < 0 || e.End < e.Start || e.End > len(source) {
						t.Fatalf("%s edits %+v in %d bytes", c.ID, e, len(source))
					}
				}
			}}
			if c.Source != nil {
				c.Source(&pass, u)
			}
			if c.Repository != nil {
				coverage := func() *Coverage { return CoverageOf([]*Facts{FactsOf(u)}, nil, nil) }
				c.Repository(&RepositoryPass{Pass: pass, Kept: kept, Coverage: coverage})
			}
		}
	})
}

// changeArguments returns the source of a file once for each change of one call: without an argument, with an
// argument spread, and in Python with an argument by name and with one more argument by name.
func changeArguments(f *syntax.File) (changed []string) {
	spread := map[syntax.Language]string{syntax.JavaScript: "...", syntax.TypeScript: "...", syntax.Python: "*"}[f.Language]
	for n := range f.Root.All() {
		if n.Kind != syntax.Call && n.Kind != syntax.New {
			continue
		}
		for i, a := range n.Args() {
			before, text, after := string(f.Source[:a.Start]), f.Code(a), string(f.Source[a.End:])
			switch {
			case i > 0:
				changed = append(changed, string(f.Source[:n.Args()[i-1].End])+after)
			case len(n.Args()) > 1:
				changed = append(changed, before+string(f.Source[n.Args()[1].Start:]))
			default:
				changed = append(changed, before+after)
			}
			if spread != "" {
				changed = append(changed, before+spread+text+after)
			}
			if f.Language == syntax.Python && a.Kind != syntax.Argument {
				changed = append(changed, before+"x="+text+after, before+text+", x=1"+after)
			}
		}
	}
	return changed
}

// hostile returns files that repeat a costly construct n times.
func hostile(n int) []string {
	const start = "\t_, span := tracer.Start(ctx, \"a\"+id)\n"
	in := func(body string) string {
		return checktest.GoFile("func f(ctx context.Context, req *Request) error {\n" + body + "\n}\n")
	}
	r := strings.Repeat
	return []string{
		in(r(start, n)),
		in(r(start+"\tspan.End()\n", n)),
		in(start + r("\tif err != nil { return err }\n", n)),
		in(start + r("for {", n) + "span.End()" + r("}", n)),
		in(start + r("if a {", n) + "span.End()" + r("}", n)),
		in(start + r("func() {", n) + "span.End()" + r("}()\n", n)),
		in(start + r("switch { case a:\n", n) + r("}", n)),
		in(r("a = a\n", n) + "slog.Info(\"a\", a)"),
		in(r("a := b\nb := a\n", n) + r("slog.Info(\"a\", a, b)\n", n)),
		in("slog.Info(\"a\"" + r(", user.Email", n) + ")"),
		in("slog.Info(\"a\", " + r("str(", n) + "x" + r(")", n) + ")"),
		in("slog.Info(" + r("\"a\"+x+", n) + "\"b\")"),
		in("slog.Info(\"" + r("%s ", n) + "\"" + r(", x", n) + ")"),
		in("slog.Info(\"" + r("password=", n) + "%s\", x)"),
		in("x" + r(".a", n) + ".Info(y" + r(".b", n) + ")"),
		in("span.SetAttributes(" + r("attribute.String(\"user.email\", x),", n) + ")"),
		in(r("c, _ := meter.Int64Counter(\"a\")\n", n)),
		in(r("c.Add(ctx, 1, metric.WithAttributes(attribute.String(\"user.id\", x)))\n", n)),
		in(r("db.QueryContext(context.Background())\n", n)),
		in(start + r("defer func() { _ = ctx }()\n", n)),
		in(r(start, n) + r("x.f(span)\n", n)),
	}
}
