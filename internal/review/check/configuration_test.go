// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/csv"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConfigurationVerdicts reads what a reader of public repositories says about findings in their configuration
// files. A check that reports more than a suggestion is right in nine of ten.
func TestConfigurationVerdicts(t *testing.T) {
	file, err := os.Open("testdata/configuration_verdicts.csv")
	require.NoError(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	agreed := 0
	for _, row := range rows[1:] {
		require.True(t, slices.ContainsFunc(All(), func(c *Check) bool { return c.ID == row[4] }), row[4])
		if row[5] == "true" {
			agreed++
		}
	}
	require.GreaterOrEqual(t, 10*agreed, 9*len(rows[1:]))
}
