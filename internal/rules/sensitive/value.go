// SPDX-License-Identifier: Apache-2.0

package sensitive

import "bytes"

// namedLookups is the number of lookups that take as long as the search for a value after
// a name.
const namedLookups = 8

// encodedLookups is the number of lookups that take as long as the search for a name before a percent-encoded
// separator.
const encodedLookups = 2

// flagLookups is the number of lookups that take as long as the search for the name of a flag.
const flagLookups = 2

// named looks at a '=' or ':' at i, of width bytes (3 when percent-encoded),
// for a secret's name before it and a value after it.
func (c *scanner) named(i, width int, equals bool) finding {
	s := c.s
	if c.shapes {
		return finding{}
	}
	end, quotedKey := keyEnd(s, i)
	n, start := nameAt(s, end)
	if n == nil || n.prose && !equals && !quotedKey {
		return finding{}
	}
	spaced := i > 0 && isBlank(s[i-1])
	v := i + width
	switch {
	case v >= len(s) || s[v] == '=' || !equals && s[v] == ':': // token == x, token := x, token::x
		return finding{}
	case equals && s[v] == '>': // "token" => "x"
		v++
		spaced = true
	}
	if spaced && equals && bytes.HasSuffix(s[:start], []byte("nexpected ")) { // Unexpected token = in JSON
		return finding{}
	}
	c.lookups += namedLookups
	if !c.mayName(start, end, equals) {
		return finding{}
	}
	blank, line := 0, false
	for v < len(s) && (s[v] <= ' ' || s[v] == '\\') {
		if isBlank(s[v]) {
			blank++
			v++
			continue
		}
		if quotedKey && !equals && (s[v] == '\n' || s[v] == '\r') { // of formatted JSON
			line = true
			v++
			continue
		}
		to := colorEnd(s, v)
		if to == v {
			break
		}
		v = to
	}
	if v < len(s) && s[v] == '[' && !has(s, v, "[]") { // [Bearer x], ["x"], [REDACTED]
		v++
	}
	if v >= len(s) {
		return finding{}
	}

	if !quotedKey && c.closesString(i, v) { // msg="enter password:" user=17
		return finding{}
	}
	if from, to, ok := quotedValue(s, v); ok {
		if from < to && s[from-1] != '\'' && to+1 < len(s) && s[to+1] == '.' { // "a"."token" = "b"."token"
			return finding{}
		}
		if line && !endsJSONValue(s, to) {
			return finding{}
		}
		if c.exempt(n, from, to) || n.scheme && c.withoutCredentials(n, from, to) || !equals && namesObject(n, s[from:to]) ||
			n.prose && !quotedKey && isCounter(s[from:to]) {
			return finding{}
		}
		return c.secret(n, from, from, to)
	}
	if line {
		if number, _ := jsonNumber(s, v); !number {
			return finding{}
		}
	}
	if n.ids != 0 {
		return c.identity(n, v)
	}
	if blank > 0 && (equals && !spaced && !startsGenerated(s[v:]) || !equals && isField(s[v:])) { // "password= for x": the value is empty
		return finding{}
	}
	if quotedKey && !equals {
		if number, to := jsonNumber(s, v); number {
			if n.integers && integral(s[v:to]) {
				return finding{NamedSecret, v, to}
			}
			return finding{}
		}
	}
	if s[i] == '%' && encodedPlaceholder(s[v:c.endOfValue(v)]) {
		return finding{}
	}
	return c.unquoted(n, v, equals, spaced, quotedKey)
}

