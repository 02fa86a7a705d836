// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"
	"unicode"
)

// words splits a name into its words in lower case: snake, kebab, dotted and camel case, and abbreviations in capitals.
func words(name string) []string {
	var out []string
	runes := []rune(name)
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out = append(out, strings.ToLower(string(runes[start:end])))
			start = -1
		}
	}
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush(i)
			continue
		}
		if start >= 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			flush(i)
		}
		if start < 0 {
			start = i
		}
	}
	flush(len(runes))
	return out
}

// set is a set of words.
type set map[string]bool

// setOf returns the set of the words in a text.
func setOf(text string) set {
	s := set{}
	for w := range strings.FieldsSeq(text) {
		s[w] = true
	}
	return s
}

// add adds words to the set.
func (s set) add(list ...string) {
	for _, w := range list {
		s[w] = true
	}
}

// any reports whether one of the words is in the set.
func (s set) any(list []string) bool {
	return slices.ContainsFunc(list, func(w string) bool { return s[w] })
}

// last returns the last word, "" if there is none.
func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}
