// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	_ "embed"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"

	"assay"
)

var update = flag.Bool("update", false, "rewrite docs/rules.md")

//go:embed reference.md.tmpl
var referenceTemplate string

type impactRow struct {
	Impact Impact
	Weight int
	Rules  int
}

// renderReference returns the reference page of all rules.
func renderReference() (string, error) {
	tmpl, err := template.New("reference").Funcs(template.FuncMap{
		"title":  title,
		"anchor": func(i *Info) string { return anchor(title(i)) },
		"cell":   func(s string) string { return strings.ReplaceAll(s, "|", `\|`) },
	}).Parse(referenceTemplate)
	if err != nil {
		return "", err
	}
	var infos []*Info
	for _, r := range All() {
		infos = append(infos, r.Info())
	}
	var impacts []impactRow
	for _, impact := range []Impact{assay.ImpactCritical, assay.ImpactImportant, assay.ImpactNormal, assay.ImpactLow} {
		row := impactRow{Impact: impact, Weight: impact.Weight()}
		for _, info := range infos[:Scored] {
			if info.Impact == impact {
				row.Rules++
			}
		}
		impacts = append(impacts, row)
	}
	var out strings.Builder
	err = tmpl.Execute(&out, map[string]any{
		"Scored": Scored, "Impacts": impacts, "Rules": infos[:Scored], "Others": infos[Scored:], "General": GeneralChoices(),
	})
	return strings.TrimRight(out.String(), "\n") + "\n", err
}

func title(i *Info) string {
	if i.ID == "" {
		return i.DisplayName
	}
	return i.ID + ": " + i.DisplayName
}

// notInAnchor is what the usual Markdown renderers drop from a heading to make
// its anchor.
var notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)

func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func TestReference(t *testing.T) {
	want, err := renderReference()
	require.NoError(t, err)
	path := filepath.Join("..", "..", "..", "docs", "rules.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/rules.md is not current: run go test ./internal/rules/catalog -run TestReference -update")
}

func TestReferenceLinksAndHeadings(t *testing.T) {
	page, err := renderReference()
	require.NoError(t, err)
	anchors := make(map[string]bool)
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if heading := strings.TrimLeft(line, "#"); !fenced && heading != line {
			anchors[anchor(strings.TrimSpace(heading))] = true
		}
	}
	require.False(t, fenced, "an unclosed fence")
	links := regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(links), Scored)
	for _, l := range links {
		require.Contains(t, anchors, l[1])
	}
	require.NotContains(t, page, "<no value>")
	require.NotContains(t, page, "\n\n\n")

	// Every choice stands in the one section that lists them, and nowhere else.
	before, choices, ok := strings.Cut(page, "\n## Choices\n")
	require.True(t, ok)
	all := GeneralChoices()
	for _, r := range All() {
		all = append(all, r.Info().Choices...)
	}
	for _, c := range all {
		require.Contains(t, choices, "\n- "+c+"\n")
		require.NotContains(t, before, "\n- "+c+"\n")
	}
}
