// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review"
	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

// Limits of the change for one task.
const (
	maxChangedLines = 80      // removed and added
	maxText         = 8 << 10 // bytes of one edit
)

// Tree is the reviewed files of a repository with the changes so far. It is not safe for concurrent use.
type Tree struct {
	root    *os.Root
	files   []string          // sorted
	changed map[string][]byte // the files that differ from those below root
	created map[string]bool   // the files among them that are not below root
	file    string            // of the present task: the only one that can be changed
	undo    map[string][]byte // the files that the change for the present task touches, before it

	shown   shown
	viewed  int               // bytes of files that were read for the present task
	hidden  map[string][]bool // lines of changed files that stay hidden
	secrets map[string]bool   // texts of redacted lines
}

// NewTree returns the tree of the files of a directory, which are sorted paths, with the changes of a patch. The root has to
// stay open.
func NewTree(root *os.Root, files []string, changes []patch.File) *Tree {
	t := &Tree{root: root, files: slices.DeleteFunc(slices.Clone(files), private), changed: map[string][]byte{}, created: map[string]bool{}, hidden: map[string][]bool{}, secrets: map[string]bool{}}
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
	return t
}

// privateNames are names of configuration files that hold credentials.
var privateNames = regexp.MustCompile(`(?i)(secret|credential)|\.env$`)

// private reports whether a file is not for the model: hidden ones, such as .env and .github, and those for credentials.
func private(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") ||
		syntax.LanguageOf(name) == syntax.Unknown && privateNames.MatchString(path.Base(name))
}

// has reports whether the tree has a file. Names are compared as they are: the tree has none that leads elsewhere.
func (t *Tree) has(name string) bool {
	_, ok := slices.BinarySearch(t.files, name)
	return ok
}

// Read returns a file as it is now.
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
		return nil, errors.New("the file is not text")
	}
	return text, nil
}

// toolFiles are files that build and test the code, and configure CI, of the languages and formats that a review reads.
var toolFiles = regexp.MustCompile(`(?i)(^|[/._-])(ci|build|hack|scripts?|tests?|testing|setuptests?|specs?|e2e|cypress|tekton)([/._-]|$)|` +
	`(^|/)(conftest|setup|noxfile|fabfile|dodo|sitecustomize|usercustomize)\.py$|(^|/)(grunt|gulp|jake|mage)file\.[a-z]+$|` +
	`\.conf(ig)?\.[cm]?[jt]s$|(^|/)(babel|jest|karma|protractor|rollup|vite|vitest|wdio|webpack)\b[^/]*\.[cm]?[jt]s$|` +
	`(^|[/._-])pipelines?\.ya?ml$|(^|/)(buildspec|cloudbuild|appveyor)[^/]*\.ya?ml$|lock(file)?\.(json|ya?ml)$`)

// Locked returns why a file cannot be changed for the present task, or "". Only the task's own file can: all others, such as
// those that build, test and deploy the code, have nothing to do with it.
func (t *Tree) Locked(name string) string {
	text, err := t.Read(name)
	switch {
	case err != nil:
		return err.Error()
	case name != t.file:
		return "only the file that the task names can be changed"
	case toolFiles.MatchString(name) || !changeable(name, text):
		return "the file says how the code is built or tested"
	}
	if reason := review.Skipped(name, text); reason != "" {
		return "the file cannot be changed: " + reason
	}
	return ""
}

// changeable reports whether a file is source code or the configuration of something that runs.
func changeable(name string, text []byte) bool {
	if syntax.LanguageOf(name) != syntax.Unknown {
		return true
	}
	parsed, _ := configfile.Parse(name, text) // what it could read
	return len(parsed) > 0 && !slices.ContainsFunc(parsed, func(f *configfile.File) bool {
		return f.Kind == configfile.Manifest || f.Kind == configfile.Dockerfile
	})
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

// Hides reports whether a line, from 1, contains what the model may not see.
func (t *Tree) Hides(name string, number int) bool {
	text, err := t.Read(name)
	if err != nil {
		return false
	}
	lines := t.view(name, text)
	return number >= 1 && number <= len(lines) && lines[number-1].cut
}

// edit replaces the lines from first to last, from 1; with last = first-1 it inserts before first. Errors are for the
// model.
func (t *Tree) edit(name string, first, last int, text string) error {
	if reason := t.Locked(name); reason != "" {
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
	case slices.ContainsFunc(view([]byte(text)), func(l line) bool { return strings.Contains(l.text, sensitive.Redacted) }):
		return errors.New("text contains sensitive data")
	}
	before, err := t.Read(name)
	if err != nil {
		return err
	}
	if err := t.charge(len(before)); err != nil {
		return err
	}
	lines, shown := splitLines(before), t.view(name, before)
	if first < 1 || first > len(lines)+1 || last < first-1 || last > len(lines) {
		return fmt.Errorf("the file has the lines 1 to %d", len(lines))
	}
	for _, l := range shown[first-1 : last] {
		if l.cut {
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
	switch {
	case len(after) > patch.MaxFile:
		return errors.New("the file would be too large")
	case review.Skipped(name, after) != "":
		return errors.New("reviews would skip the file after this edit")
	}
	hidden := make([]bool, len(rawLines(after)))
	for i, l := range shown {
		switch rest := len(shown) - i; {
		case i < first-1:
			hidden[i] = l.redacted()
		case i >= last:
			hidden[len(hidden)-rest] = l.redacted()
		}
	}
	if err := t.set(name, before, after); err != nil {
		return err
	}
	t.hidden[name] = hidden
	return nil
}

// set changes a file unless the change for the task would be too large.
func (t *Tree) set(name string, before, after []byte) error {
	_, touched := t.undo[name]
	old, differs := t.changed[name]
	if !touched {
		t.undo[name] = before
	}
	t.changed[name] = after
	changed := 0
	for file, was := range t.undo {
		for _, e := range udiff.Lines(string(was), string(t.changed[file])) {
			changed += strings.Count(string(was[e.Start:e.End]), "\n") + strings.Count(e.New, "\n")
		}
	}
	if changed <= maxChangedLines {
		return nil
	}
	if !touched {
		delete(t.undo, name)
	}
	if t.changed[name] = old; !differs {
		delete(t.changed, name)
	}
	return fmt.Errorf("a change has at most %d lines, removed and added", maxChangedLines)
}

// differs reports whether the change for the present task changes anything.
func (t *Tree) differs() bool {
	for name, was := range t.undo {
		if !bytes.Equal(was, t.changed[name]) {
			return true
		}
	}
	return false
}

// lost returns a line that earlier changes have added to the file of the present task, and that its change removes, "" if
// there is none. Lines are compared without white space around them.
func (t *Tree) lost() string {
	was, touched := t.undo[t.file]
	if !touched {
		return ""
	}
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

// keep begins the change for the next task.
func (t *Tree) keep() { t.undo, t.viewed = map[string][]byte{}, 0 }

// revert undoes the change for the present task.
func (t *Tree) revert() {
	for name, was := range t.undo {
		t.changed[name] = was
		delete(t.hidden, name)
	}
	t.keep()
}

// Files returns the files that differ from those of the repository, by path.
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
