// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/codebase/source/gittest"

	"github.com/stretchr/testify/require"
)

// anyModule lets go add the requirements of modules. The other flags stay: go would compile the packages again.
func anyModule() string {
	return strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")) + " -mod=mod -vet=off"
}

// offlineModules is anyModule for modules that this machine has downloaded.
func offlineModules() []string { return []string{anyModule(), "GOPROXY=off", "GOSUMDB=off"} }

// TestInstrument adds OpenTelemetry to a server by `assay instrument`, runs it, and finds its telemetry. Then a run does
// the same in a repository: verified in the sandbox, and on a branch.
func TestInstrument(t *testing.T) {
	t.Parallel()
	source := filepath.Join("testdata", "instrument")
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(source)))
	done := runAssay(t, nil, "instrument", dir)
	require.Equal(t, 0, done.Code, done.Stderr)
	require.Contains(t, done.Stdout, "+++ b/telemetry.go")
	require.Contains(t, done.Stderr, "left: go.mod: Run `go mod tidy`")
	again := runAssay(t, nil, "instrument", dir)
	require.Equal(t, 0, again.Code, again.Stderr)
	require.Empty(t, again.Stdout, "nothing is left to add")

	build := exec.CommandContext(t.Context(), "go", "build", "-o", "orders", ".")
	// This downloads what the sandbox needs, which has no network.
	build.Dir, build.Env = dir, append(os.Environ(), anyModule())
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	files := map[string]string{}
	entries, err := os.ReadDir(source)
	require.NoError(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(source, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(text)
	}
	host := startGit(t, files)
	flags := append(goDirs(t, source), "--bootstrap-api-key", bootstrapKey, "--agent-allow-private-hosts", "--agent-source-ca", host.CA)
	for _, v := range offlineModules() {
		flags = append(flags, "--agent-test-env", v)
	}
	d := startDaemon(t, t.TempDir(), flags...)

	orders := exec.CommandContext(t.Context(), filepath.Join(dir, "orders"), "127.0.0.1:0")
	orders.Env = []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + d.OTLPHTTP, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer " + bootstrapKey,
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "OTEL_METRIC_EXPORT_INTERVAL=200",
	}
	require.NoError(t, orders.Start())
	t.Cleanup(func() {
		_ = orders.Process.Kill()
		_ = orders.Wait()
	})
	eventually(t, func() bool {
		a, err := d.ask(t.Context(), "GET", d.Root+"/api/v1/services", nil, "Authorization", "Bearer "+bootstrapKey)
		require.NoError(t, err)
		return strings.Contains(string(a.Body), `"orders"`)
	}, "the program sends no telemetry")

	r := host.connect(t, d)
	instrumented, _ := r.wait("/codebase/instrumentation/execute", fmt.Sprintf(`{"repo_id":%q,"type":"minimum"}`, r.id))
	v := instrumented.Result.Verification
	require.Equal(t, "tests pass", v.Status, "%s\n%+v", v.Reason, instrumented)
	require.Equal(t, "assay/instrumentation-minimum", instrumented.Result.Branch)
	require.Equal(t, "compose.yaml\ngo.mod\nmain.go\ntelemetry.go", gittest.Git(t, host.dir, "diff", "--name-only", "main", instrumented.Result.Branch))
}
