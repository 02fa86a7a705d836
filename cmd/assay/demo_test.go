// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/demo"
)

// TestDemo runs the demo until every service shows the failed rules that it is designed for, and checks that
// it removes its files.
func TestDemo(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	want := make(map[string]string)
	for _, s := range demo.Services() {
		want[s.Name] = "100 -"
		if len(s.Fails) > 0 {
			want[s.Name] = strings.Join(slices.Sorted(slices.Values(s.Fails)), " ")
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr assaytest.Output
	code := make(chan int, 1)
	go func() { code <- run(&environment{ctx: ctx, args: []string{"demo"}, stdout: &stdout, stderr: &stderr}) }()
	row := regexp.MustCompile(`(?m)^(\w+) +(\d+)  (?:Excellent|Good|Needs Improvement|Poor) +(.+)$`)
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		shown := make(map[string]string) // last output by service
		for _, m := range row.FindAllStringSubmatch(stdout.String(), -1) {
			if shown[m[1]] = m[3]; m[3] == "-" {
				shown[m[1]] = m[2] + " -"
			}
		}
		require.Equal(ct, want, shown)
	}, assaytest.Limit, 50*time.Millisecond)
	interrupt()
	require.Zero(t, <-code, stderr.String())
	require.Empty(t, stderr.String(), "warnings")
	require.NotContains(t, stdout.String(), "\x1b", "not a terminal")
	for _, text := range []string{
		"REST API   http://127.0.0.1:", "API key    assay_sk_", "curl -s -H 'Authorization: Bearer assay_sk_", "assay insight list --data-dir " + tmp,
		"The demo has ended and its data is removed.",
	} {
		require.Contains(t, stdout.String(), text)
	}
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBoardTable(t *testing.T) {
	const courier = "MET-003 MET-004 MET-007 RES-002 RES-003 RES-004"
	for width, rules := range map[int]string{
		200: courier,
		83:  courier,
		82:  "MET-003 MET-004 MET-007 RES-002 RES-003 …",
		80:  "MET-003 MET-004 MET-007 RES-002 RES-003 …",
		45:  "MET-003 …",
		44:  "…",
	} {
		rows := [][]string{{"checkout", "100", "Excellent", "-"}, {"courier", "78", "Needs Improvement", courier}}
		require.Equal(t, "SERVICE   SCORE  BAND               FAILED RULES\n"+
			"checkout  100    Excellent          -\n"+
			"courier   78     Needs Improvement  "+rules+"\n", boardTable(rows, width), width)
	}
}

func TestDemoEndsByItself(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := call{}.run("demo", "--for", "1s")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "The demo has ended and its data is removed.")
}

func TestDemoRefusals(t *testing.T) {
	r := call{}.run("demo", "--for", "-1s")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--for")
	r = call{}.run("demo", "--http-address", "203.0.113.1:1", "--for", "1s")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--http-address")
}
