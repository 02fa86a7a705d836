// SPDX-License-Identifier: Apache-2.0

package sensitive

// A finding is a kind and the bytes of the text that make it up.
type finding struct {
	kind       Kind
	start, end int
}

// A scanner scans one text. The zero value with s set is ready.
type scanner struct {
	s []byte
	// pos is the position where next continues.
	pos int
	// shapes skips secrets by name.
	shapes bool
	// The quotation marks of the strings that are open at quotesTo: for each of quotes, one bit for each number of
	// backslashes before it.
	open     [len(quotes)]uint8
	quotesTo int
	// userinfo is the position of the '@' after the user part of the last
	// URL; it is not the '@' of an e-mail address.
	userinfo int
	// The last '@' before an address of a data source name, and the colon before
	// it that may separate user and password; 0: none.
	dsnAt, dsnColon int
	// The word that wordBefore looked at last, and the end of the last :// in it.
	wordStart, wordEnd, urlEnd int
	// No line ends in [lineFrom, lineTo).
	lineFrom, lineTo int
	// Token bytes without a digit and with letters of one case at most, and their
	// classes.
	plainFrom, plainTo int
	plainSeen          uint16
	// No sk- key starts before noKey.
	noKey int
	// An unquoted value that starts in [valueFrom, valueEnd) ends at
	// valueEnd, and no sign of redaction starts in [maskFrom, mask). Both
	// keep nested values such as cookie=token=cookie=... linear.
	valueFrom, valueEnd int
	maskFrom, mask      int
	// The meter and the lookups that it has not counted yet.
	meter   Meter
	lookups int
}

// meterBytes is the number of bytes after which the meter is called.
const meterBytes = 64 << 10

// settle counts the remaining lookups.
func (c *scanner) settle() {
	if c.meter != nil && c.lookups > 0 {
		c.meter(c.lookups, true)
	}
}

// Actions of the scan at a byte.
const (
	skip = iota
	atDigit
	atColon
	atEquals
	atAt
	atPercent
	atDash
	atUnderscore
	atA
	atB
	atJ
	atW
	atEsc
)

var triggers = func() (t [256]uint8) {
	for c := '0'; c <= '9'; c++ {
		t[c] = atDigit
	}
	t[':'], t['='], t['@'], t['%'], t['-'], t['_'] = atColon, atEquals, atAt, atPercent, atDash, atUnderscore
	t['A'], t['B'], t['b'], t['J'], t['w'], t[esc] = atA, atB, atB, atJ, atW, atEsc
	return t
}()

// next returns the next finding, and the zero finding at the end of the text.
// Findings come in the order of their triggers; one may start before the end
// of the one before it.
func (c *scanner) next() finding {
	for {
		stop := len(c.s)
		if c.meter != nil {
			stop = min(stop, c.pos+meterBytes)
		}
		if f := c.scan(stop); f.kind != None || c.pos >= len(c.s) {
			return f
		}
		n := c.lookups
		c.lookups = 0
		if !c.meter(n, false) {
			c.pos = len(c.s)
			return finding{}
		}
	}
}

// scan is next for triggers before stop.
func (c *scanner) scan(stop int) finding {
	s := c.s
	i := c.pos
	for before := s[:stop]; ; i++ {
		for i < len(before)-3 { // four at a time, as most bytes of prose are no triggers
			next := before[i : i+4]
			if triggers[next[0]]|triggers[next[1]]|triggers[next[2]]|triggers[next[3]] != skip {
				break
			}
			i += 4
		}
		for i < len(before) && triggers[before[i]] == skip { // without a bounds check
			i++
		}
		if i >= len(before) {
			break
		}
		var f finding
		switch triggers[before[i]] {
		case atDigit:
			end := i + 1
			for end < len(s) && s[end]-'0' < 10 {
				end++
			}
			if end-i >= 3 || end-i == 2 && i >= 2 && is(s[i-1], letter) {
				c.lookups++
				f = c.number(i, end)
			}
			if f.kind == None {
				// Nothing starts within a word; the digits of %3D are none.
				if f.end > 0 {
					end = f.end
				} else if i == 0 || s[i-1] != '%' {
					for end < len(s) && is(s[end], alnum) {
						end++
					}
				}
				i = end - 1
				continue
			}
		case atColon:
			slashes := 0
			if i+1 < len(s) && (s[i+1] == '/' || s[i+1] == '\\') {
				slashes = slashesEnd(s, i+1)
			}
			if slashes > 0 {
				f = c.authority(slashes)
			} else if mayEndName(s, i) {
				f = c.named(i, 1, false)
			}
		case atEquals:
			if mayEndName(s, i) {
				f = c.named(i, 1, true)
			}
		case atAt:
			f = c.at(i)
		case atPercent:
			f = c.percent(i)
		case atDash:
			if i > 0 && isQuote(s[i-1]) {
				f = c.flag(i)
			} else if i+1 < len(s) && s[i+1] == '-' {
				f = privateKey(s, i)
			} else if i >= 2 && is(s[i-1], letter) && (dashTails[s[i-1]] || s[i-2] == 'x') {
				f = c.dashToken(i)
			}
		case atUnderscore:
			if i >= 3 && underscoreTails[s[i-1]] {
				f = c.underscoreToken(i)
			}
		case atA:
			c.lookups++
			f = aToken(s, i)
		case atB:
			if i+7 < len(s) && (s[i+2]|0x20 == 'a' || s[i+2]|0x20 == 's') {
				f = httpCredentials(s, i)
			}
		case atJ:
			f = jwt(s, i-2)
		case atW:
			if i > 0 && s[i-1] == 'e' {
				f = jwt(s, i-1)
			}
		case atEsc:
			if end := colorEnd(s, i); end > i {
				i = end - 1
				continue
			}
		}
		if f.kind != None {
			c.pos = max(f.end, i+1)
			return f
		}
	}
	c.pos = i
	return finding{}
}

