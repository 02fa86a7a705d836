// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/codebase/redact"
	"assay/internal/lists"
	"assay/internal/review/patch"
	"assay/internal/rules/sensitive"
)

// Limits of the files that are read for one task. To clean a MiB takes up to a second.
const (
	maxViewed = 64 << 20 // bytes of files
	unit      = 4 << 10  // each file counts as the next multiple, so that the limit does not tell its length
	maxViews  = 64 << 20 // bytes of the views that are kept
	costLine  = 48       // of a view, besides the bytes of the line
)

// errViewed is for the model.
var errViewed = errors.New("too much of the files was read: choose fewer of them, or finish")

// read returns a file for a tool. It counts the file, whether it is text or not, and whether the tool finds something
// in it or not: the data for a model must not depend on hidden data.
func (t *Tree) read(name string) ([]byte, error) {
	text, err := t.Read(name)
	if t.viewed += cost(text); t.viewed > maxViewed {
		return nil, errViewed
	}
	return text, err
}

// cost returns the cost of a file.
func cost(text []byte) int { return (len(text)/unit + 1) * unit }

// view returns the lines of a file, as it is now, as the model sees them. A line of the repository that is hidden in
// the repository's file is hidden in the changed one as well.
func (t *Tree) view(ctx context.Context, name string, text []byte) ([]redact.Line, error) {
	if lines, ok := t.views[name]; ok {
		return lines, nil
	}
	lines, err := redact.Lines(ctx, text)
	if err != nil {
		return nil, err
	}
	hidden, err := t.hiddenIn(ctx, name, text)
	if err != nil {
		return nil, err
	}
	for i := range hidden {
		if hidden[i] {
			lines[i] = redact.Line{Text: sensitive.Redacted, Cut: true}
		}
	}
	size := len(text) + len(lines)*costLine
	if t.viewsSize += size; t.viewsSize > maxViews {
		clear(t.views)
		t.viewsSize = size
	}
	t.views[name] = lines
	return lines, nil
}

// hiddenIn returns which lines of a changed file are hidden whatever is around them, nil for one that has not changed.
func (t *Tree) hiddenIn(ctx context.Context, name string, text []byte) ([]bool, error) {
	if _, changed := t.changed[name]; !changed || t.created[name] {
		return nil, nil
	}
	if t.hidden[name] == nil { // before the model changes it in this process
		before, err := patch.Read(t.root, name)
		if errors.Is(err, fs.ErrNotExist) { // it has been deleted since
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		lines, err := redact.Lines(ctx, before)
		if err != nil {
			return nil, err
		}
		secret := map[string]bool{}
		raw := redact.Raw(before)
		for i, l := range lines {
			if s := strings.TrimSpace(raw[i]); l.Redacted() && strings.Trim(s, "()[]{}<>'\"`,;:+|-\\ ") != "" {
				secret[s] = true
			}
		}
		raw = redact.Raw(text)
		hidden := lists.Map(raw, func(s string) bool { return secret[strings.TrimSpace(s)] })
		t.hidden[name] = hidden
	}
	return t.hidden[name], nil
}

// commonWord matches a value that stands in much other text, such as default.
var commonWord = regexp.MustCompile(`^[a-z]{1,8}$`)

// Limits of the texts that are taken out of the output of tests.
const (
	minSecret  = 5
	maxSecret  = 16 << 10 // output has no longer line
	maxSecrets = 2 << 20  // bytes for a task, and costSecret for each; with more, no output is shown
	costSecret = 64
	maxNamed   = 4 << 20  // bytes of the files that output names
	maxCleaned = 24 << 10 // bytes of output
)

// remember records the values in the redacted lines of a file.
func (t *Tree) remember(text []byte, lines []redact.Line) {
	raw := redact.Raw(text)
	for i, l := range lines {
		if !l.Redacted() {
			continue
		}
		for s := range redact.Values(raw[i]) {
			s = strings.TrimSpace(s)
			if len(s) < minSecret || len(s) > maxSecret || commonWord.MatchString(s) || t.secrets[s] {
				continue
			}
			if t.noted += len(s) + costSecret; t.noted <= maxSecrets {
				t.secrets[s] = true
			}
		}
	}
}

// named returns the files of the tree that a text names, which may quote them, such as a stack trace. A name may lack
// directories, or have more of them.
func (t *Tree) named(text string) (files []string) {
	names, ends := map[string]bool{}, map[string]bool{} // and their last elements
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`():,;<>[]{}=|", r) }) {
		name = path.Clean("/" + name)
		names[name] = true
		for end := range lastElements(name) {
			ends[end] = true
		}
	}
	for _, file := range t.files {
		found := ends["/"+file]
		for end := range lastElements("/" + file) {
			found = found || names[end]
		}
		if found {
			files = append(files, file)
		}
	}
	return files
}

// lastElements returns the ends of a path that begin with a slash, the longest first.
func lastElements(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if name[i] == '/' && !yield(name[i:]) {
				return
			}
		}
	}
}

// clean returns a text about the files without sensitive data, such as the output of tests. The error is that of the
// context.
func (t *Tree) clean(ctx context.Context, text string) (string, error) {
	if len(text) > maxCleaned { // a part of a line may be a part of a secret
		text = text[:strings.LastIndexByte(text[:maxCleaned], '\n')+1]
	}
	left := maxNamed
	for _, file := range t.named(text) {
		source, err := t.Read(file)
		if left -= cost(source); left < 0 {
			break
		}
		if err == nil {
			lines, err := t.view(ctx, file, source)
			if err != nil {
				return "", err
			}
			t.remember(source, lines)
		}
	}
	if t.noted > maxSecrets {
		return sensitive.Redacted, nil
	}
	begins := map[string]bool{}
	for i := minSecret; i <= len(text); i++ {
		begins[text[i-minSecret:i]] = true
	}
	var secrets []string // that the text has
	for s := range t.secrets {
		if begins[s[:minSecret]] && strings.Contains(text, s) {
			secrets = append(secrets, s)
		}
	}
	// The longest first: a Replacer takes the first text that matches. It is fast for several texts.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := []string{"\x00", "\x00"}
	for _, s := range secrets {
		pairs = append(pairs, s, sensitive.Redacted)
	}
	return redact.Text(strings.NewReplacer(pairs...).Replace(text)), nil
}

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