// flag looks at a quoted flag with its first '-' at i for a secret's name, and a value in
// the next element of the list: ["--password", "x"].
func (c *scanner) flag(i int) finding {
	s := c.s
	c.lookups += flagLookups
	end := i
	for end < len(s) && end-i < maxName && (tokenByte(s[end]) || s[end] == '.') {
		end++
	}
	if c.shapes || end == i || !Flag(s[i:end]) {
		return privateKey(s, i)
	}
	v := end
	for v < len(s) && s[v] == '\\' && v-end < maxEscape {
		v++
	}
	if v >= len(s) || s[v] != s[i-1] {
		return finding{}
	}
	for v++; v < len(s) && isBlank(s[v]); {
		v++
	}
	if v >= len(s) || s[v] != ',' {
		return finding{}
	}
	for v++; v < len(s) && isBlank(s[v]); {
		v++
	}
	from, to, ok := quotedValue(s, v)
	if !ok || anotherFlag(s[from:to]) || c.exempt(unnamed, from, to) || c.withoutCredentials(unnamed, from, to) {
		return finding{}
	}
	return c.secret(unnamed, from, from, to)
}

// mayName reports whether s[start:end], a secret's name, counts as one in its context:
// it is not a key of the registry, not a variable ($password: String!), and before a
// colon not a part of an ARN or of a path:
// arn:aws:secretsmanager:eu-west-1:111122223333:secret:db, POST /oauth/token: 12.5ms.
func (c *scanner) mayName(start, end int, equals bool) bool {
	s := c.s
	full := fullName(s, start, end)
	if keyName(full) == nil {
		return false
	}
	name := end - len(full)
	before := name
	for before > 0 && s[before-1] == '_' {
		before--
	}
	if before > 0 && s[before-1] == '$' {
		return false
	}
	if equals || name == 0 || s[name-1] != ':' && s[name-1] != '/' {
		return true
	}
	word := s[c.wordBefore(name):name]
	return word[0] != '/' && !has(word, 0, "arn:") && c.urlEnd < name-len(word)+len("://")
}

// maxWord is how far a word before a name is looked at.
const maxWord = 128

// wordBefore returns the start of the word that ends at i, and sets c.urlEnd to the end
// of the last :// before i if the word contains it. It does not read again what earlier
// calls have read: one word may contain many names.
func (c *scanner) wordBefore(i int) int {
	s, low := c.s, max(0, i-maxWord)
	known := low
	if c.wordEnd <= i {
		known = max(low, c.wordEnd)
	} else {
		c.wordEnd, c.urlEnd = -1, 0
	}
	from := i
	for from > known && !is(s[from-1], stop) && s[from-1] != '=' {
		from--
	}
	searched := max(from, known-2)
	if from == c.wordEnd {
		from = max(low, c.wordStart)
	}
	if at := bytes.LastIndex(s[searched:i], []byte("://")); at >= 0 {
		c.urlEnd = searched + at + len("://")
	}
	c.wordStart, c.wordEnd = from, i
	return from
}

// unquoted looks at an unquoted value at v.
func (c *scanner) unquoted(n *name, v int, equals, spaced, quotedKey bool) finding {
	s := c.s
	whole := v
	if n.scheme {
		if v = c.skipScheme(v); v >= len(s) {
			return finding{}
		}
		if from, to, ok := quotedValue(s, v); ok {
			if c.exempt(n, from, to) {
				return finding{}
			}
			return c.secret(n, whole, from, to)
		}
	}
	end := bracketed(s, v)
	if end == v {
		end = c.endOfValue(v)
	}
	if n.line && isPairs(s, v, end) {
		end = c.lineEnd(v, end)
	}
	value := s[v:end]
	if len(value) == 0 || value[0] == '{' {
		return finding{}
	}
	const parsed = "unexpected token: " // of a parser: Ident("x")
	if isConstructor(value) {           // password=SecretStr('hunter2'), password: Some("hunter2")
		if from, to, ok := quotedValue(s, end); ok {
			if c.exempt(n, from, to) || n.scheme && c.withoutCredentials(n, from, to) ||
				!equals && (isErrorClass(value[:len(value)-1]) || namesObject(n, s[from:to]) || hasPrefixFold(s, whole-len(parsed), parsed)) {
				return finding{}
			}
			return c.secret(n, whole, v, to)
		}
	}
	if !equals && (!telling(s[whole:end]) || startsError(n, s, whole, end)) {
		return finding{}
	}
	if n.prose && !quotedKey && isCounter(value) {
		return finding{}
	}
	if isReference(n, value, spaced) || !equals && v == whole && namesObject(n, value) || c.exempt(n, v, end) {
		return finding{}
	}
	to := spanEnd(s, end, len(s), n.line)
	if value[len(value)-1] == '(' || len(value) > 1 && value[len(value)-2] == '(' { // password=decode("hunter2"), decode(b"hunter2")
		for end < len(s) && isBlank(s[end]) {
			end++
		}
		if _, quoted, ok := quotedValue(s, end); ok {
			to = max(to, quoted) // not before the end of what has been read
		}
	}
	return c.secret(n, whole, v, to)
}

