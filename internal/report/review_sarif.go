// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"path"

	"assay/internal/review"
	"assay/internal/review/check"
)

// findingFingerprint is the name and version of the fingerprints of findings.
const findingFingerprint = "assayFinding/v1"

// severityLevel returns the SARIF level of a severity.
func severityLevel(s check.Severity) string {
	switch s {
	case check.Critical, check.High:
		return "error"
	case check.Medium:
		return "warning"
	default:
		return "note"
	}
}

// writeReviewSARIF writes SARIF 2.1.0 with all checks that ran, and a result for each finding. Errors of the review
// are notifications.
func writeReviewSARIF(b *bytes.Buffer, r *review.Report, opt Options) error {
	driver := sarifDriver{Name: "assay", Version: opt.Version, Rules: []sarifRule{}}
	index := map[string]int{}
	for i, c := range r.Checks {
		index[c.ID] = i
		help := c.Why + "\n\n" + c.Fix
		driver.Rules = append(driver.Rules, sarifRule{
			ID: c.ID, Name: c.ID, HelpURI: helpLink(c.Fix),
			ShortDescription:     sarifMessage{Text: c.Title},
			FullDescription:      sarifMessage{Text: plain(firstParagraph(c.Why)), Markdown: c.Why},
			Help:                 sarifMessage{Text: help, Markdown: help},
			DefaultConfiguration: sarifConfig{Level: severityLevel(c.Severity)},
			Properties:           sarifProperties{Category: c.Category, Tags: append([]string{"opentelemetry"}, c.Rules...)},
		})
	}
	run := sarifRun{Tool: sarifTool{Driver: driver}, Bases: sarifBases(), ColumnKind: "utf16CodeUnits", Results: []sarifResult{}}
	for i := range r.Findings {
		f := &r.Findings[i]
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Check, RuleIndex: index[f.Check], Kind: "fail", Level: severityLevel(f.Severity),
			Message:      sarifMessage{Text: f.DisplayTitle + ". " + f.Summary},
			Locations:    []sarifLocation{sarifPlace(f, opt)},
			Fingerprints: map[string]string{findingFingerprint: f.ID},
			Properties:   map[string]any{"severity": f.Severity, "category": f.Category},
		})
	}
	if len(r.Errors) > 0 {
		invocation := sarifInvocation{Successful: true}
		for _, e := range r.Errors {
			n := sarifNotification{Level: "warning", Message: sarifMessage{Text: e.Message}}
			if e.File != "" {
				n.Locations = []sarifLocation{{Physical: &sarifPhysical{Artifact: newSARIFArtifact(path.Join(opt.Base, e.File)), Region: sarifRegion{StartLine: 1}}}}
			}
			invocation.Notifications = append(invocation.Notifications, n)
		}
		run.Invocations = []sarifInvocation{invocation}
	}
	return encodeJSON(b, sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{run}})
}

// sarifPlace returns the location of a finding.
func sarifPlace(f *review.Finding, opt Options) sarifLocation {
	l := f.Locations[0]
	p := &sarifPhysical{Artifact: newSARIFArtifact(path.Join(opt.Base, l.File)), Region: sarifRegion{StartLine: l.Line}}
	location := sarifLocation{Physical: p}
	if d := f.Detail; d != nil {
		p.Region.StartColumn, p.Region.EndLine, p.Region.EndColumn = d.Column, d.EndLine, d.EndColumn
		p.Region.Snippet = &sarifMessage{Text: d.Code}
		if d.Symbol != "" {
			location.Logical = []sarifLogical{{Name: d.Symbol, FullyQualifiedName: d.Symbol, Kind: "function"}}
		}
	}
	return location
}
