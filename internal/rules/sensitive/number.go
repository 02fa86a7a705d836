// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"slices"
)

// number looks at the run of digits s[i:end]. If it finds nothing and an escape begins with the digits (\u003d), it
// returns the end of the escape.
func (c *scanner) number(i, end int) finding {
	s := c.s
	if i >= 2 && is(s[i-1], letter) {
		if s[i-1] == 'u' && isUnicode(s, i-len(`\u`)) {
			return c.unicode(i - len(`\u`))
		}
		if f := c.iban(i - 2); f.kind != None {
			return f
		}
		if s[i-1] == 'a' && has(s, i-2, "ya29.") && wordStart(s, i-2) {
			return c.shaped(GoogleKey, i-2, i+3, 20)
		}
	}
	if i > 0 && s[i-1] == '%' && end-i > 2 && percent(s, i-1) != 0 { // %204111...
		i += 2
	}
	if f := nationalID(s, i, end); f.kind != None {
		return f
	}
	var f finding
	switch n := end - i; {
	case n == 3:
		f = ssn(s, i)
	case n == 4:
		f = groupedCard(s, i)
	case 13 <= n && n <= 19:
		f = card(s, i, end)
	}
	if f.kind == None && i > 0 && s[i-1] == '"' {
		f = quotedCard(s, i)
	}
	return f
}

// numberStart reports whether a number may start at i: it is not the end of a
// word, of a decimal number or of a longer row of groups.
func numberStart(s []byte, i int) bool {
	if !wordStart(s, i) {
		return false
	}
	return i < 2 || s[i-1] != '.' || !is(s[i-2], digit)
}

// numberEnd is numberStart for the end.
func numberEnd(s []byte, i int) bool {
	return wordEnd(s, i) && (i+1 >= len(s) || s[i] != '.' || !is(s[i+1], digit))
}

// card looks at a run of 13 to 19 digits.
func card(s []byte, start, end int) finding {
	if !numberStart(s, start) || !numberEnd(s, end) || inIdentifier(s, start) || hexBefore(s, start) || hexAfter(s, end) {
		return finding{}
	}
	if !cardNumber(s[start:end]) || afterTraceID(s, start) || valueOf(s, start, traceIDs[:]) || end-start >= minLongID && valueOf(s, start, idNames) {
		return finding{}
	}
	return finding{PaymentCard, start, end}
}

// afterTraceID reports whether the number at start follows a trace id, as the span id of X-Cloud-Trace-Context
// does. In a path, the hexadecimal digits are another id.
func afterTraceID(s []byte, start int) bool {
	const length = 32
	id := start - 1 - length
	return id >= 0 && s[start-1] == '/' && wordStart(s, id) && (id == 0 || s[id-1] != '/') && !slices.ContainsFunc(s[id:start-1], func(b byte) bool { return !isHex(b) })
}

// minLongID is the number of digits from which a number under a name that ends with "id"
// is an id: ids of 64 bits have 17 to 19 digits, and few cards have.
const minLongID = 17

// inIdentifier reports whether the number at start is part of an identifier (a letter and
// '_' before it: blk_411..., blk_-411...) or has a sign, which no card number has.
func inIdentifier(s []byte, start int) bool {
	if start > 0 && s[start-1] == '-' {
		start--
		if start == 0 || !is(s[start-1], alnum|high) && s[start-1] != '_' {
			return true
		}
	}
	return start >= 2 && s[start-1] == '_' && is(s[start-2], letter)
}

// hexBefore and hexAfter report whether a hyphen joins the number at its start
// or end to a group with a digit in it, as in a UUID or an order number.
func hexBefore(s []byte, start int) bool {
	if start < 2 || s[start-1] != '-' {
		return false
	}
	for i := start - 2; i >= max(0, start-34) && is(s[i], alnum); i-- {
		if is(s[i], digit) {
			return true
		}
	}
	return false
}

func hexAfter(s []byte, end int) bool {
	if end+1 >= len(s) || s[end] != '-' {
		return false
	}
	for i := end + 1; i < min(len(s), end+34) && is(s[i], alnum); i++ {
		if is(s[i], digit) {
			return true
		}
	}
	return false
}

