// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/internal/review/patch"
	"assay/internal/rules/sensitive"
)

// maxLine is the number of bytes of a line that a model sees.
const maxLine = 500

// line is a line of a file as a model sees it.
type line struct {
	text string
	cut  bool // some of it is not shown: the line cannot be changed
}

// view returns the lines of a text without sensitive data and invisible characters. The error is that of the context.
func view(ctx context.Context, text []byte) ([]line, error) {
	raw := rawLines(text)
	clean, err := cleanLines(ctx, raw)
	if err != nil {
		return nil, err
	}
	lines := make([]line, len(raw))
	for i, shown := range clean {
		if len(shown) > maxLine {
			shown = strings.ToValidUTF8(shown[:maxLine], "") + "…"
		}
		lines[i] = line{shown, shown != strings.TrimSuffix(raw[i], "\r")}
	}
	return lines, nil
}

// Limits of what is read for one task. To clean a MiB takes up to a second.
const (
	maxViewed = 64 << 20 // bytes of files
	unit      = 4 << 10  // each file counts as the next multiple, so that the limit does not tell its length
	maxViews  = 64 << 20 // bytes of the views that are kept
	costLine  = 48       // of a view, besides the bytes of the line
)

// errViewed is for the model.
var errViewed = errors.New("too much of the files was read: choose fewer of them, or finish")

// read returns a file for a tool. It counts the file, whether it is text or not, and whether the tool finds something
// in it or not: what a model learns must not depend on what it may not see.
func (t *Tree) read(name string) ([]byte, error) {
	text, err := t.Read(name)
	if t.viewed += cost(text); t.viewed > maxViewed {
		return nil, errViewed
	}
	return text, err
}

// cost returns what a file counts.
func cost(text []byte) int { return (len(text)/unit + 1) * unit }

// view returns the lines of a file, as it is now, as the model sees them. A line of the repository that is hidden in
// the repository's file is hidden in the changed one as well.
func (t *Tree) view(ctx context.Context, name string, text []byte) ([]line, error) {
	if lines, ok := t.views[name]; ok {
		return lines, nil
	}
	lines, err := view(ctx, text)
	if err != nil {
		return nil, err
	}
	hidden, err := t.hiddenIn(ctx, name, text)
	if err != nil {
		return nil, err
	}
	for i := range hidden {
		if hidden[i] {
			lines[i] = line{sensitive.Redacted, true}
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
		if err != nil {
			return nil, nil
		}
		lines, err := view(ctx, before)
		if err != nil {
			return nil, err
		}
		secret := map[string]bool{}
		raw := rawLines(before)
		for i, l := range lines {
			if s := strings.TrimSpace(raw[i]); l.redacted() && strings.Trim(s, "()[]{}<>'\"`,;:+|-\\ ") != "" {
				secret[s] = true
			}
		}
		raw = rawLines(text)
		hidden := make([]bool, len(raw))
		for i, s := range raw {
			hidden[i] = secret[strings.TrimSpace(s)]
		}
		t.hidden[name] = hidden
	}
	return t.hidden[name], nil
}

// redacted reports whether sensitive data is taken out of a line.
func (l line) redacted() bool { return strings.Contains(l.text, sensitive.Redacted) }

// rawLines returns the lines of a text, as view does.
func rawLines(text []byte) []string {
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
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

// remember notes what the redacted lines of a file contain, which compilers and tests may print: the lines, their literals,
// also without escapes, and the values that a line without literals may have.
func (t *Tree) remember(text []byte, lines []line) {
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) < minSecret || len(s) > maxSecret || commonWord.MatchString(s) || t.secrets[s] {
			return
		}
		if t.noted += len(s) + costSecret; t.noted <= maxSecrets {
			t.secrets[s] = true
		}
	}
	raw := rawLines(text)
	for i, l := range lines {
		if !l.redacted() {
			continue
		}
		add(raw[i])
		if !strings.ContainsAny(raw[i], "\"'`") {
			for _, s := range values(raw[i]) {
				add(s)
			}
		}
		for literal := range literals(raw[i]) {
			add(literal)
			for s := range strings.Lines(unescaped(literal)) {
				add(s)
			}
		}
	}
}

// literals returns the literals of a line. Of each kind of quotation mark, it looks once for an end that is not there.
func literals(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var unclosed [256]bool
		for i := 0; i < len(s); i++ {
			q := s[i]
			if strings.IndexByte("\"'`", q) < 0 || unclosed[q] {
				continue
			}
			end := i + 1
			for end < len(s) && s[end] != q {
				if s[end] == '\\' && q != '`' {
					end++
				}
				end++
			}
			if end >= len(s) {
				unclosed[q] = true
				continue
			}
			if !yield(s[i+1 : end]) {
				return
			}
			i = end
		}
	}
}

// values returns what may be the value of a secret in a line without quotation marks: what follows the first colon or
// equals sign and its first field, the last field, and words with letters and digits.
func values(s string) []string {
	all := []string{s[strings.LastIndexAny(strings.TrimRight(s, " \t\r"), " \t")+1:]}
	if at := strings.IndexAny(s, ":="); at >= 0 {
		rest := strings.TrimLeft(s[at+1:], "= \t")
		first, _, _ := strings.Cut(rest, " ")
		all = append(all, rest, first)
	}
	for _, w := range strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(" \t\r<>=:,;(){}[]|&", c) }) {
		if w = strings.Trim(w, "-."); digits.MatchString(w) && strings.ContainsFunc(w, isLetter) {
			all = append(all, w)
		}
	}
	return all
}

// unescaped returns a literal without the escapes that most languages have.
func unescaped(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, multibyte, tail, err := strconv.UnquoteChar(s, 0)
		switch {
		case err != nil && s[0] == '\\': // \' or \/
			s = s[1:]
			continue
		case err != nil:
			return b.String()
		case r < utf8.RuneSelf || multibyte:
			b.WriteRune(r)
		default:
			b.WriteByte(byte(r))
		}
		s = tail
	}
	return b.String()
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
	return cleanText(strings.NewReplacer(pairs...).Replace(text)), nil
}

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
