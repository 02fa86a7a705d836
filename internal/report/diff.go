// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"io"
	"strings"
	"unicode"
)

// WriteDiff writes a unified diff. For a terminal it colors the lines if Options.Color is set, and shows control
// characters as '?'. Otherwise it writes the diff as it is, so that it can be applied.
func WriteDiff(w io.Writer, diff []byte, terminal bool, opt Options) error {
	if !terminal {
		_, err := w.Write(diff)
		return err
	}
	var b strings.Builder
	for line := range bytes.Lines(diff) {
		text := strings.Map(func(r rune) rune {
			if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				return '?'
			}
			return r
		}, strings.TrimRight(string(line), "\r\n"))
		switch {
		case strings.HasPrefix(text, "--- "), strings.HasPrefix(text, "+++ "):
			text = opt.style(bold, text)
		case strings.HasPrefix(text, "@@"):
			text = opt.style(cyan, text)
		case strings.HasPrefix(text, "-"):
			text = opt.style(red, text)
		case strings.HasPrefix(text, "+"):
			text = opt.style(green, text)
		}
		b.WriteString(text + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
