// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"regexp"
	"strings"

	"assay/internal/rules/sensitive"
	"assay/internal/safetext"
)

// cleanText returns a text without sensitive data and invisible characters.
func cleanText(s string) string { return strings.Join(cleanLines(strings.Split(s, "\n")), "\n") }

// cleanLines returns the lines of a text without sensitive data and invisible characters.
func cleanLines(raw []string) []string {
	lines := make([]string, len(raw))
	var key privateKey
	var values values
	value, valueAt := "", -1 // of an entry whose name has not come yet
	for i, s := range raw {
		s = strings.TrimSuffix(s, "\r")
		inKey := key.has(s)
		if lines[i] = cleanLine(s); values.secret(s) || inKey {
			lines[i] = sensitive.Redacted
		}
		if key.ended { // a key whose begin is missing
			for j := i - 1; j >= 0 && lines[j] != sensitive.Redacted && encoded.MatchString(raw[j]); j-- {
				lines[j] = sensitive.Redacted
			}
		}
		if strings.HasPrefix(strings.TrimSpace(s), "-") { // the next entry
			valueAt = -1
		}
		if m := entryName.FindStringSubmatch(s); m != nil && valueAt >= 0 && named(m[1], value) {
			lines[valueAt] = sensitive.Redacted
		}
		if m := entryValue.FindStringSubmatch(s); m != nil {
			value, valueAt = m[1], i
		}
	}
	return lines
}

// encoded matches a line of Base64, perhaps in a literal, or of a header of a key.
var encoded = regexp.MustCompile(`^[\s"'` + "`" + `+]*(?:[\w+/=\\-]+|[\w-]+: .*)?["'` + "`" + `,+;)\s\\]*$`)

// privateKey finds the lines of private keys.
type privateKey struct {
	inside bool
	ended  bool // the line ends a key that had no begin
}

// has reports whether the next line of a text belongs to a private key.
func (k *privateKey) has(s string) bool {
	was := k.inside && (encoded.MatchString(s) || strings.Contains(s, "-----END "))
	begin, end := strings.LastIndex(s, "-----BEGIN "), strings.LastIndex(s, "-----END ")
	begins := begin >= 0 && strings.Contains(s[begin:], "PRIVATE KEY") || strings.HasPrefix(s, "Private-Lines:")
	ends := end >= 0 && end > begin || strings.HasPrefix(s, "Private-MAC:")
	k.ended = ends && !was && !begins && end >= 0 && strings.Contains(s[end:], "PRIVATE KEY")
	k.inside = (was || begins) && !ends
	return was || begins || k.ended
}

// The lines of an entry of a list in YAML or JSON that has a name and a value.
var (
	entryName  = regexp.MustCompile(`^[\s{-]*["']?(?i:name|key)["']?\s*:\s*["']?([^"'#]+?)["']?\s*[},]*\s*(?:#.*)?$`)
	entryValue = regexp.MustCompile(`^[\s{-]*["']?(?i:value)["']?\s*:\s*["']?(.*?)["']?\s*[},]*\s*$`)
)

// pairs match a name and its value in one line. Each has alternatives with two groups.
var pairs = []*regexp.Regexp{
	// The first arguments of a call, such as os.Setenv("DB_PASSWORD", "..."), and the attributes name and value.
	regexp.MustCompile("[\"'`]([^\"'`\\s]{1,100})[\"'`]\\s*,\\s*[rbfuRBFU]{0,2}[\"'`]([^\"'`]+)|" +
		`\b(?i:name|key)["']?\s*[:=]\s*["']?([^"'#,<>]{1,100}?)["']?[\s,]\s*["']?(?i:value)["']?\s*[:=]\s*["']?([^"'},<>]+)`),
	// A method with the name: password("..."). An element: <password>...</password>. A default: ${DB_PASSWORD:-...}
	regexp.MustCompile("\\b([\\w$]{1,100})\\(\\s*[rbfuRBFU]{0,2}[\"'`]([^\"'`\\s]+)[\"'`]|<([\\w.:-]{1,100})(?:\\s[^<>]*)?>([^<>]+)</|\\$\\{([\\w.-]{1,100}):-?([^{}]+)\\}"),
	// An assignment whose last operand or argument is a literal: password = input or "..."
	regexp.MustCompile("([\\w.$-]{1,100})[\"']?\\s*:?[=:][^=].*(?:\\bor\\s|\\|\\||\\?\\?|[?:,]|(?i:else|default|or)\\w*\\()\\s*[rbfuRBFU]{0,2}[\"'`]([^\"'`]+)[\"'`]\\)*[;,]?\\s*$|" +
		`^\s*(?:ENV|ARG)\s+(\w{1,100})\s+(\S.*)$`),
}

