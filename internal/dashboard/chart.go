// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay"
)

// Coordinates of a chart. The SVG is stretched to the width of the page, so it contains only paths. Lines and labels
// are positioned by percentages.
const (
	planeWidth  = 1000
	planeHeight = 100
)

// tick is a line across a chart, or a label below it.
type tick struct {
	At     string // share of height or width, such as 25%
	Anchor string // of a label: start, middle or end
	Label  string
}

// scoreChart is the time series of a score.
type scoreChart struct {
	Title   string
	Start   time.Time
	Line    string // path
	Area    string // path, the area below Line
	Y, X    []tick
	Rows    []scoreRow
	Marks   []mark
	Summary string // in words
}

// scoreRow is a point of the time series, as a table row.
type scoreRow struct {
	X    int   // on the plane
	Key  int64 // identifies the row between updates
	Time string
	scoreValue
}

// mark is a time at which rules changed their state, or several times that are too close to be distinguished.
type mark struct {
	At    string // share of the width
	Kind  markKind
	Title string

	x           int // on the plane
	changes     int
	first, last time.Time
}

// markKind is the shape of a mark.
type markKind string

// Kinds of marks. The first that applies is used.
const (
	markFail markKind = "fail" // a rule began to fail
	markPass markKind = "pass" // a rule that failed passes
	markTurn markKind = "turn" // rules began or ceased to be evaluated
)

// markSpan is the minimum distance of two marks.
const markSpan = planeWidth / 100

// mark adds a mark. It must be later than the existing ones.
func (c *scoreChart) mark(at, end time.Time, kind markKind, title string) {
	x := xOf(at, c.Start, end)
	if n := len(c.Marks); n > 0 && x-c.Marks[n-1].x < markSpan {
		m := &c.Marks[n-1]
		m.changes, m.last = m.changes+1, at
		if kind == markFail || m.Kind == markTurn {
			m.Kind = kind
		}
		m.Title = fmt.Sprintf("%d changes from %s to %s", m.changes, m.first.UTC().Format(minuteLayout), m.last.UTC().Format(minuteLayout))
		return
	}
	c.Marks = append(c.Marks, mark{At: share(float64(x) / planeWidth), Kind: kind, Title: title, x: x, changes: 1, first: at, last: at})
}

// scoreValue is a score as pages show it.
type scoreValue struct {
	Value int
	Band  string
}

// scoreOf returns nil if s is nil.
func scoreOf(s *assay.Score) *scoreValue {
	if s == nil {
		return nil
	}
	return &scoreValue{s.Rounded(), s.Category()}
}

func roundedScore(v float64) scoreValue {
	n := assay.RoundScore(v)
	return scoreValue{n, assay.Category(n)}
}

// leastSpan is the minimum length of a time axis.
const leastSpan = time.Hour

// newScoreChart draws points between start and end; nil for none. If the points fill less
// than half of the axis, it begins with the first point.
func newScoreChart(title string, points []assay.ScorePoint, start, end time.Time) *scoreChart {
	if len(points) == 0 {
		return nil
	}
	if age := end.Sub(points[0].At); age < end.Sub(start)/2 {
		start = end.Add(-max(age, leastSpan))
	}
	low := 100.0
	for _, p := range points {
		low = min(low, p.Value)
	}
	floor := 50.0
	if low < 55 {
		floor = 0
	}
	y := func(v float64) float64 { return planeHeight * (100 - v) / (100 - floor) }
	c := &scoreChart{Title: title, Start: start, X: timeTicks(start, end)}
	var line strings.Builder
	for i, p := range points {
		x := xOf(p.At, start, end)
		if i == 0 {
			fmt.Fprintf(&line, "M%d %s", x, short(y(p.Value)))
		} else { // a score holds until the next one
			fmt.Fprintf(&line, "H%dV%s", x, short(y(p.Value)))
		}
		c.Rows = append(c.Rows, scoreRow{X: x, Key: p.At.Unix(), Time: p.At.UTC().Format(minuteLayout), scoreValue: roundedScore(p.Value)})
	}
	fmt.Fprintf(&line, "H%d", planeWidth)
	c.Line = line.String()
	c.Area = fmt.Sprintf("%sV%dH%dZ", c.Line, planeHeight, c.Rows[0].X)
	for _, v := range []float64{100, 90, 75, 50, 0} { // where bands begin
		if v >= floor {
			c.Y = append(c.Y, tick{At: share(y(v) / planeHeight), Label: strconv.Itoa(int(v))})
		}
	}
	first, last := c.Rows[0], c.Rows[len(c.Rows)-1]
	if len(points) == 1 {
		c.Summary = fmt.Sprintf("%d since %s.", first.Value, first.Time)
	} else {
		c.Summary = fmt.Sprintf("From %d on %s to %d on %s, lowest %d.", first.Value, first.Time, last.Value, last.Time, assay.RoundScore(low))
	}
	return c
}

