// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"

	"assay/internal/review/check/checktest"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// FuzzGo feeds source code through the parser, the finding of facts and all checks. They must not panic, and what they
// report must lie in the file.
func FuzzGo(f *testing.F) {
	examples := checktest.Examples(f)
	for _, c := range All() {
		for _, e := range examples[c.ID] {
			for path, source := range e.Files {
				if syntax.LanguageOf(path) == syntax.Go {
					f.Add(source)
				}
			}
		}
	}
	for _, h := range hostile(8) {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, source string) {
		file, err := syntax.ParseGo("a.go", []byte(source))
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
				c.Repository(&RepositoryPass{Pass: pass, Kept: kept})
			}
		}
	})
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
