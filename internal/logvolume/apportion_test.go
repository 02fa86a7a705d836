// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestApportion(t *testing.T) {
	for _, test := range []struct {
		n       uint64
		weights []float64
		want    []uint64
	}{
		{10, []float64{1, 1, 2}, []uint64{3, 2, 5}},
		{0, []float64{1, 2}, []uint64{0, 0}},
		{7, []float64{0, 0.001, 0}, []uint64{0, 7, 0}},
		{3, []float64{0, 0, 0, 0}, []uint64{1, 1, 1, 0}},
		{1, []float64{0.2, 0.5, 0.3}, []uint64{0, 1, 0}},
		{5, []float64{math.NaN(), math.Inf(1), -1, 2}, []uint64{0, 0, 0, 5}},
		{4, []float64{math.MaxFloat64, math.MaxFloat64}, []uint64{2, 2}},
		{maxCount, []float64{1, 1e-300}, []uint64{maxCount, 0}},
	} {
		require.Equal(t, test.want, apportion(test.n, test.weights), "%d by %v", test.n, test.weights)
	}
}

func TestApportionAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, maxCount).Draw(t, "n")
		weights := rapid.SliceOfN(rapid.Float64(), 1, points).Draw(t, "weights")
		var sum float64
		for _, w := range weights {
			if w > 0 && !math.IsInf(w, 1) {
				sum += w
			}
		}
		var total uint64
		for i, share := range apportion(n, weights) {
			total += share
			if sum > 0 && !math.IsInf(sum, 1) {
				// Within one of the exact share, up to the precision of float64: an error of a large share
				// moves small ones.
				exact := float64(n) * (max(weights[i], 0) / sum)
				if math.Abs(float64(share)-exact) > 1+exact*1e-9+float64(n)*0x1p-51 {
					t.Fatalf("share %d is %d, not %g", i, share, exact)
				}
			}
		}
		if total != n {
			t.Fatalf("%d shared out of %d", total, n)
		}
	})
}
