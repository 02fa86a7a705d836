// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"regexp"
	"strings"

	"assay/internal/rules/sensitive"
)

// redactor finds the lines of a text that may have the value of a secret, whatever its language. It reads the text once,
// as words, literals and brackets. The name of a secret covers
//
//   - its line, if it is not the key of an item: password == "...", user, password = "...", "..."
//   - the rest of the statement, or of the item of a group: password: f("..."),
//   - the whole group that has the name as a value: ("password", "..."), name: DB_PASSWORD
//   - the nodes below it in YAML or XML
//
// with all groups that begin there, but not bodies of functions. A covered line with a value is hidden.
type redactor struct {
	hidden []bool
	names  map[string]bool // words that were looked up
	frames []frame         // the groups around the next token
	counts [256]int        // of them, by the byte that opens them
	values []int           // lines with values in these groups
	nested bool            // the text is a literal of one line
	prose  bool            // a word is a name before a separator, a comparison or a bracket only
	inner  *redactor       // for comments and literals of several lines

	until    string         // ends the literal of several lines that the line is in
	document bool           // it is a line of its own
	covers   bool           // the literal is the value of a secret
	limit    int            // the last line that it can end in
	zone     int            // the column of the YAML key of a secret whose value the line may belong to, or -1
	items    int            // of the list after a flag; 0: there was none
	more     bool           // the statement goes on in the next line
	slash    bool           // after a backslash
	section  bool           // in a section of an INI file that has secrets only
	start    bool           // it may begin with the key of an item
	elements map[string]int // the number of frames by the name of the element

	// Of the line.
	n               int
	named, value    bool
	choice          bool   // it begins a switch
	fresh           bool   // the next token may be the key of an item
	flag            bool   // the last name is a flag
	key             string // the last one
	end             int    // where a comment begins
	keyword, setter int    // 1: the line does not begin with one, 2: it does
	unclosed        [256]bool
}

// frame is a group: brackets, a tag, an element, a mapping of YAML, or a body.
type frame struct {
	open    byte   // one of ([{, < for a tag, x for an element, : for a mapping, 0 for a body or the text
	name    string // of the element, or the last key of the mapping
	col     int    // of the mapping
	above   int    // the column of the innermost mapping that has the group, or -1
	at      int    // its values begin here
	covered bool   // by a name around it
	until   int    // the last line that a name in it covers
	seg     int    // a name covers the rest of the statement or item: 1, or 2 if it is its key
	named   bool   // it has a name that is no key
	several bool   // it has several items
	choice  bool   // it is the body of a switch on a secret
	bare    bool   // it may have values without quotes
}

const (
	entryLines   = 20  // that a name covers in its group, before and after it
	literalLines = 100 // of a literal that is the value of a secret
)

func newRedactor(hidden []bool) *redactor {
	return &redactor{
		hidden: hidden, names: map[string]bool{}, elements: map[string]int{}, frames: []frame{{until: -1, above: -1}}, zone: -1,
		start: true,
	}
}

func (r *redactor) top() *frame { return &r.frames[len(r.frames)-1] }

func (r *redactor) covered() bool {
	f := r.top()
	return f.covered || f.seg > 0 || r.n <= f.until || r.section
}

func (r *redactor) inBrackets() bool {
	return r.counts['(']+r.counts['[']+r.counts['{']+r.counts[0]+r.counts['<'] > 0
}

func (f *frame) brackets() bool { return f.open != 0 && f.open != ':' && f.open != 'x' }

// push begins a group.
func (r *redactor) push(f frame) {
	f.covered = f.open != 0 && r.covered()
	if f.open != 'x' {
		f.name = r.key
	}
	if f.above = r.top().above; f.open == ':' {
		f.above = f.col
	}
	f.at, f.until, f.choice = len(r.values), -1, f.open == 0 && r.named && r.choice
	r.frames = append(r.frames, f)
	r.counts[f.open]++
}

