// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/rules/catalog"
)

func TestMarkdown(t *testing.T) {
	for given, want := range map[string]string{
		"# a\n\n#### b\n\n## c":       "<h3>a</h3>\n<h4>b</h4>\n<h4>c</h4>\n",
		"## a":                        "<h3>a</h3>\n",
		"<b onclick=x>a</b>":          "<p><!-- raw HTML omitted -->a<!-- raw HTML omitted --></p>\n",
		"[a](javascript:b) ![c](d)":   "<p><a href=\"\">a</a> c</p>\n",
		"[a](https://b.example)":      "<p><a href=\"https://b.example\">a</a></p>\n",
		"`a` & <https://b.example/c>": "<p><code>a</code> &amp; <a href=\"https://b.example/c\">https://b.example/c</a></p>\n",
	} {
		require.Equal(t, want, string(markdown(given)), given)
	}
	code := string(markdown("```go\nif a < b {\n```"))
	require.Contains(t, code, `<span>Go</span>`)
	require.Contains(t, code, `<code>if a &lt; b {</code>`)
	require.Contains(t, string(markdown("```<x>\na\n```")), `<span></span>`, "only languages that are known are named")
	require.Contains(t, string(markdown("    indented <x>")), `<code>indented &lt;x&gt;</code>`)
}

// TestRemediationsHaveTheirParts checks that the remediation of every rule covers both the code and the
// Collector.
func TestFindingText(t *testing.T) {
	for source, want := range map[string]string{
		"The key `a`] [b](https://evil.example) `c`":                           "<p>The key <code>a</code>] b <code>c</code></p>\n",
		"x <https://evil.example> y":                                           "<p>x https://evil.example y</p>\n",
		"![i](https://evil.example) [`c` *d*][e]\n\n[e]: https://evil.example": "<p>i <code>c</code> <em>d</em></p>\n",
		"[a [b](https://evil.example)](https://evil.example)":                  "<p>[a b](https://evil.example)</p>\n",
	} {
		require.Equal(t, want, string(findingText(source)))
	}
}

func TestRemediationsHaveTheirParts(t *testing.T) {
	for i, r := range ruleTexts() {
		require.Len(t, r.Parts, 2, r.Name)
		require.Equal(t, "SDK", r.Parts[0].Title)
		require.Equal(t, "Collector", r.Parts[1].Title)
		all := string(r.Advice + r.Parts[0].Body + r.Parts[1].Body)
		require.Equal(t, strings.Count(catalog.Rule(i).Info().Remediation, "\n```")/2, strings.Count(all, `<div class="code">`), r.Name)
		require.NotContains(t, all, "<!--", r.Name)
	}
}
