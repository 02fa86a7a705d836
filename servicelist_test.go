// SPDX-License-Identifier: Apache-2.0

package assay_test

import (
	"math"
	"testing"
	"time"

	"assay"
)

func TestCategoryRange(t *testing.T) {
	for _, category := range assay.Categories() {
		from, below, ok := assay.CategoryRange(category)
		if !ok {
			t.Fatalf("%s is not known", category)
		}
		for _, v := range []float64{max(from, 0), (max(from, 0) + min(below, 100)) / 2, math.Nextafter(min(below, 100), 0)} {
			if got := assay.Category(assay.RoundScore(v)); got != category {
				t.Errorf("%v is %s, not %s", v, got, category)
			}
		}
		if !math.IsInf(below, 1) {
			if got := assay.Category(assay.RoundScore(below)); got == category {
				t.Errorf("%v is %s", below, got)
			}
		}
	}
	if _, _, ok := assay.CategoryRange(assay.Unscored); ok {
		t.Error("a service without a score has no band")
	}
}

func TestSeriesRange(t *testing.T) {
	end := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	day := assay.SeriesRange{Start: end.Add(-24 * time.Hour), End: end, Points: 4}
	if ends := day.Ends(); len(ends) != 4 || !ends[3].Equal(end) || !ends[0].Equal(end.Add(-18*time.Hour)) {
		t.Errorf("%v", ends)
	}
	if got := day.Reach(); got != 6*time.Hour {
		t.Errorf("reach %v", got)
	}
	if got := (assay.SeriesRange{Start: end.Add(-time.Hour), End: end, Points: 60}).Reach(); got != 2*time.Hour {
		t.Errorf("reach %v", got)
	}
	for points, want := range map[int]int{-1: 0, 0: 0, 1: 1, assay.MaxSeriesPoints + 1: assay.MaxSeriesPoints} {
		day.Points = points
		if got := len(day.Ends()); got != want {
			t.Errorf("%d points: %d ends", points, got)
		}
	}
}
