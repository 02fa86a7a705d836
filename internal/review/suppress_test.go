// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/check"
)

func TestSuppressions(t *testing.T) {
	for text, want := range map[string]map[int][]string{
		"x // assay-ignore: span-noise\n":                               {1: {"span-noise"}, 2: {"span-noise"}},
		"\n# assay-ignore: a,b , c-2 -- reason\n":                       {2: {"a", "b", "c-2"}, 3: {"a", "b", "c-2"}},
		"<!-- assay-ignore: a -->\r\n":                                  {1: {"a"}, 2: {"a"}},
		"/*\n * assay-ignore: a\n */":                                   {2: {"a"}, 3: {"a"}},
		"// assay-ignore: a\n// assay-ignore: b\n":                      {1: {"a"}, 2: {"a", "b"}, 3: {"b"}},
		"s := \"assay-ignore: a\"":                                      nil,
		"{\"s\": \"# assay-ignore: a\"}":                                nil,
		"s: '// assay-ignore: a'":                                       nil,
		"s: \"a\" # assay-ignore: a -- \"a\" is old":                    {1: {"a"}, 2: {"a"}},
		"s: it's # assay-ignore: a -- don't ask":                        {1: {"a"}, 2: {"a"}},
		"// assay-ignore:":                                              {1: nil, 2: nil},
		"// assay-ignore: ALL":                                          {1: nil, 2: nil},
		"KEY=value # assay-ignore: secret-in-config":                    {1: {"secret-in-config"}, 2: {"secret-in-config"}},
		"// " + strings.Repeat("x", maxSuppression) + "assay-ignore: a": nil,
	} {
		require.Equal(t, want, suppressions([]byte(text), func(at int) bool { return inLineComment([]byte(text), at) }), "%.60q", text)
	}
}

func TestSuppressed(t *testing.T) {
	body := "span(\"a\") // assay-ignore: other, span\n\n// assay-ignore: span reason\nspan(\"b\")\n\n// assay-ignore: other\nspan(\"c\")\nspan(\"assay-ignore: span\")"
	r := review(t, Options{Root: tree(t, map[string]string{"a.go": code(body)}), Checks: []*check.Check{named("span")}})
	require.Equal(t, []string{"a.go:12 span", "a.go:13 span"}, at(r))
}

// TestSuppressedInStrings checks that a suppression counts only in a comment of the language.
func TestSuppressedInStrings(t *testing.T) {
	for name, source := range map[string]string{
		"string.go":   code("span(\"// assay-ignore: span\")"),
		"raw.go":      code("s := `\n// assay-ignore: span`; span(s)"),
		"string.py":   "import opentelemetry\nspan('# assay-ignore: span')\n",
		"text.py":     "import opentelemetry\ns = \"\"\"\n# assay-ignore: span\"\"\"; span(s)\n",
		"template.ts": "import '@opentelemetry/api';\nspan(`// assay-ignore: span`);\n",
		"String.java": "import io.opentelemetry.api.trace.Span;\nclass String { void f() { span(\"/* assay-ignore: span */\"); } }\n",
		"other.js":    "import '@opentelemetry/api';\nspan('it\\'s'); // it's not assay-ignore: other\n",
		"hidden.ts":   "import '@opentelemetry/api';\nspan('it\\'s \"'); // assay-ignore: span -- it's \"old\"\n",
		"hidden.py":   "import opentelemetry\nspan(\"it's\")  # assay-ignore: span\n",
		"Hidden.java": "import io.opentelemetry.api.trace.Span;\nclass Hidden { /*\n assay-ignore: span */ void f() { span(); } }\n",
		"hidden.go":   code("/* a\nassay-ignore: span */ span()"),
	} {
		r := review(t, Options{Root: tree(t, map[string]string{name: source}), Checks: []*check.Check{named("span")}})
		require.Equal(t, strings.HasPrefix(strings.ToLower(name), "hidden"), len(at(r)) == 0, name)
	}
}

// FuzzSuppressions checks that suppressed lines are those of the source or the line after it.
func FuzzSuppressions(f *testing.F) {
	f.Add([]byte("// assay-ignore: a, b\n"))
	f.Add([]byte("#assay-ignore:assay-ignore: x"))
	f.Fuzz(func(t *testing.T, source []byte) {
		lines := 1 + bytes.Count(source, []byte{'\n'})
		for line := range suppressions(source, func(at int) bool { return inLineComment(source, at) }) {
			require.True(t, line >= 1 && line <= lines+1)
		}
	})
}
