// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"cmp"
	"math"
	"slices"
)

// apportion divides n in proportion to the weights into whole numbers that add up to n, by the largest remainder
// method (https://en.wikipedia.org/wiki/Quota_method). Weights that are not positive and finite count as 0. If all
// weights are 0, the shares are equal. weights must not be empty.
func apportion(n uint64, weights []float64) []uint64 {
	weights = slices.Clone(weights)
	var largest float64
	for i, w := range weights {
		if !(w > 0) || math.IsInf(w, 1) {
			weights[i] = 0
		}
		largest = max(largest, weights[i])
	}
	var sum float64
	for i := range weights {
		if largest == 0 {
			weights[i] = 1
		} else {
			weights[i] /= largest // the sum cannot overflow
		}
		sum += weights[i]
	}
	shares := make([]uint64, len(weights))
	remainders := make([]float64, len(weights))
	byRemainder := make([]int, len(weights))
	left := n
	for i, w := range weights {
		quota := float64(n) * (w / sum)
		whole := math.Floor(quota)
		shares[i] = min(uint64(whole), left) // rounding may have made the quotas too large
		remainders[i] = quota - whole
		left -= shares[i]
		byRemainder[i] = i
	}
	slices.SortStableFunc(byRemainder, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	heaviest := slices.Index(weights, slices.Max(weights))
	for _, i := range byRemainder {
		if left == 0 {
			break
		}
		if weights[i] > 0 {
			shares[i]++
			left--
		}
	}
	shares[heaviest] += left // more than one each only where floating point has run out of digits
	return shares
}
