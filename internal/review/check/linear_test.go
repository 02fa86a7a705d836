// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/check"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// TestNestedExpressions checks that the work for nested expressions is linear: no level converts or walks a part of an
// expression twice, so twice the depth takes only a few times the allocations. X is the expression, or the next level.
func TestNestedExpressions(t *testing.T) {
	parser, err := treesitter.New(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, parser.Close(t.Context())) })
	for _, test := range []struct {
		file, source string
		levels       []string
	}{
		{"a.go", `package a

import (
	"log"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
)

func f(b []int) int {
	_, span := otel.Tracer("a").Start(ctx, X)
	log.Println("email", X)
	span.SetAttributes(attribute.String("k", X))
	return X
}
`, []string{"X + b[0]", "b[0] + (X)", `X + "a"`, `"a" + (X)`, "X || c", "X(1)", "X.g(1, b)", "g(1, X)", `fmt.Sprintf("%s", X)`, "append(b, X)", "[]any{1, X}", "map[string]any{c: X}", "func() any { return X }()", "b[X]", "b[1:X]"}},
		{"a.py", `import logging
from opentelemetry import trace

def f(b):
    with trace.get_tracer("a").start_as_current_span(X) as span:
        logging.info("email %s", X)
        span.set_attribute("k", X)
        return X
`, []string{"X + b", "b + (X)", `X + "a"`, "X or b", "json.dumps(1, X)", "json.dumps(X, 1)", "str(X)", "X.decode()", `f"{b}{X}"`, "(1 if b else X)", "(X if b else 1)", `{"password": X}`, "[1, X]", "b[X]", "(lambda: X)", "[X for a in b]", "g(1, a=X)"}},
		{"a.js", `import { trace } from "@opentelemetry/api";

async function f(b) {
  const span = trace.getTracer("a").startSpan(X);
  console.log("email", X);
  span.setAttribute("k", X);
  span.end();
  return X;
}
`, []string{"X + b", "b + (X)", `X + "a"`, "(X || b)", "JSON.stringify(1, X)", "JSON.stringify(X, 1)", "String(X)", "X.toString()", "`${b}${X}`", "(b ? 1 : X)", "(b ? X : 1)", "{password: X}", "[1, X]", "b[X]", "(() => X)", "(() => { return X })", "await (X)", "g(1, ...X)"}},
		{"A.java", `import io.opentelemetry.api.trace.Span;
import org.slf4j.Logger;

class A {
  Object f(Object b) {
    Span span = tracer.spanBuilder(X).startSpan();
    log.info("email {}", X);
    span.setAttribute("k", X);
    span.end();
    return X;
  }
}
`, []string{"X + b", "b + (X)", `X + "a"`, "(X || b)", "g(1, X)", `String.format("%s", X)`, "X.toString()", "g.concat(X)", "(b ? 1 : X)", "(b ? X : 1)", "Map.of(1, X)", "b[X]", "g(() -> X)", "new A(1, X)", "(String) (X)"}},
	} {
		for _, level := range test.levels {
			review := func(depth int) float64 {
				expression := "email"
				for range depth {
					expression = strings.Replace(level, "X", expression, 1)
				}
				source := strings.ReplaceAll(test.source, "X", expression)
				return testing.AllocsPerRun(1, func() {
					file, err := syntax.ParseGo(test.file, []byte(source))
					if test.file != "a.go" {
						file, err = syntax.Parse(t.Context(), parser, test.file, syntax.LanguageOf(test.file), []byte(source))
					}
					require.NoError(t, err)
					require.False(t, file.Broken, source)
					uses := instrumentation.Find(file, nil)
					for _, c := range check.All() {
						if c.Source != nil {
							c.Source(check.NewPass(c, func(check.Finding) {}, func(any) {}), uses)
						}
					}
				})
			}
			few, many := review(9), review(18)
			require.Less(t, many, 5*few, "%s: %s", test.file, level)
		}
	}
}

// TestManyVariables checks that a long function in Java is not too complex.
func TestManyVariables(t *testing.T) {
	parser, err := treesitter.New(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, parser.Close(t.Context())) })
	source := "import io.opentelemetry.api.trace.Span;\nclass A { void f() {\n"
	for i := range 3000 {
		source += fmt.Sprintf("Rule a%d = rule();\n", i)
	}
	source += "} }\n"
	file, err := syntax.Parse(t.Context(), parser, "A.java", syntax.Java, []byte(source))
	require.NoError(t, err)
	uses := instrumentation.Find(file, nil)
	for _, c := range check.All() {
		if c.Source != nil {
			c.Source(check.NewPass(c, func(check.Finding) {}, func(any) {}), uses)
		}
	}
	require.False(t, file.Exhausted())
}

// TestManyContexts checks that a function in Go that derives many contexts from the context of a span is not too complex.
func TestManyContexts(t *testing.T) {
	for name, line := range map[string]string{
		"from one": "c%d := context.WithValue(c, k, v); use(c%[1]d)\n",
		"in place": "c = context.WithValue(c, k, %d); use(c)\n",
		"a chain":  "c, d = context.WithValue(d, k, %d), c; d = context.WithValue(c, k, v)\n",
	} {
		var source strings.Builder
		source.WriteString("package a\n\nimport \"go.opentelemetry.io/otel\"\n\nfunc f(c context.Context) {\n\tc, span := otel.Tracer(\"a\").Start(c, \"a\")\n")
		for i := range 12_000 {
			fmt.Fprintf(&source, line, i)
		}
		source.WriteString("\twork()\n}\n")
		file, err := syntax.ParseGo("a.go", []byte(source.String()))
		require.NoError(t, err)
		uses := instrumentation.Find(file, nil)
		for _, c := range check.All() {
			if c.Source != nil {
				c.Source(check.NewPass(c, func(check.Finding) {}, func(any) {}), uses)
			}
		}
		require.False(t, file.Exhausted(), name)
	}
}
