// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"assay/internal/review"
	"assay/internal/review/check"
)

var severityStyles = map[check.Severity]style{
	check.Critical:   red,
	check.High:       yellow,
	check.Medium:     cyan,
	check.Low:        dim,
	check.Suggestion: dim,
}

// writeReviewText writes the findings of each file with the line of code, and then their number by severity. The
// first finding of a check has its reason and its fix.
func writeReviewText(b *bytes.Buffer, r *review.Report, opt Options) {
	p := &prose{opt: opt}
	explained := map[string]bool{}
	for _, group := range byFile(r.Findings) {
		p.line(opt.style(bold, Printable(group[0].Locations[0].File, labelPath)))
		for i := range group {
			f := &group[i]
			p.finding(f)
			if !explained[f.Check] {
				explained[f.Check] = true
				p.explanation(f)
			}
			p.line("")
		}
	}
	p.severities(r.Findings)
	p.wrapped("", "", r.Instrumentation.Summary)
	p.wrapped("", "", filesSummary(&r.Files))
	for _, e := range r.Errors {
		p.wrapped(opt.style(yellow, "error")+": ", "  ", reviewError(e))
	}
	b.WriteString(p.b.String())
}

// finding writes the place, the message and the line of code.
func (p *prose) finding(f *review.Finding) {
	l := f.Locations[0]
	place := fmt.Sprintf("%d", l.Line)
	if f.Detail != nil {
		place += fmt.Sprintf(":%d", f.Detail.Column)
	}
	p.line(fmt.Sprintf("  %s  %s  %s  %s", place, p.opt.style(severityStyles[f.Severity], string(f.Severity)),
		Printable(f.DisplayTitle, labelTitle), p.opt.style(dim, f.Check)))
	if f.Detail != nil {
		p.code(f)
	}
	p.wrapped("    ", "    ", Printable(f.Summary, labelText))
}

// explanation writes why a check reports, and the first step of the fix.
func (p *prose) explanation(f *review.Finding) {
	const indent = "    "
	if why := firstParagraph(f.Why); why != "" {
		p.wrapped(indent+"Why: ", indent+"     ", plain(why))
	}
	p.fix(indent, f.Fix)
}

// fix writes the first step of a fix.
func (p *prose) fix(indent, markdown string) {
	step := firstStep(markdown)
	if len(step) == 0 {
		return
	}
	if step[0].kind == code {
		p.line(indent + "Fix:")
	} else {
		p.wrapped(indent+"Fix: ", indent+"     ", plain(step[0].text))
		step = step[1:]
	}
	p.blocks(step, indent+"   ")
}

// code writes the line of code with carets below the range.
func (p *prose) code(f *review.Finding) {
	const bar = "    | "
	room := max(p.opt.width()-len(bar), minWidth/2)
	before, mark, after := excerpt(f.Detail)
	before = strings.TrimLeft(before, " ")
	if columns(before) > room/2 {
		before = "…" + lastColumns(before, room/2-1)
	}
	line := Printable(before+mark+after, room)
	at := columns(before)
	carets := max(1, min(columns(mark), room-at))
	p.line(p.opt.style(dim, strings.TrimRight(bar, " ")) + " " + line)
	p.line(p.opt.style(dim, strings.TrimRight(bar, " ")) + " " + strings.Repeat(" ", at) + p.opt.style(severityStyles[f.Severity], strings.Repeat("^", carets)))
}

// excerpt returns the three parts of the line of code: before the range, the range, and after it.
func excerpt(d *review.Detail) (before, mark, after string) {
	safe := func(s string) string { return Printable(strings.ReplaceAll(s, "\t", "    "), len(s)*4+1) }
	from := min(max(d.Mark, 0), len(d.Code))
	to := min(max(d.MarkEnd, from), len(d.Code))
	return safe(d.Code[:from]), safe(d.Code[from:to]), safe(d.Code[to:])
}

// lastColumns returns the end of a printable string, of at most n columns.
func lastColumns(s string, n int) string {
	for columns(s) > n {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return s
}

// severities writes the number of findings of each severity.
func (p *prose) severities(findings []review.Finding) {
	if len(findings) == 0 {
		p.line(p.opt.style(green, "No findings."))
		return
	}
	counts := bySeverity(findings)
	for _, s := range check.Severities {
		if counts[s] > 0 {
			p.line(p.opt.style(severityStyles[s], pad(string(s), len(check.Suggestion))) + "  " + grouped(uint64(counts[s])))
		}
	}
	p.line(pad("all", len(check.Suggestion)) + "  " + grouped(uint64(len(findings))))
	p.line("")
}
