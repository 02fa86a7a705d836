// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"strings"

	"assay/internal/review"
	"assay/internal/review/check"
)

// writeReviewMarkdown writes the number of findings by severity and, for each file, a collapsible section with its
// findings.
func writeReviewMarkdown(out *bytes.Buffer, r *review.Report) {
	var b strings.Builder
	b.WriteString("## Telemetry review\n\n")
	if len(r.Findings) == 0 {
		b.WriteString("No findings.\n")
	} else {
		b.WriteString("| Severity | Findings |\n|---|---:|\n")
		counts := bySeverity(r.Findings)
		for _, s := range check.Severities {
			if counts[s] > 0 {
				fmt.Fprintf(&b, "| %s | %d |\n", s, counts[s])
			}
		}
	}
	left := 0
	explained := map[string]bool{}
	for _, group := range byFile(r.Findings) {
		details := markdownFindings(group, explained)
		if b.Len()+len(details) > maxMarkdown {
			left++
			continue
		}
		b.WriteString(details)
	}
	omitted(&b, left, "files with findings")
	if n := len(r.Errors); n > 0 {
		fmt.Fprintf(&b, "\nThe review is partial: %s, the first one: %s\n", count(uint64(n), "error", "errors"), MarkdownText(reviewError(r.Errors[0]), labelText))
	}
	fmt.Fprintf(&b, "\n<sub>%s %s</sub>\n", r.Instrumentation.Summary, filesSummary(&r.Files))
	out.WriteString(b.String())
}

// markdownFindings returns the section of a file. The first finding of a check has its reason and its fix.
func markdownFindings(group []review.Finding, explained map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n<details>\n<summary><b>%s</b>: %s</summary>\n\n", MarkdownText(group[0].Locations[0].File, labelPath), count(uint64(len(group)), "finding", "findings"))
	for i := range group {
		f := &group[i]
		fmt.Fprintf(&b, "#### Line %d: %s (%s)\n\n", f.Locations[0].Line, MarkdownText(f.DisplayTitle, labelTitle), f.Severity)
		if f.Detail != nil {
			before, mark, after := excerpt(f.Detail)
			if line := strings.TrimSpace(before + mark + after); line != "" {
				b.WriteString(MarkdownCode(Printable(line, labelTitle)) + "\n\n")
			}
		}
		b.WriteString(MarkdownText(f.Summary, labelText) + "\n")
		if !explained[f.Check] {
			explained[f.Check] = true
			if why := firstParagraph(f.Why); why != "" {
				b.WriteString("\n" + why + "\n")
			}
			writeMarkdownFix(&b, f.Fix)
		}
		fmt.Fprintf(&b, "\n`%s`\n\n", f.Check)
	}
	b.WriteString("</details>\n")
	return b.String()
}
