// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"

	"assay/internal/rules/semconv"
)

// A name is a word that makes every value under it a secret.
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
	// pages: after a word such as "page", the name is a position in a list.
	pages bool
	// prose: an unquoted name before a colon is prose.
	prose bool
	// ids is the set of idFormats of which a valid number makes a secret under the name;
	// 0: any value is a secret.
	ids uint32
}

// unnamed is the name of values that are secrets for another reason.
var unnamed = new(name)

// names by their last two letters.
var names = [...]struct {
	tail string
	list []name
}{
	{"rd", []name{{last: "password", glued: true}, {first: "credit", last: "card", integers: true}, {first: "id", last: "card", ids: 1 << chinaID}}},
	{"wd", []name{{last: "passwd", glued: true}, {last: "pwd", glued: true, path: true}}},
	{"et", []name{{last: "secret", glued: true}}}, // client_secret among them
	{"en", []name{{last: "token", glued: true, counts: true, pages: true}}},
	{"ey", []name{{first: "api", last: "key", glued: true}, {first: "access", last: "key", glued: true}, {first: "private", last: "key", glued: true}}},
	{"on", []name{{last: "authorization", scheme: true}}},
	{"id", []name{
		{first: "session", last: "id", glued: true, prose: true},
		{first: "patient", last: "id", integers: true},
		{first: "insurance", last: "id", integers: true},
		{first: "national", last: "id", ids: anyID},
		{first: "tax", last: "id", ids: anyID},
		{first: "taxpayer", last: "id", ids: anyID},
		{first: "steuer", last: "id", ids: 1 << germanyIDNr},
	}},
	{"sn", []name{{last: "ssn", integers: true}, {last: "bsn", ids: 1 << netherlandsBSN}}},
	{"er", []name{
		{first: "card", last: "number", integers: true},
		{first: "insurance", last: "number", ids: 1<<britainNINO | 1<<canadaSIN},
		{first: "ni", last: "number", ids: 1 << britainNINO},
		{first: "file", last: "number", ids: 1 << australiaTFN},
		{first: "tax", last: "number", ids: anyID},
		{first: "medicare", last: "number", ids: 1 << australiaMedicare},
		{last: "burgerservicenummer", ids: 1 << netherlandsBSN},
		{last: "personnummer", ids: 1 << swedenPersonnummer},
		{last: "rijksregisternummer", ids: 1 << belgiumNN},
	}},
	{"vv", []name{{last: "cvv", integers: true}}},
	{"an", []name{{last: "iban"}}},
	{"is", []name{{last: "diagnosis"}}},
	{"ie", []name{{last: "cookie", counts: true, line: true}, {last: "nie", ids: 1 << spainNIE}}},
	{"pf", []name{{last: "cpf", ids: 1 << brazilCPF}}},
	{"pj", []name{{last: "cnpj", ids: 1 << brazilCNPJ}}},
	{"ni", []name{{last: "dni", ids: 1<<spainDNI | 1<<spainNIE}}},
	{"if", []name{{last: "nif", ids: 1<<spainDNI | 1<<spainNIE | 1<<portugalNIF}}},
	{"le", []name{{first: "codice", last: "fiscale", ids: 1 << italyCF}}},
	{"ir", []name{{last: "nir", ids: 1 << franceNIR}}},
	{"el", []name{{last: "pesel", ids: 1 << polandPESEL}}},
	{"tu", []name{{last: "hetu", ids: 1 << finlandHETU}}},
	{"us", []name{{last: "henkilotunnus", ids: 1 << finlandHETU}}},
	{"ar", []name{{last: "aadhaar", ids: 1 << indiaAadhaar}, {last: "aadhar", ids: 1 << indiaAadhaar}}},
	{"in", []name{{last: "sin", ids: 1 << canadaSIN}}},
	{"fn", []name{{last: "tfn", ids: 1 << australiaTFN}}},
	{"re", []name{{last: "medicare", ids: 1 << australiaMedicare}}},
	{"no", []name{{last: "nino", ids: 1 << britainNINO}}},
	{"rp", []name{{last: "curp", ids: 1 << mexicoCURP}}},
	{"ut", []name{{last: "rut", ids: 1 << chileRUT}}},
	{"kn", []name{{last: "tckn", ids: 1 << turkeyTCKN}}},
	{"nr", []name{{last: "idnr", ids: 1 << germanyIDNr}}},
	{"rn", []name{{last: "rrn", ids: 1 << koreaRRN}}},
	{"it", []name{{last: "cuit", ids: 1 << argentinaCUIT}}},
	{"il", []name{{last: "cuil", ids: 1 << argentinaCUIT}}},
	{"sz", []name{{last: "insz", ids: 1 << belgiumNN}}},
	{"hv", []name{{last: "ahv", ids: 1 << switzerlandAHV}}},
}

