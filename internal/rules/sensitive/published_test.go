// SPDX-License-Identifier: Apache-2.0

//go:build published

package sensitive

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// maxPublishedLines limits the lines of a file, so that no file dominates the result.
const maxPublishedLines = 5000

// A publishedSource is a package with log or trace text.
type publishedSource struct {
	Name, Manager, Package, Version string
	Files                           []string // regular expressions of paths in the package
	Without                         string   // paths to exclude
}

// TestPublished measures the detector on log and trace text that was not written for it:
// test data of log and trace tools, which package registries serve. testdata/published has
// the sources and the verdict on each line with a finding, by the line's hash. A finding
// without a verdict fails the test: read the line, and add a row. `make check-detector`
// runs it.
func TestPublished(t *testing.T) {
	data, err := os.ReadFile("testdata/published/sources.json")
	require.NoError(t, err)
	var sources []publishedSource
	require.NoError(t, json.Unmarshal(data, &sources))
	verdicts := publishedVerdicts(t)

	files, lines, bytes := 0, 0, 0
	truePositives, falsePositives, missed := 0, 0, 0
	var elapsed time.Duration
	seen := map[[4]string]bool{}
	for _, source := range sources {
		dir := source.fetch(t)
		for _, path := range source.paths(t, dir) {
			files++
			f, err := os.Open(filepath.Join(dir, path))
			require.NoError(t, err)
			in := bufio.NewScanner(f)
			in.Buffer(nil, 16<<20)
			for n := 1; n <= maxPublishedLines && in.Scan(); n++ {
				lines++
				line := in.Bytes()
				bytes += len(line)
				kinds := map[Kind]string{}
				c := scanner{s: line}
				start := time.Now()
				for f := c.next(); f.kind != None; f = c.next() {
					kinds[f.kind] += string(line[f.start:f.end]) + " "
				}
				elapsed += time.Since(start)
				sum := sha256.Sum256(line)
				hash := hex.EncodeToString(sum[:8])
				for kind, found := range kinds {
					row := [4]string{source.Name, path, hash, kind.String()}
					if seen[row] {
						continue
					}
					seen[row] = true
					switch sensitive, known := verdicts[row]; {
					case !known:
						t.Errorf("no verdict: %s: line %d: %q", strings.Join(row[:], ","), n, found)
					case sensitive:
						truePositives++
					default:
						falsePositives++
					}
				}
			}
			require.NoError(t, in.Err(), path)
			require.NoError(t, f.Close())
		}
	}
	for row, sensitive := range verdicts {
		if sensitive && !seen[row] {
			missed++
			t.Logf("missed: %s", strings.Join(row[:], ","))
		}
	}
	precision := float64(truePositives) / float64(truePositives+falsePositives)
	recall := float64(truePositives) / float64(truePositives+missed)
	t.Logf("%d lines in %d files of %d sources, %.0f MiB/s; %d true, %d false, %d missed: precision %.4f, recall %.4f", lines, files, len(sources),
		float64(bytes)/(1<<20)/elapsed.Seconds(), truePositives, falsePositives, missed, precision, recall)
	require.GreaterOrEqual(t, precision, 0.98)
}

// publishedVerdicts reads the lines with sensitive data, by source, file, hash of the line and kind. They
// include lines that the detector misses.
func publishedVerdicts(t *testing.T) map[[4]string]bool {
	f, err := os.Open("testdata/published/verdicts.csv")
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	verdicts := make(map[[4]string]bool)
	for _, row := range rows[1:] {
		require.Contains(t, []string{"true", "false"}, row[4])
		verdicts[[4]string(row[:4])] = row[4] == "true"
	}
	return verdicts
}

// fetch returns the directory of the package.
func (s *publishedSource) fetch(t *testing.T) string {
	run := func(dir, name string, args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s: fetch %s %s", s.Manager, s.Package, s.Version)
		return out
	}
	switch s.Manager {
	case "go":
		var module struct{ Dir string }
		require.NoError(t, json.Unmarshal(run(t.TempDir(), "go", "mod", "download", "-json", s.Package+"@"+s.Version), &module))
		return module.Dir
	case "apt":
		dir := t.TempDir()
		run(dir, "apt-get", "download", s.Package+"="+s.Version)
		packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		require.NoError(t, err)
		require.Len(t, packages, 1)
		run(dir, "dpkg", "-x", packages[0], dir)
		return dir
	}
	require.FailNow(t, fmt.Sprintf("unknown package manager %q", s.Manager))
	return ""
}

// paths returns the files of the source in dir.
func (s *publishedSource) paths(t *testing.T, dir string) (paths []string) {
	files := regexp.MustCompile(strings.Join(s.Files, "|"))
	without := regexp.MustCompile("^$")
	if s.Without != "" {
		without = regexp.MustCompile(s.Without)
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if path, err = filepath.Rel(dir, path); err == nil && files.MatchString(path) && !without.MatchString(path) {
			paths = append(paths, path)
		}
		return err
	}))
	slices.Sort(paths)
	return paths
}
