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

// The lines of an entry of a list in YAML or JSON that has a name and a value.
var (
	entryName  = regexp.MustCompile(`^[\s{-]*["']?(?i:name|key)["']?\s*:\s*["']?([^"'#]+?)["']?\s*,?\s*$`)
	entryValue = regexp.MustCompile(`^\s*["']?(?i:value)["']?\s*:\s*["']?(.*?)["']?\s*[},]*\s*$`)
	// The same in one line.
	entry = regexp.MustCompile(`["']?(?i:\b(?:name|key))["']?\s*:\s*["']?([^"'#,]+?)["']?\s*,\s*["']?(?i:value)["']?\s*:\s*["']?([^"'},]+)`)
)

// typed matches a name with its type before a literal: password string = "...", password: Optional[str] = "...".
var typed = regexp.MustCompile("([\\w$]+)(?:\\s*\\??:\\s*[^=;:\"'`]{1,80}|\\s+[\\w$.*\\[\\]]+\\s*)=(\\s*[\"'`]|\\s*$)")

// declared reports whether a declaration with a type has the value of a secret.
func declared(s string) bool {
	untyped := typed.ReplaceAllString(s, "$1 =$2")
	return untyped != s && secret(untyped)
}

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
	var values values
	for i, s := range raw {
		s = strings.TrimSuffix(s, "\r")
		key = key || strings.Contains(s, "-----BEGIN ") && strings.Contains(s, "PRIVATE KEY")
		if lines[i] = cleanLine(s); values.secret(s) || key {
			lines[i] = sensitive.Redacted
		}
		key = key && !strings.Contains(s, "-----END ")
	}
	return lines
}

// cleanLine returns a line without sensitive data. A literal that a declaration assigns to a name is the value of that
// name, as is the value of an entry with a name.
func cleanLine(s string) string {
	cleaned := sensitive.Clean([]byte(s))
	if strings.Contains(cleaned, ":=") && secret(strings.ReplaceAll(cleaned, ":=", "=")) {
		return sensitive.Redacted
	}
	begin := cleaned[:min(len(cleaned), 4*maxLine)] // the patterns are slow, and no more is shown of a file
	if declared(begin) {
		return sensitive.Redacted
	}
	for _, m := range entry.FindAllStringSubmatch(begin, -1) {
		if sensitive.Named([]byte(m[1]), []byte(m[2])) != sensitive.None {
			return sensitive.Redacted
		}
	}
	return safetext.Printable(cleaned, "\t")
}

func secret(s string) bool { return sensitive.Text([]byte(s)) != sensitive.None }

// assigned reports whether a head with a value has that of a secret.
func assigned(s string) bool { return secret(s) || declared(s) }

var (
	// A line that ends before the value of a name: after the separator, there may be the begin of a YAML block, a
	// parenthesis, a continuation, and a comment.
	missingValue = regexp.MustCompile(`^(.*?[:=])\s*([|>][-+\d]*|[(\\])?(?:\s+(?:#|//|/\*).*)?\s*$`)
	// A line with the begin of a literal of several lines.
	openLiteral = regexp.MustCompile("^(.*?[:=]\\s*)[rRbBfFuU]{0,2}(\"\"\"|'''|`)(.*)$")
	// A line that ends after the first argument of a call: os.Setenv("DB_PASSWORD",
	firstArgument = regexp.MustCompile("\\(\\s*[\"'`]([^\"'`]+)[\"'`],(?:\\s+(?:#|//|/\\*).*)?\\s*$")
	literal       = regexp.MustCompile("^[rRbBfFuU]{0,2}(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`)")
)

// values finds the values of secrets that are on other lines than their names.
type values struct {
	head   string // the name and the separator, if the value is still missing, as Text finds them before the value
	name   []byte // the name, if it is that of an argument, or of an entry of a list
	entry  bool   // it is that of an entry
	parens bool   // the value is in parentheses, and may have several parts
	until  string // ends the literal of several lines that the line is in
	block  bool   // the line is in a YAML block, below a name at the indentation
	indent int
}

