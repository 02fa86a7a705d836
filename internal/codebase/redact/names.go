// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"regexp"
	"strings"

	"assay/internal/rules/sensitive"
)

// redactor finds the lines of a text that may contain the value of a secret. It reads the text once, as words, literals
// and brackets, without knowing its language. The name of a secret covers
//
//   - its line, unless it is the key of an item: password == "...", user, password = "...", "..."
//   - the rest of the statement, or of the item in a group: password: f("..."),
//   - the whole group in which it is a value: ("password", "..."), name: DB_PASSWORD
//   - the child nodes in YAML or XML
//
// including the groups that open in the covered part, except function bodies. A covered line with a value is hidden.
type redactor struct {
	hidden []bool          // by line
	names  map[string]bool // results of isName by word
	frames []frame         // the open groups, innermost last
	counts [256]int        // open groups by the byte that opens them
	values []int           // lines with a value in the open groups; a name in their group hides them
	nested bool            // the text is a literal of one line
	prose  bool            // the text is a comment: a name counts only before a separator, a comparison or a bracket
	inner  *redactor       // for comments and literals of several lines

	terminator   string         // end of the open literal of several lines; empty if none is open
	heredoc      bool           // the terminator stands alone in its line
	covers       bool           // the open literal is the value of a secret
	limit        int            // last line of the open literal if its terminator is missing
	secretColumn int            // column of the YAML key of a secret whose value is still open, or -1
	pendingFlag  int            // 1: the value of a flag may be in the next line, 2: in the list item that has begun
	more         bool           // the statement continues in the next line
	slash        bool           // the line before ends with a backslash
	section      bool           // in a section of an INI file that is named after secrets
	start        bool           // the next line may begin with the key of an item
	elements     map[string]int // open elements by name

	// State of the current line.
	n            int
	named, value bool   // it has the name of a secret, a value
	isSwitch     bool   // it begins a switch
	fresh        bool   // the next token may be the key of an item
	flag         bool   // the last word is a flag
	key          string // last key, also of an earlier line
	end          int    // offset of the comment at the end, or the length of the line
	keyword      int    // result of beginsBody: 0 unknown, 1 false, 2 true
	setter       int    // whether it begins with a command such as ENV or export: 0 unknown, 1 false, 2 true
	unclosed     [256]bool
}

// frame is a group: brackets, a tag, an element, a YAML mapping, or a body. The first frame is the text.
type frame struct {
	open         byte   // one of ([{, < for a tag, x for an element, : for a mapping, 0 for a body or the text
	name         string // name of the element, or last key of the mapping
	col          int    // column of the mapping
	mappingCol   int    // column of the innermost mapping, including the frame itself, or -1
	firstValue   int    // index of its first line in redactor.values
	covered      bool   // an enclosing name covers it
	coveredUntil int    // last line covered by a name in the group
	seg          int    // 1: a name covers the rest of the statement or item, 2: the name is its key
	named        bool   // it has a name that is not a key
	several      bool   // it has several items
	switchBody   bool   // it is the body of a switch on a secret
	unquoted     bool   // it may have values without quotes
}

const (
	entryLines   = 20  // lines before and after a name that it covers in its group
	literalLines = 100 // maximum lines of a literal that is the value of a secret
)

func newRedactor(hidden []bool) *redactor {
	return &redactor{
		hidden: hidden, names: map[string]bool{}, elements: map[string]int{},
		frames: []frame{{coveredUntil: -1, mappingCol: -1}}, secretColumn: -1, start: true,
	}
}

func (r *redactor) top() *frame { return &r.frames[len(r.frames)-1] }

func (r *redactor) covered() bool {
	f := r.top()
	return f.covered || f.seg > 0 || r.n <= f.coveredUntil || r.section
}

func (r *redactor) inBrackets() bool {
	return r.counts['(']+r.counts['[']+r.counts['{']+r.counts[0]+r.counts['<'] > 0
}

func (f *frame) brackets() bool { return f.open != 0 && f.open != ':' && f.open != 'x' }

// push opens a group.
func (r *redactor) push(f frame) {
	f.covered = f.open != 0 && r.covered()
	if f.open != 'x' {
		f.name = r.key
	}
	if f.mappingCol = r.top().mappingCol; f.open == ':' {
		f.mappingCol = f.col
	}
	f.firstValue, f.coveredUntil, f.switchBody = len(r.values), -1, f.open == 0 && r.named && r.isSwitch
	r.frames = append(r.frames, f)
	r.counts[f.open]++
}

