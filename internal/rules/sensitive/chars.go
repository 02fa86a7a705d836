// SPDX-License-Identifier: Apache-2.0

package sensitive

// Character classes, as bits of chars. Bytes of 0x80 and above are parts of
// non-ASCII letters as far as this package is concerned.
const (
	digit  = 1 << iota
	upper  // A-Z
	lower  // a-z
	high   // 0x80-0xff
	local  // allowed in the local part of an e-mail address
	host   // allowed in a domain: letters, digits, '-', '.', non-ASCII
	token  // allowed in a bearer token (RFC 6750) or in base64 of either alphabet
	stop   // ends an unquoted value
	letter = upper | lower
	alnum  = letter | digit
)

var chars = func() (t [256]uint16) {
	for c := '0'; c <= '9'; c++ {
		t[c] = digit | local | host | token
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c] = lower | local | host | token
		t[c-'a'+'A'] = upper | local | host | token
	}
	for c := 0x80; c <= 0xff; c++ {
		t[c] = high | local | host
	}
	t['.'] |= local | host | token
	t['-'] |= local | host | token
	t['_'] |= local | token
	t['+'] |= local | token
	for _, c := range "~/=" {
		t[c] |= token
	}
	for c := range 0x21 {
		t[c] |= stop
	}
	for _, c := range "\x7f,;&\"'`)}]><|\\" {
		t[c] |= stop
	}
	return t
}()

func is(c byte, class uint16) bool { return chars[c]&class != 0 }

// run returns the end of the run of bytes of the class that starts at i, at
// most limit bytes on.
func run(s []byte, i int, class uint16, limit int) int {
	end := min(len(s), i+limit)
	for i < end && chars[s[i]]&class != 0 {
		i++
	}
	return i
}

func toLower(c byte) byte {
	if is(c, upper) {
		return c | 0x20
	}
	return c
}

// hasPrefixFold reports whether s continues at i with word, which is lower case, in
// any case.
func hasPrefixFold(s []byte, i int, word string) bool {
	if i < 0 || len(s)-i < len(word) {
		return false
	}
	for j := range len(word) {
		if toLower(s[i+j]) != word[j] {
			return false
		}
	}
	return true
}

// has reports whether s continues at i with text.
func has(s []byte, i int, text string) bool {
	return i >= 0 && len(s)-i >= len(text) && string(s[i:i+len(text)]) == text
}

func isHex(c byte) bool {
	return is(c, digit) || 'a' <= toLower(c) && toLower(c) <= 'f'
}

// percent returns the ASCII character that the triplet at i encodes, or 0 if there is
// no such triplet.
func percent(s []byte, i int) byte {
	if i < 0 || len(s)-i < 3 || s[i] != '%' || !isHex(s[i+1]) || !isHex(s[i+2]) {
		return 0
	}
	return unhex(s[i+1])<<4 | unhex(s[i+2])
}

func unhex(c byte) byte {
	if is(c, digit) {
		return c - '0'
	}
	return toLower(c) - 'a' + 10
}

// unicode returns the ASCII character that the escape of JSON at i encodes (\u003d), or 0 if there is no such escape.
func unicode(s []byte, i int) byte {
	if !isUnicode(s, i) || s[i+2] != '0' || s[i+3] != '0' {
		return 0
	}
	return unhex(s[i+4])<<4 | unhex(s[i+5])
}

// encodedQuote returns the length of the encoded quotation mark (%22, \u0022) that ends at i, or 0 if there is none.
func encodedQuote(s []byte, i int) int {
	switch {
	case i < len("%22"):
	case s[i-len("%22")] == '%':
		if percent(s, i-len("%22")) == '"' {
			return len("%22")
		}
	case i >= unicodeLen && s[i-unicodeLen] == '\\' && isQuote(unicode(s, i-unicodeLen)):
		return unicodeLen
	}
	return 0
}

// unicodeLen is the length of an escape of JSON such as \u003d.
const unicodeLen = 6

// isUnicode reports whether there is an escape of JSON at i.
func isUnicode(s []byte, i int) bool {
	return has(s, i, `\u`) && len(s)-i >= unicodeLen && isHex(s[i+2]) && isHex(s[i+3]) && isHex(s[i+4]) && isHex(s[i+5])
}

// maxColor limits the parameters of a color of a terminal.
const maxColor = 24

// colorEnd returns the end of the color of a terminal at i, in a text or in JSON (ESC[36m, \u001b[36m), and i if there
// is none.
func colorEnd(s []byte, i int) int {
	j := i
	switch {
	case has(s, i, "\x1b"):
		j++
	case unicode(s, i) == esc:
		j += unicodeLen
	default:
		return i
	}
	if j >= len(s) || s[j] != '[' {
		return i
	}
	for j++; j < len(s) && j-i < maxColor && (is(s[j], digit) || s[j] == ';'); {
		j++
	}
	if j >= len(s) || s[j] != 'm' {
		return i
	}
	return j + 1
}

// colorStart returns the start of the color that ends at i, and i if there is none.
func colorStart(s []byte, i int) int {
	if i < len("\x1b[m") || s[i-1] != 'm' {
		return i
	}
	j := i - 1
	for j > 0 && i-j < maxColor && (is(s[j-1], digit) || s[j-1] == ';') {
		j--
	}
	switch {
	case j < 2 || s[j-1] != '[':
		return i
	case s[j-2] == esc:
		return j - 2
	case unicode(s, j-1-unicodeLen) == esc:
		return j - 1 - unicodeLen
	}
	return i
}

const esc = 0x1b

// wordStart reports whether no letter or digit precedes i. The last character of an
// escape does not count as one.
func wordStart(s []byte, i int) bool {
	return i == 0 || chars[s[i-1]]&alnum == 0 || afterEscape(s, i)
}

// afterEscape reports whether an escape ends at i: \n, \u003d, a percent-encoded triplet (%3D) or a color of a terminal.
func afterEscape(s []byte, i int) bool {
	switch {
	case i < 2:
		return false
	case s[i-2] == '\\':
		return escapes[s[i-1]]
	case i >= 3 && s[i-3] == '%':
		return percent(s, i-3) != 0
	case s[i-1] == 'm':
		return colorStart(s, i) < i
	}
	return i >= unicodeLen && s[i-unicodeLen] == '\\' && isUnicode(s, i-unicodeLen)
}

// escapes are the letters of escapes such as \n.
var escapes = [256]bool{'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// wordEnd reports whether there is no letter or digit at i.
func wordEnd(s []byte, i int) bool { return i >= len(s) || !is(s[i], alnum) }
