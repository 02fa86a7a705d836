// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"assay/internal/safetext"
)

// maxMarks is the maximum number of combining marks per character.
const maxMarks = 3

// Printable returns s as one line of at most limit columns that cannot control a terminal or reorder the text around
// it. White space becomes a space. Characters that safetext.Hidden reports, such as control characters and direction
// marks, and invalid UTF-8 become the replacement character. Truncation is marked by an ellipsis.
func Printable(s string, limit int) string {
	if limit <= 0 {
		return ""
	}
	var b strings.Builder
	columns, marks := 0, 0
	fits := 0 // bytes of b that leave one column for the ellipsis
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case safetext.Hidden(r):
			r = utf8.RuneError
		}
		w := runeWidth(r)
		if w == 0 {
			if marks++; marks > maxMarks {
				continue
			}
		} else {
			marks = 0
		}
		if columns+w > limit {
			return b.String()[:fits] + "…"
		}
		b.WriteRune(r)
		if columns += w; columns < limit {
			fits = b.Len()
		}
	}
	return b.String()
}

// runeWidth returns the number of terminal columns of a printable rune.
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// columns returns the width of a printable string.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// pad pads s with spaces to n columns.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-columns(s)))
}

// wrap splits a text at spaces into lines of at most width columns. A longer word gets its own line.
func wrap(s string, width int) []string {
	var lines []string
	var line strings.Builder
	n := 0
	for word := range strings.FieldsSeq(s) {
		w := columns(word)
		if n > 0 && n+1+w > width {
			lines = append(lines, line.String())
			line.Reset()
			n = 0
		}
		if n > 0 {
			line.WriteByte(' ')
			n++
		}
		line.WriteString(word)
		n += w
	}
	if n > 0 {
		lines = append(lines, line.String())
	}
	return lines
}