// pop closes the innermost group.
func (r *redactor) pop() {
	f := *r.top()
	r.frames = r.frames[:len(r.frames)-1]
	r.counts[f.open]--
	if f.open == 'x' {
		r.elements[f.name]--
	}
	switch {
	case f.open == 0:
		r.values = r.values[:min(f.firstValue, len(r.values))]
	case (f.open == '(' || f.open == '[') && f.named && !f.several: // os.Getenv("DB_PASSWORD"), m["password"]
		if r.addName(false); f.coveredUntil >= 0 {
			r.top().seg = 2
		}
	}
}

// close closes the innermost group that open opens, with all groups in it.
func (r *redactor) close(open byte) {
	if open == '{' && r.counts[0] > 0 && (r.counts['{'] == 0 || r.body()) {
		open = 0
	}
	if r.counts[open] == 0 {
		return
	}
	for last := false; !last; {
		last = r.top().open == open
		r.pop()
	}
}

// body reports whether the innermost braces enclose a body.
func (r *redactor) body() bool {
	for i := len(r.frames) - 1; i > 0; i-- {
		if o := r.frames[i].open; o == 0 || o == '{' {
			return o == 0
		}
	}
	return false
}

// addValue records that the line has a value, and hides the line if a name covers it.
func (r *redactor) addValue() {
	if r.covered() {
		r.hidden[r.n] = true
	} else if k := len(r.values); k == 0 || r.values[k-1] != r.n || k <= r.top().firstValue {
		r.values = append(r.values, r.n)
	}
}

// addName records the name of a secret, which may be the key of an item. It covers the rest of the statement or item.
func (r *redactor) addName(key bool) {
	f := r.top()
	if key {
		f.seg, r.named = 2, r.named || !f.brackets()
		return
	}
	f.seg, f.named, r.named = max(f.seg, 1), true, true
}

// addEntry records a name that is a value of a group: it covers the whole group.
func (r *redactor) addEntry(f *frame) {
	r.named, f.named = true, true
	if f.open == 0 {
		f.seg = max(f.seg, 1)
	} else {
		f.coveredUntil = r.n + entryLines
	}
	at := min(f.firstValue, len(r.values)) // a name in an enclosing group may have removed values
	for _, n := range r.values[at:] {
		if n >= r.n-entryLines {
			r.hidden[n] = true
		}
	}
	r.values = r.values[:at]
}

// addScalar records a value of group f, without quotes or of YAML. The value may be a name.
func (r *redactor) addScalar(f *frame, s string) {
	name := r.isName(s)
	if name {
		r.addEntry(f)
	}
	if !name || r.isValue(s) {
		r.addValue()
	}
}

// isName reports whether a word or literal is the name of a secret.
func (r *redactor) isName(word string) bool {
	word = strings.TrimRight(word, ":= ")
	if len(word) < 2 || len(word) > 200 || !keyLike.MatchString(word) {
		return false
	}
	known, ok := r.names[word]
	if !ok {
		known = sensitive.MayName(word)
		r.names[word] = known
	}
	return known
}

var (
	keyLike = regexp.MustCompile(`^[\w.$-]+$`)
	// A verb or a placeholder of a format string.
	formatVerb = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]|%\(\w+\)s|[$#]?\{+[^{}]*\}+`)
	// A word of natural language.
	plainWord = regexp.MustCompile(`^[\p{L}\d.,:;!?()'"/_%-]*$`)
	oneWord   = regexp.MustCompile(`^[A-Za-z]?[a-z]{1,11}$`) // a message of one word, such as "missing"
	digits    = regexp.MustCompile(`\d`)
	pathLike  = regexp.MustCompile(`^(?:[~.@]*/|[a-z-]+/)(?:[a-zA-Z._:*-]|/|v\d|\{\w+\})*$`)
	// A literal that contains flags, or literals of JSON or code, such as in the placeholders of a template.
	codeLike  = regexp.MustCompile(`--[a-z]|[=(\[{:,]\s*\\?["']|\{[^{}"'\x60]*["'\x60]`)
	flagLike  = regexp.MustCompile(`^--[a-z-]+$`)
	structTag = regexp.MustCompile(`^\w+:"`)
	tagValue  = regexp.MustCompile(`"([^",]*)`)
	pair      = regexp.MustCompile(`([\w.$-]+)["']?(?::=|\s?[=:]\s?)["']?([^\s"',;&=:]{4,})`)
)

// MayBeValue reports whether a literal may be the value of a secret, if the code around it has the name of one.
func MayBeValue(literal string) bool { return newRedactor(nil).isValue(literal) }

