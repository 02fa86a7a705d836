// SPDX-License-Identifier: Apache-2.0

package sensitive

import "math/bits"

// An idFormat is a national identification or tax number with a checksum.
type idFormat struct {
	kind Kind
	// plain is the number without separators: d stands for a digit, A for a letter, x for
	// either. alternative is another such form, empty for none.
	plain, alternative string
	// text is the form that counts in any text, with its separators and letters in upper
	// case; empty for numbers that look like other numbers, which count under their name
	// only.
	text string
}

// Positions in idFormats.
const (
	brazilCPF = iota
	brazilCNPJ
	spainDNI
	spainNIE
	italyCF
	franceNIR
	polandPESEL
	swedenPersonnummer
	finlandHETU
	indiaAadhaar
	netherlandsBSN
	portugalNIF
	canadaSIN
	australiaTFN
	australiaMedicare
	britainNINO
	mexicoCURP
	chileRUT
	turkeyTCKN
	germanyIDNr
	koreaRRN
	chinaID
	argentinaCUIT
	belgiumNN
	switzerlandAHV
	idFormatCount
)

// idFormats are the national identification and tax numbers. The comment of each is its
// public specification.
var idFormats = [idFormatCount]idFormat{
	// Receita Federal do Brasil, Instrução Normativa RFB nº 2.172/2024.
	brazilCPF: {TaxID, "ddddddddddd", "", "ddd.ddd.ddd-dd"},
	// Receita Federal do Brasil, Instrução Normativa RFB nº 2.119/2022, numbers issued before
	// the letters of 2026.
	brazilCNPJ: {TaxID, "dddddddddddddd", "", "dd.ddd.ddd/dddd-dd"},
	// Spain, Real Decreto 1553/2005, artículo 11; Orden INT/2058/2008 for foreigners.
	spainDNI: {NationalID, "ddddddddA", "", "dddddddd-A"},
	spainNIE: {NationalID, "AdddddddA", "", "AdddddddA"},
	// Italy, Decreto del Ministero delle Finanze 23/12/1976, n. 13814.
	italyCF: {TaxID, "AAAAAAddAddAdddA", "", "AAAAAAddAddAdddA"},
	// INSEE, Répertoire national d'identification des personnes physiques, décret 82-103.
	franceNIR: {NationalID, "ddddddddddddddd", "dddddxddddddddd", "d dd dd dx ddd ddd dd"},
	// Poland, ustawa o ewidencji ludności of 24/9/2010, art. 15.
	polandPESEL: {NationalID, "ddddddddddd", "", ""},
	// Skatteverket, SKV 704; folkbokföringslag (1991:481), 18 §.
	swedenPersonnummer: {NationalID, "dddddddddd", "dddddddddddd", ""},
	// Digital and Population Data Services Agency, Valtioneuvoston asetus 128/2010; the form
	// in a text ends with a letter.
	finlandHETU: {NationalID, "dddddddddx", "ddddddAdddx", "dddddd-dddA"},
	// UIDAI, Aadhaar Authentication API specification 2.5, section 3.3 (Verhoeff).
	indiaAadhaar: {NationalID, "dddddddddddd", "", ""},
	// Rijksdienst voor Identiteitsgegevens, Logisch Ontwerp BSN, 11-proef.
	netherlandsBSN: {NationalID, "ddddddddd", "", ""},
	// Portugal, Decreto-Lei n.º 14/2013, artigo 9.º.
	portugalNIF: {TaxID, "ddddddddd", "", ""},
	// Canada, Employment Insurance Act, sections 138 to 141; the check digit of ISO/IEC 7812-1.
	canadaSIN: {NationalID, "ddddddddd", "", ""},
	// Australian Taxation Office, TFN algorithm; Services Australia, Medicare number.
	australiaTFN:      {TaxID, "ddddddddd", "", ""},
	australiaMedicare: {NationalID, "dddddddddd", "ddddddddddd", ""},
	// HMRC, National Insurance Manual NIM39110. It has no checksum but rules for the letters.
	britainNINO: {NationalID, "AAddddddA", "", ""},
	// RENAPO, rules for the assignment of the CURP, Diario Oficial of 18 October 2021.
	mexicoCURP: {NationalID, "AAAAddddddAAAAAAxd", "", "AAAAddddddAAAAAAxd"},
	// Servicio de Registro Civil e Identificación, Chile; modulo 11.
	chileRUT: {NationalID, "ddddddddx", "dddddddx", "dd.ddd.ddd-x"},
	// Nüfus ve Vatandaşlık İşleri, law 5490, article 46.
	turkeyTCKN: {NationalID, "ddddddddddd", "", ""},
	// Abgabenordnung, § 139b; ISO/IEC 7064, MOD 11,10.
	germanyIDNr: {TaxID, "ddddddddddd", "", ""},
	// Republic of Korea, Resident Registration Act, Enforcement Rules article 2, numbers
	// issued until 2020.
	koreaRRN: {NationalID, "ddddddddddddd", "", "dddddd-ddddddd"},
	// GB 11643-1999; a number of digits alone counts under its name only.
	chinaID: {NationalID, "dddddddddddddddddx", "", "dddddddddddddddddA"},
	// AFIP, Resolución General 10/1997.
	argentinaCUIT: {TaxID, "ddddddddddd", "", "dd-dddddddd-d"},
	// Belgium, Koninklijk besluit of 3/4/1984 on the Rijksregisternummer.
	belgiumNN: {NationalID, "ddddddddddd", "", "dd.dd.dd-ddd.dd"},
	// Switzerland, AHVV (SR 831.101), article 133; the check digit of EAN-13.
	switzerlandAHV: {NationalID, "ddddddddddddd", "", "ddd.dddd.dddd.dd"},
}

