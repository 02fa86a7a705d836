// SPDX-License-Identifier: Apache-2.0

package sensitive

import "bytes"

// placeholderWords stand where a value was taken out or never was, booleans
// included.
var placeholderWords = map[string]bool{
	"redacted": true, "hidden": true, "masked": true, "filtered": true, "removed": true, "omitted": true,
	"scrubbed": true, "sanitized": true, "obfuscated": true, "protected": true, "censored": true,
	"null": true, "nil": true, "none": true, "undefined": true, "empty": true, "unset": true, "not set": true,
	"n/a": true, "na": true,
	"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "enabled": true, "disabled": true,
}

// placeholder reports whether a value under a secret's name is no secret: it is
// empty, redacted, a placeholder, a boolean, a time, a version, an IP address
// or an ARN. It looks at the whole value only in masked, which is separate.
func placeholder(v []byte) bool {
	v = bytes.TrimSpace(v)
	w, whole := trimDecoration(v)
	if len(w) == 0 { // no letter and no digit: "", "?", "--", "***"
		return true
	}
	if whole {
		if fold(w[0]) == 'x' && len(w) >= 3 && onlyX(w) {
			return true
		}
		if len(w) <= maxPlaceholder {
			var low [maxPlaceholder]byte
			for i, c := range w {
				low[i] = fold(c)
			}
			if placeholderWords[string(low[:len(w)])] {
				return true
			}
		}
	}
	last := v[len(v)-1]
	switch v[0] {
	case '<':
		return last == '>'
	case '{':
		return last == '}'
	case '#':
		return has(v, 1, "{") && last == '}'
	case '$':
		return placeholderDollar(v[1:])
	case ':':
		return identifier(v[1:])
	case '@':
		return placeholderAt(v[1:])
	case '?':
		return run(v, 1, digit, len(v)) == len(v)
	case '%':
		return placeholderPercent(v[1:])
	}
	return bytes.HasPrefix(v, []byte("arn:")) || isTime(v) || isVersionOrIP(v)
}

// maxPlaceholder is the length of the longest placeholder word.
const maxPlaceholder = 10

// trimDecoration cuts everything from both ends that is neither an ASCII letter or
// digit nor non-ASCII. Of what is neither x over and over nor as short as a
// placeholder word it returns the start, and false: values overlap, so looking for
// the end of each would take time that is quadratic.
func trimDecoration(v []byte) (w []byte, whole bool) {
	for len(v) > 0 && !is(v[0], alnum|high) {
		v = v[1:]
	}
	// A bullet (U+2022, U+25CF) is the asterisk of password fields.
	for _, bullet := range [...]string{"•", "●"} {
		for bytes.HasPrefix(v, []byte(bullet)) {
			v = v[len(bullet):]
		}
	}
	end, x := 0, true // of what is x over and over so far
	for i, c := range v {
		if !is(c, alnum|high) {
			continue
		}
		x = x && onlyX(v[end:i+1])
		if end = i + 1; end > maxPlaceholder && !x {
			return v[:end], false
		}
	}
	return v[:end], true
}

func onlyX(v []byte) bool {
	for _, c := range v {
		if c != 'x' && c != 'X' && c != '-' && c != ' ' {
			return false
		}
	}
	return true
}

// identifier reports whether v is a programmer's name.
func identifier(v []byte) bool {
	if len(v) == 0 || is(v[0], digit) {
		return false
	}
	for _, c := range v {
		if !is(c, alnum) && c != '_' {
			return false
		}
	}
	return true
}

// placeholderDollar is for what follows a '$': 1, {NAME}, (command), NAME,
// name.
func placeholderDollar(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	switch v[0] {
	case '{', '(':
		return v[len(v)-1] == '}' || v[len(v)-1] == ')'
	}
	if is(v[0], digit) {
		return run(v, 0, digit, len(v)) == len(v)
	}
	if !identifier(v) {
		return false
	}
	// $NAME_2 and $name are variables; $ecret1 is more likely a password.
	digits, lowers := false, false
	for _, c := range v {
		digits = digits || is(c, digit)
		lowers = lowers || is(c, lower)
	}
	return !digits || !lowers
}

