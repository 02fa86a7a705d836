// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/check"
	"assay/internal/review/syntax"
)

// listed returns the files that a walk reads.
func listed(t testing.TB, dir string, ignore ...string) (files []string, w *walk) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	w = newWalk(root, ignore, func(file, message string) { t.Errorf("%s: %s", file, message) })
	require.NoError(t, w.list(t.Context(), []string{"."}))
	for _, f := range w.files {
		files = append(files, f.path)
	}
	return files, w
}

func TestIgnoreFiles(t *testing.T) {
	dir := tree(t, map[string]string{
		".gitignore": "# comment\n*.tmp.go\n/root-only.go\nbuild/\n!important.tmp.go\nlogs/**\n!logs/keep.go\n\\#hash.go\n\\!bang.go\ntrailing.go   \n" +
			"a/**/deep.go\n{x,y}.go\n[bc].go\nd?.go\n  \n[\nsub/inner.go\r\n",
		"a.go": "", "x.tmp.go": "", "important.tmp.go": "", "root-only.go": "", "sub/root-only.go": "", "build/b.go": "", "sub/build/b.go": "",
		"logs/l.go": "", "logs/keep.go": "", "#hash.go": "", "!bang.go": "", "trailing.go": "", "a/deep.go": "", "a/b/c/deep.go": "", "a/other.go": "",
		"x.go": "", "{x,y}.go": "", "b.go": "", "d1.go": "", "d12.go": "", "sub/inner.go": "", "sub/sub/inner.go": "",
		"nested/.gitignore": "/only.go\n!x.tmp.go\nc/*.go\n", "nested/only.go": "", "nested/z/only.go": "", "nested/x.tmp.go": "", "nested/c/q.go": "", "c/q.go": "",
		"vendor/.gitignore": "*\n", "vendor/v.go": "",
	})
	got, w := listed(t, dir)
	require.Equal(t, map[string]int{skipOther: 2, skipVendored: 2}, w.skipped)

	// The result of git itself.
	runGit(t, dir, "init", "-q")
	out, err := exec.Command("git", "-C", dir, "ls-files", "-z", "--others", "--exclude-standard").Output()
	require.NoError(t, err)
	var want []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, "vendor/") {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, got)
	require.NotContains(t, got, "trailing.go")

	got, _ = listed(t, filepath.Join(dir, "nested"))
	require.Equal(t, []string{"x.tmp.go", "z/only.go"}, got, "files above the directory apply as well")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ".git")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nested", "y.tmp.go"), nil, 0o644))
	got, _ = listed(t, filepath.Join(dir, "nested"))
	require.Contains(t, got, "y.tmp.go", "outside of a work tree they do not")
}

// countdown is a context that ends after some calls of Err.
type countdown struct {
	context.Context
	calls int
}

func (c *countdown) Err() error {
	if c.calls--; c.calls < 0 {
		return context.Canceled
	}
	return nil
}

// TestHostileIgnore checks that the work for patterns is limited, and ends with the context.
func TestHostileIgnore(t *testing.T) {
	files := map[string]string{".gitignore": ""}
	for i := range 100 {
		files[".gitignore"] += fmt.Sprintf("*%sb%04d\n**/%s/b\n", strings.Repeat("[!b]", 50), i, strings.Repeat("**/*a*", 20))
		files[fmt.Sprintf("%s%03d.py", strings.Repeat("a", 200), i)] = ""
	}
	dir := tree(t, files)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()

	var notes []string
	w := newWalk(root, []string{"*001.py"}, func(_, message string) { notes = append(notes, message) })
	w.match.files.left = 100_000
	require.NoError(t, w.list(t.Context(), []string{"."}))
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "too long")
	require.Len(t, w.files, 99, "the patterns of the settings apply")
	require.Greater(t, w.match.files.left, -10_000, "matching ends where no steps are left")

	ctx := &countdown{t.Context(), 10}
	require.ErrorIs(t, newWalk(root, nil, func(string, string) {}).list(ctx, []string{"."}), context.Canceled)
}

