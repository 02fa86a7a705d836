// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamedIn(t *testing.T) {
	for _, tc := range []struct {
		unit, name string
		want       bool
	}{
		{"s", "http.server.request.duration.seconds", true},
		{"s", "process_cpu_seconds_total", true},
		{"s", "uptime-second", true},
		{"s", "uptime/Seconds", true},
		{"s", "SECONDS", true},
		{"s", "second", true},
		{"s", "duration.s", false},
		{"s", "durationSeconds", false},
		{"s", "milliseconds", false},
		{"s", "secondsx", false},
		{"s", "seconds total", false},
		{"s", "", false},
		{"s", "..", false},
		{"ms", "duration_ms", true},
		{"ms", "duration.MS", true},
		{"ms", "duration_milliseconds", true},
		{"ms", "duration_seconds", false},
		{"ms", "rooms", false},
		{"us", "latency.us", true},
		{"us", "latency.microsecond", true},
		{"ns", "latency-ns", true},
		{"ns", "latency/nanoseconds", true},
		{"kg", "load.kg", true},
		{"kg", "load.kilograms", true},
		{"kg", "load.grams", false},
		{"g", "load.gram", true},
		{"g", "load.g", false},
		{"min", "value.min", false},
		{"min", "value.minutes", true},
		{"min", "value.minute", true},
		{"h", "value.hours", true},
		{"h", "value.h", false},
		{"d", "age.days", true},
		{"By", "memory.bytes", true},
		{"By", "memory.byte", true},
		{"By", "memory.by", false},
		{"By", "memory.kilobytes", false},
		{"KiBy", "memory.kibibytes", true},
		{"MiBy", "memory.mebibyte", true},
		{"GiBy", "memory.gibibytes", true},
		{"kBy", "memory.kilobytes", true},
		{"MBy", "memory.megabytes", true},
		{"GBy", "memory.gigabyte", true},
		{"bit", "net.bits", true},
		{"bit", "net.bit", true},
		{"%", "cpu.percent", true},
		{"%", "cpu.percentage", false},
		{"Cel", "temp.celsius", true},
		{"Cel", "temp.cel", false},
		{"Hz", "clock.hertz", true},
		{"Hz", "clock.hz", false},
		{"J", "energy.joules", true},
		{"W", "power.watt", true},
		{"V", "battery.volts", true},
		{"A", "current.amperes", true},
		{"m", "length.meters", true},
		{"m", "length.metre", true},
		{"m", "length.m", false},
		// Units without a name in the rule.
		{"", "seconds", false},
		{"1", "one", false},
		{"By/s", "bytes.per.second", false},
		{"TiBy", "tebibytes", false},
		{"ks", "kiloseconds", false},
		{"{request}", "requests", false},
		{"S", "seconds", false},
		{"seconds", "seconds", false},
	} {
		require.Equal(t, tc.want, NamedIn([]byte(tc.unit), []byte(tc.name)), "%s in %s", tc.unit, tc.name)
	}
}

func TestHasName(t *testing.T) {
	want := []string{
		"s", "ms", "us", "ns", "min", "h", "d", "By", "KiBy", "MiBy", "GiBy", "kBy", "MBy", "GBy", "bit", "%", "Cel", "Hz",
		"J", "W", "V", "A", "m", "g", "kg",
	}
	require.Len(t, names, len(want))
	for _, u := range want {
		require.True(t, HasName([]byte(u)), u)
		require.True(t, Valid([]byte(u)), u)
	}
	for _, u := range []string{"", "1", "{request}", "S", "MS", "by", "TiBy", "ks", "By/s", "By{x}", "cm", "C", "wk"} {
		require.False(t, HasName([]byte(u)), u)
	}
}
