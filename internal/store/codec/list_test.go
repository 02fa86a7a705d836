// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
)

func TestFold(t *testing.T) {
	for name, want := range map[string]string{
		"":                    "",
		"Checkout-API":        "checkout-api",
		"ÄRGER":               "ärger",
		"a\xffB\x00C":         "a\xffb\x00c",
		"\xff\xfe":            "\xff\xfe",
		"A\uFFFDB":            "a\uFFFDb",
		"Z\xc3":               "z\xc3", // a truncated character
		"<script>ALERT(1)</S": "<script>alert(1)</s",
	} {
		require.Equal(t, want, string(Fold(name)), "%q", name)
	}
}

func FuzzFold(f *testing.F) {
	f.Add("Checkout\xff", "OUT")
	f.Fuzz(func(t *testing.T, name, other string) {
		once := Fold(name)
		require.Equal(t, once, Fold(string(once)), "Fold is idempotent")
		joined := Fold(name + "/" + other)
		require.Equal(t, string(once)+"/"+string(Fold(other)), string(joined), "a part folds as in the whole")
	})
}

func TestSignals(t *testing.T) {
	var tally Tally
	require.Zero(t, tally.Signals())
	require.Empty(t, SignalNames(0))
	tally.Usage[delta.Logs] = delta.Usage{Items: 1}
	tally.Usage[delta.Traces] = delta.Usage{Bytes: 1}
	require.Equal(t, []assay.Signal{assay.SignalTrace, assay.SignalLog}, SignalNames(tally.Signals()))
	tally.Usage[delta.Metrics] = delta.Usage{Items: 1}
	require.Equal(t, []assay.Signal{assay.SignalTrace, assay.SignalMetric, assay.SignalLog}, SignalNames(tally.Signals()))
	require.Zero(t, SignalBit("profile"))
}
