// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/demo"
)

// TestDemo runs the demo until every service shows the rules that it promises to
// fail, and sees that nothing is left behind.
func TestDemo(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	start := time.Now()
	r := call{}.run("demo", "--for", "8s")
	require.Zero(t, r.code, r.stderr)
	require.Less(t, time.Since(start), time.Minute)
	require.Empty(t, r.stderr, "warnings")
	require.NotContains(t, r.stdout, "\x1b", "no terminal")

	for _, want := range []string{
		"REST API   http://127.0.0.1:", "API key    assay_sk_", "curl -s -H 'Authorization: Bearer assay_sk_", "assay insight list --data-dir " + tmp,
		"The demo has ended and its data is removed.",
	} {
		require.Contains(t, r.stdout, want)
	}
	row := regexp.MustCompile(`(?m)^(\w+) +(\d+)  (?:Excellent|Good|Needs Improvement|Poor) +(.+)$`)
	shown := make(map[string]string) // the last of each service
	scores := make(map[string]string)
	for _, m := range row.FindAllStringSubmatch(r.stdout, -1) {
		scores[m[1]], shown[m[1]] = m[2], m[3]
	}
	require.Len(t, shown, len(demo.Services()))
	for _, s := range demo.Services() {
		want := "-"
		if len(s.Fails) > 0 {
			want = strings.Join(slices.Sorted(slices.Values(s.Fails)), " ")
		} else {
			require.Equal(t, "100", scores[s.Name])
		}
		require.Equal(t, want, shown[s.Name], s.Name)
	}
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDemoRefusals(t *testing.T) {
	r := call{}.run("demo", "--for", "-1s")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--for")
	r = call{}.run("demo", "--http-address", "203.0.113.1:1", "--for", "1s")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--http-address")
}
