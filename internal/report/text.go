// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"assay/internal/rules/remedy"

	"assay"
)

var impactStyles = map[assay.Impact]style{
	assay.ImpactCritical:  red,
	assay.ImpactImportant: yellow,
	assay.ImpactNormal:    cyan,
	assay.ImpactLow:       dim,
}

// bandStyle returns the style for a score.
func bandStyle(score int) style {
	switch {
	case score >= 75:
		return green
	case score >= 50:
		return yellow
	default:
		return red
	}
}

// writeText writes a table of the services and then the findings of each service.
func writeText(w io.Writer, r *Report, opt Options) error {
	p := &prose{opt: opt}
	p.line(opt.style(bold, "Instrumentation Score"))
	p.wrapped("", "", r.window())
	p.wrapped("", "", r.summary())
	p.line("")
	if len(r.Services) == 0 {
		p.line("No service sent telemetry that the rules evaluate.")
	} else {
		p.services(r.Services)
	}
	for i := range r.Services {
		if s := &r.Services[i]; len(s.Insights) > 0 {
			p.line("")
			p.findings(s)
		}
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// Column widths of the table of services, to fit in 80 columns.
const (
	cellName        = 24
	cellEnvironment = 10
	cellVersion     = 9
)

func (p *prose) services(services []Service) {
	var environment, version bool
	for i := range services {
		environment = environment || services[i].Environment != ""
		version = version || services[i].Version != ""
	}
	extra := max(0, p.opt.width()-DefaultWidth)
	header := []string{"SERVICE"}
	if environment {
		header = append(header, "ENV")
	}
	if version {
		header = append(header, "VERSION")
	}
	header = append(header, "SCORE", "BAND", "RULES", "FAILED")
	rows := make([][]string, len(services))
	for i := range services {
		s := &services[i]
		row := []string{Printable(s.fullName(), cellName+extra)}
		if environment {
			row = append(row, orDash(Printable(s.Environment, cellEnvironment)))
		}
		if version {
			row = append(row, orDash(Printable(s.Version, cellVersion)))
		}
		score, band := "-", orDash(shortBand(s.Category))
		if s.Score != nil {
			score = strconv.Itoa(*s.Score)
		}
		rows[i] = append(row, score, band, strconv.Itoa(len(s.EvaluatedRuleIDs)), strconv.Itoa(len(s.FailedRuleIDs)))
	}
	for i, line := range align(header, rows) {
		switch {
		case i == 0:
			line = p.opt.style(bold, line)
		case services[i-1].Score != nil:
			line = p.opt.style(bandStyle(*services[i-1].Score), line)
		}
		p.line(line)
	}
}

// shortBand returns a one-word name of a band for narrow tables.
func shortBand(band string) string {
	if band == "Needs Improvement" {
		return "Improve"
	}
	return band
}

func orDash(s string) string { return cmp.Or(s, "-") }

// findings writes the insights of a service.
func (p *prose) findings(s *Service) {
	headline := s.label(cellName*2) + ": " + s.scoreText()
	if s.Category != "" {
		headline += " " + s.Category
	}
	p.wrapped("", "  ", headline)
	p.line(strings.Repeat("-", min(p.opt.width(), columns(headline))))
	for n, i := range s.Insights {
		if n > 0 {
			p.line("")
		}
		info := i.info()
		p.line(p.opt.style(impactStyles[i.Impact], string(i.Impact)) + "  " + p.opt.style(bold, title(info)))
		const indent = "  "
		p.wrapped(indent, indent, plain(firstParagraph(info.Description)))
		if share := i.share(); share != "" {
			p.wrapped(indent, indent, share+".")
		}
		for _, f := range i.evidence() {
			p.wrapped(indent, indent+"  ", f.String())
		}
		p.fix(indent, remedy.For(info, i.Attributes))
		if info.Description != "" {
			p.line(indent + p.opt.style(dim, "More: assay rules "+cmp.Or(info.ID, info.Name)))
		}
	}
}

// firstParagraph returns the first paragraph of a Markdown text.
func firstParagraph(text string) string {
	for _, b := range parseBlocks(text) {
		if b.kind == paragraph {
			return b.text
		}
	}
	return ""
}
