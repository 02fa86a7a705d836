// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/lists"
	"assay/internal/rules/remedy"
)

// maxMarkdown keeps a report within the size limit of pull request comments, 65,536 characters on GitHub.
const maxMarkdown = 60_000

// writeMarkdown writes a table of the services and, for each service, a collapsible section with its findings.
func writeMarkdown(w io.Writer, r *Report) {
	var b strings.Builder
	b.WriteString("## Instrumentation Score\n\n")
	if len(r.Services) == 0 {
		b.WriteString("No service sent telemetry that the rules evaluate.\n")
	} else {
		b.WriteString("| Service | Environment | Version | Score | Band | Rules | Failed |\n|---|---|---|---:|---|---:|---:|\n")
	}
	left := 0
	for i := range r.Services {
		s := &r.Services[i]
		row := fmt.Sprintf("| %s | %s | %s | %s | %s | %d | %d |\n",
			MarkdownText(s.fullName(), labelName), MarkdownText(s.Environment, labelPart), MarkdownText(s.Version, labelPart),
			s.scoreText(), orDash(s.Category), len(s.EvaluatedRuleIDs), len(s.FailedRuleIDs))
		if b.Len()+len(row) > maxMarkdown/2 {
			left++
			continue
		}
		b.WriteString(row)
	}
	omitted(&b, left, "services")
	left = 0
	for i := range r.Services {
		s := &r.Services[i]
		if len(s.Insights) == 0 {
			continue
		}
		details := s.markdownDetails()
		if b.Len()+len(details) > maxMarkdown {
			left++
			continue
		}
		b.WriteString(details)
	}
	omitted(&b, left, "services with findings")
	fmt.Fprintf(&b, "\n<sub>%s</sub>\n", strings.TrimPrefix(r.window()+"; "+r.summary(), "; "))
	_, _ = io.WriteString(w, b.String()) // w is a buffer
}

func omitted(b *strings.Builder, n int, what string) {
	if n > 0 {
		fmt.Fprintf(b, "\n%d more %s are left out of this comment.\n", n, what)
	}
}

func (s *Service) markdownDetails() string {
	var b strings.Builder
	findings := count(uint64(len(s.Insights)), "finding", "findings")
	fmt.Fprintf(&b, "\n<details>\n<summary><b>%s</b>: %s, %s</summary>\n\n", htmlText(s.label(labelName)), s.scoreText(), findings)
	for n, i := range s.Insights {
		info := i.info()
		if n > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "#### %s (%s)\n\n", MarkdownText(title(info), labelName), i.Impact)
		if info.Description != "" {
			b.WriteString(firstParagraph(info.Description) + "\n")
		}
		if i.share() != "" || len(i.evidence()) > 0 {
			b.WriteString("\n")
		}
		if share := i.share(); share != "" {
			fmt.Fprintf(&b, "- %s\n", share)
		}
		for _, f := range i.evidence() {
			values := lists.Map(f.values, MarkdownCode)
			fmt.Fprintf(&b, "- %s\n", f.join(values))
		}
		writeMarkdownFix(&b, remedy.For(info, i.Attributes))
	}
	b.WriteString("\n</details>\n")
	return b.String()
}

// writeMarkdownFix writes the first step of a fix.
func writeMarkdownFix(b *strings.Builder, markdown string) {
	blocks := firstStep(markdown)
	if len(blocks) == 0 {
		return
	}
	b.WriteString("\n" + strings.TrimSpace("**Fix:** "+blocks[0].text) + "\n")
	if blocks[0].kind != code {
		blocks = blocks[1:]
	}
	for _, next := range blocks {
		switch next.kind {
		case code:
			fmt.Fprintf(b, "\n```\n%s\n```\n", strings.Join(next.lines, "\n"))
		default:
			fmt.Fprintf(b, "\n- %s", next.text)
		}
	}
	if len(blocks) > 0 && blocks[len(blocks)-1].kind != code {
		b.WriteString("\n")
	}
}

// MarkdownText returns an untrusted text such that Markdown displays it literally, also within a table.
func MarkdownText(s string, limit int) string {
	var b strings.Builder
	for _, r := range Printable(s, limit) {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '@', r == '#':
			// Without the zero-width space, GitHub still finds mentions of users and references to issues.
			b.WriteString("&#" + strconv.Itoa(int(r)) + ";&#8203;")
		case strings.ContainsRune("\\`*_{}[]()+!|~:$", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return references.ReplaceAllString(b.String(), "$1&#8203;$2")
}

// references are texts that GitHub makes links of.
var references = regexp.MustCompile(`(?i)\b(GH-|www)([0-9.])`)

// htmlText returns an untrusted text for HTML within Markdown, where Markdown is still interpreted.
func htmlText(s string) string { return MarkdownText(s, labelName+2*labelPart+8) }

// MarkdownCode returns a printable untrusted text as inline code. It replaces backticks, which end the code, bars, which
// end a cell of a table even in code, and less-than signs, which some renderers interpret as HTML even there, with
// look-alikes.
func MarkdownCode(s string) string {
	return "`" + strings.NewReplacer("`", "'", "|", "∣", "<", "‹").Replace(strings.TrimSpace(s)) + "`"
}
