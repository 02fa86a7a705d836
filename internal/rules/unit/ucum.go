// SPDX-License-Identifier: Apache-2.0

package unit

// Valid reports whether unit is a valid UCUM expression: terms joined by "."
// and "/", where a term is a unit with an optional prefix and exponent, an
// integer factor, an annotation in braces, or an expression in parentheses.
// The empty unit is not valid.
//
// The specification's grammar is followed to the letter, with one addition
// taken from UCUM's functional tests: an annotation may follow a factor, as
// in "1{request}". So an expression in parentheses takes neither an exponent
// nor an annotation, and a leading "/" is allowed only at the very start.
func Valid(unit []byte) bool {
	i := 0
	if len(unit) > 0 && unit[0] == '/' {
		i++
	}
	depth := 0
	for {
		// Expect a component.
		for i < len(unit) && unit[i] == '(' {
			depth++
			i++
		}
		n := component(unit[i:])
		if n == 0 {
			return false
		}
		i += n
		for i < len(unit) && unit[i] == ')' {
			if depth == 0 {
				return false
			}
			depth--
			i++
		}
		if i == len(unit) {
			return depth == 0
		}
		if unit[i] != '.' && unit[i] != '/' {
			return false
		}
		i++
	}
}

// component returns the length of the component without parentheses at the
// start of s, or 0 if there is none.
func component(s []byte) int {
	n := symbolLen(s)
	if n > 0 && !isFactor(s[:n]) && !isSimpleUnit(trimExponent(s[:n])) {
		return 0
	}
	if n < len(s) && s[n] == '{' {
		a := annotationLen(s[n:])
		if a == 0 {
			return 0
		}
		n += a
	}
	return n
}

// symbolLen returns the length of the symbol at the start of s. The symbol ends before
// the next character of the grammar outside square brackets.
func symbolLen(s []byte) int {
	bracket := false
	for i, c := range s {
		switch c {
		case '[':
			bracket = true
		case ']':
			bracket = false
		case '.', '/', '(', ')':
			if !bracket {
				return i
			}
		case '{', '}':
			return i
		}
	}
	return len(s)
}

// annotationLen returns the length of the annotation at the start of s, its
// braces included, or 0 if it is not closed or holds anything but the
// characters 33 to 126 without braces.
func annotationLen(s []byte) int {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '}':
			return i + 1
		case c == '{' || c < '!' || c > '~':
			return 0
		}
	}
	return 0
}

// isFactor reports whether s is a positive integer factor, written in digits.
func isFactor(s []byte) bool {
	for _, c := range s {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// trimExponent returns s without its exponent. No unit code ends in a digit.
func trimExponent(s []byte) []byte {
	i := len(s)
	for i > 0 && isDigit(s[i-1]) {
		i--
	}
	if i > 0 && i < len(s) && (s[i-1] == '+' || s[i-1] == '-') {
		i--
	}
	return s[:i]
}

// isSimpleUnit reports whether s is a unit code, or a prefix and the code of a
// metric unit.
func isSimpleUnit(s []byte) bool {
	if _, ok := atoms[string(s)]; ok {
		return true
	}
	for n := 1; n <= 2 && n < len(s); n++ {
		if _, ok := prefixes[string(s[:n])]; ok && atoms[string(s[n:])] {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
