// SPDX-License-Identifier: Apache-2.0

package sensitive

import (
	"bytes"
	"strings"
)

// validID reports whether v is a number of the format. v has the right form: digits and
// upper-case letters without separators. idFormats names the specifications. Direct calls
// keep v on the stack.
func validID(format int, v []byte) bool {
	switch format {
	case brazilCPF:
		return validCPF(v)
	case brazilCNPJ:
		return validCNPJ(v)
	case spainDNI:
		return validDNI(v)
	case spainNIE:
		return validNIE(v)
	case italyCF:
		return validCodiceFiscale(v)
	case franceNIR:
		return validNIR(v)
	case polandPESEL:
		return validPESEL(v)
	case swedenPersonnummer:
		return validPersonnummer(v)
	case finlandHETU:
		return validHETU(v)
	case indiaAadhaar:
		return validAadhaar(v)
	case netherlandsBSN:
		return validBSN(v)
	case portugalNIF:
		return validNIF(v)
	case canadaSIN:
		return validSIN(v)
	case australiaTFN:
		return validTFN(v)
	case australiaMedicare:
		return validMedicare(v)
	case britainNINO:
		return validNINO(v)
	case mexicoCURP:
		return validCURP(v)
	case chileRUT:
		return validRUT(v)
	case turkeyTCKN:
		return validTCKN(v)
	case germanyIDNr:
		return validIDNr(v)
	case koreaRRN:
		return validRRN(v)
	case chinaID:
		return validChinaID(v)
	case argentinaCUIT:
		return validCUIT(v)
	case belgiumNN:
		return validBelgiumNN(v)
	case switzerlandAHV:
		return validAHV(v)
	}
	return false
}

// weighted returns the sum of the digits times the weights.
func weighted(v []byte, weights ...int) (sum int) {
	for i, w := range weights {
		sum += int(v[i]-'0') * w
	}
	return sum
}

// check returns the digit that makes a sum modulo 11 valid: 11 minus the rest, and 0 for
// 10 and 11.
func check(sum int) byte {
	if rest := sum % 11; rest >= 2 {
		return byte('0' + 11 - rest)
	}
	return '0'
}

// repeated reports whether v consists of one repeated character.
func repeated(v []byte) bool { return !varied(v) }

// isDate reports whether the two digits at month and at day are a month and a day.
func isDate(v []byte, month, day int) bool {
	m, d := decimal(v[month:month+2]), decimal(v[day:day+2])
	return 1 <= m && m <= 12 && 1 <= d && d <= 31
}

// luhn reports whether the last digit is the check digit of ISO/IEC 7812-1.
func luhn(v []byte) bool {
	sum := 0
	for i := range v {
		d := int(v[len(v)-1-i] - '0')
		if i%2 == 1 {
			d = d*2%10 + d*2/10
		}
		sum += d
	}
	return sum%10 == 0
}

// mod1110 reports whether the last digit is the check digit of ISO/IEC 7064, MOD 11,10.
func mod1110(v []byte) bool {
	p := 10
	for _, c := range v[:len(v)-1] {
		s := (int(c-'0') + p) % 10
		if s == 0 {
			s = 10
		}
		p = s * 2 % 11
	}
	return (11-p)%10 == int(v[len(v)-1]-'0')
}

func validCPF(v []byte) bool {
	return !repeated(v) && check(weighted(v, 10, 9, 8, 7, 6, 5, 4, 3, 2)) == v[9] && check(weighted(v, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)) == v[10]
}

func validCNPJ(v []byte) bool {
	return !repeated(v) && check(weighted(v, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)) == v[12] &&
		check(weighted(v, 6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)) == v[13]
}

const spanishLetters = "TRWAGMYFPDXBNJZSQVHLCKE"

func validDNI(v []byte) bool {
	return !repeated(v[:8]) && spanishLetters[decimal(v[:8])%23] == v[8]
}

func validNIE(v []byte) bool {
	first := strings.IndexByte("XYZ", v[0])
	return first >= 0 && !repeated(v[1:8]) && spanishLetters[(int64(first)*10_000_000+decimal(v[1:8]))%23] == v[8]
}