var (
	// A name with its type before a literal: password string = "...", password: Optional[str] = "...".
	typed = regexp.MustCompile("([\\w$]+)(?:\\s*\\??:\\s*[^=;:\"'`]{1,80}|\\s+[\\w$.*\\[\\]]+\\s*)=(\\s*[\"'`]|\\s*$)")
	// A literal after one that was taken out.
	rest = regexp.MustCompile("\\[redacted\\][\"'`]?\\s*[+.]?\\s*\\\\?\\s*[\"'`]\\w")
)

// plainName matches a value that is the name of another secret, as in a list of names.
var plainName = regexp.MustCompile(`^(?i:password|passwd|token|secret|api[_-]?key|authorization)$`)

// named reports whether a value is that of a secret with this name.
func named(name, value string) bool {
	return sensitive.Named([]byte(name), []byte(value)) != sensitive.None && !plainName.MatchString(value)
}

// patterned is the number of bytes of a line in which patterns are searched, which takes longer than Clean.
const patterned = 4 * maxLine

// cleanLine returns a line without sensitive data. A literal that a declaration assigns to a name is the value of that
// name, as is the value of an entry with a name.
func cleanLine(s string) string {
	cleaned := sensitive.Clean([]byte(s))
	begin := cleaned[:min(len(cleaned), patterned)]
	if strings.Contains(cleaned, ":=") && secret(strings.ReplaceAll(cleaned, ":=", "=")) || declared(begin) || rest.MatchString(begin) {
		return sensitive.Redacted
	}
	for _, pattern := range pairs {
		for _, m := range pattern.FindAllStringSubmatch(begin, -1) {
			for i := 1; i < len(m); i += 2 {
				if m[i] != "" && named(m[i], m[i+1]) {
					return sensitive.Redacted
				}
			}
		}
	}
	return safetext.Printable(cleaned, "\t")
}

func secret(s string) bool { return sensitive.Text([]byte(s)) != sensitive.None }

// declared reports whether a declaration with a type has the value of a secret.
func declared(s string) bool {
	untyped := typed.ReplaceAllString(s, "$1 =$2")
	return untyped != s && secret(untyped)
}

// assigned reports whether a head with a value has that of a secret.
func assigned(s string) bool { return secret(s) || declared(s) }

var (
	// A line that ends before the value of a name: after the separator, there may be the begin of a YAML block, a
	// bracket, a continuation, and a comment.
	missingValue = regexp.MustCompile(`^(.*?[:=])\s*(?:[!&][\w/.!-]*\s*)?([|>][-+\d]*|[[(\\])?(?:\s+(?:#|//|/\*).*)?\s*$`)
	// A line with the first part of a value.
	partOfValue = regexp.MustCompile("^(.*?[:=]\\s*)[rRbBfFuU]{0,2}(?:\"[^\"]*\"|'[^']*'|`[^`]*`)\\s*[+.]?\\s*[+.\\\\]$")
	// A line with the begin of a literal of several lines.
	openLiteral = regexp.MustCompile("^(.*?[:=]\\s*)(?:[\\w.]*\\()*[rRbBfFuU]{0,2}(\"\"\"|'''|`)(.*)$")
	// A line that ends after the first argument of a call: os.Setenv("DB_PASSWORD",
	firstArgument = regexp.MustCompile("\\(\\s*[\"'`]([^\"'`]+)[\"'`],(?:\\s+(?:#|//|/\\*).*)?\\s*$")
	lastLiteral   = regexp.MustCompile(`["']([^"']+)["'],$`)
	// A line that ends before the last operand or argument of a value.
	moreOperands = regexp.MustCompile(`^(.*?[:=])[^=].*(?:\|\||\?\?|\bor|[(,?:])$`)
	argument     = regexp.MustCompile("^[\"'`]([^\"'`]+)[\"'`],(?:\\s+(?:#|//|/\\*).*)?$")
	literal      = regexp.MustCompile("^[rRbBfFuU]{0,2}(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`)")
)

