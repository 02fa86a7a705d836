// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/stretchr/testify/require"
)

// TestApply applies a patch with a changed and a new file, with Apply and with `git apply`.
func TestApply(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{own, other} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\nexec app\n"), 0o700)) // no umask changes this mode
	}
	root, err := os.OpenRoot(own)
	require.NoError(t, err)
	defer root.Close()
	before, err := Read(root, "run.sh")
	require.NoError(t, err)
	changed := File{Path: "run.sh", Before: before, Edits: []udiff.Edit{{Start: len(before), End: len(before), New: "# end\n"}, {Start: 10, End: 10, New: "set -e\n"}}}
	require.NoError(t, changed.Apply())
	p := &Patch{Files: []File{changed, Create("src/otel/setup.js", []byte("start();\n"))}, Steps: []Step{{File: "run.sh", Line: 2}, {File: "a", Line: 1}, {File: "run.sh", Line: 1}}}
	p.Sort()
	require.Equal(t, []Step{{File: "a", Line: 1}, {File: "run.sh", Line: 1}, {File: "run.sh", Line: 2}}, p.Steps)

	var diff strings.Builder
	require.NoError(t, p.Diff(&diff))
	git := exec.CommandContext(t.Context(), "git", "apply", "-")
	git.Dir, git.Stdin = other, strings.NewReader(diff.String())
	out, err := git.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, diff.String())
	require.NoError(t, p.Apply(root))
	for name, want := range map[string]string{"run.sh": "#!/bin/sh\nset -e\nexec app\n# end\n", "src/otel/setup.js": "start();\n"} {
		for _, dir := range []string{own, other} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, want, string(text))
		}
	}
	info, err := os.Stat(filepath.Join(own, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.ErrorContains(t, p.Apply(root), "run.sh: the file has changed meanwhile")
	p.Files = p.Files[1:]
	require.ErrorIs(t, p.Apply(root), os.ErrExist, "a new file replaces none")
	text, err := os.ReadFile(filepath.Join(own, "src/otel/setup.js"))
	require.NoError(t, err)
	require.Equal(t, "start();\n", string(text))
}

// TestDiffOfRepetitions applies patches of files with repeated lines with `git apply`, which places a hunk by its line
// in the new file if the context matches there.
func TestDiffOfRepetitions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p, dir := new(Patch), t.TempDir()
	for n := range 200 {
		f := File{Path: fmt.Sprintf("%d.txt", n), Before: []byte(strings.Repeat("a\n", 20+random.IntN(200)))}
		for range 1 + random.IntN(8) {
			at := 2 * random.IntN(len(f.Before)/2)
			old := random.IntN(2)
			f.Edits = append(f.Edits, udiff.Edit{Start: at, End: at + 2*old, New: strings.Repeat("b\n", 1-old+random.IntN(3))})
		}
		udiff.SortEdits(f.Edits)
		f.Edits = slices.CompactFunc(f.Edits, func(later, e udiff.Edit) bool { return later.Start <= e.End })
		require.NoError(t, f.Apply())
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Path), f.Before, 0o600))
		p.Files = append(p.Files, f)
	}
	var diff strings.Builder
	require.NoError(t, p.Diff(&diff))
	git := exec.CommandContext(t.Context(), "git", "apply", "-")
	git.Dir, git.Stdin = dir, strings.NewReader(diff.String())
	out, err := git.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, f := range p.Files {
		text, err := os.ReadFile(filepath.Join(dir, f.Path))
		require.NoError(t, err)
		require.Equal(t, string(f.After), string(text), f.Path)
	}
}

// TestNames checks that the name of a file cannot add lines to a patch.
func TestNames(t *testing.T) {
	for _, name := range []string{"x\n--- a/auth.py\n+++ b/auth.py", "a\tb.py", `q"uo\te.py`, "é ü.py"} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		for _, p := range []string{path, filepath.Join(dir, "auth.py")} {
			require.NoError(t, os.WriteFile(p, []byte("old\n"), 0o600))
		}
		f := File{Path: name, Before: []byte("old\n"), Edits: []udiff.Edit{{End: 3, New: "new"}}}
		require.NoError(t, f.Apply())
		var diff strings.Builder
		require.NoError(t, (&Patch{Files: []File{f}}).Diff(&diff))
		git := exec.CommandContext(t.Context(), "git", "apply", "-")
		git.Dir, git.Stdin = dir, strings.NewReader(diff.String())
		out, err := git.CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, diff.String())
		for p, want := range map[string]string{path: "new\n", filepath.Join(dir, "auth.py"): "old\n"} {
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			require.Equal(t, want, string(text), p)
		}
	}
}

// TestApplyStaysInside checks that Apply follows no link out of the directory.
func TestApplyStaysInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "a.txt"), []byte("a\n"), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(outside, "a.txt"), filepath.Join(dir, "a.txt")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	p := &Patch{Files: []File{Create("out/b.txt", []byte("b\n"))}}
	require.Error(t, p.Apply(root))
	require.NoFileExists(t, filepath.Join(outside, "b.txt"))
	_, err = Read(root, "a.txt")
	require.ErrorContains(t, err, "not a regular file")
}

