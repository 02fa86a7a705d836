// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"assay/internal/lists"
	"assay/internal/report"
	"assay/internal/safetext"
)

// listFormat is the format flag of list commands.
type listFormat struct {
	Format string `default:"table" enum:"table,json" help:"Output format: ${enum} (${default})."`
}

// writeList writes rows as an aligned table, or items as a JSON array.
func writeList[T any](e *environment, format string, items []T, header []string, row func(T) []string) error {
	if format == "json" {
		if items == nil {
			items = []T{}
		}
		return writeJSON(e.stdout, items)
	}
	rows := lists.Map(items, row)
	return report.Table(e.stdout, header, rows)
}

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := safetext.EncodeJSON(&b, v, "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// jsonTime returns a time as in the REST API, or nil for the zero time.
func jsonTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

// tableTime returns a time for a table, or "-" for the zero time.
func tableTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// orDash returns s, or "-" if s is empty.
func orDash(s string) string { return cmp.Or(s, "-") }

// terminalWidth returns the number of columns of the terminal w. ok is false if w is not a terminal.
func terminalWidth(w io.Writer) (columns int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 {
		columns = report.DefaultWidth
	}
	return columns, true
}

// textOptions returns the text options for w. Color is enabled only on a terminal, and only if NO_COLOR is not set
// (https://no-color.org).
func (e *environment) textOptions(w io.Writer) report.Options {
	width, tty := terminalWidth(w)
	color := tty && e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb"
	return report.Options{Color: color, Width: width, Version: version()}
}
