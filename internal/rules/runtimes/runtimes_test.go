// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSupported(t *testing.T) {
	const (
		yes     = "supported"
		no      = "unsupported"
		unknown = "unknown"
	)
	for _, tc := range []struct{ language, sdk, runtime, want string }{
		{"nodejs", "2.0.1", "22.11.0", yes},
		{"nodejs", "2.0.1", "v22.11.0", yes},
		{"nodejs", "v2.0.1", "12.22.12", no},
		{"nodejs", "2.0.1", "18.18.2", no},
		{"nodejs", "2.0.1", "18.19.0", yes},
		{"nodejs", "2.0.1", "18.20.8", yes},
		{"nodejs", "2.0.1", "19.9.0", no},
		{"nodejs", "2.0.1", "20.5.1", no},
		{"nodejs", "2.0.1", "v20.6.0", yes},
		{"nodejs", "2.99.0", "17.9.1", no},
		{"nodejs", "1.30.1", "13.14.0", no},
		{"nodejs", "1.30.1", "14.0.0", yes},
		{"nodejs", "1.3.1", "8.11.4", no},
		{"nodejs", "1.1.1", "8.11.4", yes},
		{"nodejs", "2.0.0-dev.1", "16.20.2", no},
		{"nodejs", "3.0.0", "22.14.0", no},
		{"nodejs", "3.0.0", "v22.15.0", yes},
		{"nodejs", "3.0.0", "20.20.2", no},
		{"nodejs", "3.99.0", "24.1.0", yes},
		{"nodejs", "4.0.0", "24.1.0", unknown},
		{"nodejs", "0.26.0", "22.11.0", unknown},

		{"go", "1.47.0", "go1.26.8 X:boringcrypto", yes},
		{"go", "1.47.0", "go1.25.9", no},
		{"go", "v1.46.0", "1.25.0", yes},
		{"go", "1.46.0", "go1.24.13", no},
		{"go", "1.29.0", "go1.21.13", yes},
		{"go", "1.30.0", "go1.21.13", no},
		{"go", "1.30.0", "go1.22rc1", yes},
		{"go", "1.0.0", "go1.15.15", yes},
		{"go", "1.99.0", "go1.25.1", no},
		{"go", "1.47.0", "devel go1.27-0123456", unknown},
		{"go", "0.20.0", "go1.26.0", unknown},
		{"go", "2.0.0", "go1.26.0", unknown},

		{"python", "1.42.0", "3.9.21", no},
		{"python", "1.42.0", "3.10.0", yes},
		{"python", "1.41.1", "3.9.21", yes},
		{"python", "1.33.0", "3.8.20", no},
		{"python", "1.32.1", "3.8.20", yes},
		{"python", "1.23.0", "3.7.17", no},
		{"python", "1.22.0", "3.7.17", yes},
		{"python", "1.13.0", "3.6.15", no},
		{"python", "1.12.0", "3.6.15", yes},
		{"python", "1.24.0", "3.13.0rc2", yes},
		{"python", "1.24.0", "2.7.18", no},

		{"java", "1.50.0", "1.8.0_392", yes},
		{"java", "1.50.0", "1.7.0_80", no},
		{"java", "1.50.0", "8", yes},
		{"java", "1.50.0", "17", yes},
		{"java", "1.50.0", "17.0.15+6-Debian-1deb12u1", yes},
		{"java", "1.50.0", "21.0.1+12-LTS", yes},
		{"java", "2.0.0", "17.0.1", unknown},

		{"dotnet", "1.12.0", "8.0.5", yes},
		{"dotnet", "1.12.0", "10.0.0", yes},
		{"dotnet", "1.12.0", "7.0.20", no},
		{"dotnet", "1.12.0", "6.0.36", no},
		{"dotnet", "1.12.0", "3.1.32", no},
		{"dotnet", "1.12.0", "4.8.1", yes},
		{"dotnet", "1.12.0", "4.6.1", no},
		{"dotnet", "1.9.0", "6.0.36", yes},
		{"dotnet", "1.9.0", "3.1.32", yes},
		{"dotnet", "1.9.0", "4.6.1", no},
		{"dotnet", "1.2.0", "4.6.1", yes},
		{"dotnet", "1.2.0", "4.6", no},
		{"dotnet", "1.1.0", "4.5.2", yes},
		{"dotnet", "1.1.0", "4.5.1", no},
		{"dotnet", "1.1.0", "1.1.13", no},
		{"dotnet", "1.12.0", "4.0.30319.42000", unknown},

		{"ruby", "1.11.1", "3.2.8", no},
		{"ruby", "1.11.1", "3.3.0", yes},
		{"ruby", "1.10.0", "3.1.7", yes},
		{"ruby", "1.8.0", "3.0.7", no},
		{"ruby", "1.7.0", "3.0.7", yes},
		{"ruby", "1.3.0", "2.7.8", no},
		{"ruby", "1.2.1", "2.6.10", yes},
		{"ruby", "1.0.3", "2.5.9", yes},

		{"php", "1.0.8", "7.4.33", yes},
		{"php", "1.0.8", "7.3.33", no},
		{"php", "1.1.0", "8.0.30", no},
		{"php", "1.1.0", "8.1.2-1ubuntu2.14", yes},
		{"php", "1.7.1", "8.4.1", yes},
		{"php", "1.7.1", "9.0.0", no},

		// Languages the table leaves out, and languages that are none.
		{"cobol", "2.0.1", "22.11.0", unknown},
		{"", "2.0.1", "22.11.0", unknown},
		{"NodeJS", "2.0.1", "12.22.12", unknown},
		{"erlang", "1.4.0", "13.2", unknown},
		{"webjs", "1.30.0", "Mozilla/5.0", unknown},
		{"rust", "0.30.0", "1.80", unknown},

		// Versions that cannot be read.
		{"nodejs", "", "22.11.0", unknown},
		{"nodejs", "2.0.1", "", unknown},
		{"nodejs", "2.0.1", "v", unknown},
		{"nodejs", "2.0.1", "latest", unknown},
		{"nodejs", "2.0.1", " 12.0.0", unknown},
		{"nodejs", "2.0.1", "-12.0.0", unknown},
		{"nodejs", "2.0.1", ".12", unknown},
		{"nodejs", "2.0.1", "vv12.0.0", unknown},
		{"nodejs", "2.0.1", "99999999999999999999.0", unknown},
		{"nodejs", "latest", "12.22.12", unknown},
	} {
		supported, known := Supported([]byte(tc.language), []byte(tc.sdk), []byte(tc.runtime))
		got := unknown
		switch {
		case known && supported:
			got = yes
		case known:
			got = no
		}
		require.Equal(t, tc.want, got, "%s SDK %q on %q", tc.language, tc.sdk, tc.runtime)
		require.False(t, supported && !known, "supported but not known")
	}
}

