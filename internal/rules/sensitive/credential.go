// SPDX-License-Identifier: Apache-2.0

package sensitive

import "unicode/utf8"

// maxLook limits the length of a token that is checked.
const maxLook = 64

// tokenByte reports whether an API key may contain c: a letter, a digit, '-' or '_'.
func tokenByte(c byte) bool { return is(c, alnum) || c == '-' || c == '_' }

// tokenEnd returns the end of the run of token bytes at i, at most limit on.
func tokenEnd(s []byte, i, limit int) int {
	end := min(len(s), i+limit)
	for i < end && tokenByte(s[i]) {
		i++
	}
	return i
}

// shaped returns a finding of the kind that starts at start if there are at least least
// token bytes at body, including a digit or letters of both cases, or 20 letters
// without a separator.
func (c *scanner) shaped(kind Kind, start, body, least int) finding {
	s := c.s
	if body < c.plainFrom || body >= c.plainTo {
		c.plainFrom, c.plainTo, c.plainSeen = body, body, 0
	}
	for limit := min(len(s), body+maxLook); c.plainTo < limit && tokenByte(s[c.plainTo]); c.plainTo++ {
		if seen := c.plainSeen | chars[s[c.plainTo]]; seen&digit == 0 && seen&letter != letter {
			c.plainSeen = seen
			continue
		}
		break
	}
	known := min(c.plainTo, body+maxLook)
	end := tokenEnd(s, known, body+maxLook-known)
	if end-body < least {
		return finding{}
	}
	plain := end <= c.plainTo
	if v := s[body:end]; (plain || !mixed(v)) && (run(v, 0, alnum, 20) < 20 || !varied(v)) {
		return finding{}
	}
	return finding{kind, start, tokenEnd(s, end, len(s))}
}

// mixed reports whether v has a digit or letters of both cases, and at least two
// different characters.
func mixed(v []byte) bool {
	var seen uint16
	same := true
	for _, c := range v {
		seen |= chars[c]
		same = same && c == v[0]
	}
	return !same && (seen&digit != 0 || seen&letter == letter)
}

// dashToken checks for a token whose prefix ends with the '-' at i, which follows a
// letter.
func (c *scanner) dashToken(i int) finding {
	s := c.s
	switch s[i-1] {
	case 'k': // sk-
		if has(s, i-2, "sk-") && wordStart(s, i-2) {
			return c.secretKey(i - 2)
		}
	case 't': // glpat- and its relatives
		start := i - 1
		for start > 0 && i-start < 7 && is(s[start-1], lower) && (s[start] != 'g' || s[start+1] != 'l') {
			start--
		}
		if wordStart(s, start) && gitLabPrefixes[string(s[start:i])] {
			return c.shaped(GitLabToken, start, i+1, 20)
		}
	case 's': // of an OAuth application
		if has(s, i-5, "gloas-") && wordStart(s, i-5) {
			return c.shaped(GitLabToken, i-5, i+1, 20)
		}
	case 'X':
		if has(s, i-6, "GOCSPX-") && wordStart(s, i-6) {
			return c.shaped(GoogleKey, i-6, i+1, 20)
		}
	}
	if has(s, i-4, "xox") && wordStart(s, i-4) || has(s, i-4, "xapp") && wordStart(s, i-4) {
		return c.shaped(SlackToken, i-4, i+1, 10)
	}
	return finding{}
}

var gitLabPrefixes = map[string]bool{
	"glpat": true, "gldt": true, "glrt": true, "glcbt": true, "glptt": true, "glft": true, "glsoat": true, "glimt": true,
	"glagent": true, "glffct": true,
}

// secretKey checks for a key at "sk-" at i. Names of style classes and of Kubernetes
// objects can start like that too, so the key must have a long part without separators.
func (c *scanner) secretKey(i int) finding {
	s := c.s
	if i < c.noKey {
		return finding{}
	}
	body := i + len("sk-")
	end := tokenEnd(s, body, len(s))
	var seen uint16
	for from := body; from < end; {
		to := run(s, from, alnum, end-from)
		part := s[from:to]
		if end-body >= 16 && len(part) >= 12 && mixed(part) && run(part, 0, digit, len(part)) < len(part) || len(part) >= 24 && varied(part) {
			return finding{SecretKey, i, end}
		}
		for _, c := range part {
			seen |= chars[c]
		}
		from = to + 1
	}
	if end-body >= 40 && seen&alnum == alnum {
		return finding{SecretKey, i, end}
	}
	c.noKey = end
	return finding{}
}

