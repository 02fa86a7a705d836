// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"assay/internal/safetext"
)

// isJSON reports whether b is one JSON value in UTF-8.
func isJSON(b []byte) bool { return utf8.Valid(b) && json.Valid(b) }

// members calls f for the members of a JSON object in order, including duplicates. The value is a slice of object,
// which must be valid JSON. For JSON other than an object, members does not call f. It decodes only names, and scans
// values.
func members(object []byte, f func(name string, value []byte)) {
	i := space(object, 0)
	if i == len(object) || object[i] != '{' {
		return
	}
	for i = space(object, i+1); object[i] != '}'; {
		end := quoted(object, i)
		name := nameOf(object[i:end])
		i = space(object, space(object, end)+1) // after the colon
		end = value(object, i)
		f(name, object[i:end])
		if i = space(object, end); object[i] == ',' {
			i = space(object, i+1)
		}
	}
}

// nameOf returns the decoded name of a member.
func nameOf(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name[1 : len(name)-1])
	}
	var s string
	_ = json.Unmarshal(name, &s) // it is valid
	return s
}

// space returns the end of the white space that begins at i.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// quoted returns the end of the JSON string that begins at i.
func quoted(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// value returns the end of the JSON value that begins at i.
func value(b []byte, i int) int {
	switch b[i] {
	case '"':
		return quoted(b, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch b[i] {
			case '"':
				i = quoted(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	default:
		for i < len(b) && bytes.IndexByte([]byte(",]} \t\r\n"), b[i]) < 0 {
			i++
		}
		return i
	}
}

// text returns at most n bytes of a JSON string, or "" for another value.
func text(value []byte, n int) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	var s string
	_ = json.Unmarshal(value, &s) // it is valid
	return safetext.Cut(s, n)
}

// nonNegative parses a JSON number that consists only of digits.
func nonNegative(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && n >= 0
}