// isValue reports whether a literal may be the value of a secret, rather than a message, a path or a name.
func (r *redactor) isValue(s string) bool {
	s = strings.TrimSpace(formatVerb.ReplaceAllString(s, " "))
	if len(s) < 4 || pathLike.MatchString(s) || flagLike.MatchString(s) ||
		(r.isName(s) || len(s) <= 200 && sensitive.PublicName(s)) && (!digits.MatchString(s) || strings.ToUpper(s) == s) {
		return false
	}
	words := 0
	for w := range strings.FieldsSeq(s) {
		if words++; !plainWord.MatchString(w) || digits.MatchString(w) && strings.ContainsFunc(w, isLetter) {
			words = -1
			break
		}
	}
	return words < 2 && sensitive.Named([]byte("authorization"), []byte(s)) != sensitive.None
}

func isLetter(c rune) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isKey reports whether a key in group f is the name of a secret. The name of the group qualifies the key "key", as in
// api: {key: "..."}.
func (r *redactor) isKey(f *frame, key string) bool {
	return r.isName(key) || strings.EqualFold(key, "key") && r.isName(f.name+"_key")
}

// settingName returns the name of a setting without its path: the last word of Db:Password, or of /prod/db/password if
// its key is "name" or "key".
func settingName(key, s string) string {
	if sectionedName.MatchString(s) || strings.HasPrefix(s, "/") && nameKey.MatchString(key) {
		return s[strings.LastIndexAny(s, "/:")+1:]
	}
	return s
}

// literal reads the literal s, whose setting is name. It may be a key or a name, and may contain both names and values.
func (r *redactor) literal(s, name string, keyed bool) {
	switch {
	case keyed && r.isKey(r.top(), name):
		r.addName(true)
	case r.isName(name) && r.top().open == ':':
		r.addName(false)
	case r.isName(name):
		r.addEntry(r.top())
	}
	if structTag.MatchString(s) {
		named, value := false, false
		for _, m := range tagValue.FindAllStringSubmatch(s, -1) {
			named, value = named || r.isName(m[1]), value || r.isValue(m[1])
		}
		if r.value = r.value || value; value {
			r.addValue()
		}
		r.hidden[r.n] = r.hidden[r.n] || named && value
		return
	}
	for _, m := range pair.FindAllStringSubmatch(strings.ReplaceAll(s, `\"`, `"`), -1) { // x-api-key=...
		if r.isName(m[1]) && secret("password="+m[2]) {
			r.hidden[r.n] = true
		}
	}
	if !r.nested && codeLike.MatchString(s) {
		r.embedded(strings.ReplaceAll(s, `\"`, `"`))
	}
	if keyed || !r.isValue(name) || oneWord.MatchString(strings.TrimSpace(formatVerb.ReplaceAllString(s, " "))) && !r.covered() {
		return
	}
	r.value = true
	r.addValue()
}

// maxPlaceholder is the maximum number of bytes that are read as a placeholder in a literal.
const maxPlaceholder = 512

// embedded reads the code in a literal, and hides the line if the code contains the value of a secret.
func (r *redactor) embedded(s string) {
	code := newRedactor(r.hidden)
	code.nested, code.names = true, r.names
	code.line(r.n, s)
}

// secret reports whether the detector finds sensitive data in a text.
func secret(s string) bool { return sensitive.Text([]byte(s)) != sensitive.None }

