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

// Clean returns the lines of a text without sensitive data and invisible characters. It hides a line as a whole if the
// line belongs to a private key, or may contain the value of a secret whose name is in the text. The only possible
// error is that of the context.
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

// shown returns the lines without sensitive data and invisible characters, and hides the marked lines as a whole.
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
	// Secrets in addresses that the detector does not find: a token as the user of a URL, the address of a webhook, the
	// password in a JDBC address of Oracle, and the token of a registry in an npm configuration.
	urlToken = regexp.MustCompile(`://(?:[\w.~%+-]{8,100}@|hooks\.slack\.com/services/\w|(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d)|` +
		`:oracle:\w+:[\w.]{1,100}/[^@/\s]{1,100}@|/:_(?:auth|authToken|password)["']?[ =]["']?[^\s"'$<{]{4}`)
	escape = regexp.MustCompile(`\\u00([2-7][0-9a-fA-F])`)
	cdata  = strings.NewReplacer("<![CDATA[", " ", "]]>", " ", `\.`, ".")
)

// plain replaces characters of a line by their ASCII equivalents, and removes invisible characters.
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
		case c >= '\uff01' && c <= '\uff5e': // full width
			return c - '\uff01' + '!'
		case safetext.Hidden(c):
			return -1
		}
		return c
	}, s))
}

// endsLine reports whether some programs take a character as the end of a line.
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
	// A line of Base64 or a header of a key, which may be part of a literal.
	encoded   = regexp.MustCompile(`^[\s"'` + "`" + `+]*(?:[\w+/=\\-]+|[\w-]+: .*)?["'` + "`" + `,+;)\s\\]*$`)
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/=]{16,}`)
)

// keyGap is the maximum number of lines without Base64, such as comments, in a private key.
const keyGap = 10

// hidePrivateKeys marks the lines of private keys, including keys whose first or last line is missing.
func hidePrivateKeys(raw []string, hidden []bool) {
	body := func(s string, whole bool) bool { return whole && encoded.MatchString(s) || base64Run.MatchString(s) }
	gap, free := keyGap, 0 // lines since the last line of a key; the first line after the last key
	for i, s := range raw {
		begin, end := keyBegin.FindStringIndex(s), keyEnd.FindStringIndex(s)
		begins := begin != nil && (end == nil || begin[0] > end[0])
		switch {
		case end != nil && gap >= keyGap: // the first line is missing
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
