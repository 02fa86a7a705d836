// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/codebase/redact"
	"assay/internal/review"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

// Limits of the change for one task.
const (
	maxChangedLines = 80       // removed and added
	maxText         = 8 << 10  // bytes of one edit
	maxGrowth       = 32 << 10 // bytes that the file has more after the change
)

// Tree is the reviewed files of a repository with the changes so far. It is not safe for concurrent use.
type Tree struct {
	root           *os.Root
	files          []string                 // sorted
	configurations []string                 // the configuration files among them that can be changed
	changed        map[string][]byte        // the files that differ from those below root
	created        map[string]bool          // the files among them that are not below root
	hidden         map[string][]bool        // lines of changed files that stay hidden
	views          map[string][]redact.Line // of files as they are now
	viewsSize      int

	// Of the present task.
	file        string          // the only one that can be changed
	undo        *origin         // of the file, nil before its first edit
	marks       []int           // of the lines of the file, since its first edit
	viewed      int             // bytes that were read
	secrets     map[string]bool // texts of redacted lines
	secretsSize int             // bytes of secrets
}

// origin is the file of a task before its change.
type origin struct {
	text    []byte
	hidden  []bool // Tree.hidden
	differs bool   // from the file below root
	masked  string // the text with its marks
}

// NewTree returns the tree of the files of a directory, which are sorted paths, with the changes of a patch. The files
// that are not source code can be changed if they are among the configurations. The root has to stay open. The error is
// that of the context.
func NewTree(ctx context.Context, root *os.Root, files, configurations []string, changes []patch.File) (*Tree, error) {
	t := &Tree{
		root: root, configurations: configurations,
		changed: map[string][]byte{}, created: map[string]bool{}, hidden: map[string][]bool{}, views: map[string][]redact.Line{},
	}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !private(name) {
			t.files = append(t.files, name)
		}
	}
	for _, f := range changes {
		t.changed[f.Path] = f.After
		if f.Created {
			t.created[f.Path] = true
			if at, known := slices.BinarySearch(t.files, f.Path); !known && !private(f.Path) {
				t.files = slices.Insert(t.files, at, f.Path)
			}
		}
	}
	t.keep()
	return t, nil
}

// privateNames are names of configuration files that hold credentials, and of directories of such files.
var privateNames = regexp.MustCompile(`(?i)(secret|credential|passw(or)?d)[^/]*$|(^|[/._-])creds?([._-][^/]*)?$|\.env(\.[^/]*)?$|` +
	`(^|/)(secrets?|credentials?|creds?|passwords?)/`)

// private reports whether the model must not read a file: hidden files, such as .env and .github, files for
// credentials, and files whose names contain sensitive data, invisible characters or line breaks.
func private(name string) bool {
	return strings.Contains(name, "\n") || strings.HasPrefix(name, ".") || strings.Contains(name, "/.") ||
		syntax.LanguageOf(name) == syntax.Unknown && privateNames.MatchString(name) || redact.Text(name) != name
}

// has reports whether the tree has a file. Names are compared as they are: the tree has none that leads elsewhere.
func (t *Tree) has(name string) bool {
	_, ok := slices.BinarySearch(t.files, name)
	return ok
}

// Read returns the current content of a file. It returns content that is not text together with the error.
func (t *Tree) Read(name string) ([]byte, error) {
	if !t.has(name) {
		return nil, errors.New("there is no such file")
	}
	if text, ok := t.changed[name]; ok {
		return text, nil
	}
	text, err := patch.Read(t.root, name)
	switch {
	case err != nil:
		return nil, errors.New("the file cannot be read")
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return text, errors.New("the file is not text")
	}
	return text, nil
}

// toolFiles are files that build and test the code, and configure CI, of the languages and formats that a review reads.
var toolFiles = regexp.MustCompile(`(?i)(^|[/._-])(ci|build|buildsrc|hack|magefiles|mocks|scripts?|tests?|test(utils?|helpers?|support)|testing|setuptests?|specs?|e2e|cypress|tekton)([/._-]|$)|` +
	`(^|/)(conftest|setup|noxfile|fabfile|dodo|pavement|wscript|sitecustomize|usercustomize)\.py$|(^|/)(grunt|gulp|jake|mage|make)file\.[a-z]+$|` +
	`\.conf(ig)?\.[cm]?[jt]s$|(^|/)(babel|esbuild|jest|karma|protractor|rollup|rspack|vite|vitest|wdio|webpack)\b[^/]*\.[cm]?[jt]s$|` +
	`(^|/)(global[-_]?(setup|teardown)|setup[-_]?(jest|vitest|mocha|files?|env))\b[^/]*\.[cm]?[jt]s$|` +
	`(^|/)(make|(pre|post)(un)?install)\.[cm]?[jt]s$|` +
	`(^|[/._-])pipelines?\.ya?ml$|(^|/)(buildspec|cloudbuild|appveyor)[^/]*\.ya?ml$|lock(file)?\.(json|ya?ml)$`)

