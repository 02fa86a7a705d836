// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/configfile"
	"assay/internal/review/treesitter"
)

// TestSetUpOnce checks that the code of a package is read once for all services that use it.
func TestSetUpOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/package.json": `{"dependencies": {"lib": "*"}}`, "b/package.json": `{"dependencies": {"lib": "*"}}`, "lib/package.json": `{"name": "lib"}`, "lib/telemetry.js": "\nnew NodeSDK().start();\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	parser, err := treesitter.New(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, parser.Close(context.WithoutCancel(t.Context()))) })
	p := &plan{ctx: t.Context(), root: root, parser: parser, paths: []string{"a/package.json", "b/package.json", "lib/package.json", "lib/telemetry.js"}}
	require.NoError(t, p.read())
	for _, of := range []string{"a", "b"} {
		s := &service{plan: p, dir: of, manifests: []*configfile.File{{Ecosystem: configfile.NPM}}}
		file, line := s.setUpIn()
		require.Equal(t, "lib/telemetry.js", file)
		require.Equal(t, 2, line)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "lib/telemetry.js")))
	}
}
