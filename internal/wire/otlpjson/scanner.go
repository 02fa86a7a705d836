// SPDX-License-Identifier: Apache-2.0

package otlpjson

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"assay/internal/wire"
)

// maxSkipDepth limits the nesting of an unknown field's value, as in encoding/json.
const maxSkipDepth = 10000

// scanner reads JSON values from in, starting at pos.
type scanner struct {
	in  []byte
	pos int

	ctx   context.Context
	steps int // values read
}

// stepsBetweenChecks is the number of values between two checks of the context.
const stepsBetweenChecks = 1 << 12

// step counts a value. It returns an error if the context has ended.
func (s *scanner) step() *wire.Error {
	if s.steps++; s.steps%stepsBetweenChecks != 0 || s.ctx.Err() == nil {
		return nil
	}
	return fail(s.pos, "interrupted")
}

// fail returns an error at offset at. The caller adds the field.
func fail(at int, format string, args ...any) *wire.Error {
	return &wire.Error{Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// peek skips white space and returns the next byte, or zero at the end of the input.
func (s *scanner) peek() byte {
	for s.pos < len(s.in) {
		switch c := s.in[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// unexpected returns the error for an unexpected byte at pos. want describes the expected input.
func (s *scanner) unexpected(want string) *wire.Error {
	if s.pos >= len(s.in) {
		return fail(s.pos, "end of input, want %s", want)
	}
	return fail(s.pos, "byte 0x%02x, want %s", s.in[s.pos], want)
}

// literal consumes word. The caller has checked its first byte.
func (s *scanner) literal(word string) *wire.Error {
	if !bytes.HasPrefix(s.in[s.pos:], []byte(word)) {
		return s.unexpected(word)
	}
	s.pos += len(word)
	return nil
}

// null consumes a null if there is one, and reports whether it did.
func (s *scanner) null() (bool, *wire.Error) {
	if s.peek() != 'n' {
		return false, nil
	}
	return true, s.literal("null")
}

// next moves to the next member of an object or item of an array that ends with closing. It returns false at the end.
// first is set on the first call.
func (s *scanner) next(first bool, closing byte) (bool, *wire.Error) {
	c := s.peek()
	if c == closing {
		s.pos++
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		return false, s.unexpected("',' or '" + string(closing) + "'")
	}
	s.pos++
	if s.peek() == closing {
		return false, s.unexpected("a value after ','")
	}
	return true, nil
}

// open consumes the bracket that opens an object or array.
func (s *scanner) open(bracket byte) *wire.Error {
	if s.peek() != bracket {
		return s.unexpected("'" + string(bracket) + "'")
	}
	s.pos++
	return nil
}

// colon consumes the colon after a key.
func (s *scanner) colon() *wire.Error {
	if s.peek() != ':' {
		return s.unexpected("':'")
	}
	s.pos++
	return nil
}

// text consumes a string. It returns the bytes between the quotes and whether they contain escapes. text checks the
// escapes, so unescape cannot fail.
func (s *scanner) text() (body []byte, escaped bool, err *wire.Error) {
	if s.peek() != '"' {
		return nil, false, s.unexpected("a string")
	}
	start := s.pos + 1
	for i := start; i < len(s.in); i++ {
		switch c := s.in[i]; {
		case c == '"':
			s.pos = i + 1
			return s.in[start:i:i], escaped, nil
		case c == '\\':
			escaped = true
			i++
			if i >= len(s.in) {
				return nil, false, fail(i, "end of input in a string")
			}
			switch s.in[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(s.in) {
					return nil, false, fail(len(s.in), "end of input in a string")
				}
				if _, ok := hex4(s.in[i+1 : i+5]); !ok {
					return nil, false, fail(i-1, "\\u without four hex digits")
				}
				i += 4
			default:
				return nil, false, fail(i-1, "invalid escape in a string")
			}
		case c < 0x20:
			return nil, false, fail(i, "control character 0x%02x in a string", c)
		}
	}
	return nil, false, fail(len(s.in), "end of input in a string")
}

func hex4(b []byte) (rune, bool) {
	var r rune
	for _, c := range b[:4] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// unescape appends the unescaped string body, which text has returned, to dst. An unpaired surrogate becomes the
// replacement character.
func unescape(dst, body []byte) []byte {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return append(dst, body...)
		}
		dst = append(dst, body[:i]...)
		c := body[i+1]
		body = body[i+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(body)
			body = body[4:]
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if len(body) >= 6 && body[0] == '\\' && body[1] == 'u' {
					low, _ := hex4(body[2:])
					pair = utf16.DecodeRune(r, low)
				}
				if r = pair; r != utf8.RuneError {
					body = body[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
		default: // '"', '\\', '/'
			dst = append(dst, c)
		}
	}
}

// number consumes a number and returns its text.
func (s *scanner) number() ([]byte, *wire.Error) {
	start := s.pos
	digits := func() bool {
		from := s.pos
		for s.pos < len(s.in) && '0' <= s.in[s.pos] && s.in[s.pos] <= '9' {
			s.pos++
		}
		return s.pos > from
	}
	at := func(c byte) bool { return s.pos < len(s.in) && s.in[s.pos] == c }
	if at('-') {
		s.pos++
	}
	if at('0') {
		s.pos++
	} else if !digits() {
		return nil, s.unexpected("a number")
	}
	if at('.') {
		s.pos++
		if !digits() {
			return nil, s.unexpected("a digit")
		}
	}
	if at('e') || at('E') {
		s.pos++
		if at('+') || at('-') {
			s.pos++
		}
		if !digits() {
			return nil, s.unexpected("a digit")
		}
	}
	return s.in[start:s.pos], nil
}

// scalar consumes a number, or a string, and returns its text.
func (s *scanner) scalar() ([]byte, *wire.Error) {
	if s.peek() != '"' {
		return s.number()
	}
	body, escaped, err := s.text()
	if escaped {
		body = unescape(nil, body)
	}
	return body, err
}

// integer parses a decimal number with an integral value, such as -1, 17 or 1.5e3. It is exact for all 64-bit values.
func integer(text []byte) (negative bool, v uint64, ok bool) {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	mantissa, exponent := text, 0
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		var err error
		// An exponent beyond an int is out of range. It would be valid with a zero mantissa, which no sender writes.
		if exponent, err = strconv.Atoi(string(text[i+1:])); err != nil || exponent > 1<<20 || exponent < -1<<20 {
			return false, 0, false
		}
		mantissa = text[:i]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	fraction = bytes.TrimRight(fraction, "0")
	if len(whole) == 0 {
		return false, 0, false
	}
	exponent -= len(fraction)
	if exponent < 0 {
		// The digits that a negative exponent removes must be zeros.
		if len(fraction) > 0 || len(bytes.TrimRight(whole, "0")) > max(0, len(whole)+exponent) {
			return false, 0, false
		}
		whole, exponent = whole[:max(0, len(whole)+exponent)], 0
	}
	for _, part := range [...][]byte{whole, fraction} {
		for _, c := range part {
			if c < '0' || c > '9' {
				return false, 0, false
			}
			if v, ok = timesTenPlus(v, c-'0'); !ok {
				return false, 0, false
			}
		}
	}
	for ; exponent > 0 && v > 0; exponent-- {
		if v, ok = timesTenPlus(v, 0); !ok {
			return false, 0, false
		}
	}
	return negative && v > 0, v, true
}

func timesTenPlus(v uint64, digit byte) (uint64, bool) {
	if v > math.MaxUint64/10 || (v == math.MaxUint64/10 && digit > math.MaxUint64%10) {
		return 0, false
	}
	return v*10 + uint64(digit), true
}

// skipScalar consumes any value except objects and arrays.
func (s *scanner) skipScalar() (err *wire.Error) {
	switch s.peek() {
	case '"':
		_, _, err = s.text()
	case 't':
		err = s.literal("true")
	case 'f':
		err = s.literal("false")
	case 'n':
		err = s.literal("null")
	default:
		_, err = s.number()
	}
	return err
}

// skip consumes any value. It does not recurse.
func (s *scanner) skip() *wire.Error {
	if c := s.peek(); c != '{' && c != '[' {
		return s.skipScalar()
	}
	var objects [maxSkipDepth/64 + 1]uint64 // a set bit marks an object
	depth := 0
	start := s.pos
	for {
		if err := s.step(); err != nil {
			return err
		}
		opened := false
		switch c := s.peek(); c {
		case '{', '[':
			if depth == maxSkipDepth {
				return fail(start, "value is nested more than %d deep", maxSkipDepth)
			}
			s.pos++
			objects[depth/64] &^= 1 << (depth % 64)
			if c == '{' {
				objects[depth/64] |= 1 << (depth % 64)
			}
			depth++
			opened = true
		default:
			if err := s.skipScalar(); err != nil {
				return err
			}
		}
		// Close the levels that end here, and stop before the next value.
		for {
			if depth == 0 {
				return nil
			}
			object := objects[(depth-1)/64]&(1<<((depth-1)%64)) != 0
			closing := byte(']')
			if object {
				closing = '}'
			}
			more, err := s.next(opened, closing)
			if err != nil {
				return err
			}
			if !more {
				depth--
				opened = false
				continue
			}
			if object {
				if _, _, err := s.text(); err != nil {
					return err
				}
				if err := s.colon(); err != nil {
					return err
				}
			}
			break
		}
	}
}
