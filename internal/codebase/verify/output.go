// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"regexp"
	"strings"

	"assay/internal/codebase/redact"
	"assay/internal/report"
	"assay/internal/rules/sensitive"
)

const (
	maxOutput  = 16 << 10 // bytes
	maxText    = 200      // columns of a name or reason
	maxCommand = 1000     // columns
)

// styles matches escape sequences of terminals.
var styles = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// printable returns the output of tests without secrets, invisible characters and control characters.
func printable(output string) string {
	var lines []string
	for line := range strings.Lines(styles.ReplaceAllString(output, "")) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	if len(lines) == 0 {
		return ""
	}
	return redact.Output(strings.Join(lines, "\n")) + "\n"
}

// oneLine returns a text of the repository or its telemetry as a single line without secrets, cut at maxText.
func oneLine(text string) string { return report.Printable(sensitive.Clean([]byte(text)), maxText) }