// isPairs reports whether the unquoted value s[v:end] begins the name=value pairs or the
// attributes of cookies, which continue to the end of the line. Other values do not:
// cookie=null user=17, invalid cookie: signature mismatch, ignoring.
func isPairs(s []byte, v, end int) bool {
	return bytes.IndexByte(s[v:min(end, v+maxLine)], '=') >= 0 || v < end && end < len(s) && s[end] == ';'
}

// maxLine is the maximum number of evaluated bytes of a value that ends at the end of its line.
const maxLine = 128

// lineEnd returns the end of a value at v that continues from end to the end of the line, up to maxLine
// bytes. It does not scan bytes again that an earlier call has scanned: a line may hold many names.
func (c *scanner) lineEnd(v, end int) int {
	limit := min(len(c.s), v+maxLine)
	if end < c.lineFrom || end >= c.lineTo {
		c.lineFrom, c.lineTo = end, end
	}
	if c.lineTo < limit {
		c.lineTo = spanEnd(c.s, c.lineTo, limit, true)
	}
	return max(end, min(c.lineTo, limit))
}

// secret returns the finding of a named secret in s[from:to]. If its shape, with the
// scheme that begins at whole, has a more specific kind, the finding has that kind.
func (c *scanner) secret(n *name, whole, from, to int) finding {
	c.lookups += (to - whole) / bytesPerLookup // the value is read again
	shape := scanner{s: c.s[:to], pos: whole, shapes: true, meter: c.meter}
	f := shape.next()
	c.lookups += shape.lookups
	if f.kind != None {
		return finding{f.kind, from, to}
	}
	return finding{n.kind(c.s[from:to]), from, to}
}

// identity looks at v for a number in one of the formats of the name: letters and digits, in
// groups or not.
func (c *scanner) identity(n *name, v int) finding {
	s := c.s
	limit := min(len(s), v+maxIDText)
	for end := v; end < limit; {
		if end = run(s, end, alnum, limit-end); end == v || end == limit && end < len(s) && is(s[end], alnum) {
			break
		}
		if idUnder(n.ids, s[v:end]) != None {
			return c.secret(n, v, v, end)
		}
		if end++; end >= limit || !is(s[end], alnum) || bytes.IndexByte([]byte(" -./+"), s[end-1]) < 0 {
			break
		}
	}
	return finding{}
}

// skipScheme returns the start of the credentials after the name of an authentication
// scheme at v: v if there is no scheme, the end of the text if no credentials follow.
func (c *scanner) skipScheme(v int) int {
	s := c.s
	end := run(s, v, alnum, 32)
	if end < len(s) && s[end] == '-' { // AWS4-HMAC-SHA256
		end = c.endOfValue(v)
	}
	if !isScheme(s[v:end]) {
		return v
	}
	next := end
	for next < len(s) && (isBlank(s[next]) || s[next] == '+') {
		next++
	}
	if next == end {
		return len(s)
	}
	return next
}

// credentials returns the offset of the credentials in a value that begins with the name of an authentication scheme:
// the length of the value if there are none, -1 for another value.
func credentials(value []byte) int {
	start := len(value) - len(bytes.TrimLeft(value, " \t\r\n"))
	end := run(value, start, alnum, 32)
	if !isScheme(value[start:end]) {
		if isScheme(bytes.TrimSpace(value)) { // AWS4-HMAC-SHA256
			return len(value)
		}
		return -1
	}
	rest := bytes.TrimSpace(value[end:])
	switch {
	case len(rest) == 0:
		return len(value)
	case !isBlank(value[end]):
		return -1
	}
	return len(value) - len(bytes.TrimLeft(value[end:], " \t\r\n"))
}

