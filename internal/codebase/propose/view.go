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

// Limits of the files that are read for one task. Cleaning a MiB takes up to a second.
const (
	maxViewed = 64 << 20 // bytes of files
	unit      = 4 << 10  // sizes are rounded up to a multiple, so that the limit does not reveal the size of a file
	maxViews  = 64 << 20 // bytes of cached views
	costLine  = 48       // bytes of a line in a view, in addition to its text
)

// errViewed is the error of a tool after maxViewed bytes. The model receives its text.
var errViewed = errors.New("too much of the files was read: choose fewer of them, or finish")

// read returns a file for a tool. It counts the size of the file even if the file is not text or has no match: the
// limit must not depend on hidden data.
func (t *Tree) read(name string) ([]byte, error) {
	text, err := t.Read(name)
	if t.viewed += cost(text); t.viewed > maxViewed {
		return nil, errViewed
	}
	return text, err
}

// cost returns the size of a file, rounded up to a multiple of unit.
func cost(text []byte) int { return (len(text)/unit + 1) * unit }

// view returns the lines of text, the current content of a file, as the model sees them. A line that is hidden in the
// unchanged file is also hidden in the changed file.
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

// hiddenIn returns which lines of a changed file are hidden because they are hidden in the unchanged file. It returns
// nil for an unchanged or a new file.
func (t *Tree) hiddenIn(ctx context.Context, name string, text []byte) ([]bool, error) {
	if _, changed := t.changed[name]; !changed || t.created[name] {
		return nil, nil
	}
	if t.hidden[name] == nil { // the model has not changed the file in this process
		before, err := patch.Read(t.root, name)
		if errors.Is(err, fs.ErrNotExist) { // deleted in the meantime
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

// commonWord matches a value that is likely to occur in other text, such as "default".
var commonWord = regexp.MustCompile(`^[a-z]{1,8}$`)

// Limits of the texts that are removed from the output of tests.
const (
	minSecret  = 5
	maxSecret  = 16 << 10 // longer than any line of output
	maxSecrets = 2 << 20  // bytes for a task, including costSecret for each; no output is shown beyond it
	costSecret = 64
	maxNamed   = 4 << 20  // bytes of the files whose names are in the output
	maxCleaned = 24 << 10 // bytes of output that are kept
)

// remember records the values in the redacted lines of a file, so that clean removes them from output.
func (t *Tree) remember(text []byte, lines []redact.Line) {
	raw := redact.Raw(text)
	for i, l := range lines {
		if !l.Redacted() {
			continue
		}
		for _, s := range redact.Values(raw[i]) {
			s = strings.TrimSpace(s)
			if len(s) < minSecret || len(s) > maxSecret || commonWord.MatchString(s) || t.secrets[s] {
				continue
			}
			if t.secretsSize += len(s) + costSecret; t.secretsSize <= maxSecrets {
				t.secrets[s] = true
			}
		}
	}
}

// named returns the files of the tree whose names are in a text, such as a stack trace, which may quote them. A name in
// the text may have fewer or more leading directories.
func (t *Tree) named(text string) (files []string) {
	names, ends := map[string]bool{}, map[string]bool{} // ends has the last elements of the names
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

// lastElements returns the suffixes of a path that begin with a slash, the longest first.
func lastElements(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if name[i] == '/' && !yield(name[i:]) {
				return
			}
		}
	}
}

// clean returns a text without sensitive data, such as the output of tests. It removes the values that are hidden in
// the files whose names are in the text. The only possible error is that of the context.
func (t *Tree) clean(ctx context.Context, text string) (string, error) {
	if len(text) > maxCleaned { // cut at the end of a line: a part of a secret would not be found
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
	if t.secretsSize > maxSecrets {
		return sensitive.Redacted, nil
	}
	begins := map[string]bool{}
	for i := minSecret; i <= len(text); i++ {
		begins[text[i-minSecret:i]] = true
	}
	var secrets []string // in the text
	for s := range t.secrets {
		if begins[s[:minSecret]] && strings.Contains(text, s) {
			secrets = append(secrets, s)
		}
	}
	// The longest text first, since a Replacer takes the first one that matches. The pair of NUL bytes selects the
	// algorithm of a Replacer for several texts, which is fast.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := []string{"\x00", "\x00"}
	for _, s := range secrets {
		pairs = append(pairs, s, sensitive.Redacted)
	}
	return redact.Text(strings.NewReplacer(pairs...).Replace(text)), nil
}

// splitLines returns the lines of a text with their line endings.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
