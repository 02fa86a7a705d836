// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVendoredFilesAreListed compares the vendored files with the list that scripts/vendor-assets wrote.
func TestVendoredFilesAreListed(t *testing.T) {
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

// TestChartColours checks the contrast of charts with their background in both themes. Source:
// https://www.w3.org/TR/WCAG22/#non-text-contrast
func TestChartColours(t *testing.T) {
	style, err := os.ReadFile("assets/app.css")
	require.NoError(t, err)
	themes := func(name string) []string {
		m := regexp.MustCompile(`--` + name + `: light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)`).FindSubmatch(style)
		require.NotNil(t, m, name)
		return []string{string(m[1]), string(m[2])}
	}
	surface := themes("surface")
	for _, name := range []string{
		"unspecified", "trace", "debug", "info", "warn", "error", "fatal", "traces", "metrics", "logs",
		"excellent", "good", "needs-improvement", "poor", "unscored", "accent", "edge",
	} {
		for i, colour := range themes(name) {
			a, b := luminance(t, colour), luminance(t, surface[i])
			require.GreaterOrEqual(t, (max(a, b)+0.05)/(min(a, b)+0.05), 3.0, "--%s: #%s on #%s", name, colour, surface[i])
		}
	}
}

// luminance returns the relative luminance of a colour.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