// values finds the values of secrets that are on other lines than their names.
type values struct {
	head   string // the name and the separator, if the value is still missing, as Text finds them before the value
	name   []byte // the name, if it is that of an argument, or of an entry of a list
	entry  bool   // it is that of an entry
	flag   bool   // the line before is the flag of a secret, in a list of arguments
	more   bool   // the value has more operands or arguments
	called bool   // the arguments of a call begin on the next line
	closes string // ends the brackets around the value, which may have several parts
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
	if was.entry && strings.HasPrefix(trimmed, "-") { // the next entry
		was = values{}
	}
	if m := argument.FindStringSubmatch(trimmed); m != nil && was.called {
		*v = values{head: was.head, more: was.more, name: []byte(m[1])}
		return false
	}
	trimmed = strings.TrimPrefix(trimmed, "- ")
	element := strings.Trim(trimmed, "\"',[]")
	if m := lastLiteral.FindStringSubmatch(trimmed); m != nil {
		element = m[1]
	}
	if was.flag {
		return element != ""
	}
	if v.flag = sensitive.Flag([]byte(element)); v.flag {
		return false
	}
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
		return found || named(string(was.name), value)
	}
	if m := entryValue.FindStringSubmatch(s); m != nil && strings.HasSuffix(was.head, ": ") && m[1] != "" && ofSecret(was.head) {
		return true
	}
	if was.more && moreOperands.MatchString("x="+trimmed) {
		*v = was
		return found
	}
	item := strings.HasSuffix(was.head, ": ") && strings.HasPrefix(strings.TrimSpace(s), "- ") && ofSecret(was.head)
	if was.head != "" && (was.closes != "" && !closed(s, was.closes) || item || strings.HasSuffix(trimmed, "\\") || strings.HasSuffix(trimmed, "+")) {
		*v = was
		return found
	}
	found = v.open(s) || found
	if was.entry && v.head == "" && v.name == nil && v.until == "" && !v.block && !strings.HasPrefix(trimmed, "}") {
		v.name, v.entry = was.name, true // the entry has further fields before its value
	}
	return found
}

// open notes the name of a value that is on the next lines. It reports whether the line has the begin of the value.
func (v *values) open(s string) bool {
	if m := entryName.FindStringSubmatch(s); m != nil {
		v.name, v.entry = []byte(m[1]), true
	} else if m := firstArgument.FindStringSubmatch(s); m != nil {
		v.name = []byte(m[1])
	} else if m := missingValue.FindStringSubmatch(s); m != nil {
		switch m[2] {
		case "":
			v.head = head(m[1]) + " " // password= is an empty value in many formats
		case "(", "[", "\\":
			v.head, v.closes = joined(head(m[1])), map[string]string{"(": ")", "[": "]"}[m[2]]
		default:
			v.block, v.indent = ofSecret(head(m[1])), indentation(s)
		}
	} else if m := openLiteral.FindStringSubmatch(s); m != nil && !strings.Contains(m[3], m[2]) && ofSecret(head(m[1])) {
		v.until = m[2]
		return strings.TrimSpace(m[3]) != ""
	} else if m := partOfValue.FindStringSubmatch(strings.TrimSpace(s)); m != nil {
		v.head = joined(head(m[1]))
	} else {
		trimmed := strings.TrimSpace(s)
		v.called = strings.HasSuffix(trimmed, "(")
		if m := moreOperands.FindStringSubmatch(trimmed); m != nil && ofSecret(head(m[1])) {
			v.head, v.more = joined(head(m[1])), true
		}
	}
	return false
}

// closed reports whether a line closes a bracket that it has not opened.
func closed(s, closes string) bool {
	opens, depth := map[string]byte{")": '(', "]": '['}[closes], 0
	for i := range len(s) {
		switch s[i] {
		case opens:
			depth++
		case closes[0]:
			if depth--; depth < 0 {
				return true
			}
		}
	}
	return false
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
