// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"assay/internal/review"
	"assay/internal/review/check"
)

// WriteReview writes the report of a code review in one of the Formats. It does not modify the report. Names and code
// of the repository cannot break out of their place in the output, and are shortened in the formats for people.
func WriteReview(w io.Writer, format string, r *review.Report, opt Options) error {
	return write(w, format, map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { writeReviewText(b, r, opt); return nil },
		"json":     func(b *bytes.Buffer) error { return writeReviewJSON(b, r) },
		"markdown": func(b *bytes.Buffer) error { writeReviewMarkdown(b, r); return nil },
		"junit":    func(b *bytes.Buffer) error { return writeReviewJUnit(b, r) },
		"sarif":    func(b *bytes.Buffer) error { return writeReviewSARIF(b, r, opt) },
	})
}

// writeReviewJSON writes the report without the details of findings.
func writeReviewJSON(b *bytes.Buffer, r *review.Report) error {
	out := *r
	out.Findings = append([]review.Finding{}, r.Findings...)
	for i := range out.Findings {
		out.Findings[i].Detail = nil
	}
	return encodeJSON(b, &out)
}

// Widths of parts of a finding.
const (
	labelPath  = 200
	labelTitle = 160
	labelText  = 400
)

// byFile returns the findings of each file, in the order of the report.
func byFile(findings []review.Finding) [][]review.Finding {
	var groups [][]review.Finding
	for len(findings) > 0 {
		n := slices.IndexFunc(findings, func(f review.Finding) bool { return f.Locations[0].File != findings[0].Locations[0].File })
		if n < 0 {
			n = len(findings)
		}
		groups = append(groups, findings[:n])
		findings = findings[n:]
	}
	return groups
}

// bySeverity counts the findings of each severity.
func bySeverity(findings []review.Finding) map[check.Severity]int {
	counts := map[check.Severity]int{}
	for i := range findings {
		counts[findings[i].Severity]++
	}
	return counts
}

// filesSummary describes the files of a review.
func filesSummary(f *review.Files) string {
	s := fmt.Sprintf("%s read, %s parsed", count(uint64(f.Read), "file", "files"), grouped(uint64(f.Parsed)))
	if f.Skipped == 0 {
		return s + "."
	}
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(f.SkippedByReason)) {
		reasons = append(reasons, fmt.Sprintf("%s: %s", reason, grouped(uint64(f.SkippedByReason[reason]))))
	}
	return s + fmt.Sprintf(", %s skipped (%s).", grouped(uint64(f.Skipped)), strings.Join(reasons, "; "))
}

// reviewError returns an error of a review as one line.
func reviewError(e review.Error) string {
	if e.File == "" {
		return Printable(e.Message, labelText)
	}
	return Printable(e.File, labelPath) + ": " + Printable(e.Message, labelText)
}
