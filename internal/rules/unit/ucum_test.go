// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestValid(t *testing.T) {
	for _, u := range []string{
		// Units of the OpenTelemetry conventions.
		"1", "%", "{request}", "By", "By/s", "KiBy", "MiBy", "bit/s", "s", "ms", "us", "ns", "min", "h", "d", "wk", "mo", "a",
		"Cel", "Hz", "J", "W", "V", "A", "m", "{cpu}", "{request}/s", "{a}/{b}", "mm[Hg]", "m2", "kg.m/s2", "10*6/uL",
		// Factors and exponents.
		"0", "007", "10*", "10^", "10^-3", "10*3", "m0", "m+2", "m-2", "m12", "2.h", "1{c}", "60.s", "1.5",
		// Prefixes on metric units, two letters before one.
		"kBy", "MBy", "GBy", "TiBy", "dam", "dar", "dag", "YHz", "ym", "kbit", "Kim", "MB", "GB", "dB", "Gb", "cd", "kcal_[15]",
		"mg%", "k[iU]", "um[H2O]", "dB[SPL]", "dB[10.nV]",
		// Codes that hold characters of the grammar.
		"[m/s2/Hz^(1/2)]", "[m/s2/Hz^(1/2)]2", "B[10.nV]/s", "'", "''", "%[slope]", "[Amb'a'1'U]",
		// Leading solidus, parentheses and annotations.
		"/min", "/{tot}", "/(s)", "(s)", "((s))", "(m/s)/(kg.h)", "m/(s.(kg/mol))", "m.{x}", "{}", "{a/b(c).d[e}", "m{x}/s{y}", "m2{x}",
	} {
		require.True(t, Valid([]byte(u)), "%q is valid", u)
	}
	for _, u := range []string{
		"", " ", " s", "s ", "m s", "\ts", "s\n", "\x00", "s\x00",
		// Words and abbreviations that are no codes.
		"seconds", "second", "sec", "bytes", "Bytes", "byte", "requests", "count", "percent", "ms per op", "rpm", "bps", "USD", "hr", "days",
		"KB", "Mb", "kb", "mb", "dBm", "celsius", "C°", "°C", "µs", "Ω", "Å", "#", "$", "-", "+", "*", "^", "?", "1e3", "1,5", "-1", "+1",
		// Codes of other cases, and codes that UCUM 2.2 does not have.
		"BY", "HZ", "CEL", "MIN", "[IN_I]", "PiBy", "EiBy", "Qm", "Torr", "in", "yd",
		// Prefixes alone, doubled, or on units that are not metric.
		"k", "Ki", "da", "kkg", "mkm", "kmin", "mh", "ud", "k%", "kmo", "k10*", "kb", "k[in_i]", "k[arb'U]", "kdeg",
		// Misplaced operators.
		"/", ".", "//", "//m", "m//s", "m/", "m.", ".m", "/.m", "m./s", "m..s", "/m/", "m//", "m/.s",
		// Parentheses.
		"(", ")", "()", "(m", "m)", "(m))", "((m)", "m(s)", "(m)s", "(m)(s)", "(m)2", "(m){x}", "(/m)", "/()", "(m/)", "m/(/s)",
		// Braces and brackets.
		"{", "}", "s{", "s}", "{x", "x}", "{{x}}", "{a}}", "{a{b}", "{a}m", "{a}2", "{a}{b}", "m{a}{b}", "m{a}2", "{a b}", "{ä}", "{\x7f}", "{\x1f}",
		"[", "]", "[]", "m[", "[in_i", "in_i]", "[in_i]]", "[[in_i]]", "[unknown]", "m[Hg", "mm[H2]",
		// Factors and exponents.
		"12h", "2m", "m2s", "10+3", "110*", "10**", "10*3*", "m--2", "m+-2", "m-", "m+", "m^2", "m**2", "+m", "-m", "m 2", "1 0",
	} {
		require.False(t, Valid([]byte(u)), "%q is not valid", u)
	}
}

// TestFunctional runs the validation cases that UCUM publishes.
func TestFunctional(t *testing.T) {
	f, err := os.Open("testdata/functional.txt")
	require.NoError(t, err)
	defer f.Close()
	n := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		verdict, unit, ok := strings.Cut(lines.Text(), " ")
		require.True(t, ok, lines.Text())
		n[verdict]++
		require.Equal(t, verdict == "valid", Valid([]byte(unit)), unit)
	}
	require.Equal(t, map[string]int{"valid": 366, "invalid": 38}, n)
}

// TestTable checks the unit table as a whole: its size, its metric units, and
// what the tokenizer relies on.
func TestTable(t *testing.T) {
	require.Len(t, atoms, 312)
	require.Len(t, prefixes, 24)
	metric := 0
	for code, isMetric := range atoms {
		require.True(t, Valid([]byte(code)), code)
		require.True(t, Valid([]byte(code+"2/s")), code)
		require.True(t, Valid([]byte(code+"-3{x}")), code)
		require.Equal(t, len(code), symbolLen([]byte(code)), "%s holds a character of the grammar", code)
		last := code[len(code)-1]
		require.False(t, isDigit(last) || last == '+' || last == '-', "the exponent of %s is ambiguous", code)
		require.NotContains(t, code, " ")
		if isMetric {
			metric++
		}
		for p := range prefixes {
			if _, isUnit := atoms[p+code]; isUnit {
				continue
			}
			if !isMetric && !prefixedOtherwise(p+code) {
				require.False(t, Valid([]byte(p+code)), "%s does not accept a prefix", code)
			}
			if isMetric {
				require.True(t, Valid([]byte(p+code)), "%s accepts the prefix %s", code, p)
			}
		}
	}
	require.Equal(t, 96, metric)
	for _, code := range []string{"b", "min", "h", "d", "a", "deg", "%", "AU", "atm", "att", "Ao", "[arb'U]", "bit_s", "10*"} {
		require.False(t, atoms[code], "%s is not metric", code)
	}
	for p := range prefixes {
		_, isUnit := atoms[p]
		require.Equal(t, isUnit, Valid([]byte(p)), "only the prefix %s", p)
	}
}

