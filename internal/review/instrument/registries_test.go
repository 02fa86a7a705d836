// SPDX-License-Identifier: Apache-2.0

//go:build registries

package instrument_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/instrument"
)

// TestGoRegistries builds the changed programs with the modules that they require, of the module proxy.
func TestGoRegistries(t *testing.T) {
	parser := newParser(t)
	for _, name := range goPrograms {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.NoError(t, p.Apply(root))
			for _, arguments := range [][]string{{"mod", "tidy"}, {"vet", "./..."}} {
				command := exec.CommandContext(t.Context(), "go", arguments...)
				command.Dir = dir
				command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
				out, err := command.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
		})
	}
}
