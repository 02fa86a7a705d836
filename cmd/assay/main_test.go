// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// binary is the built program.
var binary string

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	for _, v := range os.Environ() { // those of whoever runs the tests
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	dir, err := os.MkdirTemp("", "assay-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "assay")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
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

// output gathers what is written, by several goroutines too.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// result is how a call of the program ended.
type result struct {
	code           int
	stdout, stderr string
}

// call is one call of the program within this process.
type call struct {
	environ []string
	stdin   string
}

func (c call) run(args ...string) result {
	var stdout, stderr output
	code := run(&environment{
		ctx: context.Background(), args: args, environ: c.environ,
		stdin: strings.NewReader(c.stdin), stdout: &stdout, stderr: &stderr,
	})
	return result{code, stdout.String(), stderr.String()}
}

// runBinary runs the built program to its end.
func runBinary(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
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
		"stdin twice":      {"score", "-", "-"},
		"unknown rule":     {"rules", "RES-999"},
		"bad tier":         {"organization", "set-tier", "default", "gold"},
		"bad scope":        {"key", "create", "--name", "x", "--scopes", "read,write"},
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
	require.Contains(t, r.stdout, "There is no\n  tolerance to configure")
	for _, name := range []string{"SPA-002", "spa-002", "orphan_spans"} {
		one := call{}.run("rules", name)
		require.Zero(t, one.code)
		require.Contains(t, one.stdout, "SPA-002 SPANS WHOSE PARENT IS MISSING")
		require.Contains(t, one.stdout, "Fails when: No span with the parent's id arrived in that trace.")
		require.NotContains(t, one.stdout, "\x1b", "colour without a terminal")
	}
	require.Contains(t, call{}.run("rules", "default_service_name").stdout, "never changes a score")
}