var (
	// A YAML key, and its value without tags, anchors and comment.
	yamlKey = regexp.MustCompile(`^[\s?-]*["']?([\w.$/-]+)["']?\s*:(?:\s+(?:[!&][^\s]*\s*)*(.*?)\s*(?:\s#.*)?)?$`)
	comment = regexp.MustCompile(`^\s*(?:#(?:\s|$)|//|/\*|\*(?:\s|/|$)|--\s|"""|''')[\s*/#]*`)
	// Keywords at the start of a statement with a body, and keywords that stand alone before a body.
	bodyKeyword = regexp.MustCompile(`^\W*(?:(?:public|private|protected|static|final|abstract|export|default|async|override|` +
		`internal|open|data|pub)\s+)*(?:func|function|class|interface|struct|enum|impl|trait|namespace|module|mod|fn|fun|` +
		`def|type|if|elif|else|except|with|for|while|switch|select|try|catch|finally|do|match|static|go|defer|case)\b`)
	declaration       = regexp.MustCompile(`^(?:func|function|class|interface|def|export|public|type)\s`)
	heredoc           = regexp.MustCompile(`<<[-~<]?["']?([A-Za-z_]\w*)["']?$`)
	continuationEnd   = regexp.MustCompile(`(?:[-=+*/%&|?,.(\[{\\<]|=>|\b(?:or|and|to|else|in|not|by|return))$`)
	continuationStart = regexp.MustCompile(`^(?:[=+|?:.,]|&&|(?:or|and)\b)`)
	assignment        = regexp.MustCompile(`^["'` + "`" + `]?\s*[!?]?(?:(?:\|\||\?\?|\+|::?)?=>?|:)`)
	comparison        = regexp.MustCompile(`^\s*[!=]=`)
	nextKey           = regexp.MustCompile(`^[=+|?:.,&]|^["']?[\w.$-]+["']?\s*[=:]`)
	sectionedName     = regexp.MustCompile(`^(?:[A-Z]\w*::?)+[A-Z]\w*$`)
	section           = regexp.MustCompile(`^\[\[?(?:[\w.-]*[._-])?(?i:secrets?|passwords?|credentials|tokens|api_?keys)` +
		`\]\]?(?:\s*[#;].*)?$`)
	entryLine = regexp.MustCompile(`^["']?[\w.@/-]+["']?\s*[=:]`)
	nameKey   = regexp.MustCompile(`^(?i:name|key)$`)
	lineEnd   = regexp.MustCompile(`^["' \\]*(?:\s#|$)`)
	setter    = regexp.MustCompile(`(?i)^\s*(?:env|arg|set|setenv|export)\s`)
)

// line reads line n of the text, or a part of it. Lines must be read in order.
func (r *redactor) line(n int, s string) {
	trimmed := strings.TrimSpace(s)
	if trimmed == "" {
		return
	}
	r.n, r.named, r.value, r.fresh, r.end = n, false, false, r.start, len(s)
	r.unclosed, r.keyword, r.setter = [256]bool{}, 0, 0
	if r.terminator != "" {
		r.literalLine(s, trimmed)
		return
	}
	at := ""
	if !r.prose && strings.IndexByte("#/*-\"'", trimmed[0]) >= 0 {
		at = comment.FindString(s)
	}
	q := strings.TrimSpace(at)
	q = q[:min(len(q), 3)]
	documentation := q == `"""` || q == "'''"
	if at == "" || documentation {
		r.endStatement(s, trimmed)
	}
	if documentation {
		if r.covered() {
			at = ""
		} else if !strings.Contains(s[len(at):], q) {
			r.terminator, r.covers, r.limit = q, false, 1<<30
		}
	}
	if at != "" {
		if r.secretColumn >= 0 && indentation(s) > r.secretColumn {
			r.hidden[n] = true
		}
		text, code, ended := s[len(at):], "", false
		if trimmed[0] == '*' || strings.HasPrefix(trimmed, "/*") {
			text, code, ended = strings.Cut(s, "*/")
		}
		r.innerRedactor(true).line(n, strings.TrimLeft(text, "*/ \t"))
		if ended && strings.TrimSpace(code) != "" {
			r.endStatement(code, strings.TrimSpace(code))
			r.code(code, strings.TrimSpace(code))
		}
		return
	}
	r.code(s, trimmed)
}

// endStatement ends the last statement unless line s continues it.
func (r *redactor) endStatement(s, trimmed string) {
	// A declaration at the first column: the groups that are still open were not groups.
	if s[0] > ' ' && len(r.frames) > 1 && (declaration.MatchString(s) || trimmed == "---") {
		for len(r.frames) > 1 {
			r.pop()
		}
		r.secretColumn, r.more = -1, false
	}
	if f := r.top(); !f.brackets() || f.open == '{' {
		if !r.more && !continuationStart.MatchString(trimmed) || f.seg == 1 && trimmed[0] == '.' {
			f.seg = 0
			if f.open == 0 {
				r.values = r.values[:min(f.firstValue, len(r.values))]
			}
		}
	}
}

// innerRedactor returns the redactor for a comment, which is prose, or for the text after a quotation mark that has no
// match in its line. That text may be code, since the mark may be part of a regular expression.
func (r *redactor) innerRedactor(prose bool) *redactor {
	if r.inner == nil {
		r.inner = newRedactor(r.hidden)
		r.inner.prose, r.inner.names = prose, r.names
	}
	return r.inner
}