// slashesEnd returns the end of the two slashes at i, which JSON may escape (\/\/), and 0 if there are none.
func slashesEnd(s []byte, i int) int {
	for range 2 {
		for n := 0; i < len(s) && s[i] == '\\' && n < maxEscape; n++ {
			i++
		}
		if i >= len(s) || s[i] != '/' {
			return 0
		}
		i++
	}
	return i
}

// percent handles a percent-encoded character.
func (c *scanner) percent(i int) finding {
	switch percent(c.s, i) {
	case '@':
		c.lookups++
		return email(c.s, i, 3)
	case '=':
		return c.encoded(i, len("%3D"), true)
	case ':':
		if hasPrefixFold(c.s, i+3, "%2f%2f") {
			c.lookups += 2 * encodedLookups
			return encodedAuthority(c.s, i+9)
		}
		return c.encoded(i, len("%3A"), false)
	}
	return finding{}
}

// unicode handles an escape of JSON at i. If it finds nothing, it returns the end of the escape.
func (c *scanner) unicode(i int) finding {
	char, end := unicode(c.s, i), i+unicodeLen
	switch char {
	case esc:
		return finding{end: max(end, colorEnd(c.s, i))}
	case '=', ':':
		for range maxEscape {
			if i > 0 && c.s[i-1] == '\\' { // JSON within JSON
				i--
			}
		}
		if f := c.encoded(i, end-i, char == '='); f.kind != None {
			return f
		}
	}
	return finding{end: end}
}

// encoded is named for a separator that is encoded, which takes as long as a lookup even without a name.
func (c *scanner) encoded(i, width int, equals bool) finding {
	c.lookups++
	if !mayEndName(c.s, i) {
		return finding{}
	}
	c.lookups += encodedLookups
	return c.named(i, width, equals)
}

// at handles an '@'.
func (c *scanner) at(i int) finding {
	if i > 0 && c.userinfo == i {
		return finding{}
	}
	c.lookups++
	if f := c.dsnPassword(i); f.kind != None {
		return f
	}
	return email(c.s, i, 1)
}

// Last bytes of the prefixes of dashToken and underscoreToken.
var (
	dashTails       = [256]bool{'k': true, 't': true, 's': true, 'X': true, 'p': true}
	underscoreTails = [256]bool{'p': true, 'o': true, 'u': true, 's': true, 'r': true, 't': true, 'e': true, 'c': true}
)

// mayEndName is the cheap part of the check of named before a separator. It returns
// false if the text there, quoted or not, cannot be a secret's name.
func mayEndName(s []byte, i int) bool {
	if i > 0 && s[i-1] == '"' {
		i--
	}
	if i < 3 {
		return false
	}
	switch c := s[i-1]; {
	case is(c, letter):
		a, b := (s[i-2]|0x20)-'a', (c|0x20)-'a'
		return a < 26 && tails[a]&(1<<b) != 0 || (s[i-3] == '%' || c == 'm') && (hasPrefixFold(s, i-3, "%5d") || colorStart(s, i) < i)
	case is(c, digit):
		return (s[i-3] == '%' || s[i-3] == '0') && encodedQuote(s, i) > 0
	default:
		return isBlank(c) || c == ']' || c == '\\' || isQuote(c)
	}
}
