// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIndented(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		want   bool
	}{
		"empty":                      {"", true},
		"blocks":                     {"def f():\n    if x:\n        pass\n    # end\n\n  # comment\n    return\nf()\n", true},
		"no new line at the end":     {"if x:\n  pass", true},
		"block on the line":          {"if x: pass\nf()\n", true},
		"carriage returns":           {"if x:\r\n  f(\r\n1)\r\n\r\n  g()\r\n", true},
		"strings and brackets":       {"x = [\n  1, '(',\n]\ny = \"\"\"\n  a:\n\\\"\"\"\"\nz = {'a':\n1}\nif x[1:\n]:  # why:\n\tpass\n", true},
		"continued lines":            {"if x and \\\n        y:\n    f()\n", true},
		"a string that does not end": {"x = 'a\nif x:\nf()\n", true},
		"no block":                   {"with f() as x:\nif x:\n    pass\n", false},
		"no block at the end":        {"if x:\n    # none\n", false},
		"a block without a reason":   {"f()\n    g()\n", false},
		"between two levels":         {"if x:\n    f()\n  g()\n", false},
		"tabs and spaces":            {"if x:\n\tf()\n        g()\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, indented([]byte(tt.source)))
		})
	}
}
