// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"regexp"
	"strings"

	"assay/internal/report"
	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

const (
	maxOutput  = 16 << 10 // bytes
	maxText    = 200      // columns of a name or reason
	maxCommand = 1000     // columns
)

// styles are escape sequences of terminals.
var styles = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// printable returns the output of tests without secrets and without characters that are invisible or control a
// terminal.
func printable(output string) string {
	var b strings.Builder
	for line := range strings.Lines(styles.ReplaceAllString(output, "")) {
		line = strings.TrimRight(line, "\r\n")
		b.WriteString(safetext.Printable(sensitive.Clean([]byte(line)), "\t"))
		b.WriteByte('\n')
	}
	return b.String()
}

// oneLine returns a text of the repository or its telemetry as a short line without secrets.
func oneLine(text string) string { return report.Printable(sensitive.Clean([]byte(text)), maxText) }