// FuzzIgnore checks that no .gitignore file makes a walk fail, and that the same path gives the same result.
func FuzzIgnore(f *testing.F) {
	f.Add("*.go\n!a/b.go\n/c/\n[z-a]\n\\", "a/b.go", "")
	f.Add("**/**/**\n{{a,b},[^]]}", "a/b/c", "a")
	f.Fuzz(func(t *testing.T, text, name, base string) {
		patterns := parseIgnore(text, base, "up")
		first, second := matcher{left: 1000}, matcher{left: 1000}
		require.Equal(t, first.ignored(patterns, name, true), second.ignored(patterns, name, true))
		require.Equal(t, first, second)
		first.ignored(patterns, name, false)
	})
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"a.go": "", "a.tsx": "", "src/main/java/com/example/test/A.java": "", "src/test/java/com/shop/A.java": skipTest, "Latest.java": "",
		"ATest.java": skipTest, "TestA.java": skipTest, "Testament.java": "", "OrderIT.java": skipTest, "a_test.go": skipTest, "a.test.ts": skipTest, "a.spec.js": skipTest,
		"contest.go": "", "test_a.py": skipTest, "a_test.py": skipTest, "conftest.py": skipTest, "latest.py": "", "a.min.js": skipMinified, "a.pb.go": skipGenerated,
		"a_pb2.py": skipGenerated, "a_pb.js": skipGenerated, "a.d.ts": skipGenerated, "zz_generated.deepcopy.go": skipGenerated, "dist/a.js": skipGenerated,
		"build/a.go": "", "build/Dockerfile": "", "a.png": skipBinary, "README.md": skipOther, "docs/a.go": skipTest, "internal/docs.go": "", "Dockerfile": "", ".env": "",
		"node_modules/a/a.js": skipVendored, "third_party/a.go": skipVendored, "examples/a.go": skipTest, "protest/a.go": "",
		"src/main/java/examples/A.java": skipTest, "app/src/main/java/com/examples/A.java": "", "shop-test-utils/a.py": skipTest, "shop/login_test_utils.py": skipTest,
		"latest_utils/a.py": "", "ai-docs/a.ts": skipTest, "spec/cartSpec.js": skipTest, "spec/helpers/setup.js": skipTest, "spec/openapi.ts": "", "spec/spec.go": "",
		"ios/Pods/a.js": skipVendored, "pkg/pods/a.go": "", "src/generated/a.ts": skipGenerated, "src/__generated__/a.ts": skipGenerated,
		"src/main/java/com/shop/generated/A.java": skipGenerated, "cypress/support/a.ts": skipTest, "store_mock.go": skipTest, "mock.go": "",
		"src/setupTests.ts": skipTest, "jest.setup.ts": skipTest, "setup.ts": "", "hammock.go": "",
	} {
		got := skipInside(name)
		if got == "" {
			got = skipName(name)
		}
		require.Equal(t, want, got, name)
	}
}

func TestContent(t *testing.T) {
	generated := []string{
		"// Code generated by protoc. DO NOT EDIT.\npackage p", "/*\n * @generated\n */", "# Generated by the protocol buffer compiler.  DO NOT EDIT!",
		"// This file was automatically generated by x", "# autogenerated by y",
	}
	for _, text := range generated {
		require.Equal(t, skipGenerated, skipContent(1, []byte(text)), text)
	}
	for text, want := range map[string]string{
		"import a.B;\n@javax.annotation.processing.Generated(\"x\")\nclass A {}": skipGenerated, "@Generated(\"x\")\npublic class A {}": skipGenerated,
		"class A {\n  @Generated\n  int f() { return 1; }\n}": "", "@GeneratedValue\nclass A {}": "",
	} {
		require.Equal(t, want, skipContent(syntax.Java, []byte(text)), text)
	}
	for text, language := range map[string]syntax.Language{
		"package p\n\nimport (\n\t\"context\"\n\t\"testing\"\n)": syntax.Go, "import \"testing\"\n": syntax.Go, "import os\nfrom unittest import mock\n": syntax.Python,
		"import org.junit.jupiter.api.Test;": syntax.Java, "import { expect } from 'vitest'": syntax.TypeScript, "const x = require(\"chai\")": syntax.JavaScript,
		"// Package pgtest helps.\npackage pgtest\n": syntax.Go,
	} {
		require.Equal(t, skipTest, skipContent(language, []byte(text)), text)
	}
	for _, text := range []string{"package latest\n", "package p\n\nvar testing = \"testing\"", "package p\n\nvar s = \"// Code generated by x. DO NOT EDIT.\"", "// code that is generated elsewhere", "import x // @generated"} {
		require.Empty(t, skipContent(1, []byte(text)), text)
	}
}