// prefixedOtherwise reports whether s can also be split into another prefix and a metric unit. Neither "da" +
// "b" nor "d" + "ab" is a unit, but "d" + "ar" is.
func prefixedOtherwise(s string) bool {
	for p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok && atoms[rest] {
			return true
		}
	}
	return false
}

// drawTerm draws an expression from the grammar, nested at most depth deep.
func drawTerm(t *rapid.T, depth int) string {
	codes, metrics, pre := sortedCodes()
	var b strings.Builder
	for i := range rapid.IntRange(1, 4).Draw(t, "components") {
		if i > 0 {
			b.WriteString(rapid.SampledFrom([]string{".", "/"}).Draw(t, "operator"))
		}
		kinds := 5
		if depth > 0 {
			kinds = 6
		}
		annotation := "{" + rapid.StringOfN(rapid.SampledFrom([]rune("az09!/.()[]~|")), 0, 5, -1).Draw(t, "annotation") + "}"
		exponent := rapid.SampledFrom([]string{"", "2", "-1", "+3", "12"}).Draw(t, "exponent")
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			b.WriteString(rapid.SampledFrom(codes).Draw(t, "unit") + exponent)
		case 1:
			b.WriteString(rapid.SampledFrom(pre).Draw(t, "prefix") + rapid.SampledFrom(metrics).Draw(t, "metric") + exponent)
		case 2:
			b.WriteString(rapid.SampledFrom(codes).Draw(t, "unit") + exponent + annotation)
		case 3:
			b.WriteString(annotation)
		case 4:
			b.WriteString(rapid.StringMatching(`[0-9]{1,4}`).Draw(t, "factor"))
		case 5:
			b.WriteString("(" + drawTerm(t, depth-1) + ")")
		}
	}
	return b.String()
}

func sortedCodes() (codes, metrics, pre []string) {
	for code, isMetric := range atoms {
		codes = append(codes, code)
		if isMetric {
			metrics = append(metrics, code)
		}
	}
	for p := range prefixes {
		pre = append(pre, p)
	}
	slices.Sort(codes)
	slices.Sort(metrics)
	slices.Sort(pre)
	return codes, metrics, pre
}

// TestGrammar checks that every derivation of the grammar is valid, and that texts that no derivation
// produces are not.
func TestGrammar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		term := drawTerm(t, 3)
		require.True(t, Valid([]byte(term)), term)
		require.True(t, Valid([]byte("/"+term)), term)
		require.True(t, Valid([]byte("("+term+")")), term)
		for _, broken := range []string{
			term + "/", term + ".", "." + term, "//" + term, "(" + term, term + ")", "(" + term + ")2",
			"(/" + term + ")", term + " ", " " + term, term + "{", "}" + term, term + "µ", term + "()",
		} {
			require.False(t, Valid([]byte(broken)), broken)
		}
	})
}

// TestDepth checks that nesting costs neither stack nor quadratic time.
func TestDepth(t *testing.T) {
	const depth = 1 << 20
	open, shut := strings.Repeat("(", depth), strings.Repeat(")", depth)
	require.True(t, Valid([]byte(open+"m"+shut)))
	require.False(t, Valid([]byte(open+"m"+shut[1:])))
	require.False(t, Valid([]byte(open)))
}

func TestNoAllocations(t *testing.T) {
	units := [][]byte{[]byte("By/s"), []byte("kg.m/s2{x}"), []byte("ms per op"), []byte("((dB[10.nV]))")}
	name := []byte("http.server.request.duration")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, u := range units {
			Valid(u)
			NamedIn(u, name)
		}
	}))
}

func FuzzValid(f *testing.F) {
	for _, s := range []string{"kg.m/s2", "/{x}", "(10*-3{rbc}/uL)", "[m/s2/Hz^(1/2)]", "s{", "10+3"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, unit []byte) {
		before := string(unit)
		valid := Valid(unit)
		require.Equal(t, before, string(unit), "the input is unchanged")
		if valid {
			require.Equal(t, before[0] != '/', Valid([]byte("("+before+")")), "%q in parentheses", before)
			for _, c := range unit {
				require.True(t, '!' <= c && c <= '~', "%q holds a character outside 33 to 126", before)
			}
			require.True(t, Valid([]byte(before+"/s")), before)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	for _, unit := range []string{"1", "By/s", "{request}", "kg.m/s2", "seconds"} {
		b.Run(strings.ReplaceAll(unit, "/", "_per_"), func(b *testing.B) {
			u := []byte(unit)
			b.ReportAllocs()
			for b.Loop() {
				Valid(u)
			}
		})
	}
}
