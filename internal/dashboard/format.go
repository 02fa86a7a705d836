// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// none is shown in place of a missing value.
const none = "–"

// thousands returns a count with separators: 1,234,567.
func thousands[T int | int64 | uint64 | uint32](n T) string { return grouped(fmt.Sprint(n)) }

// grouped puts separators into the digits before the point.
func grouped(s string) string {
	whole, fraction, _ := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction
}

// compact returns a count in three or four characters: 950, 12.3k, 4.5M.
func compact(n uint64) string { return scaled(float64(n), []string{"", "k", "M", "G", "T", "P"}, "") }

// bytesText returns bytes in the units that prices are in, powers of ten: 1.25 GB.
func bytesText(n uint64) string {
	return scaled(float64(n), []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}, " ")
}

// scaled returns a number with three significant digits in the largest unit that does
// not exceed it. Each unit is 1,000 times the previous one.
func scaled(f float64, units []string, space string) string {
	i := 0
	for f >= 999.5 && i < len(units)-1 {
		f /= 1000
		i++
	}
	digits := 0
	if i > 0 {
		digits = 2 - min(2, int(math.Log10(f)))
	}
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + strings.TrimRight(space+units[i], " ")
}

// percent returns a part of a whole as a percentage, with enough digits to distinguish
// it from 0 % and 100 %.
func percent(part, whole float64) string {
	if whole <= 0 {
		return none
	}
	p := 100 * part / whole
	switch {
	case p == 0 || p == 100:
		return fmt.Sprintf("%.0f%%", p)
	case p < 0.1:
		return "<0.1%"
	case p > 99.9:
		return ">99.9%"
	case p < 10 || p > 99:
		return fmt.Sprintf("%.1f%%", p)
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

// symbols are the symbols of currencies that most readers recognize. Other currencies
// are shown by their code.
var symbols = map[string]string{"USD": "$", "EUR": "€", "GBP": "£"}

// money returns an amount with two digits: $1,234.50, CHF 12.00.
func money(amount float64, currency string) string {
	symbol, ok := symbols[currency]
	if !ok {
		symbol = currency + " "
	}
	if amount > 0 && amount < 0.01 {
		return "<" + symbol + "0.01"
	}
	return symbol + grouped(strconv.FormatFloat(amount, 'f', 2, 64))
}

// plural returns a count with its noun: 1 service, 2,000 services.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// signed returns a change of points: +5, −3, ±0.
func signed(n int) string {
	switch {
	case n > 0:
		return "+" + strconv.Itoa(n)
	case n < 0:
		return "−" + strconv.Itoa(-n)
	default:
		return "±0"
	}
}

// Layouts of times, all in UTC.
const (
	absoluteLayout = "2006-01-02 15:04:05 UTC"
	minuteLayout   = "Jan 2, 15:04"
	dayLayout      = "Jan 2, 2006"
)

// ago returns the time from t to now in words that change at most once a minute, in an
// element with the exact time.
func ago(t, now time.Time) template.HTML {
	if t.IsZero() {
		return none
	}
	return stamp(t, agoText(t, now))
}

func agoText(t, now time.Time) string {
	const day = 24 * time.Hour
	switch d := now.Sub(t); {
	case d < -time.Minute:
		return "in " + spanText(-d)
	case d < time.Minute:
		return "just now"
	case d < 45*day:
		return spanText(d) + " ago"
	default:
		return "on " + t.UTC().Format(dayLayout)
	}
}

// spanText returns a length of time in its largest whole unit.
func spanText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	default:
		return strconv.Itoa(int(d/day)) + " days"
	}
}

// stamp returns text in a time element whose title is the exact time.
func stamp(t time.Time, text string) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `" title="` + t.Format(absoluteLayout) + `">` + template.HTMLEscapeString(text) + `</time>`)
}
