// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Redacted replaces sensitive data in cleaned texts.
const Redacted = "[redacted]"

// Text searches free text, such as a log body or a span name, for sensitive data: data
// with a known shape, and secrets after a name (name=value, name: value, "name":"value").
// It returns the kind of the first finding.
func Text(s []byte) Kind { return Meter(nil).Text(s) }

// Meter counts the work of searches, beyond that of reading the text, in lookups of names and numbers. It is called
// after each 64 KiB of a text and at its end, and reports whether the search may continue. A search that may not finds
// nothing, so its caller must not use the result. A nil Meter does not count.
type Meter func(lookups int, end bool) bool

// Text is Text with the Meter.
func (m Meter) Text(s []byte) Kind {
	c := scanner{s: s, meter: m}
	kind := c.next().kind
	c.settle()
	return kind
}

// Under is the effect of an attribute or map key on the values under it. Compute it once
// for a key with many values. The zero value is for no key.
type Under struct {
	name   *name // makes every value a secret; nil: none
	opaque bool
	id     bool // the name ends with "id"
	meter  Meter
}

// UnderKey returns the effect of a key. The key may be nil.
func UnderKey(key []byte) Under { return Meter(nil).UnderKey(key) }

// UnderKey is UnderKey for searches with the Meter.
func (m Meter) UnderKey(key []byte) Under {
	if len(key) == 0 {
		return Under{meter: m}
	}
	return Under{name: keyName(key), opaque: opaque(key), id: endsWithOne(key, idNames), meter: m}
}

// Text searches a string value under the key. It prefers a kind from the value's shape
// to NamedSecret, which is less specific.
func (u Under) Text(value []byte) Kind {
	if u.name != nil && !u.meter.reads(value) { // secret reads it, too
		return None
	}
	c := scanner{s: value, meter: u.meter}
	f := c.next()
	if u.opaque {
		for f.kind >= PaymentCard && f.kind <= TaxID {
			f = c.next()
		}
	}
	c.settle()
	if u.id && f.kind == PaymentCard && f.end-f.start == len(value) && len(value) >= minLongID {
		f = finding{}
	}
	switch {
	case f.kind != None:
		return f.kind
	case u.secret(value):
		return u.name.kind(value)
	case loneCard(value) && !u.opaque:
		return PaymentCard
	}
	return None
}

// secret reports whether the value is a secret because of its key.
func (u Under) secret(value []byte) bool {
	n := u.name
	if n == nil || exempt(n, value) {
		return false
	}
	if !n.scheme {
		return true
	}
	at := credentials(value)
	return at < len(value) && (at < 0 || !exempt(n, value[at:]))
}

// Integer searches an integer value.
func (u Under) Integer(v int64) Kind {
	const smallest, long = 1_000_000_000_000, 10_000_000_000_000_000 // of 13 digits, of minLongID digits
	if v >= smallest && !u.opaque && (v < long || !u.id) {
		var buf [20]byte
		if cardNumber(strconv.AppendInt(buf[:0], v, 10)) {
			return PaymentCard
		}
	}
	switch n := u.name; {
	case v <= 0 || n == nil:
	case n.integers:
		return NamedSecret
	case n.ids != 0:
		var buf [20]byte
		return idUnder(n.ids, strconv.AppendInt(buf[:0], v, 10))
	}
	return None
}

// In returns the effect of a key on the evidence of a value nested under an outer
// key: the name of a secret covers everything under it.
func (u Under) In(outer Under) Under {
	if outer.name != nil && (u.name == nil || u.name.ids != 0 && outer.name.ids == 0) { // an id alone is no secret
		return outer
	}
	return u
}

// Secret reports whether evidence shows no number under the key, whatever its value.
func (u Under) Secret() bool { return u.name != nil && u.name.ids == 0 }

// Named is Under.Text for a key with one value.
func Named(key, value []byte) Kind { return UnderKey(key).Text(value) }