// pop ends the last group.
func (r *redactor) pop() {
	f := *r.top()
	r.frames = r.frames[:len(r.frames)-1]
	r.counts[f.open]--
	if f.open == 'x' {
		r.elements[f.name]--
	}
	switch {
	case f.open == 0:
		r.values = r.values[:min(f.at, len(r.values))]
	case (f.open == '(' || f.open == '[') && f.named && !f.several: // os.Getenv("DB_PASSWORD"), m["password"]
		if r.name(false); f.until >= 0 {
			r.top().seg = 2
		}
	}
}

// close ends the last group that a byte opens, with all groups in it.
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

// body reports whether the innermost braces are the ones of a body.
func (r *redactor) body() bool {
	for i := len(r.frames) - 1; i > 0; i-- {
		if o := r.frames[i].open; o == 0 || o == '{' {
			return o == 0
		}
	}
	return false
}

// add records a value in the line.
func (r *redactor) add() {
	if r.covered() {
		r.hidden[r.n] = true
	} else if k := len(r.values); k == 0 || r.values[k-1] != r.n || k <= r.top().at {
		r.values = append(r.values, r.n)
	}
}

// name records a name that is no key.
func (r *redactor) name(key bool) {
	f := r.top()
	if key {
		f.seg, r.named = 2, r.named || !f.brackets()
		return
	}
	f.seg, f.named, r.named = max(f.seg, 1), true, true
}

// entry records a name that is a value: it covers all of the group.
func (r *redactor) entry(f *frame) {
	r.named, f.named = true, true
	if f.open == 0 {
		f.seg = max(f.seg, 1)
	} else {
		f.until = r.n + entryLines
	}
	at := min(f.at, len(r.values)) // an entry of a group around this one has taken the values before
	for _, n := range r.values[at:] {
		if n >= r.n-entryLines {
			r.hidden[n] = true
		}
	}
	r.values = r.values[:at]
}

