// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"strings"

	"assay/internal/safetext"
)

// maxCell is the maximum width of a table cell.
const maxCell = 60

// columnGap separates two columns.
const columnGap = "  "

// Table writes rows below a header in aligned columns. It makes the cells Printable.
func Table(w io.Writer, header []string, rows [][]string) error {
	var b strings.Builder
	for _, line := range align(header, rows) {
		b.WriteString(safetext.LogLine(line))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// align returns the lines of a table, starting with the header.
func align(header []string, rows [][]string) []string {
	all := make([][]string, 0, 1+len(rows))
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(header))
		for i := range cells {
			if i < len(row) {
				cells[i] = Printable(row[i], maxCell)
			}
			widths[i] = max(widths[i], columns(cells[i]))
		}
		all = append(all, cells)
	}
	lines := make([]string, len(all))
	for i, cells := range all {
		var b strings.Builder
		for j, c := range cells {
			if j > 0 {
				b.WriteString(columnGap)
			}
			b.WriteString(pad(c, widths[j]))
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}
