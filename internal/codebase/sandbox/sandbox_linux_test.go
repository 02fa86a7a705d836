// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	hostileMain()
	goleak.VerifyTestMain(m)
}

func shell(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

func TestRun(t *testing.T) {
	out := &Buffer{Max: 1000}
	c := shell("echo $A; pwd; echo no >&2")
	c.Env, c.Dir, c.Output = append(c.Env, "A=b"), t.TempDir(), out
	require.NoError(t, Run(t.Context(), c))
	require.Equal(t, "b\n"+c.Dir+"\n", out.String())

	c = shell("head -c 20000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 3")
	err := Run(t.Context(), c)
	var failed *Error
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Stderr, maxStderr)
	require.True(t, strings.HasSuffix(failed.Stderr, "xend\n"))

	c.Path = "/does/not/exist"
	require.ErrorAs(t, Run(t.Context(), c), &failed)
	require.Contains(t, failed.Stderr, "no such file")
}

func TestOutputIsBounded(t *testing.T) {
	c := shell("while :; do echo yyyyyyyyyyyyyyyyyyyyy; done")
	c.Output = &Buffer{Max: 10_000}
	require.ErrorIs(t, Run(t.Context(), c), ErrTooMuchOutput)
}

// TestCancelKillsTheGroup has a program start another one that ignores signals.
func TestCancelKillsTheGroup(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	c := shell(`(trap '' TERM INT HUP; echo $$ > ` + pids + `; while :; do sleep 1; done) & wait`)
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, c) }()
	var pid []byte
	require.Eventually(t, func() bool { pid, _ = os.ReadFile(pids); return len(pid) > 0 }, time.Minute, time.Millisecond)
	cancel(cause)
	require.ErrorIs(t, <-done, cause)
	require.ErrorIs(t, Run(ctx, c), cause)
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		limits Limits
		stderr string // of a shell that notices
		signal syscall.Signal
	}{
		"file":   {"exec head -c 200000 /dev/zero > big", Limits{File: 100_000}, "", syscall.SIGXFSZ},
		"cpu":    {"while :; do :; done", Limits{CPU: time.Second}, "", syscall.SIGKILL},
		"files":  {"ulimit -n >&2; exit 1", Limits{Files: 77}, "77", 0},
		"memory": {"x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo ${#x}", Limits{Memory: 64 << 20}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := shell(c.script)
			cmd.Limits, cmd.Dir = c.limits, t.TempDir()
			var failed *Error
			require.ErrorAs(t, Run(t.Context(), cmd), &failed)
			require.Contains(t, failed.Stderr, c.stderr)
			if c.signal != 0 {
				require.Contains(t, failed.Error(), c.signal.String())
			}
		})
	}
}

// TestPriority runs a program with a higher niceness than the sandbox sets, which must not become lower: a server without
// privileges could not do that.
func TestPriority(t *testing.T) {
	niceness := func(args ...string) string {
		out, err := exec.Command("nice", args...).CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	self, err := Self()
	require.NoError(t, err)
	path, err := Executable("nice")
	require.NoError(t, err)
	require.Equal(t, niceness("-n", "15", path), niceness("-n", "15", self, argument, "{}", path))
}

// TestNoNetwork reads the interfaces of a program without network.
func TestNoNetwork(t *testing.T) {
	out := &Buffer{Max: 10_000}
	c := shell("cat /proc/net/route | wc -l")
	c.Output = out
	require.NoError(t, Run(t.Context(), c))
	require.NotEmpty(t, out.String())
	c = shell("cat /proc/net/dev")
	isolated := &Buffer{Max: 10_000}
	c.Output = isolated
	cmd, err := command(t.Context(), &c, true)
	require.NoError(t, err)
	cmd.Stdout = isolated
	if err := cmd.Run(); err != nil {
		t.Logf("this kernel permits no network namespace: %v", err)
		return
	}
	require.Contains(t, isolated.String(), "lo:")
	require.NotContains(t, isolated.String(), "eth0")
}
