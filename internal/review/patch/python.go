// SPDX-License-Identifier: Apache-2.0

package patch

import "bytes"

// indented reports whether the indentation of a Python file is valid. The grammar also accepts a block without
// statements, or more indentation without a block. It returns true if a string does not end.
func indented(source []byte) bool {
	type column struct{ tabs8, tabs1 int } // the width with tabs to multiples of 8, and with tabs as spaces
	levels := []column{{}}
	opens := false // the line before opens a block
	for at := 0; at < len(source); {
		var c column
		for ; at < len(source) && bytes.IndexByte([]byte(" \t\f"), source[at]) >= 0; at++ {
			switch source[at] {
			case ' ':
				c.tabs8, c.tabs1 = c.tabs8+1, c.tabs1+1
			case '\t':
				c.tabs8, c.tabs1 = c.tabs8/8*8+8, c.tabs1+1
			default:
				c = column{}
			}
		}
		end, last, ok := logicalLine(source, at)
		if !ok {
			return true
		}
		at = end
		if last == 0 {
			continue
		}
		top := levels[len(levels)-1]
		if opens != (c.tabs8 > top.tabs8) || opens != (c.tabs1 > top.tabs1) {
			return false
		}
		if opens {
			levels = append(levels, c)
		}
		for c.tabs8 < levels[len(levels)-1].tabs8 {
			levels = levels[:len(levels)-1]
		}
		if c != levels[len(levels)-1] {
			return false
		}
		opens = last == ':'
	}
	return !opens
}

// logicalLine returns the end of a logical line of Python, and its last byte without comments and white space, or 0 if
// it has no other bytes. It returns false if a string does not end.
func logicalLine(source []byte, at int) (end int, last byte, ok bool) {
	for depth := 0; at < len(source); at++ {
		switch c := source[at]; c {
		case ' ', '\t', '\f', '\r':
		case '\n':
			if depth <= 0 {
				return at + 1, last, true
			}
		case '#':
			line := bytes.IndexByte(source[at:], '\n')
			if line < 0 {
				return len(source), last, true
			}
			at += line - 1
		case '\\':
			if at+1 < len(source) && source[at+1] == '\r' {
				at++
			}
			at++
		case '"', '\'':
			length := stringLength(source[at:])
			if length == 0 {
				return 0, 0, false
			}
			at, last = at+length-1, c
		default:
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth--
			}
			last = c
		}
	}
	return at, last, true
}

// stringLength returns the length of the Python string at the start of a source, or 0 if the string does not end.
func stringLength(source []byte) int {
	quote := source[:1]
	if len(source) >= 3 && source[1] == quote[0] && source[2] == quote[0] {
		quote = source[:3]
	}
	for at := len(quote); at < len(source); at++ {
		switch {
		case source[at] == '\\':
			at++
		case bytes.HasPrefix(source[at:], quote):
			return at + len(quote)
		case source[at] == '\n' && len(quote) == 1:
			return 0
		}
	}
	return 0
}
