// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/internal/safetext"
)

// Maximum numbers of characters that are shown of a text from telemetry.
const (
	shortText = 80     // in lists, titles and sentences
	longText  = 16_384 // where the whole text can be reached
	maxMarks  = 3      // combining marks on one character; more would cover the lines around it
)

// name returns a text from telemetry for a list. It isolates the text's direction from its surroundings, escapes
// invisible characters visibly, and truncates to shortText characters.
func name(s string) template.HTML { return isolated(s, shortText) }

// fullName is name with up to longText characters, a long text in an element that
// opens.
func fullName(s string) template.HTML {
	if !cut(s) {
		return name(s)
	}
	return `<details class="long"><summary>` + name(s) + `</summary>` + isolated(s, longText) + `</details>`
}

// rest returns the part of fullName that name omits, for use beside a heading, which cannot contain an expandable
// element. It is empty for a text that name does not truncate.
func rest(s string) template.HTML {
	if !cut(s) {
		return ""
	}
	return `<details class="more rest"><summary>The whole name</summary>` + isolated(s, longText) + `</details>`
}

// cut reports whether name truncates a text.
func cut(s string) bool {
	p := visible(s, shortText)
	return len(p) > 0 && p[len(p)-1] == ellipsis
}

// key returns a short key for texts, which identifies a row wherever it moves.
func key(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

func isolated(s string, limit int) template.HTML {
	var b strings.Builder
	b.WriteString(`<bdi>`)
	for _, p := range visible(s, limit) {
		switch {
		case p == ellipsis:
			b.WriteString(p.text)
		case p.escape:
			b.WriteString(`<span class="esc">` + p.text + `</span>`) // letters, digits and brackets
		default:
			template.HTMLEscape(&b, []byte(p.text))
		}
	}
	b.WriteString(`</bdi>`)
	return template.HTML(b.String())
}

// plain is name for places that allow no elements, such as a title.
func plain(s string) string {
	var b strings.Builder
	for _, p := range visible(s, shortText) {
		b.WriteString(p.text)
	}
	return b.String()
}

// piece is a part of a text as it is shown.
type piece struct {
	text   string
	escape bool // it replaces an invisible character
}

// ellipsis replaces the omitted rest of a text.
var ellipsis = piece{text: "…", escape: true}

// visible splits the first limit characters of s, approximately, into pieces.
func visible(s string, limit int) []piece {
	var pieces []piece
	begin, marks := 0, 0 // of the characters that are shown as they are
	flush := func(end int) {
		if begin < end {
			pieces = append(pieces, piece{text: s[begin:end]})
		}
	}
	i := 0
	for shown := 0; i < len(s) && shown < limit; {
		r, size := utf8.DecodeRuneInString(s[i:])
		if unicode.Is(unicode.M, r) {
			marks++
		} else {
			marks = 0
		}
		if e := escapeOf(r, s[i:i+size], marks); e != "" {
			flush(i)
			pieces = append(pieces, piece{text: e, escape: true})
			begin = i + size
			shown += utf8.RuneCountInString(e)
		} else {
			shown++
		}
		i += size
	}
	flush(i)
	if i < len(s) {
		pieces = append(pieces, ellipsis)
	}
	return pieces
}

// escapeOf returns the visible escape of a character that would be invisible or would change the display of others,
// else "". It escapes controls, format characters, spaces other than U+0020, letters without a shape, private-use and
// unassigned characters, excessive combining marks, and invalid UTF-8.
func escapeOf(r rune, encoded string, marks int) string {
	switch {
	case r == utf8.RuneError && len(encoded) == 1:
		return fmt.Sprintf("⟨%02X⟩", encoded[0])
	case safetext.Hidden(r), marks > maxMarks:
		return fmt.Sprintf("⟨U+%04X⟩", r)
	default:
		return ""
	}
}