func TestParseVersion(t *testing.T) {
	for s, want := range map[string]version{
		"1":                       {1},
		"v1":                      {1},
		"go1.26":                  {1, 26},
		"1.26.":                   {1, 26},
		"1.2.3":                   {1, 2, 3},
		"1.2.3.4":                 {1, 2, 3},
		"1.2.x":                   {1, 2},
		"01.002":                  {1, 2},
		"1.8.0_392":               {1, 8, 0},
		"17.0.15+6":               {17, 0, 15},
		"go1.26.8 X:boringcrypto": {1, 26, 8},
		"1.0.0-rc.1":              {1, 0, 0},
		"4.8.9181.0":              {4, 8, 9181},
	} {
		got, ok := parseVersion([]byte(s))
		require.True(t, ok, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "v", "go", "vgo1", "gov1", "x1", ".1", " 1", "1000000", "1.1000000", "4294967297.0"} {
		_, ok := parseVersion([]byte(s))
		require.False(t, ok, s)
	}
}

// TestTable checks that the rows of a language join up: no gap, no overlap, no
// requirement that is ever lowered, and one whole major version at a time.
func TestTable(t *testing.T) {
	for language, rows := range table {
		for i, r := range rows {
			require.Equal(t, -1, r.sdk.low.compare(r.sdk.before), "%s row %d is empty", language, i)
			require.NotEmpty(t, r.runtimes, "%s row %d", language, i)
			for j, s := range r.runtimes {
				open := s.before == version{}
				require.True(t, open || s.low.compare(s.before) < 0, "%s row %d: runtimes %d are empty", language, i, j)
				if j > 0 {
					previous := r.runtimes[j-1].before
					require.NotEqual(t, version{}, previous, "%s row %d: runtimes %d overlap", language, i, j)
					require.LessOrEqual(t, previous.compare(s.low), 0, "%s row %d: runtimes %d overlap", language, i, j)
				}
			}
			if i > 0 {
				require.Equal(t, rows[i-1].sdk.before, r.sdk.low, "%s row %d does not follow the one before", language, i)
				require.LessOrEqual(t, rows[i-1].runtimes[0].low.compare(r.runtimes[0].low), 0, "%s row %d requires less", language, i)
			}
		}
		require.Equal(t, version{1}, rows[0].sdk.low, language)
		last := rows[len(rows)-1].sdk.before
		require.Equal(t, version{last[0]}, last, "%s ends within a major version", language)
	}
}

func TestNoAllocations(t *testing.T) {
	language, sdk, runtime := []byte("nodejs"), []byte("2.0.1"), []byte("v20.20.2")
	require.Zero(t, testing.AllocsPerRun(100, func() { Supported(language, sdk, runtime) }))
}

func FuzzSupported(f *testing.F) {
	f.Add("nodejs", "2.0.1", "v20.20.2")
	f.Add("go", "1.47.0", "go1.26.8 X:boringcrypto")
	f.Add("java", "1.50.0", "1.8.0_392")
	f.Add("php", "1.1.0", "8.1.2-1ubuntu2.14")
	f.Fuzz(func(t *testing.T, language, sdk, runtime string) {
		supported, known := Supported([]byte(language), []byte(sdk), []byte(runtime))
		if !known {
			require.False(t, supported)
			return
		}
		require.Contains(t, table, language)
		if c := runtime[0]; '0' <= c && c <= '9' {
			for _, prefix := range []string{"v", "go"} {
				s, k := Supported([]byte(language), []byte(sdk), []byte(prefix+runtime))
				require.True(t, k)
				require.Equal(t, supported, s, "%s with %q", runtime, prefix)
			}
		}
	})
}
