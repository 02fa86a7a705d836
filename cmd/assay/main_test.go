// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/internal/assaytest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main() // a server of a test has started itself as another program, which must not be all tests
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	for _, v := range os.Environ() { // variables of the developer's environment
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// result is the outcome of a run of the program.
type result struct {
	code           int
	stdout, stderr string
}

// call is a run of the program within this process.
type call struct {
	environ []string
	stdin   string
}

func (c call) run(args ...string) result {
	var stdout, stderr assaytest.Output
	code := run(&environment{
		ctx: context.Background(), args: args, environ: c.environ,
		stdin: strings.NewReader(c.stdin), stdout: &stdout, stderr: &stderr,
	})
	return result{code, stdout.String(), stderr.String()}
}

// runBinary runs the built program until it exits.
func runBinary(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	path, err := assaytest.Binary()
	require.NoError(t, err)
	r, err := assaytest.Run(t.Context(), path, t.TempDir(), nil, stdin, args...)
	require.NoError(t, err)
	return result{r.Code, r.Stdout, r.Stderr}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"serve", "--help"}, {"key", "create", "--help"}, {"demo", "-h"}} {
		r := call{}.run(args...)
		require.Zero(t, r.code, args)
		require.Contains(t, r.stdout, "Usage: assay", args)
		require.Empty(t, r.stderr, args)
		require.NotContains(t, r.stdout, "${", args)
	}
}

func TestHelpAll(t *testing.T) {
	short, all := call{}.run("serve", "--help"), call{}.run("serve", "--help-all")
	require.Zero(t, all.code)
	require.Empty(t, all.stderr)
	require.NotContains(t, short.stdout, "--commit-interval")
	require.Contains(t, all.stdout, "--commit-interval")
	for _, g := range flagGroups {
		require.Contains(t, all.stdout, "\n"+g.Title+"\n")
	}
	r := call{environ: []string{"ASSAY_HELP_ALL=true"}}.run("version")
	require.Zero(t, r.code)
	require.Contains(t, r.stderr, "ASSAY_HELP_ALL is not a setting")
}

func TestUsageErrors(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown command":  {"bogus"},
		"unknown flag":     {"serve", "--bogus"},
		"no subcommand":    {"key"},
		"missing argument": {"score"},
		"missing flag":     {"key", "create"},
		"bad enum":         {"score", "--format", "html", "x"},
		"bad number":       {"score", "--min-score", "ten", "x"},
		"number too large": {"score", "--min-score", "101", "x"},
		"bad impact":       {"score", "--fail-on", "Grave", "x"},
		"empty impact":     {"score", "--fail-on", "", "x"},
		"empty severity":   {"review", "--fail-on", "", "x"},
		"stdin twice":      {"score", "-", "-"},
		"unknown rule":     {"rules", "RES-999"},
		"bad tier":         {"organization", "set-tier", "default", "gold"},
		"bad scope":        {"key", "create", "--name", "x", "--scopes", "read,write"},
		"no lifetime":      {"key", "create", "--name", "x", "--expires-in", "0s"},
		"a past lifetime":  {"key", "create", "--name", "x", "--expires-in=-1h"},
		"bad status":       {"insight", "list", "--status", "open"},
		"unknown store":    {"store", "migrate", "--store", "mysql://localhost/assay"},
		"bad config file":  {"version", "--config", "/does/not/exist.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			r := call{}.run(args...)
			require.Equal(t, exitUsage, r.code)
			require.Empty(t, r.stdout)
			require.True(t, strings.HasPrefix(r.stderr, "assay: "), r.stderr)
		})
	}
}

func TestVersion(t *testing.T) {
	r := runBinary(t, "", "version")
	require.Zero(t, r.code)
	require.Regexp(t, `^assay \S+ go1\.\S+ \w+/\w+\n$`, r.stdout)
}

func TestRules(t *testing.T) {
	r := call{}.run("rules")
	require.Zero(t, r.code)
	require.Contains(t, r.stdout, "SPA-002  Normal     orphan_spans")
	require.Contains(t, r.stdout, "There is no\n  configurable tolerance")
	for _, name := range []string{"SPA-002", "spa-002", "orphan_spans"} {
		one := call{}.run("rules", name)
		require.Zero(t, one.code)
		require.Contains(t, one.stdout, "SPA-002 SPANS WHOSE PARENT IS MISSING")
		require.Contains(t, one.stdout, "Fails when: No span with the parent's id arrived in that trace.")
		require.NotContains(t, one.stdout, "\x1b", "colour without a terminal")
	}
	require.Contains(t, call{}.run("rules", "default_service_name").stdout, "never changes a score")
}
