// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"flag"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const document = "../../../docs/migration.md"

// TestDocument requires that the tables of the document are those of the code.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	const begin, end = "<!-- tables: begin -->\n", "<!-- tables: end -->"
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + "\n" + Tables() + "\n" + end + after
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(document, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "run the tests of this package with -update")
}

// golden returns the old and the added lines of the golden patches of a language.
func golden(t *testing.T, prefixes ...string) (removed, added string) {
	t.Helper()
	for _, prefix := range prefixes {
		files, err := filepath.Glob("testdata/" + prefix + "-*.diff")
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				switch line[0] {
				case '-', ' ': // what stays is used as well
					removed += line
				case '+':
					added += line
				}
			}
		}
	}
	return removed, added
}

// TestRowsAreTested requires that the golden patches of a language use each row of its tables.
func TestRowsAreTested(t *testing.T) {
	removed, _ := golden(t, "go")
	symbols := []string{}
	for s := range goRows {
		symbols = append(symbols, s)
	}
	for s := range goStartOptions {
		symbols = append(symbols, s)
	}
	for _, s := range symbols {
		name := strings.TrimSuffix(s[strings.LastIndexByte(s, '.')+1:], "()")
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(removed) {
			t.Error("no test has", s)
		}
	}
	removed, _ = golden(t, "java")
	for symbol, row := range javaRows {
		if name := strings.Split(symbol[strings.LastIndexByte(symbol, '.')+1:], "/")[0]; row.target(symbol) != "" && !regexp.MustCompile(`\b`+name+`\b`).MatchString(removed) {
			t.Error("no test has", symbol)
		}
	}
	names := regexp.MustCompile(`\.?(\w+)[(\x60,]`)
	for language, rows := range map[string][][3]string{"js,node": slices.Concat(javaScriptRows, jsCensusRows, jsZipkinRows), "python": slices.Concat(pythonRows, censusRows, pyZipkinRows)} {
		removed, added := golden(t, strings.Split(language, ",")...)
		for _, row := range rows {
			if strings.Contains(row[2], "the same of") {
				continue
			}
			from := names.FindStringSubmatch(row[1])
			require.NotNil(t, from, row[1])
			if !strings.Contains(removed, from[1]) {
				t.Error("no test has", row[1])
			}
			if to := names.FindStringSubmatch(row[2]); to != nil {
				if !strings.Contains(added, to[1]) {
					t.Error("no test has", row[2])
				}
			}
		}
	}
}

// TestCheckTime: the check of types does not begin after its time.
func TestCheckTime(t *testing.T) {
	m := &goModule{fset: token.NewFileSet(), checked: time.Now()}
	m.arrange([]*goFile{m.parse("a.go", []byte("package a\n"))})
	require.ErrorIs(t, m.check(t.Context()), context.DeadlineExceeded)
	m.checked = time.Now().Add(time.Hour)
	require.NoError(t, m.check(t.Context()))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, m.check(stopped), context.Canceled)
}

// TestStubs requires that each row is of a declared symbol, and that the declarations have no errors but imports.
func TestStubs(t *testing.T) {
	m := &goModule{fset: token.NewFileSet(), packages: map[string]*goPackage{}}
	paths := map[string][]string{}
	for p, short := range goSources {
		paths[short] = append(paths[short], p)
		require.NotEmpty(t, stubs().sources[p], p)
	}
	for _, p := range goTargets {
		require.NotEmpty(t, stubs().targets[p], p)
	}
	for _, list := range []map[string]string{stubs().sources, stubs().targets} {
		for p := range list {
			_, _ = m.Import(p)
			for _, f := range m.packages[p].files {
				require.False(t, f.broken, p)
				for _, e := range f.errors {
					require.Regexp(t, "^could not import |missing function body", e, p)
				}
			}
		}
	}
	for symbol := range goRows {
		parts := strings.Split(strings.TrimSuffix(symbol, "()"), ".")
		found := false
		for _, p := range paths[parts[0]] {
			pkg, _ := m.Import(p)
			found = found || pkg.Scope().Lookup(parts[1]) != nil
		}
		require.True(t, found, symbol)
	}
}
