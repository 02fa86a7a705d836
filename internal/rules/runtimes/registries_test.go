// SPDX-License-Identifier: Apache-2.0

//go:build registries

package runtimes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRegistries compares the table with the requirements that package registries serve,
// as far as a package manager prints them. A registry that cannot be reached is skipped
// with the reason. `make check-runtimes` runs it.
func TestRegistries(t *testing.T) {
	for language, read := range map[string]func(*testing.T) map[string][]span{"go": goReleases, "nodejs": nodeReleases, "python": pythonReleases} {
		t.Run(language, func(t *testing.T) {
			releases := read(t)
			require.NotEmpty(t, releases)
			newest := version{}
			for _, release := range slices.Sorted(maps.Keys(releases)) {
				sdk, ok := parseVersion([]byte(release))
				require.True(t, ok, release)
				if newest.compare(sdk) < 0 {
					newest = sdk
				}
				i := slices.IndexFunc(table[language], func(r row) bool { return r.sdk.contains(sdk) })
				switch {
				case i < 0:
					t.Errorf("%s SDK %s requires %v: not in the table", language, release, releases[release])
				case !slices.Equal(table[language][i].runtimes, releases[release]):
					t.Errorf("%s SDK %s requires %v: the table has %v", language, release, releases[release], table[language][i].runtimes)
				}
			}
			t.Logf("%s: compared %d releases up to %v", language, len(releases), newest)
		})
	}
	for _, language := range []string{"java", "dotnet", "ruby", "php"} {
		t.Logf("%s: not compared, no package manager prints the requirement: see the source in table.go", language)
	}
}

// output runs a package manager. It skips the test if the command fails, as it does if the
// registry is unreachable.
func output(t *testing.T, command string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		t.Skipf("not compared: %s %s: %v: %s", command, args[0], err, lines[len(lines)-1])
	}
	return out
}

var stable = regexp.MustCompile(`^v?[1-9]\d*\.\d+\.\d+$`)

// goReleases returns the go directive of each release of the Go SDK.
func goReleases(t *testing.T) map[string][]span {
	const module = "go.opentelemetry.io/otel/sdk"
	args := []string{"list", "-m", "-f", "{{.Version}} {{.GoVersion}}"}
	for _, v := range strings.Fields(string(output(t, "go", "list", "-m", "-versions", module)))[1:] {
		if stable.MatchString(v) {
			args = append(args, module+"@"+v)
		}
	}
	releases := make(map[string][]span)
	for line := range strings.Lines(string(output(t, "go", args...))) {
		release, lowest, _ := strings.Cut(strings.TrimSpace(line), " ")
		low, ok := parseVersion([]byte(lowest))
		require.True(t, ok, line)
		releases[release] = []span{{low: low}}
	}
	return releases
}

// nodeReleases returns engines.node of each release of the package whose version is
// telemetry.sdk.version.
func nodeReleases(t *testing.T) map[string][]span {
	var served []struct {
		Version string
		Node    string `json:"engines.node"`
		Engines struct{ Node string }
	}
	require.NoError(t, json.Unmarshal(output(t, "npm", "view", "@opentelemetry/core@>=1.0.0", "version", "engines.node", "--json"), &served))
	releases := make(map[string][]span)
	for _, r := range served {
		if !stable.MatchString(r.Version) {
			continue
		}
		for part := range strings.SplitSeq(r.Node+r.Engines.Node, "||") {
			part = strings.TrimSpace(part)
			low, ok := parseVersion([]byte(strings.TrimLeft(part, "^>=")))
			require.True(t, ok, part)
			s := span{low: low}
			if strings.HasPrefix(part, "^") {
				s.before = version{low[0] + 1}
			}
			releases[r.Version] = append(releases[r.Version], s)
		}
	}
	return releases
}

// pythonReleases returns the lowest Python for which pip offers each release.
func pythonReleases(t *testing.T) map[string][]span {
	const newest = 20 // minor version of Python
	releases := make(map[string][]span)
	for minor := uint32(newest); minor >= 6; minor-- {
		out := string(output(t, "pip", "index", "versions", "opentelemetry-sdk", "--python-version", fmt.Sprintf("3.%d", minor)))
		_, list, _ := strings.Cut(out, "Available versions: ")
		list, _, _ = strings.Cut(list, "\n")
		for v := range strings.SplitSeq(list, ", ") {
			if stable.MatchString(v) {
				releases[v] = []span{{low: version{3, minor}}}
			}
		}
	}
	return releases
}