// underscoreToken checks for a token whose prefix ends with the '_' at i.
func (c *scanner) underscoreToken(i int) finding {
	s := c.s
	switch s[i-1] {
	case 'p', 'o', 'u', 's', 'r': // ghp_, gho_, ghu_, ghs_, ghr_
		if has(s, i-3, "gh") && wordStart(s, i-3) {
			return c.shaped(GitHubToken, i-3, i+1, 20)
		}
	case 't', 'e': // github_pat_, sk_live_, sk_test_, rk_live_, rk_test_
		if has(s, i-10, "github_pat_") && wordStart(s, i-10) {
			return c.shaped(GitHubToken, i-10, i+1, 20)
		}
		if (has(s, i-5, "_live") || has(s, i-5, "_test")) && (has(s, i-7, "sk") || has(s, i-7, "rk")) && wordStart(s, i-7) {
			return c.shaped(StripeKey, i-7, i+1, 10)
		}
	case 'c':
		if has(s, i-5, "whsec_") && wordStart(s, i-5) {
			return c.shaped(StripeKey, i-5, i+1, 16)
		}
	}
	return finding{}
}

// aToken checks for tokens that start with the 'A' at i, and for a JSON web token whose
// header starts with a space.
func aToken(s []byte, i int) finding {
	switch {
	case has(s, i, "AKIA") || has(s, i, "ASIA"):
		const length = 20
		end := run(s, i, upper|digit, length+1)
		if end-i != length || !wordStart(s, i) || !wordEnd(s, end) || !varied(s[i+4:end]) {
			return finding{}
		}
		return finding{AWSKey, i, end}
	case has(s, i, "AIza"):
		const length = 39
		if end := tokenEnd(s, i, length+1); end-i == length && wordStart(s, i) && mixed(s[i+len("AIzaSy"):end]) {
			return finding{GoogleKey, i, end}
		}
	default:
		return jwt(s, i-2)
	}
	return finding{}
}

// varied reports whether v has at least two different characters.
func varied(v []byte) bool {
	for _, c := range v {
		if c != v[0] {
			return true
		}
	}
	return false
}

// httpCredentials checks for "Bearer" and "Basic" at the 'B' or 'b' at i, and for the
// credentials after them.
func httpCredentials(s []byte, i int) finding {
	switch s[i+1] | 0x20 {
	case 'e':
		if hasPrefixFold(s, i, "bearer") && wordStart(s, i) {
			return bearer(s, i, afterScheme(s, i+6))
		}
	case 'a':
		if hasPrefixFold(s, i, "basic") && wordStart(s, i) {
			return basic(s, i, afterScheme(s, i+5))
		}
	}
	return finding{}
}

// afterScheme returns the start of the credentials after a scheme that ends at i, or i
// if nothing separates them.
func afterScheme(s []byte, i int) int {
	if i < len(s) && s[i] == ':' {
		i++
	}
	if percent(s, i) == ' ' {
		return i + 3
	}
	for i < len(s) && isBlank(s[i]) {
		i++
	}
	return i
}

func bearer(s []byte, start, body int) finding {
	if is(s[body-1], alnum) && percent(s, body-3) == 0 { // nothing between the scheme and the token
		return finding{}
	}
	end := run(s, body, token, len(s))
	v := s[body:end]
	if len(v) < 16 || !mixed(v) || findMask(s, body, end) < end {
		return finding{}
	}
	return finding{BearerToken, start, end}
}

// basic decodes the base64 at body; credentials are text with a colon.
func basic(s []byte, start, body int) finding {
	if is(s[body-1], alnum) && percent(s, body-3) == 0 {
		return finding{}
	}
	var d base64Reader
	var char [utf8.UTFMax]byte // the bytes of a character that is not complete yet
	have, colon := 0, false
	end := body
	for ; end < len(s) && is(s[end], token) && s[end] != '.' && s[end] != '~'; end++ {
		b, ok, valid := d.next(s[end])
		if !valid {
			return finding{}
		}
		if !ok {
			continue
		}
		char[have] = b
		have++
		switch r, _ := utf8.DecodeRune(char[:have]); {
		case r != utf8.RuneError:
			if r < ' ' || r == 0x7f {
				return finding{}
			}
			colon = colon || r == ':'
			have = 0
		case have == len(char) || utf8.FullRune(char[:have]):
			return finding{}
		}
	}
	if !colon || have != 0 {
		return finding{}
	}
	return finding{BasicCredentials, start, end}
}