// cardNumber reports whether the digits, among which separators are ignored, are a payment
// card number: an issuer's first digits and length, and a valid check digit. None of these
// numbers reads as a time in ms, us or ns between 2000 and 2038.
func cardNumber(s []byte) bool {
	sum, n, prefix := 0, 0, 0
	for i := len(s) - 1; i >= 0; i-- {
		if i >= 2 && s[i-2] == '%' { // a separator such as %20
			i -= 2
			continue
		}
		d := int(s[i] - '0')
		if d > 9 {
			continue
		}
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	if sum%10 != 0 {
		return false
	}
	for i, k := 0, 0; k < 4; i++ {
		if is(s[i], digit) {
			prefix = prefix*10 + int(s[i]-'0')
			k++
		}
	}
	for _, r := range issuers {
		if r.from <= prefix && prefix <= r.to && r.lengths&(1<<n) != 0 {
			return true
		}
	}
	return false
}

// issuers are the ranges of the first four digits of payment card numbers, and the set of
// their lengths as bits.
var issuers = [...]struct{ from, to, lengths int }{
	{3400, 3499, 1 << 15}, {3700, 3799, 1 << 15}, // American Express
	{3000, 3059, 1 << 14}, {3600, 3699, 1 << 14}, {3800, 3999, 1 << 14}, // Diners Club
	{4000, 4999, 1<<13 | 1<<16 | 1<<19},          // Visa
	{5100, 5599, 1 << 16}, {2221, 2720, 1 << 16}, // Mastercard
	{6011, 6011, 1<<16 | 1<<19}, {6440, 6599, 1<<16 | 1<<19}, // Discover
	{3528, 3589, 1<<16 | 1<<19},                                                                                        // JCB
	{6200, 6299, 1<<16 | 1<<17 | 1<<18 | 1<<19},                                                                        // UnionPay
	{5000, 5099, 1<<16 | 1<<19}, {5600, 5899, 1<<16 | 1<<19}, {6300, 6399, 1<<16 | 1<<19}, {6700, 6799, 1<<16 | 1<<19}, // Maestro
	{2200, 2204, 1 << 16},                        // Mir
	{6000, 6099, 1 << 16}, {8100, 8299, 1 << 16}, // RuPay; 508 is among Maestro's
	{9792, 9792, 1 << 16}, // Troy
}

func decimal(d []byte) (v int64) {
	for _, c := range d {
		v = v*10 + int64(c-'0')
	}
	return v
}

// groupedCard looks at a group of four digits at i for a card number written in
// groups: of four, the last one shorter or not, 4-4-4-5 and 4-4-4-6, or 4-6-5
// and 4-6-4. The groups are joined by single spaces or hyphens, also as '+' or percent-encoded.
func groupedCard(s []byte, i int) finding {
	next, sep := separator(s, i+4)
	if sep == 0 || !numberStart(s, i) || inIdentifier(s, i) {
		return finding{}
	}
	// No other group may precede the first one, except a small number before a space.
	if hexBefore(s, i) {
		return finding{}
	}
	if i > 1 && s[i-1] == ' ' && sep == ' ' && is(s[i-2], digit) && digitsBefore(s, i-1) > 3 {
		return finding{}
	}
	if i >= 5 && s[i-1] == sep && is(s[i-2], digit) && is(s[i-3], digit) && is(s[i-4], letter) && is(s[i-5], letter) && wordStart(s, i-5) { // DE89 3704 ...
		return finding{}
	}
	total, groups, last := 4, 1, sep
	for next > 0 {
		end := run(s, next, digit, 8)
		n := end - next
		total += n
		groups++
		following, sep := separator(s, end)
		switch {
		case groups == 2 && n == 6:
			if following == 0 {
				return finding{}
			}
			if end = run(s, following, digit, 8); end-following == 4 || end-following == 5 {
				_, sep = separator(s, end)
				return groupedEnd(s, i, end, last, sep)
			}
			return finding{}
		case n == 0 || n > 4 && (groups != 4 || n > 6) || total > 19:
			return finding{}
		case total >= 13:
			if f := groupedEnd(s, i, end, last, sep); f.kind != None {
				return f
			}
		}
		if n != 4 {
			return finding{}
		}
		next = following
		if sep != 0 {
			last = sep
		}
	}
	return finding{}
}

// groupedEnd looks at the card number in groups s[start:end]. The separators
// are the last one in it and the one behind it.
func groupedEnd(s []byte, start, end int, inner, outer byte) finding {
	if !numberEnd(s, end) || !cardNumber(s[start:end]) {
		return finding{}
	}
	if outer == '-' || hexAfter(s, end) {
		return finding{}
	}
	if outer != 0 && outer == inner {
		if after, _ := separator(s, end); run(s, after, digit, 8)-after > 3 {
			return finding{}
		}
	}
	return finding{PaymentCard, start, end}
}

// maxLoneCard is the maximum number of bytes of a card number in groups of any length.
const maxLoneCard = 40

// quotedCard looks at the string value of a JSON object, with its first digit at i, for a
// lone card number: {"pan":"622202 1234567890128"}.
func quotedCard(s []byte, i int) finding {
	end := i
	for end < len(s) && end-i < maxLoneCard && (is(s[end], digit) || s[end] == ' ' || s[end] == '-') {
		end++
	}
	if end >= len(s) || s[end] != '"' && !has(s, end, `\"`) || !loneCard(s[i:end]) {
		return finding{}
	}
	colon := i - 1
	for colon > 0 && i-colon < maxEscape && (s[colon-1] == '\\' || isBlank(s[colon-1])) {
		colon--
	}
	if colon < 2 || s[colon-1] != ':' || s[colon-2] != '"' || valueOf(s, i, traceIDs[:]) {
		return finding{}
	}
	return finding{PaymentCard, i, end}
}

// loneCard reports whether the whole value is a card number in groups of any
// length. Within a text such groups are more often two numbers side by side.
func loneCard(v []byte) bool {
	if len(v) < 13 || is(v[0], letter) { // most values
		return false
	}
	v = bytes.TrimSpace(v)
	if len(v) < 13 || len(v) > maxLoneCard || !is(v[0], digit) || !is(v[len(v)-1], digit) {
		return false
	}
	digits := 0
	for _, c := range v {
		switch {
		case is(c, digit):
			digits++
		case c != ' ' && c != '-':
			return false
		}
	}
	return digits < len(v) && 13 <= digits && digits <= 19 && cardNumber(v)
}

// separator returns the start of the group of digits after the separator at i and the
// character that the separator encodes; 0 and 0 if no digit follows.
func separator(s []byte, i int) (next int, sep byte) {
	if i >= len(s) {
		return 0, 0
	}
	switch s[i] {
	case ' ', '-':
		next, sep = i+1, s[i]
	case '+':
		next, sep = i+1, ' '
	case '%':
		if sep = percent(s, i); sep != ' ' && sep != '-' {
			return 0, 0
		}
		next = i + 3
	default:
		return 0, 0
	}
	if next >= len(s) || !is(s[next], digit) {
		return 0, 0
	}
	return next, sep
}

// digitsBefore counts the digits before i, at most five.
func digitsBefore(s []byte, i int) (n int) {
	for n < 5 && i-n > 0 && is(s[i-n-1], digit) {
		n++
	}
	return n
}

// ssn looks at three digits at i for a social security number.
func ssn(s []byte, i int) finding {
	const length = len("ddd-dd-dddd")
	if len(s)-i < length || s[i+3] != '-' || s[i+6] != '-' ||
		run(s, i+4, digit, 2) != i+6 || run(s, i+7, digit, 4) != i+length {
		return finding{}
	}
	end := i + length
	area, group, serial := decimal(s[i:i+3]), decimal(s[i+4:i+6]), decimal(s[i+7:end])
	if area == 0 || area == 666 || area >= 900 || group == 0 || serial == 0 {
		return finding{}
	}
	if !numberStart(s, i) || !numberEnd(s, end) || hexAfter(s, end) {
		return finding{}
	}
	if i > 1 && s[i-1] == '-' && is(s[i-2], alnum) { // ssn-512-33-9071, but not part-no-512-33-9071
		if n, _ := nameAt(s, i-1); n == nil || n.last != "ssn" {
			return finding{}
		}
	}
	return finding{SSN, i, end}
}

// ibanLengths by country, from the IBAN registry of SWIFT, release 99.
var ibanLengths = map[[2]byte]int{
	{'A', 'D'}: 24, {'A', 'E'}: 23, {'A', 'L'}: 28, {'A', 'T'}: 20, {'A', 'Z'}: 28, {'B', 'A'}: 20, {'B', 'E'}: 16,
	{'B', 'G'}: 22, {'B', 'H'}: 22, {'B', 'I'}: 27, {'B', 'R'}: 29, {'B', 'Y'}: 28, {'C', 'H'}: 21, {'C', 'R'}: 22,
	{'C', 'Y'}: 28, {'C', 'Z'}: 24, {'D', 'E'}: 22, {'D', 'J'}: 27, {'D', 'K'}: 18, {'D', 'O'}: 28, {'E', 'E'}: 20,
	{'E', 'G'}: 29, {'E', 'S'}: 24, {'F', 'I'}: 18, {'F', 'K'}: 18, {'F', 'O'}: 18, {'F', 'R'}: 27, {'G', 'B'}: 22,
	{'G', 'E'}: 22, {'G', 'I'}: 23, {'G', 'L'}: 18, {'G', 'R'}: 27, {'G', 'T'}: 28, {'H', 'N'}: 28, {'H', 'R'}: 21,
	{'H', 'U'}: 28, {'I', 'E'}: 22, {'I', 'L'}: 23, {'I', 'Q'}: 23, {'I', 'S'}: 26, {'I', 'T'}: 27, {'J', 'O'}: 30,
	{'K', 'W'}: 30, {'K', 'Z'}: 20, {'L', 'B'}: 28, {'L', 'C'}: 32, {'L', 'I'}: 21, {'L', 'T'}: 20, {'L', 'U'}: 20,
	{'L', 'V'}: 21, {'L', 'Y'}: 25, {'M', 'C'}: 27, {'M', 'D'}: 24, {'M', 'E'}: 22, {'M', 'K'}: 19, {'M', 'N'}: 20,
	{'M', 'R'}: 27, {'M', 'T'}: 31, {'M', 'U'}: 30, {'N', 'I'}: 28, {'N', 'L'}: 18, {'N', 'O'}: 15, {'O', 'M'}: 23,
	{'P', 'K'}: 24, {'P', 'L'}: 28, {'P', 'S'}: 29, {'P', 'T'}: 25, {'Q', 'A'}: 29, {'R', 'O'}: 24, {'R', 'S'}: 22,
	{'R', 'U'}: 33, {'S', 'A'}: 24, {'S', 'C'}: 31, {'S', 'D'}: 18, {'S', 'E'}: 24, {'S', 'I'}: 19, {'S', 'K'}: 24,
	{'S', 'M'}: 27, {'S', 'O'}: 23, {'S', 'T'}: 25, {'S', 'V'}: 28, {'T', 'L'}: 23, {'T', 'N'}: 24, {'T', 'R'}: 26,
	{'U', 'A'}: 29, {'V', 'A'}: 22, {'V', 'G'}: 24, {'X', 'K'}: 20, {'Y', 'E'}: 30,
}

// ibanLength is ibanLengths by the letters of the country, A being 0.
var ibanLength = func() (t [32][32]uint8) {
	for country, n := range ibanLengths {
		t[country[0]-'A'][country[1]-'A'] = uint8(n)
	}
	return t
}()

// iban looks at two letters and two digits at i for an IBAN, contiguous or in
// groups of four joined by single spaces or hyphens, also as '+' or %20.
func (c *scanner) iban(i int) finding {
	s := c.s
	if !is(s[i], letter) || !wordStart(s, i) {
		return finding{}
	}
	letters := chars[s[i]] & letter // of one case
	length := ibanLength[s[i]&^0x20-'A'][s[i+1]&^0x20-'A']
	if length == 0 || !is(s[i+1], letters) {
		return finding{}
	}
	c.lookups++ // the checksum
	var sep []byte
	switch {
	case i+4 < len(s) && (s[i+4] == ' ' || s[i+4] == '-' || s[i+4] == '+'):
		sep = s[i+4 : i+5]
	case percent(s, i+4) == ' ':
		sep = s[i+4 : i+7]
	}
	// The checksum is over the number with its first four characters moved to
	// the end, letters as 10 to 35.
	var rest, head uint64
	end := i
	for n := range int(length) {
		if len(sep) > 0 && n > 0 && n%4 == 0 {
			if !bytes.HasPrefix(s[end:], sep) {
				return finding{}
			}
			end += len(sep)
		}
		if end >= len(s) {
			return finding{}
		}
		b := s[end]
		value, scale := uint64(b-'0'), uint64(10)
		if value > 9 {
			if !is(b, letters) {
				return finding{}
			}
			value, scale = uint64(b|0x20-'a')+10, 100
		}
		if n < 4 {
			head = head*scale + value
		} else {
			if rest = rest*scale + value; rest > 1<<56 {
				rest %= 97
			}
		}
		end++
	}
	if (rest%97*1_000_000+head)%97 != 1 || !wordEnd(s, end) {
		return finding{}
	}
	if letters == lower && len(sep) == 0 && (length == 16 || length == 24) && !slices.ContainsFunc(s[i:end], func(b byte) bool { return !isHex(b) }) { // a span id, an object id
		return finding{}
	}
	return finding{IBAN, i, end}
}
