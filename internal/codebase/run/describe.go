// SPDX-License-Identifier: Apache-2.0

package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay"
	"assay/internal/codebase/source"
	"assay/internal/codebase/verify"
	"assay/internal/report"
)

// Limits of the text of a pull request.
const (
	maxDescribed = 50  // items of a list
	maxPhrase    = 300 // bytes of a text of the repository
	maxStep      = 800 // bytes of a step
)

// branchOf returns the branch of a run. Runs of the same type have the same branch, and so do fixes of the same
// findings.
func branchOf(runType string, ch *change) string {
	switch runType {
	case assay.RunInstrumentation:
		return source.BranchPrefix + "instrumentation-" + string(ch.Kind)
	case assay.RunMigration:
		return source.BranchPrefix + "migration"
	}
	sum := sha256.Sum256([]byte(strings.Join(ch.FindingIDs, " ")))
	return source.BranchPrefix + runType + "-" + hex.EncodeToString(sum[:4])
}

// title returns the subject of the commit and the title of the pull request. It contains no text of the repository.
func title(runType string, ch *change) string {
	switch runType {
	case assay.RunInstrumentation:
		return "Add OpenTelemetry (" + string(ch.Kind) + ")"
	case assay.RunMigration:
		return "Migrate to OpenTelemetry"
	}
	fixed := ch.Patch.Fixed
	if len(fixed) == 1 {
		return "Fix telemetry: " + fixed[0].Check
	}
	return fmt.Sprintf("Fix telemetry: %d findings", len(fixed))
}

// describe returns the text of a pull request in Markdown. It escapes texts of the repository and its tests, which are
// untrusted.
func describe(ch *change, r *changeResult) string {
	var b strings.Builder
	if len(ch.FindingIDs) > 0 {
		describeFixes(&b, ch, r)
	} else {
		describeSteps(&b, ch)
		describeModel(&b, ch, r)
	}
	describeVerification(&b, r)
	if ch.Issue > 0 {
		fmt.Fprintf(&b, "\nFor #%d.\n", ch.Issue)
	}
	return b.String()
}

// describeSteps lists the steps of an instrumentation or a migration, the manual steps first.
func describeSteps(b *strings.Builder, ch *change) {
	for _, open := range []bool{true, false} {
		n := 0
		for _, s := range ch.Patch.Steps {
			if s.Open != open {
				continue
			}
			if n++; n == 1 {
				b.WriteString(map[bool]string{true: "What is left to do:\n\n", false: "\nWhat this changes:\n\n"}[open])
			}
			if n > maxDescribed {
				continue
			}
			place := s.File
			if s.Line > 0 {
				place += ":" + strconv.Itoa(s.Line)
			}
			b.WriteString(map[bool]string{true: "- [ ] ", false: "- "}[open])
			if place != "" {
				b.WriteString(report.MarkdownCode(report.Printable(place, maxPhrase)) + ": ")
			}
			b.WriteString(withCode(s.Text) + "\n")
		}
		if n > maxDescribed {
			fmt.Fprintf(b, "- %d more.\n", n-maxDescribed)
		}
	}
}

// withCode converts a text with code between backticks to Markdown.
func withCode(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		switch {
		case part == "":
		case i%2 == 1:
			b.WriteString(report.MarkdownCode(report.Printable(part, maxPhrase)))
		default:
			b.WriteString(report.MarkdownText(part, maxStep))
		}
	}
	return b.String()
}

// describeFixes lists the findings of a fix.
func describeFixes(b *strings.Builder, ch *change, r *changeResult) {
	fmt.Fprintf(b, "This fixes %s that a review of the code by assay reported.\n\n| Check | Place | Rules | |\n|---|---|---|---|\n", plural(len(ch.Patch.Fixed), "finding"))
	for i, f := range ch.Patch.Fixed {
		if i == maxDescribed {
			fmt.Fprintf(b, "\n%d more findings.\n", len(ch.Patch.Fixed)-i)
			break
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Check, report.MarkdownCode(report.Printable(f.Locations[0].File+":"+strconv.Itoa(f.Locations[0].Line), maxPhrase)),
			strings.Join(f.Rules, ", "), report.MarkdownText(f.Summary, maxPhrase))
	}
	if variables := slices.Sorted(maps.Keys(ch.Patch.Variables())); len(variables) > 0 {
		b.WriteString("\nSet these environment variables where the configuration is used:\n")
		for _, v := range variables[:min(len(variables), maxDescribed)] {
			b.WriteString("- " + report.MarkdownCode(report.Printable(v, maxPhrase)) + "\n")
		}
	}
	if n := len(r.Left); n > 0 {
		fmt.Fprintf(b, "\nLeft: %s without a mechanical fix, or whose fix overlaps with another one or would not compile.\n", plural(n, "finding"))
	}
	describeModel(b, ch, r)
}

// describeVerification writes the result of the verification as a table.
func describeVerification(b *strings.Builder, r *changeResult) {
	v := r.Verification
	fmt.Fprintf(b, "\n### Verification: %s\n\n", v.Status)
	if v.Reason != "" {
		b.WriteString(report.MarkdownText(v.Reason, maxPhrase) + "\n\n")
	}
	b.WriteString("| | Before | After |\n|---|---|---|\n")
	fmt.Fprintf(b, "| Findings of the review | %d | %d |\n", v.Review.Before, v.Review.After)
	if v.Tests.Before != nil || v.Tests.After != nil {
		fmt.Fprintf(b, "| Tests (%s) | %s | %s |\n", report.MarkdownCode(report.Printable(v.Command, maxPhrase)), outcome(v.Tests.Before), outcome(v.Tests.After))
	}
	for _, rule := range v.Rules[:min(len(v.Rules), maxDescribed)] {
		fmt.Fprintf(b, "| %s of %s | %s | %s |\n", rule.ID, report.MarkdownText(rule.Service, maxPhrase), rule.Before, rule.After)
	}
	for _, s := range v.Scores[:min(len(v.Scores), maxDescribed)] {
		fmt.Fprintf(b, "| Score of %s | %s | %s |\n", report.MarkdownText(s.Service, maxPhrase), points(s.Before), points(s.After))
	}
	if t := v.Telemetry; t.Before != nil && t.After != nil {
		fmt.Fprintf(b, "| Spans, log records, metric points | %d, %d, %d | %d, %d, %d |\n", t.Before.Spans, t.Before.LogRecords, t.Before.MetricPoints, t.After.Spans, t.After.LogRecords, t.After.MetricPoints)
	}
	fmt.Fprintf(b, "| Lines | %d removed | %d added |\n", r.LinesRemoved, r.LinesAdded)
}

func outcome(t *verify.Tests) string {
	switch {
	case t == nil:
		return "not run"
	case t.Passed:
		return "pass"
	default:
		return "fail"
	}
}

func points(score *float64) string {
	if score == nil {
		return "none"
	}
	return strconv.FormatFloat(*score, 'f', 1, 64)
}

func plural(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