// Kinds returns one mark of each kind in the chart, for the legend.
func (c *scoreChart) Kinds() []mark {
	var kinds []mark
	for _, k := range []mark{
		{Kind: markFail, Title: "a rule began to fail"}, {Kind: markPass, Title: "rules that failed pass"}, {Kind: markTurn, Title: "evaluated, or not any more"},
	} {
		if slices.ContainsFunc(c.Marks, func(m mark) bool { return m.Kind == k.Kind }) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Current returns the last score.
func (c *scoreChart) Current() scoreValue { return c.Rows[len(c.Rows)-1].scoreValue }

// Change returns how the score changed from the first point to the last.
func (c *scoreChart) Change() int { return c.Rows[len(c.Rows)-1].Value - c.Rows[0].Value }

// sparkline is a score history beside a name, of fixed size.
type sparkline struct {
	Line    string
	X, Y    string // of the last point
	Band    string
	Summary string
}

const (
	sparkWidth  = 96
	sparkHeight = 24
	sparkMargin = 3  // for the last point
	sparkSpan   = 12 // least range of scores, so that a change of one point stays small
)

// newSparkline draws points between start and end; nil for none.
func newSparkline(points []assay.ScorePoint, start, end time.Time) *sparkline {
	if len(points) == 0 {
		return nil
	}
	low, high := points[0].Value, points[0].Value
	for _, p := range points {
		low, high = min(low, p.Value), max(high, p.Value)
	}
	if spare := sparkSpan - (high - low); spare > 0 {
		high = min(100, high+spare/2)
		low = high - sparkSpan
	}
	var line strings.Builder
	var x, y float64
	for i, p := range points {
		x = sparkMargin + (sparkWidth-2*sparkMargin)*float64(xOf(p.At, start, end))/planeWidth
		y = sparkMargin + (sparkHeight-2*sparkMargin)*(high-p.Value)/(high-low)
		command := "L"
		if i == 0 {
			command = "M"
		}
		line.WriteString(command + short(x) + " " + short(y))
	}
	first, last := roundedScore(points[0].Value), roundedScore(points[len(points)-1].Value)
	s := &sparkline{Line: line.String(), X: short(x), Y: short(y), Band: last.Band}
	if len(points) == 1 {
		s.Summary = fmt.Sprintf("%d since it was first scored", last.Value)
	} else {
		s.Summary = fmt.Sprintf("from %d to %d", first.Value, last.Value)
	}
	return s
}

// stackChart is a stacked chart of counts by severity.
type stackChart struct {
	Width   int // of the plane: ten for each step
	Layers  []layer
	Y, X    []tick
	Rows    []stackRow
	Names   []string // of the layers that are not empty, in their order
	Summary string
}

// layer is one severity. Layers are ordered from the bottom up.
type layer struct {
	Name  string
	Path  string
	Count uint64
	Share string
}

// stackRow is one step as a row of the table.
type stackRow struct {
	X      int
	Key    int64 // as of scoreRow
	Time   string
	Counts []uint64 // in the order of Names
	Total  uint64
}

// stackHeight is fine enough for the largest screens.
const stackHeight = 1000

// newStackChart draws log volume. The least severe layer is at the bottom. Errors are on top, where their height is
// easiest to compare.
func newStackChart(v *assay.LogVolume) *stackChart {
	c := &stackChart{Width: 10 * len(v.Series)}
	var top uint64
	for i := range v.Series {
		top = max(top, v.Series[i].Counts.Total())
	}
	limit, steps := niceTop(top)
	order := []assay.Severity{
		assay.SeverityUnspecified, assay.SeverityTrace, assay.SeverityDebug, assay.SeverityInfo,
		assay.SeverityWarn, assay.SeverityError, assay.SeverityFatal,
	}
	ground := make([]uint64, len(v.Series))
	for _, p := range v.Series {
		c.Rows = append(c.Rows, stackRow{X: 5 + 10*len(c.Rows), Key: p.Start.Unix(), Time: p.Start.UTC().Format(minuteLayout), Total: p.Counts.Total()})
	}
	for _, s := range order {
		l := layer{Name: s.String(), Count: v.Counts[s], Share: percent(float64(v.Counts[s]), float64(v.Counts.Total()))}
		if l.Count == 0 {
			continue
		}
		var path strings.Builder
		for i, p := range v.Series {
			n := p.Counts[s]
			c.Rows[i].Counts = append(c.Rows[i].Counts, n)
			if n == 0 {
				continue
			}
			y := func(n uint64) int { return stackHeight - int(math.Round(stackHeight*float64(n)/float64(limit))) }
			fmt.Fprintf(&path, "M%d %dV%dh8V%dz", 10*i+1, y(ground[i]), y(ground[i]+n), y(ground[i]))
			ground[i] += n
		}
		l.Path = path.String()
		c.Layers, c.Names = append(c.Layers, l), append(c.Names, l.Name)
	}
	for i := 1; i <= steps; i++ {
		n := limit / uint64(steps) * uint64(i)
		c.Y = append(c.Y, tick{At: share(1 - float64(i)/float64(steps)), Label: compact(n)})
	}
	c.X = timeTicks(v.Start, v.End)
	c.Summary = thousands(v.Counts.Total()) + " log records"
	return c
}

// niceTop returns a round number that is at least n, and the number of round steps that
// divide it.
func niceTop(n uint64) (top uint64, steps int) {
	if n < 4 {
		return 4, 2
	}
	unit := uint64(1)
	for unit < 1e18 && 10*unit < n {
		unit *= 10
	}
	for _, m := range []struct {
		factor uint64
		steps  int
	}{{1, 2}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 3}, {8, 4}, {10, 2}} {
		if t := m.factor * unit; t >= n && t%uint64(m.steps) == 0 {
			return t, m.steps
		}
	}
	return n, 1 // larger than any count
}

// timeTicks returns the labels of a time axis, the ends among them.
func timeTicks(start, end time.Time) []tick {
	const parts = 4
	layout := "15:04"
	if end.Sub(start) > 48*time.Hour {
		layout = "Jan 2"
	}
	ticks := make([]tick, parts+1)
	for i := range ticks {
		at := start.Add(end.Sub(start) * time.Duration(i) / parts)
		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case parts:
			anchor = "end"
		}
		ticks[i] = tick{At: share(float64(i) / parts), Anchor: anchor, Label: at.UTC().Format(layout)}
	}
	return ticks
}

// xOf returns the x coordinate of a time on the plane.
func xOf(t, start, end time.Time) int {
	x := float64(t.Sub(start)) / float64(end.Sub(start))
	return int(math.Round(planeWidth * min(max(x, 0), 1)))
}

// share returns a share as a length: 25%.
func share(f float64) string { return short(100*f) + "%" }

// short returns a number with two digits at most.
func short(f float64) string {
	s := strconv.FormatFloat(f, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