// maxHead limits the bytes of a name and what stands before it.
const maxHead = 200

// secret reports whether the next line of a text has the value of a secret that a line before names.
func (v *values) secret(s string) bool {
	trimmed := strings.TrimSpace(s)
	if v.until != "" {
		if strings.Contains(s, v.until) {
			*v = values{}
		}
		return true
	}
	if v.block {
		if trimmed == "" || indentation(s) > v.indent {
			return trimmed != ""
		}
		*v = values{}
	}
	if strings.HasPrefix(trimmed, "/*") {
		_, trimmed, _ = strings.Cut(trimmed, "*/")
		trimmed = strings.TrimSpace(trimmed)
	}
	if trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "//") || strings.HasPrefix(trimmed, "*") {
		return false // the value follows
	}
	was := *v
	*v = values{}
	found := was.head != "" && (assigned(was.head+trimmed) || literal.MatchString(trimmed) && assigned(strings.TrimSuffix(was.head, " ")+trimmed))
	var value string
	if m := entryValue.FindStringSubmatch(s); m != nil {
		value = m[1]
	} else if m := literal.FindStringSubmatch(trimmed); m != nil && !was.entry {
		value = m[1] + m[2] + m[3]
	}
	if was.name != nil && value != "" {
		if strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") {
			v.block, v.indent = sensitive.UnderKey(was.name).Secret(), indentation(s)
			return false
		}
		return sensitive.Named(was.name, []byte(value)) != sensitive.None
	}
	if was.head != "" && (was.parens && strings.Count(s, ")") <= strings.Count(s, "(") || strings.HasSuffix(trimmed, "\\") || strings.HasSuffix(trimmed, "+")) {
		*v = was
		return found
	}
	v.open(s)
	if was.entry && v.head == "" && v.name == nil && v.until == "" && !v.block && !strings.HasPrefix(trimmed, "-") && !strings.HasPrefix(trimmed, "}") {
		v.name, v.entry = was.name, true // the entry has further fields before its value
	}
	return found
}

// open notes the name of a value that is on the next lines.
func (v *values) open(s string) {
	if m := entryName.FindStringSubmatch(s); m != nil {
		v.name, v.entry = []byte(m[1]), true
	} else if m := firstArgument.FindStringSubmatch(s); m != nil {
		v.name = []byte(m[1])
	} else if m := missingValue.FindStringSubmatch(s); m != nil {
		switch m[2] {
		case "":
			v.head = head(m[1]) + " " // password= is an empty value in many formats
		case "(", "\\":
			v.head, v.parens = joined(head(m[1])), m[2] == "("
		default:
			v.block, v.indent = ofSecret(head(m[1])), indentation(s)
		}
	} else if m := openLiteral.FindStringSubmatch(s); m != nil && !strings.Contains(m[3], m[2]) && ofSecret(head(m[1])) {
		v.until = m[2]
	}
}

// sampleSecret is a value that is a secret under each name of one.
const sampleSecret = "x7Kq93fTzmW2"

// ofSecret reports whether a value after a head is one of a secret.
func ofSecret(head string) bool {
	return secret(joined(head)+sampleSecret) || declared(joined(head)+`"`+sampleSecret+`"`)
}

// head returns the end of what stands before a value, with "=" for ":=".
func head(s string) string {
	s = strings.TrimSpace(s)
	return strings.ReplaceAll(s[max(0, len(s)-maxHead):], ":=", "=")
}

// joined returns a head that a value follows.
func joined(head string) string {
	if strings.HasSuffix(head, "=") {
		return head
	}
	return head + " "
}

// indentation returns the column of the first name of a line of YAML.
func indentation(s string) int { return len(s) - len(strings.TrimLeft(s, " \t-")) }

// splitLines returns the lines of a text with their ends.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}
