// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"assay/internal/rules/catalog"
	"assay/internal/safetext"
)

// Options configures the output. The zero value is valid for every format.
type Options struct {
	Color   bool     // text only: use terminal colors and bold
	Width   int      // text only: columns; 0 means DefaultWidth
	Version string   // of the tool, for SARIF
	Inputs  []string // paths of the input files, for SARIF: relative to the top of the work tree, or absolute
	Base    string   // path of the reviewed directory below the top of the work tree, for SARIF
}

// DefaultWidth is the width of text that is not written to a terminal.
const DefaultWidth = 80

// Limits on the text width, whatever the width of the terminal.
const (
	minWidth = 40
	maxWidth = 120
)

func (o Options) width() int {
	if o.Width <= 0 {
		return DefaultWidth
	}
	return min(max(o.Width, minWidth), maxWidth)
}

// Formats returns the formats of Write.
func Formats() []string { return []string{"text", "json", "markdown", "junit", "sarif"} }

// Write writes a report in one of the Formats. It does not modify the report. Names from telemetry (services,
// attributes) cannot break out of their place in the output, and are shortened in the formats for people.
func Write(w io.Writer, format string, r *Report, opt Options) error {
	return write(w, format, map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return writeText(b, r, opt) },
		"json":     func(b *bytes.Buffer) error { return writeJSON(b, r) },
		"markdown": func(b *bytes.Buffer) error { writeMarkdown(b, r); return nil },
		"junit":    func(b *bytes.Buffer) error { return writeJUnit(b, r) },
		"sarif":    func(b *bytes.Buffer) error { return writeSARIF(b, r, opt) },
	})
}

// write writes the output of the writer of a format.
func write(w io.Writer, format string, writers map[string]func(*bytes.Buffer) error) error {
	f, ok := writers[format]
	if !ok {
		return fmt.Errorf("unknown report format %q, not one of %s", format, strings.Join(Formats(), ", "))
	}
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	text := b.Bytes()
	switch format {
	case "json", "sarif":
		text = safetext.LogJSON(text)
	case "junit":
		text = safetext.LogXML(text)
	case "markdown":
		text = safetext.LogMarkdown(text)
	}
	_, err := w.Write(text)
	return err
}

// writeJSON writes JSON: lists are never null, and times are in UTC with microseconds at most.
func writeJSON(b *bytes.Buffer, r *Report) error {
	out := *r
	out.Window.Start, out.Window.End = jsonTime(r.Window.Start), jsonTime(r.Window.End)
	out.Services = append([]Service{}, r.Services...)
	for i := range out.Services {
		s := &out.Services[i]
		s.EvaluatedRuleIDs = append([]string{}, s.EvaluatedRuleIDs...)
		s.FailedRuleIDs = append([]string{}, s.FailedRuleIDs...)
		s.Insights = append([]Insight{}, s.Insights...)
		for j := range s.Insights {
			if s.Insights[j].Attributes == nil {
				s.Insights[j].Attributes = map[string]any{}
			}
		}
	}
	return encodeJSON(b, &out)
}

func jsonTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// encodeJSON writes v as indented JSON.
func encodeJSON(b *bytes.Buffer, v any) error {
	if err := safetext.EncodeJSON(b, v, "  "); err != nil {
		return err
	}
	return b.WriteByte('\n')
}

// info returns the catalog entry of an insight.
func (i *Insight) info() *catalog.Info {
	if r, ok := catalog.ByInsightType(i.Name); ok {
		return r.Info()
	}
	return &catalog.Info{ID: i.RuleID, Name: i.Name, DisplayName: i.Name, Impact: i.Impact}
}

// title returns the rule id, if there is one, and the title.
func title(i *catalog.Info) string {
	if i.ID == "" {
		return i.DisplayName
	}
	return i.ID + " " + i.DisplayName
}

// fullName returns the name of a service with its namespace.
func (s *Service) fullName() string {
	if s.Namespace == "" {
		return s.Name
	}
	return s.Namespace + "/" + s.Name
}

// label returns the display name of a service with its distinguishing attributes. The name takes at most limit
// columns.
func (s *Service) label(limit int) string {
	var parts []string
	for _, p := range []string{s.Environment, s.Version} {
		if p != "" {
			parts = append(parts, Printable(p, labelPart))
		}
	}
	name := Printable(s.fullName(), limit)
	if len(parts) == 0 {
		return name
	}
	return name + " (" + strings.Join(parts, ", ") + ")"
}

const (
	labelName = 80
	labelPart = 30
)

// scoreText returns the rounded score, and the exact one if they differ.
func (s *Service) scoreText() string {
	switch {
	case s.Score == nil:
		return "-"
	case s.ScoreExact == nil || *s.ScoreExact == float64(*s.Score):
		return fmt.Sprintf("%d", *s.Score)
	default:
		return fmt.Sprintf("%d (%.2f)", *s.Score, *s.ScoreExact)
	}
}

// Bytes formats a number of bytes with a binary unit.
func Bytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1023.95 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// count returns a number with its noun.
func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// grouped returns a number with thousands separators.
func grouped(n uint64) string {
	s := fmt.Sprintf("%d", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// summary describes the telemetry read.
func (r *Report) summary() string {
	t := r.Totals
	return strings.Join([]string{
		count(t.Spans, "span", "spans"),
		count(t.MetricDataPoints, "metric data point", "metric data points"),
		count(t.LogRecords, "log record", "log records"),
		Bytes(t.Bytes),
	}, ", ")
}

// window describes the period of the scores, or returns "" for an empty report.
func (r *Report) window() string {
	if r.Window.End.IsZero() {
		return ""
	}
	const layout = "2006-01-02 15:04"
	return r.Window.Start.UTC().Format(layout) + " to " + r.Window.End.UTC().Format(layout) + " UTC"
}
