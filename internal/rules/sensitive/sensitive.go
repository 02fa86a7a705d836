// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Redacted stands in cleaned texts where sensitive data was.
const Redacted = "[redacted]"

// Text looks at free text, such as a log body or a span name: for data that is
// known by its shape, and for secrets under a name within the text (name=value,
// name: value, "name":"value"). It returns the kind of the first one.
func Text(s []byte) Kind {
	c := scanner{s: s}
	return c.next().kind
}

// Under is what an attribute or map key says of the values under it. It is worked out
// once where a key has many values. The zero value is that of no key.
type Under struct {
	name   *name // by which every value is a secret, or nil
	opaque bool
}

// UnderKey returns what a key says. The key may be nil.
func UnderKey(key []byte) Under {
	return Under{name: keyName(key), opaque: opaque(key)}
}

// Text looks at a string value: at both the name and the value. A kind that the
// value's shape gives is preferred to NamedSecret, as it says more.
func (u Under) Text(value []byte) Kind {
	c := scanner{s: value}
	f := c.next()
	if u.opaque {
		for f.kind == PaymentCard || f.kind == SSN || f.kind == IBAN {
			f = c.next()
		}
	}
	switch {
	case f.kind != None:
		return f.kind
	case u.secret(value):
		return NamedSecret
	case loneCard(value) && !u.opaque:
		return PaymentCard
	}
	return None
}

// secret reports whether the value is a secret because of its key.
func (u Under) secret(value []byte) bool {
	n := u.name
	return n != nil && !exempt(n, value) && !(n.scheme && isScheme(bytes.TrimSpace(value)))
}

// Integer looks at an integer value.
func (u Under) Integer(v int64) Kind {
	const smallest = 1_000_000_000_000 // of 13 digits
	if v >= smallest && !u.opaque {
		var buf [20]byte
		if cardDigits(strconv.AppendInt(buf[:0], v, 10)) {
			return PaymentCard
		}
	}
	if v > 0 && u.name != nil && u.name.integers {
		return NamedSecret
	}
	return None
}

// Named is Under.Text for a key that has one value.
func Named(key, value []byte) Kind { return UnderKey(key).Text(value) }

// Integer is Under.Integer for a key that has one value.
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
	return keyName(name) != nil
}

// FlagValue looks at the element of an array that follows one for which Flag is
// true.
func FlagValue(value []byte) Kind {
	if kind := Text(value); kind != None {
		return kind
	}
	if len(value) > 1 && value[0] == '-' && is(value[len(value)-1], alnum) && (value[1] == '-' || is(value[1], letter)) { // another flag
		return None
	}
	if exempt(unnamed, value) {
		return None
	}
	return NamedSecret
}

// Key looks at an attribute or map key itself, which can hold an e-mail address
// or a token.
func Key(key []byte) Kind { return Text(key) }

// Clean returns the text with [redacted] in the place of everything that Text
// would find, and with U+FFFD in the place of invalid UTF-8. Text finds nothing
// in the result. A valid text in which Text finds nothing is returned as it is.
func Clean(s []byte) string {
	if !utf8.Valid(s) {
		s = bytes.ToValidUTF8(s, []byte("\uFFFD"))
	}
	// What is left around a replacement can be sensitive in its turn. This
	// ends after one more round for anything but texts made up for it.
	for range 4 {
		if Text(s) == None {
			return string(s)
		}
		s = replace(s)
	}
	if Text(s) == None {
		return string(s)
	}
	return Redacted
}

// CleanNamed is Under.Clean for a key that has one value.
func CleanNamed(key, value []byte) string { return UnderKey(key).Clean(value) }

// Clean is Clean for a value under the key. The whole value is replaced when the key
// makes it a secret.
func (u Under) Clean(value []byte) string {
	value = bytes.ToValidUTF8(value, []byte("\uFFFD"))
	switch {
	case u.Text(value) == None:
		return string(value)
	case u.secret(value) || loneCard(value):
		return Redacted
	}
	return Clean(value)
}

// replace replaces the findings in s once.
func replace(s []byte) []byte {
	out := make([]byte, 0, len(s))
	c := scanner{s: s}
	done := 0
	for f := c.next(); f.kind != None; f = c.next() {
		if f.end <= done {
			continue
		}
		out = append(out, s[done:max(f.start, done)]...)
		out = append(out, Redacted...)
		done = f.end
	}
	return append(out, s[done:]...)
}
