// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"regexp"
	"strings"
	"unicode"

	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

// Text returns a short text without sensitive data and invisible characters.
func Text(s string) string {
	lines, _ := Clean(context.Background(), strings.Split(s, "\n"))
	return strings.Join(lines, "\n")
}

// Clean returns the lines of a text without sensitive data and invisible characters. A line is hidden as a whole if
// it belongs to a private key, or may have the value of a secret that the text names. The error is that of the context.
func Clean(ctx context.Context, raw []string) ([]string, error) {
	r := newRedactor(make([]bool, len(raw)))
	for i, s := range raw {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.hidden[i] = urlToken.MatchString(s)
		for part := range strings.FieldsFuncSeq(plain(s), endsLine) {
			r.line(i, part)
		}
	}
	hidePrivateKeys(raw, r.hidden)
	return shown(ctx, raw, r.hidden)
}

// shown returns lines without sensitive data and invisible characters, some of them hidden as a whole.
func shown(ctx context.Context, raw []string, hidden []bool) ([]string, error) {
	lines := make([]string, len(raw))
	for i, s := range raw {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if lines[i] = sensitive.Redacted; !hidden[i] {
			lines[i] = safetext.Printable(sensitive.Clean([]byte(strings.TrimSuffix(s, "\r"))), "\t")
		}
	}
	return lines, nil
}

var (
	// A token in a URL, of which the detector finds those with a colon before or after them, the address of a webhook,
	// which is one, the password of an address of JDBC, and the token of a registry in the configuration of npm.
	urlToken = regexp.MustCompile(`://(?:[\w.~%+-]{8,100}@|hooks\.slack\.com/services/\w|(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d)|` +
		`:oracle:\w+:[\w.]{1,100}/[^@/\s]{1,100}@|/:_(?:auth|authToken|password)["']?[ =]["']?[^\s"'$<{]{4}`)
	escape = regexp.MustCompile(`\\u00([2-7][0-9a-fA-F])`)
	cdata  = strings.NewReplacer("<![CDATA[", " ", "]]>", " ", `\.`, ".")
)

// plain returns a line with ASCII characters in place of equivalent characters.
func plain(s string) string {
	if strings.Contains(s, `\u00`) {
		s = escape.ReplaceAllStringFunc(s, func(e string) string { return string(unhex(e[4])<<4 | unhex(e[5])) })
	}
	return cdata.Replace(strings.Map(func(c rune) rune {
		switch {
		case c < 0x80 || c == '\u0085' || c == '\u2028' || c == '\u2029':
			return c
		case unicode.IsSpace(c):
			return ' '
		case c >= '\uff01' && c <= '\uff5e': // wide
			return c - '\uff01' + '!'
		case safetext.Hidden(c):
			return -1
		}
		return c
	}, s))
}

// endsLine reports whether a character ends a line for some readers.
func endsLine(c rune) bool { return strings.ContainsRune("\r\v\f\u0085\u2028\u2029", c) }

func unhex(c byte) rune {
	if c <= '9' {
		return rune(c - '0')
	}
	return rune(c|0x20) - 'a' + 10
}

var (
	keyBegin = regexp.MustCompile(`(?i)-BEGIN [\w ]*PRIVATE KEY|- BEGIN [\w ]*PRIVATE KEY|^\W*Private-Lines:`)
	keyEnd   = regexp.MustCompile(`(?i)-END [\w ]*PRIVATE KEY|- END [\w ]*PRIVATE KEY|^\W*Private-MAC:`)
	// A line of Base64, or of a header of a key, perhaps in a literal.
	encoded   = regexp.MustCompile(`^[\s"'` + "`" + `+]*(?:[\w+/=\\-]+|[\w-]+: .*)?["'` + "`" + `,+;)\s\\]*$`)
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/=]{16,}`)
)

// keyGap is the number of lines without Base64 that may stand in a private key, such as comments.
const keyGap = 10

// hidePrivateKeys marks the lines of private keys, including keys without a begin or an end.
func hidePrivateKeys(raw []string, hidden []bool) {
	body := func(s string, whole bool) bool { return whole && encoded.MatchString(s) || base64Run.MatchString(s) }
	gap, free := keyGap, 0 // since the last line of a key; the first line that belongs to none
	for i, s := range raw {
		begin, end := keyBegin.FindStringIndex(s), keyEnd.FindStringIndex(s)
		begins := begin != nil && (end == nil || begin[0] > end[0])
		switch {
		case end != nil && gap >= keyGap: // without a begin
			for j, miss := i-1, 0; j >= free && miss < keyGap; j-- {
				if body(raw[j], miss == 0) {
					hidden[j] = true
				} else {
					miss++
				}
			}
		case begin == nil && end == nil && gap < keyGap && body(s, gap == 0):
			hidden[i] = true
		case begin == nil && end == nil && gap < keyGap:
			gap++
		}
		if begin != nil || end != nil {
			hidden[i], gap, free = true, keyGap, i+1
		}
		if begins {
			gap = 0
		}
	}
}
