// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"assay/internal/codebase/redact"
	"assay/internal/review/check"
	"assay/internal/rules/sensitive"
)

// place is a finding with the data that determines whether and where it is reported.
type place struct {
	Finding
	start, end int
	hidden     bool // suppressed
	unchanged  bool // on lines that did not change, and not new
}

// text is a file with the offsets of its lines.
type text struct {
	source []byte
	lines  []int
	shown  []shownLine
}

// shownLine is a line without sensitive data.
type shownLine struct {
	text          string
	length        int // of the line in the file
	before, after int // number of bytes at the start and at the end that are the same in the file
}

// newText returns a file with its lines, and each line without sensitive data. The only possible error is that of the
// context.
func newText(ctx context.Context, source []byte, found []check.Finding) (*text, error) {
	t := &text{source: source, lines: lineStarts(source)}
	clean, err := redact.Clean(ctx, strings.Split(string(masked(source, found)), "\n"))
	if err != nil {
		return nil, err
	}
	for i, s := range strings.Split(string(source), "\n") {
		s = strings.TrimSuffix(s, "\r")
		l := shownLine{text: clean[i], length: len(s)}
		least := min(len(s), len(l.text))
		for l.before < least && s[l.before] == l.text[l.before] {
			l.before++
		}
		for l.after < least && s[len(s)-1-l.after] == l.text[len(l.text)-1-l.after] {
			l.after++
		}
		t.shown = append(t.shown, l)
	}
	return t, nil
}

func lineStarts(source []byte) []int {
	starts := []int{0}
	for i, b := range source {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// masked returns a source with *** in place of the secrets that its findings report. It keeps line breaks.
func masked(source []byte, found []check.Finding) []byte {
	var secrets [][2]int
	for i := range found {
		if start, end := within(&found[i], source); found[i].Check.Masked {
			secrets = append(secrets, [2]int{start, end})
		}
	}
	slices.SortFunc(secrets, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	var b []byte
	done := 0
	for _, s := range secrets {
		if s[0] >= done {
			b = append(append(b, source[done:s[0]]...), "***"...)
			done = s[0]
		}
		if s[1] > done {
			b = append(b, bytes.Repeat([]byte("\n"), bytes.Count(source[done:s[1]], []byte("\n")))...)
			done = s[1]
		}
	}
	return append(b, source[done:]...)
}

// within returns the range of a finding, limited to its file.
func within(f *check.Finding, source []byte) (start, end int) {
	start = min(max(f.Start, 0), len(source))
	return start, min(max(f.End, start), len(source))
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
	start, end := within(f, t.source)
	line, column := t.position(start)
	endLine, endColumn := t.position(end)
	c := f.Check
	title := c.Title
	if about := cmp.Or(f.About, f.Subject); about != "" {
		title += ": " + clean(about, check.MaxName)
	}
	// A name in the code may contain a link of Markdown or SARIF, and the backtick that ends the inline code before it.
	message := strings.ReplaceAll(clean(f.Message, check.MaxText), "](", "] (")
	names := check.Names{
		AttributeKey: clean(f.Names.AttributeKey, check.MaxName), MetricName: clean(f.Names.MetricName, check.MaxName),
		SpanName: clean(f.Names.SpanName, check.MaxName), ScopeName: clean(f.Names.ScopeName, check.MaxName), Service: check.Cut(f.Names.Service, check.MaxName),
	}
	d := &Detail{
		Column: column, EndLine: endLine, EndColumn: endColumn,
		Subject: check.Cut(f.Subject, check.MaxName), Symbol: f.Symbol, Names: names, Edits: f.Fix,
	}
	d.Code, d.Mark, d.MarkEnd = t.excerpt(start, end)
	return &place{
		start: start, end: end,
		Finding: Finding{
			Check: c.ID, Rules: append([]string{}, c.Rules...), Severity: f.Severity, Category: c.Category,
			Title: c.Title, DisplayTitle: title, Summary: message, Why: c.Why, Fix: c.Fix, Fixable: len(f.Fix) > 0,
			Locations: []Location{{File: f.File, Line: line, Description: message}},
			Status:    "active", Detail: d,
		},
	}
}

func clean(s string, limit int) string { return check.Cut(sensitive.Clean([]byte(s)), limit) }

// excerpt returns the line of start without sensitive data, and the marked range in it. Of a long line, it returns the
// part around start.
func (t *text) excerpt(start, end int) (code string, mark, markEnd int) {
	line, _ := t.position(start)
	l := &t.shown[line-1]
	mark, _ = l.at(start - t.lines[line-1])
	_, markEnd = l.at(end - t.lines[line-1])
	from, to := 0, len(l.text)
	if mark > maxBefore {
		for from = mark - maxBefore; !utf8.RuneStart(l.text[from]); from++ {
		}
	}
	if to-from > maxCode {
		for to = from + maxCode; !utf8.RuneStart(l.text[to]); to-- {
		}
	}
	return l.text[from:to], mark - from, max(mark, min(markEnd, to)) - from
}

// at returns the first and the last offset in the text that may stand for an offset in the line of the file.
func (l *shownLine) at(offset int) (first, last int) {
	offset = min(offset, l.length)
	end := len(l.text) - (l.length - offset)
	switch {
	case offset <= l.before:
		return offset, offset
	case l.length-offset <= l.after:
		return end, end
	}
	return l.before, len(l.text) - l.after
}

// line returns the first line of the finding.
func (p *place) line() int { return p.Locations[0].Line }

// settle sorts findings, removes duplicates, hidden and unchanged findings, and sets the ids. Findings at one place are
// duplicates if they have the same subject or summary, such as for a variable of several services in YAML. Hidden and
// unchanged findings count for the ids of other findings.
func settle(places []*place) []Finding {
	slices.SortStableFunc(places, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.Locations[0].File, b.Locations[0].File), cmp.Compare(a.line(), b.line()),
			cmp.Compare(a.Check, b.Check), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.Detail.Subject, b.Detail.Subject))
	})
	places = slices.CompactFunc(places, func(a, b *place) bool {
		return a.Check == b.Check && a.Locations[0].File == b.Locations[0].File && a.start == b.start && a.end == b.end &&
			(a.Detail.Subject == b.Detail.Subject || a.Summary == b.Summary)
	})
	ordinals := map[string]int{}
	findings := []Finding{}
	for _, p := range places {
		key := strings.Join([]string{p.Check, p.Locations[0].File, p.Detail.Symbol, p.Detail.Subject}, "\x00")
		n := ordinals[key]
		ordinals[key]++
		if p.hidden || p.unchanged {
			continue
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, n))
		p.ID = "otel-" + hex.EncodeToString(sum[:6])
		findings = append(findings, p.Finding)
	}
	return findings
}
