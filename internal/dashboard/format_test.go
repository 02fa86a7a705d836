// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNumbers(t *testing.T) {
	require.Equal(t, "1,234,567", thousands(1234567))
	require.Equal(t, "-1,234", thousands(-1234))
	require.Equal(t, "999", thousands(uint64(999)))
	require.Equal(t, "0", compact(0))
	require.Equal(t, "999", compact(999))
	require.Equal(t, "1k", compact(1000))
	require.Equal(t, "12.3k", compact(12_345))
	require.Equal(t, "1M", compact(999_999))
	require.Equal(t, "0 B", bytesText(0))
	require.Equal(t, "1.25 GB", bytesText(1_250_000_000))
	require.Equal(t, "18.4 EB", bytesText(18_446_744_073_709_551_615))
	require.Equal(t, "±0", signed(0))
	require.Equal(t, "−3", signed(-3))
	require.Equal(t, "1 service", plural(1, "service", "services"))
	require.Equal(t, "2,000 services", plural(2000, "service", "services"))
}

func TestShares(t *testing.T) {
	for part, want := range map[float64]string{0: "0%", 0.01: "<0.1%", 1: "1.0%", 12.34: "12%", 99.5: "99.5%", 99.99: ">99.9%", 100: "100%"} {
		require.Equal(t, want, percent(part, 100))
	}
	require.Equal(t, none, percent(0, 0))
}

func TestMoney(t *testing.T) {
	require.Equal(t, "$1,234.50", money(1234.5, "USD"))
	require.Equal(t, "€0.00", money(0, "EUR"))
	require.Equal(t, "<$0.01", money(0.001, "USD"))
	require.Equal(t, "CHF 12.00", money(12, "CHF"))
}

func TestTimes(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "just now", 59 * time.Second: "just now", time.Minute: "1 min ago", 90 * time.Minute: "1 h ago", 47 * time.Hour: "47 h ago",
		72 * time.Hour: "3 days ago", 50 * 24 * time.Hour: "on Oct 1, 2026", -3 * time.Hour: "in 3 h", -30 * time.Second: "just now",
	} {
		require.Equal(t, want, agoText(now.Add(-d), now), "%v", d)
	}
	require.Equal(t, `<time datetime="2026-11-20T11:58:00Z" title="2026-11-20 11:58:00 UTC">2 min ago</time>`, string(ago(now.Add(-2*time.Minute), now)))
	require.Equal(t, none, string(ago(time.Time{}, now)))
}
