// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values returns the texts of a hidden line that compilers and tests may print: the line itself and its literals, with
// and without escapes. For a line without literals, it returns the possible values instead.
func Values(line string) []string {
	found := literals(line)
	if len(found) == 0 {
		return append(values(line), line)
	}
	all := append(found, line)
	for _, literal := range found {
		all = slices.AppendSeq(all, strings.Lines(unescaped(literal)))
	}
	return all
}

// literals returns the literals of a line. It searches at most once for a missing end of each kind of quotation mark.
func literals(s string) (all []string) {
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
		all = append(all, s[i+1:end])
		i = end
	}
	return all
}

// values returns the possible values of a secret in a line without literals: the last field, the text after the first
// colon or equals sign and the first field of that text, and words with letters and digits.
func values(s string) []string {
	all := []string{s[strings.LastIndexAny(strings.TrimRight(s, " \t\r"), " \t")+1:]}
	if at := strings.IndexAny(s, ":="); at >= 0 {
		rest := strings.TrimLeft(s[at+1:], "= \t")
		all = append(all, rest)
		if end := strings.IndexAny(rest, " \t"); end >= 0 {
			all = append(all, rest[:end])
		}
	}
	for _, w := range strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(" \t\r<>=:,;(){}[]|&", c) }) {
		if w = strings.Trim(w, "-."); digits.MatchString(w) && strings.ContainsFunc(w, isLetter) {
			all = append(all, w)
		}
	}
	return all
}

// unescaped returns a literal without the escape sequences that most languages have in common.
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
