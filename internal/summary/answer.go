// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"strings"
	"unicode"

	"assay/internal/llm"
	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

// Limits of an answer.
const (
	maxAnswer  = 16 << 10 // bytes of a model's text that are read
	maxContent = 6 << 10  // bytes of a summary
	maxRounds  = 10       // until cleaning changes nothing more
)

// clean converts a model's answer to Markdown that is safe to show: without raw HTML, images, sensitive data,
// invisible characters, and URLs of hosts that are not in hosts. The result has at most maxContent bytes, truncated
// between blocks. clean is idempotent. It fails if no text remains.
func clean(answer string, hosts map[string]bool) (string, error) {
	text := safetext.Start(withoutThoughts(plain(answer)), maxAnswer)
	// Removing a part can create new matches, such as a tag or a secret from two halves. Usually two or three rounds
	// suffice. Many asterisks take more, so the last rounds omit emphasis.
	for round := range maxRounds {
		next, prose := rewrite(sensitive.Clean([]byte(plain(text))), hosts, round >= maxRounds/2)
		if next != text {
			text = next
			continue
		}
		switch {
		case !prose:
			return "", &llm.UnusableError{What: "an answer without text"}
		case sensitive.Text([]byte(text)) != sensitive.None:
			return "", &llm.UnusableError{What: "an answer with sensitive data"}
		}
		return text, nil
	}
	return "", &llm.UnusableError{What: "an answer that cannot be cleaned"}
}

// withoutThoughts removes the reasoning that some models put before the answer. An answer that ends within the
// reasoning is empty.
func withoutThoughts(s string) string {
	for _, tag := range []string{"think", "thinking"} {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(s), "<"+tag+">"); ok {
			_, s, _ = strings.Cut(rest, "</"+tag+">")
		}
	}
	return s
}

// hasText reports whether a text contains a letter or digit.
func hasText(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}
