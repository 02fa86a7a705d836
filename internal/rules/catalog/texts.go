// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"embed"
	"strings"
)

//go:embed texts/*.md
var texts embed.FS

// The sections of a text, in their order.
const (
	sectionDescription = "Description"
	sectionRationale   = "Rationale"
	sectionRemediation = "Remediation"
	sectionChoices     = "Choices"
)

// load combines the table with the texts. The files are embedded, so a missing or
// misspelt one is a programming error that the tests find.
func load() [Count]*Info {
	t := table()
	var all [Count]*Info
	for r := range t {
		info := &t[r]
		text, _ := texts.ReadFile("texts/" + info.Name + ".md")
		s := splitSections(string(text))
		info.Description = s[sectionDescription]
		info.Rationale = s[sectionRationale]
		info.Remediation = s[sectionRemediation]
		info.Choices = splitItems(s[sectionChoices])
		all[r] = info
	}
	return all
}

// GeneralChoices returns, as Markdown in a new slice, the decisions that concern every
// rule where the specification is open.
func GeneralChoices() []string {
	text, _ := texts.ReadFile("texts/general.md")
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