// An idAnchor finds a format in a text by one of its runs of digits.
type idAnchor struct {
	format int
	before int // bytes of the form before the run
}

// maxIDRun is the length of the longest run of digits in a form in text.
const maxIDRun = 17

// idAnchors are the anchors by the length of the run. The run is the first one of at least
// three digits, or of two digits after a letter: the scanner does not look at others.
// idAfter are the anchors, one bit for each, that a byte may follow.
var idAnchors, idAfter = func() (t [maxIDRun + 1][]idAnchor, next [maxIDRun + 1][256]uint8) {
	for format, f := range idFormats {
		for i := 0; i < len(f.text); {
			end := i
			for end < len(f.text) && f.text[end] == 'd' {
				end++
			}
			if n := end - i; n >= 3 || n == 2 && i > 0 && f.text[i-1] == 'A' {
				first, last := f.text[end], f.text[end]
				if first == 'A' {
					last = 'Z'
				}
				for c := first; c <= last; c++ {
					next[n][c] |= 1 << len(t[n])
				}
				t[n] = append(t[n], idAnchor{format, i})
				break
			}
			i = max(end, i+1)
		}
	}
	return t, next
}()

// nationalID looks at the run of digits s[i:end] for a number in its form in text.
func nationalID(s []byte, i, end int) finding {
	n := end - i
	if n > maxIDRun || end == len(s) {
		return finding{}
	}
	for set := idAfter[n][s[end]]; set != 0; set &= set - 1 {
		a := &idAnchors[n][bits.TrailingZeros8(set)]
		if i < a.before {
			continue
		}
		f := &idFormats[a.format]
		start := i - a.before
		stop := start + len(f.text)
		if stop > len(s) || !matches(s[start:stop], f.text) || !numberStart(s, start) || !numberEnd(s, stop) || joined(s, start, stop) {
			continue
		}
		var buf [maxIDLength]byte
		if v := idCharacters(buf[:0], s[start:stop]); v != nil && validID(a.format, v) {
			return finding{f.kind, start, stop}
		}
	}
	return finding{}
}

// matches reports whether v has the form, letters in upper case.
func matches(v []byte, form string) bool {
	for i := range len(form) {
		c := v[i]
		switch form[i] {
		case 'd':
			if !is(c, digit) {
				return false
			}
		case 'A':
			if !is(c, upper) {
				return false
			}
		case 'x':
			if !is(c, digit|upper) {
				return false
			}
		default:
			if c != form[i] {
				return false
			}
		}
	}
	return true
}

// joined reports whether a hyphen, a slash or an underscore joins s[start:end] to a word.
func joined(s []byte, start, end int) bool {
	joins := func(c byte) bool { return c == '-' || c == '/' || c == '_' || c == '.' }
	return start > 1 && joins(s[start-1]) && is(s[start-2], alnum) || end+1 < len(s) && joins(s[end]) && is(s[end+1], alnum)
}

// maxIDLength is the length of the longest number, without separators.
const maxIDLength = 18

// maxIDText is how much of a text a number with separators can take.
const maxIDText = 32

// idCharacters appends the letters and digits of v to dst, letters in upper case. It
// returns nil if v has another character than separators, or is too long.
func idCharacters(dst, v []byte) []byte {
	for _, c := range v {
		switch {
		case is(c, digit|upper):
		case is(c, lower):
			c &^= 0x20
		case c == ' ' || c == '-' || c == '.' || c == '/' || c == '+':
			continue
		default:
			return nil
		}
		if len(dst) == maxIDLength {
			return nil
		}
		dst = append(dst, c)
	}
	return dst
}

// idUnder returns the kind of the number v, with or without separators, under a name that
// stands for the formats in the set.
func idUnder(formats uint32, v []byte) Kind {
	var buf [maxIDLength]byte
	if len(v) > maxIDText {
		return None
	}
	v = idCharacters(buf[:0], v)
	for format := range idFormats {
		f := &idFormats[format]
		if formats&(1<<format) == 0 || len(v) != len(f.plain) && len(v) != len(f.alternative) || len(v) == 0 {
			continue
		}
		if (len(v) == len(f.plain) && matches(v, f.plain) || len(v) == len(f.alternative) && matches(v, f.alternative)) && validID(format, v) {
			return f.kind
		}
	}
	return None
}