// scalar reads a value without quotes, or in YAML, of the group.
func (r *redactor) scalar(f *frame, s string) {
	name := r.isName(s)
	if name {
		r.entry(f)
	}
	if !name || r.isValue(s) {
		r.add()
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
	// The verbs of a format, which a literal may have besides the words of a text.
	verbs = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]|%\(\w+\)s|[$#]?\{+[^{}]*\}+`)
	// A word of a text.
	plainWord = regexp.MustCompile(`^[\p{L}\d.,:;!?()'"/_%-]*$`)
	ordinary  = regexp.MustCompile(`^[A-Za-z]?[a-z]{1,11}$`) // a message of one word
	digits    = regexp.MustCompile(`\d`)
	pathLike  = regexp.MustCompile(`^(?:[~.@]*/|[a-z-]+/)(?:[a-zA-Z._:*-]|/|v\d|\{\w+\})*$`)
	// A literal that has flags, or literals of JSON or code, such as those in the placeholders of a template.
	codeLike = regexp.MustCompile(`--[a-z]|[=(\[{:,]\s*\\?["']|\{[^{}"'\x60]*["'\x60]`)
	flagLike = regexp.MustCompile(`^--[a-z-]+$`)
	tagged   = regexp.MustCompile(`^\w+:"`)
	tagValue = regexp.MustCompile(`"([^",]*)`)
	pair     = regexp.MustCompile(`([\w.$-]+)["']?(?::=|\s?[=:]\s?)["']?([^\s"',;&=:]{4,})`)
)

// MayBeValue reports whether a literal may be the value of a secret that the code around it names.
func MayBeValue(literal string) bool { return newRedactor(nil).isValue(literal) }

// isValue reports whether a literal may be the value of a secret: no text, path or name.
func (r *redactor) isValue(s string) bool {
	s = strings.TrimSpace(verbs.ReplaceAllString(s, " "))
	if len(s) < 4 || pathLike.MatchString(s) || flagLike.MatchString(s) || (r.isName(s) || len(s) <= 200 && sensitive.PublicName(s)) && (!digits.MatchString(s) || strings.ToUpper(s) == s) {
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

// isKey reports whether a key, in the group of another one, is the name of a secret.
func (r *redactor) isKey(f *frame, key string) bool {
	return r.isName(key) || strings.EqualFold(key, "key") && r.isName(f.name+"_key")
}

// element returns the name of a setting: the last word of Db:Password, and of /prod/db/password after a key such as name.
func element(key, s string) string {
	if sections.MatchString(s) || strings.HasPrefix(s, "/") && entryKey.MatchString(key) {
		return s[strings.LastIndexAny(s, "/:")+1:]
	}
	return s
}

// literal reads a literal, which may be a name.
func (r *redactor) literal(s, name string, keyed bool) {
	switch {
	case keyed && r.isKey(r.top(), name):
		r.name(true)
	case r.isName(name) && r.top().open == ':':
		r.name(false)
	case r.isName(name):
		r.entry(r.top())
	}
	if tagged.MatchString(s) { // of a field of a Go struct
		named, value := false, false
		for _, m := range tagValue.FindAllStringSubmatch(s, -1) {
			named, value = named || r.isName(m[1]), value || r.isValue(m[1])
		}
		if r.value = r.value || value; value {
			r.add()
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
	if keyed || !r.isValue(name) || ordinary.MatchString(strings.TrimSpace(verbs.ReplaceAllString(s, " "))) && !r.covered() {
		return
	}
	r.value = true
	r.add()
}

// maxPlaceholder is the number of bytes that are read as a placeholder of a literal.
const maxPlaceholder = 512

// embedded reads code in a literal.
func (r *redactor) embedded(s string) {
	code := newRedactor(r.hidden)
	code.nested, code.names = true, r.names
	code.line(r.n, s)
}

func secret(s string) bool { return sensitive.Text([]byte(s)) != sensitive.None }

var (
	// A key of YAML, and its value without tags, anchors and comment.
	yamlKey = regexp.MustCompile(`^[\s?-]*["']?([\w.$/-]+)["']?\s*:(?:\s+(?:[!&][^\s]*\s*)*(.*?)\s*(?:\s#.*)?)?$`)
	comment = regexp.MustCompile(`^\s*(?:#(?:\s|$)|//|/\*|\*(?:\s|/|$)|--\s|"""|''')[\s*/#]*`)
	// Keywords at the start of a statement with a body, and keywords alone before a body.
	bodies = regexp.MustCompile(`^\W*(?:(?:public|private|protected|static|final|abstract|export|default|async|override|` +
		`internal|open|data|pub)\s+)*(?:func|function|class|interface|struct|enum|impl|trait|namespace|module|mod|fn|fun|` +
		`def|type|if|elif|else|except|with|for|while|switch|select|try|catch|finally|do|match|static|go|defer|case)\b`)
	declares = regexp.MustCompile(`^(?:func|function|class|interface|def|export|public|type)\s`)
	heredoc  = regexp.MustCompile(`<<[-~<]?["']?([A-Za-z_]\w*)["']?$`)
	operands = regexp.MustCompile(`(?:[-=+*/%&|?,.(\[{\\<]|=>|\b(?:or|and|to|else|in|not|by|return))$`)
	follows  = regexp.MustCompile(`^(?:[=+|?:.,]|&&|(?:or|and)\b)`)
	assigned = regexp.MustCompile(`^["'` + "`" + `]?\s*[!?]?(?:(?:\|\||\?\?|\+|::?)?=>?|:)`)
	compared = regexp.MustCompile(`^\s*[!=]=`)
	nextKey  = regexp.MustCompile(`^[=+|?:.,&]|^["']?[\w.$-]+["']?\s*[=:]`)
	sections = regexp.MustCompile(`^(?:[A-Z]\w*::?)+[A-Z]\w*$`)
	section  = regexp.MustCompile(`^\[\[?(?:[\w.-]*[._-])?(?i:secrets?|passwords?|credentials|tokens|api_?keys)` +
		`\]\]?(?:\s*[#;].*)?$`)
	entryLine = regexp.MustCompile(`^["']?[\w.@/-]+["']?\s*[=:]`)
	entryKey  = regexp.MustCompile(`^(?i:name|key)$`)
	lineEnd   = regexp.MustCompile(`^["' \\]*(?:\s#|$)`)
	setter    = regexp.MustCompile(`(?i)^\s*(?:env|arg|set|setenv|export)\s`)
)

// line reads the next line, or a part of one.
func (r *redactor) line(n int, s string) {
	trimmed := strings.TrimSpace(s)
	if trimmed == "" {
		return
	}
	r.n, r.named, r.value, r.fresh, r.end = n, false, false, r.start, len(s)
	r.unclosed, r.keyword, r.setter = [256]bool{}, 0, 0
	if r.until != "" {
		r.within(s, trimmed)
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
		r.statement(s, trimmed)
	}
	if documentation {
		if r.covered() {
			at = ""
		} else if !strings.Contains(s[len(at):], q) {
			r.until, r.covers, r.limit = q, false, 1<<30
		}
	}
	if at != "" {
		if r.zone >= 0 && indentation(s) > r.zone {
			r.hidden[n] = true
		}
		text, code, ended := s[len(at):], "", false
		if trimmed[0] == '*' || strings.HasPrefix(trimmed, "/*") {
			text, code, ended = strings.Cut(s, "*/")
		}
		r.aside(true).line(n, strings.TrimLeft(text, "*/ \t"))
		if ended && strings.TrimSpace(code) != "" {
			r.statement(code, strings.TrimSpace(code))
			r.code(code, strings.TrimSpace(code))
		}
		return
	}
	r.code(s, trimmed)
}

// statement ends the last statement unless the next line goes on with it.
func (r *redactor) statement(s, trimmed string) {
	// A bracket before was none.
	if s[0] > ' ' && len(r.frames) > 1 && (declares.MatchString(s) || trimmed == "---") {
		for len(r.frames) > 1 {
			r.pop()
		}
		r.zone, r.more = -1, false
	}
	if f := r.top(); !f.brackets() || f.open == '{' {
		if !r.more && !follows.MatchString(trimmed) || f.seg == 1 && trimmed[0] == '.' {
			f.seg = 0
			if f.open == 0 {
				r.values = r.values[:min(f.at, len(r.values))]
			}
		}
	}
}

// aside returns the redactor for comments, which are prose, or for a literal of several lines, which may be none: the mark
// that opens it may stand in a regular expression.
func (r *redactor) aside(prose bool) *redactor {
	if r.inner == nil {
		r.inner = newRedactor(r.hidden)
		r.inner.prose, r.inner.names = prose, r.names
	}
	return r.inner
}

// within reads a line in a literal of several lines.
func (r *redactor) within(s, trimmed string) {
	at := strings.Index(s, r.until)
	if r.document && trimmed != r.until && trimmed != r.until+";" {
		at = -1
	}
	if r.covers {
		r.hidden[r.n] = true
	} else {
		r.add()
		r.aside(false).line(r.n, strings.ReplaceAll(s, r.until, " "))
	}
	if at < 0 && r.n < r.limit {
		return
	}
	rest := ""
	if at >= 0 && !r.document {
		rest = s[at+len(r.until):]
	}
	r.until, r.document = "", false
	if strings.TrimSpace(rest) != "" {
		r.tokens(rest)
	}
	if r.until == "" {
		r.inner = nil
	}
	r.finish(rest)
}

// code reads a line that is no comment.
func (r *redactor) code(s, trimmed string) {
	r.inner = nil
	r.choice = strings.HasPrefix(trimmed, "switch") || strings.HasPrefix(trimmed, "match")
	r.named = r.top().choice && strings.HasPrefix(trimmed, "case")
	if !r.inBrackets() {
		r.section = section.MatchString(trimmed) || r.section && entryLine.MatchString(trimmed)
	}
	column := indentation(s)
	content := strings.TrimLeft(trimmed, "- ")
	lead := len(s) - len(strings.TrimLeft(s, " \t"))
	item := trimmed == "-" || strings.HasPrefix(trimmed, "- ")
	if r.items > 0 { // the value of a flag
		if item {
			r.items++
		}
		if r.items > 2 {
			r.items = 0
		} else if content != "" {
			r.hidden[r.n] = r.hidden[r.n] || !sensitive.Flag([]byte(strings.Trim(content, `"'`)))
			if r.items == 1 {
				r.items = 0
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
		r.bareValue(trimmed, 0)
	}
	r.tokens(s)
	r.finish(s)
}

// mapping reads a line that may be YAML.
func (r *redactor) mapping(s string, column, lead int, item bool) {
	brackets := r.inBrackets()
	if brackets && lead > r.top().above {
		return
	}
	var m []string
	if strings.Contains(s, ":") {
		m = yamlKey.FindStringSubmatch(s)
	}
	if brackets && m == nil {
		return
	}
	for brackets && r.top().open != ':' && r.top().above >= 0 { // the brackets belonged to a text
		r.pop()
	}
	for r.top().open == ':' && r.top().col > lead {
		r.pop()
		r.top().seg = 0
	}
	if r.zone >= 0 {
		if lead <= r.zone && !(lead == r.zone && item) {
			r.zone = -1
		} else if m == nil || m[2] != "" {
			r.hidden[r.n] = true
		}
	}
	if m == nil {
		if r.top().open == ':' {
			r.add()
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
		if r.zone < 0 {
			r.zone = column
		}
		word := wordValue.MatchString(m[2]) && !typeWord.MatchString(m[2])
		if m[2] != "" && (key != m[1] || r.covered() || word && secret("password="+m[2])) {
			r.hidden[r.n] = true
		}
	case m[2] == "":
	default:
		r.scalar(f, element(m[1], strings.Trim(m[2], `"'`)))
	}
}

// tokens reads the words, literals and brackets of a line.
func (r *redactor) tokens(s string) {
	markup := strings.HasPrefix(strings.TrimSpace(s), "<") || r.counts['x'] > 0
	text, named := -1, false // where the text of an element begins; the token before is a name
	placeholder := 0         // the end of the last placeholder, so that a line is read at most twice
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
				r.open(s, i, q)
				if r.until != "" {
					return
				}
				i++
				continue
			}
			inside := s[i+len(q) : i+len(q)+end]
			i += 2*len(q) + end
			if at := strings.LastIndexByte(inside, '{'); at > strings.LastIndexByte(inside, '}') && i < len(s) && isWord(s[i]) && !r.nested {
				// The second quotation mark begins a literal in a placeholder of the first.
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
				r.hidden[r.n] = r.hidden[r.n] || r.bare(s, field)
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
			f.bare = c == '[' && r.top().above >= 0 || c == '(' && i > 0 && s[i-1] == '=' // YAML, Bash
			r.push(f)
			r.fresh = true
		case c == ')':
			r.close('(')
		case c == ']':
			if r.close('['); r.named {
				r.bareValue(s, i+1)
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
			e.until = max(e.until, f.until)
			if start > 0 && s[start-1] == '/' {
				r.pop()
			}
			if text = -1; r.top().open == 'x' {
				text = i + 1
			}
		case !r.prose && i > 0 && afterBlank(s, i) && (strings.HasPrefix(s[i:], "# ") || strings.HasPrefix(s[i:], "//")):
			r.end = i
			r.aside(true).line(r.n, strings.TrimLeft(s[i:], "#/ "))
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

// lastFlag records a flag of a command, or of a list that may be YAML, whose value is on another line.
func (r *redactor) lastFlag(rest, word string) {
	if strings.HasPrefix(word, "--") && !r.top().brackets() && r.isName(word) && lineEnd.MatchString(rest) {
		r.items = 1
	}
}

// closing returns where a quotation mark is that ends a literal, or -1.
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

// token reads a word or literal that ends at end. It reports whether it is a name, but not a key.
func (r *redactor) token(s string, end int, word string, literal bool) bool {
	f := r.top()
	rest := s[end:min(len(s), end+64)]
	keyed := false
	if m := assigned.FindString(rest); m != "" {
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
	after := byte(0) // the byte before the token
	if before := strings.TrimRight(s[:max(0, start)], " \t"); before != "" {
		after = before[len(before)-1]
	}
	key, name := r.key, word
	switch {
	case literal && (after == '=' || after == ':'):
		name = element(key, word)
	case literal:
		name = element("", word)
	}
	if keyed {
		r.key = word
	}
	switch {
	case literal:
		r.literal(word, name, keyed && fresh)
		if keyed && r.isKey(f, name) {
			r.bareValue(s, end)
		}
	case keyed && r.isKey(f, word):
		r.name(true)
		r.bareValue(s, end)
	case keyed && r.section:
		r.bareValue(s, end)
	case !r.isName(word):
		field := strings.Contains(word, ".") && reference.MatchString(word) && !digits.MatchString(word)
		if (f.bare && f.covered || after == ':' && f.open == '{' && !field) && secret("password: "+word) {
			r.add()
		}
	case after == ':' && f.open == '{' && (entryKey.MatchString(key) || strings.ToUpper(word) == word):
		r.scalar(f, word)
	case r.prose && !strings.HasPrefix(rest, "(") && !compared.MatchString(rest) && !strings.HasPrefix(word, "--"):
	default:
		r.name(false)
		return true
	}
	return false
}

// bareValue reads the value without quotes of a key that ends at end.
func (r *redactor) bareValue(s string, end int) {
	if r.hidden[r.n] {
		return
	}
	rest := s[end:min(len(s), end+300)]
	separator := assigned.FindString(rest[:min(len(rest), 64)])
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

// bare reports whether a field after a name may be its value.
func (r *redactor) bare(s, field string) bool {
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

// assigns replaces operators that the detector does not know.
var assigns = strings.NewReplacer("::=", "=", ":=", "=", "?=", "=", "+=", "=")

// reference matches a value that is code.
var reference = regexp.MustCompile(`^[*&]?[A-Za-z_$][\w$]*(?:\??(?:\.|::)#?[A-Za-z_$][\w$]*)*[!?]?(?:[<([].*)?$`)

// setting matches a line that has one setting, whose value is no code.
var setting = regexp.MustCompile(`^\s*[\w.-]+\s*[=:]\s*\S+\s*$`)

var (
	wordValue = regexp.MustCompile(`^\S{4,}$`)
	typeWord  = regexp.MustCompile(`^(?:\w+\.)*(?:[A-Z][A-Za-z]*|str|string|bytes|object|float|bool)(?:\[[A-Za-z_.,\[\]]*\])?$`)
)

var typeName = regexp.MustCompile(`^[*&\[\]]*\w+\.[A-Z]\w*\W*$`)

// open reads a quotation mark that has no second one in the line.
func (r *redactor) open(s string, i int, q string) {
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
	r.until, r.covers = q, covers
	switch {
	case strings.TrimSpace(rest) == "":
	case covers:
		r.hidden[r.n] = true
	case r.inner != nil: // it has read the line: another literal ended in it
	default:
		r.aside(false).line(r.n, rest)
	}
}

// tag reads the begin or the end of an element at i. It returns where it ends.
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
	if r.scalar(f, s); f.open == 0 && r.isName(s) {
		f.until = r.n + 1
	}
}

// opensBody reports whether the brace at i opens a body.
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

// beginsBody reports whether a line begins with a keyword before a body.
func (r *redactor) beginsBody(s string) bool {
	if r.keyword == 0 {
		if r.keyword = 1; bodies.MatchString(s[:min(len(s), MaxLine)]) {
			r.keyword = 2
		}
	}
	return r.keyword == 2
}

// finish ends a line.
func (r *redactor) finish(s string) {
	if r.named && r.value {
		r.hidden[r.n] = true
	}
	s = strings.TrimRight(s[:min(len(s), r.end)], " \t")
	tail := s[max(0, len(s)-10):]
	r.slash = strings.HasSuffix(s, `\`)
	r.more = operands.MatchString(tail) && !strings.HasSuffix(s, ": |") && !strings.HasSuffix(s, "***") || // a masked value
		strings.HasSuffix(s, ":") && r.top().seg == 2 && !r.beginsBody(s)
	r.start = !r.more || strings.IndexByte(",([{", s[len(s)-1]) >= 0
	if (r.covered() || r.named) && r.until == "" && strings.Contains(s, "<<") {
		if m := heredoc.FindStringSubmatch(s); m != nil {
			r.until, r.document, r.covers, r.limit = m[1], true, true, r.n+literalLines
		}
	}
}

// indentation returns the column of the first name of a line of YAML.
func indentation(s string) int { return len(s) - len(strings.TrimLeft(s, " \t-?")) }