// literalLine reads a line in a literal of several lines.
func (r *redactor) literalLine(s, trimmed string) {
	at := strings.Index(s, r.terminator)
	if r.heredoc && trimmed != r.terminator && trimmed != r.terminator+";" {
		at = -1
	}
	if r.covers {
		r.hidden[r.n] = true
	} else {
		r.addValue()
		r.innerRedactor(false).line(r.n, strings.ReplaceAll(s, r.terminator, " "))
	}
	if at < 0 && r.n < r.limit {
		return
	}
	rest := ""
	if at >= 0 && !r.heredoc {
		rest = s[at+len(r.terminator):]
	}
	r.terminator, r.heredoc = "", false
	if strings.TrimSpace(rest) != "" {
		r.tokens(rest)
	}
	if r.terminator == "" {
		r.inner = nil
	}
	r.finish(rest)
}

// code reads a line that is not a comment.
func (r *redactor) code(s, trimmed string) {
	r.inner = nil
	r.isSwitch = strings.HasPrefix(trimmed, "switch") || strings.HasPrefix(trimmed, "match")
	r.named = r.top().switchBody && strings.HasPrefix(trimmed, "case")
	if !r.inBrackets() {
		r.section = section.MatchString(trimmed) || r.section && entryLine.MatchString(trimmed)
	}
	column := indentation(s)
	content := strings.TrimLeft(trimmed, "- ")
	lead := len(s) - len(strings.TrimLeft(s, " \t"))
	item := trimmed == "-" || strings.HasPrefix(trimmed, "- ")
	if r.pendingFlag > 0 { // the line may have the value of a flag
		if item {
			r.pendingFlag++
		}
		if r.pendingFlag > 2 {
			r.pendingFlag = 0
		} else if content != "" {
			r.hidden[r.n] = r.hidden[r.n] || !sensitive.Flag([]byte(strings.Trim(content, `"'`)))
			if r.pendingFlag == 1 {
				r.pendingFlag = 0
			}
		}
	}
	if content != "" {
		r.mapping(s, column, lead, item)
	}
	switch f := r.top(); {
	case r.slash && r.covered(), r.more && f.seg == 2 && !nextKey.MatchString(trimmed) && secret("password: "+content):
		r.hidden[r.n] = true
	case f.seg > 0:
		r.unquotedValue(trimmed, 0)
	}
	r.tokens(s)
	r.finish(s)
}

// mapping reads a line that may be YAML.
func (r *redactor) mapping(s string, column, lead int, item bool) {
	brackets := r.inBrackets()
	if brackets && lead > r.top().mappingCol {
		return
	}
	var m []string
	if strings.Contains(s, ":") {
		m = yamlKey.FindStringSubmatch(s)
	}
	if brackets && m == nil {
		return
	}
	for brackets && r.top().open != ':' && r.top().mappingCol >= 0 { // the brackets were part of a text
		r.pop()
	}
	for r.top().open == ':' && r.top().col > lead {
		r.pop()
		r.top().seg = 0
	}
	if r.secretColumn >= 0 {
		if lead <= r.secretColumn && !(lead == r.secretColumn && item) {
			r.secretColumn = -1
		} else if m == nil || m[2] != "" {
			r.hidden[r.n] = true
		}
	}
	if m == nil {
		if r.top().open == ':' {
			r.addValue()
		}
		return
	}
	key := m[1]
	if f := r.top(); key == "key" && f.col < column {
		key = f.name + "_key"
	}
	if f := r.top(); f.open != ':' || f.col < column {
		r.push(frame{open: ':', col: column})
	}
	f := r.top()
	f.name = m[1]
	switch {
	case r.isName(key):
		if r.secretColumn < 0 {
			r.secretColumn = column
		}
		word := wordValue.MatchString(m[2]) && !typeWord.MatchString(m[2])
		if m[2] != "" && (key != m[1] || r.covered() || word && secret("password="+m[2])) {
			r.hidden[r.n] = true
		}
	case m[2] == "":
	default:
		r.addScalar(f, settingName(m[1], strings.Trim(m[2], `"'`)))
	}
}

