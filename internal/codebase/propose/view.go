// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"bytes"
	"errors"
	"strings"
	"unicode"

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
	raw := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	lines := make([]line, len(raw))
	for i, shown := range cleanLines(raw) {
		if len(shown) > maxLine {
			shown = strings.ToValidUTF8(shown[:maxLine], "") + "…"
		}
		lines[i] = line{shown, shown != strings.TrimSuffix(raw[i], "\r")}
	}
	return lines
}

// maxViewed is the number of bytes of files whose lines are cleaned for one task. A MiB takes up to 0.8 s.
const maxViewed = 16 << 20

// errViewed is for the model.
var errViewed = errors.New("too much of the files was read: choose fewer of them, or finish")

// shown is the last view of a file.
type shown struct {
	name  string
	text  []byte
	lines []line
}

// view returns the lines of a file as the model sees them.
func (t *Tree) view(name string, text []byte) ([]line, error) {
	if t.shown.name == name && bytes.Equal(t.shown.text, text) {
		return t.shown.lines, nil
	}
	if t.viewed += len(text); t.viewed > maxViewed {
		return nil, errViewed
	}
	lines := view(text)
	if t.hidden != nil {
		for i, raw := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			if t.hidden.Replace(raw) != raw {
				lines[i] = line{sensitive.Redacted, true}
			}
		}
	}
	t.shown = shown{name, text, lines}
	return lines, nil
}

// minHidden is the length of the texts that stay hidden: short ones are parts of others.
const minHidden = 6

// hide hides the redacted lines of a text from now on, also where a change of other lines hides what they are, and in the
// output of tests.
func (t *Tree) hide(text []byte, lines []line) {
	for i, raw := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		raw = strings.TrimFunc(raw, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if strings.Contains(lines[i].text, sensitive.Redacted) && len(raw) >= minHidden && !t.secrets[raw] {
			t.secrets[raw] = true
			t.hidden = nil
		}
	}
	if t.hidden == nil && len(t.secrets) > 0 {
		pairs := make([]string, 0, 2*len(t.secrets))
		for s := range t.secrets {
			pairs = append(pairs, s, sensitive.Redacted)
		}
		t.hidden = strings.NewReplacer(pairs...)
	}
}

// clean returns a text about the files without sensitive data, such as the output of tests.
func (t *Tree) clean(text string) string {
	if t.hidden != nil {
		text = t.hidden.Replace(text)
	}
	return cleanText(text)
}

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
