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

// wordStart reports whether no letter or digit precedes i. The last character of a
// percent-encoded triplet (%3D) or of an escape (\n) does not count as one.
func wordStart(s []byte, i int) bool {
	if i == 0 || !is(s[i-1], alnum) {
		return true
	}
	if i >= 2 && s[i-2] == '\\' && (s[i-1] == 'n' || s[i-1] == 't' || s[i-1] == 'r') {
		return true
	}
	return i >= 3 && percent(s, i-3) != 0
}

// wordEnd reports whether there is no letter or digit at i.
func wordEnd(s []byte, i int) bool { return i >= len(s) || !is(s[i], alnum) }
