// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"assay/internal/review/check"
)

// place is a finding with what decides whether and where it is reported.
type place struct {
	Finding
	start, end int
	hidden     bool // suppressed, or on lines that did not change
}

// text is a file with the offsets of its lines.
type text struct {
	source []byte
	lines  []int
}

func newText(source []byte) *text {
	t := &text{source: source, lines: []int{0}}
	for i, b := range source {
		if b == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// maxColumn is the offset in a line up to which columns are UTF-16 code units. Beyond it they are bytes, so that many
// findings on one long line take linear time.
const maxColumn = 4 << 10

// position returns the line and the column of an offset, from 1. Columns are in UTF-16 code units.
func (t *text) position(offset int) (line, column int) {
	line = sort.SearchInts(t.lines, offset+1)
	start := t.lines[line-1]
	if offset-start > maxColumn {
		return line, offset - start + 1
	}
	column = 1
	for _, r := range string(t.source[start:offset]) {
		column += max(1, utf16.RuneLen(r))
	}
	return line, column
}

// Limits of an excerpt, in bytes.
const (
	maxBefore = 120 // of the line before the range
	maxCode   = 320
)

// Masked reports whether the findings of a check are secrets.
func Masked(id string) bool {
	return slices.ContainsFunc(check.All(), func(c *check.Check) bool { return c.ID == id && c.Masked })
}

// newPlace returns the finding of a check in a file.
func newPlace(f *check.Finding, t *text) *place {
	start := min(max(f.Start, 0), len(t.source))
	end := min(max(f.End, start), len(t.source))
	line, column := t.position(start)
	endLine, endColumn := t.position(end)
	c := f.Check
	title := c.Title
	if f.Subject != "" {
		title += ": " + f.Subject
	}
	d := &Detail{Column: column, EndLine: endLine, EndColumn: endColumn, Subject: f.Subject, Symbol: f.Symbol, Names: f.Names, Edits: f.Fix}
	d.Code, d.Mark, d.MarkEnd = t.excerpt(start, end, c.Masked)
	return &place{
		start: start, end: end,
		Finding: Finding{
			Check: c.ID, Rules: append([]string{}, c.Rules...), Severity: f.Severity, Category: c.Category,
			Title: c.Title, DisplayTitle: title, Summary: f.Message, Why: c.Why, Fix: c.Fix, Fixable: len(f.Fix) > 0,
			Locations: []Location{{File: f.File, Line: line, Description: f.Message}},
			Status:    "active", Detail: d,
		},
	}
}

// excerpt returns the line of start, or the part of a long line around it, and the range in it.
func (t *text) excerpt(start, end int, masked bool) (code string, mark, markEnd int) {
	line, _ := t.position(start)
	from, to := t.lines[line-1], len(t.source)
	if line < len(t.lines) {
		to = t.lines[line] - 1
	}
	end = min(end, to)
	start = min(start, end)
	if start-from > maxBefore {
		for from = start - maxBefore; !utf8.RuneStart(t.source[from]); from++ {
		}
	}
	if to-from > maxCode {
		for to = from + maxCode; !utf8.RuneStart(t.source[to]); to-- {
		}
	}
	end = max(start, min(end, to))
	middle := string(t.source[start:end])
	if masked {
		middle = "***"
	}
	before, after := string(t.source[from:start]), strings.TrimRight(string(t.source[end:max(to, end)]), "\r")
	return before + middle + after, len(before), len(before) + len(middle)
}

// line returns the first line of the finding.
func (p *place) line() int { return p.Locations[0].Line }

// settle sorts findings, removes those that name the same place and subject twice, and sets the ids. Findings that are hidden
// count for the ids of the others and are removed.
func settle(places []*place) []Finding {
	slices.SortStableFunc(places, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.Locations[0].File, b.Locations[0].File), cmp.Compare(a.line(), b.line()),
			cmp.Compare(a.Check, b.Check), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.Detail.Subject, b.Detail.Subject))
	})
	places = slices.CompactFunc(places, func(a, b *place) bool {
		return a.Check == b.Check && a.Locations[0].File == b.Locations[0].File && a.start == b.start && a.end == b.end &&
			a.Detail.Subject == b.Detail.Subject
	})
	ordinals := map[string]int{}
	findings := []Finding{}
	for _, p := range places {
		key := strings.Join([]string{p.Check, p.Locations[0].File, p.Detail.Symbol, p.Detail.Subject}, "\x00")
		n := ordinals[key]
		ordinals[key]++
		if p.hidden {
			continue
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, n))
		p.ID = "otel-" + hex.EncodeToString(sum[:6])
		findings = append(findings, p.Finding)
	}
	return findings
}
