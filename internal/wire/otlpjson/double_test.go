// SPDX-License-Identifier: Apache-2.0

package otlpjson

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/wire"
)

func requireDouble(t require.TestingT, text string) {
	want, err := strconv.ParseFloat(text, 64)
	got, reason := new(transcoder).double([]byte(text))
	require.Equal(t, err == nil, reason == "", "%q: %v, %s", text, err, reason)
	if err == nil {
		require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%q: %v, not %v", text, got, want)
	}
}

// TestDouble compares parsed numbers with strconv.
func TestDouble(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "0.0", "-0e5", "1", "-1.5", "00012", "5e-324", "2.4703282292062327208e-324", "1e-400", "1.7976931348623157e308", "1.7976931348623159e308",
		"9007199254740993", "9007199254740993.0", "9007199254740993.00000000000000000001", "9007199254740992.9999999999999999", "4503599627370496.5",
		"4503599627370497.5", "18446744073709551615", "18446744073709551616", "9999999999999999999", "99999999999999999999e-30", "1e19", "1e20", "1e23",
		"0.1", "0.30000000000000004", ".5", "5.", "+7", "1e", "e5", "", ".", "-", "1.2.3", "NaN", "Infinity", "-inf", "0x1p-2", "1_000", "1e+5", "1e--5", "1e99999999999999999999",
		strings.Repeat("9", 400), "0." + strings.Repeat("0", 400) + "1e400", strings.Repeat("1", 25) + "e-320",
	} {
		requireDouble(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		format := rapid.SampledFrom([]byte("eEfg")).Draw(t, "format")
		text := strconv.FormatFloat(v, format, rapid.IntRange(-1, 25).Draw(t, "precision"), 64)
		requireDouble(t, text)
		m, e := rapid.Uint64().Draw(t, "mantissa"), rapid.IntRange(-40, 40).Draw(t, "exponent")
		requireDouble(t, fmt.Sprintf("%de%d", m>>rapid.IntRange(0, 63).Draw(t, "shift"), e))
		half := rapid.Uint64Range(1<<53, 1<<54-1).Draw(t, "half")*2 + 1 // between two doubles
		requireDouble(t, fmt.Sprintf("%d%s", half, rapid.SampledFrom([]string{"", ".0", ".00000000000001", "e1", "e-1"}).Draw(t, "tail")))
		requireDouble(t, fmt.Sprintf("%d.5", half>>2))
		requireDouble(t, fmt.Sprintf("%d.25", half>>3))
		requireDouble(t, fmt.Sprintf("%de%d", m>>rapid.IntRange(0, 63).Draw(t, "tiny shift"), rapid.IntRange(-350, -285).Draw(t, "tiny exponent")))
	})
}

// TestSlowDoubles: numbers that take strconv long are limited, whatever their exponent.
func TestSlowDoubles(t *testing.T) {
	for _, v := range []float64{1.5, 6e-320, 1.2345e-200, 1.2345e299, 1.5e308} {
		low, high := new(big.Float).SetPrec(2000).SetFloat64(v), new(big.Float).SetPrec(2000).SetFloat64(math.Nextafter(v, math.Inf(1)))
		half := low.Add(low, high)
		text := half.Quo(half, big.NewFloat(2)).Text('e', 60)
		requireDouble(t, text)
		for _, n := range []int{1000, 1100} { // 1,024 and one for each 4 KiB may be slow
			list := strings.Repeat(text+",", n-1) + text
			body := `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"histogram":{"dataPoints":[{"explicitBounds":[` + list + `]}]}}]}]}]}`
			_, err := Transcode(t.Context(), wire.Metrics, nil, []byte(body), 0)
			if n <= 1024 {
				require.NoError(t, err, text)
			} else {
				require.ErrorContains(t, err, "too many long numbers", text)
			}
		}
	}
}
