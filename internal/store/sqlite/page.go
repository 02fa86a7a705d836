// SPDX-License-Identifier: Apache-2.0

package sqlite

import "assay"

// limitOffset ends a statement that finds a page. SQLite looks at a bare parameter of
// LIMIT when it plans, and so plans a second time once the parameter has its value.
const limitOffset = ` LIMIT ? + 0 OFFSET ? + 0`

// part is the rows of a sorted list that make a page.
type part struct {
	limit    int // rows to read; 0 when the page is past the end
	offset   int // rows to skip
	reversed bool
}

// partOf returns where to find a page of a list of total rows. SQLite walks over
// what an offset skips, so a page past the middle is read from the other end. The
// limit leaves nothing to be looked for behind the last row.
func partOf(p assay.Page, total int) part {
	rest := total - p.Offset
	if rest <= 0 {
		return part{}
	}
	limit := min(p.Limit, rest)
	if behind := rest - limit; behind < p.Offset {
		return part{limit: limit, offset: behind, reversed: true}
	}
	return part{limit: limit, offset: p.Offset}
}