// Integer is Under.Integer for a key with one value.
func Integer(key []byte, v int64) Kind { return UnderKey(key).Integer(v) }

// Flag reports whether an element of an array, such as process.command_args, is
// a flag of a secret's name without a value (--password), so that the next
// element is its value.
func Flag(element []byte) bool {
	name := bytes.TrimLeft(element, "-")
	if dashes := len(element) - len(name); dashes < 1 || dashes > 2 || bytes.HasPrefix(name, []byte("no-")) {
		return false
	}
	for _, c := range name {
		if !is(c, alnum) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	n := keyName(name)
	return n != nil && n.ids == 0 // an id needs a checksum
}

// FlagValue searches the element of an array that follows one for which Flag is true.
func FlagValue(value []byte) Kind { return Meter(nil).FlagValue(value) }

// FlagValue is FlagValue with the Meter.
func (m Meter) FlagValue(value []byte) Kind {
	if kind := m.Text(value); kind != None {
		return kind
	}
	at := credentials(value)
	if anotherFlag(value) || exempt(unnamed, value) || at > 0 && exempt(unnamed, value[at:]) {
		return None
	}
	return NamedSecret
}

// anotherFlag reports whether the element after a flag is a flag.
func anotherFlag(v []byte) bool {
	return len(v) > 1 && v[0] == '-' && is(v[len(v)-1], alnum) && (v[1] == '-' || is(v[1], letter))
}

// Key searches an attribute or map key itself, which may contain an e-mail address or a
// token.
func Key(key []byte) Kind { return Text(key) }

// Clean returns the text with [redacted] in place of all findings of Text, and with
// U+FFFD in place of invalid UTF-8. Text finds nothing in the result. Clean returns a
// valid text without findings unchanged.
func Clean(s []byte) string { return Meter(nil).Clean(s) }

// Clean is Clean with the Meter. If the search may not continue, it returns [redacted].
func (m Meter) Clean(s []byte) string {
	if !utf8.Valid(s) {
		s = bytes.ToValidUTF8(s, []byte("\uFFFD"))
	}
	// The text around a replacement can be sensitive, too. Except for crafted texts, this
	// ends after one more round.
	const rounds = 4
	for range rounds {
		kind := m.Text(s)
		if !m.reads(s) {
			break
		}
		if kind == None {
			return string(s)
		}
		s = m.replace(s)
	}
	if m.Text(s) == None && m.reads(s) {
		return string(s)
	}
	return Redacted
}

// bytesPerLookup is the number of bytes that a search reads in the time of a lookup.
const bytesPerLookup = 8

// reads counts one reading of s. It reports whether the search may continue.
func (m Meter) reads(s []byte) bool { return m == nil || m(len(s)/bytesPerLookup, true) }

// CleanNamed is Under.Clean for a key with one value.
func CleanNamed(key, value []byte) string { return UnderKey(key).Clean(value) }

// Clean is Clean for a value under the key. If the key makes the value a secret, it
// replaces the whole value.
func (u Under) Clean(value []byte) string {
	value = bytes.ToValidUTF8(value, []byte("\uFFFD"))
	switch kind := u.Text(value); {
	case !u.meter.reads(value):
		return Redacted
	case kind == None:
		return string(value)
	case u.secret(value) || loneCard(value):
		return Redacted
	}
	return u.meter.Clean(value)
}

// replace replaces the findings in s once.
func (m Meter) replace(s []byte) []byte {
	out := make([]byte, 0, len(s))
	c := scanner{s: s, meter: m}
	done := 0
	for f := c.next(); f.kind != None; f = c.next() {
		c.lookups += namedLookups // about as long as the search for a name
		if f.end <= done {
			continue
		}
		out = append(out, s[done:max(f.start, done)]...)
		out = append(out, Redacted...)
		done = f.end
	}
	c.settle()
	return append(out, s[done:]...)
}
