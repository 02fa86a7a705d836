// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Limits of a migration.
const (
	maxUnit  = 64 << 20 // bytes of the source files of a unit
	maxSteps = 1000     // steps of a patch
)

// Make returns the patch that migrates the units among files. files are sorted paths below root, with slashes. Make
// executes and fetches nothing, and skips files that it cannot read. It returns an error only if the context ends.
func Make(ctx context.Context, root *os.Root, parser *treesitter.Parser, files []string) (*patch.Patch, error) {
	m := &migration{root: root, parser: parser, paths: files, forms: map[string]form{}}
	for _, units := range []func(context.Context) error{m.golang, m.scripts} {
		if err := units(ctx); err != nil {
			return nil, err
		}
	}
	m.patch.Sort()
	if n := len(m.patch.Steps); n > maxSteps {
		m.patch.Steps = append(m.patch.Steps[:maxSteps:maxSteps], patch.Step{Text: fmt.Sprintf("%d more steps are not listed.", n-maxSteps), Open: true})
	}
	return &m.patch, nil
}

// migration makes a patch.
type migration struct {
	root   *os.Root
	parser *treesitter.Parser
	paths  []string
	patch  patch.Patch
	forms  map[string]form // of files whose text read changes
}

// form is the form of a file that read removes and change restores.
type form struct {
	bom  bool // the file begins with a byte order mark
	crlf bool // all lines end in CR LF
}

var byteOrderMark = []byte("\uFEFF")

// read returns the text of a file without its byte order mark. If all lines end in CR LF, they end in LF in the text.
func (m *migration) read(name string) ([]byte, error) {
	source, err := patch.Read(m.root, name)
	var f form
	source, f.bom = bytes.CutPrefix(source, byteOrderMark)
	if n := bytes.Count(source, []byte("\r\n")); n > 0 && n == bytes.Count(source, []byte("\n")) {
		f.crlf = true
		source = bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n"))
	}
	if f != (form{}) {
		m.forms[name] = f
	}
	return source, err
}

// write restores the form in a text.
func (f form) write(text []byte) []byte {
	if f.crlf {
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	}
	if f.bom {
		text = slices.Concat(byteOrderMark, text)
	}
	return text
}

// open adds an open step, which is left to people.
func (m *migration) open(file string, line int, format string, args ...any) {
	m.step(patch.Step{File: file, Line: line, Text: fmt.Sprintf(format, args...), Open: true})
}

// step adds a step, unless it is one of the last 100 or there are too many. Make cuts the list to maxSteps.
func (m *migration) step(s patch.Step) {
	if !slices.Contains(m.patch.Steps[max(0, len(m.patch.Steps)-100):], s) && len(m.patch.Steps) <= 10*maxSteps {
		m.patch.Steps = append(m.patch.Steps, s)
	}
}

// change adds a changed file to the patch. It reports whether the text differs.
func (m *migration) change(name string, before, after []byte) bool {
	if bytes.Equal(before, after) {
		return false
	}
	if form, ok := m.forms[name]; ok {
		before, after = form.write(before), form.write(after)
	}
	f := patch.File{Path: name, Before: before, After: after, Edits: udiff.Lines(string(before), string(after))}
	m.patch.Files = append(m.patch.Files, f)
	return true
}

// shorten returns the first line of code, cut to 80 characters.
func shorten(code string) string {
	line, _, more := strings.Cut(code, "\n")
	if r := []rune(line); len(r) > 80 {
		line, more = string(r[:80]), true
	}
	if more {
		line += "..."
	}
	return strings.ToValidUTF8(line, "")
}

// edit replaces a range of a file.
type edit struct {
	start, end int
	text       string
}

// replace applies edits to source[start:end]. The edits are sorted, do not overlap and lie in the range.
func replace(source []byte, start, end int, edits []edit) string {
	var b strings.Builder
	for _, e := range edits {
		if e.start < start || e.end < e.start {
			continue
		}
		b.Write(source[start:e.start])
		b.WriteString(e.text)
		start = e.end
	}
	b.Write(source[start:max(start, end)])
	return b.String()
}

// replaceLines returns the edits that put lines in the first of the places and remove the other places, with their
// lines if nothing else is on them.
func replaceLines(source []byte, places [][]int, lines []string) (edits []edit) {
	for i, p := range places {
		if i == 0 && len(lines) > 0 {
			edits = append(edits, edit{p[0], p[1], strings.Join(lines, "\n")})
		} else {
			edits = append(edits, lineEdit(source, p[0], p[1]))
		}
	}
	return edits
}

// keepComments returns the edits that keep comments of replaced code, on lines before the code.
func keepComments(source []byte, comments [][2]int, edits []edit) []edit {
	var kept []edit
	i := 0
	for _, c := range comments {
		for i < len(edits) && edits[i].end <= c[0] {
			i++
		}
		text := string(source[c[0]:c[1]])
		if i == len(edits) || edits[i].start > c[0] || edits[i].end < c[1] || edits[i].text == "" || strings.Contains(edits[i].text, text) {
			continue
		}
		at := lineStart(source, edits[i].start)
		kept = append(kept, edit{at, at, lineIndent(source, at) + text + "\n"})
	}
	return kept
}

// sortEdits sorts edits by offset. Insertions come before an edit that begins at the same offset.
func sortEdits(edits []edit) {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(a.start-b.start, a.end-b.end) })
}

// nearest returns the nearest directory above a path that is one of dirs, and whether there is one.
func nearest(name string, dirs map[string]bool) (string, bool) {
	for dir := range configfile.Above(path.Dir(name)) {
		if dirs[dir] {
			return dir, true
		}
	}
	return "", dirs[""]
}

// manifests returns the directories that contain a file with one of the names.
func (m *migration) manifests(names ...string) map[string]bool {
	dirs := map[string]bool{}
	for _, f := range m.paths {
		if slices.Contains(names, path.Base(f)) {
			dirs[directory(f)] = true
		}
	}
	return dirs
}

// outermost returns the directories that are not below another one of dirs.
func outermost(dirs map[string]bool) map[string]bool {
	out := map[string]bool{}
	for dir := range dirs {
		if _, ok := nearest(dir, dirs); dir == "" || !ok {
			out[dir] = true
		}
	}
	return out
}

// directory returns the directory of a path, "" for the root.
func directory(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// sources returns the files of languages by their unit. Files outside of units are under "".
func (m *migration) sources(units map[string]bool, languages ...syntax.Language) map[string][]string {
	out := map[string][]string{}
	for _, f := range m.paths {
		if slices.Contains(languages, syntax.LanguageOf(f)) {
			dir, _ := nearest(f, units)
			out[dir] = append(out[dir], f)
		}
	}
	return out
}