// TestTidyGo checks that an import with uses only in types stays.
func TestTidyGo(t *testing.T) {
	before := "package store\n\nimport (\n\t\"database/sql\"\n\t\"strings\"\n)\n\ntype store struct{ db *sql.DB }\n\nvar name = strings.ToLower(\"A\")\n\nfunc open() (any, error) { return sql.Open(\"a\", name) }\n"
	f := File{Path: "store.go", Before: []byte(before)}
	for _, r := range [][2]string{{"sql.Open", "other.Open"}, {"strings.ToLower(\"A\")", "\"a\""}} {
		at := strings.Index(before, r[0])
		f.Edits = append(f.Edits, udiff.Edit{Start: at, End: at + len(r[0]), New: r[1]})
	}
	require.NoError(t, f.Apply())
	require.True(t, f.TidyGo())
	require.Equal(t, strings.NewReplacer("sql.Open", "other.Open", "strings.ToLower(\"A\")", "\"a\"", "\t\"strings\"\n", "").Replace(before), string(f.After))
}

// TestDiffOfInsertedLines checks that a diff does not change the line after which lines are inserted.
func TestDiffOfInsertedLines(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		f := File{Path: "a", Before: []byte("a" + end + "b" + end), Edits: []udiff.Edit{{Start: 1, End: 1, New: end + "x"}, {Start: 1 + len(end), End: 2 + len(end), New: "c"}}}
		require.NoError(t, f.Apply())
		require.Equal(t, "a"+end+"x"+end+"c"+end, string(f.After))
		var diff strings.Builder
		require.NoError(t, (&Patch{Files: []File{f}}).Diff(&diff))
		require.NotContains(t, diff.String(), "-a")
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), f.Before, 0o600))
		command := exec.Command("git", "apply")
		command.Dir, command.Stdin = dir, strings.NewReader(diff.String())
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		after, err := os.ReadFile(filepath.Join(dir, "a"))
		require.NoError(t, err)
		require.Equal(t, string(f.After), string(after))
	}
}

// TestCheck checks that nothing is written if one of the files cannot be written.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "link")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	first := Create("first", []byte("x"))
	for want, f := range map[string]File{
		"change a: file already exists":            Create("a", nil),
		"change link: file already exists":         Create("link", nil),
		"change a/b/c: a is not a directory":       Create("a/b/c", nil),
		"change a: the file has changed meanwhile": {Path: "a", Before: []byte("b"), After: []byte("c")},
	} {
		require.EqualError(t, (&Patch{Files: []File{first, f}}).Apply(root), want)
		require.NoFileExists(t, filepath.Join(dir, "first"))
	}
	p := &Patch{Files: []File{first, Create("new/b", []byte("y"))}}
	require.NoError(t, p.Apply(root))
	require.FileExists(t, filepath.Join(dir, "new", "b"))
}

// TestApplyAllOrNone checks that either all files are written, whatever other files exist, or none.
func TestApplyAllOrNone(t *testing.T) {
	change := func(path, text string) File {
		return File{Path: path, Before: []byte(text), After: []byte("new " + text)}
	}
	before := map[string]string{"a.js": "a", "b.js": "b", "b.js.assay-fix": "mine", "c/d.js": "d"}
	for name, c := range map[string]struct {
		add   File
		fails bool
	}{
		"all":                        {add: Create("n/m/e.js", []byte("e"))},
		"file within a new file":     {Create("n/e.js/f.js", nil), true},
		"new file twice":             {Create("n/e.js", nil), true},
		"name that is too long":      {Create("n/"+strings.Repeat("x", 300), nil), true},
		"directory that is too long": {Create("n/"+strings.Repeat("x", 300)+"/f.js", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "c"), 0o700))
			want := maps.Clone(before)
			for file, text := range before {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			err = (&Patch{Files: []File{change("a.js", "a"), change("b.js", "b"), change("c/d.js", "d"), Create("n/e.js", []byte("e")), c.add}}).Apply(root)
			if c.fails {
				require.Error(t, err)
				require.NoDirExists(t, filepath.Join(dir, "n"))
			} else {
				require.NoError(t, err)
				maps.Copy(want, map[string]string{"a.js": "new a", "b.js": "new b", "c/d.js": "new d", "n/e.js": "e", "n/m/e.js": "e"})
			}
			require.Equal(t, want, contents(t, root))
			for file := range before {
				info, err := root.Stat(file)
				require.NoError(t, err)
				require.Equal(t, fs.FileMode(0o600), info.Mode())
			}
		})
	}
}

// TestApplyUndoes checks that undone restores files that were replaced before an error.
func TestApplyUndoes(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	w := &writing{root: root}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
		require.NoError(t, w.prepare(&File{Path: name, Before: []byte(name), After: []byte("new")}))
	}
	require.NoError(t, w.replace(w.replacements[0]))
	require.NoError(t, root.Remove(w.replacements[1].next))
	require.Error(t, w.replace(w.replacements[1]))
	require.NoError(t, w.undone())
	require.Equal(t, map[string]string{"a": "a", "b": "b"}, contents(t, root))
}

// contents returns the texts of the files below a root.
func contents(t *testing.T, root *os.Root) map[string]string {
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := root.ReadFile(name)
		all[name] = string(text)
		return err
	}))
	return all
}
