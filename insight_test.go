// SPDX-License-Identifier: Apache-2.0

package assay_test

import (
	"testing"

	"assay"
)

func TestFailureCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		evidence         map[string]any
		failed, observed uint64
		ok               bool
	}{
		"Go":         {map[string]any{"violations_total": int64(3), "observations_total": 10}, 3, 10, true},
		"JSON":       {map[string]any{"violations_total": 3.0, "observations_total": uint64(1 << 63)}, 3, 1 << 63, true},
		"none":       {nil, 0, 0, false},
		"one":        {map[string]any{"violations_total": int64(3)}, 3, 0, false},
		"a text":     {map[string]any{"violations_total": int64(3), "observations_total": "10"}, 3, 0, false},
		"a fraction": {map[string]any{"violations_total": int64(0), "observations_total": 1.5}, 0, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			failed, observed, ok := assay.FailureCounts(tc.evidence)
			if ok != tc.ok || ok && (failed != tc.failed || observed != tc.observed) {
				t.Errorf("got %d of %d, %t", failed, observed, ok)
			}
		})
	}
}