func validCodiceFiscale(v []byte) bool {
	odd := [...]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}
	day := decimal(v[9:11]) % 40 // 40 is added for women
	if strings.IndexByte("ABCDEHLMPRST", v[8]) < 0 || day == 0 || day > 31 {
		return false
	}
	sum := 0
	for i, c := range v[:15] {
		n := int(c - 'A')
		if is(c, digit) {
			n = int(c - '0')
		}
		if i%2 == 0 {
			n = odd[n]
		}
		sum += n
	}
	return byte('A'+sum%26) == v[15]
}

func validNIR(v []byte) bool {
	number := [13]byte(v[:13])
	subtract := int64(0)
	switch v[6] { // Corsica
	case 'A':
		number[6], subtract = '0', 1_000_000
	case 'B':
		number[6], subtract = '0', 2_000_000
	}
	if is(v[6], upper) && (subtract == 0 || v[5] != '2') {
		return false
	}
	month := decimal(v[3:5])
	if v[0] != '1' && v[0] != '2' || month == 0 || month > 12 && month < 20 {
		return false
	}
	return 97-(decimal(number[:])-subtract)%97 == decimal(v[13:])
}

func validPESEL(v []byte) bool {
	month, day := decimal(v[2:4])%20, decimal(v[4:6]) // the century is added to the month
	return 1 <= month && month <= 12 && 1 <= day && day <= 31 && weighted(v, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)%10 == 0
}

func validPersonnummer(v []byte) bool {
	v = v[len(v)-10:]
	month, day := decimal(v[2:4]), decimal(v[4:6])%60 // 60 is added without residence
	return 1 <= month && month <= 12 && 1 <= day && day <= 31 && luhn(v)
}

func validHETU(v []byte) bool {
	serial := v[len(v)-4 : len(v)-1]
	if len(v) == 11 && strings.IndexByte("ABCDEFUVWXY", v[6]) < 0 {
		return false
	}
	return isDate(v, 2, 0) && "0123456789ABCDEFHJKLMNPRSTUVWXY"[(decimal(v[:6])*1000+decimal(serial))%31] == v[len(v)-1]
}

