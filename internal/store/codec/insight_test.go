// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
)

// TestStatusAndSignalNumbers pins the numbers, which stores contain. Lists are sorted by
// the signals' numbers.
func TestStatusAndSignalNumbers(t *testing.T) {
	for n, want := range []assay.InsightStatus{"", assay.InsightActive, assay.InsightArchived, assay.InsightMuted, ""} {
		got, err := InsightStatus(int64(n))
		require.Equal(t, want, got)
		require.Equal(t, want == "", err != nil)
		if want != "" {
			require.EqualValues(t, n, StatusNumber(want))
		}
	}
	require.Zero(t, StatusNumber("other"))
	for n, s := range []assay.Signal{"other", assay.SignalLog, assay.SignalMetric, assay.SignalTrace} {
		require.EqualValues(t, n, SignalNumber(s))
	}
}
