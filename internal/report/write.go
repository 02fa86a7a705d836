// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"assay/internal/rules/catalog"
	"assay/internal/safetext"
)

// Options say how a report looks. The zero value is fine everywhere.
type Options struct {
	Color   bool     // text only: colour and bold, for a terminal
	Width   int      // text only: columns; 0 means DefaultWidth
	Version string   // of the tool, for SARIF
	Inputs  []string // paths of the files judged, for SARIF
}

// DefaultWidth is the width of text that is not for a terminal.
const DefaultWidth = 80

// The widths that text is written for, whatever the terminal's.
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

// Formats returns the names of the formats that Write knows.
func Formats() []string { return []string{"text", "json", "markdown", "junit", "sarif"} }

// Write writes a report in one of the Formats. The report is not changed. What
// telemetry named (services, attributes) cannot escape from its place in the
// output, and is shortened where people read it.
func Write(w io.Writer, format string, r *Report, opt Options) error {
	var b bytes.Buffer
	var err error
	switch format {
	case "text":
		err = writeText(&b, r, opt)
	case "json":
		err = writeJSON(&b, r)
	case "markdown":
		writeMarkdown(&b, r)
	case "junit":
		err = writeJUnit(&b, r)
	case "sarif":
		err = writeSARIF(&b, r, opt)
	default:
		return fmt.Errorf("unknown report format %q, not one of %s", format, strings.Join(Formats(), ", "))
	}
	if err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// writeJSON writes the contract's JSON: lists are never null, times are UTC with
// at most microseconds.
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

// encodeJSON writes v indented, on lines of their own.
func encodeJSON(b *bytes.Buffer, v any) error {
	if err := safetext.EncodeJSON(b, v, "  "); err != nil {
		return err
	}
	return b.WriteByte('\n')
}

// info returns what the catalog knows of an insight.
func (i *Insight) info() *catalog.Info {
	if r, ok := catalog.ByInsightType(i.Name); ok {
		return r.Info()
	}
	return &catalog.Info{ID: i.RuleID, Name: i.Name, DisplayName: i.Name, Impact: i.Impact}
}

// title returns the rule id, where there is one, and what is wrong.
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

// label returns what tells a service from others, for people; its name takes at
// most so many columns.
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

// scoreText returns the rounded score and the exact one where they differ.
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

// Bytes returns a number of bytes in a readable unit.
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

// grouped returns a number with a comma at every thousand.
func grouped(n uint64) string {
	s := fmt.Sprintf("%d", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// summary says what was read.
func (r *Report) summary() string {
	t := r.Totals
	return strings.Join([]string{
		count(t.Spans, "span", "spans"),
		count(t.MetricDataPoints, "metric data point", "metric data points"),
		count(t.LogRecords, "log record", "log records"),
		Bytes(t.Bytes),
	}, ", ")
}

// window says what time the scores cover, "" when nothing was read.
func (r *Report) window() string {
	if r.Window.End.IsZero() {
		return ""
	}
	const layout = "2006-01-02 15:04"
	return r.Window.Start.UTC().Format(layout) + " to " + r.Window.End.UTC().Format(layout) + " UTC"
}

// insights returns a service's insights, the heaviest first.
func (s *Service) insights() []Insight {
	sorted := slices.Clone(s.Insights)
	slices.SortStableFunc(sorted, func(a, b Insight) int {
		return cmp.Or(cmp.Compare(b.Impact.Weight(), a.Impact.Weight()), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}