// withoutCredentials reports whether s[from:to] is the name of an authentication scheme, alone or before a placeholder:
// Bearer ${TOKEN}.
func (c *scanner) withoutCredentials(n *name, from, to int) bool {
	at := credentials(c.s[from:to])
	return at == to-from || at > 0 && c.exempt(n, from+at, to)
}

// exempt is exempt for s[from:to], with the search for signs of redaction
// shared between values that overlap.
func (c *scanner) exempt(n *name, from, to int) bool {
	v := c.s[from:to]
	if exemptUnder(n, v) {
		return true
	}
	if from < c.maskFrom || from > c.mask {
		c.maskFrom, c.mask = from, findMask(c.s, from, to)
	} else if c.mask < to && findMask(c.s, c.mask, min(c.mask+9, to)) != c.mask {
		// The search ended there for lack of text, or the sign of redaction
		// lies partly behind this value.
		c.mask = findMask(c.s, c.mask, to)
	}
	return c.mask < to || placeholder(v)
}

// endOfValue returns the end of the unquoted value at v.
func (c *scanner) endOfValue(v int) int {
	if c.valueFrom <= v && v < c.valueEnd {
		return c.valueEnd
	}
	end := v
	for end < len(c.s) && !is(c.s[end], stop) {
		end++
	}
	c.valueFrom, c.valueEnd = v, end
	return end
}

