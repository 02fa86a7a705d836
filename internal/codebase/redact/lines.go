// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"strings"

	"assay/internal/rules/sensitive"
)

// MaxLine is the maximum number of bytes of a line that a model sees.
const MaxLine = 500

// Line is a line of a file as a model sees it.
type Line struct {
	Text string
	Cut  bool // a part is not shown, so the line cannot be changed
}

// Lines returns the lines of a text without sensitive data and invisible characters, and truncates lines longer than
// MaxLine. The only possible error is that of the context.
func Lines(ctx context.Context, text []byte) ([]Line, error) {
	raw := Raw(text)
	clean, err := Clean(ctx, raw)
	if err != nil {
		return nil, err
	}
	lines := make([]Line, len(raw))
	for i, shown := range clean {
		if len(shown) > MaxLine {
			shown = strings.ToValidUTF8(shown[:MaxLine], "") + "…"
		}
		lines[i] = Line{shown, shown != strings.TrimSuffix(raw[i], "\r")}
	}
	return lines, nil
}

// Redacted reports whether sensitive data was removed from the line.
func (l Line) Redacted() bool { return strings.Contains(l.Text, sensitive.Redacted) }

// Raw splits a text into lines without changing them.
func Raw(text []byte) []string {
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
