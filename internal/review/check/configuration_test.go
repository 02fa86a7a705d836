// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/rules/catalog"
)

// TestConfigurationVerdicts checks that a reader of public repositories agreed with at least nine of ten findings in
// their configuration files.
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

// TestCriticalities compares the values that the check accepts with those of the rule.
func TestCriticalities(t *testing.T) {
	var quoted []string
	for _, c := range criticalities {
		quoted = append(quoted, "`"+c+"`")
	}
	last := len(quoted) - 1
	require.Contains(t, catalog.RES006.Info().Criterion, "not exactly "+strings.Join(quoted[:last], ", ")+" or "+quoted[last])
}