// The multiplication of the dihedral group of order 10, and the permutations of its
// elements by position.
var verhoeffProduct = [10][10]byte{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
	{1, 2, 3, 4, 0, 6, 7, 8, 9, 5},
	{2, 3, 4, 0, 1, 7, 8, 9, 5, 6},
	{3, 4, 0, 1, 2, 8, 9, 5, 6, 7},
	{4, 0, 1, 2, 3, 9, 5, 6, 7, 8},
	{5, 9, 8, 7, 6, 0, 4, 3, 2, 1},
	{6, 5, 9, 8, 7, 1, 0, 4, 3, 2},
	{7, 6, 5, 9, 8, 2, 1, 0, 4, 3},
	{8, 7, 6, 5, 9, 3, 2, 1, 0, 4},
	{9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
}

var verhoeffPermutation = [8][10]byte{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
	{1, 5, 7, 6, 2, 8, 3, 0, 9, 4},
	{5, 8, 0, 3, 7, 9, 6, 1, 4, 2},
	{8, 9, 1, 6, 0, 4, 3, 5, 2, 7},
	{9, 4, 5, 3, 1, 2, 6, 8, 7, 0},
	{4, 2, 8, 6, 5, 7, 3, 9, 0, 1},
	{2, 7, 9, 3, 8, 0, 6, 4, 1, 5},
	{7, 0, 4, 6, 9, 1, 3, 2, 5, 8},
}

func validAadhaar(v []byte) bool {
	var c byte
	for i := range v {
		c = verhoeffProduct[c][verhoeffPermutation[i%8][v[len(v)-1-i]-'0']]
	}
	return c == 0 && v[0] >= '2'
}

func validBSN(v []byte) bool {
	return !repeated(v) && weighted(v, 9, 8, 7, 6, 5, 4, 3, 2, -1)%11 == 0
}

func validNIF(v []byte) bool {
	return v[0] != '0' && !repeated(v) && check(weighted(v, 9, 8, 7, 6, 5, 4, 3, 2)) == v[8]
}

func validSIN(v []byte) bool { return v[0] != '0' && v[0] != '8' && luhn(v) }

func validTFN(v []byte) bool {
	return !repeated(v) && weighted(v, 1, 4, 3, 7, 5, 8, 6, 9, 10)%11 == 0
}

func validMedicare(v []byte) bool {
	return '2' <= v[0] && v[0] <= '6' && weighted(v, 1, 3, 7, 9, 1, 3, 7, 9)%10 == int(v[8]-'0')
}

func validNINO(v []byte) bool {
	if bytes.IndexByte([]byte("DFIQUV"), v[0]) >= 0 || bytes.IndexByte([]byte("DFIOQUV"), v[1]) >= 0 || v[8] > 'D' {
		return false
	}
	switch string(v[:2]) {
	case "BG", "GB", "KN", "NK", "NT", "TN", "ZZ":
		return false
	}
	return true
}

// mexicanStates are the codes of the states of birth, without separators.
const mexicanStates = "AS BC BS CC CL CM CS CH DF DG GT GR HG JC MC MN MS NT NL OC PL QT QR SP SL SR TC TS TL VZ YN ZS NE"

func validCURP(v []byte) bool {
	if !isDate(v, 6, 8) || strings.IndexByte("HMX", v[10]) < 0 || !strings.Contains(mexicanStates, string(v[11:13])) {
		return false
	}
	sum := 0
	for i, c := range v[:17] {
		n := int(c - '0')
		if is(c, upper) {
			if n = int(c-'A') + 10; c > 'N' {
				n++ // Ñ follows N
			}
		}
		sum += n * (18 - i)
	}
	return byte('0'+(10-sum%10)%10) == v[17]
}

func validRUT(v []byte) bool {
	sum, body := 0, v[:len(v)-1]
	for i := range body {
		sum += int(body[len(body)-1-i]-'0') * (2 + i%6)
	}
	return "0K987654321"[sum%11] == v[len(v)-1] && !repeated(body)
}

func validTCKN(v []byte) bool {
	odd, even := weighted(v, 1, 0, 1, 0, 1, 0, 1, 0, 1), weighted(v, 0, 1, 0, 1, 0, 1, 0, 1)
	return v[0] != '0' && (odd*7-even+100)%10 == int(v[9]-'0') && (odd+even+int(v[9]-'0'))%10 == int(v[10]-'0')
}

func validIDNr(v []byte) bool { return v[0] != '0' && !repeated(v) && mod1110(v) }

func validRRN(v []byte) bool {
	return isDate(v, 2, 4) && '1' <= v[6] && v[6] <= '8' && byte('0'+(11-weighted(v, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)%11)%10) == v[12]
}

func validChinaID(v []byte) bool {
	if year := decimal(v[6:10]); v[0] < '1' || v[0] > '8' || year < 1900 || year > 2100 || !isDate(v, 10, 12) {
		return false
	}
	return "10X98765432"[weighted(v, 7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)%11] == v[17]
}

func validCUIT(v []byte) bool {
	switch string(v[:2]) {
	case "20", "23", "24", "25", "26", "27", "30", "33", "34":
	default:
		return false
	}
	sum := weighted(v, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)
	return sum%11 != 1 && check(sum) == v[10]
}

func validBelgiumNN(v []byte) bool {
	month, day := decimal(v[2:4])%20, decimal(v[4:6]) // 20 or 40 is added in other registers
	if month > 12 || day > 31 || repeated(v) {
		return false
	}
	n, key := decimal(v[:9]), decimal(v[9:])
	return 97-n%97 == key || 97-(n+2_000_000_000)%97 == key // born since 2000
}

func validAHV(v []byte) bool {
	return string(v[:3]) == "756" && weighted(v, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1)%10 == 0
}