// tokens reads the words, literals and brackets of a line.
func (r *redactor) tokens(s string) {
	markup := strings.HasPrefix(strings.TrimSpace(s), "<") || r.counts['x'] > 0
	text, named := -1, false // offset of the text of an element, or -1; the token before is a name
	placeholder := 0         // end of the last placeholder, so that each byte is read at most twice
	if markup && r.top().open == 'x' {
		text = 0
	}
	for i := 0; i < len(s); {
		c, start := s[i], i
		was := named
		named = named && (c == ' ' || c == '\t')
		switch {
		case c == '"' || c == '\'' || c == '`':
			q := s[i : i+1]
			if c != '`' && strings.HasPrefix(s[i:], q+q+q) {
				q = s[i : i+3]
			}
			end := r.closing(s[i+len(q):], q)
			if end < 0 {
				r.openLiteral(s, i, q)
				if r.terminator != "" {
					return
				}
				i++
				continue
			}
			inside := s[i+len(q) : i+len(q)+end]
			i += 2*len(q) + end
			if at := strings.LastIndexByte(inside, '{'); at > strings.LastIndexByte(inside, '}') && i < len(s) && isWord(s[i]) && !r.nested {
				// The second mark does not end the literal, but opens another one in its placeholder.
				if from := i - len(q) - len(inside) + at; from >= placeholder {
					placeholder = min(from+maxPlaceholder, len(s))
					r.embedded(s[from:placeholder])
				}
			}
			r.token(s, i, inside, true)
			r.lastFlag(s[i:], inside)
			continue
		case isWord(c) || c == '-' && afterBlank(s, i) && i+1 < len(s) && (s[i+1] == '-' || isWord(s[i+1])):
			for i < len(s) && (isWord(s[i]) || s[i] == '.' || s[i] == '-') {
				i++
			}
			word := s[start:i]
			if i < len(s) && strings.IndexByte("\"'`", s[i]) >= 0 && len(word) <= 2 && strings.Trim(word, "rbfuRBFU") == "" {
				continue
			}
			if was {
				field := s[start:]
				if at := strings.IndexAny(field, " \t"); at >= 0 {
					field = field[:at]
				}
				r.hidden[r.n] = r.hidden[r.n] || r.isUnquotedValue(s, field)
			}
			named = r.token(s, i, word, false)
			r.flag = strings.HasPrefix(word, "--")
			r.lastFlag(s[i:], word)
			continue
		case c == '(' || c == '[' || c == '{':
			f := frame{open: c}
			if c == '{' && r.opensBody(s, i) {
				f.open = 0
			}
			f.unquoted = c == '[' && r.top().mappingCol >= 0 || c == '(' && i > 0 && s[i-1] == '=' // YAML, Bash
			r.push(f)
			r.fresh = true
		case c == ')':
			r.close('(')
		case c == ']':
			if r.close('['); r.named {
				r.unquotedValue(s, i+1)
			}
		case c == '}':
			r.close('{')
		case c == ',' || c == ';':
			r.top().several, r.fresh = true, true
		case markup && c == '<':
			if text >= 0 {
				r.text(s[text:i])
				text = -1
			}
			i = r.tag(s, i)
			continue
		case c == '>' && r.top().open == '<':
			f := *r.top()
			r.pop()
			e := r.top()
			e.coveredUntil = max(e.coveredUntil, f.coveredUntil)
			if start > 0 && s[start-1] == '/' {
				r.pop()
			}
			if text = -1; r.top().open == 'x' {
				text = i + 1
			}
		case !r.prose && i > 0 && afterBlank(s, i) && (strings.HasPrefix(s[i:], "# ") || strings.HasPrefix(s[i:], "//")):
			r.end = i
			r.innerRedactor(true).line(r.n, strings.TrimLeft(s[i:], "#/ "))
			r.inner = nil
			return
		case c == '/' && strings.HasPrefix(s[i:], "/*") && !r.unclosed['*']:
			if end := strings.Index(s[i:], "*/"); end > 0 {
				i += end + 2
				continue
			}
			r.unclosed['*'] = true
		}
		i++
	}
	if text >= 0 {
		r.text(s[text:])
	}
}

// lastFlag records a flag at the end of a line, in a command or a YAML list. Its value is in a following line.
func (r *redactor) lastFlag(rest, word string) {
	if strings.HasPrefix(word, "--") && !r.top().brackets() && r.isName(word) && lineEnd.MatchString(rest) {
		r.pendingFlag = 1
	}
}

// closing returns the offset of the quotation mark q that ends a literal, or -1.
func (r *redactor) closing(s, q string) int {
	if r.unclosed[q[0]] {
		return -1
	}
	if len(q) == 1 && q != "`" && !r.unclosed['\\'] {
		for i := 0; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case q[0]:
				return i
			}
		}
		r.unclosed['\\'] = true // a backslash may be an ordinary character
	}
	return strings.Index(s, q)
}

func afterBlank(s string, i int) bool { return i == 0 || s[i-1] == ' ' || s[i-1] == '\t' }

