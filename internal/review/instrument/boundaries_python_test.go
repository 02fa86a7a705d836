// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/instrument"
	"assay/internal/review/patch"
)

// TestPythonBoundaries compares the patch for testdata/python, and makes it a second time, which changes nothing.
func TestPythonBoundaries(t *testing.T) {
	parser := newParser(t)
	dir := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/python")))
	p, root, err := makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	var got strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&got, "%s %s:%d %s\n", map[bool]string{false: "did ", true: "left"}[s.Open], s.File, s.Line, s.Text)
	}
	got.WriteString("\n")
	require.NoError(t, p.Diff(&got))
	golden := filepath.Join("testdata", "python.general.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())

	for _, f := range p.Files {
		require.True(t, patch.Parses(t.Context(), parser, f.Path, f.After), f.Path)
	}
	require.NoError(t, p.Apply(root))
	again, _, err := makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	require.Empty(t, again.Files)
}

var serverPort = regexp.MustCompile(`"server.port": \d+`)

// TestPythonBoundariesRun runs a program before and after the change: its output is the same, and its spans and metrics are
// those of the golden file.
func TestPythonBoundariesRun(t *testing.T) {
	stubs, err := filepath.Abs("testdata/python_run/stubs")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/python_run/service")))
	run := func() (output, telemetry string) {
		file := filepath.Join(t.TempDir(), "telemetry")
		cmd := exec.CommandContext(t.Context(), "python3", "-m", "shop.main")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PYTHONPATH="+stubs, "PYTHONDONTWRITEBYTECODE=1", "TELEMETRY="+file)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		lines, err := os.ReadFile(file)
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		return string(out), serverPort.ReplaceAllString(string(lines), `"server.port": 0`)
	}
	before, none := run()
	require.Empty(t, none)
	p, root, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	after, got := run()
	require.Equal(t, before, after)
	golden := filepath.Join("testdata", "python_run.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
