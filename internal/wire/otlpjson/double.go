// SPDX-License-Identifier: Apache-2.0

package otlpjson

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"sync"
)

// maxSlow returns the limit on slow numbers in a request of n bytes: numbers with 20 or more digits that lie halfway
// between two doubles, for which strconv needs about ten microseconds. Legitimate senders write few of them.
func maxSlow(n int) int { return 1024 + n>>12 }

// double parses text and returns the nearest double, as strconv does. If it fails, it returns a reason.
func (t *transcoder) double(text []byte) (v float64, reason string) {
	d, ok := parseDecimal(text)
	if !ok {
		return parseFloat(text) // NaN, Infinity or hexadecimal
	}
	if d.exponent > maxExact && !d.cut {
		return parseFloat(text) // few digits, or out of range: strconv is fast
	}
	exact := d.exponent <= maxExact
	if exact {
		v, exact = d.value()
	}
	if exact && d.cut {
		d.mantissa++
		next, ok := d.value()
		exact = ok && next == v
	}
	if !exact {
		if t.slow++; t.slow > maxSlow(len(t.in)) {
			return 0, "too many long numbers halfway between two doubles"
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

// decimal is the number mantissa·10^exponent. If digits were cut, the number lies between it and the next mantissa.
type decimal struct {
	mantissa uint64 // at most maxDigits digits
	exponent int
	negative bool
	cut      bool
}

const (
	maxDigits   = 19
	maxExponent = 1 << 20
	maxExact    = 280 // with maxDigits digits in range
)

// parseDecimal parses a decimal number with digits before or after an optional point. It returns false for any other
// text.
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

var powersOfTen = func() (p [maxDigits + 1]uint64) {
	p[0] = 1
	for i := range maxDigits {
		p[i+1] = p[i] * 10
	}
	return p
}()

// value returns the double nearest to mantissa·10^exponent, or false if it cannot decide. The exponent is at most
// maxExact.
func (d decimal) value() (float64, bool) {
	m, e := d.mantissa, d.exponent
	switch {
	case m == 0 || e < minTiny:
		return 0, true
	case e == 0:
		return float64(m), true
	case 0 < e && e <= maxDigits:
		high, low := bits.Mul64(m, powersOfTen[e])
		if high == 0 {
			return float64(low), true
		}
		shift := bits.LeadingZeros64(high)
		v := high<<shift | low>>(64-shift)
		if low<<shift != 0 {
			v |= 1 // a sticky bit, so that the cut digits do not look like exactly half
		}
		return math.Ldexp(float64(v), 64-shift), true
	case -maxDigits <= e && e < 0:
		p := powersOfTen[-e]
		shiftP, shiftM := bits.LeadingZeros64(p), bits.LeadingZeros64(m)
		m <<= shiftM
		v, rest := bits.Div64(m>>1, m<<63, p<<shiftP)
		if rest != 0 {
			v |= 1
		}
		return math.Ldexp(float64(v), shiftP-shiftM-63), true
	case e <= maxTiny:
		if v, subnormal, ok := tiny(m, e); subnormal {
			return v, ok
		}
	}
	var text [32]byte
	b := strconv.AppendUint(text[:0], m, 10)
	b = strconv.AppendInt(append(b, 'e'), int64(e), 10)
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}

// The exponents for which a number may be subnormal. Below minTiny it is 0.
const (
	minTiny = -342
	maxTiny = -300
)

// tinyPower is 10^e as high and low, 128 bits of which the first is set, times 2^exponent.
type tinyPower struct {
	high, low uint64
	exponent  int
}

var tinyPowers = sync.OnceValue(func() []tinyPower {
	p := make([]tinyPower, maxTiny-minTiny+1)
	for e := minTiny; e <= maxTiny; e++ {
		ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-e)), nil)
		shift := 127 + ten.BitLen()
		q := new(big.Int).Lsh(big.NewInt(1), uint(shift))
		q.Quo(q, ten)
		if q.BitLen() == 129 {
			q.Rsh(q, 1)
			shift--
		}
		low := new(big.Int).And(q, new(big.Int).SetUint64(math.MaxUint64))
		p[e-minTiny] = tinyPower{q.Rsh(q, 64).Uint64(), low.Uint64(), -shift}
	}
	return p
})

// tiny returns m·10^e if that is subnormal, for exponents from minTiny to maxTiny. ok is false if 128 bits of the
// power do not decide the rounding.
func tiny(m uint64, e int) (v float64, subnormal, ok bool) {
	p := &tinyPowers()[e-minTiny]
	shift := bits.LeadingZeros64(m)
	m <<= shift
	high, middle := bits.Mul64(m, p.high)
	carried, _ := bits.Mul64(m, p.low)
	low, carry := bits.Add64(middle, carried, 0)
	high += carry
	// The number lies between (high, low)·2^exponent and 2^exponent more. The unit of a subnormal is 2^-1074, which
	// determines the bits to drop.
	drop := -1074 - (p.exponent + 64 - shift)
	if drop > 128 {
		return 0, true, true // less than half a unit
	}
	if drop < 64+11 {
		return 0, false, false
	}
	n := uint64(0)
	if drop < 128 {
		n = high >> (drop - 64)
	}
	rest := high << (128 - drop) >> (128 - drop)
	half := uint64(1) << (drop - 65)
	ok = !(rest == half && low < 2 || rest == half-1 && low >= math.MaxUint64-2)
	if rest >= half {
		n++
	}
	return math.Float64frombits(n), n <= 1<<52, ok
}