// spanEnd returns where a secret that starts as an unquoted value ends at the
// latest. Everything before is redacted, since a password may contain bytes
// that end other values.
func spanEnd(s []byte, end, limit int, line bool) int {
	for end < limit {
		switch c := s[end]; {
		case c == '"' || c == '\'' || c == '`' || c == '\n' || c == '\r':
			return end
		case c <= ' ' && !line, c == '&' && !line:
			return end
		}
		end++
	}
	return end
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isQuote reports whether c is a quotation mark.
func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// maxEscape is the number of backslashes up to which a quotation mark is read
// as one, which is JSON within JSON within JSON within JSON.
const maxEscape = 7

// keyEnd returns the end of the key before the separator at i, and whether it
// is quoted: "key":, key =, \"key\":, user[key]=, %22key%22%3A, \u0022key\u0022:.
func keyEnd(s []byte, i int) (end int, quoted bool) {
	for i > 0 && (isBlank(s[i-1]) || s[i-1] == 'm') {
		if isBlank(s[i-1]) {
			i--
			continue
		}
		from := colorStart(s, i)
		if from == i {
			break
		}
		i = from
	}
	for range 2 {
		switch {
		case i == 0 || is(s[i-1], letter) && (i < 3 || s[i-3] != '%'):
			return i, quoted
		case s[i-1] == ']':
			i--
		case isQuote(s[i-1]), encodedQuote(s, i) > 0:
			quoted = true
			i -= max(1, encodedQuote(s, i))
			for range maxEscape {
				if i > 0 && s[i-1] == '\\' {
					i--
				}
			}
		case hasPrefixFold(s, i-3, "%5d"):
			i -= 3
		default:
			return i, quoted
		}
	}
	return i, quoted
}

// isStringPrefix reports whether the letter of a string literal and its quotation mark stand
// at v, and not a value of one letter at the end of a JSON string: "token=b",
func isStringPrefix(s []byte, v int) bool {
	if v+2 >= len(s) || !isQuote(s[v+1]) {
		return false
	}
	switch s[v] | 0x20 {
	case 'b', 'r', 'u', 'n':
		c := s[v+2]
		return c != ',' && c != '}' && c != ']'
	}
	return false
}

// quotedValue returns the inside of the quoted value at v: "x", 'x', \"x\",
// b'x', %22x%22, \u0022x\u0022. A value whose end is cut off reaches to the end of the text.
func quotedValue(s []byte, v int) (from, to int, ok bool) {
	if isStringPrefix(s, v) { // b'x'
		v++
	}
	if percent(s, v) == '"' {
		from = v + 3
		if to = bytes.Index(s[from:], s[v:from]); to < 0 {
			return from, len(s), true
		}
		return from, from + to, true
	}
	level := 0
	for v < len(s) && s[v] == '\\' && level < maxEscape {
		v++
		level++
	}
	switch {
	case v < len(s) && isQuote(s[v]):
		from = v + 1
	case level > 0 && isQuote(unicode(s, v-1)):
		from = v - 1 + unicodeLen
	default:
		return 0, 0, false
	}
	for i := from; ; {
		q := bytes.Index(s[i:], s[v:from])
		if q < 0 {
			return from, len(s), true
		}
		i += q
		escapes := 0
		for i-escapes > from && s[i-escapes-1] == '\\' && escapes <= maxEscape {
			escapes++
		}
		if (escapes <= level || level == 0 && escapes%2 == 0) && (escapes > 0 || s[v] != 'u') {
			return from, i - min(escapes, level), true
		}
		i++
	}
}

// quotes are the quotation marks.
var quotes = [...]byte{'"', '\'', '`'}

// quoteAt returns the index in quotes of the quotation mark or of its escape (\u0022) at i, after any backslashes, and its
// end; -1 if there is none.
func quoteAt(s []byte, i int) (kind, end int) {
	c := s[i]
	if end = i + 1; c == 'u' {
		c, end = unicode(s, i-1), i-1+unicodeLen
	}
	return bytes.IndexByte(quotes[:], c), end
}

// closesString reports whether the quotation mark at v, after a name and the separator at i, ends a string that began
// before on the line, and does not begin a value: path="/login?token=" status=200. It reads the text before once.
func (c *scanner) closesString(i, v int) bool {
	s := c.s
	first := v
	for v < len(s) && s[v] == '\\' && v-first < maxEscape {
		v++
	}
	if v >= len(s) {
		return false
	}
	kind, end := quoteAt(s, v)
	if kind < 0 || end < len(s) && s[end] > ' ' && bytes.IndexByte([]byte(`,;)]}>\"'`+"`"), s[end]) < 0 {
		return false
	}
	c.lookups += max(0, i-c.quotesTo) / bytesPerLookup
	escapes := 0
	for c.quotesTo < i {
		at := c.quotesTo
		c.quotesTo++
		switch s[at] {
		case '\\':
			escapes++
			continue
		case '\n':
			c.open = [len(quotes)]uint8{}
		case '"', '\'', '`', 'u':
			if kind, end := quoteAt(s, at); kind >= 0 && escapes <= maxEscape {
				c.quote(kind, escapes, at-escapes, end)
				c.quotesTo = end
			}
		}
		escapes = 0
	}
	return c.open[kind]&(1<<(v-first)) != 0
}

// quote updates the open strings for the quotation mark in s[start:end], with its backslashes. The text around it
// decides, so that an unbalanced one (5" wide) does not reverse the meaning of those after it.
func (c *scanner) quote(kind, escapes, start, end int) {
	s := c.s
	opens := start == 0 || s[start-1] <= ' ' || bytes.IndexByte([]byte("=:([{,;<>|&+"), s[start-1]) >= 0
	closes := end >= len(s) || is(s[end], stop) || s[end] == '.' || s[end] == ':' || s[end] == '/'
	open := &c.open[kind]
	*open &= 1<<(escapes+1) - 1 // a string ends with the one around it
	switch bit := uint8(1) << escapes; {
	case opens && !closes:
		*open |= bit
	case closes && !opens:
		*open &^= bit
	case opens || quotes[kind] != '\'': // don't
		*open ^= bit
	}
}

// bracketed returns the end of a placeholder in brackets at v, such as <hidden>,
// ${NAME}, %(name)s, {{name}} or {{ name }}; v when there is none.
func bracketed(s []byte, v int) int {
	const longest = 64
	i := v
	if s[i] == '$' || s[i] == '#' || s[i] == '%' {
		i++
	}
	if i >= len(s) {
		return v
	}
	var closing byte
	switch s[i] {
	case '<':
		closing = '>'
	case '{':
		closing = '}'
	case '(':
		closing = ')'
	default:
		return v
	}
	if closing == ')' && i == v {
		return v
	}
	n := bytes.IndexByte(s[i:min(len(s), i+longest)], closing)
	if n < 0 {
		return v
	}
	end := i + n
	for end < len(s) && (s[end] == closing || i > v && s[v] == '%' && is(s[end], letter)) {
		end++
	}
	return end
}

// telling reports whether an unquoted value after a colon looks like a secret and not
// like prose: 6 or more characters with a digit or a symbol, without the brackets
// around it and the punctuation after it.
func telling(v []byte) bool {
	for len(v) > 0 && (v[0] == '(' || v[0] == '[') {
		v = v[1:]
	}
	symbol := false
	for i, c := range v {
		symbol = symbol || !is(c, letter|high) && !isBlank(c)
		if symbol && i >= 5 && !punctuation[c] { // the characters before i are not only punctuation after the value
			return true
		}
	}
	return false
}

// punctuation is the set of characters that may follow a value.
var punctuation = [256]bool{
	' ': true, '\t': true, '.': true, ',': true, ':': true, ';': true, '?': true, ')': true, ']': true, '}': true, '>': true,
}

// startsGenerated reports whether v starts with a word of 6 or more letters and digits, both of them: hunter2.
func startsGenerated(v []byte) bool {
	const shortest, longest = 6, 64
	end := run(v, 0, alnum, longest)
	if end < shortest || end < len(v) && !is(v[end], stop) || errorPrefixes[string(v[:end])] {
		return false
	}
	letters := 0
	for _, c := range v[:end] {
		if is(c, letter) {
			letters++
		}
	}
	return 0 < letters && letters < end
}

// isField reports whether v starts with the name and the colon of a field of a
// Go struct, which follow a field without a value: {Password: User:u1}.
func isField(v []byte) bool {
	if !is(v[0], upper) {
		return false
	}
	end := run(v, 0, alnum, len(v))
	return end < len(v) && v[end] == ':'
}

// errorPrefixes are the packages and formats with a digit or a symbol in their name that errors begin with.
var errorPrefixes = map[string]bool{
	"base32": true, "base64": true, "ed25519": true, "go-jose": true, "jwt-go": true, "oauth2": true, "pkcs12": true,
	"sha256": true, "sha384": true, "sha512": true,
}

// startsError reports whether the unquoted value s[v:end] after a colon is the class of an error, or a package, a path or
// namespace/name with a colon, and a word follows: get token: oauth2: cannot fetch, token: crypto/rsa: verification error.
func startsError(n *name, s []byte, v, end int) bool {
	value := s[v:end]
	if value[len(value)-1] != ':' {
		return isErrorClass(value)
	}
	const longest = 256
	if value = value[:len(value)-1]; len(value) > longest {
		return false
	}
	if isErrorClass(value) {
		return true
	}
	if !errorPrefixes[string(value)] && !namesObject(n, value) {
		return false
	}
	const longestWord = 64 // with the blanks before it
	limit := min(len(s), end+longestWord)
	from := end
	for from < limit && isBlank(s[from]) {
		from++
	}
	if from < len(s) && s[from] == '"' { // oauth2: "invalid_grant"
		from++
	}
	to := from
	for to < limit && (is(s[to], lower) || s[to] == '_') {
		to++
	}
	return end < from && from < to && (to == len(s) || is(s[to], stop) || s[to] == ':' || s[to] == '.')
}

// isErrorClass reports whether v is the name of the class of an error, as java.io.IOException, or Err, which holds errors
// in Rust.
func isErrorClass(v []byte) bool {
	return (bytes.HasSuffix(v, []byte("Exception")) || bytes.HasSuffix(v, []byte("Error")) || string(v) == "Err") && isClass(v)
}

// isClass reports whether v is the name of a class, with or without its package.
func isClass(v []byte) bool {
	class := 0
	for i, c := range v {
		switch {
		case c == '.':
			class = i + 1
		case !is(c, alnum) && c != '_':
			return false
		}
	}
	return class < len(v) && is(v[class], upper)
}

// isConstructor reports whether v is the name of a class, a parenthesis and the letter of a string literal, if any.
func isConstructor(v []byte) bool {
	end := len(v)
	if v[end-1] == 'b' || v[end-1] == 'u' {
		end--
	}
	return end > 0 && v[end-1] == '(' && isClass(v[:end-1])
}

// isReference reports whether the value is code: the field of the same name of
// another thing, as in a.token = b.token, or, when spaced, a call.
func isReference(n *name, v []byte, spaced bool) bool {
	end, dots := 0, 0
	for end < len(v) && (is(v[end], alnum) || v[end] == '_' || v[end] == '.') {
		if v[end] == '.' {
			dots++
		}
		end++
	}
	if end < len(v) {
		return spaced && end > 0 && v[end] == '('
	}
	last, _ := nameAt(v, end)
	return last == n && dots > 0
}

// isCounter reports whether the value is a number or a pointer, as the session ids of
// firewalls and of connections between servers: sessionid=155313, session_id=0x7f8ecc0421f8.
func isCounter(v []byte) bool {
	if len(v) > 2 && has(v, 0, "0x") && len(v) <= len("0x")+16 {
		for _, c := range v[2:] {
			if !isHex(c) {
				return false
			}
		}
		return true
	}
	return len(v) <= len("4294967295") && run(v, 0, digit, len(v)) == len(v)
}

// namesObject reports whether the value after a colon is where the secret is kept, a path
// or namespace/name, and not the secret: secret: kube-system/registry-credentials. Of credentials and cookies, only an
// absolute path in lower case counts.
func namesObject(n *name, v []byte) bool {
	const longest = 256
	header := n.scheme || n.line
	if len(v) > longest || header && !has(v, 0, "/") {
		return false
	}
	path := isPath(v)
	if path {
		v = bytes.TrimLeft(v, `~./\`)
	}
	slashes := 0
	for i, c := range v {
		switch {
		case c == '/' || c == '\\' && path:
			if i == 0 || i == len(v)-1 && !path {
				return false
			}
			slashes++
		case is(c, lower|digit) || c == '.' || c == '-' || c == '_':
		case path && !header && (is(c, upper) || c == ':'):
		default:
			return false
		}
	}
	if path {
		return len(v) > 0 && is(v[0], letter)
	}
	return slashes > 0
}

var schemes = [...]string{
	"bearer", "basic", "digest", "token", "apikey", "negotiate", "ntlm", "hawk", "oauth", "dpop", "aws4-hmac-sha256",
}

// isScheme reports whether v is the name of an HTTP authentication scheme.
func isScheme(v []byte) bool {
	for _, s := range schemes {
		if len(v) == len(s) && hasPrefixFold(v, 0, s) {
			return true
		}
	}
	return false
}

// jsonNumber reports whether there is a JSON number at v, and where it ends.
func jsonNumber(s []byte, v int) (ok bool, end int) {
	end = v
	for end < len(s) && (is(s[end], digit) || s[end] == '-' || s[end] == '+' || s[end] == '.' || s[end] == 'e' || s[end] == 'E') {
		end++
	}
	if end == v || !is(s[v], digit) && s[v] != '-' || end < len(s) && !is(s[end], stop) {
		return false, v
	}
	return true, end
}

// endsJSONValue reports whether no other text follows the string that ends at i on its line: a colon after the first key of
// a map in YAML, or the rest of a sentence.
func endsJSONValue(s []byte, i int) bool {
	for i < len(s) && (isQuote(s[i]) || s[i] == '\\' || isBlank(s[i])) {
		i++
	}
	return i >= len(s) || bytes.IndexByte([]byte(",]}\r\n"), s[i]) >= 0
}

// integral reports whether v is a positive integer.
func integral(v []byte) bool {
	return run(v, 0, digit, len(v)) == len(v) && v[0] != '0'
}
