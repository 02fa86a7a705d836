// SPDX-License-Identifier: Apache-2.0

package sensitive

import "assay/internal/rules/semconv"

// A name is one of the words under which every value is a secret.
type name struct {
	first, last string // "api", "key"; first is empty for names of one word
	// glued names are also found at the end of a word without any boundary,
	// as in PGPASSWORD.
	glued bool
	// integers under the name count.
	integers bool
	// counts: a small number under the name is a count, not a secret.
	counts bool
	// path: a file path under the name is a working directory.
	path bool
	// scheme: the value may start with the name of an authentication scheme.
	scheme bool
	// line: the unquoted value reaches to the end of the line.
	line bool
}

// unnamed is the name of values that are secrets for another reason.
var unnamed = new(name)

// names by their last two letters.
var names = [...]struct {
	tail string
	list []name
}{
	{"rd", []name{{last: "password", glued: true}, {first: "credit", last: "card", integers: true}}},
	{"wd", []name{{last: "passwd", glued: true}, {last: "pwd", glued: true, path: true}}},
	{"et", []name{{last: "secret", glued: true}}}, // client_secret among them
	{"en", []name{{last: "token", glued: true, counts: true}}},
	{"ey", []name{{first: "api", last: "key", glued: true}, {first: "access", last: "key", glued: true}, {first: "private", last: "key", glued: true}}},
	{"on", []name{{last: "authorization", scheme: true}}},
	{"ie", []name{{last: "cookie", counts: true, line: true}}},
	{"id", []name{{first: "session", last: "id", glued: true}, {first: "patient", last: "id", integers: true}, {first: "insurance", last: "id", integers: true}}},
	{"sn", []name{{last: "ssn", integers: true}}},
	{"er", []name{{first: "card", last: "number", integers: true}}},
	{"vv", []name{{last: "cvv", integers: true}}},
	{"an", []name{{last: "iban"}}},
	{"is", []name{{last: "diagnosis"}}},
}

// tails has, for each last but one letter, the set of last letters that end a
// name; tailIndex the position in names plus one.
var tails, tailIndex = func() (t [32]uint32, idx [32][32]uint8) {
	for i, n := range names {
		a, b := n.tail[0]-'a', n.tail[1]-'a'
		t[a] |= 1 << b
		idx[a][b] = uint8(i + 1)
	}
	return t, idx
}()

// nameAt returns the name that ends at end as the last word of what stands
// there, and where that word starts.
func nameAt(s []byte, end int) (n *name, start int) {
	if end < 3 {
		return nil, 0
	}
	a, b := (s[end-2]|0x20)-'a', (s[end-1]|0x20)-'a'
	if a >= 26 || b >= 26 || tails[a]&(1<<b) == 0 {
		return nil, 0
	}
	list := names[tailIndex[a][b]-1].list
	for i := range list {
		n = &list[i]
		p := end - len(n.last)
		if !hasFold(s, p, n.last) {
			continue
		}
		joined := true
		if n.first != "" {
			if p > 0 && (s[p-1] == '_' || s[p-1] == '-' || s[p-1] == '.' || s[p-1] == ' ') {
				joined = false
				p--
			}
			p -= len(n.first)
			if !hasFold(s, p, n.first) {
				continue
			}
		}
		if startsWord(s, p) || n.glued && joined {
			return n, p
		}
	}
	return nil, 0
}

// startsWord reports whether a word of a name starts at p: after a separator,
// after a digit, after the letter of a property flag, or where the case changes.
func startsWord(s []byte, p int) bool {
	if wordStart(s, p) {
		return true
	}
	switch {
	case is(s[p-1], digit):
		return true
	case (s[p-1] == 'D' || s[p-1] == 'P') && p >= 2 && s[p-2] == '-': // -Dapi.key=x
		return p == 2 || !is(s[p-3], alnum)
	case !is(s[p], upper):
		return false
	case is(s[p-1], lower):
		return true
	default: // DBPassword
		return p+1 < len(s) && is(s[p+1], lower)
	}
}

// maxName bounds how far a name is read back to see whether it is a key of the
// registry, the longest of which has 54 bytes.
const maxName = 96

// fullName returns the whole name of which s[word:end] is the last word, without
// what makes it a flag (--, -D).
func fullName(s []byte, word, end int) []byte {
	start, low := word, max(0, end-maxName)
	for start > low && (is(s[start-1], alnum) || s[start-1] == '.' || s[start-1] == '_' || s[start-1] == '-') {
		start--
	}
	for start < word && !is(s[start], alnum) {
		start++
	}
	if start < word && start > 0 && s[start-1] == '-' && (s[start] == 'D' || s[start] == 'P') {
		start++
	}
	return s[start:end]
}

// keyName returns the name by which everything under an attribute or map key
// is a secret, nil when there is none. Keys of the registry have none; keys of
// its templates are judged by their rest.
func keyName(key []byte) *name {
	end := len(key)
	for end > 0 && !is(key[end-1], alnum) { // user[password], headers["cookie"]
		end--
	}
	n, start := nameAt(key, end)
	if n == nil {
		return nil
	}
	if _, ok := semconv.Lookup(key); ok {
		return nil
	}
	if _, rest, ok := semconv.LookupTemplate(key); ok && start < len(key)-len(rest) {
		return nil
	}
	return n
}

// opaque reports whether the values of the key are identifiers by definition,
// so that their digits mean nothing.
func opaque(key []byte) bool {
	return string(key) == "user.id" || string(key) == "enduser.id"
}