// TestHostileTree checks that loops, odd names, special files and depth neither stop a walk nor lead outside
// of the tree.
func TestHostileTree(t *testing.T) {
	dir := tree(t, map[string]string{
		"a.go": code("span()"), "-rf.go": code("span()"), "\xff\xfe.go": code("span()"), "new\nline.go": code("span()"),
		"outside/secret.go": code("span()"), "repo/ok.go": code("span()"), strings.Repeat("d/", 200) + "deep.go": code("span()"),
	})
	repo := filepath.Join(dir, "repo")
	require.NoError(t, os.Symlink(".", filepath.Join(repo, "loop")))
	require.NoError(t, os.Symlink("../outside", filepath.Join(repo, "out")))
	require.NoError(t, os.Symlink("../outside/secret.go", filepath.Join(repo, "link.go")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(repo, "etc")))
	require.NoError(t, os.Symlink("../../outside/secret.go", filepath.Join(repo, ".gitignore")))
	require.NoError(t, exec.Command("mkfifo", filepath.Join(repo, "pipe.go")).Run())
	r := review(t, Options{Root: repo, Checks: []*check.Check{named("span")}})
	require.Empty(t, r.Errors)
	require.Equal(t, []string{"ok.go:6 span"}, at(r))
	for _, p := range []string{"link.go", "out/secret.go", "../outside", "/etc", "pipe.go"} {
		_, err := Run(t.Context(), Options{Root: repo, Paths: []string{p}})
		var input InputError
		require.ErrorAs(t, err, &input, p)
	}
	r = review(t, Options{Root: dir, Checks: []*check.Check{named("span")}})
	require.Empty(t, r.Errors)
	require.Len(t, r.Findings, 6)
	require.Equal(t, map[string]int{skipEncoding: 1}, r.Files.SkippedByReason)
}

// TestInvalidNames checks that files whose path JSON would change are not listed, because the path may become that of
// another file.
func TestInvalidNames(t *testing.T) {
	dir := tree(t, map[string]string{"a\xff.js": "", "a\ufffd.js": "", "b\xff/a.js": "", "b\ufffd/a.js": "", "c\xff.png": "", "a\xff_test.go": ""})
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, tests := range []bool{false, true} {
		paths, err := ListFiles(t.Context(), root, nil, tests)
		require.NoError(t, err)
		require.Equal(t, []string{"a\ufffd.js", "b\ufffd/a.js"}, paths)
	}
	require.Equal(t, map[string]int{skipEncoding: 2, skipBinary: 1, skipTest: 1}, review(t, Options{Root: dir}).Files.SkippedByReason)
	r := review(t, Options{Root: dir, Paths: []string{"a\xff.js"}})
	require.Equal(t, map[string]int{skipEncoding: 1}, r.Files.SkippedByReason)
}

func TestTooDeep(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, root.MkdirAll(strings.Repeat("d/", maxDepth+10), 0o755))
	r := review(t, Options{Root: dir})
	require.Len(t, r.Errors, 1)
	require.Equal(t, "directory is nested too deeply", r.Errors[0].Message)
}

func TestUnreadable(t *testing.T) {
	dir := tree(t, map[string]string{"a.go": code("span()"), "big.go": code("span()")})
	r := &run{skipped: map[string]int{}, files: []file{{path: "gone.go", language: 1}}}
	var err error
	r.root, err = os.OpenRoot(dir)
	require.NoError(t, err)
	defer r.root.Close()
	r.file(0, nil, true)
	require.Equal(t, []Error{{File: "gone.go", Message: "cannot read the file: no such file or directory"}}, r.errors)
	require.Equal(t, "no such file or directory", cause(&fs.PathError{Op: "open", Path: "x", Err: fmt.Errorf("no such file or directory")}))
}

// TestManyFiles checks that 20,000 files are read, and that files beyond a limit are an error.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		sub := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(sub, 0o755))
		for j := range 100 {
			require.NoError(t, os.WriteFile(filepath.Join(sub, fmt.Sprintf("%d.go", j)), []byte("package p"), 0o644))
		}
	}
	r := review(t, Options{Root: dir, Checks: []*check.Check{named("span")}})
	require.Equal(t, 20_000, r.Files.Read)
	require.Zero(t, r.Files.Parsed)

	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	var notes []string
	w := newWalk(root, nil, func(_, message string) { notes = append(notes, message) })
	w.entries = maxEntries - 10_000
	require.NoError(t, w.list(t.Context(), []string{"."}))
	require.Less(t, len(w.files), 10_000)
	require.Len(t, notes, 1)
	w = newWalk(root, nil, func(_, message string) { notes = append(notes, message) })
	w.files = make([]file, maxFiles-5)
	require.NoError(t, w.list(t.Context(), []string{"."}))
	require.Len(t, notes, 2)
	require.Contains(t, notes[1], "the remaining files are not read")
}

func TestEscapedSlash(t *testing.T) {
	m := &matcher{left: maxMatching}
	for line, name := range map[string]string{`a\/b`: "a/b", `a*\/b`: "ax/b", `\\\/b`: `\/b`, `a\/\*`: "a/*", `[\]]\/b`: "]/b"} {
		patterns := parseIgnore(line, "", "")
		require.Len(t, patterns, 1, line)
		require.True(t, m.ignored(patterns, name, false), line)
		require.False(t, m.ignored(patterns, "ay/c", false), line)
		require.False(t, m.ignored(patterns, name+"x/y", false), line)
	}
}