// placeholderAt is for what follows an '@': p1, or a parameter named like a
// secret.
func placeholderAt(v []byte) bool {
	if len(v) >= 2 && fold(v[0]) == 'p' && run(v, 1, digit, len(v)) == len(v) {
		return true
	}
	if !identifier(v) {
		return false
	}
	n, _ := nameAt(v, len(v))
	return n != nil
}

// placeholderPercent is for what follows a '%': a printf verb, (name)s, {name}
// or NAME%.
func placeholderPercent(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	last := v[len(v)-1]
	switch {
	case v[0] == '(' || v[0] == '{':
		return last == '}' || is(last, letter)
	case last == '%':
		return identifier(v[:len(v)-1])
	}
	i := 0
	for i < len(v) && (is(v[i], digit) || v[i] == '-' || v[i] == '+' || v[i] == '#' || v[i] == '.') {
		i++
	}
	return i == len(v)-1 && is(last, letter)
}

// isTime reports whether v starts like 2026-01-31 and ends there or goes on
// with a time of day.
func isTime(v []byte) bool {
	if len(v) < 10 || v[4] != '-' || v[7] != '-' || len(v) > 10 && v[10] != 'T' && v[10] != ' ' {
		return false
	}
	for _, i := range [...]int{0, 1, 2, 3, 5, 6, 8, 9} {
		if !is(v[i], digit) {
			return false
		}
	}
	return len(v) == 10 || len(v) <= 40 && len(v) >= 16 && v[13] == ':'
}

// isVersionOrIP reports whether v is two or more numbers joined by dots, a 'v' or
// the operator of a version range allowed before and a port after, as in v1.2.3,
// ^9.0.0 and 10.0.0.1:80.
func isVersionOrIP(v []byte) bool {
	v = bytes.TrimLeft(v, "v^~<>=")
	dots, i := 0, 0
	for {
		end := run(v, i, digit, 6)
		if end == i || end-i > 5 {
			return false
		}
		if i = end; i == len(v) {
			return dots >= 1
		}
		switch {
		case v[i] == '.' && dots < 4:
			dots++
		case v[i] == ':' && dots == 3:
			dots = 5
		default:
			return false
		}
		i++
	}
}

// findMask returns the start of the first sign of redaction, *** or "redacted"
// in any case, that starts in s[from:to]; to when there is none.
func findMask(s []byte, from, to int) int {
	for i := from; i < to; i++ {
		switch s[i] {
		case '*':
			if has(s[:to], i, "***") {
				return i
			}
		case 'r', 'R':
			if hasFold(s[:to], i, "redacted") {
				return i
			}
		case '%':
			if hasFold(s[:to], i, "%2a%2a%2a") {
				return i
			}
		}
	}
	return to
}

// exempt reports whether a value under the name n is no secret.
func exempt(n *name, v []byte) bool {
	return exemptUnder(n, v) || placeholder(v) || findMask(v, 0, len(v)) < len(v)
}

// exemptUnder is for the exemptions that depend on the name: small counts, and
// paths under PWD.
func exemptUnder(n *name, v []byte) bool {
	v = bytes.TrimSpace(v)
	if n.counts && len(v) <= 4 && run(v, 0, digit, 4) == len(v) {
		return true
	}
	return n.path && isPath(v)
}

func isPath(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	switch v[0] {
	case '/', '~', '\\':
		return true
	case '.':
		return len(v) == 1 || v[1] == '/' || v[1] == '\\' || v[1] == '.'
	}
	// A backslash ends an unquoted value in a text, so C: may be all there is.
	return len(v) >= 2 && is(v[0], letter) && v[1] == ':' && (len(v) == 2 || v[2] == '\\' || v[2] == '/')
}