// Locked returns why the present task cannot change a file, or "" if it can. A task can change only its own file: all
// other files, such as files that build, test and deploy the code, are unrelated to it.
func (t *Tree) Locked(name string) string {
	text, err := t.Read(name)
	if err != nil {
		return err.Error()
	}
	return t.locked(name, text)
}

// locked is Locked for a file with its text. It ignores the change for the present task.
func (t *Tree) locked(name string, text []byte) string {
	if name == t.file && t.undo != nil {
		text = t.undo.text
	}
	switch {
	case name != t.file:
		return "only the file that the task names can be changed"
	case toolFiles.MatchString(name) || syntax.LanguageOf(name) == syntax.Unknown && !slices.Contains(t.configurations, name):
		return "the file says how the code is built or tested"
	case len(text) > patch.MaxFile-maxGrowth:
		return "the file is too large"
	}
	if reason := review.Skipped(name, text); reason != "" {
		return "the file cannot be changed: " + reason
	}
	return ""
}

// Line returns the present number of a line that the repository's file has, from 1, and whether the line is unchanged.
func (t *Tree) Line(name string, number int) (present int, same bool) {
	after, changed := t.changed[name]
	if !changed || t.created[name] {
		return number, true
	}
	before, err := patch.Read(t.root, name)
	if err != nil {
		return number, false
	}
	present = number
	first, counted := 1, 0 // the line that begins at the offset
	for _, e := range udiff.Lines(string(before), string(after)) {
		first += bytes.Count(before[counted:e.Start], []byte("\n"))
		olds := len(splitLines(before[e.Start:e.End]))
		counted = e.Start
		switch {
		case first+olds <= number:
			present += len(splitLines([]byte(e.New))) - olds
		case first <= number:
			return present, false
		}
	}
	return present, true
}

// Hides reports whether a line, from 1, contains data that the model may not see, or cannot be shown.
func (t *Tree) Hides(ctx context.Context, name string, number int) bool {
	text, err := t.Read(name)
	if err != nil {
		return false
	}
	lines, err := t.view(ctx, name, text)
	return err != nil || number >= 1 && number <= len(lines) && lines[number-1].Cut
}

// edit replaces the lines from first to last, from 1; with last = first-1 it inserts before first. Errors are for the
// model.
func (t *Tree) edit(ctx context.Context, name string, first, last int, text string) error {
	before, err := t.read(name)
	if err != nil {
		return err
	}
	if reason := t.locked(name, before); reason != "" {
		return errors.New(reason)
	}
	switch {
	case len(text) > maxText:
		return fmt.Errorf("text has more than %d bytes", maxText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && safetext.Hidden(r) }):
		return errors.New("text has invisible characters")
	case strings.Contains(text, sensitive.Redacted):
		return errors.New("text repeats a redaction: choose lines without one")
	case strings.Contains(text, "assay-ignore"):
		return errors.New("text suppresses findings: fix the code instead")
	case strings.Contains(redact.Text(text), sensitive.Redacted):
		return errors.New("text contains sensitive data")
	}
	lines := splitLines(before)
	shown, err := t.view(ctx, name, before)
	if err != nil {
		return err
	}
	if first < 1 || first > len(lines)+1 || last < first-1 || last > len(lines) {
		return fmt.Errorf("the file has the lines 1 to %d", len(lines))
	}
	for _, l := range shown[first-1 : last] {
		if l.Cut {
			return errors.New("one of these lines is not shown completely and cannot be changed")
		}
	}
	end := "\n"
	if bytes.Contains(before, []byte("\r\n")) {
		end = "\r\n"
	}
	if text != "" {
		text = strings.ReplaceAll(strings.TrimSuffix(text, "\n")+"\n", "\n", end)
	}
	head := bytes.Join(lines[:first-1], nil)
	if len(head) > 0 && head[len(head)-1] != '\n' && text != "" {
		head = append(head, end...)
	}
	after := slices.Concat(head, []byte(text), bytes.Join(lines[last:], nil))
	hidden := make([]bool, len(redact.Raw(after)))
	for i, l := range shown {
		switch rest := len(shown) - i; {
		case i < first-1:
			hidden[i] = l.Redacted()
		case i >= last:
			hidden[len(hidden)-rest] = l.Redacted()
		}
	}
	was, marks := t.undo, t.marks
	if was == nil {
		marks = make([]int, len(lines))
		for i := range lines {
			if shown[i].Cut {
				marks[i] = i + 1
			}
		}
		_, differs := t.changed[name]
		was = &origin{before, t.hidden[name], differs, masked(before, marks)}
	}
	marks = slices.Concat(marks[:first-1], make([]int, strings.Count(text, "\n")), marks[last:])
	is := masked(after, marks)
	changed := 0
	for _, e := range udiff.Lines(was.masked, is) {
		changed += strings.Count(was.masked[e.Start:e.End], "\n") + strings.Count(e.New, "\n")
	}
	switch {
	case changed > maxChangedLines:
		return fmt.Errorf("a change has at most %d lines, removed and added", maxChangedLines)
	case len(after)-len(was.text) > maxGrowth:
		return fmt.Errorf("a change adds at most %d bytes", maxGrowth)
	case review.Skipped(name, []byte(is)) != "":
		return errors.New("reviews would skip the file after this edit")
	}
	t.undo, t.marks = was, marks
	t.put(name, after, hidden)
	return nil
}

