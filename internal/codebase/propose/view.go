// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

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

// view returns the lines of a text without sensitive data and invisible characters.
func view(text []byte) []line {
	raw := rawLines(text)
	lines := make([]line, len(raw))
	for i, shown := range cleanLines(raw) {
		if len(shown) > maxLine {
			shown = strings.ToValidUTF8(shown[:maxLine], "") + "…"
		}
		lines[i] = line{shown, shown != strings.TrimSuffix(raw[i], "\r")}
	}
	return lines
}

// maxViewed is the number of bytes of files that are read for one task. To clean a MiB takes up to half a second.
const maxViewed = 64 << 20

// errViewed is for the model.
var errViewed = errors.New("too much of the files was read: choose fewer of them, or finish")

// charge counts bytes of a file that a tool reads, whether it finds something there or not: what a model learns must not
// depend on what it may not see.
func (t *Tree) charge(bytes int) error {
	if t.viewed += bytes; t.viewed > maxViewed {
		return errViewed
	}
	return nil
}

// shown is the last view of a file.
type shown struct {
	name  string
	text  []byte
	lines []line
}

// view returns the lines of a file as the model sees them. A line of the repository that is hidden in the repository's file is
// hidden in the changed one as well.
func (t *Tree) view(name string, text []byte) []line {
	if t.shown.name == name && bytes.Equal(t.shown.text, text) {
		return t.shown.lines
	}
	lines := view(text)
	for i, hidden := range t.hiddenIn(name, text) {
		if hidden {
			lines[i] = line{sensitive.Redacted, true}
		}
	}
	t.shown = shown{name, text, lines}
	t.remember(text, lines)
	return lines
}

// hiddenIn returns which lines of a changed file are hidden whatever is around them, nil for one that has not changed.
func (t *Tree) hiddenIn(name string, text []byte) []bool {
	if _, changed := t.changed[name]; !changed || t.created[name] {
		return nil
	}
	if t.hidden[name] == nil { // before the model changes it in this process
		before, err := patch.Read(t.root, name)
		if err != nil {
			return nil
		}
		secret := map[string]bool{}
		raw := rawLines(before)
		for i, l := range view(before) {
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
	return t.hidden[name]
}

// redacted reports whether sensitive data is taken out of a line.
func (l line) redacted() bool { return strings.Contains(l.text, sensitive.Redacted) }

// rawLines returns the lines of a text, as view does.
func rawLines(text []byte) []string {
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// quoted matches a literal.
var quoted = regexp.MustCompile("\"([^\"]+)\"|'([^']+)'|`([^`]+)`")

// commonWord matches a value that stands in much other text, such as default.
var commonWord = regexp.MustCompile(`^[a-z]{1,8}$`)

// Limits of the texts that are taken out of the output of tests.
const (
	minSecret  = 5
	maxSecret  = maxLine
	maxSecrets = 10_000
)

// remember notes what the redacted lines of a file contain, which compilers and tests may print.
func (t *Tree) remember(text []byte, lines []line) {
	add := func(s string) {
		if len(s) >= minSecret && len(s) <= maxSecret && len(t.secrets) < maxSecrets && !commonWord.MatchString(s) {
			t.secrets[s] = true
		}
	}
	raw := rawLines(text)
	for i, l := range lines {
		if !l.redacted() || len(raw[i]) > maxSecret {
			continue
		}
		literals := quoted.FindAllStringSubmatch(raw[i], -1)
		for _, m := range literals {
			add(m[1] + m[2] + m[3])
		}
		if len(literals) == 0 {
			add(strings.TrimSpace(raw[i]))
		}
	}
}

// clean returns a text about the files without sensitive data, such as the output of tests.
func (t *Tree) clean(text string) string {
	// The longest first: a Replacer takes the first text that matches. It is fast for several texts.
	secrets := slices.SortedFunc(maps.Keys(t.secrets), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := []string{"\x00", "\x00"}
	for _, s := range secrets {
		pairs = append(pairs, s, sensitive.Redacted)
	}
	return cleanText(strings.NewReplacer(pairs...).Replace(text))
}

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
