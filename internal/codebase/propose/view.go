// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"bytes"
	"regexp"
	"strings"

	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

// maxLine is the number of bytes of a line that a model sees.
const maxLine = 500

// line is a line of a file as a model sees it.
type line struct {
	text string
	cut  bool // some of it is not shown: the line cannot be changed
}

var (
	yamlName  = regexp.MustCompile(`^[\s-]*name:\s*["']?([^"'#]+?)["']?\s*$`)
	yamlValue = regexp.MustCompile(`^\s*value:\s*["']?(.*?)["']?\s*$`)
)

// view returns the lines of a text without sensitive data and invisible characters.
func view(text []byte) []line {
	raw := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	lines := make([]line, len(raw))
	for i, shown := range cleanLines(raw) {
		if len(shown) > maxLine {
			shown = strings.ToValidUTF8(shown[:maxLine], "") + "…"
		}
		lines[i] = line{shown, shown != strings.TrimSuffix(raw[i], "\r")}
	}
	return lines
}

// cleanText returns a text without sensitive data and invisible characters.
func cleanText(s string) string { return strings.Join(cleanLines(strings.Split(s, "\n")), "\n") }

// cleanLines returns the lines of a text without sensitive data and invisible characters.
func cleanLines(raw []string) []string {
	lines := make([]string, len(raw))
	key := false // inside a private key
	for i, s := range raw {
		s = strings.TrimSuffix(s, "\r")
		key = key || strings.Contains(s, "-----BEGIN ") && strings.Contains(s, "PRIVATE KEY")
		if lines[i] = cleanLine(s); key || i > 0 && split(raw[i-1], s) {
			lines[i] = sensitive.Redacted
		}
		key = key && !strings.Contains(s, "-----END ")
	}
	return lines
}

// cleanLine returns a line without sensitive data. A literal that Go assigns to a name is the value of that name.
func cleanLine(s string) string {
	cleaned := sensitive.Clean([]byte(s))
	if strings.Contains(cleaned, ":=") && secret(strings.ReplaceAll(cleaned, ":=", "=")) {
		return sensitive.Redacted
	}
	return safetext.Printable(cleaned, "\t")
}

func secret(s string) bool { return sensitive.Text([]byte(s)) != sensitive.None }

// split reports whether a line has the value of a secret that the line before names.
func split(before, s string) bool {
	before, s = strings.TrimSpace(before), strings.TrimSpace(s)
	if name, value := yamlName.FindStringSubmatch(before), yamlValue.FindStringSubmatch(s); name != nil && value != nil {
		return sensitive.Named([]byte(name[1]), []byte(value[1])) != sensitive.None
	}
	return strings.HasSuffix(before, ":") && secret(before+" "+s) || strings.HasSuffix(before, "=") && secret(strings.ReplaceAll(before, ":=", "=")+" "+s)
}

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
