// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// processors are the Collector components that texts may name: their current
// types in the contrib distribution, not the deprecated aliases.
var processors = []string{"filter", "k8s_attributes", "redaction", "transform"}

// noCode lists the types that are fixed by configuration alone.
var noCode = []Rule{RES003, QuotaExceeded, SDK001}

// noCollectorFix lists the types without a remedy in the Collector.
var noCollectorFix = []Rule{SDK001}

var (
	fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	link  = regexp.MustCompile(`\]\((https?://[^)]+)\)`)
)

func TestEveryTextHasItsEntry(t *testing.T) {
	want := []string{"general.md"}
	for _, r := range All() {
		want = append(want, r.Info().Name+".md")
	}
	var got []string
	entries, err := fs.ReadDir(texts, "texts")
	require.NoError(t, err)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, want, got)
}

func TestTextsAreComplete(t *testing.T) {
	for _, r := range All() {
		info := r.Info()
		t.Run(info.Name, func(t *testing.T) {
			text, err := fs.ReadFile(texts, "texts/"+info.Name+".md")
			require.NoError(t, err)
			require.True(t, utf8.Valid(text))

			sections := splitSections(string(text))
			require.Len(t, sections, 4)
			for _, name := range []string{sectionDescription, sectionRationale, sectionRemediation, sectionChoices} {
				require.NotEmpty(t, sections[name], name)
			}
			require.True(t, strings.HasPrefix(sections[sectionChoices], "- "), "choices are a list")

			// Short enough to be read in a list of insights.
			require.Less(t, utf8.RuneCountInString(info.Description), 400)
			require.Less(t, utf8.RuneCountInString(info.Rationale), 500)
			require.NotContains(t, info.Description, "\n")
			require.NotContains(t, info.Rationale, "\n")
			require.NotEmpty(t, info.Choices)
			for _, c := range info.Choices {
				require.Regexp(t, `[.:]$`, c)
			}

			require.Equal(t, 1, strings.Count("\n"+info.Remediation, "\n### SDK\n"))
			require.Equal(t, 1, strings.Count(info.Remediation, "\n### Collector\n"))
			require.Zero(t, strings.Count(info.Remediation, "```")%2, "an unclosed fence")
		})
	}
}

func TestRemediationLinksToOneConvention(t *testing.T) {
	for _, r := range All() {
		info := r.Info()
		t.Run(info.Name, func(t *testing.T) {
			links := link.FindAllStringSubmatch(info.Remediation, -1)
			require.Len(t, links, 1)
			require.True(t, strings.HasPrefix(links[0][1], "https://opentelemetry.io/docs/"), links[0][1])
		})
	}
}

func TestRemediationShowsEveryLanguage(t *testing.T) {
	for _, r := range All() {
		info := r.Info()
		t.Run(info.Name, func(t *testing.T) {
			languages := make(map[string]bool)
			sdk, _, _ := strings.Cut(info.Remediation, "\n### Collector\n")
			for _, m := range fence.FindAllStringSubmatch(sdk, -1) {
				require.Contains(t, []string{"sh", "go", "java", "js", "python", "csharp", "yaml", "dockerfile"}, m[1])
				languages[m[1]] = true
			}
			require.NotEmpty(t, languages)
			if slices.Contains(noCode, r) {
				return
			}
			for _, language := range []string{"go", "java", "js", "python", "csharp"} {
				require.Contains(t, languages, language)
			}
		})
	}
}

func TestCollectorSnippets(t *testing.T) {
	for _, r := range All() {
		info := r.Info()
		t.Run(info.Name, func(t *testing.T) {
			configs := 0
			for _, m := range fence.FindAllStringSubmatch(info.Remediation, -1) {
				if m[1] != "yaml" {
					continue
				}
				var doc map[string]yaml.Node
				require.NoError(t, yaml.Unmarshal([]byte(m[2]), &doc), m[2])
				require.Len(t, doc, 1, "one thing in one block")
				node, ok := doc["processors"]
				if !ok {
					require.Contains(t, doc, "env", "neither a Collector configuration nor a manifest")
					continue
				}
				configs++
				var ps map[string]map[string]any
				require.NoError(t, node.Decode(&ps))
				require.NotEmpty(t, ps)
				for id, options := range ps {
					kind, _, _ := strings.Cut(id, "/")
					require.Contains(t, processors, kind)
					require.NotEmpty(t, options)
				}
				// The Collector reads $ as the start of a reference: only ${env:NAME} and the
				// escape $$ may stand in a snippet.
				rest := strings.ReplaceAll(strings.ReplaceAll(m[2], "$$", ""), "${env:", "")
				require.NotContains(t, rest, "$")
			}
			if slices.Contains(noCollectorFix, r) {
				require.Zero(t, configs)
				return
			}
			require.Equal(t, 1, configs)
		})
	}
}

func TestGeneralChoices(t *testing.T) {
	choices := GeneralChoices()
	require.NotEmpty(t, choices)
	choices[0] = ""
	require.NotEmpty(t, GeneralChoices()[0])
}

// The choices that the rule table itself marks must not get lost.
func TestMarkedChoices(t *testing.T) {
	general := strings.Join(GeneralChoices(), "\n")
	require.Contains(t, general, "A rule without observations is excluded from both sums")
	require.Contains(t, strings.Join(SPA003.Info().Choices, "\n"), "still open")
	require.Contains(t, strings.Join(MET001.Info().Choices, "\n"), "within one service")
}

func TestSplitSections(t *testing.T) {
	tests := []struct {
		name, in string
		want     map[string]string
	}{
		{"empty", "", map[string]string{}},
		{"nothing under a heading", "## A\n", map[string]string{"A": ""}},
		{"before the first heading", "lost\n## A\nkept\n", map[string]string{"A": "kept"}},
		{"two", "## A\n\none\n\n## B\n\ntwo", map[string]string{"A": "one", "B": "two"}},
		{"deeper headings are text", "## A\n### B\n# C\n", map[string]string{"A": "### B\n# C"}},
		{"fenced heading is text", "## A\n```sh\n## B\n```\n## C\nx\n", map[string]string{"A": "```sh\n## B\n```", "C": "x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, splitSections(tt.in))
		})
	}
}

func TestSplitItems(t *testing.T) {
	require.Nil(t, splitItems(""))
	require.Nil(t, splitItems("no list\n"))
	require.Equal(t, []string{"one", "two and a half", "three"}, splitItems("- one\n- two\n  and a half\n\n- three\n"))
}