// A base64Reader decodes base64 of either alphabet byte by byte.
type base64Reader struct {
	bits, have uint
	padded     bool
}

// next decodes one character and returns the byte that it completes.
func (d *base64Reader) next(c byte) (b byte, ok, valid bool) {
	var v uint
	switch {
	case c == '=':
		d.padded = true
		return 0, false, true
	case d.padded:
		return 0, false, false
	case is(c, upper):
		v = uint(c - 'A')
	case is(c, lower):
		v = uint(c-'a') + 26
	case is(c, digit):
		v = uint(c-'0') + 52
	case c == '+' || c == '-':
		v = 62
	case c == '/' || c == '_':
		v = 63
	default:
		return 0, false, false
	}
	d.bits = d.bits<<6 | v
	d.have += 6
	if d.have < 8 {
		return 0, false, true
	}
	d.have -= 8
	return byte(d.bits >> d.have), true, true
}

// jwt looks for a JSON web token at start: three parts of base64url, the first of which
// decodes to a JSON object. The base64 of a brace begins with "ey" before a quotation mark
// (eyJ) and a space (eyA), and with "ew" before the line end or tab of indented JSON. A
// token starts at the start of a word only, so that no part is read twice.
func jwt(s []byte, start int) finding {
	if !has(s, start, "ey") && !has(s, start, "ew") || !wordStart(s, start) || start > 0 && (s[start-1] == '-' || s[start-1] == '_') {
		return finding{}
	}
	first := tokenEnd(s, start, len(s))
	if first >= len(s) || s[first] != '.' || !jsonObject(s[start:first]) {
		return finding{}
	}
	second := tokenEnd(s, first+1, len(s))
	if second == first+1 || second >= len(s) || s[second] != '.' {
		return finding{}
	}
	return finding{JWT, start, tokenEnd(s, second+1, len(s))}
}

// jsonObject reports whether the base64url in v decodes to a flat view of a
// JSON object: braces around a quoted name, a colon and balanced quotes.
func jsonObject(v []byte) bool {
	var d base64Reader
	var last byte
	quotes, colons, depth := 0, 0, 0
	escaped := false
	for _, c := range v {
		b, ok, valid := d.next(c)
		if !valid {
			return false
		}
		if !ok {
			continue
		}
		inString := quotes%2 == 1
		switch {
		case b < ' ' && b != '\n' && b != '\r' && b != '\t':
			return false
		case escaped:
			escaped = false
		case inString && b == '\\':
			escaped = true
		case b == '"':
			quotes++
		case inString:
		case b == '{':
			depth++
		case b == '}':
			depth--
		case b == ':':
			colons++
		}
		if b > ' ' {
			last = b
		}
	}
	return last == '}' && depth == 0 && quotes >= 2 && quotes%2 == 0 && colons > 0
}

// privateKey checks for the header of a PEM private key at the dashes at i. The key
// extends to the end of its footer, or of the text.
func privateKey(s []byte, i int) finding {
	const begin, end, tail = "-----BEGIN ", "-----END ", "PRIVATE KEY"
	if !has(s, i, begin) {
		return finding{}
	}
	label := i + len(begin)
	stop := label
	for stop < len(s) && stop < label+40 && (is(s[stop], upper|digit) || s[stop] == ' ') {
		stop++
	}
	found := false
	for j := label; j+len(tail) <= stop; j++ {
		found = found || has(s, j, tail)
	}
	if !found || !has(s, stop, "-----") || findMask(s, stop, min(len(s), stop+40)) < min(len(s), stop+40) {
		return finding{}
	}
	for j := stop + 5; j < len(s); j++ {
		if s[j] != '-' || !has(s, j, end) {
			continue
		}
		j += len(end)
		for j < len(s) && (is(s[j], upper|digit) || s[j] == ' ' || s[j] == '-') {
			j++
		}
		return finding{PrivateKey, i, j}
	}
	return finding{PrivateKey, i, len(s)}
}
