// SPDX-License-Identifier: Apache-2.0

package otlpjson

import (
	"math"
	"math/bits"
	"strconv"
)

// maxSlow is how many numbers a request of n bytes may hold that take strconv some ten
// microseconds: those below the smallest normal number, and those with more digits than
// a double that lie between two of them. No sender has reason to write many.
func maxSlow(n int) int { return 1024 + n>>12 }

// double returns the number that text stands for, rounded to the nearest double, as
// strconv does. It returns a reason when it cannot.
func (t *transcoder) double(text []byte) (v float64, reason string) {
	d, ok := parseDecimal(text)
	if !ok {
		return parseFloat(text) // a word, or hexadecimal
	}
	slow := false
	switch {
	case d.mantissa == 0:
	case !d.small():
		slow = true
	case !d.cut:
		v = d.value()
	default:
		next := d
		next.mantissa++
		v = d.value()
		slow = v != next.value()
	}
	if slow {
		if t.slow++; t.slow > maxSlow(len(t.in)) {
			return 0, "too many numbers that are subnormal or between two doubles"
		}
		return parseFloat(text)
	}
	if d.negative {
		v = -v
	}
	return v, ""
}

func parseFloat(text []byte) (float64, string) {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, "not a number, or out of range"
	}
	return v, ""
}

// decimal is the number mantissa·10^exponent, or one between it and the next mantissa
// if digits were cut.
type decimal struct {
	mantissa uint64 // at most maxDigits digits
	exponent int
	negative bool
	cut      bool
}

const (
	maxDigits   = 19
	maxExponent = 1 << 20
)

// parseDecimal reads a decimal number with digits before or after an optional point. It
// returns false for anything else.
func parseDecimal(text []byte) (d decimal, ok bool) {
	i, digits, seen, point := 0, 0, false, false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		d.negative = text[0] == '-'
		i++
	}
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		seen = true
		switch {
		case digits < maxDigits:
			if d.mantissa = d.mantissa*10 + uint64(c-'0'); d.mantissa > 0 {
				digits++
			}
			if point {
				d.exponent--
			}
		default:
			d.cut = d.cut || c != '0'
			if !point {
				d.exponent++
			}
		}
	}
	if !seen {
		return d, false
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		i++
		sign := 1
		if i < len(text) && (text[i] == '-' || text[i] == '+') {
			if text[i] == '-' {
				sign = -1
			}
			i++
		}
		if i == len(text) {
			return d, false
		}
		e := 0
		for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
			e = min(e*10+int(text[i]-'0'), maxExponent)
		}
		d.exponent += sign * e
	}
	return d, i == len(text)
}

// small reports whether strconv is fast for the number, its mantissa not being 0.
func (d decimal) small() bool { return -300 < d.exponent && d.exponent < 280 }

var powersOfTen = func() (p [maxDigits + 1]uint64) {
	p[0] = 1
	for i := range maxDigits {
		p[i+1] = p[i] * 10
	}
	return p
}()

// value returns the double nearest to mantissa·10^exponent.
func (d decimal) value() float64 {
	m, e := d.mantissa, d.exponent
	switch {
	case e == 0:
		return float64(m)
	case 0 < e && e <= maxDigits:
		high, low := bits.Mul64(m, powersOfTen[e])
		if high == 0 {
			return float64(low)
		}
		shift := bits.LeadingZeros64(high)
		v := high<<shift | low>>(64-shift)
		if low<<shift != 0 {
			v |= 1 // so that what is cut off does not look like half of the last digit
		}
		return math.Ldexp(float64(v), 64-shift)
	case -maxDigits <= e && e < 0:
		p := powersOfTen[-e]
		shiftP, shiftM := bits.LeadingZeros64(p), bits.LeadingZeros64(m)
		m <<= shiftM
		v, rest := bits.Div64(m>>1, m<<63, p<<shiftP)
		if rest != 0 {
			v |= 1
		}
		return math.Ldexp(float64(v), shiftP-shiftM-63)
	}
	var text [32]byte
	b := strconv.AppendUint(text[:0], m, 10)
	b = strconv.AppendInt(append(b, 'e'), int64(e), 10)
	v, _ := strconv.ParseFloat(string(b), 64) // it is in range
	return v
}
