// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/internal/rules/semconv"
	"assay/internal/rules/sensitive"
)

// Limits of a name that is shown.
const (
	maxName    = 80 // bytes
	maxWords   = 12
	maxLetters = 24 // of one word
)

// notShown describes a name in the place of it.
func notShown(reason string) string { return "(not shown: " + reason + ")" }

// part returns the form of an attribute value for the document, for an attribute that names something, such as a part
// of a service's key. It returns "" for an absent value. Numbers are kept.
func part(key, v string) string {
	if v == "" {
		return ""
	}
	if sensitive.Named([]byte(key), []byte(v)) != sensitive.None {
		return notShown("sensitive data")
	}
	return shownName(v, unfitName, token)
}

// maxRun limits a run of letters and digits in a part that is not a word.
const maxRun = 16

func token(run string, _ bool) bool { return len(run) > maxRun && id(run) }

var versionShape = regexp.MustCompile(`^v?[0-9][0-9A-Za-z.+_-]{0,31}$`)

// versionPart is part for a version, which may contain more characters than a name and significant digits.
func versionPart(key, v string) string {
	if versionShape.MatchString(v) && sensitive.Named([]byte(key), []byte(v)) == sensitive.None && reads(v) == "" {
		return withoutIDs(v, token)
	}
	return part(key, v)
}

// name returns the form of a name from telemetry for the document: the name, with ids replaced, if it has the form of
// an identifier, contains nothing sensitive and does not read like prose. Otherwise it returns a description.
func name(v string) string { return shownName(v, unfitName, variable) }

// spanName is name for the name of a span, which may have an operation before or after
// a target: GET /users/{id}, orders receive.
func spanName(v string) string { return shownName(v, unfitSpan, variable) }

// unit is name for the unit of a metric, which may contain characters that names do not.
func unit(v string) string {
	return shownName(v, unfitUnit, func(string, bool) bool { return false })
}

func shownName(v string, unfit func(string) string, variable func(run string, segment bool) bool) string {
	if v == "" {
		return "(empty)"
	}
	if _, ok := semconv.Lookup([]byte(v)); ok {
		return v
	}
	if sensitive.Named(nil, []byte(v)) != sensitive.None {
		return notShown("sensitive data")
	}
	length := utf8.RuneCountInString(v)
	v = strings.ReplaceAll(v, sensitive.Redacted, "{redacted}")
	if reason := unfit(v); reason != "" {
		return notShown(fmt.Sprintf("%s, %d characters", reason, length))
	}
	return withoutIDs(v, variable)
}

// unfitName returns the reason why a name is not shown, or "" if it is shown.
func unfitName(v string) string {
	if len(v) > maxName {
		return "a long name"
	}
	if strings.Contains(v, "//") {
		return "a URL"
	}
	for i := range len(v) {
		switch c := v[i]; {
		case isAlnum(c), strings.IndexByte("._/:{}*$-", c) >= 0:
		case c == ' ' || c == '\t' || c == '\n':
			return "a name with spaces"
		default:
			return "a name with other characters"
		}
	}
	return reads(v)
}

func unfitSpan(v string) string {
	if operation(v) {
		v = strings.Replace(v, " ", "_", 1)
	}
	return unfitName(v)
}

var unitShape = regexp.MustCompile(`^[A-Za-z0-9{}/.*%_-]{1,24}$`)

func unfitUnit(v string) string {
	if !unitShape.MatchString(v) {
		return "no unit"
	}
	return reads(v)
}

// operations are the words before or after the target of a span: HTTP methods, SQL and
// key-value commands, and messaging operations.
var operations = words(`GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE QUERY HTTP _OTHER
	SELECT INSERT UPDATE UPSERT MERGE CALL CREATE DROP ALTER TRUNCATE COMMIT ROLLBACK BEGIN
	SET HGET HSET HGETALL MGET MSET DEL INCR EXPIRE LPUSH RPUSH LPOP RPOP ZADD EXISTS EVAL
	find insert update delete aggregate count distinct findAndModify
	send publish receive process create settle consume poll ack deliver subscribe request response query connect`)

// operation reports whether v is two words, one of them an operation.
func operation(v string) bool {
	a, b, ok := strings.Cut(v, " ")
	return ok && a != "" && b != "" && !strings.ContainsAny(b, " \t\n") && (operations[a] || operations[b])
}

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// Words that distinguish a sentence from a name. A name with a word of commands, or
// with more than maxProse words of prose, is not shown. A false positive costs little.
// The lists need not be complete: the prompt says that the strings are data, and the
// answer is not trusted.
var (
	// commands are prefixes of words. "instrument" is not one of them.
	commands = []string{
		"ignor", "disregard", "instruct", "instruc", "instruk", "instruz", "istruz", "anweis", "vergiss", "jailbreak", "pretend",
		"roleplay", "exfil", "imstart", "imend", "endoftext", "sysprompt", "oublie", "olvid", "dimentic", "vorherig",
	}
	// prose are words of sentences and of chats with a model.
	prose = words(`a an the this that these those and but not no do does dont is are was be been am
		i me my you your yours we our us it its they them he she who what how why
		please must should shall will would can could now never always only instead also then
		say tell speak talk reply respond answer repeat print output write show reveal disclose translate summarize
		previous prior above below following everything anything nothing all any every
		forget override bypass hack hacked pwned prompt prompts rules rule system assistant human developer admin role act persona told
		with from into as of if
		bitte alle alles und oder der die das den dem ist sind nicht kein du bist jetzt sag sage antworte ab sofort
		les toutes tous tout et est vous tu maintenant dis reponds ne pas
		las los todas todos todo eres ahora di responde por favor y el la
		ignorez ignora tutte tutti sei adesso rispondi agora voce`)
	// speakers mark a turn of a conversation when a colon follows.
	speakers = words(`system user human assistant developer ai bot model tool inst sys`)
)

