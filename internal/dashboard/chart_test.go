// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

var chartStart = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func TestScoreChart(t *testing.T) {
	end := chartStart.Add(100 * time.Hour)
	points := []assay.ScorePoint{{At: chartStart, Value: 100}, {At: chartStart.Add(50 * time.Hour), Value: 75}, {At: end, Value: 90.5}}
	c := newScoreChart("Score", points, chartStart, end)
	require.Equal(t, "M0 0H500V50H1000V19H1000", c.Line)
	require.Equal(t, "M0 0H500V50H1000V19H1000V100H0Z", c.Area)
	require.Equal(t, []tick{{At: "0%", Label: "100"}, {At: "20%", Label: "90"}, {At: "50%", Label: "75"}, {At: "100%", Label: "50"}}, c.Y)
	require.Equal(t, "From 100 on Nov 1, 00:00 to 91 on Nov 5, 04:00, lowest 75.", c.Summary)
	require.Equal(t, -9, c.Change())
	require.Equal(t, scoreRow{X: 500, Key: points[1].At.Unix(), Time: "Nov 3, 02:00", scoreValue: scoreValue{75, "Good"}}, c.Rows[1])

	points[1].Value = 20
	require.Equal(t, "M0 0H500V80H1000V9.5H1000", newScoreChart("Score", points, chartStart, end).Line, "from 0 on when scores are low")
	require.Nil(t, newScoreChart("Score", nil, chartStart, end))
	one := newScoreChart("Score", points[1:2], chartStart, end)
	require.Equal(t, "M500 80H1000", one.Line, "it holds until now")
	require.Equal(t, "20 since Nov 3, 02:00.", one.Summary)
	require.Zero(t, one.Change())

	young := newScoreChart("Score", []assay.ScorePoint{{At: end.Add(-20 * time.Hour), Value: 80}, {At: end.Add(-10 * time.Hour), Value: 90}}, chartStart, end)
	require.Equal(t, "M0 40H500V20H1000", young.Line, "it holds until now")
	require.Equal(t, "08:00", young.X[0].Label)
}

func TestSparkline(t *testing.T) {
	end := chartStart.Add(10 * time.Hour)
	require.Nil(t, newSparkline(nil, chartStart, end))
	one := newSparkline([]assay.ScorePoint{{At: end, Value: 80}}, chartStart, end)
	require.Equal(t, "80 since it was first scored", one.Summary)
	require.Equal(t, "Good", one.Band)
	flat := newSparkline([]assay.ScorePoint{{At: chartStart, Value: 100}, {At: end, Value: 100}}, chartStart, end)
	require.Equal(t, "M3 3L93 3", flat.Line)
	require.Equal(t, "from 100 to 100", flat.Summary)
}

func TestStackChart(t *testing.T) {
	v := &assay.LogVolume{Period: "1h", Start: chartStart, End: chartStart.Add(time.Hour)}
	for i := range 2 {
		p := assay.LogVolumePoint{Start: chartStart.Add(time.Duration(i) * 30 * time.Minute)}
		p.Counts[assay.SeverityInfo], p.Counts[assay.SeverityError] = 60, uint64(40*i)
		v.Series = append(v.Series, p)
		v.Counts.Add(&p.Counts)
	}
	c := newStackChart(v)
	require.Equal(t, []string{"INFO", "ERROR"}, c.Names, "errors lie on top")
	require.Equal(t, "M1 1000V400h8V1000zM11 1000V400h8V1000z", c.Layers[0].Path)
	require.Equal(t, "M11 400V0h8V400z", c.Layers[1].Path)
	require.Equal(t, []uint64{60, 40}, c.Rows[1].Counts)
	require.Equal(t, []tick{{At: "50%", Label: "50"}, {At: "0%", Label: "100"}}, c.Y)
}

func TestTopsAreRound(t *testing.T) {
	for n := range uint64(3_000) {
		top, steps := niceTop(n)
		require.GreaterOrEqual(t, top, n)
		require.Zero(t, top%uint64(steps), n)
		require.LessOrEqual(t, top, max(4, 2*n), n)
		require.LessOrEqual(t, len(strings.TrimRight(fmt.Sprint(top), "0")), 1, n)
	}
	top, _ := niceTop(1 << 63)
	require.GreaterOrEqual(t, top, uint64(1<<63))
}

func TestMarks(t *testing.T) {
	end := chartStart.Add(1000 * time.Hour)
	c := newScoreChart("Score", []assay.ScorePoint{{At: chartStart, Value: 100}, {At: end, Value: 90}}, chartStart, end)
	at := func(hours int) time.Time { return chartStart.Add(time.Duration(hours) * time.Hour) }
	c.mark(at(100), end, markTurn, "a")
	c.mark(at(105), end, markPass, "b")
	c.mark(at(109), end, markFail, "c")
	c.mark(at(110), end, markTurn, "d")
	c.mark(at(130), end, markPass, "e")
	c.mark(at(135), end, markTurn, "f")
	type shown struct {
		at, title string
		kind      markKind
	}
	var all []shown
	for _, m := range c.Marks {
		all = append(all, shown{m.At, m.Title, m.Kind})
	}
	require.Equal(t, []shown{
		{"10%", "3 changes from Nov 5, 04:00 to Nov 5, 13:00", markFail}, // indistinguishable values
		{"11%", "d", markTurn},
		{"13%", "2 changes from Nov 6, 10:00 to Nov 6, 15:00", markPass},
	}, all)
	require.Len(t, c.Kinds(), 3)
}

func TestThinned(t *testing.T) {
	points := make([]assay.ScorePoint, 1000)
	for i := range points {
		points[i] = assay.ScorePoint{At: chartStart.Add(time.Duration(i) * time.Hour), Value: 100}
		if i >= 333 && i < 335 {
			points[i].Value = 50
		}
	}
	some := thinned(points, 10)
	require.Len(t, some, 11)
	require.Equal(t, []assay.ScorePoint{points[0], points[333], points[335], points[999]}, []assay.ScorePoint{some[0], some[3], some[4], some[10]})
	for i := range points {
		points[i].Value = float64(i % 2)
	}
	require.Len(t, thinned(points, 10), 10, "changes without end")
	require.Equal(t, points[:10], thinned(points[:10], 10))
}
