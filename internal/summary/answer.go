// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/internal/rules/sensitive"
)

// Limits of an answer.
const (
	maxAnswer  = 16 << 10 // bytes of a model's text that are read
	maxContent = 6 << 10  // bytes of a summary
	maxRounds  = 10       // until cleaning changes nothing more
)

// clean returns a model's answer as Markdown that is safe to show: without raw
// HTML, images, sensitive data, invisible characters, and URLs of hosts that are
// not among the given ones; at most maxContent bytes, cut between blocks. Cleaning
// the result changes nothing. It fails for an answer in which no text is left.
func clean(answer string, hosts map[string]bool) (string, error) {
	text := cut(withoutThoughts(plain(answer)), maxAnswer)
	// What is left after something was taken out can be more than it was before:
	// two halves of a tag, or of a secret. It takes two or three rounds; heaps of
	// asterisks take more, so the last ones go without emphasis.
	for round := range maxRounds {
		next, prose := rewrite(sensitive.Clean([]byte(plain(text))), hosts, round >= maxRounds/2)
		if next != text {
			text = next
			continue
		}
		switch {
		case !prose:
			return "", &UnusableError{"an answer without text"}
		case sensitive.Text([]byte(text)) != sensitive.None:
			return "", &UnusableError{"an answer with sensitive data"}
		}
		return text, nil
	}
	return "", &UnusableError{"an answer that cannot be cleaned"}
}

// withoutThoughts returns an answer without the thoughts that some models put
// before it. One that ends while it still thinks is none.
func withoutThoughts(s string) string {
	for _, tag := range []string{"think", "thinking"} {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(s), "<"+tag+">"); ok {
			_, s, _ = strings.Cut(rest, "</"+tag+">")
		}
	}
	return s
}

// cut returns the first n bytes of s, or a little less: no half a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// hasText tells whether a text has a letter or digit.
func hasText(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}
