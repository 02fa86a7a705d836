// SPDX-License-Identifier: Apache-2.0

package review

import (
	"slices"
	"strings"

	"assay/internal/review/check"
)

// Report is the result of a review. Its JSON form without details is the output of `assay review --format json`.
type Report struct {
	Instrumentation Instrumentation `json:"instrumentation"`
	Findings        []Finding       `json:"findings"` // by file, line, check
	Files           Files           `json:"files"`
	// Errors holds failures to read, parse or check a file, and limits that were reached, by file. A report with an
	// error is partial.
	Errors []Error `json:"errors"`
	// Checks are the checks that ran.
	Checks []*check.Check `json:"-"`
}

// Instrumentation describes the telemetry of the code.
type Instrumentation struct {
	OTelPresent  bool     `json:"otel_present"`
	Signals      []string `json:"signals"`               // signals of OpenTelemetry: traces, metrics, logs
	DetectedSDKs []string `json:"detected_sdks"`         // packages of the manifests, "name version"
	Types        []string `json:"instrumentation_types"` // manual, library, automatic, vendor
	Languages    []string `json:"languages"`             // by number of files, the largest first
	Services     []string `json:"services"`              // values of service.name
	Summary      string   `json:"summary_text"`
}

// Files counts the files below the root, without those that .gitignore excludes.
type Files struct {
	Read            int            `json:"read"`
	Parsed          int            `json:"parsed"` // files of Read that were parsed
	Skipped         int            `json:"skipped"`
	SkippedByReason map[string]int `json:"skipped_by_reason"`
}

// Error is a failure that does not end the review.
type Error struct {
	File    string `json:"file"`            // or directory; "" for the whole review
	Check   string `json:"check,omitempty"` // the check of the whole repository that failed
	Message string `json:"message"`
}

// Covers reports whether the report has all findings of a check in a file: it has no error for both.
func (r *Report) Covers(file, check string) bool {
	return !slices.ContainsFunc(r.Errors, func(e Error) bool {
		return (e.File == "" || e.File == "." || e.File == file || strings.HasPrefix(file, e.File+"/")) && (e.Check == "" || e.Check == check)
	})
}

// Finding is a place in a file that a check reports.
type Finding struct {
	// ID is "otel-" and 12 hexadecimal digits. It stays the same as long as the check, the path, the symbol around the
	// place and the subject stay the same, and no equal finding appears before it in the file.
	ID           string         `json:"finding_id"`
	Check        string         `json:"check"`
	Rules        []string       `json:"rules"`
	Severity     check.Severity `json:"severity"`
	Category     string         `json:"category"`
	Title        string         `json:"title"`
	DisplayTitle string         `json:"display_title"` // the title with the subject
	Summary      string         `json:"summary"`
	Why          string         `json:"why"` // Markdown
	Fix          string         `json:"fix"` // Markdown
	Fixable      bool           `json:"fixable"`
	Locations    []Location     `json:"locations"` // the line to change first
	Status       string         `json:"status"`    // "active"
	// Detail is nil in the output of `assay review --format json`.
	Detail *Detail `json:"detail,omitempty"`
}

// Location is a line of a file.
type Location struct {
	File        string `json:"file"` // below the root, with slashes
	Line        int    `json:"line"` // from 1
	Description string `json:"description"`
}

// Detail is the internal data of a finding, for excerpts, mechanical fixes and correlation with telemetry.
type Detail struct {
	// Column and EndColumn are in UTF-16 code units from 1, as in SARIF; the end is exclusive.
	Column    int `json:"column"`
	EndLine   int `json:"end_line"`
	EndColumn int `json:"end_column"`
	// Code is the first line of the range, or the part of a long line around it, without sensitive data. The bytes from
	// Mark to MarkEnd are the columns of the range.
	Code    string       `json:"code"`
	Mark    int          `json:"mark"`
	MarkEnd int          `json:"mark_end"`
	Subject string       `json:"subject"`
	Symbol  string       `json:"symbol"`
	Names   check.Names  `json:"names"`
	Edits   []check.Edit `json:"edits"`
}
