// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether a character is invisible or changes the display of others: control and format characters,
// such as bidirectional controls and tags, white space other than U+0020, letters without a glyph, variation
// selectors, and private-use or unassigned characters.
func Hidden(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800' // an empty Braille pattern
}

// Printable returns s as valid UTF-8, with U+FFFD for every hidden character that is not in keep.
func Printable(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if Hidden(r) && !strings.ContainsRune(keep, r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// Cut returns s if it has at most n bytes, else its first n bytes without a broken character, and an ellipsis.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Start returns the start of s of at most n bytes. It does not split a character.
func Start(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > max(n-utf8.UTFMax, 0) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// JSON returns a JSON text with every hidden character escaped as \uXXXX, and each byte of invalid UTF-8 replaced by
// the escape of U+FFFD. It decodes to the same values. It returns its argument if there is nothing to escape.
func JSON(text []byte) []byte {
	i := firstHidden(text)
	if i < 0 {
		return text
	}
	return appendEscaped(append(make([]byte, 0, len(text)+len(text)/8+16), text[:i]...), text[i:])
}

// firstHidden returns the index of the first character to escape, or -1. Characters below U+0020 cannot occur in a
// JSON string and are white space outside of one.
func firstHidden(text []byte) int {
	for i := 0; i < len(text); {
		if text[i] < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if Hidden(r) || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func appendEscaped(dst, text []byte) []byte {
	for len(text) > 0 {
		i := firstHidden(text)
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		r, size := utf8.DecodeRune(text[i:])
		for _, unit := range utf16.AppendRune(nil, r) {
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', digits[unit>>12], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
		}
		text = text[i+size:]
	}
	return dst
}

// EncodeJSON appends v to b as JSON, escaped like JSON, without HTML escapes and without a trailing newline. indent
// is the indentation per level; "" produces one line.
func EncodeJSON(b *bytes.Buffer, v any, indent string) error {
	begin := b.Len()
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1)
	text := b.Bytes()[begin:]
	if i := firstHidden(text); i >= 0 {
		rest := bytes.Clone(text[i:])
		b.Truncate(begin + i)
		b.Write(appendEscaped(b.AvailableBuffer(), rest))
	}
	return nil
}

// JSONWriter writes JSON texts, one per call, escaped like JSON.
type JSONWriter struct{ To io.Writer }

// Write implements io.Writer.
func (w JSONWriter) Write(text []byte) (int, error) {
	if _, err := w.To.Write(JSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
