// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"

	"assay/internal/review"
)

// writeReviewJUnit writes JUnit XML with a suite for each check, which has a case for each finding, or one that passes.
func writeReviewJUnit(w io.Writer, r *review.Report) error {
	out := junitSuites{Name: "Telemetry review"}
	found := map[string][]*review.Finding{}
	for i := range r.Findings {
		f := &r.Findings[i]
		found[f.Check] = append(found[f.Check], f)
	}
	for _, c := range r.Checks {
		suite := junitSuite{Name: c.ID, Tests: max(1, len(found[c.ID])), Failures: len(found[c.ID])}
		for _, f := range found[c.ID] {
			l := f.Locations[0]
			file := Printable(l.File, labelPath)
			suite.Cases = append(suite.Cases, junitCase{
				Name: fmt.Sprintf("%s:%d %s", file, l.Line, Printable(f.DisplayTitle, labelTitle)), ClassName: c.ID, File: file,
				Failure: &junitFailure{Message: Printable(f.Summary, labelText), Type: string(f.Severity), Text: f.Why + "\n\n" + f.Fix + "\n"},
			})
		}
		if len(suite.Cases) == 0 {
			suite.Cases = []junitCase{{Name: c.Title, ClassName: c.ID}}
		}
		out.Tests += suite.Tests
		out.Failures += suite.Failures
		out.Suites = append(out.Suites, suite)
	}
	return encodeXML(w, out)
}