func isWord(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// token reads a word, or a literal, that ends at offset end. It reports whether a word is a name and not a key.
func (r *redactor) token(s string, end int, word string, literal bool) bool {
	f := r.top()
	rest := s[end:min(len(s), end+64)]
	keyed := false
	if m := assignment.FindString(rest); m != "" {
		next := rest[len(m):]
		keyed = next == "" || strings.IndexByte("=~:", next[0]) < 0 || next[0] == '=' && strings.HasSuffix(m, ":")
	}
	fresh := r.fresh || f.open == '<'
	r.fresh = false
	if keyed && fresh && f.brackets() {
		f.seg = 0
	}
	start := end - len(word)
	if literal {
		start -= 2
	}
	after := byte(0) // the last byte before the token that is not blank
	if before := strings.TrimRight(s[:max(0, start)], " \t"); before != "" {
		after = before[len(before)-1]
	}
	key, name := r.key, word
	switch {
	case literal && (after == '=' || after == ':'):
		name = settingName(key, word)
	case literal:
		name = settingName("", word)
	}
	if keyed {
		r.key = word
	}
	switch {
	case literal:
		r.literal(word, name, keyed && fresh)
		if keyed && r.isKey(f, name) {
			r.unquotedValue(s, end)
		}
	case keyed && r.isKey(f, word):
		r.addName(true)
		r.unquotedValue(s, end)
	case keyed && r.section:
		r.unquotedValue(s, end)
	case !r.isName(word):
		field := strings.Contains(word, ".") && reference.MatchString(word) && !digits.MatchString(word)
		if (f.unquoted && f.covered || after == ':' && f.open == '{' && !field) && secret("password: "+word) {
			r.addValue()
		}
	case after == ':' && f.open == '{' && (nameKey.MatchString(key) || strings.ToUpper(word) == word):
		r.addScalar(f, word)
	case r.prose && !strings.HasPrefix(rest, "(") && !comparison.MatchString(rest) && !strings.HasPrefix(word, "--"):
	default:
		r.addName(false)
		return true
	}
	return false
}

// unquotedValue hides the line if the key that ends at offset end has the value of a secret without quotes.
func (r *redactor) unquotedValue(s string, end int) {
	if r.hidden[r.n] {
		return
	}
	rest := s[end:min(len(s), end+300)]
	separator := assignment.FindString(rest[:min(len(rest), 64)])
	if separator == "" {
		return
	}
	value := strings.TrimLeft(rest[len(separator):], " \t")
	blank := len(rest) - len(separator) - len(value)
	if blank > 0 {
		separator += " "
	}
	for value != "" && (value[0] == '!' || value[0] == '&') { // tags and anchors
		at := strings.IndexAny(value, " \t")
		if at < 0 {
			break
		}
		value = strings.TrimLeft(value[at:], " \t")
	}
	if at := strings.IndexAny(value, " \t,;&\"'`)}]"); at >= 0 {
		value = value[:at]
	}
	if len(value) < 4 || blank > 0 && reference.MatchString(value) && !digits.MatchString(value) {
		return
	}
	separator = assigns.Replace(strings.TrimLeft(separator, "\"'`"))
	r.hidden[r.n] = secret("password"+separator+value) ||
		blank > 0 && reference.MatchString(value) && (len(s) > MaxLine || setting.MatchString(s))
}

// isUnquotedValue reports whether field, which follows a name after a blank, may be its value.
func (r *redactor) isUnquotedValue(s, field string) bool {
	if r.setter == 0 {
		if r.setter = 1; setter.MatchString(s) {
			r.setter = 2
		}
	}
	strong := len(field) >= 8 && digits.MatchString(field) && strings.ContainsFunc(field, isLetter) &&
		!strings.ContainsAny(field, "([{") && !typeName.MatchString(field)
	if r.flag && r.nested && !secret("password: "+field) { // a word of a message
		return false
	}
	return (r.setter == 2 || r.flag || strong && !r.prose) && secret("password="+field)
}

// assigns replaces the assignment operators that the detector does not support.
var assigns = strings.NewReplacer("::=", "=", ":=", "=", "?=", "=", "+=", "=")

// reference matches a value that may be code: a variable, a field or a call.
var reference = regexp.MustCompile(`^[*&]?[A-Za-z_$][\w$]*(?:\??(?:\.|::)#?[A-Za-z_$][\w$]*)*[!?]?(?:[<([].*)?$`)

// setting matches a line that has nothing but a key and a value.
var setting = regexp.MustCompile(`^\s*[\w.-]+\s*[=:]\s*\S+\s*$`)

var (
	wordValue = regexp.MustCompile(`^\S{4,}$`)
	typeWord  = regexp.MustCompile(`^(?:\w+\.)*(?:[A-Z][A-Za-z]*|str|string|bytes|object|float|bool)(?:\[[A-Za-z_.,\[\]]*\])?$`)
)

var typeName = regexp.MustCompile(`^[*&\[\]]*\w+\.[A-Z]\w*\W*$`)

// openLiteral reads the quotation mark q at offset i, which has no match in the line.
func (r *redactor) openLiteral(s string, i int, q string) {
	r.unclosed[q[0]] = true
	covers := (r.covered() || r.named) && (q != "`" || i == 0 || !isWord(s[i-1])) // not in a regular expression
	if q == "'" || q == "\"" {
		if !covers || i > 0 && strings.IndexByte(" \t:=([,", s[i-1]) < 0 {
			return
		}
		r.limit = r.n + entryLines
	} else {
		r.limit = r.n + literalLines
		if !covers {
			r.limit = 1 << 30
		}
	}
	if r.prose {
		return
	}
	rest := s[i+len(q):]
	r.terminator, r.covers = q, covers
	switch {
	case strings.TrimSpace(rest) == "":
	case covers:
		r.hidden[r.n] = true
	case r.inner != nil: // it has read the line, since another literal ended in it
	default:
		r.innerRedactor(false).line(r.n, rest)
	}
}

// tag reads the start or end tag of an element at offset i. It returns the offset after the name.
func (r *redactor) tag(s string, i int) int {
	start := i + 1
	closes := start < len(s) && s[start] == '/'
	if closes {
		start++
	}
	end := start
	for end < len(s) && (isWord(s[end]) || s[end] == '.' || s[end] == '-' || s[end] == ':') {
		end++
	}
	name := s[start:end]
	switch {
	case name == "":
		return i + 1
	case closes:
		for r.elements[name] > 0 {
			f := *r.top()
			if r.pop(); f.open == 'x' && f.name == name {
				break
			}
		}
		return end
	}
	r.push(frame{open: 'x', name: name})
	r.elements[name]++
	if f := r.top(); r.isName(name[strings.LastIndexByte(name, ':')+1:]) {
		f.covered = true
	}
	r.push(frame{open: '<'})
	return end
}

// text reads the text of an element.
func (r *redactor) text(s string) {
	if s = strings.TrimSpace(s); s == "" || r.top().open != 'x' {
		return
	}
	f := &r.frames[len(r.frames)-2]
	if r.addScalar(f, s); f.open == 0 && r.isName(s) {
		f.coveredUntil = r.n + 1
	}
}

// opensBody reports whether the brace at offset i opens a body.
func (r *redactor) opensBody(s string, i int) bool {
	before := strings.TrimRight(s[:i], " \t")
	switch {
	case before == "":
		return false
	case strings.HasSuffix(before, ")") || strings.HasSuffix(before, "=>") || strings.HasSuffix(before, "->"):
		return true
	case strings.IndexByte("=:([{,+&|?$", before[len(before)-1]) >= 0:
		return false
	}
	return r.beginsBody(s)
}

// beginsBody reports whether a line begins with a keyword of a statement with a body.
func (r *redactor) beginsBody(s string) bool {
	if r.keyword == 0 {
		if r.keyword = 1; bodyKeyword.MatchString(s[:min(len(s), MaxLine)]) {
			r.keyword = 2
		}
	}
	return r.keyword == 2
}

// finish ends a line. It hides a line with a name and a value, and records whether the statement continues.
func (r *redactor) finish(s string) {
	if r.named && r.value {
		r.hidden[r.n] = true
	}
	s = strings.TrimRight(s[:min(len(s), r.end)], " \t")
	tail := s[max(0, len(s)-10):]
	r.slash = strings.HasSuffix(s, `\`)
	// *** is a masked value.
	r.more = continuationEnd.MatchString(tail) && !strings.HasSuffix(s, ": |") && !strings.HasSuffix(s, "***") ||
		strings.HasSuffix(s, ":") && r.top().seg == 2 && !r.beginsBody(s)
	r.start = !r.more || strings.IndexByte(",([{", s[len(s)-1]) >= 0
	if (r.covered() || r.named) && r.terminator == "" && strings.Contains(s, "<<") {
		if m := heredoc.FindStringSubmatch(s); m != nil {
			r.terminator, r.heredoc, r.covers, r.limit = m[1], true, true, r.n+literalLines
		}
	}
}

// indentation returns the column of the first key in a line of YAML.
func indentation(s string) int { return len(s) - len(strings.TrimLeft(s, " \t-?")) }
