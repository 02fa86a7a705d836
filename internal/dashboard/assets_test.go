// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilesOfOthersAreWrittenDown compares them with what scripts/vendor-assets wrote.
func TestFilesOfOthersAreWrittenDown(t *testing.T) {
	list, err := os.ReadFile("assets/VENDORED.md")
	require.NoError(t, err)
	ours := []string{"VENDORED.md", "app.css", "app.js", "favicon.svg"}
	files, err := filepath.Glob("assets/*")
	require.NoError(t, err)
	for _, file := range files {
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		sum := sha256.Sum256(body)
		named := strings.Contains(string(list), "| "+filepath.Base(file)+" | ") && strings.Contains(string(list), hex.EncodeToString(sum[:]))
		require.Equal(t, !slices.Contains(ours, filepath.Base(file)), named, file)
	}
}