// kind returns the kind of a secret under the name.
func (n *name) kind(value []byte) Kind {
	if n.ids != 0 {
		return idUnder(n.ids, bytes.TrimSpace(value))
	}
	return NamedSecret
}

// anyID is the set of all idFormats.
const anyID = 1<<idFormatCount - 1

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

// nameAt returns the secret's name that ends at end, and where it starts.
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
		if !hasPrefixFold(s, p, n.last) {
			continue
		}
		joined := true
		if n.first != "" {
			if p > 0 && (s[p-1] == '_' || s[p-1] == '-' || s[p-1] == '.' || s[p-1] == ' ') {
				joined = false
				p--
			}
			p -= len(n.first)
			if !hasPrefixFold(s, p, n.first) {
				continue
			}
		}
		if (startsWord(s, p) || n.glued && joined) && !(n.pages && pages(s, p)) {
			return n, p
		}
	}
	return nil, 0
}

// pages reports whether a word before p, which a separator may follow, makes a token a
// position in a list or a handle of an operation: next_page_token, CancellationToken.
func pages(s []byte, p int) bool {
	if p > 0 && (s[p-1] == '_' || s[p-1] == '-' || s[p-1] == '.' || s[p-1] == ' ') {
		p--
	}
	word := pageWord(s, p)
	return word >= 0 && (startsWord(s, word) || pageWord(s, word) >= 0) // nextpagetoken
}

var pageWords = [...]string{"page", "next", "continuation", "resume", "sync", "cursor", "cancellation"}

// pageWord returns the start of the page word that ends at end, and -1 for none.
func pageWord(s []byte, end int) int {
	for _, w := range pageWords {
		if hasPrefixFold(s, end-len(w), w) {
			return end - len(w)
		}
	}
	return -1
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

// maxName limits the part of a name that is compared with the keys of the registry, the
// longest of which has 54 bytes.
const maxName = 96

// fullName returns the whole name with the last word s[word:end], without the prefix of a
// flag (--, -D).
func fullName(s []byte, word, end int) []byte {
	start, low := word, max(0, end-maxName)
	for start > low && (is(s[start-1], alnum) || s[start-1] == '.' || s[start-1] == '_' || s[start-1] == '-') && !afterEscape(s, start) {
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

// keyName returns the name that makes all values under an attribute or map key secrets,
// nil for none. Keys of the registry have none; for keys of its templates, the variable
// rest decides.
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

// opaque reports whether the values of the key are identifiers by definition, so that
// their digits have no meaning.
func opaque(key []byte) bool {
	return endsWithOne(key, idNames) && (string(key) == "user.id" || string(key) == "enduser.id" || endsWithOne(key, traceIDs[:]))
}

// traceIDs are the ends of the names of trace and span ids.
var traceIDs = [...]string{"traceid", "trace_id", "trace-id", "trace.id", "spanid", "span_id", "span-id", "span.id", "parentid", "parent_id"}

// idNames is the end of the names of ids.
var idNames = []string{"id"}

// messageIDs are the ends of the names of ids that have the form of an e-mail address.
var messageIDs = [...]string{"messageid", "message-id", "message_id", "msgid", "msg_id", "call-id", "call_id", "callid", "references", "in-reply-to"}

// endsWithOne reports whether s ends with one of the words, in any case.
func endsWithOne(s []byte, words []string) bool {
	for _, w := range words {
		if hasPrefixFold(s, len(s)-len(w), w) {
			return true
		}
	}
	return false
}

// valueOf reports whether s[start:] is the value of one of the names: name=value,
// name: "value", "name":"value", name=<value>.
func valueOf(s []byte, start int, names []string) bool {
	const most = 12 // bytes between them
	end := start
	for end > 0 && start-end < most && (isQuote(s[end-1]) || s[end-1] == '\\' || s[end-1] == '<' || isBlank(s[end-1])) {
		end--
	}
	if end == 0 || s[end-1] != '=' && s[end-1] != ':' {
		return false
	}
	for end--; end > 0 && start-end < most && (isQuote(s[end-1]) || s[end-1] == '\\' || isBlank(s[end-1])); {
		end--
	}
	return endsWithOne(s[:end], names)
}