// maxProse is the maximum number of words of prose in a name.
const maxProse = 1

// reads describes an ASCII text that does not read like a name. Otherwise it returns "".
func reads(v string) string {
	const text = "a name that reads like text"
	all, said := 0, 0
	for i := 0; i < len(v); {
		if !isAlnum(v[i]) {
			i++
			continue
		}
		end := i
		for end < len(v) && isAlnum(v[end]) {
			end++
		}
		run := v[i:end]
		if commanding(run) {
			return text
		}
		if end < len(v) && v[end] == ':' && speakers[strings.ToLower(run)] {
			return text
		}
		for _, w := range camelWords(run) {
			all++
			if len(w) > maxLetters && !id(run) {
				return text
			}
			if prose[strings.ToLower(w)] {
				said++
			}
		}
		i = end
	}
	if all > maxWords || said > maxProse || commanding(spelled(v)) {
		return text
	}
	return ""
}

// commanding reports whether a command begins a word of v or occurs anywhere in a long one. It ignores case, and also
// checks the reversed text and digits in place of letters.
func commanding(run string) bool {
	if len(run) < 5 {
		return false
	}
	lower := strings.ToLower(run)
	backwards := []byte(lower)
	slices.Reverse(backwards)
	for _, w := range []string{lower, unleet.Replace(lower), string(backwards)} {
		for _, c := range commands {
			if at := strings.Index(w, c); at == 0 || at > 0 && len(c) > 7 {
				return true
			}
		}
		if strings.Contains(w, "ignore") {
			return true
		}
	}
	return false
}

var unleet = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t")

// spelled returns the letters of a name that consists mostly of single letters.
func spelled(v string) string {
	runs := strings.FieldsFunc(v, func(r rune) bool { return r >= utf8.RuneSelf || !isAlnum(byte(r)) })
	letters := strings.Join(runs, "")
	if len(runs) < 4 || len(letters) > 2*len(runs) {
		return ""
	}
	return letters
}

// camelWords splits a run of letters and digits at changes of case: HTTPServer2 becomes
// HTTP and Server2.
func camelWords(run string) []string {
	var all []string
	start := 0
	for i := 1; i < len(run); i++ {
		upper := isUpper(run[i])
		if upper && (!isUpper(run[i-1]) || i+1 < len(run) && isLower(run[i+1])) {
			all = append(all, run[start:i])
			start = i
		}
	}
	return append(all, run[start:])
}

var uuidShape = regexp.MustCompile(`[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`)

// withoutIDs replaces UUIDs and variable runs of letters and digits in a name by a
// placeholder. segment reports whether a run is a segment of a path.
func withoutIDs(v string, variable func(run string, segment bool) bool) string {
	v = uuidShape.ReplaceAllLiteralString(v, "{id}")
	var b strings.Builder
	for i := 0; i < len(v); {
		if !isAlnum(v[i]) {
			b.WriteByte(v[i])
			i++
			continue
		}
		end := i
		for end < len(v) && isAlnum(v[end]) {
			end++
		}
		run := v[i:end]
		segment := i > 0 && v[i-1] == '/' && (end == len(v) || v[end] == '/')
		if variable(run, segment) {
			run = "{id}"
		}
		b.WriteString(run)
		i = end
	}
	return b.String()
}

// variable reports whether a run identifies one user, order or build: a long number, any number that is a path
// segment, a hash, or a token.
func variable(run string, segment bool) bool {
	return id(run) || segment && digits(run) == len(run)
}

// id reports whether a run of letters and digits is not a word: a long number, a hash, or a token.
func id(run string) bool {
	n, changes := digits(run), 0
	if n == len(run) {
		return n > 3
	}
	for i := 1; i < len(run); i++ {
		if isUpper(run[i]) != isUpper(run[i-1]) {
			changes++
		}
	}
	return len(run) >= 8 && n >= 2 && hexadecimal(run) || len(run) >= 12 && n >= 4 || len(run) >= 16 && 3*(changes+n) > len(run)
}

func digits(run string) int {
	n := 0
	for i := range len(run) {
		if run[i] <= '9' {
			n++
		}
	}
	return n
}

func hexadecimal(run string) bool {
	return strings.Trim(run, "0123456789abcdefABCDEF") == ""
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isAlnum(c byte) bool { return isUpper(c) || isLower(c) || c >= '0' && c <= '9' }

// plain returns s as valid UTF-8 without characters that control, hide or reorder text:
// control and format characters except newlines and tabs, private-use and unassigned
// characters, variation selectors and invisible fillers. Every space becomes U+0020.
func plain(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r', r == '\u2028', r == '\u2029', r == '\u0085', r == '\v', r == '\f':
			return '\n'
		case unicode.Is(unicode.Zs, r):
			return ' '
		case unicode.In(r, unicode.Variation_Selector, invisible), !unicode.IsGraphic(r):
			return -1
		default:
			return r
		}
	}, s)
}

// invisible are letters and symbols without a glyph: Hangul fillers, the combining
// grapheme joiner, Khmer inherent vowels, the Braille blank.
var invisible = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x034f, Hi: 0x034f, Stride: 1},
	{Lo: 0x115f, Hi: 0x1160, Stride: 1},
	{Lo: 0x17b4, Hi: 0x17b5, Stride: 1},
	{Lo: 0x2800, Hi: 0x2800, Stride: 1},
	{Lo: 0x3164, Hi: 0x3164, Stride: 1},
	{Lo: 0xffa0, Hi: 0xffa0, Stride: 1},
}}
