// SPDX-License-Identifier: Apache-2.0

//go:build corpus

package fix

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review"
)

// maxVerdicts is the maximum number of findings of a check in a module that each have a verdict.
const maxVerdicts = 40

// TestCorpus reviews the modules of corpus_modules.csv, which it downloads, and compares the findings with the verdicts
// in corpus.csv. It makes the mechanical fixes and parses the files that they change with the parsers of the languages.
// `make check-corpus` runs it.
func TestCorpus(t *testing.T) {
	type place struct{ module, file, line, check string }
	verdicts := map[place]string{}
	for _, row := range rows(t, "corpus.csv") {
		verdicts[place{row[0], row[2], row[3], row[4]}] = row[6]
	}
	p, err := review.NewParser(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(t.Context())) })
	findings, changed, left := 0, map[string]int{}, 0
	for _, m := range rows(t, "corpus_modules.csv") {
		t.Run(m[1], func(t *testing.T) {
			dir := download(t, m[0], m[1], m[2])
			report, err := review.Run(t.Context(), review.Options{Root: dir, Parser: p})
			require.NoError(t, err)
			findings += len(report.Findings)
			reported := map[place]bool{}
			perCheck := map[string]int{}
			for _, f := range report.Findings {
				reported[place{m[1], f.Locations[0].File, fmt.Sprint(f.Locations[0].Line), f.Check}] = true
				perCheck[f.Check]++
			}
			for at := range reported {
				if verdicts[at] == "missed" {
					t.Errorf("%s:%s %s is no longer missed: change the verdict", at.file, at.line, at.check)
				} else if perCheck[at.check] <= maxVerdicts && verdicts[at] == "" {
					t.Errorf("%s:%s %s has no verdict: read the code, and add a row", at.file, at.line, at.check)
				}
			}
			for at, verdict := range verdicts {
				if at.module == m[1] && verdict != "missed" && !reported[at] {
					t.Errorf("%s:%s %s is no longer reported: remove the verdict, or mark it as missed", at.file, at.line, at.check)
				}
			}
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			patch, err := Make(t.Context(), root, p, report.Findings)
			require.NoError(t, err)
			for _, f := range patch.Files {
				if parses(t, f.Path, f.Before) == nil {
					require.NoError(t, parses(t, f.Path, f.After))
				}
				changed[path.Ext(f.Path)]++
			}
			left += len(patch.Left)
		})
	}
	t.Logf("%d findings, %d verdicts; fixes change files %v, all of which parse; %d fixes are left out", findings, len(verdicts), changed, left)
}

// rows returns the rows of a file of verdicts, without its header.
func rows(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("../check/testdata", name))
	require.NoError(t, err)
	defer f.Close()
	list, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	return list[1:]
}

// download returns the directory of a module of the Go module proxy or the npm registry, or of a commit of a
// repository.
func download(t *testing.T, manager, module, version string) string {
	t.Helper()
	dir := t.TempDir()
	command := func(name string, args ...string) []byte {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = dir
		out, err := c.Output()
		require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
		return out
	}
	switch manager {
	case "go":
		var m struct{ Dir string }
		require.NoError(t, json.Unmarshal(command("go", "mod", "download", "-json", module+"@"+version), &m))
		return m.Dir
	case "npm":
		archive := strings.TrimSpace(string(command("npm", "pack", "--silent", "--ignore-scripts", module+"@"+version)))
		command("tar", "xzf", archive, "--strip-components=1", "--no-same-owner")
		require.NoError(t, os.Remove(filepath.Join(dir, archive)))
	case "git":
		command("git", "init", "--quiet")
		command("git", "fetch", "--quiet", "--depth=1", "https://github.com/"+module, version)
		command("git", "checkout", "--quiet", "FETCH_HEAD")
	default:
		t.Fatalf("unknown package manager %q", manager)
	}
	return dir
}

// parses checks a file with the parser of its language if there is one. The fixes themselves leave out files that the
// grammars cannot parse.
func parses(t *testing.T, name string, text []byte) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), path.Base(name))
	require.NoError(t, os.WriteFile(file, text, 0o600))
	var args []string
	switch path.Ext(name) {
	case ".go":
		_, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		return err
	case ".js", ".cjs", ".mjs":
		args = []string{"node", "--check", file}
	case ".py":
		args = []string{"python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", file}
	default:
		return nil
	}
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("parse %s: %w: %s", name, err, out)
	}
	return nil
}
