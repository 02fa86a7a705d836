// SPDX-License-Identifier: Apache-2.0

package paging

import "assay"

// Part is the rows of a sorted list that make a page.
type Part struct {
	Limit    int // rows to read; 0 when the page is past the end
	Offset   int // rows to skip
	Reversed bool
}

// PartOf returns the part of a list of total rows that makes a page. Databases scan the rows that an offset skips, so a
// page in the second half is read from the end. The limit is at most the number of rows left, so the database does not
// search beyond the last row.
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
