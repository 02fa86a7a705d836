// SPDX-License-Identifier: Apache-2.0

package paging

import "assay"

// Part is the rows of a sorted list that make a page.
type Part struct {
	Limit    int // rows to read; 0 when the page is past the end
	Offset   int // rows to skip
	Reversed bool
}

// PartOf returns where to find a page of a list of total rows. Databases walk over
// what an offset skips, so a page past the middle is read from the other end. The
// limit leaves nothing to be looked for behind the last row.
func PartOf(p assay.Page, total int) Part {
	rest := total - p.Offset
	if rest <= 0 {
		return Part{}
	}
	limit := min(p.Limit, rest)
	if behind := rest - limit; behind < p.Offset {
		return Part{Limit: limit, Offset: behind, Reversed: true}
	}
	return Part{Limit: limit, Offset: p.Offset}
}
