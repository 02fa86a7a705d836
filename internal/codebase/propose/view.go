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

// cleanLine returns a line without sensitive data. A literal that Go assigns to a name is the value of that name.
func cleanLine(s string) string {
	cleaned := sensitive.Clean([]byte(s))
	if strings.Contains(cleaned, ":=") && secret(strings.ReplaceAll(cleaned, ":=", "=")) {
		return sensitive.Redacted
	}
	return safetext.Printable(cleaned, "\t")
}

func secret(s string) bool { return sensitive.Text([]byte(s)) != sensitive.None }

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
	name   []byte // the name, if it is that of an argument, or of an entry of a YAML list
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
	found := was.head != "" && (secret(was.head+trimmed) || literal.MatchString(trimmed) && secret(strings.TrimSuffix(was.head, " ")+trimmed))
	var value string
	if m := yamlValue.FindStringSubmatch(s); m != nil {
		value = m[1]
	} else if m := literal.FindStringSubmatch(trimmed); m != nil {
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
	return found
}

// open notes the name of a value that is on the next lines.
func (v *values) open(s string) {
	if m := yamlName.FindStringSubmatch(s); m != nil {
		v.name = []byte(m[1])
	} else if m := firstArgument.FindStringSubmatch(s); m != nil {
		v.name = []byte(m[1])
	} else if m := missingValue.FindStringSubmatch(s); m != nil {
		switch m[2] {
		case "":
			v.head = head(m[1]) + " " // password= is an empty value in many formats
		case "(", "\\":
			v.head, v.parens = joined(head(m[1])), m[2] == "("
		default:
			v.block, v.indent = secret(joined(head(m[1]))+sampleSecret), indentation(s)
		}
	} else if m := openLiteral.FindStringSubmatch(s); m != nil && !strings.Contains(m[3], m[2]) && secret(joined(head(m[1]))+sampleSecret) {
		v.until = m[2]
	}
}

// sampleSecret is a value that is a secret under each name of one.
const sampleSecret = "x7Kq93fTzmW2"

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