// masked returns a text in which marks replace the lines that the model does not see completely. The permitted changes
// must not depend on the content of these lines. A mark is a character that no other line contains, followed by the
// line's number before the change for the task.
func masked(text []byte, marks []int) string {
	var b strings.Builder
	for i, l := range splitLines(text) {
		if marks[i] == 0 {
			b.Write(l)
		} else {
			fmt.Fprintf(&b, "\x01%d\n", marks[i])
		}
	}
	return b.String()
}

// put changes a file. hidden marks the lines that stay hidden. If it is nil, the lines with a mark in the text stay
// hidden.
func (t *Tree) put(name string, text []byte, hidden []bool) {
	t.changed[name], t.hidden[name] = text, hidden
	delete(t.views, name)
}

// differs reports whether the present task has changed its file.
func (t *Tree) differs() bool {
	return t.undo != nil && !bytes.Equal(t.undo.text, t.changed[t.file])
}

// lost returns a line that an earlier task added to the file of the present task and that the present task removes, or
// "". It ignores white space around lines.
func (t *Tree) lost() string {
	if t.undo == nil {
		return ""
	}
	was := t.undo.text
	var before []byte
	if !t.created[t.file] {
		before, _ = patch.Read(t.root, t.file) // it was read for the task
	}
	left := map[string]int{}
	for _, l := range splitLines(t.changed[t.file]) {
		left[string(bytes.TrimSpace(l))]++
	}
	for _, l := range splitLines(was) {
		left[string(bytes.TrimSpace(l))]--
	}
	for _, e := range udiff.Lines(string(before), string(was)) {
		for _, l := range splitLines([]byte(e.New)) {
			if line := string(bytes.TrimSpace(l)); line != "" && left[line] < 0 {
				return line
			}
		}
	}
	return ""
}

// begin begins the task that may change a file. It records the hidden values of this file before those of other files.
func (t *Tree) begin(ctx context.Context, file string) error {
	t.file = file
	if text, err := t.Read(file); err == nil {
		lines, err := t.view(ctx, file, text)
		if err != nil {
			return err
		}
		t.remember(text, lines)
	}
	return nil
}

// keep ends the present task and keeps its change.
func (t *Tree) keep() {
	t.file, t.undo, t.marks, t.viewed, t.secrets, t.secretsSize = "", nil, nil, 0, map[string]bool{}, 0
}

// revert ends the present task and undoes its change.
func (t *Tree) revert() {
	if was := t.undo; was != nil {
		t.put(t.file, was.text, was.hidden)
		if !was.differs {
			delete(t.changed, t.file)
		}
	}
	t.keep()
}

// Files returns the files that differ from the repository, sorted by path.
func (t *Tree) Files() ([]patch.File, error) {
	p := &patch.Patch{}
	for name, after := range t.changed {
		if t.created[name] {
			p.Files = append(p.Files, patch.Create(name, after))
			continue
		}
		before, err := patch.Read(t.root, name)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", name, err)
		}
		if edits := udiff.Lines(string(before), string(after)); len(edits) > 0 {
			p.Files = append(p.Files, patch.File{Path: name, Before: before, After: after, Edits: edits})
		}
	}
	p.Sort()
	return p.Files, nil
}
