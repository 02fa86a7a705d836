// SPDX-License-Identifier: Apache-2.0

package unit

// names holds the words that name a unit, in lower case: its English names, singular and
// plural, and the unit itself unless it resembles another word.
var names = map[string][]string{
	"s":    {"second", "seconds"},
	"ms":   {"millisecond", "milliseconds", "ms"},
	"us":   {"microsecond", "microseconds", "us"},
	"ns":   {"nanosecond", "nanoseconds", "ns"},
	"min":  {"minute", "minutes"}, // "min" mostly means minimum
	"h":    {"hour", "hours"},
	"d":    {"day", "days"},
	"By":   {"byte", "bytes"},
	"KiBy": {"kibibyte", "kibibytes"},
	"MiBy": {"mebibyte", "mebibytes"},
	"GiBy": {"gibibyte", "gibibytes"},
	"kBy":  {"kilobyte", "kilobytes"},
	"MBy":  {"megabyte", "megabytes"},
	"GBy":  {"gigabyte", "gigabytes"},
	"bit":  {"bit", "bits"},
	"%":    {"percent", "percents"},
	"Cel":  {"celsius"},
	"Hz":   {"hertz"},
	"J":    {"joule", "joules"},
	"W":    {"watt", "watts"},
	"V":    {"volt", "volts"},
	"A":    {"ampere", "amperes"},
	"m":    {"meter", "meters", "metre", "metres"},
	"g":    {"gram", "grams"},
	"kg":   {"kilogram", "kilograms", "kg"},
}

// HasName reports whether rule MET-005 applies to unit, because the unit has a name.
func HasName(unit []byte) bool {
	_, ok := names[string(unit)]
	return ok
}

// NamedIn reports whether one of the words of metricName names unit, which fails rule
// MET-005. The separators of words are ".", "_", "-" and "/". Case does not matter.
func NamedIn(unit, metricName []byte) bool {
	words, ok := names[string(unit)]
	if !ok {
		return false
	}
	start := 0
	for i, c := range metricName {
		switch c {
		case '.', '_', '-', '/':
			if i > start && isOneOf(metricName[start:i], words) {
				return true
			}
			start = i + 1
		}
	}
	return isOneOf(metricName[start:], words)
}

// isOneOf reports whether word, in lower case, is one of words.
func isOneOf(word []byte, words []string) bool {
	for _, w := range words {
		if equalLower(word, w) {
			return true
		}
	}
	return false
}

// equalLower reports whether word, its ASCII letters in lower case, equals lower.
func equalLower(word []byte, lower string) bool {
	if len(word) != len(lower) {
		return false
	}
	for i, c := range word {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
