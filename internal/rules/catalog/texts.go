// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"embed"
	"slices"
	"strings"
)

//go:embed texts/*.md
var texts embed.FS

// generalFile has the choices that concern every rule.
const generalFile = "general.md"

// The sections of a text, in their order.
const (
	sectionDescription = "Description"
	sectionRationale   = "Rationale"
	sectionRemediation = "Remediation"
	sectionChoices     = "Choices"
)

// load reads the entries in the order of the rules. The files are embedded, so a misspelt
// field is a programming error that the tests find.
func load() [Count]*Info {
	files, _ := texts.ReadDir("texts")
	var all []*Info
	for _, f := range files {
		if f.Name() != generalFile {
			text, _ := texts.ReadFile("texts/" + f.Name())
			all = append(all, parse(strings.TrimSuffix(f.Name(), ".md"), string(text)))
		}
	}
	slices.SortFunc(all, func(a, b *Info) int {
		return cmp.Or(cmp.Compare(len(b.ID), len(a.ID)), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name)) // an empty id comes last
	})
	return [Count]*Info(all)
}

// parse reads an entry: the title, a list of its short fields, and the sections.
func parse(name, text string) *Info {
	head, _, _ := strings.Cut(text, "\n## ")
	title, _, _ := strings.Cut(head, "\n")
	fields := make(map[string]string)
	for _, item := range splitItems(head) {
		key, value, _ := strings.Cut(item, ": ")
		fields[key] = value
	}
	sections := splitSections(text)
	return &Info{
		ID: fields["ID"], Name: name, DisplayName: strings.TrimPrefix(title, "# "), Impact: Impact(fields["Impact"]), Signal: Signal(fields["Signal"]),
		Target: fields["Target"], Applies: fields["Applies"], Criterion: fields["Criterion"],
		Description: sections[sectionDescription], Rationale: sections[sectionRationale], Remediation: sections[sectionRemediation],
		Choices: splitItems(sections[sectionChoices]),
	}
}

// GeneralChoices returns, as Markdown in a new slice, the decisions that concern every
// rule where the specification is open.
func GeneralChoices() []string {
	text, _ := texts.ReadFile("texts/" + generalFile)
	return splitItems(splitSections(string(text))[sectionChoices])
}

// splitSections splits a Markdown text at its second-level headings. A heading inside a
// fenced block is text. Text before the first heading is left out.
func splitSections(text string) map[string]string {
	sections := make(map[string]string)
	var name string
	var body strings.Builder
	flush := func() {
		if name != "" {
			sections[name] = strings.TrimSpace(body.String())
		}
		body.Reset()
	}
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if title, ok := strings.CutPrefix(line, "## "); ok && !fenced {
			flush()
			name = strings.TrimSpace(title)
			continue
		}
		body.WriteString(line)
	}
	flush()
	return sections
}

// splitItems returns the items of a Markdown list, each joined to one line. Text before
// the first item is left out.
func splitItems(text string) []string {
	var items []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if item, ok := strings.CutPrefix(line, "- "); ok {
			items = append(items, item)
		} else if rest := strings.TrimSpace(line); rest != "" && len(items) > 0 {
			items[len(items)-1] += " " + rest
		}
	}
	return items
}
